"""Two daemons serve one store (-o shared): programs on both sides find what two processes on ext4 find of each other."""

import fcntl
import mmap
import os
import signal
import struct
import time

import sides
from checks import errors
from harness import CLASSES, get_class, outcome, pattern, read_file, set_class, wait_until, write_file
from processes import in_child


def two_mounts(environment, volume=None):
    volume = volume or environment.volume()
    return [environment.mount(volume, options=("shared",)) for _ in range(2)]


def as_below(environment, action, **more):
    """The same on two mounts as in one directory below."""
    below = environment.new_path("below")
    os.mkdir(below)
    one, other = two_mounts(environment)
    expected, found = action(below, below, **more), action(one.path, other.path, **more)
    environment.cell("[cells]", len(expected), len(found))
    for wanted, seen in zip(expected, found):
        environment.cell(f"[{wanted[0]}]", wanted, seen)
    one.unmount()
    other.unmount()
    environment.cell("[errors that fsck finds]", [], errors(one.volume))


def test_content(environment):
    as_below(environment, sides.content)


def test_held_open(environment):
    as_below(environment, sides.held_open)


def test_attributes(environment):
    as_below(environment, sides.attributes)


def test_names(environment):
    as_below(environment, sides.names)


def test_appended(environment):
    as_below(environment, sides.appended)


def test_appended_again_and_again(environment):
    as_below(environment, sides.appended, count=100, reopens=True)


def test_raced(environment):
    as_below(environment, sides.raced)


def test_counted(environment):
    as_below(environment, sides.counted)


def test_database(environment):
    as_below(environment, sides.databases)


def test_filled(environment):
    as_below(environment, sides.filled)


def test_conflicts(environment):
    as_below(environment, sides.conflicts)


def test_classes(environment):
    """The class of a file, and the default class of a directory."""
    one, other = two_mounts(environment)
    for here, there in ((one, other), (other, one)):
        write_file(here / "file", b"content")
        os.mkdir(here / "directory")
        wait_until(lambda: os.path.isdir(there / "directory"), what="the directory")
        for letter in "ACBDC":
            for name in ("file", "directory"):
                set_class(here / name, letter)
                environment.cell(f"[{name} {letter}]", CLASSES[letter], get_class(there / name))
            with open(there / "file", "rb") as file:
                environment.cell(f"[open {letter}]", CLASSES[letter], get_class(there / "file"))
                set_class(here / "file", "A")
                environment.cell(f"[open, then A: {letter}]", CLASSES["A"], get_class(there / "file"))
                environment.cell(f"[content {letter}]", b"content", file.read())
        os.unlink(here / "file")
        os.rmdir(here / "directory")


def test_waiting(environment):
    """A lock of the other side is waited for, until it is given back, its holder is killed, or a signal comes."""
    one, other = two_mounts(environment)
    write_file(one / "file", b"content")
    for lock in (fcntl.lockf, fcntl.flock):
        for kind in (fcntl.LOCK_SH, fcntl.LOCK_EX):
            for end in (signal.SIGTERM, signal.SIGKILL):
                with sides.holder(one / "file", lock) as pid, open(other / "file", "r+b") as file:
                    begun = mmap.mmap(-1, 1)

                    def kill():
                        time.sleep(0.3)
                        begun[0] = 1
                        os.kill(pid, end)
                    with sides.child(kill):
                        lock(file, kind)
                    environment.cell(f"[{lock.__name__} {kind}: not before]", 1, begun[0])
            with sides.holder(one / "file", lock):
                environment.cell(f"[{lock.__name__} {kind}: a signal]", "SIGALRM", in_child(
                    lambda: lock(os.open(other / "file", os.O_RDWR), kind), seconds=1))
            with open(other / "file", "r+b") as file:
                # The kernel tells a FUSE daemon a moment after the last close that a flock(2) has ended.
                wait_until(lambda: outcome(lock, file, kind | fcntl.LOCK_NB) == "works", what=f"[{lock.__name__} {kind}: free again]")


def test_many_wait(environment):
    """More waiters than the daemon has workers: everything else goes on, and each gets the lock."""
    one, other = two_mounts(environment)
    write_file(one / "file", b"")
    waiters = []
    with sides.holder(one / "file", fcntl.lockf):
        for _ in range(40):
            waiter = os.fork()
            if waiter == 0:
                status = 1
                try:
                    with open(other / "file", "ab", buffering=0) as file:
                        fcntl.lockf(file, fcntl.LOCK_EX)
                        file.write(b"one line\n")
                    status = 0
                finally:
                    os._exit(status)
            waiters.append(waiter)
        for number in range(50):
            write_file(other / f"beside {number}", pattern(9_000))
            environment.cell(f"[beside {number}]", True, read_file(one / f"beside {number}") == pattern(9_000))
    environment.cell("[each got the lock]", {0}, {os.waitpid(waiter, 0)[1] for waiter in waiters})
    environment.cell("[each has written]", b"one line\n" * 40, read_file(one / "file"))


