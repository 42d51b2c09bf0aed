"""A whole Debian system in a container, with systemd, logind and user managers: booted, used, rebooted and thrown away.

debootstrap(8) makes the system once, below .build; each bed is an overlay over it. systemd-nspawn(1) boots it, and nsenter(1) runs
commands in it. The bed has no network.
"""

import os
import shutil
import signal
import subprocess
import tempfile
import time

REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MIRROR = "http://deb.debian.org/debian"
# What the package depends on is there, so that it can be installed without a network.
PACKAGES = ("systemd,systemd-sysv,dbus,libpam-systemd,polkitd,fuse3,attr,procps,libsodium23,libzxcvbn0,libstdc++6,"
            "openssh-server,openssh-client,libpam-mount,pamtester")
# The last two are for a package that mount-scripts/release --draft has made on this release.
OF_RELEASE = {"bookworm": ",libssl3,libfuse3-3,libipsec-mb1", "trixie": ",libssl3t64,libfuse3-4,libipsec-mb2"}
BOOT_TIME = 120


class CannotRun(Exception):
    """A bed cannot be made on this machine; the text says why."""


def capable():
    """Raises CannotRun if this machine cannot run a bed."""
    if os.geteuid() != 0:
        raise CannotRun("only root can start the container")
    for program in ("debootstrap", "systemd-nspawn", "nsenter"):
        if shutil.which(program) is None:
            raise CannotRun(f"{program} is not installed")
    for device in ("/dev/fuse", "/dev/autofs"):
        if not os.path.exists(device):
            raise CannotRun(f"{device} is missing")


def base_system(release):
    """The directory of a release's system that all beds of it share; it is made if it is not there."""
    place = os.path.join(REPOSITORY, ".build", "system")
    base, making = os.path.join(place, release), os.path.join(place, "making")
    made = os.path.join(base, "made-with")
    words = PACKAGES + OF_RELEASE[release]
    if os.uname().machine != "x86_64":
        words = words.rpartition(",libipsec-mb")[0]
    if os.path.exists(made):
        with open(made, encoding="ascii") as file:
            if file.read() == words:
                return base
    for old in (base, making):
        shutil.rmtree(old, ignore_errors=True)
    os.makedirs(place, exist_ok=True)
    done = subprocess.run(["debootstrap", "--variant=minbase", "--include=" + words, release, making, MIRROR],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    if done.returncode != 0:
        shutil.rmtree(making, ignore_errors=True)
        raise CannotRun("debootstrap could not make a Debian system: " + "\n".join(done.stdout.splitlines()[-3:]))
    shutil.rmtree(os.path.join(making, "var", "cache", "apt"), ignore_errors=True)
    with open(os.path.join(making, "made-with"), "w", encoding="ascii") as file:
        file.write(words)
    os.rename(making, base)
    return base


class Bed:
    """A running system. Use it in a `with` statement."""

    def __init__(self, release):
        self.base = base_system(release)
        self.place = tempfile.mkdtemp(prefix="protectfs-bed-")
        self.root = os.path.join(self.place, "root")
        self.process = None

    def __enter__(self):
        subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "bed", self.place], check=True)
        for name in ("root", "upper", "work"):
            os.mkdir(os.path.join(self.place, name))
        # As udev makes it on a desktop: every user may open it.
        os.mknod(os.path.join(self.place, "fuse"), 0o600 | 0o020000, os.makedev(10, 229))
        os.chmod(os.path.join(self.place, "fuse"), 0o666)
        subprocess.run(["mount", "-t", "overlay", "-o", f"lowerdir={self.base},upperdir={self.place}/upper,"
                        f"workdir={self.place}/work", "overlay", self.root], check=True)
        try:
            self.boot()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.halt()
        for place in (self.root, self.place):
            subprocess.run(["umount", "-l", place], check=False)
        os.rmdir(self.place)

    def boot(self):
        """Starts the system, and returns when systemd says that it has started."""
        self.process = subprocess.Popen(
            ["systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "--boot", "--directory=" + self.root, "--machine=bed",
             f"--bind={self.place}/fuse:/dev/fuse", "--bind=/dev/autofs", "--capability=all", "--private-network",
             "--console=pipe"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        end = time.monotonic() + BOOT_TIME
        while time.monotonic() < end:
            if self.process.poll() is not None:
                said = self.process.stdout.read().decode(errors="replace")
                raise CannotRun("the container did not start: " + " ".join(said.split())[-300:])
            if self.leader() and self.run("systemctl is-system-running --wait", ok=False)[1].strip() in ("running", "degraded"):
                return
            time.sleep(0.2)
        raise CannotRun(f"the container has not booted in {BOOT_TIME} s")

    def leader(self):
        """The process that is systemd in the container; None before it runs."""
        try:
            with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children", encoding="ascii") as file:
                for word in file.read().split():
                    with open(f"/proc/{word}/comm", encoding="ascii") as name:
                        if name.read().strip() == "systemd":
                            return word
        except OSError:
            pass
        return None

    def halt(self):
        """Shuts the system down as a machine is shut down; kills it if that takes longer than two minutes."""
        if self.process is None or self.process.poll() is not None:
            return
        leader = self.leader()
        if leader:
            os.kill(int(leader), signal.SIGRTMIN + 4)
        try:
            self.process.wait(120)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def reboot(self):
        """Shuts the system down and boots it again. Returns the seconds of the shutdown."""
        started = time.monotonic()
        self.halt()
        seconds = time.monotonic() - started
        self.boot()
        return seconds

    def run(self, script, user=None, ok=True, limit=120):
        """Runs a shell script as root, or in a login session of a user. Returns (exit code, output); raises if `ok` and it fails."""
        words = ["nsenter", "--target", self.leader(), "--all", "--"]
        words += ["su", "-", user, "-c", script] if user else ["sh", "-c", script]
        done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace", timeout=limit, cwd="/",
                              env={"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"})
        if ok and done.returncode != 0:
            raise AssertionError(f"exit code {done.returncode} of: {script}\n{done.stdout}")
        return done.returncode, done.stdout

    def write(self, path, text, mode=0o644):
        """Writes a file of the system."""
        place = self.root + path
        os.makedirs(os.path.dirname(place), exist_ok=True)
        with open(place, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(place, mode)

    def wait(self, script, what, user=None, limit=180):
        """Waits until a script succeeds."""
        end = time.monotonic() + limit
        while self.run(script, user=user, ok=False)[0] != 0:
            if time.monotonic() > end:
                raise AssertionError(f"{what} did not come in {limit} s")
            time.sleep(0.2)


def fstab(bed, *lines):
    """Gives the system these lines of fstab, and no others."""
    bed.write("/etc/fstab", "".join(line + "\n" for line in lines))
    bed.run("systemctl daemon-reload")


def daemon(bed, point):
    """The process ID of a mount's daemon."""
    return bed.run(f"protectfs status --json {point} | sed 's/.*\"pid\":\\([0-9]*\\).*/\\1/'")[1].strip()


def is_gone(bed, process):
    """Whether a process has ended."""
    return bed.run(f"test -e /proc/{process}/exe", ok=False)[0] != 0
