"""Volumes and mounts for the tests: made, used, and cleaned up even when a mount hangs."""

import contextlib
import json
import os
import pwd
import shutil
import signal
import subprocess
import time

import rings
import states
# Tests find these here as well.
from processes import (PATIENCE, CommandFailed, Lines, as_user, come_first, detach, in_child, outcome, run, sync,  # noqa: F401
                       wait_until)

SUPPORT = os.path.dirname(os.path.abspath(__file__))
REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(SUPPORT)))
PAGE = 4096
CLASSES = {
    "A": "complete",
    "B": "completeUnlessOpen",
    "C": "completeUntilFirstUserAuthentication",
    "D": "none",
    "7": "completeWhenUserInactive",
}
# Exit codes of commands.
BUSY, NOT_MOUNTED = 6, 7
PASSPHRASE = "correct horse battery staple"
# The cheapest hash of a new passphrase that protectfs makes. By default one takes a second of processor time.
COST = "3 passes 64 MiB"
CONFIGURATION = f"passphrase.cost = {COST}\n".encode()
# A lock's grace in which nobody lets it run out: a lock that ends within PATIENCE has not waited for its end.
GRACE = "240"


class Skip(Exception):
    """Raised by a test that cannot run here; the text says why."""


def binary():
    """The program under test: $PROTECTFS, else the release build, else the debug build."""
    found = os.environ.get("PROTECTFS")
    if found:
        return os.path.abspath(found)
    for configuration in ("release", "debug"):
        path = os.path.join(REPOSITORY, ".build", configuration, "protectfs")
        if os.path.exists(path):
            return path
    raise SystemExit("protectfs is not built: swift build -c release")


def program(name):
    """A program of this package that tests drive: built beside the one under test, or in this repository."""
    builds = [os.path.join(REPOSITORY, ".build", configuration) for configuration in ("release", "debug")]
    for place in (os.path.dirname(binary()), *builds):
        path = os.path.join(place, name)
        if os.path.exists(path):
            return path
    raise Skip(f"{name} is not built: swift build -c release --product {name}")


def protectfs(*words, **more):
    return run(binary(), *words, **more)


def set_class(path, name):
    os.setxattr(path, "user.protection", CLASSES.get(name, name).encode())


def get_class(path):
    return os.getxattr(path, "user.protection").decode()


def write_file(path, content, flags=0):
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | flags, 0o644)
    try:
        done = 0
        while done < len(content):
            done += os.write(handle, content[done:])
    finally:
        os.close(handle)


def make_file(path, letter, content):
    """A file with a class that somebody has set, before it got its content."""
    write_file(path, b"")
    set_class(path, letter)
    write_file(path, content)


def read_file(path):
    with open(path, "rb", buffering=0) as file:
        return file.readall()


