#define _GNU_SOURCE
#include "CLinuxShim.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <linux/futex.h>
#include <linux/openat2.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif

const int32_t pfs_O_PATH = O_PATH;
const int32_t pfs_O_NOFOLLOW = O_NOFOLLOW;
const int32_t pfs_O_DIRECT = O_DIRECT;
const int32_t pfs_O_NOATIME = O_NOATIME;
const int32_t pfs_O_DIRECTORY = O_DIRECTORY;
const int32_t pfs_AT_EMPTY_PATH = AT_EMPTY_PATH;
const int32_t pfs_AT_SYMLINK_NOFOLLOW = AT_SYMLINK_NOFOLLOW;
const int64_t pfs_UTIME_NOW = UTIME_NOW;
const int64_t pfs_UTIME_OMIT = UTIME_OMIT;
const int32_t pfs_SEEK_DATA = SEEK_DATA;
const int32_t pfs_SEEK_HOLE = SEEK_HOLE;
const uint32_t pfs_RENAME_NOREPLACE = RENAME_NOREPLACE;
const uint32_t pfs_RENAME_EXCHANGE = RENAME_EXCHANGE;
const uint32_t pfs_RENAME_WHITEOUT = RENAME_WHITEOUT;
const int32_t pfs_O_TMPFILE = O_TMPFILE;
const int32_t pfs_FALLOC_FL_KEEP_SIZE = FALLOC_FL_KEEP_SIZE;
const int32_t pfs_FALLOC_FL_PUNCH_HOLE = FALLOC_FL_PUNCH_HOLE;

static int64_t result(int64_t value) { return value < 0 ? -errno : value; }

int32_t pfs_open_beneath(int32_t directory, const char *path, int32_t flags, uint32_t mode) {
    struct open_how how = {
        .flags = (uint32_t)flags,
        .mode = mode,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS,
    };
    return (int32_t)result(syscall(SYS_openat2, directory, path, &how, sizeof how));
}

int32_t pfs_renameat2(int32_t from, const char *name, int32_t to, const char *new_name, uint32_t flags) {
    return (int32_t)result(renameat2(from, name, to, new_name, flags));
}

int64_t pfs_getdents64(int32_t directory, void *buffer, uint64_t length) {
    return result(syscall(SYS_getdents64, directory, buffer, length));
}

int32_t pfs_fchmodat2(int32_t directory, const char *name, uint32_t mode, int32_t flags) {
    return (int32_t)result(syscall(SYS_fchmodat2, directory, name, mode, flags));
}

int32_t pfs_fallocate(int32_t fd, int32_t mode, uint64_t offset, uint64_t length) {
    return (int32_t)result(fallocate(fd, mode, (off_t)offset, (off_t)length));
}

int32_t pfs_syncfs(int32_t fd) { return (int32_t)result(syncfs(fd)); }

int32_t pfs_write_back(int32_t fd) {
    unsigned all = SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
    return (int32_t)result(sync_file_range(fd, 0, 0, all));
}

const uint32_t pfs_EXTENT_INLINE = FIEMAP_EXTENT_DATA_INLINE;
const uint32_t pfs_EXTENT_SHARED = FIEMAP_EXTENT_SHARED;
const uint32_t pfs_EXTENT_VAGUE = FIEMAP_EXTENT_UNKNOWN | FIEMAP_EXTENT_DELALLOC | FIEMAP_EXTENT_ENCODED |
                                  FIEMAP_EXTENT_NOT_ALIGNED | FIEMAP_EXTENT_DATA_TAIL;
const int64_t pfs_INODE_JOURNALLED = FS_JOURNAL_DATA_FL;
const int64_t pfs_INODE_INLINE = FS_INLINE_DATA_FL;

int32_t pfs_extents(int32_t fd, struct pfs_extent *extents, uint32_t room) {
    union {
        struct fiemap map;
        char bytes[sizeof(struct fiemap) + 256 * sizeof(struct fiemap_extent)];
    } request = {.map = {
                     .fm_length = FIEMAP_MAX_OFFSET,
                     .fm_flags = FIEMAP_FLAG_SYNC,
                     .fm_extent_count = room < 256 ? room : 256,
                 }};
    if (ioctl(fd, FS_IOC_FIEMAP, &request.map) < 0) return -errno;
    for (uint32_t index = 0; index < request.map.fm_mapped_extents; index++) {
        const struct fiemap_extent *extent = &request.map.fm_extents[index];
        extents[index] = (struct pfs_extent){extent->fe_logical, extent->fe_physical, extent->fe_length,
                                             extent->fe_flags};
    }
    return (int32_t)request.map.fm_mapped_extents;
}

int64_t pfs_inode_flags(int32_t fd) {
    /* The kernel writes an int, although the request's number says otherwise (ioctl_iflags(2)). */
    unsigned int flags = 0;
    return ioctl(fd, FS_IOC_GETFLAGS, &flags) < 0 ? -errno : (int64_t)flags;
}

int32_t pfs_set_inode_flags(int32_t fd, uint32_t flags) {
    return (int32_t)result(ioctl(fd, FS_IOC_SETFLAGS, &flags));
}

