/*
 * The TPM helper: seals a secret in a TPM 2.0, or unseals it, in a process of its own that wipes its memory at its end.
 *
 * Usage: protectfs-tpm2 TCTI, started by protectfs(1); Request.h says what goes through standard input and output.
 * The libraries of the TPM copy secrets into their heap. So they are loaded into this process only, and never into a mount.
 */
#define _GNU_SOURCE
#include <malloc.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "Request.h"

/* Heap that the libraries get before the first secret is read, and stack that they may have used. */
enum { heap = 2 << 20, stack = 512 << 10 };

static struct pfs_request request;
static char *heap_start;

/* The libraries' copies in the stack are below the caller's frame, as this function's frame is. */
static __attribute__((noinline)) void wipe_stack(int locks) {
    volatile char frame[stack];
    explicit_bzero((void *)frame, sizeof frame);
    if (locks) mlock((const void *)frame, sizeof frame);
}

/* All memory that malloc gives is one region, which is locked and wiped as a whole. */
static void prepare_memory(void) {
    mallopt(M_ARENA_MAX, 1);
    mallopt(M_MMAP_THRESHOLD, 1 << 30);
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    void *volatile all = malloc(heap);
    free(all);
    /* The libraries have used the heap before main(). */
    heap_start = (char *)sbrk(0) - mallinfo2().arena;
    struct rlimit limit;
    if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_MEMLOCK, &limit);
    }
    /* The limit of an ordinary user may be too low for the whole process, and is enough for these. */
    if (mlockall(MCL_CURRENT) != 0) {
        mlock(heap_start, (size_t)((char *)sbrk(0) - heap_start));
        mlock(&request, sizeof request);
        wipe_stack(1);
    }
}

static _Noreturn void finish(int code) {
    explicit_bzero(&request, sizeof request);
    wipe_stack(0);
    /* From here on nothing uses the heap: _exit(2) runs no code of the libraries. */
    explicit_bzero(heap_start, (size_t)((char *)sbrk(0) - heap_start));
    _exit(code);
}

int main(int count, char **words) {
    static const struct rlimit no_core;
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    setrlimit(RLIMIT_CORE, &no_core);
    signal(SIGPIPE, SIG_IGN);
    /* The libraries print to standard error otherwise, and may be told to print secrets. */
    setenv("TSS2_LOG", "all+none", 1);
    unsetenv("TSS2_LOGFILE");
    prepare_memory();
    if (count != 2 || !pfs_read_request(&request)) {
        request.status = PFS_MISUSED;
    } else {
        pfs_run_request(&request, words[1]);
    }
    finish(pfs_write_reply(&request) ? 0 : 1);
}
