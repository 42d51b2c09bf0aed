"""A disk that can lose power, fail or hang: an image in memory that this module serves over FUSE, under a loop device.

Linux has a module for this (dm-log-writes, dm-flakey), but needs the device mapper for it. A copy of a loop device's file
under load is no point in time, and a reflink copy is one, but of a disk without a write cache, which is the kind one. Here
the file below the loop device is served by a process of ours, one request after another: every write of the block layer
is one WRITE, every flush of the disk's cache is one FSYNC. So at any moment it is known what was flushed, and a cut keeps
that, and of the writes since then any subset of their 4 KiB blocks, the newest of each block included or not: what a disk
with a volatile cache may keep. (A write that is under way while a flush is asked for counts as flushed when it came
first.) After the cut, nothing that the file system or the daemon still writes arrives.
"""

import ctypes
import errno
import os
import random
import select
import signal
import socket
import struct
import time

import harness

BLOCK = 4096
LARGEST = 1 << 20
libc = ctypes.CDLL(None, use_errno=True)
IN, OUT = struct.Struct("<IIQQIIIHH"), struct.Struct("<IiQ")
FORGET, GETATTR, SETATTR, OPEN, READ, WRITE, STATFS, RELEASE, FSYNC, FLUSH, INIT = 2, 3, 4, 14, 15, 16, 17, 18, 20, 25, 26
INTERRUPT, DESTROY, FALLOCATE, BATCH_FORGET = 36, 38, 43, 42


