"""What one operation costs: requests of the kernel, calls to the store, heap allocations. Only counts, no clock.

A count that grows fails the test. If it shrinks, write the smaller number into the table.
"""

import contextlib
import ctypes
import os

import handles
import reader
from costs import NOT_BELOW, Cost, Counter
from harness import read_file, write_file

ROUNDS = 50
ENTRIES = 1000
libc = ctypes.CDLL(None, use_errno=True)


def nothing(path):
    """Most operations need a directory only."""


def file(path):
    write_file(path, b"content")


def missing(path):
    with contextlib.suppress(FileNotFoundError):
        os.stat(path)


def no_attribute(path):
    with contextlib.suppress(OSError):
        os.getxattr(path, "security.selinux")


def getattr_asked(path):
    """stat(2) that the kernel may not answer itself (AT_STATX_FORCE_SYNC)."""
    if libc.statx(-100, os.fsencode(path), 0x2000, 0x7FF, ctypes.create_string_buffer(256)) != 0:
        raise OSError(ctypes.get_errno(), "statx")


def create(path):
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL))


# Of the calls of what makes a name, one compares the record of the directory with the store.
# Name -> (what is there before, the operation, what was done with the object already, the most that it costs).
OPERATIONS = {
    "lookup": (file, os.stat, None, Cost(1, 1, 3)),
    "lookup of a missing name": (nothing, missing, None, Cost(1, 1, 2)),
    "getattr": (file, getattr_asked, os.stat, Cost(1, 1, 1)),
    "create": (nothing, create, None, Cost(4, 8, 12)),
    "create and write 4 KiB": (nothing, lambda path: write_file(path, bytes(4096)), None, Cost(6, 9, 17)),
    "open, read, close": (file, read_file, os.stat, Cost(3, 8, 9)),
    "open, read, close, again": (file, read_file, read_file, Cost(3, 5, 9)),
    "getxattr of a missing name": (file, no_attribute, os.stat, Cost(1, 4, 8)),
    "getxattr of a missing name, again": (file, no_attribute, no_attribute, Cost(1, 0, 2)),
    "getxattr user.protection": (file, lambda path: os.getxattr(path, "user.protection"), os.stat, Cost(1, 4, 5)),
    "setxattr": (file, lambda path: os.setxattr(path, "user.x", b"value"), os.stat, Cost(2, 10, 23)),
    "chmod": (file, lambda path: os.chmod(path, 0o600), os.stat, Cost(1, 4, 3)),
    "utimens": (file, lambda path: os.utime(path, (1, 1)), os.stat, Cost(1, 5, 3)),
    "rename": (file, lambda path: os.rename(path, path + " new"), os.stat, Cost(4, 9, 12)),
    "rename of a file that was read": (file, lambda path: os.rename(path, path + " new"), read_file, Cost(4, 6, 7)),
    "mkdir": (nothing, os.mkdir, None, Cost(3, 9, 10)),
    "rmdir": (os.mkdir, os.rmdir, os.stat, Cost(2, 14, 20)),
    "symlink": (nothing, lambda path: os.symlink("target", path), None, Cost(3, 7, 11)),
    "unlink": (file, os.unlink, os.stat, Cost(3, 7, 11)),
    "unlink of a file that was read": (file, os.unlink, read_file, Cost(3, 5, 8)),
}


def test_counts(environment):
    volume = environment.volume()
    mount = environment.mount(volume)
    for name, (prepare, *_) in OPERATIONS.items():
        os.mkdir(mount / name)
        for number in range(2 * ROUNDS + 1):
            prepare(mount / f"{name}/{number}")
    mount.unmount()
    counter = Counter(environment, volume)
    for name, (_, run, done, most) in OPERATIONS.items():
        paths = [counter.mount / f"{name}/{number}" for number in range(2 * ROUNDS + 1)]
        # What was done stays known until it is counted.
        with handles.nothing_forgotten():
            if done:
                for path in paths:
                    done(path)
            # The first one opens the directory.
            run(paths[0])
            # Twice, and the smaller counts, because the daemon's timers may run meanwhile.
            counts = [counter.cost(run, part) for part in (paths[1:ROUNDS + 1], paths[ROUNDS + 1:])]
        cost = Cost(*map(min, *(cost for cost, _ in counts)))
        calls = min(counts, key=lambda count: count[0])[1]
        # The daemon's other threads and a table that grows may add a few in all.
        grown = {kind: getattr(cost, kind) for kind in Cost._fields if getattr(cost, kind) > getattr(most, kind) + 0.5}
        environment.cell(name, {}, grown and {**grown, "calls by name": calls})


def test_random_bytes(environment):
    """A new file asks the kernel for the nonce of its first page; its ID, key and name come from a pool."""
    counter = Counter(environment, environment.volume())
    paths = [counter.mount / str(number) for number in range(ROUNDS)]
    _, calls = counter.cost(create, paths, left_out=NOT_BELOW.replace(",getrandom", ""))
    environment.cell("calls for each file", True, calls.get("getrandom", 0) <= 1.2 or calls)


def test_listing(environment):
    """An entry of a listing costs a name and, in READDIRPLUS, a node. Later the kernel has the listing in its cache."""
    mount = environment.mount()
    os.mkdir(mount / "d")
    for number in range(ENTRIES):
        write_file(mount / f"d/{number}", b"")
    mount.unmount()
    counter = Counter(environment, mount.volume)
    for what, most in (("first", 1.4), ("again", 0.1)):
        cost, _ = counter.cost(os.listdir, [counter.mount / "d"])
        environment.cell(what, True, cost.allocations / ENTRIES <= most or cost)


def test_undecryptable_names(environment):
    """Such a name does not tell its entry, but not each lookup lists the directory."""
    mount = environment.mount()
    os.mkdir(mount / "d")
    below = reader.unlock(mount.volume).backing_path("d")
    mount.unmount()
    for number in range(ROUNDS):
        write_file(os.path.join(os.fsencode(below), b"foreign %d" % number), b"")
    mount = environment.mount(mount.volume)
    names = os.listdir(mount / "d")
    environment.cell("names", ROUNDS, len([name for name in names if name.startswith(".undecryptable-")]))
    mount.unmount()
    counter = Counter(environment, mount.volume)
    _, calls = counter.cost(os.lstat, [counter.mount / f"d/{name}" for name in names])
    environment.cell("listings", True, calls.get("getdents64", 0) * len(names) <= 4)
