/*
 * Starts the login helper as the user, without anything of the program that logs in.
 */
#define _GNU_SOURCE
#include "Launch.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

#include "Sessions.h"

static int64_t milliseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Says why the helper is not started, and ends. The parent may have stopped to listen. */
static _Noreturn void give_up(int done, int reason) {
    unsigned char byte = (unsigned char)reason;
    if (write(done, &byte, 1) != 1) _exit(2);
    _exit(1);
}

/* Waits for the helper of an earlier login or logout, so that both act in order. Gives the lock's descriptor. */
static int take_turn(const struct pfs_launch *launch) {
    const struct timespec pause = {0, 50 * 1000 * 1000};
    int64_t end = milliseconds() + PFS_LONGEST_ORDER * 1000;
    int order = pfs_sessions_open_order(launch->uid);
    if (order < 0) return order;
    while (flock(order, LOCK_EX | LOCK_NB) != 0) {
        if (milliseconds() > end) return -EBUSY;
        nanosleep(&pause, NULL);
    }
    return order;
}

/* Closes what is above the helper's descriptors. Returns 0, or -1 with errno. */
static long close_others(void) { return syscall(SYS_close_range, (unsigned)PFS_DONE + 1, ~0U, 0U); }

/* Becomes the user, for good. Returns 0 or -errno. */
static int become(const struct pfs_launch *launch) {
    uid_t real, effective, saved;
    if (setgroups(launch->group_count, launch->groups) != 0 || setresgid(launch->gid, launch->gid, launch->gid) != 0 ||
        setresuid(launch->uid, launch->uid, launch->uid) != 0)
        return -errno;
    if (getresuid(&real, &effective, &saved) != 0) return -errno;
    if (real != launch->uid || effective != launch->uid || saved != launch->uid || setuid(0) == 0) return -EPERM;
    return 0;
}

