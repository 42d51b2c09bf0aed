/*
 * Runs a program with tokens on pipes; kills it when its time is up, and does not wait for one that cannot be killed.
 */
#define _GNU_SOURCE
#include "RunProgram.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Gives the reading end of a pipe that has the token and a newline, or of /dev/null. */
static int input_of(const struct pfs_token *token) {
    int ends[2];
    if (token == NULL) return open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (pipe2(ends, O_CLOEXEC) != 0) return -1;
    /* The smallest pipe takes both without waiting (Token.h). */
    int is_written = write(ends[1], token->bytes, token->length) == (ssize_t)token->length && write(ends[1], "\n", 1) == 1;
    close(ends[1]);
    if (is_written) return ends[0];
    close(ends[0]);
    return -1;
}

static int64_t end_of_time;

static int64_t milliseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void pfs_begin_time(void) { end_of_time = milliseconds() + PFS_LONGEST_RUN * 1000; }

int pfs_is_time_over(void) { return milliseconds() >= end_of_time; }

/* Waits until a child has ended or the time is up. Returns 0 if it still runs. */
static int has_ended(pid_t child, int *status, int64_t end) {
    const struct timespec pause = {0, 20 * 1000 * 1000};
    struct pollfd ended = {pidfd_open(child, 0), POLLIN, 0};
    int is_over = 0;
    for (;;) {
        pid_t found = waitpid(child, status, WNOHANG);
        int64_t left = end - milliseconds();
        if (found == child || (found < 0 && errno != EINTR)) is_over = 1;
        if (is_over || left <= 0) break;
        /* Without a pidfd it looks again and again. */
        if (ended.fd < 0) nanosleep(&pause, NULL);
        else poll(&ended, 1, (int)left);
    }
    if (ended.fd >= 0) close(ended.fd);
    return is_over;
}

/* Waits for the end of a child; ends it when the time is up. */
static int await(pid_t child) {
    enum { after_kill = 2000 };
    int status = 0;
    if (has_ended(child, &status, end_of_time)) return WIFEXITED(status) ? WEXITSTATUS(status) : PFS_NOT_RUN;
    kill(child, SIGKILL);
    /* One that waits for a device ends with that wait, and then belongs to init. */
    has_ended(child, &status, milliseconds() + after_kill);
    return PFS_NO_ANSWER;
}

int pfs_run(const char *const *words, const struct pfs_token *first, const struct pfs_token *second) {
    if (pfs_is_time_over()) return PFS_NO_ANSWER;
    int inputs[2] = {input_of(first), input_of(second)};
    pid_t child = -1;
    if (inputs[0] >= 0 && inputs[1] >= 0) child = fork();
    if (child == 0) {
        /* Above the numbers that they get. dup2 clears FD_CLOEXEC. */
        int low = fcntl(inputs[0], F_DUPFD_CLOEXEC, 16), high = fcntl(inputs[1], F_DUPFD_CLOEXEC, 16);
        if (low < 0 || high < 0 || dup2(low, STDIN_FILENO) < 0 || (second != NULL && dup2(high, 3) < 0)) _exit(127);
        execv(words[0], (char *const *)words);
        _exit(127);
    }
    for (int index = 0; index < 2; index++)
        if (inputs[index] >= 0) close(inputs[index]);
    return child < 0 ? PFS_NOT_RUN : await(child);
}
