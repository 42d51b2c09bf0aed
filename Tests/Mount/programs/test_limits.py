"""What statvfs(2) promises, and times at the limits of what the store can keep, compared with ext4."""

import ctypes
import os

from harness import outcome, run, set_class, write_file
from stores import store

libc = ctypes.CDLL(None, use_errno=True)
libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long]


def allocate(path, length):
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if libc.fallocate(handle, 0, 0, length) != 0:
            raise OSError(ctypes.get_errno(), "fallocate")
    finally:
        os.close(handle)
        os.unlink(path)


def free(place):
    found = os.statvfs(place)
    return found.f_bavail * found.f_frsize


def test_what_is_free_can_be_had(environment):
    """A file of all the space that is free, by fallocate(2) and by writing. Nothing is kept for root, so that root is no exception."""
    with store(environment, "ext4") as disk:
        mount = disk.mount()
        run("tune2fs", "-m", "0", disk.disk.loop)
        for name, place in (("below", disk.backing), ("mount", mount.path)):
            os.sync()
            environment.cell(f"[{name}] fallocate of what is free", "works",
                             outcome(allocate, os.path.join(place, "file"), free(place)))
            os.sync()
        length = free(mount.path)
        with open(mount / "written", "wb", buffering=0) as file:
            piece = os.urandom(1 << 20)
            while length:
                length -= file.write(piece[:min(length, len(piece))])
            environment.cell("writing what is free", "works", outcome(os.fsync, file.fileno()))
        found, below = os.statvfs(mount.path), os.statvfs(disk.backing)
        environment.cell("little is held back", True,
                         found.f_blocks > below.f_blocks * 98 // 100 and below.f_bavail * below.f_frsize < 4 << 20)


TIMES = (-(1 << 40), -(1 << 31) - 1, -1, 0, (1 << 31), (1 << 33), (1 << 34), (1 << 40))


def test_times_at_the_limits(environment):
    """Times are kept as the store keeps them: those that it cannot keep are its first or its last one after a remount."""
    mount = environment.mount()
    below = environment.new_path("below")
    os.mkdir(below)
    for letter in ("C", "A"):
        for number in TIMES:
            path = mount / f"{letter} {number}"
            write_file(path, b"")
            set_class(path, letter)
            write_file(os.path.join(below, f"{letter} {number}"), b"")
            for place in (path, os.path.join(below, f"{letter} {number}")):
                os.utime(place, ns=(number * 10 ** 9 + 5, number * 10 ** 9 + 7))
    mount = environment.remount(mount)
    for name in sorted(os.listdir(below)):
        ours, theirs = os.stat(mount / name), os.stat(os.path.join(below, name))
        environment.cell(f"[{name}] times", (theirs.st_atime_ns, theirs.st_mtime_ns), (ours.st_atime_ns, ours.st_mtime_ns))


def test_change_times_over_a_remount(environment):
    """The kernel's time of a change is its own; after a remount it is that at which the store made the change: never earlier."""
    mount = environment.mount()
    paths = [mount / f"file{number}" for number in range(10)]
    for path in paths:
        write_file(path, b"content")
        os.chmod(path, 0o600)
    before = {path: os.stat(path).st_ctime_ns for path in paths}
    mount = environment.remount(mount)
    # Times of the store advance in steps of some milliseconds.
    earlier = {path: (before[path], os.stat(path).st_ctime_ns) for path in paths
               if os.stat(path).st_ctime_ns < before[path] - 20_000_000}
    environment.cell("change times that went back", {}, earlier)
