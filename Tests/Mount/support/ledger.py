"""Programs that write files and keep account, outside of the volume, of what an fsync has promised them.

Each load runs in a process of its own. Before a step it enters what it is about to do, after a good fsync what is safe; the
ledger is memory shared with the parent, which no crash of the volume touches. After the crash `check` compares: what was
promised must be there exactly, what was under way must be one of the versions that it may be.
"""

import contextlib
import ctypes
import errno
import mmap
import os
import random
import sqlite3
import struct

import harness

libc = ctypes.CDLL(None, use_errno=True)
libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
FIRST = 3932  # payload of block 0 and of the others, with AES-256-GCM
OTHER = 4060


def fsync_directory(path):
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def fragments(size):
    """(start, end) of each part that is within one page below and one page of the kernel's cache.

    Each is as it was at some time; those of one page below may be of different times, as the kernel writes its own pages.
    """
    ends = set(range(FIRST, size, OTHER)) | set(range(4096, size, 4096)) | {size}
    start = 0
    for end in sorted(ends):
        if end > start:
            yield start, end
        start = end


def block_end(size):
    """The end of the block that contains byte size - 1."""
    if size <= FIRST:
        return FIRST if size else 0
    return FIRST + -(-(size - FIRST) // OTHER) * OTHER


class Ledger:
    """Numbers that outlive every process of the test; the first says that the crash has come."""

    def __init__(self, slots=4096):
        self.memory = mmap.mmap(-1, (slots + 1) * 8)
        self.used = 1

    def take(self, count):
        self.used += count
        return self.used - count

    def get(self, slot):
        return struct.unpack_from("<Q", self.memory, slot * 8)[0]

    def put(self, slot, value):
        struct.pack_into("<Q", self.memory, slot * 8, value)

    @property
    def is_over(self):
        return self.get(0) != 0

    def end(self):
        """Set before the crash: what an fsync says from now on counts no more."""
        self.put(0, 1)


class Load:
    """One program; `place` is a directory of its own."""

    slots = 0

    def __init__(self, ledger, place, seed, may_lock=False):
        self.ledger, self.place, self.seed, self.may_lock = ledger, place, seed, may_lock
        self.tried, self.safe, self.count_of_promises = ledger.take(1), ledger.take(1), ledger.take(1)
        self.base = ledger.take(self.slots)
        self.choice = random.Random(seed)

    def path(self, name):
        return os.path.join(self.place, name)

    def attempt(self, step):
        self.ledger.put(self.tried, step)

    def succeed(self, step):
        if not self.ledger.is_over:
            self.ledger.put(self.safe, step)
            self.promised()

    def promised(self):
        self.ledger.put(self.count_of_promises, self.promises + 1)

    @property
    def promises(self):
        return self.ledger.get(self.count_of_promises)

    @property
    def versions(self):
        """What may be there: from the last promise to the last attempt."""
        return range(self.ledger.get(self.safe), self.ledger.get(self.tried) + 1)

    def prepare(self):
        """Makes and syncs what the load begins with."""

    def run(self):
        """Works until the crash."""

    def check(self):
        """What is wrong after it, as sentences."""
        return []


class Appends(Load):
    """A log: appends of all lengths, an fsync now and then."""

    limit = 1 << 20

    def content(self):
        return harness.pattern(self.limit, seed=self.seed % 9_999_999)

    def prepare(self):
        os.close(os.open(self.path("log"), os.O_WRONLY | os.O_CREAT, 0o644))
        fsync_directory(self.place)

    def run(self):
        content, length = self.content(), 0
        handle = os.open(self.path("log"), os.O_WRONLY)
        while not self.ledger.is_over and length < self.limit - 40_000:
            count = self.choice.choice([1, 10, 100, 4060, 5000, 20_000, 40_000])
            self.attempt(length + count)
            length += os.pwrite(handle, content[length:length + count], length)
            if self.choice.random() < 0.3:
                os.fsync(handle)
                self.succeed(length)

    def check(self):
        found, content = harness.read_file(self.path("log")), self.content()
        safe, tried = self.ledger.get(self.safe), self.ledger.get(self.tried)
        if found[:safe] != content[:safe]:
            return [f"log: {safe} bytes were synced, {len(found)} are there and differ"]
        if len(found) > block_end(tried):
            return [f"log: {len(found)} bytes, {tried} were written"]
        strange = [start for start, end in fragments(len(found))
                   if not content[start:end].startswith(found[start:end].rstrip(b"\0"))]
        return [f"log: strange bytes at {strange[:5]}"] if strange else []


class Overwrites(Load):
    """Records of 512 bytes, overwritten at random; each of their 4-byte units says which record and version it is."""

    slots, count, size = 512, 256, 512
    name = "records"
    protection = None

    def record(self, slot, version):
        return struct.pack("<I", slot << 20 | version) * (self.size // 4)

    def prepare(self):
        harness.write_file(self.path(self.name), b"".join(self.record(slot, 1) for slot in range(self.count)))
        if self.protection:
            harness.set_class(self.path(self.name), self.protection)
        handle = os.open(self.path(self.name), os.O_RDONLY)
        os.fsync(handle)
        os.close(handle)
        fsync_directory(self.place)
        for slot in range(self.count):
            self.ledger.put(self.base + 2 * slot, 1)
            self.ledger.put(self.base + 2 * slot + 1, 1)

    def run(self):
        handle = os.open(self.path(self.name), os.O_RDWR)
        pending = set()
        while not self.ledger.is_over:
            # After an error all that is not safe is written again: the kernel may have dropped it.
            wanted = set(self.choice.sample(range(self.count), self.choice.choice([1, 3, 30]))) | pending
            pending |= wanted
            try:
                for slot in wanted:
                    version = self.ledger.get(self.base + 2 * slot) + 1
                    self.ledger.put(self.base + 2 * slot, version)
                    os.pwrite(handle, self.record(slot, version), slot * self.size)
                os.fsync(handle)
            except OSError as error:
                if not self.may_lock or error.errno != errno.EACCES:
                    raise
                continue
            if not self.ledger.is_over:
                for slot in pending:
                    self.ledger.put(self.base + 2 * slot + 1, self.ledger.get(self.base + 2 * slot))
                pending = set()
                self.promised()

    def check(self):
        found, problems = harness.read_file(self.path(self.name)), []
        if len(found) != self.count * self.size:
            return [f"{self.name}: {len(found)} bytes"]
        for slot in range(self.count):
            tried, safe = self.ledger.get(self.base + 2 * slot), self.ledger.get(self.base + 2 * slot + 1)
            units = {unit[0] for unit in struct.iter_unpack("<I", found[slot * self.size:(slot + 1) * self.size])}
            if any(unit >> 20 != slot or not safe <= unit & 0xFFFFF <= tried for unit in units):
                shown = [(unit >> 20, unit & 0xFFFFF) for unit in sorted(units)][:3]
                problems.append(f"{self.name}: record {slot} holds {shown}; synced {safe}, tried {tried}")
        return problems[:5]


class ClosedRecords(Overwrites):
    """The same through a handle from before the file became class A: its pages are cached and dirty when a lock comes."""

    name = "closed records"

    def run(self):
        handle = os.open(self.path(self.name), os.O_RDWR)
        harness.set_class(self.path(self.name), "A")
        super().run()
        os.close(handle)


class Saves(Load):
    """A document of class A, saved by writing another file and renaming it over."""

    def content(self, version):
        choice = random.Random(self.seed * 1000 + version)
        return harness.pattern(choice.choice([0, 100, 3932, 3933, 20_000, 100_000]), seed=version + 1)

    @property
    def protection(self):
        return "completeUntilFirstUserAuthentication" if self.may_lock else "complete"

    def prepare(self):
        harness.write_file(self.path("document"), self.content(0))
        harness.set_class(self.path("document"), self.protection)
        self.sync("document")

    def sync(self, name):
        handle = os.open(self.path(name), os.O_RDONLY)
        os.fsync(handle)
        os.close(handle)
        fsync_directory(self.place)

    def run(self):
        version = 0
        while not self.ledger.is_over:
            version += 1
            self.attempt(version)
            harness.write_file(self.path("new"), self.content(version), os.O_TRUNC)
            handle = os.open(self.path("new"), os.O_RDWR)
            os.fsync(handle)
            os.close(handle)
            os.rename(self.path("new"), self.path("document"))
            fsync_directory(self.place)
            self.succeed(version)

    def check(self):
        found = harness.read_file(self.path("document"))
        problems = []
        if not any(found == self.content(version) for version in self.versions):
            problems.append(f"document: {len(found)} bytes are none of the versions {self.versions}")
        if harness.get_class(self.path("document")) != self.protection:
            problems.append(f"document: class {harness.get_class(self.path('document'))}")
        return problems


class Database(Load):
    """SQLite with synchronous=FULL; the journal is a file or a write-ahead log."""

    @property
    def mode(self):
        return ["DELETE", "WAL", "TRUNCATE", "PERSIST"][self.seed % 4]

    def connect(self):
        base = sqlite3.connect(self.path("base"), isolation_level=None, timeout=5)
        try:
            base.execute(f"PRAGMA journal_mode={self.mode}")
            base.execute("PRAGMA synchronous=FULL")
        except sqlite3.Error:
            base.close()
            raise
        return base

    def prepare(self):
        base = self.connect()
        base.execute("CREATE TABLE entry (number INTEGER PRIMARY KEY, body TEXT)")
        base.execute("CREATE INDEX bodies ON entry (body)")
        base.close()
        fsync_directory(self.place)

    def run(self):
        base, number = self.connect(), 0
        while not self.ledger.is_over:
            number += 1
            self.attempt(number)
            base.execute("BEGIN")
            base.execute("INSERT INTO entry VALUES (?, ?)", (number, f"{number} " * self.choice.choice([1, 50, 800])))
            if number % 3 == 0:
                base.execute("UPDATE entry SET body = body || 'x' WHERE number = ?", (number // 2,))
            base.execute("COMMIT")
            # With a file as journal its removal is the commit, and SQLite syncs the directory after it only at EXTRA.
            if self.mode == "DELETE":
                fsync_directory(self.place)
            self.succeed(number)

    def check(self):
        with contextlib.closing(self.connect()) as base:
            whole = base.execute("PRAGMA integrity_check").fetchall()
            count, most = base.execute("SELECT count(*), coalesce(max(number), 0) FROM entry").fetchone()
        problems = [] if whole == [("ok",)] else [f"base ({self.mode}): {whole[:3]}"]
        if count != most or most not in self.versions:
            problems.append(f"base ({self.mode}): {count} rows up to {most}, expected one of {self.versions}")
        return problems


class Lengths(Load):
    """A file that is cut, grown, written past its end and punched, with an fsync after every few steps."""

    def prepare(self):
        harness.write_file(self.path("file"), b"")
        handle = os.open(self.path("file"), os.O_RDWR)
        os.fsync(handle)
        os.close(handle)
        fsync_directory(self.place)

    def step(self, choice, number, content):
        """The next state, and what brings it about on a handle; the same for the program and for the check."""
        size, kind = len(content), choice.choice(["cut", "grow", "write", "write", "append", "punch"])
        if kind == "cut":
            length = choice.choice([0, choice.randrange(size + 1), max(0, size - choice.randrange(6000))])
            return content[:length], lambda handle: os.ftruncate(handle, length)
        if kind == "grow":
            length = min(size + choice.choice([1, 4060, choice.randrange(1, 30_000)]), 200_000)
            length = max(length, size)
            return content + bytes(length - size), lambda handle: os.ftruncate(handle, length)
        at = size if kind == "append" else choice.randrange(size + 9000)
        count = choice.choice([1, 100, 4060, 9000])
        if kind == "punch":
            at, end = min(at, size), min(at + count, size)
            if at >= end:
                return content, lambda handle: None
            punched = content[:at] + bytes(end - at) + content[end:]
            return punched, lambda handle: self.punch(handle, at, end - at)
        data = harness.pattern(count, seed=number + 1)
        grown = content + bytes(max(0, at - size))
        return grown[:at] + data + grown[at + count:], lambda handle: os.pwrite(handle, data, at)

    def punch(self, handle, at, count):
        if libc.fallocate(handle, 3, at, count) != 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))

    def run(self):
        handle, content, number = os.open(self.path("file"), os.O_RDWR), b"", 0
        choice, when = random.Random(self.seed), random.Random(self.seed + 1)
        while not self.ledger.is_over:
            number += 1
            content, act = self.step(choice, number, content)
            self.attempt(number)
            act(handle)
            if when.random() < 0.4:
                os.fsync(handle)
                self.succeed(number)

    def check(self):
        found, content, states = harness.read_file(self.path("file")), b"", []
        choice, safe, tried = random.Random(self.seed), self.ledger.get(self.safe), self.ledger.get(self.tried)
        for number in range(tried + 1):
            if number > 0:
                content, _ = self.step(choice, number, content)
            if number >= safe:
                states.append(content)
        sizes = [len(state) for state in states]
        is_between = min(sizes) <= len(found) <= max(sizes)
        if len(found) not in sizes and not (is_between and (len(found) % 4096 == 0 or block_end(len(found)) == len(found))):
            return [f"file: {len(found)} bytes, expected one of {sizes[:8]} (steps {safe} to {tried})"]
        strange = []
        for start, end in fragments(len(found)):
            allowed = {bytes(end - start)} if start >= min(sizes) else set()
            allowed |= {state[start:end].ljust(end - start, b"\0") for state in states}
            if found[start:end] not in allowed:
                strange.append(start)
        return [f"file: strange bytes at {strange[:5]} of {len(found)} (steps {safe} to {tried})"] if strange else []
