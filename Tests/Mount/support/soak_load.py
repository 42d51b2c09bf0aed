"""The load of a soak: every step runs in the mount and in a plain directory, with the same result."""

import contextlib
import errno
import mmap
import os
import random
import sqlite3
import time

from harness import PAGE, PATIENCE, in_child, pattern, protectfs, run, set_class, write_file


class Different(Exception):
    """The mount and the plain directory did not do the same."""


class Gate:
    """Stops the workers between two steps, and counts the steps."""

    def __init__(self, workers):
        self.workers = workers
        self.memory = mmap.mmap(-1, PAGE)
        self.counts = mmap.mmap(-1, PAGE)

    def rest(self, index, before):
        """Called by a worker between two steps."""
        if not self.memory[0]:
            return
        before()
        self.memory[1 + index] = 1
        while self.memory[0]:
            time.sleep(0.01)
        self.memory[1 + index] = 0

    def stop(self, seconds=PATIENCE):
        """True when all workers rest."""
        self.memory[0] = 1
        end = time.monotonic() + seconds
        while not all(self.memory[1 + index] for index in range(self.workers)):
            if time.monotonic() > end:
                return False
            time.sleep(0.01)
        return True

    def go_on(self):
        self.memory[0] = 0
        while any(self.memory[1 + index] == 1 for index in range(self.workers)):
            time.sleep(0.01)

    def count(self, index):
        at = index * 8
        self.counts[at:at + 8] = (int.from_bytes(self.counts[at:at + 8], "little") + 1).to_bytes(8, "little")

    @property
    def steps(self):
        return sum(int.from_bytes(self.counts[at * 8:at * 8 + 8], "little") for at in range(self.workers))


class Load:
    """One kind of work, in a directory of its own. Chances are taken before anything is done: a seed gives the same steps."""

    name = ""
    protection = None  # the class that new files of the directory get

    def __init__(self, mount, shadow, chance):
        self.place, self.shadow, self.chance = os.path.join(mount, self.name), os.path.join(shadow, self.name), chance
        self.handles = {}
        for directory in (self.place, self.shadow):
            os.makedirs(directory)
        if self.protection:
            set_class(self.place, self.protection)
        self.prepare()

    def prepare(self):
        """Makes what the steps work on."""

    def step(self):
        raise NotImplementedError

    def close(self):
        for handle in self.handles.values():
            os.close(handle)
        self.handles.clear()

    def patiently(self, action):
        """Does action; while a lock refuses it, again and again, as a person would."""
        end = time.monotonic() + PATIENCE
        while True:
            try:
                return action()
            except OSError as error:
                if error.errno != errno.EACCES or time.monotonic() > end:
                    raise
            time.sleep(0.05)

    def both(self, action):
        """Does action in the mount and in the plain directory; the answers have to be equal."""
        first, second = self.patiently(lambda: action(self.place)), action(self.shadow)
        if first != second:
            raise Different(f"{str(first)[:80]} instead of {str(second)[:80]}")

    def handle(self, directory, name, flags=os.O_RDWR):
        path = os.path.join(directory, name)
        if path not in self.handles:
            self.handles[path] = os.open(path, flags | os.O_CREAT, 0o644)
        return self.handles[path]

    def bytes(self, most):
        return pattern(self.chance.randrange(1, most), seed=self.chance.randrange(1_000_000))


def whole_write(handle, content, offset):
    done = 0
    while done < len(content):
        done += os.pwrite(handle, content[done:], offset + done)


class Coreutils(Load):
    """Small programs, which open, copy, sort, link and move."""

    name = "coreutils"
    COMMANDS = [
        "seq {n} > f{i}", "cp -a f{i} f{j} 2>/dev/null; true", "mv -f f{i} g{j} 2>/dev/null; true", "rm -f g{i}",
        "sort -rn f{i} -o f{i} 2>/dev/null; true", "sed -i s/1/one/ f{i} 2>/dev/null; true", "touch f{i}",
        "mkdir -p d{i}/e/f && cp f{j} d{i}/e/f/ 2>/dev/null; true", "rm -rf d{i}", "mv -T d{i} c{j} 2>/dev/null; true",
        "rm -rf c{i}", "ln -f f{i} g{j} 2>/dev/null; true", "ln -sfn f{i} s{j}", "cat s{i} 2>/dev/null | wc -c",
        "tar -cf - f* 2>/dev/null | (mkdir -p t && tar -xf - -C t 2>/dev/null); true", "rm -rf t",
        "head -c {n} /dev/zero > z{i}", "truncate -s {n} z{i}", "cat f* 2>/dev/null | sort | uniq -c | wc -l",
        "dd if=z{i} of=z{j} bs=1000 conv=notrunc,fsync 2>/dev/null; true", "find . | LC_ALL=C sort | wc -l",
        "seq {n} | tee -a f{i} | tail -n 1", "chmod 6{i}0 f{i} 2>/dev/null; true", "touch {long} && ls | wc -l && rm {long}",
    ]

    def step(self):
        command = self.chance.choice(self.COMMANDS).format(
            i=self.chance.randrange(8), j=self.chance.randrange(8), n=self.chance.randrange(1, 20_000), long="n" * 250)

        def act(directory):
            done = run("sh", "-c", command, cwd=directory, env={**os.environ, "LC_ALL": "C"}, ok=False)
            return done.returncode, done.stdout
        self.both(act)


