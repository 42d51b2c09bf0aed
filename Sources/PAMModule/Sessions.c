#define _GNU_SOURCE
#include "Sessions.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
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

/* When a process started. Returns 0 if there is no such process, or it has ended and is not waited for yet. */
static uint64_t start_of(uint32_t process) {
    char path[64], text[1024], *rest, *end;
    ssize_t length;
    int file;
    snprintf(path, sizeof path, "/proc/%u/stat", process);
    file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return 0;
    length = read(file, text, sizeof text - 1);
    close(file);
    if (length <= 0) return 0;
    text[length] = 0;
    /* The second field is a name that may have spaces and brackets. The start is the 22nd. */
    rest = strrchr(text, ')');
    if (rest == NULL || rest[1] != ' ' || strchr("ZX", rest[2]) != NULL) return 0;
    rest += 2;
    for (int field = 3; field < 22; field++) {
        rest = strchr(rest, ' ');
        if (rest == NULL) return 0;
        rest++;
    }
    return strtoull(rest, &end, 10);
}

/*
 * Looks at every record: frees those of processes that have ended and the one to remove, and fills a free place with the one
 * to add. A record is written by one call, so a kill leaves it whole. Returns the number of sessions afterwards.
 */
static int update(uid_t user, const struct pfs_session *removed, const struct pfs_session *added) {
    static const struct pfs_session none;
    struct pfs_session record;
    int count = 0, result = 0, file = open_locked(user);
    off_t free_place = -1, place;
    if (file < 0) return file;
    for (place = 0; place < (off_t)(most_sessions * sizeof record); place += (off_t)sizeof record) {
        if (pread(file, &record, sizeof record, place) != (ssize_t)sizeof record) break;
        int is_used = record.process != 0;
        if (is_used && ((removed != NULL && memcmp(&record, removed, sizeof record) == 0) ||
                        start_of(record.process) != record.process_start)) {
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
    close(file);
    return result != 0 ? result : count;
}

int pfs_sessions_add(uid_t user, struct pfs_session *added) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    memset(added, 0, sizeof *added);
    added->process = (uint32_t)getpid();
    added->process_start = start_of(added->process);
    /* Such a record would count for ever. */
    if (added->process_start == 0) return -ESRCH;
    added->serial = (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
    int count = update(user, NULL, added);
    return count < 0 ? count : 0;
}

int pfs_sessions_remove(uid_t user, const struct pfs_session *session) { return update(user, session, NULL); }

int pfs_sessions_count(uid_t user) { return update(user, NULL, NULL); }
