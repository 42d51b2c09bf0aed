"""Writers and readers that run across locks and unlocks and keep account of every acknowledged byte."""

import errno
import mmap
import multiprocessing
import os
import random
import signal
import struct
import time

from harness import PAGE, PATIENCE

UNIT = struct.Struct("<QQ")  # slot number + 1, sequence number


class Slots:
    """A file cut into slots, each written by one process; what was attempted and what succeeded is in shared memory."""

    def __init__(self, path, count, size):
        self.path, self.count, self.size = path, count, size
        self.log = mmap.mmap(-1, count * 24)

    def content(self, slot, sequence):
        return UNIT.pack(slot + 1, sequence) * (self.size // UNIT.size)

    def get(self, slot, column):
        return struct.unpack_from("<Q", self.log, slot * 24 + column * 8)[0]

    def put(self, slot, column, value):
        struct.pack_into("<Q", self.log, slot * 24 + column * 8, value)

    def attempted(self, slot):
        return self.get(slot, 0)

    def succeeded(self, slot):
        return self.get(slot, 1)

    def attempt(self, slot):
        sequence = self.attempted(slot) + 1
        self.put(slot, 0, sequence)
        return sequence

    def succeed(self, slot, sequence):
        self.put(slot, 1, sequence)

    def synced(self, mine, told):
        """An fsync by the writer of these slots: after a failure, writes since the last good one may be lost."""
        for slot in mine:
            if told:
                self.put(slot, 1, self.get(slot, 2))
            else:
                self.put(slot, 2, self.get(slot, 1))

    def prepare(self):
        """Fills every slot with sequence number 0."""
        handle = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        content = b"".join(self.content(slot, 0) for slot in range(self.count))
        os.pwrite(handle, content, 0)
        os.fsync(handle)
        os.close(handle)

    def check(self):
        """What is wrong: slots that hold anything but their last success or a later attempt."""
        handle = os.open(self.path, os.O_RDONLY)
        problems = []
        for slot in range(self.count):
            found = os.pread(handle, self.size, slot * self.size)
            first, last = self.succeeded(slot), self.attempted(slot)
            units = list(UNIT.iter_unpack(found)) if len(found) == self.size else []
            if not units or any(number != slot + 1 or not first <= sequence <= last for number, sequence in units):
                shown = sorted({unit for unit in units})[:4]
                problems.append(f"slot {slot} of {os.path.basename(self.path)}: {shown} ({len(found)} bytes), "
                                f"told {first}, tried {last}")
        os.close(handle)
        return problems

    @property
    def total(self):
        return sum(self.succeeded(slot) for slot in range(self.count))


class Gang:
    """Processes that run until told to stop."""

    def __init__(self):
        self.children = []
        self.stop = mmap.mmap(-1, PAGE)
        self.told = multiprocessing.Value("Q", 0)
        self.problems_read, self.problems_write = os.pipe()
        os.set_blocking(self.problems_read, False)

    @property
    def stopping(self):
        return self.stop[0] != 0

    def count_told(self):
        with self.told.get_lock():
            self.told.value += 1

    def complain(self, text):
        os.write(self.problems_write, (text[:500] + "\n").encode())

    def start(self, action, nice=0):
        child = os.fork()
        if child == 0:
            try:
                signal.signal(signal.SIGBUS, signal.SIG_DFL)
                os.nice(nice)
                random.seed(os.getpid())
                action()
            except BaseException as error:  # noqa: reported to the parent
                self.complain(f"{action}: {error!r}")
            finally:
                os._exit(0)
        self.children.append(child)

    def start_mapped(self, action, nice=0):
        """A program that a SIGBUS ends is started again, as a person would."""
        def supervise():
            while not self.stopping:
                child = os.fork()
                if child == 0:
                    try:
                        action()
                    except BaseException as error:  # noqa
                        self.complain(f"mapped: {error!r}")
                    finally:
                        os._exit(0)
                _, status = os.waitpid(child, 0)
                if os.WIFSIGNALED(status):
                    if os.WTERMSIG(status) != signal.SIGBUS:
                        self.complain(f"mapped program ended by signal {os.WTERMSIG(status)}")
                    time.sleep(0.005)
        self.start(supervise, nice)

    def finish(self, seconds=PATIENCE):
        """Stops all; gives their complaints."""
        self.stop[0] = 1
        end = time.monotonic() + seconds
        for child in self.children:
            while os.waitpid(child, os.WNOHANG)[0] == 0:
                if time.monotonic() > end:
                    os.kill(child, signal.SIGKILL)
                    os.waitpid(child, 0)
                    self.complain(f"process {child} did not stop")
                    break
                time.sleep(0.005)
        try:
            return os.read(self.problems_read, 1 << 16).decode().splitlines()
        except BlockingIOError:
            return []


def writer(gang, slots, mine, handle, may_fail):
    """Writes its slots round and round through a handle from before."""
    while not gang.stopping:
        for slot in mine:
            sequence = slots.attempt(slot)
            try:
                count = os.pwrite(handle, slots.content(slot, sequence), slot * slots.size)
                if count != slots.size:
                    gang.complain(f"short write: {count}")
                else:
                    slots.succeed(slot, sequence)
            except OSError as error:
                if not may_fail or error.errno != errno.EACCES:
                    gang.complain(f"write: {error}")
                time.sleep(0.001)
            if gang.stopping:
                break
        if random.random() < 0.05 or gang.stopping:
            # A writer that the kernel put to sleep inside write(2) until after the lock is told of it here.
            try:
                os.fsync(handle)
                slots.synced(mine, told=False)
            except OSError as error:
                if not may_fail or error.errno != errno.EACCES:
                    gang.complain(f"fsync: {error}")
                slots.synced(mine, told=True)
                gang.count_told()


def mapped_writer(gang, slots, mine, handle):
    """Stores to its slots through a mapping; SIGBUS ends it."""
    memory = mmap.mmap(handle, slots.count * slots.size)
    while not gang.stopping:
        for slot in mine:
            sequence = slots.attempt(slot)
            memory[slot * slots.size:(slot + 1) * slots.size] = slots.content(slot, sequence)
            slots.succeed(slot, sequence)
        time.sleep(0.0005)


def reader(gang, handle, content, may_fail):
    """Reads a file that nobody changes: its bytes or EACCES, never others. A read that a lock overtakes ends at a page."""
    while not gang.stopping:
        place = random.randrange(0, len(content) - 100)
        try:
            found = os.pread(handle, 5000, place)
            is_overtaken = may_fail and found and (place + len(found)) % PAGE == 0
            wanted = content[place:place + (len(found) if is_overtaken else 5000)]
            if found != wanted:
                gang.complain(f"wrong bytes at {place}: {len(found)}")
        except OSError as error:
            if not may_fail or error.errno != errno.EACCES:
                gang.complain(f"read: {error}")
            time.sleep(0.001)


def opener(gang, path, content, may_fail):
    """Opens the file anew for every read."""
    while not gang.stopping:
        try:
            with open(path, "rb", buffering=0) as file:
                found = file.read(6000)
                if found != content[:PAGE if may_fail and len(found) == PAGE else 6000]:
                    gang.complain(f"wrong bytes in a fresh handle: {len(found)}")
        except OSError as error:
            if not may_fail or error.errno != errno.EACCES:
                gang.complain(f"open: {error}")
        time.sleep(0.001)


def mapped_reader(gang, handle, content):
    memory = mmap.mmap(handle, len(content), prot=mmap.PROT_READ)
    while not gang.stopping:
        place = random.randrange(0, len(content) - 100)
        if memory[place:place + 100] != content[place:place + 100]:
            gang.complain(f"wrong mapped bytes at {place}")
        time.sleep(0.0002)


def hog(gang):
    """Has the processor for longer than a turn of the scheduler, again and again."""
    while not gang.stopping:
        end = time.monotonic() + 0.03
        while time.monotonic() < end:
            sum(range(1000))
        time.sleep(0.03)