int64_t pfs_filesystem_type(int32_t fd) {
    struct statfs status;
    return fstatfs(fd, &status) < 0 ? -errno : (int64_t)status.f_type;
}

uint64_t pfs_filesystem_number(int32_t fd) {
    struct statfs status;
    if (fstatfs(fd, &status) < 0) return 0;
    return (uint64_t)(uint32_t)status.f_fsid.__val[1] << 32 | (uint32_t)status.f_fsid.__val[0];
}

static struct pfs_time time_of(struct statx_timestamp time) {
    return (struct pfs_time){.seconds = time.tv_sec, .nanoseconds = time.tv_nsec};
}

int32_t pfs_status(int32_t fd, const char *name, struct pfs_status *status) {
    struct statx found;
    int flags = AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_EMPTY_PATH;
    if (statx(fd, name, flags, STATX_BASIC_STATS | STATX_BTIME, &found) < 0) return -errno;
    *status = (struct pfs_status){
        .device = makedev(found.stx_dev_major, found.stx_dev_minor),
        .inode = found.stx_ino,
        .special_device = makedev(found.stx_rdev_major, found.stx_rdev_minor),
        .size = found.stx_size,
        .blocks = found.stx_blocks,
        .mode = found.stx_mode,
        .links = found.stx_nlink,
        .owner = found.stx_uid,
        .group = found.stx_gid,
        .block_size = found.stx_blksize,
        .accessed = time_of(found.stx_atime),
        .modified = time_of(found.stx_mtime),
        .changed = time_of(found.stx_ctime),
        .born = time_of(found.stx_btime),
        .has_born = (found.stx_mask & STATX_BTIME) != 0,
    };
    return 0;
}

int32_t pfs_forget_cached(int32_t fd) {
    struct statx found;
    if (posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) != 0) return -1;
    return statx(fd, "", AT_EMPTY_PATH | AT_STATX_FORCE_SYNC, STATX_BASIC_STATS, &found) < 0 ? -errno : 0;
}

static struct flock lock_of(int32_t kind, uint64_t first, uint64_t last) {
    return (struct flock){
        .l_type = kind == 0 ? F_UNLCK : kind == 1 ? F_RDLCK : F_WRLCK,
        .l_whence = SEEK_SET,
        .l_start = (off_t)first,
        /* 0 means all bytes from the first one on. */
        .l_len = last == INT64_MAX ? 0 : (off_t)(last - first + 1),
    };
}

int32_t pfs_set_lock(int32_t fd, int32_t kind, uint64_t first, uint64_t last, int32_t waits) {
    struct flock lock = lock_of(kind, first, last);
    return fcntl(fd, waits ? F_OFD_SETLKW : F_OFD_SETLK, &lock) < 0 ? -errno : 0;
}

int32_t pfs_find_lock(int32_t fd, int32_t *kind, uint64_t *first, uint64_t *last) {
    struct flock lock = lock_of(*kind, *first, *last);
    if (fcntl(fd, F_OFD_GETLK, &lock) < 0) return -errno;
    *kind = lock.l_type == F_UNLCK ? 0 : lock.l_type == F_RDLCK ? 1 : 2;
    *first = (uint64_t)lock.l_start;
    *last = lock.l_len == 0 ? INT64_MAX : (uint64_t)(lock.l_start + lock.l_len - 1);
    return 0;
}

uint64_t pfs_makedev(uint32_t major, uint32_t minor) { return makedev(major, minor); }
uint32_t pfs_major(uint64_t device) { return major(device); }
uint32_t pfs_minor(uint64_t device) { return minor(device); }

// How often a thread looks at a barrier before it sleeps. What is done behind one takes less than that.
enum { BARRIER_LOOKS = 50 };

void pfs_barrier_wait(void *address) {
    uint32_t *word = address;
    for (int look = 0; look < BARRIER_LOOKS; look++) {
        uint32_t is_free = 0;
        if (__atomic_load_n(word, __ATOMIC_RELAXED) == 0
            && __atomic_compare_exchange_n(word, &is_free, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
            return;
        }
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
    }
    // A thread that has slept keeps the 2, because more of them may sleep.
    while (__atomic_exchange_n(word, 2, __ATOMIC_ACQUIRE) != 0) syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, 2, NULL);
}

void pfs_barrier_wake(void *address) { syscall(SYS_futex, address, FUTEX_WAKE_PRIVATE, 1); }

int32_t pfs_home_of(uint32_t user, char *path, uint64_t room) {
    enum { TEXT = 65536 };
    char *text = malloc(TEXT);
    if (text == NULL) return -1;
    struct passwd entry, *found = NULL;
    int32_t length = -1;
    if (getpwuid_r(user, &entry, text, TEXT, &found) == 0 && found != NULL && entry.pw_dir != NULL
        && strlen(entry.pw_dir) < room) {
        length = (int32_t)strlen(entry.pw_dir);
        memcpy(path, entry.pw_dir, (size_t)length);
    }
    free(text);
    return length;
}
