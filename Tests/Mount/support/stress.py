"""Programs that write in every possible way while a volume is locked and classes change; each keeps account of its bytes."""

import contextlib
import errno
import mmap
import multiprocessing
import os
import random
import signal
import struct
import time

import hammer
import harness
import uring
from harness import PAGE

# Kind of writing → (how many of them, slots of each, bytes of a slot): 33 programs.
KINDS = {"pages": (6, 64, PAGE), "parts": (6, 64, 512), "appends": (4, 60_000, 1008), "mapped": (5, 64, 512),
         "direct": (3, 32, PAGE), "io_uring": (3, 32, PAGE), "copy_file_range": (3, 32, PAGE), "splice": (3, 32, 1024)}
COMPLAINTS = 100


class Crowd(hammer.Gang):
    """A gang that continues after any number of complaints and counts them."""

    def __init__(self):
        super().__init__()
        self.complained = multiprocessing.Value("Q", 0)

    def complain(self, text):
        with self.complained.get_lock():
            self.complained.value += 1
            if self.complained.value > COMPLAINTS:
                return
        super().complain(text)

    def finish(self, seconds=harness.PATIENCE):
        """Stops all; where somebody does not stop, says what each such program waits for."""
        self.stop[0] = 1
        end = time.monotonic() + seconds
        left = self.children
        while left and time.monotonic() < end:
            left = [child for child in left if not os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT)]
            time.sleep(0.02)
        for child in left:
            self.complain(f"process {child} does not stop: {waits_for(child)}")
        return super().finish(0.01)


def waits_for(pid):
    """What the kernel says that a process waits for."""
    found = []
    for name in ("wchan", "syscall", "stack"):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/{name}", encoding="ascii", errors="replace") as file:
            found.append(" ".join(file.read().split())[:200])
    return "; ".join(found)


class Account(hammer.Slots):
    """What one writer was told is written in its file, and what was missing of it when it looked."""

    FIGURES = ("writes", "bytes", "refused", "checked", "lost", "synced", "pid")

    def __init__(self, path, kind, number):
        count, size = KINDS[kind][1:]
        super().__init__(path, count, size)
        self.kind, self.number, self.name = kind, number, os.path.basename(path)
        self.figures = mmap.mmap(-1, PAGE)

    def figure(self, name):
        return struct.unpack_from("<Q", self.figures, 8 * self.FIGURES.index(name))[0]

    def add(self, name, value):
        self.note(name, self.figure(name) + value)

    def note(self, name, value):
        struct.pack_into("<Q", self.figures, 8 * self.FIGURES.index(name), value)

    def prepare(self):
        """Something in every slot; a file that only grows is empty."""
        if self.kind == "appends":
            harness.write_file(self.path, b"")
        else:
            super().prepare()

    def told(self, slot, sequence):
        self.succeed(slot, sequence)
        self.put(slot, 2, 0)
        self.add("writes", 1)
        self.add("bytes", self.size)

    def judge(self, slot, found):
        """None, or what is wrong with a slot's content; something that was never tried, or older than what was told."""
        self.add("checked", 1)
        first, last = self.succeeded(slot), self.attempted(slot)
        if first == last and found == self.content(slot, first):
            return None
        if len(found) == self.size and all(number == slot + 1 and first <= sequence <= last
                                           for number, sequence in hammer.UNIT.iter_unpack(found)):
            return None
        if self.get(slot, 2):
            return None  # told of before, and not written since
        self.put(slot, 2, 1)
        self.add("lost", 1)
        shown = sorted(set(hammer.UNIT.iter_unpack(found)))[:3] if len(found) == self.size else []
        return f"lost: {self.kind}, slot {slot} of {self.name}: {shown} ({len(found)} bytes), told {first}, tried {last}"

    @property
    def used(self):
        """Slots that hold something: of a file that grows only those that were told."""
        return range(self.figure("writes")) if self.kind == "appends" else range(self.count)

    def check_path(self, path):
        """What is wrong in the file of that name."""
        with open(path, "rb", buffering=0) as file:
            content = file.readall()
        found = (self.judge(slot, content[slot * self.size:(slot + 1) * self.size]) for slot in self.used)
        return [problem for problem in found if problem]