def test_upgrades(environment):
    """Two that hold a shared flock both want it alone: one of them gets it, as flock(2) says, and then the other."""
    one, other = two_mounts(environment)
    write_file(one / "file", b"")

    def upgrade(path):
        with open(path, "r+b") as file:
            fcntl.flock(file, fcntl.LOCK_SH)
            time.sleep(0.3)
            fcntl.flock(file, fcntl.LOCK_EX)
    with sides.child(upgrade, one / "file"), sides.child(upgrade, other / "file"):
        pass
    with open(one / "file", "r+b") as file:
        environment.cell("[free at the end]", "works", sides.soon(outcome, fcntl.flock, file, fcntl.LOCK_EX | fcntl.LOCK_NB))


def test_owners(environment):
    """Locks end as on ext4: with any close of a process, not with a child's, with the last close of an open file."""
    def seen(one, other):
        path, copy, found = os.path.join(one, "file"), os.path.join(other, "file"), []
        write_file(path, b"content")

        def free(lock):
            def ask():
                with open(copy, "r+b") as file:
                    lock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return in_child(ask)
        for lock in (fcntl.lockf, fcntl.flock, open_file_lock):
            file = open(path, "r+b")
            lock(file, fcntl.LOCK_EX)
            found.append(("held", free(lock)))
            os.close(os.dup(file.fileno()))
            found.append(("a copy was closed", free(lock)))
            lock(file, fcntl.LOCK_EX)
            pid = os.fork()
            if pid == 0:
                os.close(file.fileno())
                os._exit(0)
            os.waitpid(pid, 0)
            found.append(("a child has closed it", free(lock)))
            with open(path, "rb"):
                pass
            found.append(("another descriptor was closed", free(lock)))
            lock(file, fcntl.LOCK_EX)
            os.unlink(path)
            found.append(("unlinked", outcome(lock, file, fcntl.LOCK_EX)))
            file.close()
            write_file(path, b"content")
            found.append(("closed", sides.soon(free, lock)))
        return found
    below = environment.new_path("below")
    os.mkdir(below)
    one, other = two_mounts(environment)
    for wanted, found in zip(seen(below, below), seen(one.path, other.path)):
        environment.cell(f"[{wanted[0]}]", wanted, found)


def open_file_lock(file, kind):
    """fcntl(2), F_OFD_SETLK: a lock of the open file."""
    fcntl.fcntl(file, 37, struct.pack("hhqqi4x", fcntl.F_WRLCK if kind & fcntl.LOCK_EX else fcntl.F_RDLCK, os.SEEK_SET, 0, 0, 0))


def test_lock_of_one(environment):
    """One side locks and unlocks its volume while the other works."""
    one, other = two_mounts(environment)
    for letter in "ABC":
        os.mkdir(other / letter)
        set_class(other / letter, letter)
        write_file(other / f"{letter}/file", pattern(9_000))
    wait_until(lambda: os.path.isdir(one / "A"), what="the directories")

    def work():
        for number in range(150):
            for letter in "ABC":
                write_file(other / f"{letter}/file", pattern(9_000 + number, seed=number), os.O_TRUNC)
                assert read_file(other / f"{letter}/file") == pattern(9_000 + number, seed=number)
                write_file(other / f"{letter}/{number}", b"new")
    with sides.child(work):
        for _ in range(3):
            one.lock()
            environment.cell("[locked: class A]", "EACCES", outcome(read_file, one / "A/file"))
            environment.cell("[locked: class C]", "works", outcome(read_file, one / "C/file"))
            environment.cell("[the other side]", "unlocked", other.state())
            one.unlock()
    for letter in "ABC":
        environment.cell(f"[after it: {letter}]", True, read_file(one / f"{letter}/file") == pattern(9_149, seed=149))
        environment.cell(f"[after it: names in {letter}]", 151, len(os.listdir(one / letter)))


def test_read_only_side(environment):
    """A side that only reads follows what the other writes, and the locks of both count."""
    volume = environment.volume()
    one = environment.mount(volume, options=("shared",))
    other = environment.mount(volume, options=("shared", "ro"))
    for size in (10, 9_000, 300_000, 100, 0):
        write_file(one / "file", pattern(size, seed=size + 1), os.O_TRUNC)
        environment.cell(f"[size {size}]", True, read_file(other / "file") == pattern(size, seed=size + 1))
    environment.cell("[a write]", "EROFS", outcome(write_file, other / "file", b"content"))
    for lock in (fcntl.lockf, fcntl.flock):
        with open(other / "file", "rb") as file:
            with sides.holder(one / "file", lock):
                environment.cell(f"[{lock.__name__}: held there]", "EAGAIN", outcome(lock, file, fcntl.LOCK_SH | fcntl.LOCK_NB))
            environment.cell(f"[{lock.__name__}: free]", "works", sides.soon(outcome, lock, file, fcntl.LOCK_SH | fcntl.LOCK_NB))
            with open(one / "file", "r+b") as writer:
                environment.cell(f"[{lock.__name__}: held here]", "EAGAIN", outcome(lock, writer, fcntl.LOCK_EX | fcntl.LOCK_NB))


