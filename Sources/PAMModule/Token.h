/*
 * A password in guarded memory: locked, left out of core dumps, between pages that cannot be accessed, wiped at its end.
 */
#ifndef PROTECTFS_PAM_TOKEN_H
#define PROTECTFS_PAM_TOKEN_H

#include <stddef.h>

/* PAM gives at most 512 bytes. With its newline, a token fits into the smallest pipe, so no write of it waits. */
#define PFS_LONGEST_TOKEN 1024
/* Longer than the name of any account. */
#define PFS_LONGEST_NAME 256

struct pfs_token {
    /* The account that the password belongs to. sudo authenticates one user and opens the session of another. */
    char user[PFS_LONGEST_NAME];
    size_t length;
    char bytes[PFS_LONGEST_TOKEN];
};

/* Makes an empty token. Returns NULL with errno if there is no memory, or it cannot be locked. */
struct pfs_token *pfs_token_new(void);
/* Whether the bytes can be a passphrase: some, not too many, and one line. */
int pfs_token_is_usable(const char *bytes, size_t length);
/* Locks the memory again in the child of a fork, which inherits no locks. Returns 0 or -errno. */
int pfs_token_lock(struct pfs_token *token);
/* From now on the child of a fork finds an empty token for nobody. Returns 0 or -errno. */
int pfs_token_leave_out_of_children(struct pfs_token *token);
/* Wipes and frees a token; NULL is allowed. */
void pfs_token_free(struct pfs_token *token);

#endif