class Writer:
    """One program: writes its file through a handle from before, and looks at each slot before it writes over it."""

    def __init__(self, crowd, account, scratch):
        self.crowd, self.account, self.scratch = crowd, account, scratch

    def run(self):
        """Until told to stop; then everything is compared once more through the same handle."""
        account = self.account
        self.handle = os.open(account.path, os.O_RDWR | (os.O_APPEND if account.kind == "appends" else 0)
                              | (os.O_DIRECT if account.kind == "direct" else 0))
        self.prepare()
        account.note("pid", os.getpid())  # the first lock waits for this
        if account.kind == "mapped":
            self.supervise()
        else:
            while not self.crowd.stopping:
                self.round()
        self.finish()

    def prepare(self):
        kind = self.account.kind
        if kind == "direct":
            self.page = mmap.mmap(-1, PAGE)
        elif kind == "io_uring":
            self.ring = uring.Ring(4, PAGE)
        elif kind == "copy_file_range":
            self.source = os.open(self.scratch, os.O_RDWR | os.O_CREAT, 0o600)
        elif kind == "splice":
            self.pipe = os.pipe()

    def round(self):
        """A few writes; now and then an fsync."""
        account, kind = self.account, self.account.kind
        if kind == "appends":
            told = account.figure("writes")
            slots = range(told, min(told + 8, account.count))
            for slot in random.sample(range(max(0, told - 64), told), min(told, 4)):
                self.look(slot)
        else:
            slots = random.sample(range(account.count), 4 if kind == "io_uring" else 8)
        if kind == "io_uring":
            self.several(slots)
        else:
            for slot in slots:
                if not self.one(slot):
                    break
        if random.random() < 0.03:
            self.sync()
        time.sleep(random.choice([0, 0, 0.001, 0.003]))

    def one(self, slot):
        account = self.account
        if account.kind != "appends" and not self.look(slot):
            return False
        sequence = account.attempt(slot)
        try:
            count = self.write(account.content(slot, sequence), slot * account.size)
        except OSError as error:
            self.refused(error)
            return False
        if count != account.size:
            self.crowd.complain(f"short write: {account.kind}, {count} bytes")
        else:
            account.told(slot, sequence)
        return True

    def write(self, content, offset):
        kind = self.account.kind
        if kind == "appends":
            return os.write(self.handle, content)
        if kind == "direct":
            self.page[:] = content
            return os.pwrite(self.handle, self.page, offset)
        if kind == "copy_file_range":
            os.pwrite(self.source, content, 0)
            return os.copy_file_range(self.source, self.handle, len(content), 0, offset)
        if kind == "splice":
            os.write(self.pipe[1], content)
            try:
                return os.splice(self.pipe[0], self.handle, len(content), offset_dst=offset)
            except OSError:
                os.read(self.pipe[0], 65536)  # what the refusal has left
                raise
        return os.pwrite(self.handle, content, offset)

    def several(self, slots):
        account = self.account
        if not all(self.look(slot) for slot in slots):
            return
        tried = [(slot, account.attempt(slot)) for slot in slots]
        results = self.ring.write(self.handle, [(slot * account.size, account.content(slot, number)) for slot, number in tried])
        for (slot, number), result in zip(tried, results):
            if result == account.size:
                account.told(slot, number)
            elif result < 0:
                self.refused(OSError(-result, os.strerror(-result)))
            else:
                self.crowd.complain(f"short write: io_uring, {result} bytes")

    def refused(self, error):
        """Class A says EACCES while the volume is locked; everything else is a complaint."""
        self.account.add("refused", 1)
        if error.errno != errno.EACCES:
            self.crowd.complain(f"{self.account.kind}: {error}")
        time.sleep(0.002)

    def look(self, slot):
        """Compares a slot with the account; false where it cannot be read now."""
        account = self.account
        try:
            # From the page cache or not, as the handle does: what a lock has lost comes from the store.
            found = os.preadv(self.handle, [self.buffer()], slot * account.size)
            if 0 < found < account.size:
                # A lock came between two pages of one read, which gives the first: what follows is refused, or not there.
                found += os.preadv(self.handle, [self.buffer()[found:]], slot * account.size + found)
            content = bytes(self.buffer()[:found])
        except OSError as error:
            self.refused(error)
            return False
        problem = account.judge(slot, content)
        if problem:
            self.crowd.complain(problem)
        return True

    def buffer(self):
        if not hasattr(self, "space"):
            self.space = mmap.mmap(-1, PAGE)
        return memoryview(self.space)[:self.account.size]

    def sync(self):
        try:
            os.fsync(self.handle)
            self.account.add("synced", 1)
        except OSError as error:
            self.crowd.complain(f"fsync: {self.account.kind}, {self.account.name}: {error}")

    def supervise(self):
        """Stores through a mapping until SIGBUS ends it, again and again."""
        while not self.crowd.stopping:
            child = os.fork()
            if child == 0:
                try:
                    signal.signal(signal.SIGBUS, signal.SIG_DFL)
                    self.account.note("pid", os.getpid())
                    self.store()
                except BaseException as error:  # noqa
                    self.crowd.complain(f"mapped: {error!r}")
                finally:
                    os._exit(0)
            os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
            self.account.note("pid", os.getpid())  # before the other number is free again
            _, status = os.waitpid(child, 0)
            if os.WIFSIGNALED(status):
                self.account.add("refused", 1)
                if os.WTERMSIG(status) != signal.SIGBUS:
                    self.crowd.complain(f"a mapped program ended by signal {os.WTERMSIG(status)}")
                time.sleep(0.005)

    def store(self):
        account = self.account
        memory = mmap.mmap(self.handle, account.count * account.size)
        while not self.crowd.stopping:
            for slot in random.sample(range(account.count), 8):
                place = slice(slot * account.size, (slot + 1) * account.size)
                problem = account.judge(slot, memory[place])
                if problem:
                    self.crowd.complain(problem)
                sequence = account.attempt(slot)
                memory[place] = account.content(slot, sequence)
                account.told(slot, sequence)
            time.sleep(random.choice([0.0005, 0.002]))

    def finish(self):
        """The volume is unlocked: every slot by the handle that was there all the time."""
        self.sync()
        for slot in self.account.used:
            if not self.look(slot):
                self.crowd.complain(f"{self.account.kind}, slot {slot} cannot be read in the end")
                break
        os.close(self.handle)