/* Nothing of the program that logs in reaches the helper: no signal's handling, environment, directory or descriptor. */
static _Noreturn void run_helper(const struct pfs_launch *launch, int input, int done) {
    const struct rlimit no_core = {0, 0};
    char home[4200], user[300], name[300], runtime[64];
    char *environment[] = {home, user, name, "PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "LANG=C.UTF-8", NULL, NULL};
    char *words[] = {(char *)launch->helper, (char *)launch->action, (char *)launch->program, NULL};
    struct stat found;
    sigset_t none;
    int order, null, failure;

    for (int number = 1; number < NSIG; number++) signal(number, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    umask(077);
    setrlimit(RLIMIT_CORE, &no_core);
    if (chdir("/") != 0) give_up(done, errno);

    null = open("/dev/null", O_RDWR | O_CLOEXEC);
    input = fcntl(input < 0 ? null : input, F_DUPFD, 16);
    done = fcntl(done, F_DUPFD, 16);
    if (null < 0 || input < 0 || done < 0) _exit(1);
    dup2(null, 1);
    dup2(null, 2);
    dup2(input, 0);
    dup2(done, PFS_DONE);
    close(PFS_ORDER);
    /* Before the wait: a terminal or connection that stays open here would hold up the end of the session. */
    if (close_others() != 0) give_up(PFS_DONE, errno);

    order = take_turn(launch);
    if (order == -EBUSY) {
        /* This comes long after the login program has stopped to listen. Another of its threads may have held the log's lock. */
        alarm(10);
        syslog(LOG_AUTHPRIV | LOG_WARNING, "pam_protectfs: %s given up: the one before it has not ended in %d s", launch->action,
               PFS_LONGEST_ORDER);
    }
    if (order < 0) give_up(PFS_DONE, -order);
    /* While this waited, somebody may have logged in, or the last session may have ended. In doubt it locks and does not unlock. */
    int sessions = pfs_sessions_count(launch->uid);
    if (strcmp(launch->action, "lock") == 0 && sessions > 0) _exit(0);
    if (strcmp(launch->action, "unlock") == 0 && sessions <= 0) _exit(0);
    order = fcntl(order, F_DUPFD, 16);
    if (order < 0 || dup2(order, PFS_ORDER) < 0 || close_others() != 0) give_up(PFS_DONE, errno);

    failure = become(launch);
    if (failure != 0) give_up(PFS_DONE, -failure);
    /* Until the helper replaces it, this memory is a copy of the program's: the user must not look into it. */
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    snprintf(home, sizeof home, "HOME=%s", launch->home);
    snprintf(user, sizeof user, "USER=%s", launch->user);
    snprintf(name, sizeof name, "LOGNAME=%s", launch->user);
    snprintf(runtime, sizeof runtime, "XDG_RUNTIME_DIR=/run/user/%lu", (unsigned long)launch->uid);
    if (lstat(strchr(runtime, '=') + 1, &found) == 0 && S_ISDIR(found.st_mode) && found.st_uid == launch->uid)
        environment[5] = runtime;
    execve(launch->helper, words, environment);
    give_up(PFS_DONE, errno);
}

/* Writes the tokens into a pipe, which has room for them. Returns its reading end, or -errno. */
static int hand_over(const struct pfs_launch *launch) {
    const struct pfs_token *tokens[] = {launch->token, launch->new_token};
    struct pfs_handover lengths = {0, 0};
    int ends[2], is_written;
    lengths.length = (uint32_t)launch->token->length;
    if (launch->new_token != NULL) lengths.new_length = (uint32_t)launch->new_token->length;
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return -errno;
    is_written = write(ends[1], &lengths, sizeof lengths) == (ssize_t)sizeof lengths;
    for (int index = 0; index < 2; index++)
        if (tokens[index] != NULL)
            is_written = is_written &&
                         write(ends[1], tokens[index]->bytes, tokens[index]->length) == (ssize_t)tokens[index]->length;
    close(ends[1]);
    if (is_written) return ends[0];
    close(ends[0]);
    return -EIO;
}

/* Waits for the helper's end, which closes the pipe. */
static enum pfs_outcome await(int done, unsigned limit) {
    int64_t end = milliseconds() + (int64_t)limit * 1000;
    unsigned char reason;
    for (;;) {
        struct pollfd source = {done, POLLIN, 0};
        int64_t left = end - milliseconds();
        int found = left > 0 ? poll(&source, 1, (int)left) : 0;
        if (found == 0) return PFS_CONTINUES;
        if (found < 0 && errno == EINTR) continue;
        if (found < 0) return PFS_NOT_STARTED;
        if (read(done, &reason, 1) != 1) return PFS_ENDED;
        errno = reason;
        return PFS_NOT_STARTED;
    }
}

enum pfs_outcome pfs_launch(const struct pfs_launch *launch) {
    struct sigaction plain, before;
    int done[2], input = -1, reason = 0;
    enum pfs_outcome outcome = PFS_NOT_STARTED;
    pid_t child;

    if (launch->token != NULL && (input = hand_over(launch)) < 0) {
        errno = -input;
        return PFS_NOT_STARTED;
    }
    if (pipe2(done, O_CLOEXEC) != 0) {
        reason = errno;
        if (input >= 0) close(input);
        errno = reason;
        return PFS_NOT_STARTED;
    }
    /* The program's handler must not take the end of a child that it does not know. */
    memset(&plain, 0, sizeof plain);
    plain.sa_handler = SIG_DFL;
    sigaction(SIGCHLD, &plain, &before);
    child = fork();
    if (child == 0) {
        /* Its child belongs to init: the program never meets it. Signals of the terminal do not reach it. */
        setsid();
        child = fork();
        if (child == 0) run_helper(launch, input, done[1]);
        if (child < 0) give_up(done[1], errno);
        _exit(0);
    }
    reason = errno;
    close(done[1]);
    if (input >= 0) close(input);
    if (child > 0) {
        while (waitpid(child, NULL, 0) < 0 && errno == EINTR) {
        }
    }
    sigaction(SIGCHLD, &before, NULL);
    if (child > 0) {
        outcome = await(done[0], launch->limit);
        reason = errno;
    }
    close(done[0]);
    errno = reason;
    return outcome;
}
