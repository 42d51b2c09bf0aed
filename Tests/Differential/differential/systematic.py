"""Times and sizes: every pair of changes of one file, and what is left of both at once, synced, mounted again, and after a crash."""

import os

from .tree import Step

MOMENTS = ("at once", "sync_all", "remount", "crash")
TIME = 10 ** 18 + 123456789


def act(name, *arguments):
    return Step(0, name, arguments)


def place(number):
    """The directory and the first of the slots of a pair."""
    return b"%04d" % number, 10 * number


def start(number):
    """A file with two names: open by the first, for appending by the second, directly, and mapped."""
    top, slot = place(number)
    return [
        act("make_directory", top, 0o755), act("open_file", slot, top + b"/f", os.O_RDWR | os.O_CREAT, 0o644),
        act("write", slot, 0, 1, 5000), act("link", top + b"/f", top + b"/g"),
        act("open_file", slot + 1, top + b"/g", os.O_RDWR | os.O_APPEND, 0),
        act("open_file", slot + 2, top + b"/f", os.O_RDWR | os.O_DIRECT, 0), act("map_file", slot, slot, 0, 5000, True, True),
    ]


def changes(number, page=0):
    """What may happen to the file, by name. A mapped page that is dirty already tells the kernel nothing: so there are two."""
    top, slot = place(number)
    first, second, third = top + b"/f", top + b"/g", top + b"/h"
    return {
        "write": [act("write", slot, 100, 2, 50)],
        "extend": [act("write", slot, 5000, 3, 5000)],
        "append": [act("write_on", slot + 1, 4, 100)],
        "append by others": [act("append_elsewhere", second, 5, 70), act("append_elsewhere", first, 6, 30)],
        "mapped write": [act("map_put", slot, 4096 * page + 10, 7, 100)],
        "direct write": [act("write_aligned", slot + 2, 4096, 8, 4096)],
        "truncate": [act("truncate", first, 1000)],
        "ftruncate to the same size": [act("truncate_open", slot, 5000)],
        "ftruncate": [act("truncate_open", slot, 7000)],
        "O_TRUNC": [act("open_file", slot + 3, first, os.O_WRONLY | os.O_TRUNC, 0), act("write", slot + 3, 0, 9, 10)],
        "O_TRUNC by the other name": [act("open_file", slot + 4, second, os.O_WRONLY | os.O_TRUNC, 0)],
        "allocate": [act("allocate", slot, 0, 0, 20000)],
        "punch": [act("allocate", slot, 3, 0, 4096)],
        "set times": [act("set_times", second, TIME, TIME)],
        "set times, open": [act("set_times_open", slot, "omit", 2 * TIME)],
        "touch": [act("set_times", first, "now", "now")],
        "rename": [act("rename", first, third), act("rename", third, first)],
        "replace": [act("open_file", slot + 5, third, os.O_WRONLY | os.O_CREAT, 0o644), act("write", slot + 5, 0, 10, 300),
                    act("rename", third, first)],
        "unlink": [act("unlink", second)],
        "chmod": [act("change_mode", first, 0o600)],
        "fsync": [act("sync", slot)],
        "close": [act("unmap", slot), act("close", slot), act("close", slot + 1), act("close", slot + 2)],
        "read": [act("read", slot, 0, 100)],
    }


NAMES = tuple(changes(0))
PAIRS = tuple((one, other) for one in NAMES for other in NAMES)


def steps(moment, pairs=PAIRS):
    """All pairs side by side, with a tick between the first change and the second, and one before the moment."""
    numbers = range(len(pairs))
    made = [step for number in numbers for step in start(number)] + [act("tick")]
    made += [step for number in numbers for step in changes(number)[pairs[number][0]]] + [act("tick")]
    made += [step for number in numbers for step in changes(number, page=1)[pairs[number][1]]]
    made += [act("status", place(number)[0] + b"/f") for number in numbers]
    return made + ([act(moment)] if moment != "at once" else [])


def pair_of(difference):
    """The names of the two changes that a difference belongs to."""
    arguments = difference.step.arguments if difference.step else ()
    paths = [difference.path, *(word for word in arguments if isinstance(word, bytes))]
    for path in paths:
        if path[:4].isdigit():
            return PAIRS[int(path[:4])]
        if path.startswith(b"open file "):
            return PAIRS[int(path[10:]) // 10]
    return PAIRS[arguments[0] // 10] if arguments and isinstance(arguments[0], int) else ("", "")
