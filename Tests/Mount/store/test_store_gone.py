"""Stores that disappear: deleted files, an unmounted directory, a disk that hangs, no descriptors, no memory."""

import contextlib
import errno
import os
import resource
import select
import signal
import subprocess
import time

import cgroups
import harness
import reader
from stores import save, store

CONTENT = harness.pattern(300_000)


def test_deleted_underneath(environment):
    """A file, and a directory, are removed from the store under the mount."""
    mount = environment.mount()
    for name in ("gone", "open", "kept"):
        assert save(mount / name, CONTENT) == "works"
    os.mkdir(mount / "directory")
    assert save(mount / "directory/inside", CONTENT) == "works"
    reader.load()
    paths = reader.unlock(mount.volume)
    handle = os.open(mount / "open", os.O_RDWR)
    for name in ("gone", "open", "directory/inside"):
        os.unlink(paths.backing_path(name))
    below = paths.backing_path("directory")
    for name in os.listdir(below):
        os.unlink(os.path.join(below, name))
    os.rmdir(below)
    environment.cell("open of what is gone", "ENOENT", harness.outcome(harness.read_file, mount / "gone"))
    environment.cell("a handle from before reads", True, os.pread(handle, 300_000, 0) == CONTENT)
    environment.cell("a handle from before writes", "works", harness.outcome(os.pwrite, handle, b"x", 0))
    environment.cell("and syncs", "works", harness.outcome(os.fsync, handle))
    os.close(handle)
    environment.cell("in a directory that is gone", "ENOENT",
                     harness.outcome(harness.read_file, mount / "directory/inside"))
    environment.cell("a new file there", "ENOENT",
                     harness.outcome(harness.write_file, mount / "directory/new", b"x"))
    environment.cell("removing it", "ENOENT", harness.outcome(os.unlink, mount / "gone"))
    environment.cell("the other file", True, harness.read_file(mount / "kept") == CONTENT)
    environment.cell("the name is free", "works", save(mount / "gone", b"new"))
    mount = environment.remount(mount)
    environment.cell("what is left", ["gone", "kept"], sorted(os.listdir(mount.path)))


def test_unmounted_underneath(environment):
    """The file system of the volume is detached from the tree: the mount holds it, and goes on until it is unmounted."""
    with store(environment) as below:
        mount = below.mount()
        assert save(mount / "file", CONTENT) == "works"
        harness.run("umount", "-l", below.backing)
        environment.cell("the path is gone", False, os.path.exists(below.volume.path))
        environment.cell("reading", True, harness.read_file(mount / "file") == CONTENT)
        environment.cell("writing", "works", save(mount / "new", CONTENT))
        environment.cell("lock", 0, mount.lock().returncode)
        environment.cell("status", "locked", mount.state())
        mount.unlock()
        environment.cell("status after unlock", "unlocked", mount.state())
        mount.unmount()
        below.detach()
        below.attach()
        mount = below.mount()
        environment.cell("everything is there", True,
                         all(harness.read_file(mount / name) == CONTENT for name in ("file", "new")))
        mount.unmount()
        below.check("detached")


class Program:
    """A program that has a file open: nobody else may hold the handle, as even closing it waits for what it wrote."""

    def __init__(self, path):
        self.go_read, self.go = os.pipe()
        self.said, said = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                handle = os.open(path, os.O_RDWR)
                os.pread(handle, 300_000, 0)
                os.write(said, b"ready;")
                os.read(self.go_read, 1)
                os.pwrite(handle, b"while it hung", 1000)
                os.write(said, os.pread(handle, 13, 1000) + b";")
                os.write(said, harness.outcome(os.fsync, handle).encode() + b";")
                os.close(handle)
            finally:
                os._exit(0)
        os.close(said)

    def next(self, seconds):
        """What it says next, or "hangs"."""
        if not select.select([self.said], [], [], seconds)[0]:
            return "hangs"
        text = b""
        while not text.endswith(b";"):
            part = os.read(self.said, 1)
            if not part:
                return "ended"
            text += part
        return text[:-1].decode()


def hanging(environment, below, label, hang, resume):
    """A store that hangs: what needs it waits, the rest goes on, lock works; afterwards nothing is lost."""
    mount = below.mount()
    assert save(mount / "file", CONTENT) == "works"
    assert save(mount / "closed", CONTENT) == "works"
    harness.set_class(mount / "closed", "A")
    program = Program(mount / "file")
    assert program.next(harness.PATIENCE) == "ready"
    harness.sync(below.backing)
    hang()
    # Whatever becomes of the test: a file system that stays frozen would stop every sync of the machine.
    watchdog = subprocess.Popen(["sh", "-c", f"sleep {2 * harness.PATIENCE}; fsfreeze -u {below.backing}"], start_new_session=True)
    try:
        os.write(program.go, b"!")
        environment.cell(f"{label}: what is cached is read", "while it hung", program.next(harness.PATIENCE))
        environment.cell(f"{label}: fsync waits", "hangs", program.next(1))
        environment.cell(f"{label}: status", "unlocked", mount.status()["state"])
        done = mount.command("lock", mount.path, ok=False)
        environment.cell(f"{label}: lock", 0, done.returncode)
        environment.cell(f"{label}: state", "locked", mount.status()["state"])
        environment.cell(f"{label}: class A is closed", "EACCES",
                         harness.in_child(lambda: harness.read_file(mount / "closed"), seconds=60))
    finally:
        resume()
        os.killpg(watchdog.pid, signal.SIGKILL)
        watchdog.wait()
    environment.cell(f"{label}: fsync goes on", "works", program.next(harness.PATIENCE))
    os.waitpid(program.pid, 0)
    mount.unlock()
    environment.cell(f"{label}: what was written", b"while it hung", harness.read_file(mount / "file")[1000:1013])
    environment.cell(f"{label}: class A again", True, harness.read_file(mount / "closed") == CONTENT)
    mount.unmount()
    below.check(label)


