/*
 * The guard of a mount is a small process that aborts the mount's connection when the daemon dies.
 *
 * It is written in C, because its code runs in the child of a fork. The child must not allocate memory or take a lock,
 * since another thread of the daemon may have held that lock at the fork. Swift's runtime may do both at any time.
 */
#ifndef PROTECTFS_CONNECTIONGUARD_H
#define PROTECTFS_CONNECTIONGUARD_H

#include <stdint.h>

/* The message to the guard after mounting. Without a mount point it says that nothing is left to guard. */
struct pfs_guarded {
    /* Device numbers of the mount. */
    uint32_t major, minor;
    /* The absolute mount point, ending with a zero byte. The struct is at most PIPE_BUF bytes, so a write is atomic. */
    char mount_point[4080];
};

/*
 * Forks the guard, from a thread that lives as long as the process, and waits until it runs. Returns the descriptor for
 * pfs_guard_watch, or -errno. Call it before any secret is read.
 */
int pfs_guard_start(void);
/* Tells the guard its mount. Returns 0 or -errno. Never waits, because the message fits into the pipe. */
int pfs_guard_watch(int guard, const struct pfs_guarded *mount);

#endif
