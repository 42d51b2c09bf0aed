"""What programs on two sides find of each other's work: two mounts of one store, or twice the same directory of ext4.

Each function gets the two directories and gives a list of (what, found), which is the same for both."""

import contextlib
import fcntl
import os
import signal
import sqlite3
import struct
import time

from harness import outcome, pattern, read_file, wait_until, write_file
from processes import in_child

LINE = 64


def both(one, other):
    """Each side as the one that works, and the one that looks."""
    return ((one, other), (other, one))


def content(one, other):
    """Close-to-open: what was closed on one side is what an open on the other finds."""
    seen = []
    for number, (here, there) in enumerate(both(one, other) * 3):
        path, copy = os.path.join(here, "content"), os.path.join(there, "content")
        for size in (10, 3_932, 3_933, 9_000, 300_000, 300_000, 100, 0, 5_000):
            wanted = pattern(size, seed=number * 100 + size % 89)
            write_file(path, wanted, os.O_TRUNC)
            seen.append((f"size {size}", os.stat(copy).st_size))
            handle = os.open(copy, os.O_RDONLY)
            seen.append((f"fstat {size}", os.fstat(handle).st_size))
            seen.append((f"content {size}", os.pread(handle, 400_000, 0) == wanted))
            seen.append((f"time {size}", os.fstat(handle).st_mtime_ns == os.stat(path).st_mtime_ns))
            os.close(handle)
        for start, end in ((4_000, 4_500), (12_000, 12_010), (40_000, 90_000)):
            with open(path, "r+b") as file:
                file.seek(start)
                file.write(b"x" * (end - start))
            wanted = read_file(path)
            seen.append((f"part {start}", wanted == read_file(copy)))
        os.truncate(path, 5_000)
        seen.append(("cut", read_file(copy) == wanted[:5_000]))
        os.truncate(path, 0)
        os.truncate(path, 20_000)
        seen.append(("a hole", read_file(copy) == bytes(20_000)))
    return seen


def held_open(one, other):
    """A side that keeps the file open finds by reading past its cache what the other has closed."""
    seen = []
    for here, there in both(one, other):
        path = os.path.join(here, "held")
        write_file(path, pattern(9_000), os.O_TRUNC)
        handle = os.open(os.path.join(there, "held"), os.O_RDWR)
        for size in (20_000, 300, 300, 40_000):
            wanted = pattern(size, seed=size)
            write_file(path, wanted, os.O_TRUNC)
            fcntl.lockf(handle, fcntl.LOCK_EX)
            seen.append((f"under a lock {size}", os.pread(handle, 50_000, 0) == wanted))
            seen.append((f"its end {size}", os.lseek(handle, 0, os.SEEK_END)))
            fcntl.lockf(handle, fcntl.LOCK_UN)
            os.pwrite(handle, b"from here", size)
            seen.append((f"and back {size}", read_file(path) == wanted + b"from here"))
        os.close(handle)
    return seen


def attributes(one, other):
    """Mode, owner, times and extended attributes of a file."""
    seen = []
    for here, there in both(one, other):
        path, copy = os.path.join(here, "attributes"), os.path.join(there, "attributes")
        write_file(path, b"content")
        for mode in (0o600, 0o4711, 0o644):
            os.chmod(path, mode)
            seen.append((f"mode {mode:o}", os.stat(copy).st_mode & 0o7777))
        os.utime(path, ns=(10**18, 10**18 + 5))
        seen.append(("time", os.stat(copy).st_mtime_ns))
        for value in (b"first", b"second and longer"):
            os.setxattr(path, "user.name", value)
            seen.append(("attribute", os.getxattr(copy, "user.name")))
        os.removexattr(path, "user.name")
        seen.append(("no attribute", outcome(os.getxattr, copy, "user.name")))
    return seen


def names(one, other):
    """Names appear, move and go at once."""
    seen = []
    for here, there in both(one, other):
        def at(side, name):
            return os.path.join(side, name)
        os.mkdir(at(here, "names"))
        for number in range(20):
            write_file(at(here, f"names/{number}"), b"%d" % number)
            seen.append(("new", read_file(at(there, f"names/{number}"))))
        seen.append(("list", sorted(os.listdir(at(there, "names")))))
        os.rename(at(here, "names/1"), at(here, "names/new name"))
        seen.append(("old name", outcome(os.stat, at(there, "names/1"))))
        seen.append(("new name", read_file(at(there, "names/new name"))))
        os.rename(at(here, "names/2"), at(here, "names/3"))
        seen.append(("replaced", read_file(at(there, "names/3"))))
        os.link(at(here, "names/3"), at(here, "names/link"))
        seen.append(("links", os.stat(at(there, "names/3")).st_nlink))
        os.symlink("target", at(here, "names/symlink"))
        seen.append(("symlink", os.readlink(at(there, "names/symlink"))))
        os.unlink(at(here, "names/4"))
        seen.append(("gone", outcome(os.stat, at(there, "names/4"))))
        seen.append(("exclusive", outcome(os.open, at(there, "names/5"), os.O_CREAT | os.O_EXCL)))
        seen.append(("list", sorted(os.listdir(at(there, "names")))))
        os.mkdir(at(here, "names/directory"))
        write_file(at(there, "names/directory/inside"), b"inside")
        seen.append(("inside", read_file(at(here, "names/directory/inside"))))
        seen.append(("not empty", outcome(os.rmdir, at(here, "names/directory"))))
        for name in os.listdir(at(there, "names/directory")):
            os.unlink(at(there, "names/directory/" + name))
        os.rmdir(at(here, "names/directory"))
        for name in os.listdir(at(there, "names")):
            os.unlink(at(there, "names/" + name))
        os.rmdir(at(there, "names"))
        wait_until(lambda: outcome(os.stat, at(here, "names")) == "ENOENT", what="the directory's end")
    return seen


