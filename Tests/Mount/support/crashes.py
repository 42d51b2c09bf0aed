"""Rounds of crashes: loads on a mount, the daemon killed or its disk cut off, then a comparison with every promise."""

import contextlib
import errno
import hashlib
import json
import os
import random
import shutil
import signal
import sqlite3
import stat
import subprocess
import time

import device
import harness
from ledger import Appends, ClosedRecords, Database, Ledger, Lengths, Overwrites, Saves, fsync_directory
from ledger_names import Classes, Directories

LOADS = [Appends, Overwrites, Saves, Database, Lengths, Classes, Directories]


def is_end(error):
    """Whether a program may be told this once its mount is gone."""
    return isinstance(error, sqlite3.Error) or isinstance(error, OSError)


class Programs:
    """The loads of one round, each in a process."""

    def __init__(self, place, seed, may_lock):
        self.ledger, self.children, self.problems = Ledger(), {}, []
        kinds = LOADS + ([ClosedRecords] if may_lock else [])
        self.loads = []
        for number, kind in enumerate(kinds):
            where = os.path.join(place, kind.__name__)
            os.makedirs(where)
            self.loads.append(kind(self.ledger, where, seed * 16 + number, may_lock))
        for load in self.loads:
            load.prepare()
        for directory in (place, os.path.dirname(place)):
            fsync_directory(directory)
        self.read_end, self.write_end = os.pipe()
        os.set_blocking(self.read_end, False)

    def start(self):
        for load in self.loads:
            child = os.fork()
            if child == 0:
                try:
                    signal.signal(signal.SIGBUS, signal.SIG_DFL)
                    os.close(self.read_end)
                    load.run()
                except BaseException as error:  # noqa: the child must not go on into the parent's code
                    if not (self.ledger.is_over and is_end(error)):
                        os.write(self.write_end, f"{type(load).__name__}: {error!r}\n".encode())
                finally:
                    os._exit(0)
            self.children[child] = load

    def finish(self, seconds=harness.PATIENCE):
        """Waits for all to end: a program must not hang because of a crash. Gives what they complain of."""
        end, hung = time.monotonic() + seconds, []
        for child, load in self.children.items():
            while os.waitpid(child, os.WNOHANG)[0] == 0:
                if time.monotonic() > end:
                    hung.append(f"{type(load).__name__} hangs after the crash")
                    os.kill(child, signal.SIGKILL)
                    break
                time.sleep(0.01)
        os.close(self.write_end)
        said = b""
        with contextlib.suppress(BlockingIOError):
            said = os.read(self.read_end, 1 << 16)
        os.close(self.read_end)
        return hung + said.decode().splitlines()

    def check(self):
        problems = []
        for load in self.loads:
            try:
                found = load.check()
            except (OSError, sqlite3.Error) as error:
                found = [f"{error!r}"]
            problems += [f"{type(load).__name__}: {problem}" for problem in found]
        return problems

    @property
    def promises(self):
        return sum(load.promises for load in self.loads)


def digest(place):
    """Every object below, with what is in it; raises where something cannot be read."""
    found = {}

    def fail(error):
        raise error

    for directory, directories, files in os.walk(place, onerror=fail):
        for name in directories + files:
            path = os.path.join(directory, name)
            mode = os.lstat(path).st_mode
            content = b""
            if stat.S_ISREG(mode):
                content = hashlib.sha256(harness.read_file(path)).digest() + harness.get_class(path).encode()
            elif stat.S_ISLNK(mode):
                content = os.readlink(path).encode()
            if name.startswith(".undecryptable-"):
                raise OSError(errno.EIO, "a name does not decrypt", path)
            found[os.path.relpath(path, place)] = (stat.S_IFMT(mode), content)
    return found


