"""What one operation costs: requests of the kernel, calls to the store, heap allocations. Only counts, no clock.

A count that grows fails the test. If it shrinks, write the smaller number into the table.
"""

import contextlib
import os

from costs import Cost, Counter
from harness import read_file, write_file

ROUNDS = 50


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


def create(path):
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL))


# Name -> (what is there before, the operation, whether the kernel knows the object already, the most that it costs).
OPERATIONS = {
    "lookup": (file, os.stat, False, Cost(1, 1, 4)),
    "lookup of a missing name": (nothing, missing, False, Cost(1, 1, 2)),
    "create": (nothing, create, False, Cost(4, 10, 20)),
    "create and write 4 KiB": (nothing, lambda path: write_file(path, bytes(4096)), False, Cost(7, 12, 26)),
    "open, read, close": (file, read_file, True, Cost(3, 10, 15)),
    "getxattr of a missing name": (file, no_attribute, True, Cost(1, 4, 8)),
    "getxattr user.protection": (file, lambda path: os.getxattr(path, "user.protection"), True, Cost(1, 5, 5)),
    "setxattr": (file, lambda path: os.setxattr(path, "user.x", b"value"), True, Cost(2, 20, 31)),
    "chmod": (file, lambda path: os.chmod(path, 0o600), True, Cost(1, 4, 3)),
    "utimens": (file, lambda path: os.utime(path, (1, 1)), True, Cost(1, 5, 3)),
    "rename": (file, lambda path: os.rename(path, path + " new"), True, Cost(4, 15, 26)),
    "mkdir": (nothing, os.mkdir, False, Cost(3, 11, 21)),
    "rmdir": (os.mkdir, os.rmdir, True, Cost(2, 12, 20)),
    "symlink": (nothing, lambda path: os.symlink("target", path), False, Cost(3, 7, 13)),
    "unlink": (file, os.unlink, True, Cost(3, 12, 16)),
}


def test_counts(environment):
    volume = environment.volume()
    mount = environment.mount(volume)
    for name, (prepare, *_) in OPERATIONS.items():
        os.mkdir(mount / name)
        for number in range(ROUNDS + 1):
            prepare(mount / f"{name}/{number}")
    mount.unmount()
    counter = Counter(environment, volume)
    for name, (_, run, isKnown, most) in OPERATIONS.items():
        paths = [counter.mount / f"{name}/{number}" for number in range(ROUNDS + 1)]
        if isKnown:
            for path in paths:
                os.stat(path)
        # The first one opens the directory.
        run(paths[0])
        cost, calls = counter.cost(run, paths[1:])
        # The daemon's other threads and a table that grows may add a few in all.
        grown = {kind: getattr(cost, kind) for kind in Cost._fields if getattr(cost, kind) > getattr(most, kind) + 0.5}
        environment.cell(name, {}, grown and {**grown, "calls by name": calls})
