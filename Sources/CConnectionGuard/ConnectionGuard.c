#define _GNU_SOURCE
#include "CConnectionGuard.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/close_range.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* Writes to the control file of a connection. If the connection has ended in the meantime, this has no effect. */
static int abort_through(int control) { return write(control, "1\n", 2) == 2; }

/*
 * Aborts the connection without fusectl. A forced unmount (root only) first aborts the connection. It then fails, because
 * the descriptor keeps the mount busy. It must fail, or programs would continue in the empty directory below the mount.
 */
static void abort_by_path(const struct pfs_guarded *mount) {
    struct statx found;
    char path[64];
    int root;
    /* Nothing must be mounted by this look, if an automount has taken the place of the mount. */
    if (statx(AT_FDCWD, mount->mount_point, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC, 0, &found) != 0 ||
        found.stx_dev_major != mount->major || found.stx_dev_minor != mount->minor)
        return;
    root = open(mount->mount_point, O_PATH | O_NOFOLLOW | O_DIRECTORY | O_CLOEXEC);
    if (root < 0) return;
    if (statx(root, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, 0, &found) != 0) return;
    if (found.stx_dev_major != mount->major || found.stx_dev_minor != mount->minor) return;
    snprintf(path, sizeof path, "/proc/self/fd/%d", root);
    umount2(path, MNT_FORCE);
}

/* The child process. It allocates no memory, takes no lock, and does not access the mount while the daemon lives. */
static _Noreturn void guard(int messages, pid_t daemon) {
    struct pfs_guarded mount;
    sigset_t all;
    char path[64];
    int control = -1, known = 0, ends, null;

    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    /* A terminal that is closed, or a job that is stopped, is nothing to it. */
    setsid();
    prctl(PR_SET_NAME, "pfs-guard", 0, 0, 0);
    prctl(PR_SET_PDEATHSIG, SIGUSR1, 0, 0, 0);
    /* The guard must not keep the pipes of the starting process or the terminal open. */
    if (messages < 4) messages = fcntl(messages, F_DUPFD_CLOEXEC, 4);
    dup2(messages, 3);
    syscall(SYS_close_range, 4U, ~0U, 0U);
    null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int stream = 0; stream <= 2; stream++) dup2(null, stream);
    if (chdir("/") != 0) _exit(1);
    sigemptyset(&all);
    sigaddset(&all, SIGUSR1);
    ends = signalfd(-1, &all, SFD_CLOEXEC);
    for (;;) {
        struct pollfd sources[2] = {{ends, POLLIN, 0}, {3, POLLIN, 0}};
        int is_dead = getppid() != daemon;
        if (poll(sources, 2, is_dead ? 0 : -1) < 0) {
            if (errno == EINTR) continue;
            break;
        }
        /* What the daemon said before its end comes first, however late it is read: it may have released the guard. */
        if ((sources[1].revents & POLLIN) == 0) {
            if (is_dead || sources[0].revents != 0 || sources[1].revents != 0) break;
            continue;
        }
        if (read(3, &mount, sizeof mount) != sizeof mount) break;
        mount.mount_point[sizeof mount.mount_point - 1] = 0;
        /* After a regular end another mount may have the numbers and the place. */
        if (mount.mount_point[0] == 0) _exit(0);
        known = 1;
        snprintf(path, sizeof path, "/sys/fs/fuse/connections/%u/abort", mount.minor);
        control = open(path, O_WRONLY | O_CLOEXEC);
    }
    if (known && (control < 0 || !abort_through(control))) abort_by_path(&mount);
    _exit(0);
}

struct start {
    int pipe[2], result;
    pid_t daemon;
    sem_t done;
};

/*
 * The thread whose end the kernel signals to the guard. It ends with the daemon, and nothing can delay that, because it has
 * no descriptor: the descriptors of the other threads may include a file of the mount itself, and when the daemon is killed,
 * closing that file waits for an answer of the daemon (FLUSH) until the guard has aborted the connection.
 */
static void *outlived(void *argument) {
    struct start *start = argument;
    char none;
    pid_t child;
    int ready[2], result = pipe2(ready, O_CLOEXEC) != 0 ? -errno : 0;
    if (result == 0) {
        child = fork();
        if (child == 0) {
            close(start->pipe[1]);
            guard(start->pipe[0], start->daemon);
        }
        if (child < 0) result = -errno;
        close(ready[1]);
        /* The guard closes its end after it has asked for the signal. A daemon that was killed before would go unnoticed. */
        while (read(ready[0], &none, 1) < 0 && errno == EINTR) {}
        close(ready[0]);
    }
    if (result == 0 && syscall(SYS_close_range, 0U, ~0U, CLOSE_RANGE_UNSHARE) != 0) result = -errno;
    prctl(PR_SET_NAME, "pfs-outlived", 0, 0, 0);
    start->result = result;
    /* The starter now frees what is behind the pointer. */
    sem_post(&start->done);
    while (result == 0) pause();
    return NULL;
}

/* Starts the thread with all signals blocked, so that it handles none of the daemon's. 0 or -errno. */
static int start_thread(struct start *start) {
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all, before;
    int error;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, 64 << 10);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(&thread, &attributes, outlived, start);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    if (error != 0) return -error;
    while (sem_wait(&start->done) != 0) {}
    return start->result;
}

int pfs_guard_start(void) {
    struct start start = {.daemon = getpid()};
    int result;
    if (pipe2(start.pipe, O_CLOEXEC) != 0) return -errno;
    sem_init(&start.done, 0, 0);
    result = start_thread(&start);
    sem_destroy(&start.done);
    close(start.pipe[0]);
    if (result == 0) return start.pipe[1];
    close(start.pipe[1]);
    return result;
}

int pfs_guard_watch(int messages, const struct pfs_guarded *mount) {
    _Static_assert(sizeof *mount <= PIPE_BUF, "written and read at once");
    return write(messages, mount, sizeof *mount) == (ssize_t)sizeof *mount ? 0 : -errno;
}