class Rounds:
    """What all rounds share: figures, the trees of the rounds before, and the check after a crash."""

    def __init__(self, environment, seed):
        self.environment, self.seed, self.number = environment, seed, 0
        self.figures = {"rounds": 0, "failed": 0, "promises": 0, "unflushed": 0, "damage": 0,
                        "quick": 0, "opened": 0, "of": 0}
        self.earlier = {}  # directory → digest
        self.problems = []

    def begin(self):
        """The seed of the next round."""
        self.number += 1
        self.problems = []
        self.choice = random.Random(self.seed * 100_000 + self.number)
        return self.seed * 100_000 + self.number

    def expect(self, name, wanted, found):
        if wanted != found:
            self.problems.append(f"{name}: expected {wanted}, got {found}")

    def start(self, mount, may_lock):
        name = f"round {self.number}"
        place = mount / name
        os.mkdir(place)
        programs = Programs(place, self.choice.randrange(1 << 30), may_lock)
        programs.start()
        return name, programs

    def let_work(self, programs, seconds):
        """Until the crash: so long, and on a slow machine until something has been promised, in every second round a lot."""
        wanted = 1 if self.number % 2 else 45
        time.sleep(seconds)
        harness.wait_until(lambda: programs.promises >= wanted, what="fsyncs that are told to be good")

    def compare(self, mount, name, programs):
        """Everything promised, everything of the rounds before, and that every object can be read."""
        self.problems += programs.check()
        for earlier, wanted in self.earlier.items():
            try:
                if digest(mount / earlier) != wanted:
                    self.problems.append(f"{earlier} is not as it was")
            except OSError as error:
                self.problems.append(f"{earlier}: {error!r}")
        try:
            self.earlier[name] = digest(mount / name)
        except OSError as error:
            self.problems.append(f"{name}: {error!r}")
        while len(self.earlier) > 3:
            oldest = next(iter(self.earlier))
            del self.earlier[oldest]
            shutil.rmtree(mount / oldest)

    def check_volume(self, volume, name="fsck"):
        """fsck finds no error, and where it mended something finds nothing the second time. In every second round the first
        one is quick."""
        words = ("fsck", "--json", "--recovery-file", volume.code_file, volume.path)
        is_quick = self.choice.random() < 0.5
        for turn in ("first", "second"):
            quick = ["--quick"] if is_quick and turn == "first" else []
            done = harness.protectfs(*words, *quick, env=volume.environment, ok=False)
            try:
                report = json.loads(done.stdout)
            except ValueError:
                self.problems.append(f"{turn} {name}: exit code {done.returncode}: {done.stderr.strip()}")
                return
            self.expect(f"errors of the {turn} {name}", [], [one for one in report["findings"] if one["severity"] == "error"])
            if turn == "first":
                self.expect(f"exit code of the first {name}", True, done.returncode in (0, 1))
                self.figures["damage"] += report["crashes"]
                if quick and report["quick"] != "nothing":
                    self.expect(f"the session after the first {name}", True, report["closedEpochs"])
                    self.figures["quick"] += 1
                    self.figures["opened"] += report["filesOpened"]
                    self.figures["of"] += report["files"]
            else:
                self.expect(f"the second {name}", (0, 0), (done.returncode, report["crashes"]))

    def close(self):
        """Takes away what the rounds need."""

    def end(self, programs):
        self.figures["rounds"] += 1
        self.figures["promises"] += programs.promises if programs else 0
        self.figures["failed"] += 1 if self.problems else 0
        return self.problems


class Killed(Rounds):
    """kill -9 of the daemon, also in the middle of a lock with many dirty pages."""

    def __init__(self, environment, seed):
        super().__init__(environment, seed)
        self.mount = environment.mount()

    def run(self):
        """One round; gives its problems."""
        self.begin()
        mount, locks = self.mount, self.number % 2 == 0
        pid = mount.pid
        name, programs = self.start(mount, locks)
        self.let_work(programs, self.choice.uniform(0.1, 0.8))
        if locks:
            for _ in range(self.choice.randrange(3)):
                mount.command("lock", mount.path, ok=False)
                mount.command("unlock", "--recovery-file", mount.volume.code_file, mount.path, ok=False)
        command = self.lock_dirty(mount, name) if locks else None
        programs.ledger.end()
        os.kill(pid, signal.SIGKILL)
        try:
            harness.wait_until(lambda: self.answer(mount) in ("ENOTCONN", "ECONNABORTED"), what="ENOTCONN")
        except AssertionError as error:
            self.problems.append(f"{error}: {self.answer(mount)}")
        self.problems += programs.finish()
        if command:
            try:
                command.wait(harness.PATIENCE)
            except subprocess.TimeoutExpired:
                self.problems.append("the lock command hangs after the crash")
                command.kill()
        self.expect("what a program gets", "ENOTCONN", self.answer(mount))
        done = mount.command("unmount", mount.path, ok=False)
        self.expect("unmount after the crash", 0, done.returncode)
        self.expect("mounted after unmount", False, mount.is_mounted)
        if self.choice.random() < 0.3:
            self.check_volume(mount.volume, "fsck before mounting")
        self.mount = self.environment.mount(mount.volume, path=mount.path, ok=False)
        self.expect("mounting again", (0, ""), (self.mount.result.returncode, self.mount.result.stderr))
        if self.mount.result.returncode == 0:
            self.compare(self.mount, name, programs)
            self.mount.unmount()
            self.check_volume(mount.volume)
            self.mount = self.environment.mount(mount.volume, path=mount.path)
        return self.end(programs)

    def lock_dirty(self, mount, name):
        """Many dirty pages of class A, and a lock under way."""
        path = mount / f"{name}/dirty"
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        os.write(handle, b"x" * 4096)
        harness.set_class(path, "A")
        content = harness.pattern(1 << 20)
        for at in range(self.choice.choice([1, 8, 24])):
            os.pwrite(handle, content, at << 20)
        command = subprocess.Popen([harness.binary(), "lock", mount.path], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=mount.volume.environment)
        time.sleep(self.choice.choice([0, 0.002, 0.01, 0.03, 0.1]) * self.choice.random() * 2)
        return command

    @staticmethod
    def answer(mount):
        """What statfs(2), which nothing caches, says; from a child, as it may hang."""
        return harness.in_child(lambda: os.statvfs(mount.path), seconds=60)


