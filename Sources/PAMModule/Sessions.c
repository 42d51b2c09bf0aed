/*
 * Reads and writes the file with the open sessions of a user.
 */
#define _GNU_SOURCE
#include "Sessions.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const char directory[] = "/run/pam-protectfs";
/* More sessions than any user has; it bounds the file. */
enum { most_sessions = 4096 };

static int open_file(uid_t user, const char *kind) {
    struct stat found;
    char name[64];
    int file, reason, place;
    if (mkdir(directory, 0700) != 0 && errno != EEXIST) return -errno;
    place = open(directory, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (place < 0) return -errno;
    if (fstat(place, &found) != 0 || found.st_uid != 0 || (found.st_mode & 077) != 0) {
        close(place);
        return -EPERM;
    }
    snprintf(name, sizeof name, "%lu.%s", (unsigned long)user, kind);
    file = openat(place, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    reason = errno;
    close(place);
    return file < 0 ? -reason : file;
}

int pfs_sessions_open_order(uid_t user) { return open_file(user, "order"); }

/* Nobody holds this lock for longer than a few calls, so a second is enough. */
static int open_locked(uid_t user) {
    const struct timespec pause = {0, 20 * 1000 * 1000};
    int file = open_file(user, "sessions");
    if (file < 0) return file;
    for (int attempt = 0; attempt < 50; attempt++) {
        if (flock(file, LOCK_EX | LOCK_NB) == 0) return file;
        nanosleep(&pause, NULL);
    }
    close(file);
    return -EBUSY;
}

/* What /proc says of a process. */
enum existence { GONE, UNKNOWN, FOUND };

/*
 * When a process started. It is gone if there is no such process, or it has ended and is not waited for yet. What cannot be read
 * is unknown: too few descriptors or too little memory are no end of a process.
 */
static enum existence start_of(uint32_t process, uint64_t *start) {
    char path[64], text[1024], *rest, *end;
    ssize_t length;
    int file;
    snprintf(path, sizeof path, "/proc/%u/stat", process);
    file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return kill((pid_t)process, 0) != 0 && errno == ESRCH ? GONE : UNKNOWN;
    length = read(file, text, sizeof text - 1);
    close(file);
    if (length < 0 && errno == ESRCH) return GONE;
    if (length <= 0) return UNKNOWN;
    text[length] = 0;
    /* The second field is a name that may have spaces and brackets. The start is the 22nd. */
    rest = strrchr(text, ')');
    if (rest == NULL || rest[1] != ' ' || rest[2] == 0) return UNKNOWN;
    if (strchr("ZX", rest[2]) != NULL) return GONE;
    rest += 2;
    for (int field = 3; field < 22; field++) {
        rest = strchr(rest, ' ');
        if (rest == NULL) return UNKNOWN;
        rest++;
    }
    *start = strtoull(rest, &end, 10);
    return end == rest ? UNKNOWN : FOUND;
}

/* Whether the process of a record has certainly ended. */
static int has_ended(const struct pfs_session *record) {
    uint64_t start = 0;
    enum existence found = start_of(record->process, &start);
    return found == GONE || (found == FOUND && start != record->process_start);
}

/*
 * The limits that a session has set for its files hold for its login program too. They must neither keep a record from being
 * written nor kill the program, so they are lifted for the time of one update.
 */
struct lifted {
    struct rlimit before;
    int is_lifted;
    sigset_t mask;
    int was_pending;
};

static void lift(struct lifted *kept) {
    struct rlimit none = {RLIM_INFINITY, RLIM_INFINITY};
    sigset_t excess, pending;
    memset(kept, 0, sizeof *kept);
    if (getrlimit(RLIMIT_FSIZE, &kept->before) == 0 && kept->before.rlim_cur != RLIM_INFINITY) {
        kept->is_lifted = setrlimit(RLIMIT_FSIZE, &none) == 0;
        none = kept->before;
        none.rlim_cur = none.rlim_max;
        /* Without the privilege, up to the hard limit. */
        if (!kept->is_lifted) kept->is_lifted = setrlimit(RLIMIT_FSIZE, &none) == 0;
    }
    sigemptyset(&excess);
    sigaddset(&excess, SIGXFSZ);
    sigpending(&pending);
    kept->was_pending = sigismember(&pending, SIGXFSZ) == 1;
    pthread_sigmask(SIG_BLOCK, &excess, &kept->mask);
}

static void restore(const struct lifted *kept) {
    const struct timespec at_once = {0, 0};
    sigset_t excess;
    sigemptyset(&excess);
    sigaddset(&excess, SIGXFSZ);
    /* One of ours: the write has failed with EFBIG. */
    if (!kept->was_pending) sigtimedwait(&excess, NULL, &at_once);
    pthread_sigmask(SIG_SETMASK, &kept->mask, NULL);
    if (kept->is_lifted) setrlimit(RLIMIT_FSIZE, &kept->before);
}

/*
 * Looks at every record: frees those of processes that have ended and the one to remove, and fills a free place with the one
 * to add. A record is written by one call, so a kill leaves it whole. Returns the number of sessions afterwards.
 */
static int update_file(int file, const struct pfs_session *removed, const struct pfs_session *added) {
    static const struct pfs_session none;
    struct pfs_session record;
    int count = 0, result = 0;
    off_t free_place = -1, place;
    for (place = 0; place < (off_t)(most_sessions * sizeof record); place += (off_t)sizeof record) {
        if (pread(file, &record, sizeof record, place) != (ssize_t)sizeof record) break;
        int is_used = record.process != 0;
        if (is_used && ((removed != NULL && memcmp(&record, removed, sizeof record) == 0) ||
                        has_ended(&record))) {
            if (pwrite(file, &none, sizeof none, place) != (ssize_t)sizeof none) result = -EIO;
            is_used = 0;
        }
        if (is_used) count++;
        else if (free_place < 0) free_place = place;
    }
    if (added != NULL) {
        if (free_place < 0) free_place = place;
        if (free_place >= (off_t)(most_sessions * sizeof record)) result = -ENOSPC;
        else if (pwrite(file, added, sizeof *added, free_place) != (ssize_t)sizeof *added) result = -EIO;
        else count++;
    }
    return result != 0 ? result : count;
}

static int update(uid_t user, const struct pfs_session *removed, const struct pfs_session *added) {
    struct lifted limits;
    int result, file = open_locked(user);
    if (file < 0) return file;
    lift(&limits);
    result = update_file(file, removed, added);
    restore(&limits);
    close(file);
    return result;
}

int pfs_sessions_add(uid_t user, struct pfs_session *added) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    memset(added, 0, sizeof *added);
    added->process = (uint32_t)getpid();
    /* Without its start, the record would count for ever. */
    if (start_of(added->process, &added->process_start) != FOUND) return -ESRCH;
    added->serial = (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
    int count = update(user, NULL, added);
    return count < 0 ? count : 0;
}

int pfs_sessions_remove(uid_t user, const struct pfs_session *session) { return update(user, session, NULL); }

int pfs_sessions_count(uid_t user) { return update(user, NULL, NULL); }
