"""A peer's mount as the rows see it: files that rows share, empty caches, and the clock."""

import ctypes
import os
import shutil
import time

from .processes import Failed, run

libc = ctypes.CDLL(None, use_errno=True)


def write_out(path):
    """Writes out the dirty pages of one file system; sync(2) would wait for those of the whole machine."""
    handle = os.open(path, os.O_RDONLY)
    try:
        if libc.syncfs(handle) != 0:
            raise OSError(ctypes.get_errno(), "syncfs")
    finally:
        os.close(handle)


class Site:
    """What a row gets."""

    def __init__(self, peer, fixtures, options):
        self.peer = peer
        self.fixtures = fixtures
        self.options = options
        self.used = None

    def path(self, name):
        return os.path.join(self.peer.point, name)

    def write_out(self):
        write_out(self.peer.point)

    def cold(self, name=""):
        """Empties what the kernel has cached of the mount, and of its store."""
        self.write_out()
        write_out(self.peer.below)
        try:
            self.options.identity.drop_caches()
        except OSError:
            # Without root only the contents can go.
            for base, _, names in os.walk(self.path(name)):
                for one in names:
                    handle = os.open(os.path.join(base, one), os.O_RDONLY)
                    os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
                    os.close(handle)

    def clear(self, name):
        """Removes what an earlier round or a failed row has left."""
        path = self.path(name)
        if os.path.isdir(path):
            shutil.rmtree(path)
        elif os.path.exists(path):
            os.unlink(path)

    def count_processor(self, body):
        """Runs the body; the daemon's processor time includes what is written out after it."""
        self.write_out()
        before = self.peer.seconds()
        value = body()
        self.write_out()
        if before is not None:
            self.used = self.peer.seconds() - before
        return value

    def timed(self, body, amount, scale, size=None):
        """The result of a row that does `amount` things, or `size` bytes, in the body."""
        def act():
            start = time.monotonic()
            body()
            return time.monotonic() - start

        taken = self.count_processor(act)
        return self.result(amount / taken / scale, taken, size)

    def for_a_time(self, step, scale, size, end=None):
        """The result of a row that repeats a step for the time that the options give; `end` counts too."""
        count = 0

        def act():
            nonlocal count
            start = time.monotonic()
            while time.monotonic() - start < self.options.seconds:
                step(count)
                count += 1
            if end:
                end()
            return time.monotonic() - start

        taken = self.count_processor(act)
        return self.result(count / taken / scale, taken, size(count) if size else None)

    def result(self, rate, taken, size=None):
        found = {"rate": rate, "seconds": taken}
        if self.used is not None:
            found["cpuSeconds"] = self.used
            if size:
                found["cpuSecondsPerGiB"] = self.used / (size / 2**30)
        if size:
            found["bytes"] = size
        return found

    def large(self):
        """The large file that the rows about data share; made here if the row that writes it has not run."""
        path, size = self.path("bench"), self.options.size << 20
        if not os.path.exists(path) or os.path.getsize(path) != size:
            chunk = os.urandom(1 << 20)
            with open(path, "wb") as file:
                for _ in range(self.options.size):
                    file.write(chunk)
                os.fsync(file.fileno())
        return path

    def tree(self):
        """The unpacked archive; the row "untar" leaves it, too."""
        path, done = self.path("tree"), self.path("tree.done")
        if not os.path.exists(done):
            self.clear("tree")
            self.unpack()
        return path

    def unpack(self):
        os.mkdir(self.path("tree"))
        run("tar", "xf", self.fixtures.archive(), "-C", self.path("tree"))
        with open(self.path("tree.done"), "wb"):
            pass

    def many(self):
        """Very many empty files, 1,000 in each directory; they stay for all rounds."""
        path, done = self.path("many"), self.path("many.done")
        if not os.path.exists(done):
            self.clear("many")
            os.mkdir(path)
            for number in range(self.options.many):
                directory = os.path.join(path, f"d{number // 1000}")
                if number % 1000 == 0:
                    os.mkdir(directory)
                os.close(os.open(os.path.join(directory, f"f{number}"), os.O_WRONLY | os.O_CREAT, 0o600))
            with open(done, "wb"):
                pass
        return path

    def clone(self):
        """A clone of the repository; the row "clone" makes it anew."""
        path = self.path("clone")
        if not os.path.exists(self.path("clone.done")):
            self.clear("clone")
            self.make_clone()
        return path

    def make_clone(self):
        run("git", "clone", "-q", "--no-local", self.fixtures.repository(), self.path("clone"))
        with open(self.path("clone.done"), "wb"):
            pass

    def forget(self, name):
        """Removes a shared fixture with its mark, the mark first."""
        self.clear(name + ".done")
        self.clear(name)

    def need(self, *programs):
        for program in programs:
            if not shutil.which(program):
                raise Failed(f"{program} is not installed")
