"""An older version of a file that is put back in the store is noticed, refused with -o fresh, and accepted by `trust`."""

import errno
import json
import os
import shutil

import harness
from checks import report


def seen(mount):
    """The counts of older files and of damage in `status`."""
    status = mount.status()
    return status["older"], status["damage"]


def test_older_files(environment):
    """A file, a whole volume, a read-only mount, and a volume that is made by another program's restore."""
    mount = environment.mount()
    for name in ("letter", "other"):
        harness.write_file(mount / name, b"first" * 3000)
    backing = mount.stored("letter")
    mount = environment.remount(mount)
    environment.cell("nothing is older", (b"first" * 3000, (0, 0)), (harness.read_file(mount / "letter"), seen(mount)))
    mount.unmount()
    backup = environment.new_path("backup")
    shutil.copytree(mount.volume.path, backup, symlinks=True)
    mount = environment.mount(mount.volume, path=mount.path)
    with open(mount / "letter", "ab") as file:
        file.write(b"appended")
    harness.write_file(mount / "other", b"second")
    mount = environment.remount(mount)
    environment.cell("what was written is not older", (15008, (0, 0)), (len(harness.read_file(mount / "letter")), seen(mount)))
    mount.unmount()
    shutil.copy2(os.path.join(backup, os.path.relpath(backing, mount.volume.path)), backing)

    def kinds():
        code, answer = report(mount.volume)
        return code, sorted((one["kind"], one["severity"]) for one in answer["findings"])

    environment.cell("fsck", (0, [("older-than-seen", "note")]), kinds())
    shown = json.loads(harness.protectfs("inspect", "--json", "--recovery-file", mount.volume.code_file, backing,
                                         env=mount.volume.environment).stdout)
    environment.cell("inspect", True, 0 < shown["version"] < shown["seenVersion"])
    text = harness.protectfs("inspect", "--recovery-file", mount.volume.code_file, backing, env=mount.volume.environment).stdout
    environment.cell("inspect says so", True, "older than this machine has seen it" in text)
    for options in ((), ("ro",)):
        mount = environment.mount(mount.volume, path=mount.path, options=options)
        environment.cell(f"a mount counts it, {options}", (b"first" * 3000, (1, 0)),
                         (harness.read_file(mount / "letter"), seen(mount)))
        environment.cell("and says so", True, "Older files" in mount.command("status", mount.path).stdout)
        mount.unmount()
    mount = environment.mount(mount.volume, path=mount.path, options=("fresh",))
    try:
        harness.read_file(mount / "letter")
        error = None
    except OSError as failure:
        error = failure.errno
    environment.cell("-o fresh", (errno.EIO, b"second", (1, 0)), (error, harness.read_file(mount / "other")[:6], seen(mount)))
    environment.cell("a directory cannot be accepted", False, mount.command("trust", mount.path, ok=False).returncode == 0)
    mount.lock()
    mount.command("trust", mount / "letter")
    environment.cell("not counted any more", (0, 0), seen(mount))
    mount.unlock()
    environment.cell("accepted", b"first" * 3000, harness.read_file(mount / "letter"))
    mount = environment.remount(mount, options=("fresh",))
    environment.cell("and in the next mount", (b"first" * 3000, (0, 0)), (harness.read_file(mount / "letter"), seen(mount)))
    with open(mount / "letter", "ab") as file:
        file.write(b"again")
    mount.unmount()
    for name in os.listdir(backup):
        source, target = os.path.join(backup, name), os.path.join(mount.volume.path, name)
        if os.path.isfile(source) and not os.path.islink(source) and not name.startswith(".protectfs"):
            shutil.copy2(source, target)
    mount = environment.mount(mount.volume, path=mount.path)
    for name in ("letter", "other"):
        environment.cell(f"restored: {name}", b"first" * 3000, harness.read_file(mount / name))
    environment.cell("both are older", (2, 0), seen(mount))
    mount.command("trust", mount / "letter")
    environment.cell("one is left", (1, 0), seen(mount))
    mount.command("trust", "--all", mount.path)
    environment.cell("none is counted any more", (0, 0), seen(mount))
    mount = environment.remount(mount, options=("fresh",))
    for name in ("letter", "other"):
        environment.cell(f"all accepted: {name}", b"first" * 3000, harness.read_file(mount / name))
    environment.cell("none is older", (0, 0), seen(mount))


def test_killed_daemon(environment):
    """kill -9 in the middle of writes makes nothing older, whatever was synced, and with -o fresh everything opens."""
    mount = environment.mount()
    for number in range(20):
        harness.write_file(mount / f"f{number}", bytes(9000))
    mount = environment.remount(mount)
    for round_ in range(3):
        for number in range(20):
            with open(mount / f"f{number}", "r+b") as file:
                if number % 3 == 0:
                    file.truncate(5000 + round_)
                file.seek(0, os.SEEK_END if number % 2 else os.SEEK_SET)
                file.write(bytes(100 + round_))
                if number % 4 == round_:
                    file.flush()
                    os.fsync(file.fileno())
        mount.crash()
        mount = environment.mount(mount.volume, path=mount.path, options=("fresh",))
        for number in range(20):
            harness.read_file(mount / f"f{number}")
        environment.cell(f"round {round_}", 0, mount.status()["older"])
    mount.unmount()
    code, answer = report(mount.volume)
    environment.cell("fsck", [], [one for one in answer["findings"] if one["kind"] == "older-than-seen"])
    mount = environment.mount(mount.volume, path=mount.path, options=("fresh",))
    for number in range(20):
        harness.read_file(mount / f"f{number}")
    environment.cell("after it", 0, mount.status()["older"])
