/* GNU constants and calls that Glibc's module map lacks; no logic.
   Every pfs_ call returns its result, or -errno. */
#ifndef PROTECTFS_CLINUXSHIM_H
#define PROTECTFS_CLINUXSHIM_H
#include "ControlShim.h"
#include "FuseShim.h"
#include "HostShim.h"
#include "RingShim.h"

#include <stddef.h>
#include <stdint.h>
/* Headers of libc that Glibc's module map has must not be included here, or their types would belong to this module. */

/* The declarations of <sys/xattr.h> (xattr(7)), which Glibc's module map lacks. */
#define XATTR_CREATE 1
#define XATTR_REPLACE 2
long getxattr(const char *path, const char *name, void *value, size_t size);
long fgetxattr(int fd, const char *name, void *value, size_t size);
int setxattr(const char *path, const char *name, const void *value, size_t size, int flags);
int fsetxattr(int fd, const char *name, const void *value, size_t size, int flags);
long listxattr(const char *path, char *list, size_t size);
long flistxattr(int fd, char *list, size_t size);
int removexattr(const char *path, const char *name);
int fremovexattr(int fd, const char *name);

/* Flags that are macros under _GNU_SOURCE only, and so do not import. */
extern const int32_t pfs_O_PATH;
extern const int32_t pfs_O_NOFOLLOW;
extern const int32_t pfs_O_DIRECT;
extern const int32_t pfs_O_NOATIME;
extern const int32_t pfs_O_DIRECTORY;
extern const int32_t pfs_AT_EMPTY_PATH;
extern const int32_t pfs_AT_SYMLINK_NOFOLLOW;
extern const int64_t pfs_UTIME_NOW;
extern const int64_t pfs_UTIME_OMIT;
extern const int32_t pfs_SEEK_DATA;
extern const int32_t pfs_SEEK_HOLE;
extern const uint32_t pfs_RENAME_NOREPLACE;
extern const uint32_t pfs_RENAME_EXCHANGE;
extern const uint32_t pfs_RENAME_WHITEOUT;
extern const int32_t pfs_O_TMPFILE;
extern const int32_t pfs_FALLOC_FL_KEEP_SIZE;
extern const int32_t pfs_FALLOC_FL_PUNCH_HOLE;

/* openat2(2) with RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS: glibc 2.36 has no wrapper. */
int32_t pfs_open_beneath(int32_t directory, const char *path, int32_t flags, uint32_t mode);
/* renameat2(2). It is declared only under _GNU_SOURCE. */
int32_t pfs_renameat2(int32_t from, const char *name, int32_t to, const char *new_name, uint32_t flags);
/* getdents64(2): reads straight from the descriptor, so that a listing costs no DIR allocation. */
int64_t pfs_getdents64(int32_t directory, void *buffer, uint64_t length);
/* fchmodat2(2), Linux 6.6: the only call that changes the mode behind an O_PATH descriptor. */
int32_t pfs_fchmodat2(int32_t directory, const char *name, uint32_t mode, int32_t flags);
/* fallocate(2), syncfs(2) and sync_file_range(2). They are declared only under _GNU_SOURCE. */
int32_t pfs_fallocate(int32_t fd, int32_t mode, uint64_t offset, uint64_t length);
int32_t pfs_syncfs(int32_t fd);
/* sync_file_range(2) of the whole file, waiting before and after. */
int32_t pfs_write_back(int32_t fd);
/* Drops the cached pages and attributes of a file on a network file system, where nobody else does. */
int32_t pfs_forget_cached(int32_t fd);
/* Open file description locks (fcntl(2)) on the bytes from `first` to `last`. The kind is 0 none, 1 shared, 2 exclusive. Both
 * return -errno, also after EINTR. `find` replaces its arguments by a conflicting lock. */
int32_t pfs_set_lock(int32_t fd, int32_t kind, uint64_t first, uint64_t last, int32_t waits);
int32_t pfs_find_lock(int32_t fd, int32_t *kind, uint64_t *first, uint64_t *last);
/* The place of a part of a file on the disk (fiemap_extent). */
struct pfs_extent {
    uint64_t logical, physical, length;
    uint32_t flags;
};
/* FS_IOC_FIEMAP with FIEMAP_FLAG_SYNC for the whole file. Returns the number of extents, at most 256. */
int32_t pfs_extents(int32_t fd, struct pfs_extent *extents, uint32_t room);
extern const uint32_t pfs_EXTENT_INLINE;
extern const uint32_t pfs_EXTENT_SHARED;
/* FIEMAP_EXTENT_UNKNOWN, _DELALLOC, _ENCODED, _NOT_ALIGNED and _DATA_TAIL. The bytes are not at the reported place. */
extern const uint32_t pfs_EXTENT_VAGUE;
/* FS_IOC_GETFLAGS: the flags of chattr(1). */
int64_t pfs_inode_flags(int32_t fd);
/* FS_IOC_SETFLAGS. */
int32_t pfs_set_inode_flags(int32_t fd, uint32_t flags);
extern const int64_t pfs_INODE_JOURNALLED;
extern const int64_t pfs_INODE_INLINE;
/* The f_type of fstatfs(2), with the same width on every architecture. */
int64_t pfs_filesystem_type(int32_t fd);
/* The f_fsid of fstatfs(2) as one number; 0 if the call fails. */
uint64_t pfs_filesystem_number(int32_t fd);
/* A time of statx(2). */
struct pfs_time {
    int64_t seconds;
    uint32_t nanoseconds;
};
/* The status of an object by statx(2), which one call gives with the time of making. */
struct pfs_status {
    uint64_t device, inode, special_device, size, blocks;
    uint32_t mode, links, owner, group, block_size;
    struct pfs_time accessed, modified, changed, born;
    int32_t has_born;
};
/* statx(2) of an entry, of the object of fd if name is empty. It does not follow symlinks. */
int32_t pfs_status(int32_t fd, const char *name, struct pfs_status *status);
/* makedev(3), major(3) and minor(3) are macros. */
uint64_t pfs_makedev(uint32_t major, uint32_t minor);
uint32_t pfs_major(uint64_t device);
uint32_t pfs_minor(uint64_t device);
/* The home directory of an account (getpwuid_r(3)) without a NUL: its length, or -1 if there is none or it does not fit. */
int32_t pfs_home_of(uint32_t user, char *path, uint64_t room);
/* Waits until the barrier (HostSystem/InPlaceLock.swift) whose 32-bit word is at `word` lets this thread in. */
void pfs_barrier_wait(void *word);
/* Wakes one of the threads that wait for it (futex(2)). */
void pfs_barrier_wake(void *word);

#endif