class Changer:
    """Changes classes and names of files that others have open, all by name, with no descriptor of them."""

    def __init__(self, crowd, accounts, nameless):
        self.crowd, self.accounts, self.nameless = crowd, accounts, nameless
        self.counts = multiprocessing.Array("Q", 6)

    KINDS = ("to A", "to C", "renamed over A", "linked", "unlinked", "refused")

    def count(self, kind):
        with self.counts.get_lock():
            self.counts[self.KINDS.index(kind)] += 1

    def run(self):
        gone = set()
        while not self.crowd.stopping:
            account = random.choice(self.accounts)
            try:
                if account.name in self.nameless and account.name not in gone and random.random() < 0.05:
                    gone.add(account.name)
                    os.unlink(account.path)
                    self.count("unlinked")
                else:
                    self.change(account, self.place(account) if account.name in gone else account.path, account.name in gone)
            except OSError as error:
                self.count("refused")
                if error.errno == errno.ENOENT and str(error.filename).startswith("/proc/"):
                    continue  # a mapped program that SIGBUS has just ended
                if error.errno not in (errno.EACCES, errno.EBUSY):
                    self.crowd.complain(f"change of {account.name}: {error}")
            time.sleep(random.choice([0, 0.002, 0.02]))

    @staticmethod
    def place(account):
        """A file without a name, by the descriptor of the program that has it open."""
        directory = f"/proc/{account.figure('pid')}/fd"
        for number in os.listdir(directory):
            if os.readlink(f"{directory}/{number}").startswith(account.path):
                return f"{directory}/{number}"
        raise OSError(errno.EBUSY, "not open")

    def change(self, account, path, is_gone):
        choice = random.random()
        if choice < 0.45 or is_gone and choice < 0.7:
            harness.set_class(path, "A")
            self.count("to A")
        elif choice < 0.75 or is_gone:
            harness.set_class(path, "C")
            self.count("to C")
        elif choice < 0.9:
            self.rename_over(account)
        else:
            second = account.path + ".second"
            try:
                os.link(account.path, second)
            except FileNotFoundError:
                # Linux drops the attributes in LINK's answer where a write ended meanwhile, counts the next unlink all the
                # same, and takes the file for unlinked (vfs_link) until it asks for its attributes again.
                os.stat(account.path)
                self.count("refused")
                return
            os.rename(second, second + ".moved")
            os.unlink(second + ".moved")
            self.count("linked")

    def rename_over(self, account):
        """A save by rename: the name of a class A file, whose class the new one takes unless its own was chosen."""
        target = account.path + ".target"
        harness.write_file(target, b"")
        harness.set_class(target, "A")
        os.removexattr(account.path, "user.protection")
        os.rename(account.path, target)
        self.count("renamed over A")
        os.rename(target, account.path)


def stopper(crowd, accounts):
    """Stops a program at any moment, and lets it go on some time later."""
    held = []
    while True:
        due = [entry for entry in held if entry[0] < time.monotonic() or crowd.stopping]
        held = [entry for entry in held if entry not in due]
        for _, pid in due:
            send(pid, signal.SIGCONT)
        if crowd.stopping:
            return
        pid = random.choice(accounts).figure("pid")
        if pid:
            held.append((time.monotonic() + random.choice([0.001, 0.02, 0.1, 0.5]), pid))
            send(pid, signal.SIGSTOP)
        time.sleep(random.choice([0.005, 0.02, 0.05]))


def send(pid, number):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
