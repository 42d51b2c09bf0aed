/*
 * The open sessions of each user, in a file below /run that only root can open.
 *
 * A session counts as long as the process that opened it lives. So a program that is killed before it closes its session
 * does not keep a volume unlocked for ever: the next login or logout no longer counts it. A process of which nothing can be
 * read counts.
 */
#ifndef PROTECTFS_PAM_SESSIONS_H
#define PROTECTFS_PAM_SESSIONS_H

#include <stdint.h>
#include <sys/types.h>

/* One session. All zero is a free place. Programs may open several sessions in one process; the serial tells them apart. */
struct pfs_session {
    uint32_t process, reserved;
    /* In clock ticks since the boot: numbers of processes are used again. */
    uint64_t process_start;
    uint64_t serial;
};

/* Each of these returns -errno if the file cannot be used; -EBUSY if its lock stays taken. */

/* Adds a session of this process. Returns 0. */
int pfs_sessions_add(uid_t user, struct pfs_session *added);
/* Removes a session. Returns the number of those that are left. */
int pfs_sessions_remove(uid_t user, const struct pfs_session *session);
/* The number of open sessions. */
int pfs_sessions_count(uid_t user);
/* Opens the file whose flock(2) orders what is done at logins and logouts of a user. Returns a descriptor. */
int pfs_sessions_open_order(uid_t user);

#endif
