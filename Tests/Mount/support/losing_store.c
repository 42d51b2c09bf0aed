/*
 * A FUSE file system for tests that loses what was not synced: losing_store LIVE RECORD MOUNTPOINT [fuse options]
 *
 * Shows the directory LIVE. RECORD gets what an fsync has made durable: f<inode> is a file's content, with its extended
 * attributes, and d<inode> is the list of a directory. At the start everything is durable. losing.py makes the tree
 * after a power cut of both. Inode numbers must not be used again while this runs, so LIVE is on a tmpfs.
 * A file "lose" in RECORD holds a number: so many calls from now that make a name, one is done and answered with EIO.
 * SIGUSR1 cuts the power: what is being made durable is finished first, as a file system's journal has a step or not.
 *
 * It is built on libfuse's high-level interface, as most FUSE file systems are: offsets of a listing are 1, 2, 3, and
 * here "." and ".." come last; syncfs(2) does not arrive; renameat2(2) with flags is EINVAL.
 */
#define _GNU_SOURCE
#define FUSE_USE_VERSION 314
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <fuse.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

static int live = -1, record = -1;
static char live_path[PATH_MAX];
static pthread_mutex_t syncing = PTHREAD_MUTEX_INITIALIZER;

/* A rename from one directory into another is one step: if one of them becomes durable, the other does. */
static struct pair { ino_t one, other; } pairs[4096];
static size_t pair_count;

static const char *at(const char *path) { return path[1] ? path + 1 : "."; }
static int result(long value) { return value < 0 ? -errno : (int)value; }

/* Whether the reply to a call that has made a name is lost. */
static int is_lost(void) {
    static pthread_mutex_t counting = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&counting);
    int left = 0, number = openat(record, "lose", O_RDWR | O_CLOEXEC);
    if (number >= 0) {
        char text[16] = "";
        if (pread(number, text, sizeof text - 1, 0) > 0) left = atoi(text);
        snprintf(text, sizeof text, "%d\n", left - 1);
        if (ftruncate(number, 0) < 0 || pwrite(number, text, strlen(text), 0) < 0) left = 0;
        close(number);
    }
    pthread_mutex_unlock(&counting);
    return left == 1;
}
static int reply(int done) { return done == 0 && is_lost() ? -EIO : done; }

/* Paths for calls without an *at form. */
static void whole(const char *path, char *buffer) { snprintf(buffer, PATH_MAX, "%s%s", live_path, path); }

/* ---- what is durable ---- */

static int copy_file(int from, const struct stat *status) {
    char name[64], temporary[64];
    static unsigned long number;
    snprintf(name, sizeof name, "f%lu", (unsigned long)status->st_ino);
    snprintf(temporary, sizeof temporary, "new%lu", ++number);
    int to = openat(record, temporary, O_WRONLY | O_CREAT | O_EXCL, 0600);
    if (to < 0) return -errno;
    char buffer[65536];
    off_t done = 0;
    ssize_t count;
    while ((count = pread(from, buffer, sizeof buffer, done)) > 0) {
        if (pwrite(to, buffer, count, done) != count) { close(to); return -EIO; }
        done += count;
    }
    char names[65536], value[65536];
    ssize_t length = flistxattr(from, names, sizeof names);
    for (char *one = names; length > 0 && one < names + length; one += strlen(one) + 1) {
        ssize_t size = fgetxattr(from, one, value, sizeof value);
        if (size >= 0) fsetxattr(to, one, value, size, 0);
    }
    fchmod(to, status->st_mode & 07777);
    fchown(to, status->st_uid, status->st_gid);
    close(to);
    return result(renameat(record, temporary, record, name));
}

static void hex(FILE *out, const char *bytes, size_t length) {
    for (size_t index = 0; index < length; index++) fprintf(out, "%02x", (unsigned char)bytes[index]);
}