class Server:
    """The image's own process: answers the kernel, and obeys a socket."""

    def __init__(self, device, control, image, size):
        self.device, self.control, self.image, self.size = device, control, image, size
        self.unflushed = []  # (offset, before, after), oldest first
        self.failing = {}  # "read", "write", "fsync" → errno
        self.is_hung = self.is_cut = False
        self.counts = {"read": 0, "write": 0, "fsync": 0, "unflushed": 0}

    def serve(self):
        buffer = memoryview(bytearray(LARGEST + 8192))
        while True:
            wanted = [self.control] if self.is_hung else [self.control, self.device]
            ready = select.select(wanted, [], [])[0]
            if self.control in ready and not self.obey():
                return
            if self.device in ready and not self.is_hung:
                try:
                    length = os.readv(self.device, [buffer])
                except OSError as error:
                    if error.errno == errno.ENODEV:
                        return
                    continue
                self.answer(buffer[:length])

    def obey(self):
        """One order of the test; false where there will be no more."""
        words = self.control.recv(4096).decode().split()
        if not words or words[0] == "stop":
            return False
        if words[0] == "fail":
            self.failing = {kind: int(words[1]) for kind in words[2:]}
        elif words[0] == "hang":
            self.is_hung = True
        elif words[0] == "resume":
            self.is_hung = False
        elif words[0] == "cut":
            self.cut(random.Random(words[1]))
        self.counts["unflushed"] = len(self.unflushed)
        self.control.send(" ".join(f"{key}={value}" for key, value in self.counts.items()).encode())
        return True

    def cut(self, choice):
        self.is_cut = True
        for offset, before, _ in reversed(self.unflushed):
            os.pwrite(self.image, before, offset)
        kept = choice.choice([0, 0.1, 0.5, 0.9, 1])
        for offset, _, after in self.unflushed:
            at = offset
            while at < offset + len(after):
                end = min((at // BLOCK + 1) * BLOCK, offset + len(after))
                if choice.random() < kept:
                    os.pwrite(self.image, after[at - offset:end - offset], at)
                at = end

    def answer(self, request):
        _, code, unique, _, _, _, _, _, _ = IN.unpack_from(request)
        if code in (FORGET, BATCH_FORGET, INTERRUPT):
            return
        try:
            body = self.act(code, request[IN.size:])
            head = OUT.pack(OUT.size + len(body), 0, unique)
        except OSError as error:
            head, body = OUT.pack(OUT.size, -error.errno, unique), b""
        try:
            os.writev(self.device, [head, body] if body else [head])
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENODEV):
                raise

    def act(self, code, body):
        if code == INIT:
            flags = struct.unpack_from("<IIII", body)[3] & (1 << 0 | 1 << 5 | 1 << 22)
            return struct.pack("<IIIIHHIIHHI28x", 7, 31, 1 << 17, flags, 64, 48, LARGEST, 1, LARGEST // 4096, 0, 0)
        if code in (GETATTR, SETATTR):
            return struct.pack("<QII6Q10I", 1, 0, 0, 1, self.size, self.size // 512, 0, 0, 0, 0, 0, 0,
                               0o100600, 1, 0, 0, 0, 4096, 0)
        if code == OPEN:
            return struct.pack("<QIi", 0, 1, 0)  # direct: every call comes here
        if code == STATFS:
            return struct.pack("<5Q3I4x24x", 1 << 30, 1 << 30, 1 << 30, 1, 1, 4096, 255, 4096)
        if code == READ:
            self.judge("read")
            _, offset, size = struct.unpack_from("<QQI", body)
            return os.pread(self.image, min(size, max(0, self.size - offset)), offset)
        if code == WRITE:
            self.judge("write")
            _, offset, size = struct.unpack_from("<QQI", body)
            after = bytes(body[40:40 + size])
            self.unflushed.append((offset, os.pread(self.image, size, offset), after))
            os.pwrite(self.image, after, offset)
            return struct.pack("<II", size, 0)
        if code == FSYNC:
            self.judge("fsync")
            self.unflushed = []
            return b""
        if code in (RELEASE, FLUSH, DESTROY):
            return b""
        raise OSError(errno.EOPNOTSUPP if code == FALLOCATE else errno.ENOSYS, "")

    def judge(self, kind):
        self.counts[kind] += 1
        if self.is_cut:
            raise OSError(errno.EIO, "")
        if kind in self.failing:
            raise OSError(self.failing[kind], "")


class Disk:
    """A loop device over such an image; `place` is a file of its own, which becomes the mount point of the image."""

    def __init__(self, image, place):
        self.image, self.place = image, place
        size = os.fstat(image).st_size
        with open(place, "wb"):
            pass
        device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
        options = f"fd={device},rootmode=100000,user_id=0,group_id=0,max_read={LARGEST}".encode()
        if libc.mount(b"image", place.encode(), b"fuse.image", 0, options) != 0:
            raise harness.Skip(f"an image cannot be mounted here: {os.strerror(ctypes.get_errno())}")
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.server = os.fork()
        if self.server == 0:
            try:
                signal.signal(signal.SIGINT, signal.SIG_IGN)
                self.control.close()
                libc.mlockall(1)
                Server(device, theirs, image, size).serve()
            finally:
                os._exit(0)
        theirs.close()
        os.close(device)
        self.control.settimeout(60)
        done = harness.run("losetup", "--show", "--find", place, ok=False)
        if done.returncode != 0:
            self.end()
            raise harness.Skip(f"no loop device: {done.stderr.strip()}")
        self.loop = done.stdout.strip()

    def order(self, *words):
        """Tells the server; gives its counts."""
        self.control.send(" ".join(map(str, words)).encode())
        return {key: int(value) for key, value in (word.split("=") for word in self.control.recv(4096).decode().split())}

    def end(self):
        """Takes all of it away; the image stays with the caller. What was mounted from it must be unmounted."""
        loop = getattr(self, "loop", None)
        if loop:
            harness.run("losetup", "-d", loop, ok=False)
            name = f"/sys/block/{os.path.basename(loop)}/loop"
            harness.wait_until(lambda: not self.is_ours(name), what=f"{loop} being free")
        try:
            self.control.send(b"stop")
        except OSError:
            pass
        os.waitpid(self.server, 0)
        self.control.close()
        harness.detach(self.place)

    def is_ours(self, name):
        try:
            with open(name + "/backing_file", encoding="utf-8") as file:
                return file.read().strip() == self.place
        except OSError:
            return False


SIZES = {"ext4": 128 << 20, "xfs": 300 << 20, "btrfs": 192 << 20}
# Small ext4 file systems get blocks of 1 KiB otherwise, and pages of 4 KiB would be torn: the format says that they are not.
MAKERS = {"ext4": ["mkfs.ext4", "-q", "-F", "-b", "4096", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0"],
          "xfs": ["mkfs.xfs", "-q", "-f", "-K"], "btrfs": ["mkfs.btrfs", "-q", "-f", "-K", "-m", "single"]}


def make_image(kind, path, size=None, extra=()):
    """An empty file system in a file."""
    with open(path, "wb") as file:
        file.truncate(size or SIZES[kind])
    try:
        harness.run(*MAKERS[kind], *extra, path)
    except FileNotFoundError as error:
        raise harness.Skip(f"{MAKERS[kind][0]} is not installed") from error


def load_image(path):
    """The file's content in memory, as a descriptor; holes stay holes."""
    image = os.memfd_create("image", os.MFD_CLOEXEC)
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        os.ftruncate(image, size)
        at = 0
        while at < size:
            try:
                start = os.lseek(file.fileno(), at, os.SEEK_DATA)
            except OSError:
                break
            at = os.lseek(file.fileno(), start, os.SEEK_HOLE)
            for place in range(start, at, LARGEST):
                os.pwrite(image, os.pread(file.fileno(), min(LARGEST, at - place), place), place)
    return image


def mount_disk(kind, source, place, options=""):
    """Mounts a file system; skips where the kernel lacks it."""
    os.makedirs(place, exist_ok=True)
    if kind == "btrfs" and not options:
        # Linux 6.18 sometimes fails to replay Btrfs's log of fsyncs after a cut (a kernel BUG, fs/super.c:1851), and shows
        # a file under both names after a rename into another directory. Without the log every fsync is a commit.
        options = "notreelog"
    try:
        harness.run("mount", "-t", kind, *(["-o", options] if options else []), source, place)
    except harness.CommandFailed as error:
        if "unknown filesystem" in str(error):
            raise harness.Skip(f"this kernel has no {kind}") from None
        raise


def unmount_disk(place, seconds=harness.PATIENCE):
    """Unmounts what nobody uses any more."""
    end = time.monotonic() + seconds
    while True:
        try:
            harness.run("umount", place)
            return
        except harness.CommandFailed as error:
            if "not mounted" in str(error):
                return
            if time.monotonic() > end:
                raise
        time.sleep(0.05)
