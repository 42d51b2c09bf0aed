#define _GNU_SOURCE
#include "HostShim.h"
#include <malloc.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
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

void pfs_trim_heap(void) { malloc_trim(0); }

int pfs_raise_open_files(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return -1;
    limit.rlim_cur = limit.rlim_max;
    return setrlimit(RLIMIT_NOFILE, &limit);
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