class Cut(Rounds):
    """The disk below is gone from one moment to the next, and comes back with what it had flushed, and some more."""

    def __init__(self, environment, seed, kind):
        super().__init__(environment, seed)
        # "btrfs-log" is Btrfs as it comes, with what `device.mount_disk` says of it.
        self.kind, self.keeps_log = kind.removesuffix("-log"), kind.endswith("-log")
        self.host = environment.volume()
        self.place = environment.new_path("disk")
        self.image_file = environment.new_path("image")
        self.backing = environment.new_path("backing")
        self.point = environment.new_path("mount")
        self.disk = self.image = None
        device.make_image(self.kind, self.image_file)
        self.renew()

    def renew(self):
        """A new file system with a new volume; in every second round with the device key and state file on it."""
        self.close()
        self.earlier = {}
        self.image = device.load_image(self.image_file)
        self.attach()
        shutil.copytree(self.host.path, self.backing + "/volume", symlinks=True)
        data = self.environment.new_path("data")
        if self.number // 5 % 2 == 0:
            data = self.backing + "/data"
        shutil.copytree(self.host.data, data)
        harness.sync(self.backing)
        self.volume = harness.Volume(self.backing + "/volume", data, self.host.code_file, self.host.passphrase_file)

    def attach(self):
        self.disk = device.Disk(self.image, self.place)
        options = {"ext4": ["", "noauto_da_alloc", "commit=1"], "xfs": [""], "btrfs": ["", "notreelog,commit=1"]}[self.kind]
        wanted = "ssd" if self.keeps_log else options[self.number % len(options)]
        device.mount_disk(self.kind, self.disk.loop, self.backing, wanted)

    def detach(self):
        device.unmount_disk(self.backing)
        self.disk.end()
        self.disk = None

    def run(self):
        """One round; gives its problems."""
        self.begin()
        if self.number % 5 == 1 and self.number > 1:
            self.renew()
        mount = self.environment.mount(self.volume, path=self.point)
        name, programs = self.start(mount, False)
        self.let_work(programs, self.choice.uniform(0.1, 1.0))
        programs.ledger.end()
        counts = self.disk.order("cut", self.seed * 100_000 + self.number)
        self.figures["unflushed"] += counts["unflushed"]
        self.problems += programs.finish()
        self.lose(mount)
        self.detach()
        self.attach()
        if self.choice.random() < 0.3:
            self.cut_recovery()
        if self.choice.random() < 0.5:
            self.check_volume(self.volume, "fsck before mounting")
        again = self.environment.mount(self.volume, path=self.point, ok=False)
        self.expect("mounting again", (0, ""), (again.result.returncode, again.result.stderr))
        if again.result.returncode == 0:
            self.compare(again, name, programs)
            again.unmount()
            self.check_volume(self.volume)
        return self.end(programs)

    def cut_recovery(self):
        """Cuts again while fsck mends what the first cut has left."""
        words = ["fsck", "--recovery-file", self.volume.code_file, self.volume.path]
        mending = subprocess.Popen([harness.binary(), *words], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL, env=self.volume.environment)
        time.sleep(self.choice.uniform(0, 0.15))
        self.disk.order("cut", self.number)
        mending.wait(harness.PATIENCE)
        self.detach()
        self.attach()

    def lose(self, mount):
        """The daemon's end: killed, or unmounted in vain, which must not say that all went well."""
        if self.choice.random() < 0.3:
            mount.command("unmount", mount.path, ok=False)
        mount.crash()

    def close(self):
        """Takes the disk away."""
        if self.disk:
            harness.detach(self.point)
            self.detach()
        if self.image is not None:
            os.close(self.image)
            self.image = None
