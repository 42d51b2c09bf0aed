"""A daemon that dies takes its connection with it: programs on the mount get errors and do not hang."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time

import harness
from built import built
from harness import outcome, pattern, read_file, set_class, write_file
from namespaces import own_namespace
from processes import is_running

ROUNDS = {"quick": 2, "usual": 4, "full": 50}
SIZE = 1 << 20
GUARD = os.path.join(harness.REPOSITORY, "Sources/CConnectionGuard")
# The guard, on a machine so busy that it runs only after a while.
LATE_GUARD = b"""#include <unistd.h>
#define setsid() (usleep(300000), setsid())
#include "ConnectionGuard.c"
"""


def guards(pid):
    """The guard processes whose parent is pid."""
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/stat", encoding="utf-8", errors="replace") as file:
                name, rest = file.read().split("(", 1)[1].rsplit(") ", 1)
        except OSError:
            continue
        if name == "pfs-guard" and int(rest.split()[1]) == pid:
            found.append(int(entry))
    return found


def guards_of(mount):
    """The same of a mount that may have just begun: the guard runs under the daemon's name for a moment."""
    pid = mount.pid
    harness.wait_until(lambda: guards(pid), what="the guard")
    return guards(pid)


def notifier(pid):
    """The state of the daemon's threads that have pages written back: S idle, R at work, T stopped, D in the kernel where
    no signal reaches one of them."""
    states = set()
    for task in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{task}/stat", encoding="utf-8") as file:
                name, rest = file.read().split("(", 1)[1].rsplit(") ", 1)
        except OSError:
            continue
        if name in ("pfs-evictor", "pfs-flusher"):
            states.add(rest[0])
    return next((state for state in "DRTS" if state in states), "gone")


def catch(pid, lock):
    """Stops the daemon so that its notifier waits in the kernel for a WRITE that nobody will answer; false: it got away."""
    end = time.monotonic() + 30
    while lock.poll() is None and time.monotonic() < end:
        if notifier(pid) == "S":
            continue
        os.kill(pid, signal.SIGSTOP)
        for _ in range(50):
            state = notifier(pid)
            if state != "R":
                break
            time.sleep(0.01)
        if state == "D":
            return True
        os.kill(pid, signal.SIGCONT)
    return False


def write_for_ever(handle):
    """Dirties pages until writing is refused for another reason than the lock."""
    try:
        while True:
            for place in range(0, SIZE, harness.PAGE):
                with contextlib.suppress(PermissionError):
                    os.pwrite(handle, b"x" * harness.PAGE, place)
    except OSError:
        pass
    finally:
        os._exit(0)


def killed_in_a_lock(environment, volume, path, number):
    """One round: dirty pages of class A, a lock, kill -9 while it writes them back; was the notifier waiting?"""
    mount = environment.mount(volume, path=path)
    write_file(mount / f"kept{number}", pattern(20_000, seed=number))
    handle = os.open(mount / f"kept{number}", os.O_RDONLY)
    os.fsync(handle)
    os.close(handle)
    # A handle from before the file was class A writes through the page cache, also while the lock empties it.
    handle = os.open(mount / "written", os.O_RDWR | os.O_CREAT, 0o644)
    set_class(mount / "written", "A")
    writer = os.fork()
    if writer == 0:
        write_for_ever(handle)
    pid = mount.pid
    guard = guards_of(mount)
    environment.cell("[one guard]", 1, len(guard))
    lock = subprocess.Popen([harness.binary(), "lock", mount.path], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                            stderr=subprocess.DEVNULL, env=mount.volume.environment)
    caught = catch(pid, lock)
    os.kill(pid, signal.SIGKILL)
    lock.wait(harness.PATIENCE)
    harness.wait_until(lambda: not harness.daemons(mount.path), what="the daemon's end")
    harness.wait_until(lambda: not os.path.exists(f"/proc/{guard[0]}"), what="the guard's end")
    environment.cell("[a program on the mount]", "ENOTCONN", outcome(os.listdir, mount.path))
    environment.cell("[a new file]", "ENOTCONN", outcome(write_file, mount / "new", b"x"))
    environment.cell("[an open handle]", True, outcome(os.fsync, handle) in ("ENOTCONN", "ECONNABORTED", "EIO"))
    os.close(handle)
    os.waitpid(writer, 0)
    environment.cell("[unmount cleans up]", 0, mount.command("unmount", mount.path, ok=False).returncode)
    environment.cell("[not mounted]", False, mount.is_mounted)
    return caught


