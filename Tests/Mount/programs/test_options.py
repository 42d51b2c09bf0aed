"""Mount options: those that change the view, and those that go to the kernel."""

import os
import stat

import harness


def test_owner_and_mask(environment):
    mount = environment.mount(options=("allow_other,uid=1234,gid=2345,umask=027",))
    harness.write_file(mount / "file", b"content")
    os.chmod(mount / "file", 0o666)
    os.mkdir(mount / "directory")
    os.chmod(mount / "directory", 0o777)
    for name, mode in (("file", 0o640), ("directory", 0o750)):
        status = os.stat(mount / name)
        environment.cell(f"{name}: owner, group, mode", (1234, 2345, oct(mode)),
                         (status.st_uid, status.st_gid, oct(stat.S_IMODE(status.st_mode))))
    listed = {entry.name: entry.stat().st_uid for entry in os.scandir(mount.path)}
    environment.cell("in listings too", {"file": 1234, "directory": 1234}, listed)


def test_kernel_options(environment):
    mount = environment.mount(options=("noexec,nodev,nosuid,noatime",))
    script = mount / "script"
    harness.write_file(script, b"#!/bin/sh\nexit 0\n")
    os.chmod(script, 0o755)
    environment.cell("noexec", "EACCES", harness.in_child(lambda: os.execv(script, [script])))
    with open("/proc/self/mountinfo", encoding="utf-8") as table:
        line = next(line for line in table if f" {mount.path} " in line)
    flags = line.split(" ")[5].split(",")
    environment.cell("flags", [], [word for word in ("noexec", "nodev", "nosuid", "noatime") if word not in flags])
    kind, source = line.split(" - ")[1].split(" ")[:2]
    environment.cell("type and source", ("fuse.protectfs", mount.volume.path), (kind, source))


def test_read_only(environment):
    mount = environment.mount()
    harness.write_file(mount / "file", b"content")
    environment.remount(mount, options=("ro",))
    environment.cell("reads", b"content", harness.read_file(mount / "file"))
    for name, action in {
        "create": lambda: harness.write_file(mount / "new", b""), "write": lambda: os.open(mount / "file", os.O_RDWR),
        "unlink": lambda: os.unlink(mount / "file"), "class": lambda: harness.set_class(mount / "file", "A"),
        "chmod": lambda: os.chmod(mount / "file", 0o600),
    }.items():
        environment.cell(f"{name} on a read-only mount", "EROFS", harness.outcome(action))
