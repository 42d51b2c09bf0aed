"""A store that is frozen while the volume is locked: acknowledged writes reach it after the keys are gone."""

import contextlib
import errno
import json
import os
import shutil
import signal
import socket
import subprocess
import threading

import device
import harness
from harness import PAGE, PATIENCE


@contextlib.contextmanager
def freezing(place):
    """With the file system frozen; a watchdog thaws it whatever becomes of the test, as it would stop every sync here."""
    harness.sync(place)
    done = harness.run("fsfreeze", "-f", place, ok=False, timeout=None)
    if done.returncode != 0:
        raise harness.Skip(f"a file system cannot be frozen here: {done.stderr.strip()}")
    words = ["sh", "-c", f"sleep {2 * PATIENCE}; fsfreeze -u {place}"]
    watchdog = subprocess.Popen(words, start_new_session=True, stdin=subprocess.DEVNULL)
    thawed = []

    def thaw():
        if not thawed:
            # It fails where the watchdog came first: then something had hung, which is another failure.
            harness.run("fsfreeze", "-u", place, ok=False)
            thawed.append(True)
    try:
        yield thaw
    finally:
        os.killpg(watchdog.pid, signal.SIGKILL)
        watchdog.wait()
        thaw()


class LoopStore:
    """A volume on a file system of its own in a file, which can be frozen; device key and state file are elsewhere."""

    def __init__(self, environment, kind="ext4", size=2 << 30, parent=None):
        if os.geteuid() != 0:
            raise harness.Skip("loop devices need root")
        self.image, self.backing = environment.new_path("image"), environment.new_path("backing")
        if parent:
            self.image = os.path.join(parent, f"protectfs-image-{os.getpid()}")
        device.make_image(kind, self.image, size)
        device.mount_disk(kind, self.image, self.backing, "loop")
        host = environment.volume()
        shutil.copytree(host.path, self.backing + "/volume", symlinks=True)
        self.volume = harness.Volume(self.backing + "/volume", host.data, host.code_file, host.passphrase_file)

    def close(self):
        """What was mounted from it must be unmounted."""
        device.unmount_disk(self.backing)
        os.unlink(self.image)


class Holder:
    """A program in a process of its own that has a file open: in nobody else's hands, as each fork's close flushes it."""

    def __init__(self, path):
        self.orders, theirs = socket.socketpair()
        self.pid = os.fork()
        if self.pid == 0:
            with contextlib.suppress(BaseException):
                signal.signal(signal.SIGINT, signal.SIG_IGN)
                self.orders.close()
                self.serve(theirs, os.open(path, os.O_RDWR))
            os._exit(0)
        theirs.close()
        self.orders.settimeout(2 * PATIENCE)
        assert self.ask("ready") == "works"

    @staticmethod
    def serve(orders, handle):
        acts = {"ready": lambda: None, "fsync": lambda: os.fsync(handle),
                "write": lambda offset, length, seed: write_whole(handle, harness.pattern(length, seed), offset)}
        while True:
            words = json.loads(orders.recv(4096) or b"null")
            if words is None:
                return
            if words[0] == "count":
                answer = count_right(handle, *words[1:])
            else:
                answer = harness.outcome(acts[words[0]], *words[1:])
            orders.send(json.dumps(answer).encode())

    def ask(self, *words):
        """Gives an order; its outcome."""
        self.begin(*words)
        return self.outcome()

    def begin(self, *words):
        self.orders.send(json.dumps(words).encode())

    def outcome(self):
        answer = self.orders.recv(4096)
        assert answer, "the program that holds the file has ended"
        return json.loads(answer)

    def close(self):
        """Ends the program, and so closes the file."""
        self.orders.close()
        if self.pid:
            os.waitpid(self.pid, 0)
            self.pid = 0


def write_whole(handle, content, offset):
    """In one call, as what a second one would find is not what the first one found."""
    count = os.pwrite(handle, content, offset)
    if count != len(content):
        raise OSError(errno.EIO, f"only {count} bytes were written")