# Two at work.

def line(side, number):
    return b"%d %07d " % (side, number) + b"x" * (LINE - 11 - 17 * (number % 2)) + b"\n"


@contextlib.contextmanager
def child(action, *arguments):
    """Runs an action in a process of its own, and raises where it failed."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            action(*arguments)
            status = 0
        except BaseException as problem:  # noqa: the child must not go on
            os.write(2, f"{action.__name__}: {problem!r}\n".encode())
        os._exit(status)
    try:
        yield pid
    except BaseException:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        raise
    _, status = os.waitpid(pid, 0)
    assert status == 0, f"{action.__name__}: {status}"


def append(directory, side, count, reopens, name="log"):
    path, handle = os.path.join(directory, name), None
    for number in range(count):
        if handle is None or reopens:
            handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        wanted = line(side, number)
        assert os.write(handle, wanted) == len(wanted)
        if reopens:
            os.close(handle)


def appended(one, other, count=400, reopens=False):
    """Two append to one file; a third one reads meanwhile.

    Zeros at the end do not count as an odd line: the kernel raises the size that it knows before it drops the page that ended
    before (fuse_change_attributes), and a program may read between the two.
    """
    path = os.path.join(one, "log")
    write_file(path, b"")
    odd = []
    with child(append, one, 1, count, reopens) as first, child(append, other, 2, count, reopens):
        while os.waitid(os.P_PID, first, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            found = read_file(os.path.join(other, "log"))
            odd += [(len(found), text) for text in found.split(b"\n") if text and text[:1] not in (b"1", b"2", b"\0")]
    wanted = sorted(line(side, number) for side in (1, 2) for number in range(count))
    found = [read_file(os.path.join(side, "log")) for side in (one, other)]
    os.unlink(path)
    return [("odd lines", odd), ("all lines", [sorted(text.splitlines(True)) == wanted for text in found])]


def count_up(directory, rounds, lock):
    with open(os.path.join(directory, "counter"), "r+b", buffering=0) as file:
        for _ in range(rounds):
            lock(file, fcntl.LOCK_EX)
            value = struct.unpack("<Q", os.pread(file.fileno(), 8, 0))[0]
            os.pwrite(file.fileno(), struct.pack("<Q", value + 1), 0)
            lock(file, fcntl.LOCK_UN)


def counted(one, other, rounds=200):
    """Both read, add one and write, under a lock of fcntl(2) or flock(2)."""
    seen = []
    for lock in (fcntl.lockf, fcntl.flock):
        write_file(os.path.join(one, "counter"), bytes(8), os.O_TRUNC)
        with child(count_up, one, rounds, lock), child(count_up, other, rounds, lock):
            pass
        seen.append((lock.__name__, [struct.unpack("<Q", read_file(os.path.join(side, "counter")))[0] for side in (one, other)]))
    return seen


def insert(directory, side, rows):
    with contextlib.closing(sqlite3.connect(os.path.join(directory, "database"), timeout=300)) as database:
        for number in range(rows):
            with database:
                database.execute("insert into rows values (?, ?)", (side, number))


def databases(one, other, rows=40):
    """SQLite with a rollback journal, on both sides."""
    with contextlib.closing(sqlite3.connect(os.path.join(one, "database"))) as database:
        database.execute("create table rows (side, number)")
    with child(insert, one, 1, rows), child(insert, other, 2, rows):
        pass
    seen = []
    for side in (one, other):
        with contextlib.closing(sqlite3.connect(os.path.join(side, "database"))) as database:
            seen.append(("rows", database.execute("select side, count(*), sum(number) from rows group by side").fetchall()))
            seen.append(("check", database.execute("pragma integrity_check").fetchall()))
    os.unlink(os.path.join(one, "database"))
    return seen


def race(directory, rounds):
    """Opens many new names, in the same order as the other side."""
    for number in range(rounds):
        os.close(os.open(os.path.join(directory, f"raced {number}"), os.O_CREAT | os.O_WRONLY))
        handle = os.open(os.path.join(directory, f"raced log {number}"), os.O_CREAT | os.O_WRONLY | os.O_APPEND)
        os.write(handle, b"a line\n")
        os.close(handle)


def raced(one, other, rounds=150):
    """Both make the same files with O_CREAT at the same time."""
    with child(race, one, rounds), child(race, other, rounds):
        pass
    found = {read_file(os.path.join(one, f"raced log {number}")) for number in range(rounds)}
    return [("each wrote its line", found), ("names", sorted(os.listdir(one)) == sorted(os.listdir(other)))]


def fill(directory, side, count):
    for number in range(count):
        path = os.path.join(directory, f"{side}-{number % 25}")
        write_file(path + ".new", pattern((number * 7_919) % 60_000, seed=side * 1000 + number))
        os.rename(path + ".new", path)


def filled(one, other, count=100):
    """Both write files of their own in one directory."""
    places = [os.path.join(side, "filled") for side in (one, other)]
    os.mkdir(places[0])
    wait_until(lambda: os.path.isdir(places[1]), what="the directory")
    with child(fill, places[0], 1, count), child(fill, places[1], 2, count):
        pass
    wrong = []
    for place in places:
        for side in (1, 2):
            for number in range(count - 25, count):
                wanted = pattern((number * 7_919) % 60_000, seed=side * 1000 + number)
                if read_file(os.path.join(place, f"{side}-{number % 25}")) != wanted:
                    wrong.append((side, number))
    return [("wrong", wrong), ("names", [len(os.listdir(place)) for place in places])]


# Locks.

def holding(path, lock, ready, flags=fcntl.LOCK_EX):
    """Takes a lock, says so, and keeps it until it is killed."""
    with open(path, "r+b", buffering=0) as file:
        lock(file, flags)
        os.write(ready, b"r")
        while True:
            time.sleep(600)


@contextlib.contextmanager
def holder(path, lock, flags=fcntl.LOCK_EX, makes=False):
    """A process that holds a lock; it is killed at the end, if not before."""
    if makes:
        write_file(path, b"")
    end, ready = os.pipe()
    pid = os.fork()
    if pid == 0:
        with contextlib.suppress(BaseException):
            holding(path, lock, ready, flags)
        os._exit(1)
    os.close(ready)
    try:
        assert os.read(end, 1) == b"r", "the holder has no lock"
        yield pid
    finally:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(end)


def soon(action, *arguments):
    """'works', as soon as that is so: the kernel tells a FUSE daemon of the last close of a file after close(2) has returned."""
    wait_until(lambda: action(*arguments) == "works", what="the lock")
    return "works"


def found_lock(file, kind, start, length):
    """What F_GETLK says: kind and range."""
    asked = struct.pack("hhqqi4x", kind, os.SEEK_SET, start, length, 0)
    found = struct.unpack("hhqqi4x", fcntl.fcntl(file, fcntl.F_GETLK, asked))
    return "free" if found[0] == fcntl.F_UNLCK else (found[0], found[2], found[3])


def told_by_child(action):
    """What an action gives in a process of its own, as text."""
    def tell():
        raise AssertionError(action())
    return in_child(tell)


def conflicts(one, other):
    """Who gets which lock while the other side has one."""
    seen = []
    for here, there in both(one, other):
        mine, theirs = os.path.join(here, "locked"), os.path.join(there, "locked")
        write_file(mine, pattern(1000))
        for lock in (fcntl.lockf, fcntl.flock):
            for kept in (fcntl.LOCK_SH, fcntl.LOCK_EX):
                with holder(mine, lock, kept), open(theirs, "r+b", buffering=0) as file:
                    for wanted in (fcntl.LOCK_SH, fcntl.LOCK_EX):
                        seen.append((lock.__name__, kept, wanted, outcome(lock, file, wanted | fcntl.LOCK_NB)))
                    # The two kinds of lock have nothing to do with each other.
                    different = fcntl.flock if lock is fcntl.lockf else fcntl.lockf
                    seen.append(("the other kind", soon(outcome, different, file, fcntl.LOCK_EX | fcntl.LOCK_NB)))
                    seen.append(("asked", found_lock(file, fcntl.F_WRLCK, 0, 0)))
                with open(theirs, "r+b", buffering=0) as file:
                    seen.append(("after the holder's death", soon(outcome, lock, file, fcntl.LOCK_EX | fcntl.LOCK_NB)))
        with open(mine, "r+b", buffering=0) as file, open(theirs, "r+b", buffering=0) as again:
            fcntl.lockf(file, fcntl.LOCK_EX, 10, 100)

            def beside():
                for start, length in ((0, 100), (110, 0), (100, 5), (0, 0), (109, 1)):
                    yield outcome(fcntl.lockf, again, fcntl.LOCK_EX | fcntl.LOCK_NB, length, start)
                yield found_lock(again, fcntl.F_RDLCK, 50, 0)
            seen.append(("ranges", told_by_child(lambda: list(beside()))))
            fcntl.lockf(file, fcntl.LOCK_UN, 3, 103)
            seen.append(("a hole in it", in_child(lambda: fcntl.lockf(again, fcntl.LOCK_EX | fcntl.LOCK_NB, 3, 103))))
    return seen
