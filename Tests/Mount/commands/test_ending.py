"""Commands that come while the daemon of an earlier mount still ends."""

import fcntl
import os
import shutil
import signal
import subprocess
import threading
import time

from harness import PATIENCE, Skip, binary, daemons, mount_table, protectfs, run, wait_until, write_file
from namespaces import only_own_mounts
from users import OrdinaryUser

ROUNDS = 5
SIZE = 4 << 20
# A command waits 5 s for a daemon that ends.
WAITED = 4.5


def dirty(mount):
    """Data that the daemon has to make durable when the mount is gone."""
    write_file(mount / "data", os.urandom(SIZE))


def after_waiting(run_it, busy=6):
    """The finished command. Beside other tests a daemon may take longer to end than a command waits for it: then once more.

    A command that says `busy` and has not waited is what it is.
    """
    end = time.monotonic() + PATIENCE
    while True:
        began = time.monotonic()
        done = run_it()
        if done.returncode != busy or time.monotonic() - began < WAITED or time.monotonic() > end:
            return done


def test_at_once(environment):
    """umount(8) does not wait for the daemon. What follows does."""
    mount = environment.mount()
    for number in range(ROUNDS):
        dirty(mount)
        run("umount", mount.path)
        path = environment.new_path("mount")
        done = after_waiting(lambda: environment.mount(mount.volume, path=path, ok=False).result)
        assert done.returncode == 0, done
        mount = environment.mounts[-1]
        environment.cell(f"mount after umount {number}", SIZE, os.path.getsize(mount / "data"))
    dirty(mount)
    run("umount", mount.path)
    done = after_waiting(lambda: protectfs("fsck", "--quick", "--recovery-file", mount.volume.code_file, mount.volume.path,
                                           env=mount.volume.environment, ok=False), busy=8)
    environment.cell("fsck after umount", (0, ""), (done.returncode, done.stderr))


def test_unmount_after_umount(environment):
    """unmount waits for the daemon of a mount that umount(8) has removed, and names it if that takes too long."""
    mount = environment.mount()
    write_file(mount / "file", b"content")
    daemon = mount.pid
    held = os.open(mount / "file", os.O_RDONLY)
    run("umount", "-i", "-l", mount.path)
    try:
        done = mount.command("unmount", mount.path, ok=False)
        environment.cell("busy", (6, True), (done.returncode, f"(process {daemon})" in done.stderr))
        began = time.monotonic()
        threading.Timer(1, lambda: os.close(held)).start()
        done = after_waiting(lambda: mount.command("unmount", mount.path, ok=False))
        environment.cell("waits", (0, ""), (done.returncode, done.stderr))
        environment.cell("as long as the daemon takes", True, time.monotonic() - began > 0.5)
        environment.cell("the daemon has ended", [], daemons(mount.path))
    finally:
        wait_until(lambda: not daemons(mount.path), what="the daemon's end")
    done = mount.command("unmount", mount.path, ok=False)
    environment.cell("later", (7, True), (done.returncode, "no protectfs volume is mounted there" in done.stderr))
    # From another directory, and by another name.
    mount = environment.mount(mount.volume)
    link = environment.new_path("link")
    os.symlink(mount.path, link)
    held = os.open(mount.path, os.O_RDONLY)
    run("umount", "-i", "-l", mount.path)
    threading.Timer(1, lambda: os.close(held)).start()
    done = after_waiting(lambda: mount.command("unmount", os.path.basename(link), ok=False, cwd=os.path.dirname(link)))
    environment.cell("by a link", 0, done.returncode)
    # The same volume at another place is no reason to wait.
    other = environment.mount(mount.volume)
    done = mount.command("unmount", mount.path, ok=False)
    environment.cell("mounted elsewhere", (7, True), (done.returncode, other.is_mounted))


def test_shared_mounts(environment):
    """Of several mounts that share a store, none is blamed for another one that has ended."""
    volume = environment.volume()
    for number in range(2):
        mounts = [environment.mount(volume, options=["shared"]) for _ in range(2)]
        gone, stays = mounts[number], mounts[1 - number]
        process = gone.pid
        run("umount", "-i", gone.path)
        wait_until(lambda: not os.path.exists(f"/proc/{process}/exe"), what="the end of the daemon")
        done = gone.command("unmount", gone.path, ok=False)
        environment.cell(f"mount {number} has ended", (7, True), (done.returncode, stays.is_mounted))
        stays.unmount()