def count_right(handle, length, seed):
    """How many pages of the pattern can be read: a number, or an errno's name."""
    wanted = harness.pattern(length, seed)
    try:
        found = os.pread(handle, length, 0)
    except OSError as error:
        return errno.errorcode[error.errno]
    return sum(found[at:at + PAGE] == wanted[at:at + PAGE] for at in range(0, length, PAGE))


def count_in(path, length, seed):
    """The same of a file that is opened for it."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError as error:
        return errno.errorcode[error.errno]
    try:
        return count_right(handle, length, seed)
    finally:
        os.close(handle)


class Case:
    """One file that becomes class A while its pages are dirty, the store frozen and the volume about to be locked."""

    LENGTH = 4 << 20
    PAGES = LENGTH // PAGE

    def __init__(self, mount, backing, kind, seed):
        self.mount, self.backing, self.kind, self.seed = mount, backing, kind, seed
        self.path = mount / f"{kind} file"
        harness.write_file(self.path, harness.pattern(PAGE, seed=999))
        self.sync(self.path)
        if kind == "rename":
            self.target = self.path + " target"
            harness.write_file(self.target, harness.pattern(PAGE, seed=998))
            harness.set_class(self.target, "A")
            self.sync(self.target)
        if kind == "linked":
            os.link(self.path, self.path + " second")
        self.holder = Holder(self.path)
        if kind == "unlinked":
            os.unlink(self.path)
        # So nothing but the pages that are written now waits for the store.
        directory = os.open(mount.path, os.O_RDONLY)
        os.fsync(directory)
        os.close(directory)

    @staticmethod
    def sync(path):
        handle = os.open(path, os.O_RDWR)
        os.fsync(handle)
        os.close(handle)

    def protect(self):
        """What makes it class A; it comes to its end once the store does."""
        if self.kind == "rename":
            os.rename(self.path, self.target)
        elif self.kind == "unlinked":
            # Through the program's own descriptor, as it has no name any more.
            harness.set_class(f"/proc/{self.holder.pid}/fd/{self.descriptor()}", "A")
        else:
            harness.set_class(self.path, "A")

    def descriptor(self):
        directory = f"/proc/{self.holder.pid}/fd"
        return next(number for number in os.listdir(directory)
                    if os.readlink(f"{directory}/{number}").startswith(self.path))

    def lock(self):
        """Writes, changes the class and locks with the store frozen, then thaws it; gives what each call said."""
        said = {}
        with freezing(self.backing) as thaw:
            said["write"] = self.holder.ask("write", 0, self.LENGTH, self.seed)
            thread = threading.Thread(target=lambda: said.update({self.kind: harness.outcome(self.protect)}))
            thread.start()
            # The change has to be under way when the lock begins; where it is not, it is refused, and seen below.
            thread.join(0.5)
            locking = subprocess.Popen([harness.binary(), "lock", self.mount.path], stdin=subprocess.DEVNULL,
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=self.mount.volume.environment)
            with contextlib.suppress(subprocess.TimeoutExpired):
                locking.wait(PATIENCE / 4)
            said["ended while frozen"] = locking.poll() is not None
            thaw()
            locking.communicate(timeout=PATIENCE)
            said["lock"] = locking.returncode
            thread.join(PATIENCE)
        return said

    def finish_sweeping(self):
        harness.wait_until(lambda: self.mount.state() == "locked", what="the state locked")

    @staticmethod
    def name_of(mount, kind):
        """Where a case's file is found once it is class A, if the file of a case is called as its kind is."""
        return mount / (f"{kind} file" + {"rename": " target", "linked": " second"}.get(kind, ""))

    def count(self):
        """How many of the pages are there, by the name that the file has now or by the handle."""
        if self.kind == "unlinked":
            return self.holder.ask("count", self.LENGTH, self.seed)
        return count_in(self.name_of(self.mount, self.kind), self.LENGTH, self.seed)
