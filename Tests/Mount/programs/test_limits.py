"""What statvfs(2) promises, and times and sizes at the limits of what the store can keep, compared with ext4."""

import ctypes
import mmap
import os

from harness import outcome, run, set_class, wait_until, write_file
from stores import store

libc = ctypes.CDLL(None, use_errno=True)
libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long]
LARGEST = 1 << 44  # a file of ext4 with blocks of 4,096 bytes is shorter


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
            mount.sync()
            before = free(place)
            environment.cell(f"[{name}] fallocate of what is free", "works",
                             outcome(allocate, os.path.join(place, "file"), before))
            # The kernel tells a daemon of a last close(2) without waiting for it, and ext4 frees blocks with its journal.
            wait_until(lambda: mount.sync() or free(disk.backing) >= before - (1 << 20), what="the space to be free again")
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
        for place in (mount.path, below):
            os.mkdir(os.path.join(place, letter))
        # A change of a file's own class would give it a stored time beside this one.
        set_class(mount / letter, letter)
        for number in TIMES:
            for place in (mount / f"{letter}/{number}", os.path.join(below, letter, str(number))):
                write_file(place, b"")
                os.utime(place, ns=(number * 10 ** 9 + 5, number * 10 ** 9 + 7))
    mount = environment.remount(mount)
    for name in (f"{letter}/{number}" for letter in ("C", "A") for number in TIMES):
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


def beyond(place, letter=None):
    """What calls say of the offset at which the store's largest file ends, and the size that they leave."""
    path, found = os.path.join(place, f"large {letter}"), {}
    page, other = mmap.mmap(-1, 4096), os.path.join(place, "source")
    write_file(other, b"x" * 5000)
    for name, action in (("ftruncate", lambda handle: os.ftruncate(handle, LARGEST + 1)),
                         ("fallocate", lambda handle: reserve(handle, LARGEST)),
                         ("direct write", lambda handle: os.pwritev(handle, [page], LARGEST)),
                         ("copy_file_range", lambda handle: copy(other, handle))):
        write_file(path, b"")
        if letter:
            set_class(path, letter)
        handle = os.open(path, os.O_RDWR | (os.O_DIRECT if name == "direct write" else 0))
        found[name] = outcome(action, handle), os.fstat(handle).st_size, outcome(os.close, handle), os.stat(path).st_size
    return found


def reserve(handle, offset):
    if libc.fallocate(handle, 0, offset, 4096) != 0:
        raise OSError(ctypes.get_errno(), "fallocate")


def copy(source, handle):
    with open(source, "rb") as file:
        os.copy_file_range(file.fileno(), handle, 5000, 0, LARGEST)


def test_beyond_the_largest_file(environment):
    """EFBIG, as of ext4; a write through the page cache hears of it with fsync(2), because the kernel asks nobody before."""
    with store(environment, "ext4") as disk:
        mount = disk.mount()
        theirs = beyond(disk.backing)
        for letter in "CA":
            environment.cell(f"[class {letter}]", theirs, beyond(mount.path, letter))
        environment.cell("[EFBIG]", {("EFBIG", 0, "works", 0)}, set(theirs.values()))
        path = mount / "cached"
        for last, expected in (("fsync", "EFBIG"), ("close", "EIO")):
            handle = os.open(path, os.O_RDWR | os.O_CREAT)
            environment.cell(f"[cached, then {last}] pwrite", "works", outcome(os.pwrite, handle, b"x", LARGEST))
            if last == "fsync":
                environment.cell("[cached] fsync", expected, outcome(os.fsync, handle))
                os.close(handle)
            else:
                environment.cell("[cached] close", expected, outcome(os.close, handle))
            os.unlink(path)
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_DIRECT)
        environment.cell("[direct] pwrite", "EFBIG", outcome(os.pwrite, handle, b"x", LARGEST))
        os.close(handle)