def test_covered(environment):
    """unmount does not remove what somebody has mounted over the mount, also with --force."""
    if os.geteuid() != 0:
        raise Skip("only root may mount over it")
    mount = environment.mount()
    if run("mount", "-t", "tmpfs", "over", mount.path, ok=False).returncode != 0:
        raise Skip("tmpfs cannot be mounted here")
    held = os.open(mount.path, os.O_RDONLY)
    try:
        for words in (["unmount"], ["unmount", "--force"]):
            done = mount.command(*words, mount.path, ok=False)
            environment.cell(f"{words}: refused", (6, True),
                             (done.returncode, "something else is mounted over it" in done.stderr))
            environment.cell(f"{words}: both are there", ["fuse.protectfs", "tmpfs"],
                             [row[2] for row in mount_table() if row[1] == mount.path])
    finally:
        os.close(held)
        run("umount", "-t", "tmpfs", mount.path, ok=False)
    environment.cell("still unlocked", "unlocked", mount.state())
    mount.unmount()


def test_ordinary_user(environment):
    """For an ordinary user fusermount3 unmounts. Of its failures only one means that the mount is in use."""
    user = OrdinaryUser(environment)
    programs = environment.new_path("programs")
    os.mkdir(programs)
    real, told = shutil.which("fusermount3"), os.path.join(programs, "told")
    with open(os.path.join(programs, "fusermount3"), "w", encoding="ascii") as file:
        file.write(f"""#!/bin/sh
case $(cat {told}) in
refuse) echo "fusermount3: not today" >&2; exit 1;;
late) {real} "$@"; exit 1;;
esac
exec {real} "$@"
""")
    for name in ("", "fusermount3"):
        os.chmod(os.path.join(programs, name), 0o755)
    user.variables["PATH"] = f"{programs}:{os.environ['PATH']}"

    def tell(word):
        with open(told, "w", encoding="ascii") as file:
            file.write(word)

    def is_mounted():
        return any(row[1] == user.path for row in mount_table())
    tell("")
    user.run(binary(), "mount", "--recovery-file", user.code_file, user.volume, user.path)
    try:
        tell("refuse")
        done = user.run(binary(), "unmount", user.path, ok=False)
        environment.cell("another reason", (1, True, True),
                         (done.returncode, "cannot unmount: fusermount3: not today" in done.stderr, is_mounted()))
        tell("")
        script = f"cd {user.path} && echo there && exec sleep 60"
        with subprocess.Popen([*user.become, "sh", "-c", script], stdout=subprocess.PIPE, text=True) as held:
            held.stdout.readline()
            done = user.run(binary(), "unmount", user.path, ok=False)
            held.kill()
        environment.cell("in use", (6, True, True), (done.returncode, "in use" in done.stderr, is_mounted()))
        tell("late")
        done = user.run(binary(), "unmount", user.path, ok=False)
        environment.cell("gone all the same", (0, "", False), (done.returncode, done.stderr, is_mounted()))
    finally:
        tell("")
        if is_mounted():
            user.run(binary(), "unmount", "--force", user.path, ok=False)


def test_somebody_stays(environment):
    """A process that does not let go of the volume is named."""
    volume = environment.volume()
    point = environment.new_path("mount")
    os.mkdir(point, mode=0o500)
    held = os.open(volume.path, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    try:
        # fsck has the exit codes of fsck(8).
        for words, code in ((["mount", "--recovery-file", volume.code_file, volume.path, point], 6),
                            (["fsck", "--recovery-file", volume.code_file, volume.path], 8)):
            done = protectfs(*words, env=volume.environment, ok=False)
            environment.cell(f"{words[0]}: busy", code, done.returncode)
            environment.cell(f"{words[0]}: by whom", True, f"process {os.getpid()} " in done.stderr)
        environment.cell("nothing is mounted", False, any(row[1] == point for row in mount_table()))
    finally:
        os.close(held)


def test_lock_all(environment):
    """All mounts are locked by one command. A failure of one is told, and keeps no other from being locked."""
    only_own_mounts()
    mounts = [environment.mount(path=environment.new_path("with a space")), environment.mount(), environment.mount()]
    done = protectfs("lock", "--all", "--grace", "0", ok=False)
    environment.cell("exit code", 0, done.returncode)
    environment.cell("states", ["locked"] * 3, [mount.state() for mount in mounts])
    for mount in mounts:
        mount.unlock()
    os.kill(mounts[1].pid, signal.SIGKILL)
    wait_until(lambda: not daemons(mounts[1].path), what="the daemon's end")
    done = protectfs("lock", "--all", "--grace", "0", ok=False)
    environment.cell("exit code with a dead daemon", True, done.returncode not in (0, 10))
    environment.cell("the dead one is named", True, mounts[1].path in done.stderr)
    environment.cell("the others", ["locked"] * 2, [mounts[0].state(), mounts[2].state()])
    for words in (["lock"], ["lock", "--all", mounts[0].path], ["status", "--all", mounts[0].path]):
        environment.cell(f"usage: {' '.join(words[:2])}", 2, protectfs(*words, ok=False).returncode)
    environment.cell("status --all", True, mounts[0].path in protectfs("status", "--all", ok=False).stdout)
