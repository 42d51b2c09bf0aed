#define _GNU_SOURCE
#include "HostShim.h"
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <syslog.h>
#include <fcntl.h>
#include <unistd.h>

int pfs_make_undumpable(void) { return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); }

int pfs_forbid_core_files(void) {
    struct rlimit none = {0, 0};
    return setrlimit(RLIMIT_CORE, &none);
}

void pfs_forget_crash_handlers(void) {
    const int fatal[] = {SIGQUIT, SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV};
    for (size_t at = 0; at < sizeof fatal / sizeof *fatal; at++) {
        struct sigaction action;
        if (sigaction(fatal[at], NULL, &action) != 0 || action.sa_handler == SIG_IGN) continue;
        signal(fatal[at], SIG_DFL);
    }
}

int pfs_init_writers_lock(pthread_rwlock_t *lock) {
    pthread_rwlockattr_t attributes;
    pthread_rwlockattr_init(&attributes);
#ifdef __GLIBC__
    pthread_rwlockattr_setkind_np(&attributes, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
#endif
    int result = pthread_rwlock_init(lock, &attributes);
    pthread_rwlockattr_destroy(&attributes);
    return result;
}

char **pfs_environment(void) { return environ; }

void pfs_handle_signal(int number, void (*handler)(int)) {
    struct sigaction action = {.sa_handler = handler};
    sigaction(number, &action, NULL);
}

int pfs_is_ignored(const struct sigaction *action) { return action->sa_handler == SIG_IGN; }

void pfs_trim_heap(void) {
#ifdef __GLIBC__
    malloc_trim(0); /* Musl returns free memory by itself. */
#endif
}

void pfs_wipe_freed_memory(char **arguments) {
#ifdef __GLIBC__
    /* The cache of each thread must be off, as what gets there is not overwritten. */
    static const char name[] = "GLIBC_TUNABLES", wanted[] = "glibc.malloc.tcache_count=0:glibc.malloc.perturb=90";
    const char *found = getenv(name), *before = found != NULL ? found : "";
    size_t length = strlen(before), own = sizeof wanted - 1;
    char *others = strdup(before), *both = malloc(length + own + 2);
    if (others != NULL && length >= own && strcmp(others + length - own, wanted) == 0) {
        /* Started again, under the name of the link in /proc. */
        pfs_set_process_name("protectfs");
        length -= own;
        others[length > 0 ? length - 1 : 0] = 0;
    } else if (others != NULL && both != NULL) {
        sprintf(both, "%s%s%s", others, length > 0 ? ":" : "", wanted);
        if (setenv(name, both, 1) == 0) execv("/proc/self/exe", arguments);
        /* It goes on without. */
    }
    /* Other programs get what was there before. */
    if (others != NULL && others[0] != 0) setenv(name, others, 1);
    else unsetenv(name);
    free(others);
    free(both);
#else
    (void)arguments;
#endif
}

int pfs_open_files_limit(struct rlimit *limit) { return getrlimit(RLIMIT_NOFILE, limit); }

int pfs_locked_memory_limit(struct rlimit *limit) { return getrlimit(RLIMIT_MEMLOCK, limit); }

int pfs_raise_open_files(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return -1;
    limit.rlim_cur = limit.rlim_max;
    return setrlimit(RLIMIT_NOFILE, &limit);
}

int pfs_lift_limits(void) {
    const int resources[] = {RLIMIT_FSIZE, RLIMIT_CPU};
    int finite = 0;
    signal(SIGXFSZ, SIG_IGN);
    signal(SIGXCPU, SIG_IGN);
    for (int index = 0; index < 2; index += 1) {
        struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};
        if (setrlimit(resources[index], &limit) == 0) continue;
        if (getrlimit(resources[index], &limit) != 0) continue;
        limit.rlim_cur = limit.rlim_max;
        setrlimit(resources[index], &limit);
        if (limit.rlim_max != RLIM_INFINITY) finite |= 1 << index;
    }
    return finite;
}

int pfs_wait_for_input(int descriptor, const sigset_t *mask) {
    struct pollfd input = {.fd = descriptor, .events = POLLIN};
    return ppoll(&input, 1, NULL, mask);
}

int pfs_set_process_name(const char *name) { return prctl(PR_SET_NAME, name, 0, 0, 0); }

/* The process's original argument strings, which glibc passes to constructors. Swift's CommandLine may have copies. */
static char **own_arguments;
static long own_argument_count;

__attribute__((constructor)) static void keep_arguments(int count, char **arguments) {
    own_arguments = arguments;
    own_argument_count = count;
}

