"""More operations in the form of operations.py: size, status, names, attributes, locks."""

import ctypes
import fcntl
import os
import stat
import struct

from harness import CLASSES, PAGE, get_class, outcome, write_file
from operations import CONTENT, expect, operation, simple

SEEK_DATA, SEEK_HOLE = os.SEEK_DATA, os.SEEK_HOLE
KEEP_SIZE, PUNCH_HOLE, ZERO_RANGE = 1, 2, 16

libc = ctypes.CDLL(None, use_errno=True)


def fallocate(handle, mode, offset, length):
    if libc.fallocate(handle, mode, ctypes.c_long(offset), ctypes.c_long(length)) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


# Size.

def truncate_and_back(file):
    os.truncate(file.path, 0)
    write_file(file.path, CONTENT)


simple("truncate", "truncate(path) to nothing", truncate_and_back)


def truncating(name, length):
    def generator(file):
        file.make()
        yield
        result = outcome(os.truncate, file.path, length)
        yield result
        file.intact(CONTENT[:length].ljust(length, b"\0") if result == "works" else CONTENT)
    operation("truncate", name, handle=False)(generator)


truncating("truncate(path) shorter", 100)
truncating("truncate(path) longer", 9 * PAGE)
truncating("truncate(path) to a page's end", 2 * PAGE)


def sizing(name, act, changed=CONTENT):
    def generator(file):
        handle = file.handle()
        os.fsync(handle)
        yield
        result = outcome(act, handle)
        yield result
        file.intact(changed if result == "works" else CONTENT)
    operation("size of an open handle", name)(generator)


def same(found, wanted):
    expect(found == wanted, f"{found} instead of {wanted}")


sizing("ftruncate shorter", lambda handle: os.ftruncate(handle, 5000), CONTENT[:5000])
sizing("ftruncate longer", lambda handle: os.ftruncate(handle, 30000), CONTENT.ljust(30000, b"\0"))
sizing("fallocate", lambda handle: fallocate(handle, 0, 0, 30000), CONTENT.ljust(30000, b"\0"))
sizing("posix_fallocate", lambda handle: os.posix_fallocate(handle, 0, 30000), CONTENT.ljust(30000, b"\0"))
sizing("fallocate, KEEP_SIZE", lambda handle: fallocate(handle, KEEP_SIZE, 0, 30000))
sizing("fallocate, PUNCH_HOLE", lambda handle: fallocate(handle, KEEP_SIZE | PUNCH_HOLE, 100, 3 * PAGE),
       CONTENT[:100] + bytes(3 * PAGE) + CONTENT[100 + 3 * PAGE:])
sizing("fallocate, ZERO_RANGE", lambda handle: fallocate(handle, ZERO_RANGE, 100, 3 * PAGE),
       CONTENT[:100] + bytes(3 * PAGE) + CONTENT[100 + 3 * PAGE:])
sizing("lseek SEEK_DATA", lambda handle: same(os.lseek(handle, 10, SEEK_DATA), 10))
sizing("lseek SEEK_HOLE", lambda handle: same(os.lseek(handle, 10, SEEK_HOLE), len(CONTENT)))
sizing("lseek SEEK_END", lambda handle: same(os.lseek(handle, -10, os.SEEK_END), len(CONTENT) - 10))


# What is allowed always: status and names.

def status_is_right(file, found=None):
    found = found or os.stat(file.path)
    expect(found.st_size == len(CONTENT) and stat.S_ISREG(found.st_mode), f"wrong status: {found}")


simple("stat", "stat", status_is_right)
simple("stat", "lstat", lambda file: status_is_right(file, os.lstat(file.path)))
simple("stat", "readdir", lambda file: same(os.listdir(file.directory), ["file"]))
simple("stat", "readdir with status", lambda file: [status_is_right(file, e.stat()) for e in os.scandir(file.directory)])
simple("stat", "statvfs", lambda file: os.statvfs(file.path))
simple("stat", "access", lambda file: expect(os.access(file.path, os.R_OK | os.W_OK), "no access"))
simple("stat", "O_PATH", lambda file: os.close(os.open(file.path, os.O_PATH)))


@operation("stat", "fstat of an open handle")
def _(file):
    handle = file.handle()
    yield
    yield outcome(lambda: status_is_right(file, os.fstat(handle)))


@operation("stat", "readlink", handle=False)
def _(file):
    file.make()
    os.symlink("file", file.beside("link"))
    yield
    yield outcome(lambda: same(os.readlink(file.beside("link")), "file"))


def moved(file):
    os.rename(file.path, file.beside("moved"))
    os.rename(file.beside("moved"), file.path)


def moved_over_other(file):
    write_explicit(file.beside("victim"))
    os.rename(file.path, file.beside("victim"))
    os.rename(file.beside("victim"), file.path)