def test_hanging_store(environment):
    """A frozen file system, and a disk that does not answer."""
    with store(environment) as below:
        hanging(environment, below, "frozen", lambda: harness.run("fsfreeze", "-f", below.backing, timeout=None),
                lambda: harness.run("fsfreeze", "-u", below.backing))
    with store(environment) as below:
        hanging(environment, below, "hung disk", lambda: below.disk.order("hang"), lambda: below.disk.order("resume"))


test_hanging_store.time_limit = 600


def test_fsync_beside_another(environment):
    """What an fsync under way has not made durable yet, another one does not call durable either."""
    def start(path):
        said, end = os.pipe()
        if os.fork() == 0:
            handle = os.open(path, os.O_RDONLY)
            os.write(end, harness.outcome(os.fsync, handle).encode())
            os._exit(0)
        os.close(end)
        return said

    # Without barriers and times, or the disk would be asked for the file as well.
    with store(environment, options="nobarrier,noatime") as below:
        mount = below.mount()
        assert save(mount / "file", CONTENT) == "works"
        handle = os.open(mount.path, os.O_RDONLY)
        os.fsync(handle)
        os.close(handle)
        harness.sync(below.backing)
        os.mkdir(mount / "directory")
        below.disk.order("hang")
        try:
            first = start(mount.path)
            environment.cell("the first waits", [], select.select([first], [], [], 1)[0])
            # The file has nothing to be written, but the record made beside it is promised too.
            second = start(mount / "file")
            environment.cell("the second waits as well", [], select.select([second], [], [], 1)[0])
        finally:
            below.disk.order("resume")
        environment.cell("both come to their end", [b"works"] * 2, [os.read(said, 100) for said in (first, second)])
        for _ in range(2):
            os.wait()


def test_few_descriptors(environment):
    """The daemon runs out of descriptors: the errno says so, and it goes on when there are some again."""
    limit = 100
    mount = environment.mount(ok=False, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit)))
    environment.cell("mount with few descriptors", (0, ""), (mount.result.returncode, mount.result.stderr))
    for number in range(2 * limit):
        assert save(mount / f"file {number}", b"%d" % number) == "works"
    os.makedirs(mount / "deep/er/and/deeper")
    handles, answers = [], set()
    for number in range(2 * limit):
        try:
            handles.append(os.open(mount / f"file {number}", os.O_RDWR))
        except OSError as error:
            answers.add(errno.errorcode[error.errno])
    environment.cell("opening more than there are descriptors for", {"ENFILE"}, answers)
    environment.cell("many could be opened", True, len(handles) > limit // 4)
    environment.cell("creating", "ENFILE", harness.outcome(harness.write_file, mount / "new", b"x"))
    environment.cell("nothing is left of it", False, os.path.exists(mount / "new"))
    environment.cell("what is open is read", True,
                     all(os.pread(handle, 10, 0) == b"%d" % number for number, handle in enumerate(handles)))
    environment.cell("what is open is written", "works", harness.outcome(os.pwrite, handles[0], b"0", 0))
    environment.cell("and synced", "works", harness.outcome(os.fsync, handles[0]))
    environment.cell("stat", "works", harness.outcome(os.stat, mount / "deep/er/and/deeper"))
    environment.cell("a listing", "works", harness.outcome(os.listdir, mount.path))
    for handle in handles:
        os.close(handle)
    # The daemon hears of a close after close(2) has returned.
    harness.wait_until(lambda: not any(mount.status()["openHandles"].values()), what="closed handles")
    environment.cell("everything again", True,
                     all(harness.read_file(mount / f"file {number}") == b"%d" % number for number in range(2 * limit)))
    environment.cell("creating again", "works", save(mount / "new", b"x"))
    environment.cell("lock and unlock", "unlocked", (mount.lock(), mount.unlock(), mount.state())[2])
    mount.unmount()


def test_out_of_memory(environment):
    """The OOM killer takes the daemon: like kill -9, and nothing synced is lost."""
    with cgroups.group("memory", "memory.limit_in_bytes") as group:
        mount = environment.mount()
        assert save(mount / "synced", CONTENT) == "works"
        pid = mount.pid
        group.write("cgroup.procs", pid)
        group.write("memory.limit_in_bytes", 2 << 20)
        children = []
        for number in range(8):
            child = os.fork()
            if child == 0:
                with contextlib.suppress(OSError):
                    for turn in range(3000):
                        os.mkdir(mount / f"{number} {turn}")
                        harness.write_file(mount / f"{number} {turn}/file", CONTENT)
                os._exit(0)
            children.append(child)
        end = time.monotonic() + 60
        while harness.daemons(mount.path) and time.monotonic() < end:
            time.sleep(0.05)
        killed = not harness.daemons(mount.path)
        for child in children:
            if not killed:
                os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        kills = next(int(line.split()[1]) for line in group.read("memory.oom_control").splitlines()
                     if line.startswith("oom_kill "))
        if not killed:
            raise harness.Skip("the kernel did not run out of memory with this limit")
        environment.cell("the OOM killer took the daemon", True, kills > 0)
        environment.cell("what a program gets", "ENOTCONN",
                         harness.in_child(lambda: os.statvfs(mount.path), seconds=60))
        environment.cell("unmount", 0, mount.command("unmount", mount.path, ok=False).returncode)
        mount = environment.mount(mount.volume, path=mount.path)
        environment.cell("what was synced", True, harness.read_file(mount / "synced") == CONTENT)
        mount.unmount()