/* One line per entry: type, inode, mode, owner, group, name, and a link's target or a device's number. */
static int list_directory(int directory, const struct stat *status) {
    char name[64];
    snprintf(name, sizeof name, "d%lu", (unsigned long)status->st_ino);
    int number = openat(record, "list", O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (number < 0) return -errno;
    FILE *out = fdopen(number, "w");
    DIR *listing = fdopendir(openat(directory, ".", O_RDONLY | O_DIRECTORY));
    fprintf(out, ". %lu %o %u %u\n", (unsigned long)status->st_ino, status->st_mode & 07777, status->st_uid,
            status->st_gid);
    struct dirent *entry;
    while (listing && (entry = readdir(listing))) {
        struct stat found;
        char target[PATH_MAX];
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
        if (fstatat(directory, entry->d_name, &found, AT_SYMLINK_NOFOLLOW) < 0) continue;
        fprintf(out, "%o %lu %o %u %u ", found.st_mode & S_IFMT, (unsigned long)found.st_ino, found.st_mode & 07777,
                found.st_uid, found.st_gid);
        hex(out, entry->d_name, strlen(entry->d_name));
        if (S_ISLNK(found.st_mode)) {
            ssize_t length = readlinkat(directory, entry->d_name, target, sizeof target);
            fputc(' ', out);
            if (length > 0) hex(out, target, length);
        } else {
            fprintf(out, " %lx", (unsigned long)found.st_rdev);
        }
        fputc('\n', out);
    }
    if (listing) closedir(listing);
    fclose(out);
    return result(renameat(record, "list", record, name));
}

static ino_t wanted;
static int find_wanted(const char *path, const struct stat *status, int kind, struct FTW *walk) {
    (void)walk;
    if (kind != FTW_D || status->st_ino != wanted) return 0;
    int directory = open(path, O_RDONLY | O_DIRECTORY);
    if (directory >= 0) {
        list_directory(directory, status);
        close(directory);
    }
    return 1;
}

static int keep_directory(int directory) {
    struct stat status;
    if (fstat(directory, &status) < 0) return -errno;
    ino_t waiting[4096] = {status.st_ino};
    size_t count = 1, next = 0;
    int failure = list_directory(directory, &status);
    while (next < count) {
        ino_t here = waiting[next++];
        if (here != status.st_ino) {
            wanted = here;
            /* A directory that somebody removes meanwhile ends the walk. */
            while (nftw(live_path, find_wanted, 32, FTW_PHYS) < 0 && errno == ENOENT) {}
        }
        for (size_t index = 0; index < pair_count;) {
            struct pair *one = &pairs[index];
            if (one->one != here && one->other != here) { index++; continue; }
            if (count < 4096) waiting[count++] = one->one == here ? one->other : one->one;
            *one = pairs[--pair_count];
        }
    }
    return failure;
}

static int keep_all(const char *path, const struct stat *status, int kind, struct FTW *walk) {
    (void)walk;
    if (kind != FTW_D && kind != FTW_F) return 0;
    if (kind == FTW_F && !S_ISREG(status->st_mode)) return 0;
    int number = open(path, O_RDONLY | O_NONBLOCK);
    if (number < 0) return -1;
    int failure = kind == FTW_D ? list_directory(number, status) : copy_file(number, status);
    close(number);
    return failure;
}

/* ---- the file system ---- */

static void *fs_init(struct fuse_conn_info *connection, struct fuse_config *config) {
    (void)connection;
    config->use_ino = 1;
    config->entry_timeout = config->attr_timeout = config->negative_timeout = 0;
    config->hard_remove = 1;
    return NULL;
}

static int fs_getattr(const char *path, struct stat *status, struct fuse_file_info *info) {
    if (info && info->fh) return result(fstat((int)info->fh, status));
    return result(fstatat(live, at(path), status, AT_SYMLINK_NOFOLLOW));
}
static int fs_readlink(const char *path, char *buffer, size_t size) {
    ssize_t length = readlinkat(live, at(path), buffer, size - 1);
    if (length < 0) return -errno;
    buffer[length] = 0;
    return 0;
}
/* A new object belongs to the one who asked for it. */
static int owned(const char *path, int done) {
    if (done < 0) return -errno;
    struct fuse_context *context = fuse_get_context();
    fchownat(live, at(path), context->uid, context->gid, AT_SYMLINK_NOFOLLOW);
    return reply(0);
}
static int fs_mknod(const char *path, mode_t mode, dev_t device) { return owned(path, mknodat(live, at(path), mode, device)); }
static int fs_mkdir(const char *path, mode_t mode) { return owned(path, mkdirat(live, at(path), mode)); }
static int fs_symlink(const char *target, const char *path) { return owned(path, symlinkat(target, live, at(path))); }
static int fs_unlink(const char *path) { return result(unlinkat(live, at(path), 0)); }
static int fs_rmdir(const char *path) { return result(unlinkat(live, at(path), AT_REMOVEDIR)); }
static int fs_link(const char *path, const char *name) { return reply(result(linkat(live, at(path), live, at(name), 0))); }
static int fs_chmod(const char *path, mode_t mode, struct fuse_file_info *info) {
    return result(info && info->fh ? fchmod((int)info->fh, mode) : fchmodat(live, at(path), mode, 0));
}
static int fs_chown(const char *path, uid_t owner, gid_t group, struct fuse_file_info *info) {
    if (info && info->fh) return result(fchown((int)info->fh, owner, group));
    return result(fchownat(live, at(path), owner, group, AT_SYMLINK_NOFOLLOW));
}
static int fs_truncate(const char *path, off_t size, struct fuse_file_info *info) {
    if (info && info->fh) return result(ftruncate((int)info->fh, size));
    char name[PATH_MAX];
    whole(path, name);
    return result(truncate(name, size));
}
static int fs_utimens(const char *path, const struct timespec times[2], struct fuse_file_info *info) {
    if (info && info->fh) return result(futimens((int)info->fh, times));
    return result(utimensat(live, at(path), times, AT_SYMLINK_NOFOLLOW));
}

static int parent_number(const char *path, ino_t *number) {
    char name[PATH_MAX];
    struct stat status;
    snprintf(name, sizeof name, "%s", at(path));
    char *slash = strrchr(name, '/');
    if (slash) *slash = 0;
    if (fstatat(live, slash ? name : ".", &status, 0) < 0) return -errno;
    *number = status.st_ino;
    return 0;
}
static int fs_rename(const char *path, const char *name, unsigned flags) {
    if (flags) return -EINVAL;
    ino_t from = 0, to = 0;
    parent_number(path, &from);
    parent_number(name, &to);
    pthread_mutex_lock(&syncing);
    int done = result(renameat(live, at(path), live, at(name)));
    if (done == 0 && from != to && pair_count < sizeof pairs / sizeof *pairs) pairs[pair_count++] = (struct pair){from, to};
    pthread_mutex_unlock(&syncing);
    return reply(done);
}

static int fs_open(const char *path, struct fuse_file_info *info) {
    int number = openat(live, at(path), (info->flags & ~O_NOFOLLOW) | O_CLOEXEC);
    if (number < 0) return -errno;
    info->fh = number;
    return 0;
}
static int fs_create(const char *path, mode_t mode, struct fuse_file_info *info) {
    int number = openat(live, at(path), info->flags | O_CREAT | O_CLOEXEC, mode);
    if (number < 0) return -errno;
    struct fuse_context *context = fuse_get_context();
    fchown(number, context->uid, context->gid);
    if (is_lost()) {
        close(number);
        return -EIO;
    }
    info->fh = number;
    return 0;
}
static int fs_read(const char *path, char *buffer, size_t size, off_t offset, struct fuse_file_info *info) {
    (void)path;
    return result(pread((int)info->fh, buffer, size, offset));
}
static int fs_write(const char *path, const char *buffer, size_t size, off_t offset, struct fuse_file_info *info) {
    (void)path;
    return result(pwrite((int)info->fh, buffer, size, offset));
}
static int fs_statfs(const char *path, struct statvfs *status) {
    (void)path;
    return result(fstatvfs(live, status));
}
static int fs_release(const char *path, struct fuse_file_info *info) {
    (void)path;
    return result(close((int)info->fh));
}
static int fs_fsync(const char *path, int data_only, struct fuse_file_info *info) {
    (void)path, (void)data_only;
    char name[64];
    struct stat status;
    if (fstat((int)info->fh, &status) < 0) return -errno;
    snprintf(name, sizeof name, "/proc/self/fd/%d", (int)info->fh);
    int again = open(name, O_RDONLY | O_CLOEXEC);
    if (again < 0) return -errno;
    pthread_mutex_lock(&syncing);
    int done = fstat(again, &status) < 0 ? -errno : copy_file(again, &status);
    pthread_mutex_unlock(&syncing);
    close(again);
    return done;
}
static int fs_fsyncdir(const char *path, int data_only, struct fuse_file_info *info) {
    (void)data_only, (void)info;
    int directory = openat(live, at(path), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0) return -errno;
    pthread_mutex_lock(&syncing);
    int done = keep_directory(directory);
    pthread_mutex_unlock(&syncing);
    close(directory);
    return done;
}

static int fs_readdir(const char *path, void *buffer, fuse_fill_dir_t fill, off_t offset, struct fuse_file_info *info,
                      enum fuse_readdir_flags flags) {
    (void)offset, (void)info, (void)flags;
    int directory = openat(live, at(path), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0) return -errno;
    DIR *listing = fdopendir(directory);
    struct dirent *entry;
    while ((entry = readdir(listing))) {
        struct stat status = {.st_ino = entry->d_ino, .st_mode = (mode_t)entry->d_type << 12};
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
        fill(buffer, entry->d_name, &status, 0, 0);
    }
    closedir(listing);
    fill(buffer, ".", NULL, 0, 0);
    fill(buffer, "..", NULL, 0, 0);
    return 0;
}

static int fs_setxattr(const char *path, const char *name, const char *value, size_t size, int flags) {
    char file[PATH_MAX];
    whole(path, file);
    return result(lsetxattr(file, name, value, size, flags));
}
static int fs_getxattr(const char *path, const char *name, char *value, size_t size) {
    char file[PATH_MAX];
    whole(path, file);
    return result(lgetxattr(file, name, value, size));
}
static int fs_listxattr(const char *path, char *list, size_t size) {
    char file[PATH_MAX];
    whole(path, file);
    return result(llistxattr(file, list, size));
}
static int fs_removexattr(const char *path, const char *name) {
    char file[PATH_MAX];
    whole(path, file);
    return result(lremovexattr(file, name));
}

static const struct fuse_operations operations = {
    .init = fs_init, .getattr = fs_getattr, .readlink = fs_readlink, .mknod = fs_mknod, .mkdir = fs_mkdir,
    .unlink = fs_unlink, .rmdir = fs_rmdir, .symlink = fs_symlink, .rename = fs_rename, .link = fs_link,
    .chmod = fs_chmod, .chown = fs_chown, .truncate = fs_truncate, .open = fs_open, .create = fs_create,
    .read = fs_read, .write = fs_write, .statfs = fs_statfs, .release = fs_release, .fsync = fs_fsync,
    .fsyncdir = fs_fsyncdir, .readdir = fs_readdir, .setxattr = fs_setxattr, .getxattr = fs_getxattr,
    .listxattr = fs_listxattr, .removexattr = fs_removexattr, .utimens = fs_utimens,
};

static void *wait_for_cut(void *signals) {
    int number;
    sigwait(signals, &number);
    pthread_mutex_lock(&syncing);
    _exit(0);
}

int main(int count, char **words) {
    if (count < 4) return 2;
    umask(0);
    if (!realpath(words[1], live_path)) return 1;
    live = open(live_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    record = open(words[2], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (live < 0 || record < 0) return 1;
    if (nftw(live_path, keep_all, 32, FTW_PHYS) != 0) return 1;
    sigset_t signals;
    pthread_t waiting;
    sigemptyset(&signals);
    sigaddset(&signals, SIGUSR1);
    if (pthread_sigmask(SIG_BLOCK, &signals, NULL) || pthread_create(&waiting, NULL, wait_for_cut, &signals)) return 1;
    words[2] = words[0];
    return fuse_main(count - 2, words + 2, &operations, NULL);
}
