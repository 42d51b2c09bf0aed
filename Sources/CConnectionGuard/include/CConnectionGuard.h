/*
 * The guard of a mount: a small process that aborts its connection when the daemon dies.
 *
 * It is C because its code runs in the child of a fork, which must not allocate or take a lock: another thread of the
 * daemon may have held that lock at the fork. Swift's runtime may do both at any place.
 */
#ifndef PROTECTFS_CONNECTIONGUARD_H
#define PROTECTFS_CONNECTIONGUARD_H

#include <stdint.h>

/* What the guard is told once there is a mount. */
struct pfs_guarded {
    /* Device numbers of the mount. */
    uint32_t major, minor;
    /* Where it is mounted: absolute, ended by a zero byte. With the numbers no more than PIPE_BUF: written at once. */
    char mount_point[4080];
};

/*
 * Forks the guard; gives the descriptor for pfs_guard_watch, or -errno. To be called before any secret is read, by the
 * thread that lives as long as the process: its end is what the guard is told of (prctl(2), PR_SET_PDEATHSIG).
 */
int pfs_guard_start(void);
/* Tells the guard which mount it guards: 0 or -errno. It cannot wait: a pipe holds the message. */
int pfs_guard_watch(int guard, const struct pfs_guarded *mount);

#endif
