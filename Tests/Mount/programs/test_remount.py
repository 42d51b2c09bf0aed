"""The words that mount(8) has for a mount that exists, and for devices and set-user-ID bits."""

import os
import shutil
import stat

import harness
from harness import Skip, outcome, read_file, run, write_file

HELPER = os.path.join(harness.REPOSITORY, "mount-scripts/packaging/mount.fuse.protectfs")


def helper(mount, options, ok=True):
    """What mount(8) runs; it finds the program under test in PATH."""
    path = os.path.dirname(harness.binary()) + ":" + os.environ["PATH"]
    return run("sh", HELPER, mount.volume.path, mount.path, "-o", options, ok=ok, env={**mount.volume.environment, "PATH": path})


def flags(mount):
    with open("/proc/self/mountinfo", encoding="utf-8") as table:
        fields = [line.split() for line in table if line.split()[4] == mount.path][-1]
    return set(fields[5].split(","))


def needs_root():
    if os.geteuid() != 0:
        raise Skip("needs root, as mount(8) has it")


def test_remount(environment):
    """ro and rw of a mount that exists: refused while files are written, and nothing is lost."""
    needs_root()
    mount = environment.mount(options=["nodev", "noexec"])
    write_file(mount / "file", b"content")
    handle = os.open(mount / "file", os.O_RDWR)
    busy = helper(mount, "remount,ro", ok=False)
    environment.cell("[written]", (6, True), (busy.returncode, "open for writing" in busy.stderr))
    os.close(handle)
    harness.wait_until(lambda: helper(mount, "remount,ro", ok=False).returncode == 0, what="the last close is known")
    environment.cell("[ro: write]", "EROFS", outcome(write_file, mount / "file", b"other"))
    environment.cell("[ro: read]", b"content", read_file(mount / "file"))
    environment.cell("[ro: other flags stay]", True, {"ro", "nodev", "noexec", "nosuid"} <= flags(mount))
    helper(mount, "remount,rw,exec")
    environment.cell("[rw: write]", "works", outcome(write_file, mount / "file", b"written"))
    environment.cell("[rw: flags]", (True, False), ({"rw", "nodev"} <= flags(mount), "noexec" in flags(mount)))
    mount = environment.remount(mount, options=["ro"])
    refused = helper(mount, "remount,rw", ok=False)
    environment.cell("[a read-only daemon]", (1, True), (refused.returncode, "mounted read-only" in refused.stderr))
    environment.cell("[its content]", b"written", read_file(mount / "file"))


def test_devices_and_set_user_id(environment):
    """Off, unless asked for: with dev and suid, or with the words that mount(8) does not remove."""
    needs_root()
    for options, works in ((["allow_other"], False), (["allow_other,dev,suid"], True), (["allow_other,allow_dev,allow_suid"], True)):
        mount = environment.mount(options=options)
        os.chmod(mount.path, 0o755)
        os.mknod(mount / "null", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        environment.cell(f"[{options[0]}: device]", "works" if works else "EACCES", outcome(write_file, mount / "null", b"x"))
        shutil.copyfile(shutil.which("id"), mount / "id")
        os.chmod(mount / "id", 0o4755)
        said = run("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", mount / "id", "-u").stdout.strip()
        environment.cell(f"[{options[0]}: set-user-ID]", "0" if works else "65534", said)
        mount.unmount()
