"""Which files of a directory tree are opened, as inotify(7) reports them."""

import contextlib
import ctypes
import os
import struct

IN_OPEN, IN_ISDIR, IN_Q_OVERFLOW = 0x20, 0x4000_0000, 0x4000
LIBC = ctypes.CDLL(None, use_errno=True)


@contextlib.contextmanager
def opened_below(place):
    """Collects the inode numbers of the files below that are opened inside the block."""
    handle = LIBC.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    assert handle >= 0, os.strerror(ctypes.get_errno())
    directories, found = {}, set()
    try:
        for directory, _, _ in os.walk(place):
            watch = LIBC.inotify_add_watch(handle, os.fsencode(directory), IN_OPEN)
            assert watch >= 0, os.strerror(ctypes.get_errno())
            directories[watch] = directory
        yield found
        while True:
            try:
                events = os.read(handle, 1 << 20)
            except BlockingIOError:
                break
            at = 0
            while at < len(events):
                watch, mask, _, length = struct.unpack_from("iIII", events, at)
                name = events[at + 16:at + 16 + length].rstrip(b"\0")
                at += 16 + length
                assert not mask & IN_Q_OVERFLOW, "too many events"
                if name and not mask & IN_ISDIR and not name.startswith(b".protectfs."):
                    with contextlib.suppress(FileNotFoundError):
                        found.add(os.stat(os.path.join(os.fsencode(directories[watch]), name)).st_ino)
    finally:
        os.close(handle)
