#define _GNU_SOURCE
#include "RunProgram.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
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

/* Waits for the end of a child; ends it when the time is up. */
static int await(pid_t child) {
    struct pollfd ended = {pidfd_open(child, 0), POLLIN, 0};
    int status, found = 0;
    if (ended.fd >= 0) {
        do found = poll(&ended, 1, PFS_LONGEST_RUN * 1000);
        while (found < 0 && errno == EINTR);
        if (found == 0) kill(child, SIGKILL);
        close(ended.fd);
    }
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR) return PFS_NOT_RUN;
    if (ended.fd >= 0 && found == 0) return PFS_NO_ANSWER;
    return WIFEXITED(status) ? WEXITSTATUS(status) : PFS_NOT_RUN;
}

int pfs_run(const char *const *words, const struct pfs_token *first, const struct pfs_token *second) {
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