def pattern(length, seed=1):
    """Bytes that differ from page to page and from seed to seed."""
    unit = b"".join(b"%07d:%07d\n" % (seed, line) for line in range(256))
    pages = [b"%015d\n" % number + unit[16:] for number in range((length + PAGE - 1) // PAGE)]
    return b"".join(pages)[:length]


def mount_table():
    """(major:minor, mount point, type, source) of every mount."""
    rows = []
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as table:
        for line in table:
            left, right = line.rstrip("\n").split(" - ", 1)
            fields, tail = left.split(" "), right.split(" ")
            unescape = lambda text: text.encode("utf-8", "surrogateescape").decode("unicode_escape")
            rows.append((fields[2], unescape(fields[4]), tail[0], unescape(tail[1])))
    return rows


def daemons(mark, inherited=False, command=None):
    """PIDs of protectfs processes that have mark in an argument; where asked, and allowed, in their environment too. Where asked,
    only those that run this command."""
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        try:
            with open(f"/proc/{entry}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
            with contextlib.suppress(PermissionError), open(f"/proc/{entry}/environ", "rb") as file:
                words += file.read().split(b"\0") if inherited else []
            with open(f"/proc/{entry}/comm", encoding="utf-8", errors="replace") as file:
                name = file.read().strip()
        except OSError:
            continue
        runs = command is None or words[1:2] == [command.encode()]
        if name == "protectfs" and runs and any(mark.encode() in word for word in words):
            found.append(int(entry))
    return found


def parent(pid):
    """The parent's PID; None where a process has ended."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
        return int(file.read().rpartition(")")[2].split()[1])
    return None


def has_ended(pid):
    """Whether a process has closed its files, and so given up its locks. Its arguments are gone a little earlier, and its first
    thread may end before the others."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
        return file.read().rpartition(")")[2].split()[0] in ("Z", "X") and len(os.listdir(f"/proc/{pid}/task")) == 1
    return True


def abort_connection(device, control):
    """Ends a hung connection: every request on it fails, and the daemon ends."""
    with contextlib.suppress(OSError):
        with open(os.path.join(control, device.split(":")[1], "abort"), "w", encoding="ascii") as file:
            file.write("1")


def clean_mounts(base, control):
    """Unmounts what is left below base; gives what was found."""
    left = []
    for device, place, kind, _ in reversed(mount_table()):
        if (kind == "fuse" or kind.startswith("fuse.")) and (place == base or place.startswith(base + "/")):
            left.append(place)
            abort_connection(device, control)
            words = ["umount", "-l"] if os.geteuid() == 0 else ["fusermount3", "-u", "-z"]
            run(*words, place, ok=False, timeout=60)
    return left


class Volume:
    """A volume, with its device key and state file in a data directory of its own."""

    def __init__(self, path, data, code_file, passphrase_file):
        self.path, self.data, self.code_file, self.passphrase_file = path, data, code_file, passphrase_file

    @property
    def environment(self):
        return {**os.environ, "XDG_STATE_HOME": self.data}


class Mount:
    """A mounted volume."""

    def __init__(self, volume, path):
        self.volume, self.path = volume, path

    def __truediv__(self, name):
        return os.path.join(self.path, name)

    def command(self, *words, **more):
        return protectfs(*words, env=self.volume.environment, **more)

    def stored(self, name):
        """Where a file of the mount is in the volume's directory."""
        return self.command("path", self / name).stdout.removesuffix("\n")

    def lock(self, *words):
        return self.command("lock", *words, self.path)

    def unlock(self):
        return self.command("unlock", "--recovery-file", self.volume.code_file, self.path)

    def status(self):
        answer = json.loads(self.command("status", "--json", self.path).stdout)
        return answer[0] if isinstance(answer, list) else answer

    def state(self):
        return os.getxattr(self.path, "user.protectfs.state").decode()

    @property
    def pid(self):
        # Others may run a command on the mount right now.
        found = daemons(self.path, command="mount")
        # The daemon's guard is a child with the same name and words, until it has taken its own name.
        found = [pid for pid in found if parent(pid) not in found]
        assert len(found) == 1, f"daemons of {self.path}: {found}"
        return found[0]

    def unmount(self, may_stay_open=False):
        """may_stay_open: after the store was full, the session may stay open; the command says so then, and ends with 1."""
        end, waits = time.monotonic() + PATIENCE, False
        while True:
            done = self.command("unmount", self.path, ok=False)
            if done.returncode == 0 or waits and done.returncode == NOT_MOUNTED:
                return
            # It waits a few seconds for a daemon whose mount somebody else has removed.
            waits = done.returncode == BUSY and "has not ended" in done.stderr and time.monotonic() < end
            if not waits:
                break
        if not (may_stay_open and done.returncode == 1 and "the session could not be closed" in done.stderr):
            raise CommandFailed(done.args, f"exit code {done.returncode}", done.stdout, done.stderr)

    def sync(self):
        """Has what was written to the mount in the store, and the store on its disk; without waiting for other file systems."""
        sync(self.path)
        sync(self.volume.path)

    def crash(self):
        """Ends the daemon as a power cut would end the machine: nothing is closed, and the mount is gone."""
        killed = daemons(self.path)
        for pid in killed:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        wait_until(lambda: all(map(has_ended, killed)), what="the daemon's end")
        detach(self.path)

    @property
    def is_mounted(self):
        return any(row[1] == self.path for row in mount_table())


class Environment:
    """What a test gets: makes volumes and mounts, counts cells, and cleans up."""

    def __init__(self, base, template, control, report, mode):
        self.base, self.template, self.control, self.report, self.mode = base, template, control, report, mode
        self.mounts = []
        self.count = 0

    def new_path(self, name):
        self.count += 1
        return os.path.join(self.base, f"{name}{self.count}")

    def volume(self):
        """A fresh volume: a copy of one that was made once, as making one takes a moment."""
        place = self.new_path("volume")
        shutil.copytree(self.template, place, symlinks=True)
        return Volume(os.path.join(place, "volume"), os.path.join(place, "data"), os.path.join(place, "code"),
                      os.path.join(place, "passphrase"))

    def mount(self, volume=None, unlock=True, options=(), ok=True, path=None, **more):
        """Mounts a volume (a fresh one when none is given); more arguments are those of subprocess.run."""
        volume = volume or self.volume()
        path = path or self.new_path("mount")
        if not os.path.isdir(path):
            os.makedirs(path)
            # As the first mount leaves it, which says so.
            os.chmod(path, 0o500)
        words = ["mount"]
        if os.environ.get(rings.VARIABLE):
            words += ["-o", "io_uring=auto"]
        for option in options:
            words += ["-o", option]
        words += ["--recovery-file", volume.code_file] if unlock else ["--no-unlock"]
        done = protectfs(*words, volume.path, path, env=volume.environment, ok=ok, **more)
        mount = Mount(volume, path)
        mount.result = done
        if done.returncode == 0:
            self.mounts.append(mount)
        return mount

    def remount(self, mount, may_stay_open=False, **more):
        mount.unmount(may_stay_open)
        return self.mount(mount.volume, path=mount.path, **more)

    def cell(self, name, expected, actual):
        """Counts one comparison as a test of its own."""
        self.report(name, None if expected == actual else f"expected {expected}, got {actual}")

    def skip(self, name, reason):
        """Counts one cell as skipped."""
        self.report(name, reason, skipped=True)

    def close(self):
        """Unmounts what the test left mounted, as a person would."""
        for mount in reversed(self.mounts):
            if mount.is_mounted:
                done = mount.command("unmount", mount.path, ok=False)
                if done.returncode != 0:
                    self.report("unmount at the end", done.stderr.strip() or f"exit code {done.returncode}")
        # The mount helper makes mount points immutable.
        if os.geteuid() == 0 and os.path.isdir(self.base):
            run("chattr", "-i", *(os.path.join(self.base, name) for name in os.listdir(self.base)), ok=False)


def told():
    """The file that says that lock has told its note about freed memory."""
    return os.path.join(runtime_directory(), "init-on-free.told")


def runtime_directory():
    """Where mounts of this user make their control sockets (docs/program/control-protocol.md)."""
    user = os.geteuid()
    if user == 0:
        return "/run/protectfs"
    with contextlib.suppress(OSError, KeyError):
        if os.stat(f"/run/user/{user}").st_uid == user:
            return f"/run/user/{user}/protectfs"
    with contextlib.suppress(OSError, KeyError):
        home = pwd.getpwuid(user).pw_dir
        if os.stat(home).st_uid == user:
            return f"{home}/.local/state/protectfs/run"
    return os.environ["XDG_RUNTIME_DIR"] + "/protectfs"


def configure(home):
    """Has commands take their settings from here: those of tests, and nobody's own."""
    os.makedirs(os.path.join(home, "protectfs"), mode=0o755)
    write_file(os.path.join(home, "protectfs/config"), CONFIGURATION)
    os.environ["XDG_CONFIG_HOME"] = home


def at_home(path):
    """The environment of a program whose home is here. Foundation takes some directories from HOME, others from the user database
    unless the second variable is there, and its settings from a third one."""
    variables = {**os.environ, "HOME": path, "CFFIXED_USER_HOME": path}
    variables.pop("XDG_CONFIG_HOME", None)
    return variables


def make_template(place):
    """The volume that every test's volume is a copy of."""
    os.makedirs(os.path.join(place, "data"))
    secret = os.path.join(place, "passphrase")
    with open(secret, "w", encoding="ascii") as file:
        file.write(PASSPHRASE + "\n")
    volume = os.path.join(place, "volume")
    environment = {**os.environ, "XDG_STATE_HOME": os.path.join(place, "data")}
    made = json.loads(protectfs("init", "--json", "--passphrase-file", secret, volume, env=environment).stdout)
    with open(os.path.join(place, "code"), "w", encoding="ascii") as file:
        file.write(made["recoveryCode"] + "\n")
    forget_store(os.path.join(place, "data"))
    # What lock says once, of the kernel, has been said: see test_freed_memory.py.
    os.makedirs(os.path.dirname(told()), mode=0o700, exist_ok=True)
    with open(told(), "w", encoding="ascii"):
        pass


def forget_store(data):
    """Takes out of state files which store they belong to: the next one that is seen takes them over, as a copy would not."""
    for name in os.listdir(os.path.join(data, "protectfs")):
        if name.endswith(".state"):
            states.forget_store(os.path.join(data, "protectfs", name))


class Watch(Lines):
    """`protectfs watch --json` as a stream of events."""

    def __init__(self, mount):
        super().__init__([binary(), "watch", "--json", mount.path], stdin=subprocess.DEVNULL,
                         env=mount.volume.environment)

    def next(self, seconds=PATIENCE):
        """The next event, or None when none comes in time."""
        line = self.line(seconds)
        return None if line is None else json.loads(line)

    def close(self):
        self.process.terminate()
        self.process.wait()
        self.process.stdout.close()
