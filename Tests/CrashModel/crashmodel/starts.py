"""The states that sequences begin with, and the operations."""

from . import pages as p
from .explore import LIVE, down, nothing
from .operations import Session
from .world import FIELDS, PENDING


def full_file(size, flags=0, holes=()):
    """A file of an earlier mount, closed, and without a trace of a crash."""
    last = p.last_block(size)
    pages = []
    for index in range(last + 1):
        length = min(p.CAPACITY, size - index * p.CAPACITY)
        block = (p.CLOSED, int(index == last), (1,) * length, 0)
        pages.append(p.ZERO if index in holes else block + (flags, p.WEAK) if index == 0 else block)
    return (p.backing_length(size), tuple(pages))


def closed(size, flags=0, holes=(), everything=False):
    """Such a file on a store without a mount; `everything` for a state file that was lost."""
    return down(full_file(size, flags, holes), False, everything)


def new_file(ordered=True):
    """A file that this mount makes. Its page 0 waits."""
    fields = nothing()
    session = Session((p.ABSENT, frozenset([(p.ABSENT, 0)]), tuple(fields[key] for key in FIELDS)), ordered,
                      lambda *_: None)
    session.begin_epoch()
    session.store.create()
    session.page_zero = PENDING
    session.marked = True
    session.grew = True
    return (LIVE,) + session.state()


def starts(ordered=True):
    """The starts of a full run: a new file, full and sparse ones of an earlier mount, and a lost state file."""
    return [new_file(ordered), closed(0), closed(1), closed(2), closed(3), closed(5), closed(6), closed(8),
            closed(7, p.HOLES, (1, 2)), closed(8, p.HOLES, (2,)), closed(5, p.HOLES, (1,)), closed(6, everything=True)]


# What programs, mounts and checks do: everything, and the part that decides about sizes and pages.
OPERATIONS = [
    ("write", 0, 1), ("write", 1, 2), ("write", 2, 2), ("write", 5, 1), ("write", 7, 1), ("write", 0, 8),
    ("append", 1), ("append", 2), ("append", 3),
    ("truncate", 0), ("truncate", 1), ("truncate", 2), ("truncate", 3), ("truncate", 5), ("truncate", 8),
    ("punch", 0, 8), ("punch", 2, 4), ("zero", 1, 6), ("reserve", 8),
    ("class", p.STRONG), ("class", p.WEAK), ("fsync",), ("reopen",), ("unmount",), ("check",), ("mend",),
    ("mend by holes",), ("full", -1, 3, 0, False), ("full", -1, 3, 1, False), ("full", -1, 3, 1, True),
    ("full", 7, 1, 0, False), ("full", 7, 1, 1, True), ("reopen without space",), ("unmount without space",),
]
CORE = [
    ("write", 0, 1), ("write", 2, 2), ("write", 7, 1), ("append", 1), ("append", 3), ("truncate", 0), ("truncate", 1),
    ("truncate", 2), ("truncate", 3), ("truncate", 5), ("punch", 0, 8), ("fsync",), ("unmount",), ("mend",),
]
