"""Operations on names and attributes: each makes one system call, or a few, and gives what they answered."""

import ctypes
import fcntl
import os
import stat
import struct
import time

from .tree import checked, libc

AT_FDCWD, AT_EMPTY_PATH, AT_SYMLINK_NOFOLLOW = -100, 0x1000, 0x100
RECORD = 32  # bytes
GET_FLAGS, SET_FLAGS = 0x80086601, 0x40086602


# Names.

def make_directory(tree, path, mode):
    os.mkdir(path, mode)


def remove_directory(tree, path):
    os.rmdir(path)


def unlink(tree, path):
    os.unlink(path)


def rename(tree, old, new, flags=0):
    checked(libc.renameat2(AT_FDCWD, old, AT_FDCWD, new, flags))


def link(tree, old, new, follow=False):
    os.link(old, new, follow_symlinks=follow)


def link_open(tree, slot, new, empty):
    """Gives an open file a name, which O_TMPFILE needs."""
    if empty:
        checked(libc.linkat(tree.files[slot], b"", AT_FDCWD, new, AT_EMPTY_PATH))
    else:
        os.link(f"/proc/self/fd/{tree.files[slot]}", new, follow_symlinks=True)


def make_link(tree, target, path):
    os.symlink(target, path)


def read_link(tree, path):
    return os.readlink(path)


def make_node(tree, path, mode, device):
    os.mknod(path, mode, device)


# Directories.

def names(tree, path, prefix=b""):
    return sorted(name for name in os.listdir(path) if name.startswith(prefix))


def names_open(tree, slot):
    os.lseek(tree.files[slot], 0, os.SEEK_SET)
    return sorted(os.fsencode(name) for name in os.listdir(tree.files[slot]))


def entries(handle, size):
    """(name, place after it, type) of what one getdents64(2) gives."""
    buffer = ctypes.create_string_buffer(size)
    length, at, found = checked(libc.getdents64(handle, buffer, ctypes.c_size_t(size))), 0, []
    while at < length:
        _, place, width, kind = struct.unpack_from("<QqHB", buffer, at)
        found.append((buffer.raw[at + 19:at + width].split(b"\0", 1)[0], place, kind))
        at += width
    return found


def all_entries(handle, size):
    found, part = [], True
    while part:
        part = entries(handle, size)
        found += part
    return found


