"""File handles (name_to_handle_at(2), open_by_handle_at(2)), which Python does not have."""

import contextlib
import ctypes
import errno
import fcntl
import os
import stat

libc = ctypes.CDLL(None, use_errno=True)


class FileHandle(ctypes.Structure):
    """struct file_handle, with room for the largest (MAX_HANDLE_SZ)."""

    _fields_ = [("size", ctypes.c_uint), ("kind", ctypes.c_int), ("bytes", ctypes.c_char * 128)]


def handle_of(path):
    handle, mount = FileHandle(size=128), ctypes.c_int()
    if libc.name_to_handle_at(-100, os.fsencode(path), ctypes.byref(handle), ctypes.byref(mount), 0) != 0:
        raise OSError(ctypes.get_errno(), "name_to_handle_at", path)
    return handle


def reopen(mount, handle, flags=os.O_RDONLY):
    """A descriptor of the handle's object."""
    root = os.open(mount.path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        number = libc.open_by_handle_at(root, ctypes.byref(handle), flags)
        if number < 0:
            raise OSError(ctypes.get_errno(), "open_by_handle_at")
        return number
    finally:
        os.close(root)


def result(mount, handle, flags=os.O_RDONLY):
    """What a handle gives: the content of a file, the names in a directory, the target of a symlink, or an errno."""
    try:
        number = reopen(mount, handle, flags)
    except OSError as error:
        return errno.errorcode[error.errno]
    try:
        kind = os.fstat(number).st_mode
        if stat.S_ISDIR(kind):
            return sorted(os.listdir(number))
        if stat.S_ISLNK(kind):
            return os.readlink("", dir_fd=number)
        return "special" if flags & os.O_PATH else os.read(number, 1 << 16)
    finally:
        os.close(number)


def forget():
    """Makes the kernel forget every object that nobody uses."""
    with for_the_machine(fcntl.LOCK_EX), open("/proc/sys/vm/drop_caches", "w", encoding="ascii") as drop:
        drop.write("2\n")


def nothing_forgotten():
    """Keeps other lanes of tests from making the kernel forget, as they do it for the whole machine."""
    return for_the_machine(fcntl.LOCK_SH)


@contextlib.contextmanager
def for_the_machine(kind):
    # All lanes have this file in common.
    with open(__file__, "rb") as file:
        fcntl.flock(file, kind)
        yield
