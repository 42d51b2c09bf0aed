"""The file systems under test: how each is made, mounted and unmounted."""

import json
import os
import re
import resource
import shutil
import subprocess
import sys
import time

from .processes import Failed, fields, kill, resident, run, seconds, serving, wait_until

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "..", "..", "..", "Tests", "Mount", "support"))
import rings  # noqa: E402

LOOPBACK_SOURCE = "/usr/share/doc/libfuse3-dev/examples/passthrough_ll.c"
PASSPHRASE = "benchmark"
# A daemon that ends may still have to write out what programs gave it.
ENDING = 120
DESCRIPTORS = 1 << 20


class Peer:
    """A file system under test. `make` is called once, then `mount` and `unmount` in turn."""

    name = ""
    title = ""
    program = ""
    # The name of the daemon's process, if it is not a child of the benchmark.
    daemon = ""
    needs = ()

    def __init__(self, options, scratch, store):
        self.options = options
        self.scratch = scratch
        self.store = store
        self.below = os.path.join(store, self.name + ".store")
        self.point = os.path.join(scratch, self.name + ".mount")
        self.secret = os.path.join(scratch, self.name + ".passphrase")
        self.started = None
        self.daemons = []
        self.user = options.identity
        for directory in (self.below, self.point):
            os.mkdir(directory)
            self.user.own(directory)
        with open(self.secret, "w", encoding="utf-8") as file:
            file.write(PASSPHRASE + "\n")
        self.user.own(self.secret)

    @classmethod
    def missing(cls):
        """The first thing that is not installed, or nothing."""
        return next((f"{need} is not installed" for need in cls.needs if not found(need)), None)

    def version(self):
        """The version in the first line that the program prints about itself, else that of its package."""
        for command in ((self.program, "--version"), (self.program, "-version"),
                        ("dpkg-query", "-W", "-f", "${Version}\n", self.name)):
            try:
                done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
            except FileNotFoundError:
                continue
            match = re.search(r"\d+\.\d[\w.]*", (done.stdout + done.stderr).split("\n")[0])
            if match:
                return match[0]
        return "unknown"

    def run(self, *command):
        """Runs a command as the user of the file system."""
        return run(*command, **self.user.words())

    def make(self):
        """Makes an empty file system."""

    def start(self):
        """Starts the daemon; it may still be about to mount."""

    def mount(self):
        self.start()
        if not wait_until(lambda: is_mounted(self.point) or self.has_ended(), 60) or self.has_ended():
            raise Failed(f"{self.name} did not mount: {self.said()}")
        self.daemons = [self.started.pid] if self.started else serving(self.point, self.daemon)
        if not self.daemons:
            raise Failed("the daemon was not found")

    def foreground(self, *command, text=""):
        """Starts a daemon that stays a child of the benchmark."""
        # The directory is the user's, who may have put a link there.
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
        with open(self.log(), "w", encoding="utf-8", opener=lambda path, _: os.open(path, flags, 0o644)) as log:
            self.started = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log, text=True,
                                            start_new_session=True, **self.user.words())
        try:
            self.started.stdin.write(text)
            self.started.stdin.close()
        except BrokenPipeError:
            pass

    def log(self):
        return os.path.join(self.scratch, self.name + ".log")

    def said(self):
        """The end of what a daemon in the foreground has printed."""
        try:
            with open(self.log(), encoding="utf-8", errors="replace") as file:
                return file.read().strip()[-300:] or "it said nothing"
        except OSError:
            return "it said nothing"

    def has_ended(self):
        return self.started is not None and self.started.poll() is not None

    def unmount(self):
        """Unmounts and waits for the daemon's end, so that the next mount does not meet it."""
        end = time.monotonic() + 30
        while is_mounted(self.point):
            lazily = ["-z"] if time.monotonic() > end else []
            done = subprocess.run(["fusermount3", "-u", *lazily, self.point], capture_output=True)
            if done.returncode != 0:
                if lazily:
                    break
                time.sleep(0.1)
        if not wait_until(lambda: not self.living(), ENDING):
            self.kill()
            wait_until(lambda: not self.living(), 10)
        self.started, self.daemons = None, []

    def living(self):
        if self.started is not None:
            self.started.poll()
        return [process for process in self.daemons + ([self.started.pid] if self.started else []) if fields(process)]

    def kill(self):
        """Ends a daemon that does not answer; requests to it then fail."""
        for process in self.living():
            kill(process)

    def seconds(self):
        """The daemon's processor time so far."""
        return seconds(self.daemons)

    def resident(self):
        return resident(self.daemons)


def is_mounted(point):
    """By the kernel's table: os.path.ismount says no where the daemon has died."""
    with open("/proc/self/mounts", encoding="utf-8", errors="replace") as file:
        return any(line.split(" ")[1].replace("\\040", " ") == point for line in file)


def found(need):
    return os.path.exists(need) if need.startswith("/") else bool(shutil.which(need))


class Plain(Peer):
    """The backing store itself, for an idea of what the machine can do."""

    name = "plain"
    title = "the store itself"

    def version(self):
        return ""

    def mount(self):
        self.point = self.below

    def unmount(self):
        pass

    def seconds(self):
        return None

    def resident(self):
        return None