def types(tree, path):
    """The type that a listing shows of each name."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        return sorted((name, kind) for name, _, kind in all_entries(handle, 32768))
    finally:
        os.close(handle)


def seek_in_names(tree, path, size):
    """Returns to places that a listing has told, 300 at most: whether the entry after it follows, and what does if not."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        found, wrong = all_entries(handle, size), []
        for (name, place, _), after in list(zip(found, found[1:] + [None]))[::-(len(found) // 300 + 1)]:
            os.lseek(handle, place, os.SEEK_SET)
            names = [one[0] for one in (after,) + tuple(entries(handle, size)[:1]) if one]
            if len(names) != 2 * (after is not None) or names[:1] != names[1:]:
                wrong.append((name, place, names))
        return len(found), wrong
    finally:
        os.close(handle)


def names_while_changing(tree, path, size, made, removed):
    """Makes and removes names between the parts of a listing: every other name comes once."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        found = []
        for number in range(max(len(made), len(removed)) + 1):
            found += [name for name, _, _ in entries(handle, size)]
            for name in made[number:number + 1]:
                os.mknod(os.path.join(path, name), 0o644 | stat.S_IFREG)
            for name in removed[number:number + 1]:
                try:
                    os.unlink(os.path.join(path, name))
                except (FileNotFoundError, IsADirectoryError):
                    pass
        found += [name for name, _, _ in all_entries(handle, size)]
        stayed = [name for name in found if name not in made and name not in removed]
        return sorted(stayed), len(found) == len(set(found))
    finally:
        os.close(handle)


def many(tree, path, prefix, count):
    """Makes many names in a directory, every tenth of them a directory."""
    for number in range(count):
        name = os.path.join(path, prefix + b"%d" % number)
        if number % 10:
            os.mknod(name, 0o600 | stat.S_IFREG)
        else:
            os.mkdir(name)


def append_record(tree, path, text):
    """Appends to a file to which other processes append as well. Which of them makes it is chance, so no umask counts."""
    mask = os.umask(0)
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    finally:
        os.umask(mask)
    try:
        return os.write(handle, text.ljust(RECORD))
    finally:
        os.close(handle)


# Status.

def moment(tree, time_of):
    """A time that a program set, as it is; one that the kernel took, as before or after the last tick."""
    if not tree.start <= time_of <= time.time_ns() + 10 ** 9:
        return time_of
    return "new" if time_of >= tree.mark else "old"


def status_fields(tree, status):
    fields = {
        "mode": oct(status.st_mode), "links": status.st_nlink, "user": status.st_uid, "group": status.st_gid,
        "device": status.st_rdev, "access time": moment(tree, status.st_atime_ns),
        "modification time": moment(tree, status.st_mtime_ns), "change time": moment(tree, status.st_ctime_ns),
    }
    if not stat.S_ISDIR(status.st_mode):
        fields["size"] = status.st_size
    return fields


def status(tree, path, follow=False):
    return status_fields(tree, os.stat(path, follow_symlinks=follow))


def status_open(tree, slot):
    return status_fields(tree, os.fstat(tree.files[slot]))


def is_same(tree, one, other):
    return os.path.samestat(os.lstat(one), os.lstat(other))


def may(tree, path, mode):
    return os.access(path, mode, effective_ids=True)


def limits(tree, path):
    return os.statvfs(path).f_namemax


# Attributes.

def change_mode(tree, path, mode):
    os.chmod(path, mode)


def change_mode_open(tree, slot, mode):
    os.fchmod(tree.files[slot], mode)


def change_owner(tree, path, user, group, follow=False):
    os.chown(path, user, group, follow_symlinks=follow)


def change_owner_open(tree, slot, user, group):
    os.fchown(tree.files[slot], user, group)


def set_times(tree, path, access, modification, follow=False):
    """Times in nanoseconds; "now" and "omit" as utimensat(2) knows them."""
    checked(libc.utimensat(AT_FDCWD, path, time_pair(access, modification), 0 if follow else AT_SYMLINK_NOFOLLOW))


def set_times_open(tree, slot, access, modification):
    checked(libc.futimens(tree.files[slot], time_pair(access, modification)))


def time_pair(*times):
    special = {"now": (0, (1 << 30) - 1), "omit": (0, (1 << 30) - 2)}
    return struct.pack("<qqqq", *sum((special.get(one) or divmod(one, 10 ** 9) for one in times), ()))


def set_umask(tree, mask):
    os.umask(mask)


def set_attribute(tree, path, name, value, flags=0, follow=False):
    os.setxattr(path, name, value, flags, follow_symlinks=follow)


def set_attribute_open(tree, slot, name, value, flags=0):
    os.setxattr(tree.files[slot], name, value, flags)


def get_attribute(tree, path, name, follow=False):
    return os.getxattr(path, name, follow_symlinks=follow)


def attributes(tree, path, follow=False):
    return sorted(os.listxattr(path, follow_symlinks=follow))


def remove_attribute(tree, path, name, follow=False):
    os.removexattr(path, name, follow_symlinks=follow)


def set_acl(tree, path, which, entries_of):
    """An ACL of (tag, permissions, id): 1 owner, 2 user, 4 group, 8 named group, 16 mask, 32 others."""
    os.setxattr(path, which, struct.pack("<I", 2) + b"".join(
        struct.pack("<HHI", tag, permissions, number) for tag, permissions, number in entries_of))


def get_flags(tree, slot):
    answer = fcntl.ioctl(tree.files[slot], GET_FLAGS, bytes(8))
    return struct.unpack_from("<I", answer)[0] & ~0x80000  # extents are a matter of ext4


def add_flags(tree, slot, flags):
    """Immutable (16), append-only (32), no dump (64), no access time (128)."""
    now = struct.unpack_from("<I", fcntl.ioctl(tree.files[slot], GET_FLAGS, bytes(8)))[0]
    fcntl.ioctl(tree.files[slot], SET_FLAGS, struct.pack("<I4x", now & ~0xf0 | flags))