def write_explicit(path):
    """A file of class none that was given its class, beside files of any class, in any state."""
    staging = path + ".staging"
    os.mkdir(staging)
    os.setxattr(staging, "user.protection", b"none")
    inner = os.path.join(staging, "new")
    write_file(inner, b"new")
    os.setxattr(inner, "user.protection", b"none")
    os.rename(inner, path)
    os.rmdir(staging)


simple("names", "mkdir", lambda file: os.mkdir(file.beside("directory")))
simple("names", "symlink", lambda file: os.symlink("x", file.beside("symlink")))
simple("names", "mknod FIFO", lambda file: os.mkfifo(file.beside("fifo")))
simple("names", "mknod socket", lambda file: os.mknod(file.beside("socket"), stat.S_IFSOCK | 0o600))
simple("names", "rename", moved)
simple("names", "rename into another directory", lambda file: (
    os.mkdir(file.beside("inner")), os.rename(file.path, file.beside("inner/file")),
    os.rename(file.beside("inner/file"), file.path)))
simple("names", "rename over a file of class none", moved_over_other)
simple("names", "link", lambda file: os.link(file.path, file.beside("second")))
simple("names", "unlink", lambda file: os.unlink(file.path))
simple("names", "rename of the directory", lambda file: (
    os.rename(file.directory, file.directory + ".moved"), os.rename(file.directory + ".moved", file.directory)))


@operation("names", "rename of an explicit file over it", handle=False)
def _(file):
    file.make()
    yield

    def act():
        write_explicit(file.beside("new"))
        os.rename(file.beside("new"), file.path)
        same(get_class(file.path), "none")
    result = outcome(act)
    yield result
    file.intact(b"new" if result == "works" else CONTENT)


@operation("names", "rmdir", handle=False)
def _(file):
    file.make_directory()
    yield
    yield outcome(os.rmdir, file.directory)


@operation("names", "unlink of an open file")
def _(file):
    handle = file.handle()
    yield
    yield outcome(os.unlink, file.path)
    expect(os.pread(handle, PAGE, 0) == CONTENT[:PAGE], "the unlinked file does not read after unlock")


# Attributes.

# user::rw-, user:65534:r--, group::r--, mask::rw-, other::---
ACL = struct.pack("<I", 2) + b"".join(
    struct.pack("<HHI", tag, permission, name) for tag, permission, name in
    [(1, 6, 0xFFFFFFFF), (2, 4, 65534), (4, 4, 0xFFFFFFFF), (16, 6, 0xFFFFFFFF), (32, 0, 0xFFFFFFFF)])


def acl(file):
    os.setxattr(file.path, "system.posix_acl_access", ACL)
    same(len(os.getxattr(file.path, "system.posix_acl_access")), len(ACL))


def other_attribute(file):
    os.setxattr(file.path, "user.test", b"value")
    same(os.getxattr(file.path, "user.test"), b"value")
    os.removexattr(file.path, "user.test")


def times(file):
    os.utime(file.path, ns=(10 ** 18 + 1, 10 ** 18 + 2))
    found = os.stat(file.path)
    same((found.st_atime_ns, found.st_mtime_ns), (10 ** 18 + 1, 10 ** 18 + 2))


simple("attributes", "chmod", lambda file: (os.chmod(file.path, 0o600), same(os.stat(file.path).st_mode & 0o777, 0o600)))
simple("attributes", "chown", lambda file: os.chown(file.path, os.geteuid(), os.getegid()))
simple("attributes", "utimens", times)
simple("attributes", "access control list", acl)
simple("attributes", "other xattrs", other_attribute)
simple("attributes", "reading the class", lambda file: same(get_class(file.path), CLASSES[file.letter]))
simple("attributes", "listing xattrs", lambda file: same("user.protection" in os.listxattr(file.path), file.letter < "C"))


# Handles: what needs no content.

def holding(name, act):
    def generator(file):
        handle = file.handle()
        yield
        yield outcome(act, file, handle)
        file.intact()
    operation("handles without content", name)(generator)


def record_lock(file, handle):
    fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    fcntl.lockf(handle, fcntl.LOCK_UN)


holding("fsync", lambda file, handle: os.fsync(handle))
holding("fdatasync", lambda file, handle: os.fdatasync(handle))
holding("flush", lambda file, handle: os.close(os.dup(handle)))
holding("close", lambda file, handle: os.close(handle))
holding("flock", lambda file, handle: fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB))
holding("POSIX lock", record_lock)
holding("fchmod", lambda file, handle: os.fchmod(handle, 0o600))
holding("futimens", lambda file, handle: os.utime(handle, ns=(1, 2)))
holding("fgetxattr", lambda file, handle: same(os.getxattr(handle, "user.protection").decode(), CLASSES[file.letter]))
