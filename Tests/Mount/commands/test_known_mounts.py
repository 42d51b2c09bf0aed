"""Volumes that were mounted before a restart, or before their daemon died: nothing lands beside them, and every command names them."""

import json
import os
import shutil
import stat

import harness
from harness import protectfs, read_file, write_file
from refusals import MOUNT_POINT, NOT_MOUNTED


def stopped(mount):
    """As after a power cut: the daemon is gone, and so is the mount."""
    mount.crash()


def mode(path):
    return stat.S_IMODE(os.stat(path).st_mode)


def test_nothing_lands_beside_a_volume(environment):
    """The write bits of the mount point are gone for good. Root, whom they do not stop, has an immutable one by fstab."""
    place = environment.new_path("place")
    os.mkdir(place, mode=0o755)
    mount = environment.mount(path=place)
    stopped(mount)
    environment.cell("[mode after a crash]", 0, mode(mount.path) & 0o222)
    again = environment.mount(mount.volume, path=mount.path)
    write_file(again / "file", b"x")
    again.unmount()
    environment.cell("[mode after unmount]", 0, mode(mount.path) & 0o222)
    os.rmdir(mount.path)


def test_it_is_said_once(environment):
    volume = environment.volume()
    place = environment.new_path("place")
    os.mkdir(place)
    said = []
    for _ in range(2):
        done = protectfs("mount", "--recovery-file", volume.code_file, volume.path, place, env=volume.environment)
        said.append("nothing can be saved there" in done.stderr)
        protectfs("unmount", place, env=volume.environment)
    environment.cell("[said]", [True, False], said)


def test_commands_name_it(environment):
    mount = environment.mount()
    volume = mount.volume
    command = f"protectfs mount {volume.path} {mount.path}"
    stopped(mount)
    done = protectfs("status", env=volume.environment)
    environment.cell("[status]", True, f"{mount.path}: not mounted; {command}" in done.stdout)
    for words in (["status", mount.path], ["lock", mount.path], ["unlock", "--recovery-file", volume.code_file, mount.path],
                  ["doctor", mount.path]):
        done = protectfs(*words, env=volume.environment, ok=False)
        environment.cell(f"[{words[0]} PATH]", (NOT_MOUNTED, True), (done.returncode, command in done.stderr))
    found = [one for one in json.loads(protectfs("doctor", "--json", env=volume.environment).stdout)
             if one["check"] == "notMounted" and one["path"] == mount.path]
    environment.cell("[doctor]", [command], [one["advice"] for one in found])
    environment.mount(volume, path=mount.path)
    environment.cell("[status, mounted again]", False, "not mounted" in protectfs("status", env=volume.environment).stdout)
    protectfs("unmount", mount.path, env=volume.environment)
    environment.cell("[status, unmounted on purpose]", False, mount.path in protectfs("status", env=volume.environment).stdout)


def test_checks_and_imports_forget_nothing(environment):
    """A check, and the private mount of an import, are no mounts to come back to."""
    mount = environment.mount()
    stopped(mount)
    volume, source = mount.volume, environment.new_path("source")
    os.mkdir(source)
    write_file(os.path.join(source, "file"), b"x")
    protectfs("fsck", "--repair", "--recovery-file", volume.code_file, volume.path, env=volume.environment, ok=False)
    protectfs("import", "--recovery-file", volume.code_file, source, volume.path, env=volume.environment)
    environment.cell("[status]", True, f"{mount.path}: not mounted" in protectfs("status", env=volume.environment).stdout)


def test_agent_mounts_again(environment):
    """`agent --mount` mounts what a restart has ended, with its options, and nothing that somebody has unmounted."""
    mount = environment.mount(options=["idle=7m"])
    stopped(mount)
    done = mount.command("agent", "--mount")
    environment.cell("[what it says]", "", done.stderr)
    environment.cell("[state and options]", ("before-first-unlock", 420), (mount.status()["state"], mount.status()["idleLimit"]))
    environment.cell("[a second time]", (0, ""), (mount.command("agent", "--mount").returncode, ""))
    mount.unmount()
    environment.cell("[unmounted on purpose]", (0, False), (mount.command("agent", "--mount").returncode, mount.is_mounted))


def test_files_that_were_saved_beside_it(environment):
    """The message says what is there, and the one command in it moves everything into the volume."""
    mount = environment.mount()
    write_file(mount / "kept", b"in the volume")
    volume, place = mount.volume, mount.path
    mount.unmount()
    os.chmod(place, 0o700)
    os.mkdir(os.path.join(place, "letters"))
    write_file(os.path.join(place, "letters", "one"), b"saved beside it")
    write_file(os.path.join(place, "two"), b"two")
    os.link(os.path.join(place, "two"), os.path.join(place, "three"))
    done = protectfs("mount", "--recovery-file", volume.code_file, volume.path, place, env=volume.environment, ok=False)
    environment.cell("[mount]", (MOUNT_POINT, True, True), (
        done.returncode, "in it: letters, three, two" in done.stderr,
        f"protectfs import --move {place} {volume.path}" in done.stderr))
    done = protectfs("import", "--move", "--recovery-file", volume.code_file, place, volume.path, env=volume.environment)
    environment.cell("[import --move]", ([], True), (os.listdir(place), "3 objects were removed" in done.stdout))
    mount = environment.mount(volume, path=place)
    environment.cell("[in the volume]", (b"in the volume", b"saved beside it", b"two", 2), (
        read_file(mount / "kept"), read_file(mount / "letters/one"), read_file(mount / "two"), os.stat(mount / "three").st_nlink))


def test_a_move_removes_nothing_that_differs(environment):
    mount = environment.mount()
    write_file(mount / "same name", b"in the volume")
    source = environment.new_path("source")
    os.mkdir(source)
    write_file(os.path.join(source, "same name"), b"in the source")
    write_file(os.path.join(source, "other"), b"other")
    done = mount.command("import", "--move", source, mount.path, ok=False)
    environment.cell("[one file differs]", (1, ["other", "same name"], True), (
        done.returncode, sorted(os.listdir(source)), "Nothing was removed" in done.stdout))
    os.unlink(os.path.join(source, "same name"))
    if shutil.which("chattr") and harness.run("chattr", "+i", os.path.join(source, "other"), ok=False).returncode == 0:
        done = mount.command("import", "--move", "--json", source, mount.path, ok=False)
        harness.run("chattr", "-i", os.path.join(source, "other"))
        environment.cell("[one cannot be removed]", (1, ["other"], 0), (
            done.returncode, [os.path.basename(one["path"]) for one in json.loads(done.stdout)["kept"]],
            json.loads(done.stdout)["removed"]))
    done = mount.command("import", "--move", "--verify-only", source, mount.path, ok=False)
    environment.cell("[with --verify-only]", 2, done.returncode)