def test_killed_in_a_lock(environment):
    volume, path = environment.volume(), environment.new_path("mount")
    caught = sum(killed_in_a_lock(environment, volume, path, number) for number in range(ROUNDS[environment.mode]))
    print(f"        killed while the notifier waited for a WRITE: {caught} times", flush=True)
    mount = environment.mount(volume, path=path)
    for number in range(ROUNDS[environment.mode]):
        environment.cell("[what was synced]", pattern(20_000, seed=number), read_file(mount / f"kept{number}"))


def test_killed_with_a_file_of_its_mount(environment):
    """A daemon that flushes has a file of its own mount open, and the kernel may close that file before all others."""
    own_namespace()
    compiler = next(filter(None, map(shutil.which, ("cc", "clang"))), None)
    if not compiler:
        raise harness.Skip("there is no C compiler")
    source = environment.new_path("guard") + ".c"
    write_file(source, LATE_GUARD)
    words = (compiler, "-shared", "-fPIC", "-D_GNU_SOURCE=", "-I", GUARD + "/include", "-I", GUARD, source, "-o")
    library = built(environment, "guard.so", lambda path: harness.run(*words, path, timeout=None))
    path = environment.new_path("mount")
    os.mkdir(path, mode=0o500)
    server = subprocess.Popen([sys.executable, os.path.join(harness.SUPPORT, "self_holder.py"), library, path], stdout=subprocess.PIPE)
    try:
        environment.cell("[the server]", b"ready\n", server.stdout.readline())
        server.kill()
        harness.wait_until(lambda: not is_running(server.pid), 20, "the server's end")
        environment.cell("[a program on the mount]", "ENOTCONN", outcome(os.listdir, path))
    finally:
        # A forced unmount ends the connection, whatever still waits for it.
        harness.run("umount", "-f", "-l", path, ok=False)
        server.kill()
        server.wait()


def test_ends_with_its_daemon(environment):
    """After an unmount no guard is left, and a guard that is killed does no harm."""
    mount = environment.mount()
    found = guards_of(mount)
    environment.cell("[one guard]", 1, len(found))
    with open(f"/proc/{found[0]}/cmdline", "rb") as file:
        environment.cell("[no other arguments than the daemon's]", True, b"protectfs" in file.read())
    mount.unmount()
    harness.wait_until(lambda: not os.path.exists(f"/proc/{found[0]}"), what="the guard's end")
    mount = environment.mount(mount.volume, path=mount.path)
    os.kill(guards_of(mount)[0], signal.SIGKILL)
    write_file(mount / "after", b"works")
    environment.cell("[without its guard]", b"works", read_file(mount / "after"))
    mount.unmount()
    environment.cell("[unmounted]", False, mount.is_mounted)


def test_late_guard(environment):
    """A guard that runs only after its mount has ended leaves the next mount alone, which has the same place and device number."""
    own_namespace()
    if os.path.ismount("/sys/fs/fuse/connections"):
        harness.run("umount", "/sys/fs/fuse/connections")
    mount = environment.mount()
    device = os.stat(mount.path).st_dev
    late = guards_of(mount)[0]
    os.kill(late, signal.SIGSTOP)
    try:
        mount.unmount()
        mount = environment.mount(mount.volume, path=mount.path)
        if os.stat(mount.path).st_dev != device:
            raise harness.Skip("another file system has taken the device number in the meantime")
        write_file(mount / "file", b"content")
        os.kill(late, signal.SIGCONT)
        harness.wait_until(lambda: not os.path.exists(f"/proc/{late}"), what="the guard's end")
        environment.cell("[the next mount]", "works", outcome(read_file, mount / "file"))
    finally:
        with contextlib.suppress(OSError):
            os.kill(late, signal.SIGCONT)
    mount.unmount()
