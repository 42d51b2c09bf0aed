"""A mount that is also mounted elsewhere, as in a container: an unmount locks at once, says who has it, and ends it there."""

import contextlib
import os
import subprocess
import time

import harness
from checks import errors
from harness import PATIENCE, Skip, daemons, make_file, outcome, pattern, read_file, run, wait_until, write_file
from namespaces import own_namespace

# Well below the ten minutes that the command used to wait, and above its grace.
LIMIT = 90
# What a container does all the time: it appends to a file, and says how much of it was synced.
WRITER = """
import os, sys
handle = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
for number in range(1 << 30):
    try:
        os.write(handle, b"%07d\\n" % number)
        if number % 50 == 0:
            os.fsync(handle)
            print(number + 1, flush=True)
    except OSError as error:
        print(error.errno, file=sys.stderr, flush=True)
        break
"""


@contextlib.contextmanager
def container(*words):
    """A process in a mount namespace of its own, which has a copy of every mount."""
    process = subprocess.Popen(["unshare", "--mount", "--propagation", "private", *words], stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def inside(process, code, *words):
    """What a program in the process's mount namespace prints."""
    done = run("nsenter", "--mount", f"--target={process.pid}", "python3", "-c", code, *words, ok=False, timeout=PATIENCE)
    return done.stdout.strip() or done.stderr


READ = """
import errno, os, sys
try:
    open(sys.argv[1], 'rb', buffering=0).read()
    print('works')
except OSError as error:
    print(errno.errorcode[error.errno])
"""


def has_mount(process, mount):
    if os.readlink(f"/proc/{process.pid}/ns/mnt") == os.readlink("/proc/self/ns/mnt"):
        return False
    with open(f"/proc/{process.pid}/mountinfo", encoding="utf-8") as table:
        return any(line.split()[4] == mount.path for line in table)


def filled(environment, **more):
    """A mount with a file of class A and one of class C."""
    mount = environment.mount(**more)
    make_file(mount / "private", "A", pattern(50_000))
    write_file(mount / "plain", pattern(50_000))
    return mount


def is_whole(environment, mount, name):
    """Nothing is lost, nothing is damaged, and the session is closed."""
    environment.cell(f"[{name}: errors that fsck finds]", [], errors(mount.volume))
    again = environment.mount(mount.volume, path=mount.path)
    for file in ("private", "plain"):
        environment.cell(f"[{name}: {file}]", True, read_file(again / file) == pattern(50_000))
    return again


def test_in_a_container(environment):
    """Class A is closed at once, the processes are named, and the mount ends there after the grace."""
    own_namespace()
    mount = filled(environment)
    with container("sleep", "1000") as process:
        wait_until(lambda: has_mount(process, mount) and os.path.exists(f"/proc/{process.pid}"), what="the copy")
        wait_until(lambda: open(f"/proc/{process.pid}/comm", encoding="ascii").read() == "sleep\n", what="its name")
        environment.cell("[class A before]", "works", inside(process, READ, mount / "private"))
        # Written, and not synced by anyone.
        written = inside(process, "import sys; open(sys.argv[1], 'wb').write(b'late' * 100000)", mount / "late")
        environment.cell("[written inside]", "", written)
        begun = time.monotonic()
        command = subprocess.Popen([harness.binary(), "unmount", mount.path], env=mount.volume.environment,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        found = set()
        wait_until(lambda: found.add(inside(process, READ, mount / "private")) or "EACCES" in found,
                   what="class A is closed")
        environment.cell("[class A is closed before the end]", True, found <= {"works", "EACCES"})
        environment.cell("[class C serves in the grace]", "works", inside(process, READ, mount / "plain"))
        _, said = command.communicate(timeout=LIMIT)
        environment.cell("[the command]", (0, True), (command.returncode, time.monotonic() - begun < LIMIT))
        environment.cell("[it names the process]", True, f"{process.pid} (sleep)" in said)
        environment.cell("[no daemon]", [], daemons(mount.path))
        environment.cell("[inside afterwards]", "ENOTCONN", inside(process, READ, mount / "plain"))
        again = is_whole(environment, mount, "after the grace")
        environment.cell("[what was only written]", True, read_file(again / "late") == b"late" * 100000)
        again.unmount()


def test_forced(environment):
    """--force ends it at once, elsewhere and here, and what was synced is there."""
    own_namespace()
    mount = filled(environment)
    handle = os.open(mount / "plain", os.O_RDONLY)
    refused = mount.command("unmount", mount.path, ok=False)
    environment.cell("[in use]", 6, refused.returncode)
    environment.cell("[not ended]", True, os.pread(handle, 10, 0) == pattern(50_000)[:10])
    with container("python3", "-c", WRITER, mount / "log") as process:
        for _ in range(20):
            synced = int(process.stdout.readline())
        done = mount.command("unmount", "--force", mount.path, timeout=LIMIT)
        environment.cell("[forced]", (0, ""), (done.returncode, done.stderr))
        environment.cell("[no daemon]", [], daemons(mount.path))
        environment.cell("[not mounted]", False, mount.is_mounted)
        rest, failed = process.communicate(timeout=PATIENCE)
        synced = int(([str(synced)] + rest.split())[-1])
        environment.cell("[the writer is told]", True, failed.strip() in ("107", "103", "5"))
    environment.cell("[a handle here]", "ENOTCONN", outcome(os.pread, handle, 10, 1))
    os.close(handle)
    again = is_whole(environment, mount, "forced")
    lines = read_file(again / "log").splitlines()
    environment.cell("[what was synced]", [b"%07d" % number for number in range(synced)], lines[:synced])
    again.unmount()


def test_bind_mount(environment):
    """A bind mount of a directory is named, and removed with the mount."""
    own_namespace()
    mount = filled(environment)
    place = environment.new_path("bound")
    os.mkdir(place)
    os.mkdir(mount / "directory")
    run("mount", "--bind", mount / "directory", place)
    done = mount.command("unmount", mount.path, timeout=LIMIT)
    environment.cell("[it names the place]", True, place in done.stderr)
    environment.cell("[removed]", False, os.path.ismount(place))
    environment.cell("[no daemon]", [], daemons(mount.path))
    is_whole(environment, mount, "bound")


def test_without_fusectl(environment):
    """The daemon ends the connection itself where the kernel's control files are not mounted."""
    own_namespace()
    if os.path.ismount("/sys/fs/fuse/connections"):
        run("umount", "/sys/fs/fuse/connections")
    mount = filled(environment)
    with container("sleep", "1000") as process:
        wait_until(lambda: has_mount(process, mount), what="the copy")
        done = mount.command("unmount", "--force", mount.path, timeout=LIMIT)
        environment.cell("[forced]", 0, done.returncode)
        environment.cell("[inside afterwards]", "ENOTCONN", inside(process, READ, mount / "plain"))
        # Another mount at the same place is not touched.
        again = is_whole(environment, mount, "without fusectl")
        environment.cell("[the next mount]", True, again.is_mounted)


def test_told_to_end(environment):
    """SIGTERM ends a mount that a container has, too."""
    own_namespace()
    mount = filled(environment)
    with container("sleep", "1000") as process:
        wait_until(lambda: has_mount(process, mount), what="the copy")
        os.kill(mount.pid, 15)
        wait_until(lambda: not daemons(mount.path), LIMIT, "the daemon's end")
        is_whole(environment, mount, "told to end")