void pfs_hide_argument(long index, long from) {
    if (index < 0 || index >= own_argument_count || from < 0) return;
    long length = (long)strlen(own_arguments[index]);
    if (from < length) memset(own_arguments[index] + from, '*', (size_t)(length - from));
}

void pfs_syslog(int priority, const char *line) { syslog(priority | LOG_DAEMON, "%s", line); }

int pfs_pipe(int ends[2]) { return pipe2(ends, O_CLOEXEC); }

int pfs_event_descriptor(void) { return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK); }

void pfs_event_raise(int descriptor) { eventfd_write(descriptor, 1); }

void pfs_event_clear(int descriptor) {
    eventfd_t number;
    eventfd_read(descriptor, &number);
}

int pfs_signal_descriptor(const sigset_t *set) { return signalfd(-1, set, SFD_CLOEXEC | SFD_NONBLOCK); }

long pfs_lgetxattr(const char *path, const char *name, void *value, unsigned long size) {
    return lgetxattr(path, name, value, size);
}

int pfs_lsetxattr(const char *path, const char *name, const void *value, unsigned long size) {
    return lsetxattr(path, name, value, size, 0);
}

int pfs_lremovexattr(const char *path, const char *name) { return lremovexattr(path, name); }

int pfs_close_from(int first) { return (int)syscall(SYS_close_range, (unsigned)first, ~0U, 0U); }

int pfs_open_standard_streams(void) {
    for (int stream = 0; stream <= 2; stream++) {
        if (fcntl(stream, F_GETFD) >= 0) continue;
        /* open(2) returns the lowest free number, which is this one. */
        int got = open("/dev/null", O_RDONLY | O_NOCTTY);
        if (got == stream) continue;
        if (got >= 0) close(got);
        return -1;
    }
    return 0;
}

int pfs_pidfd_open(int pid) { return (int)syscall(SYS_pidfd_open, pid, 0); }

int pfs_pidfd_send_signal(int pidfd, int signal) { return (int)syscall(SYS_pidfd_send_signal, pidfd, signal, 0, 0); }

#if defined(__x86_64__)
#define VECTORS "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", \
                "xmm13", "xmm14", "xmm15"
#define SHORT(n) "pxor %%xmm" #n ", %%xmm" #n "\n\t"
#define LONG(n) "vpxorq %%zmm" #n ", %%zmm" #n ", %%zmm" #n "\n\t"

int pfs_has_aes_instructions(void) {
    __builtin_cpu_init();
    return __builtin_cpu_supports("aes") && __builtin_cpu_supports("pclmul");
}

void pfs_clear_vector_registers(void) {
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f"))
        /* Nothing that was compiled without AVX-512 keeps a value in these. */
        __asm__ volatile(LONG(16) LONG(17) LONG(18) LONG(19) LONG(20) LONG(21) LONG(22) LONG(23)
                         LONG(24) LONG(25) LONG(26) LONG(27) LONG(28) LONG(29) LONG(30) LONG(31) ::: "memory");
    if (__builtin_cpu_supports("avx"))
        __asm__ volatile("vzeroall" ::: VECTORS);
    else
        __asm__ volatile(SHORT(0) SHORT(1) SHORT(2) SHORT(3) SHORT(4) SHORT(5) SHORT(6) SHORT(7)
                         SHORT(8) SHORT(9) SHORT(10) SHORT(11) SHORT(12) SHORT(13) SHORT(14) SHORT(15) ::: VECTORS);
}
#elif defined(__aarch64__)
#define ZERO(n) "movi v" #n ".2d, #0\n\t"

int pfs_has_aes_instructions(void) {
    const unsigned long needed = HWCAP_AES | HWCAP_PMULL;
    return (getauxval(AT_HWCAP) & needed) == needed;
}

void pfs_clear_vector_registers(void) {
    __asm__ volatile(
        ZERO(0) ZERO(1) ZERO(2) ZERO(3) ZERO(4) ZERO(5) ZERO(6) ZERO(7) ZERO(8) ZERO(9) ZERO(10) ZERO(11) ZERO(12)
        ZERO(13) ZERO(14) ZERO(15) ZERO(16) ZERO(17) ZERO(18) ZERO(19) ZERO(20) ZERO(21) ZERO(22) ZERO(23) ZERO(24)
        ZERO(25) ZERO(26) ZERO(27) ZERO(28) ZERO(29) ZERO(30) ZERO(31) ::: "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7",
        "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24",
        "v25", "v26", "v27", "v28", "v29", "v30", "v31");
}
#else
int pfs_has_aes_instructions(void) { return 0; }

void pfs_clear_vector_registers(void) {}
#endif