class Saves(Load):
    """Editors: a new file beside, renamed over the old one."""

    name = "saves"
    protection = "A"

    def step(self):
        name, content = f"document {self.chance.randrange(16)}", self.bytes(60_000)
        sync = self.chance.random() < 0.2

        def act(directory):
            path = os.path.join(directory, name)
            handle = os.open(path + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
            try:
                whole_write(handle, content, 0)
                if sync:
                    os.fsync(handle)
            finally:
                os.close(handle)
            os.rename(path + ".new", path)
        self.both(act)


class Appends(Load):
    """Logs, one of each class, whose handles stay open through locks."""

    name = "appends"

    def prepare(self):
        for letter in "ABCD":
            self.patiently(lambda: os.close(os.open(os.path.join(self.place, letter), os.O_CREAT | os.O_WRONLY, 0o644)))
            self.patiently(lambda: set_class(os.path.join(self.place, letter), letter))
            os.close(os.open(os.path.join(self.shadow, letter), os.O_CREAT | os.O_WRONLY, 0o644))

    def step(self):
        letter, content = self.chance.choice("ABCD"), self.bytes(20_000)
        before = os.stat(os.path.join(self.shadow, letter)).st_size
        cut = before > 3_000_000

        def act(directory):
            handle = self.handle(directory, letter, os.O_RDWR | os.O_APPEND)
            if cut:
                os.ftruncate(handle, 0)
            found = os.stat(os.path.join(directory, letter)).st_size
            if found != (0 if cut else before):
                raise Different(f"{letter}: {found} bytes before an append instead of {before}")
            if os.write(handle, content) != len(content):
                raise Different(f"{letter}: a short write")
        self.both(act)
        # Apart, as an append that was followed by a refused read must not be tried again.
        self.both(lambda directory: os.pread(self.handle(directory, letter, os.O_RDWR | os.O_APPEND), 5000,
                                         max(0, before - 3000)))


class Databases(Load):
    """SQLite: a write-ahead log in class C, a journal in class A."""

    name = "databases"
    MODES = {"ahead": ("C", "wal"), "journal": ("A", "delete")}

    def prepare(self):
        for name, (letter, mode) in self.MODES.items():
            for directory in (self.place, self.shadow):
                os.mkdir(os.path.join(directory, name))
            set_class(os.path.join(self.place, name), letter)
            for directory in (self.place, self.shadow):
                self.patiently_in(directory, name, lambda base: base.execute(
                    "create table if not exists rows (number integer primary key, content blob)"))
        self.number = 0

    def patiently_in(self, directory, name, action):
        """Opens, does action in a transaction, closes. A lock in between is an error of input and output to SQLite."""
        end = time.monotonic() + PATIENCE
        while True:
            try:
                with contextlib.closing(sqlite3.connect(os.path.join(directory, name, "base"), timeout=30)) as base:
                    base.execute(f"pragma journal_mode={self.MODES[name][1]}")
                    with base:
                        return action(base)
            except sqlite3.Error as error:
                if self.MODES[name][0] != "A" or time.monotonic() > end or "malformed" in str(error):
                    raise
            time.sleep(0.1)

    def step(self):
        name, content = self.chance.choice(list(self.MODES)), self.bytes(8_000)
        old = self.chance.randrange(1, 400)
        self.number += 1
        number = self.number

        def act(base):
            # One that was told an error may have been done: so each transaction can be done twice.
            base.execute("insert or replace into rows values (?, ?)", (number % 500, content))
            base.execute("delete from rows where number = ?", (old,))
            return base.execute("select count(*), sum(length(content)) from rows").fetchall()
        first, second = (self.patiently_in(directory, name, act) for directory in (self.place, self.shadow))
        if first != second:
            raise Different(f"{name}: {first} instead of {second}")


class Mapped(Load):
    """Stores through mappings: one of class C that stays, one of class A in a program that SIGBUS may end."""

    name = "mapped"
    SIZE = 2 << 20

    def prepare(self):
        for letter in "CA":
            for directory in (self.place, self.shadow):
                write_file(os.path.join(directory, letter), bytes(self.SIZE))
            self.patiently(lambda: set_class(os.path.join(self.place, letter), letter))

    def step(self):
        letter, content = self.chance.choice("CCCA"), self.bytes(9_000)
        at = self.chance.randrange(self.SIZE - len(content))

        def act(directory):
            handle = os.open(os.path.join(directory, letter), os.O_RDWR)
            try:
                with mmap.mmap(handle, self.SIZE) as memory:
                    before = memory[max(0, at - 100):at + len(content) + 100]
                    memory[at:at + len(content)] = content
                    memory.flush()
                    return before
            finally:
                os.close(handle)
        if letter == "C":
            self.both(act)
            return
        end = time.monotonic() + PATIENCE
        while (seen := in_child(lambda: act(self.place))) != "works":
            if seen not in ("SIGBUS", "EACCES") or time.monotonic() > end:
                raise Different(f"a mapping of class A: {seen}")
            time.sleep(0.05)
        act(self.shadow)


class Classes(Load):
    """Files whose class changes all the time, and whose contents must not."""

    name = "classes"

    def step(self):
        name, letter, kind = f"file {self.chance.randrange(12)}", self.chance.choice("ABCD"), self.chance.random()
        content, at = self.bytes(12_000), self.chance.randrange(100_000)
        path = os.path.join(self.place, name)

        def act(directory):
            handle = os.open(os.path.join(directory, name), os.O_RDWR | os.O_CREAT, 0o644)
            try:
                whole_write(handle, content, at)
                return os.pread(handle, 20_000, max(0, at - 5000))
            finally:
                os.close(handle)
        if kind < 0.5 or not os.path.exists(path):
            self.both(act)
        elif kind < 0.97:
            self.patiently(lambda: set_class(path, letter))
        else:
            # While locked it says no, and nothing has changed.
            protectfs("class", "set", letter, path, ok=False)


class Big(Load):
    """A file that is long: written, cut, punched, read."""

    name = "big"
    LONGEST = 64 << 20

    def step(self):
        kind, where = self.chance.random(), self.chance.random()
        length = self.chance.randrange(1, 2 << 20)
        content, size = pattern(length, seed=length), self.size()
        at = int(where * size)

        def act(directory):
            handle = self.handle(directory, "film")
            if kind < 0.5:
                whole_write(handle, content, size if size < self.LONGEST else at)
            elif kind < 0.65:
                whole_write(handle, content, at)
            elif kind < 0.72:
                os.ftruncate(handle, at + size // 2 if size < self.LONGEST else 0)
            elif kind < 0.8 and size:
                # FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE
                run("fallocate", "-p", "-o", at, "-l", length, os.path.join(directory, "film"))
            elif kind < 0.84:
                os.fsync(handle)
            return os.pread(handle, 1 << 20, max(0, at - 1000)), os.fstat(handle).st_size
        self.both(act)

    def size(self):
        path = os.path.join(self.shadow, "film")
        return os.stat(path).st_size if os.path.exists(path) else 0


LOADS = [Coreutils, Saves, Appends, Databases, Mapped, Classes, Big]


def work(gang, gate, index, kind, mount, shadow, seed, duty):
    """A worker: steps of one kind until it is told to stop. It works that part of the time and sleeps the rest."""
    load, number = None, 0
    try:
        load = kind(mount, shadow, random.Random(f"{seed}:{kind.name}"))
        while not gang.stopping:
            gate.rest(index, load.close)
            number += 1
            started = time.monotonic()
            load.step()
            gate.count(index)
            took = time.monotonic() - started
            end = time.monotonic() + min(max(0.01, took * (1 / duty - 1)), 20)
            while time.monotonic() < end and not gang.stopping and not gate.memory[0]:
                time.sleep(min(0.1, max(0, end - time.monotonic())))
    except BaseException as error:  # noqa: told to the parent, whatever it is
        gang.complain(f"{kind.name}, step {number} of seed {seed}: {type(error).__name__}: {error}")
    finally:
        with contextlib.suppress(BaseException):
            load.close()
        gate.memory[1 + index] = 2  # neither working nor coming back
