"""A tree in which steps are played: its open files and mappings, and who plays them."""

import ctypes
import errno
import os
import time
from typing import NamedTuple

# Who makes a call: user, group, other groups. Ordinary users are numbers without names.
ACTORS = ((0, 0, ()), (20001, 20001, (20010,)), (20002, 20002, (20010, 20011)))
libc = ctypes.CDLL(None, use_errno=True)


class Step(NamedTuple):
    """One operation: who makes it, its name, its arguments."""

    actor: int
    name: str
    arguments: tuple


class Tree:
    """One of the directories that are compared."""

    def __init__(self, path):
        self.path = path
        self.files, self.maps = {}, {}
        self.start = self.mark = time.time_ns() - 10 ** 9
        self.top = os.open(path, os.O_RDONLY | os.O_DIRECTORY)

    def close(self):
        """Closes what the steps have left open; gives the errors."""
        errors = []
        for mapping in self.maps.values():
            mapping.close()
        for slot, handle in [*sorted(self.files.items()), (None, self.top)]:
            try:
                os.close(handle)
            except OSError as error:
                errors.append((slot, name_of(error)))
        self.files, self.maps = {}, {}
        return errors


def become(actor):
    """Makes the calls that follow those of an actor. Only root can."""
    if os.getuid() == 0:
        user, group, groups = ACTORS[actor]
        os.seteuid(0)
        os.setgroups(groups)
        os.setegid(group)
        os.seteuid(user)
        libc.prctl(4, 1)  # dumpable again: else /proc/self/fd is root's


def checked(result):
    """The result of a call of libc, or its error."""
    if result == -1:
        raise OSError(ctypes.get_errno(), "")
    return result


def name_of(error):
    return "EOPNOTSUPP" if error.errno == errno.EOPNOTSUPP else errno.errorcode.get(error.errno, str(error.errno))


def play(tree, function, arguments):
    """The answer of one operation: a value, or the name of an errno. It works in the tree's top directory."""
    try:
        os.fchdir(tree.top)
        return function(tree, *arguments)
    except OSError as error:
        return name_of(error)
    except KeyError:
        return "nothing is open there"
