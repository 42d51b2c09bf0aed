/*
 * Runs the login helper as a user, from within a program that is logging this user in.
 */
#ifndef PROTECTFS_PAM_LAUNCH_H
#define PROTECTFS_PAM_LAUNCH_H

#include <stdint.h>
#include <sys/types.h>

#include "Token.h"

/* The helper's descriptors beside standard input, which has a pfs_handover and the tokens if there are any. */
enum { PFS_ORDER = 3, PFS_DONE = 4 };
/* How long a login or logout waits in the background for those before it, in seconds. */
enum { PFS_LONGEST_ORDER = 600 };
/* How long one keeps the next one waiting, in seconds. After this only a volume that still has work keeps its turn. */
enum { PFS_LONGEST_TURN = 10 };

/* The lengths of the tokens that follow: the password, and the new one of a change. */
struct pfs_handover {
    uint32_t length, new_length;
};

struct pfs_launch {
    /* Absolute paths of the helper and of protectfs. */
    const char *helper, *program;
    /* unlock, lock or change. A lock is left out if the user has sessions when its turn comes. */
    const char *action;
    const char *user, *home;
    uid_t uid;
    gid_t gid;
    const gid_t *groups;
    size_t group_count;
    /* May be NULL. */
    const struct pfs_token *token, *new_token;
    /* How long to wait for the end, in seconds. */
    unsigned limit;
};

enum pfs_outcome {
    PFS_ENDED,
    /* The helper continues in the background. */
    PFS_CONTINUES,
    /* It was not started; errno has the reason. */
    PFS_NOT_STARTED,
};

enum pfs_outcome pfs_launch(const struct pfs_launch *launch);

#endif