class Protectfs(Peer):
    name = title = daemon = "protectfs"
    options_of_mount = ()

    def __init__(self, options, scratch, store):
        super().__init__(options, scratch, store)
        self.program = options.binary

    def make(self):
        self.run(self.program, "init", "--cipher", self.options.cipher, "--new-passphrase-file", self.secret, self.below)

    def start(self):
        end = time.monotonic() + ENDING
        while True:
            done = subprocess.run([self.program, "mount", *self.options_of_mount, "--passphrase-file", self.secret, self.below, self.point],
                                  stdin=subprocess.DEVNULL, capture_output=True, text=True, **self.user.words())
            if done.returncode == 0:
                return
            # 6: in use. A daemon that is still ending has the volume; any other reason is final.
            if done.returncode != 6 or time.monotonic() > end:
                raise Failed(f"mount: exit code {done.returncode}: {done.stderr.strip()[-300:]}")
            time.sleep(0.2)


class ClassA(Protectfs):
    """The same with every file in class A, whose plaintext must be gone after a lock."""

    name = "class-a"
    title = "protectfs (class A)"

    def make(self):
        super().make()
        self.mount()
        self.run(self.program, "class", "set", "complete", self.point)
        self.unmount()


class OverRing(Protectfs):
    """The same with requests over io_uring, which the kernel's switch allows for the mount alone."""

    name = "io-uring"
    title = "protectfs (io_uring)"
    options_of_mount = ("-o", "io_uring=auto")

    @classmethod
    def missing(cls):
        return None if rings.allowed() else "FUSE over io_uring needs root, and a kernel that has it (Linux 6.14)"

    def mount(self):
        with rings.switched_on():
            super().mount()
        status = json.loads(self.run(self.program, "status", "--json", self.point))
        if status["transport"] != "io_uring":
            raise Failed(f"its requests do not come over io_uring: {status['transport']}")


class Before(Protectfs):
    """Another build of protectfs, such as one of before a change."""

    name = "before"
    title = "protectfs (before)"

    def __init__(self, options, scratch, store):
        super().__init__(options, scratch, store)
        self.program = options.before


class Gocryptfs(Peer):
    name = title = program = "gocryptfs"
    needs = ("gocryptfs",)

    def make(self):
        self.run("gocryptfs", "-q", "-init", "-scryptn", "10", "-passfile", self.secret, self.below)

    def start(self):
        self.foreground("gocryptfs", "-q", "-fg", "-passfile", self.secret, self.below, self.point)


class Securefs(Peer):
    name = title = program = "securefs"
    needs = ("securefs",)

    def make(self):
        self.run("securefs", "create", "--pass", PASSPHRASE, self.below)

    def start(self):
        self.foreground("securefs", "mount", "--pass", PASSPHRASE, self.below, self.point)


class Encfs(Peer):
    name = title = program = "encfs"
    needs = ("encfs",)

    def start(self):
        # The first mount makes the file system; "--standard" answers its questions.
        self.foreground("encfs", "-f", "--standard", "--stdinpass", self.below, self.point, text=PASSPHRASE + "\n")


class Cryfs(Peer):
    name = title = program = "cryfs"
    needs = ("cryfs",)

    def start(self):
        os.environ.update(CRYFS_FRONTEND="noninteractive", CRYFS_NO_UPDATE_CHECK="true",
                          CRYFS_LOCAL_STATE_DIR=os.path.join(self.scratch, "cryfs"))
        self.foreground("cryfs", "-f", self.below, self.point, text=PASSPHRASE + "\n")


class Loopback(Peer):
    """libfuse's own example with its write-back cache: the same requests, no cipher."""

    name = "loopback"
    title = "loopback"
    needs = (LOOPBACK_SOURCE, "cc", "pkg-config")

    def version(self):
        return run("pkg-config", "--modversion", "fuse3").strip()

    def make(self):
        self.program = os.path.join(self.scratch, "passthrough_ll")
        flags = run("pkg-config", "--cflags", "--libs", "fuse3").split()
        self.run("cc", "-O2", "-o", self.program, LOOPBACK_SOURCE, "-I" + os.path.dirname(LOOPBACK_SOURCE), *flags)

    def start(self):
        # With extended attributes, as protectfs has them: without, the kernel is told once and never asks again.
        options = f"source={self.below},writeback,cache=always,timeout=86400,xattr,default_permissions"
        self.foreground(self.program, "-f", "-o", options, self.point)
        # It keeps a descriptor for each object that the kernel knows; where the limit stays low, "find" fails.
        try:
            resource.prlimit(self.started.pid, resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))
        except (OSError, ValueError):
            pass

    def mount(self):
        super().mount()
        if self.options.user:
            return
        # What protectfs gives its own mount where it may, which is as root.
        number = os.stat(self.point).st_dev
        for name, value in (("max_ratio", "100"), ("read_ahead_kb", "1024")):
            try:
                with open(f"/sys/class/bdi/{os.major(number)}:{os.minor(number)}/{name}", "w", encoding="utf-8") as file:
                    file.write(value)
            except OSError:
                pass


KINDS = {kind.name: kind for kind in (Protectfs, ClassA, OverRing, Gocryptfs, Securefs, Encfs, Cryfs, Loopback, Before, Plain)}
DEFAULT = ("protectfs", "class-a", "io-uring", "gocryptfs", "securefs", "encfs", "loopback")