def test_stopped(environment):
    """A daemon is stopped while both append, perhaps with the file's lock: other files stay usable, and no line is lost."""
    one, other = two_mounts(environment)
    write_file(one / "log", b"")
    counts = [crashing_appender(mount / "log", side) for side, mount in ((1, one), (2, other))]
    for number in range(8):
        before = [count.value() for count in counts]
        wait_until(lambda: all(count.value() > old + 20 for count, old in zip(counts, before)), what="lines of both sides")
        os.kill(one.pid, signal.SIGSTOP)
        try:
            for again in range(20):
                write_file(other / f"beside {again}", pattern(9_000, seed=number + 1), os.O_TRUNC)
                environment.cell(f"[beside {again}]", True, read_file(other / f"beside {again}") == pattern(9_000, seed=number + 1))
            time.sleep(0.05)
        finally:
            os.kill(one.pid, signal.SIGCONT)
    for count in counts:
        count.end()
    lines = read_file(one / "log").splitlines(True)
    for side, count in ((1, counts[0].value()), (2, counts[1].value())):
        found = [text for text in lines if text.startswith(b"%d " % side)]
        environment.cell(f"[lines of side {side}]", [sides.line(side, number) for number in range(count)], found[:count])
    environment.cell("[nothing else]", True, len(lines) <= sum(count.value() for count in counts) + len(counts))


def test_crash_of_one(environment):
    """A daemon is killed while both append and write: the other goes on, gets the locks, and nothing acknowledged is lost."""
    for repetition in range({"quick": 3, "usual": 5, "full": 40}[environment.mode]):
        one, other = two_mounts(environment)
        write_file(one / "log", b"")
        counts = [crashing_appender(mount / "log", side) for side, mount in ((1, one), (2, other))]
        filler = crashing_filler(one.path)
        with sides.holder(one / "log", fcntl.flock), sides.holder(one / "log", fcntl.lockf):
            time.sleep(0.2 + 0.1 * repetition)
            one.crash()
            with open(other / "log", "r+b") as file:
                environment.cell("[its locks are free]", ["works"] * 2, [
                    outcome(lock, file, fcntl.LOCK_EX) for lock in (fcntl.flock, fcntl.lockf)])
            done_after = counts[1].value()
            wait_until(lambda: counts[1].value() > done_after + 50, what="further lines of the other side")
        for each in (*counts, filler):
            each.end()
        again = environment.mount(one.volume, options=("shared",), path=one.path)
        for mount in (other, again):
            lines = read_file(mount / "log").splitlines(True)
            for side, count in ((1, counts[0].value()), (2, counts[1].value())):
                found = [text for text in lines if text.startswith(b"%d " % side)]
                wanted = [sides.line(side, number) for number in range(count)]
                environment.cell(f"[lines of side {side}]", True, found[:count] == wanted and len(found) <= count + 1)
            # Each side may have a line that was stored but not yet counted.
            environment.cell("[nothing else]", True, len(lines) <= sum(each.value() for each in counts) + len(counts))
        environment.cell("[append after it]", "works", outcome(write_file, again / "log", b"after it\n", os.O_APPEND))
        environment.cell("[and on the other side]", True, read_file(other / "log").endswith(b"after it\n"))
        wrong = [name for name in os.listdir(other.path) if name.startswith("filled") and not name.endswith(".new")
                 and len(read_file(other / name)) % 8_999]
        environment.cell("[files of the killed side]", [], wrong)
        again.unmount()
        other.unmount()
        environment.cell("[errors that fsck finds]", [], errors(one.volume))


class Counting:
    """A child that works until its mount dies or it is ended, and says how often it succeeded."""

    def __init__(self, step):
        self.memory = mmap.mmap(-1, 8)
        self.pid = os.fork()
        if self.pid == 0:
            try:
                for number in range(10**9):
                    step(number)
                    self.memory[:8] = (number + 1).to_bytes(8, "little")
            except OSError:
                pass
            finally:
                os._exit(0)

    def value(self):
        return int.from_bytes(self.memory[:8], "little")

    def end(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


def crashing_appender(path, side):
    opened = []

    def step(number):
        if not opened:
            opened.append(os.open(path, os.O_WRONLY | os.O_APPEND))
        os.write(opened[0], sides.line(side, number))
    return Counting(step)


def crashing_filler(directory):
    # By a handle: once the mount is gone, its path is a plain directory.
    root = os.open(directory, os.O_PATH | os.O_DIRECTORY)

    def step(number):
        path = f"/proc/self/fd/{root}/filled{number % 40}"
        write_file(path + ".new", pattern(8_999 * (number % 4)))
        os.rename(path + ".new", path)
    filler = Counting(step)
    os.close(root)
    return filler
