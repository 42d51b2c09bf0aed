/*
 * Runs programs to their end, with tokens through pipes and a time limit.
 */
#ifndef PROTECTFS_PAM_RUNPROGRAM_H
#define PROTECTFS_PAM_RUNPROGRAM_H

#include "Token.h"

/* In seconds: all that is done with one volume. */
enum { PFS_LONGEST_RUN = 60 };
/* Beside exit codes. */
enum { PFS_NOT_RUN = -1, PFS_NO_ANSWER = -2 };
/* Where the program finds the second token. */
#define PFS_SECOND_INPUT "/dev/fd/3"

/* Begins the time in which this process runs programs. */
void pfs_begin_time(void);
/* Whether it is over. */
int pfs_is_time_over(void);

/* Returns the exit code. The first token is standard input; both may be NULL. The first word is the program's absolute path. */
int pfs_run(const char *const *words, const struct pfs_token *first, const struct pfs_token *second);

#endif
