"""A volume and its copy on one machine: which of them may be mounted, and what the person is told."""

import json
import os
import shutil

import device
import harness
import states
from harness import protectfs, read_file, write_file

BUSY = 6
CHECK_FAILED = 8


def filled(environment):
    volume = environment.volume()
    mount = environment.mount(volume)
    write_file(mount / "kept", b"kept")
    mount.unmount()
    return volume


def copied(environment, volume, how=("cp", "-a")):
    path = environment.new_path("copy")
    harness.run(*how, volume.path, path)
    return harness.Volume(path, volume.data, volume.code_file, volume.passphrase_file)


def tried(environment, volume, *words):
    """Exit code and words of a mount."""
    path = environment.new_path("mount")
    os.mkdir(path, mode=0o500)
    done = protectfs("mount", *words, "--recovery-file", volume.code_file, volume.path, path, env=volume.environment, ok=False)
    if done.returncode == 0:
        environment.mounts.append(harness.Mount(volume, path))
    return done


def state_files(volume):
    return sorted(name.split(".", 1)[1] for name in os.listdir(states.directory(volume)) if name.endswith(".state"))


def test_beside_a_mount(environment):
    """The first writable mount of a copy while the other one is mounted is refused; it leaves no trace, and a word allows it."""
    volume = filled(environment)
    first = environment.mount(volume)
    copy = copied(environment, volume)
    done = tried(environment, copy)
    environment.cell("refused", (BUSY, []),
                     (done.returncode, [word for word in (copy.path, volume.path, "-o ro", "--accept-copy") if word not in done.stderr]))
    environment.cell("no trace", ["state"], state_files(volume))
    done = tried(environment, copy, "-o", "ro")
    environment.cell("read-only", (0, ""), (done.returncode, done.stderr))
    environment.mounts[-1].unmount()
    done = tried(environment, copy, "--accept-copy")
    environment.cell("with the word", (0, True), (done.returncode, "which is still there" in done.stderr))
    write_file(environment.mounts[-1] / "new", b"of the copy")
    write_file(first / "new", b"of the volume")
    environment.mounts[-1].unmount()
    first.unmount()
    environment.cell("its own state file", ["2.state", "state"], state_files(volume))
    # The place is known now, and nobody is asked again.
    first = environment.mount(volume)
    done = tried(environment, copy)
    environment.cell("known", (0, ""), (done.returncode, done.stderr))
    environment.cell("each has its own", (b"of the volume", b"of the copy"),
                     (read_file(first / "new"), read_file(environment.mounts[-1] / "new")))
    environment.mounts[-1].unmount()
    first.unmount()
    for one in (volume, copy):
        environment.cell("sound", 0, protectfs("fsck", "--recovery-file", one.code_file, one.path, env=one.environment, ok=False).returncode)


def test_beside_a_check(environment):
    """A check that repairs counts as a mount: with a copy that is mounted by another state file it has nothing to do."""
    volume = filled(environment)
    copy = copied(environment, volume)
    environment.mount(copy)
    done = protectfs("fsck", "--recovery-file", volume.code_file, volume.path, env=volume.environment, ok=False)
    environment.cell("the original is checked", 0, done.returncode)


def test_what_is_said(environment):
    """A copy, a volume that was moved, one that was restored in place, and one that was renamed are told apart."""
    volume = filled(environment)
    copy = copied(environment, volume)
    done = tried(environment, copy)
    environment.cell("a copy", (0, True, True),
                     (done.returncode, volume.path in done.stderr, "which is still there" in done.stderr))
    environment.mounts[-1].unmount()
    # Moved to another file system, as far as this machine can see: other inodes, and nothing at the old place.
    moved = copied(environment, volume)
    shutil.rmtree(volume.path)
    done = tried(environment, moved)
    environment.cell("moved", (0, True, False), (done.returncode, "is not there now" in done.stderr, "still there" in done.stderr))
    environment.mounts[-1].unmount()
    environment.cell("moved, again", "", tried(environment, moved).stderr)
    environment.mounts[-1].unmount()
    # Renamed within its file system.
    os.rename(moved.path, moved.path + " renamed")
    moved.path += " renamed"
    environment.cell("renamed", "", tried(environment, moved).stderr)
    environment.mounts[-1].unmount()
    # Restored at its own path: other inodes, and the same place.
    backup = copied(environment, moved)
    shutil.rmtree(moved.path)
    harness.run("cp", "-a", backup.path, moved.path)
    done = tried(environment, moved)
    environment.cell("restored in place", (0, ""), (done.returncode, done.stderr))
    environment.mounts[-1].unmount()


def test_restored_in_place_of_a_mounted_one(environment):
    """The mounted directory was moved away, and a copy is at its path: by their state file they are one store."""
    volume = filled(environment)
    first = environment.mount(volume)
    write_file(first / "open", b"open")
    state = states.path(volume)
    away = volume.path + " away"
    os.rename(volume.path, away)
    harness.run("cp", "-a", away, volume.path)
    before = states.read(state)
    for words in ((), ("--accept-copy",), ("-o", "recover")):
        done = tried(environment, volume, *words)
        environment.cell(f"refused {words}", (BUSY, True), (done.returncode, "mounted" in done.stderr))
    done = protectfs("fsck", "--recovery-file", volume.code_file, volume.path, env=volume.environment, ok=False)
    environment.cell("fsck, too", (CHECK_FAILED, True), (done.returncode, "mounted" in done.stderr))
    done = protectfs("fsck", "-n", "--recovery-file", volume.code_file, volume.path, env=volume.environment, ok=False)
    environment.cell("fsck -n reads", True, done.returncode in (0, 4))
    environment.cell("the state file is as it was", True, states.read(state) == before)
    shutil.rmtree(volume.path)
    os.rename(away, volume.path)
    first.unmount()
    environment.cell("the session is closed", [], states.open_epochs(states.read(state)))


def test_a_copy_of_a_whole_file_system(environment):
    """A snapshot block by block has the same inode, birth and file system: nothing tells it from the original but the mount."""
    if os.geteuid() != 0:
        raise harness.Skip("loop devices need root")
    host = environment.volume()
    image, other = environment.new_path("image"), environment.new_path("snapshot")
    device.make_image("ext4", image, None)
    places = []

    def attached(file):
        place = environment.new_path("disk")
        os.mkdir(place)
        if harness.run("mount", "-o", "loop", file, place, ok=False).returncode != 0:
            raise harness.Skip("loop devices cannot be mounted here")
        places.append(place)
        return harness.Volume(place + "/volume", host.data, host.code_file, host.passphrase_file)

    try:
        volume = attached(image)
        shutil.copytree(host.path, volume.path, symlinks=True)
        first = environment.mount(volume)
        write_file(first / "kept", b"kept")
        harness.sync(first.path)
        harness.sync(places[0])
        shutil.copyfile(image, other)
        snapshot = attached(other)
        done = tried(environment, snapshot)
        environment.cell("refused", (BUSY, True, True),
                         (done.returncode, volume.path in done.stderr, "snapshot of its whole file system" in done.stderr))
        done = protectfs("fsck", "--recovery-file", host.code_file, snapshot.path, env=snapshot.environment, ok=False)
        environment.cell("fsck, too", (CHECK_FAILED, True), (done.returncode, volume.path in done.stderr))
        environment.cell("read-only", 0, tried(environment, snapshot, "-o", "ro").returncode)
        environment.cell("what it has", b"kept", read_file(environment.mounts[-1] / "kept"))
        environment.mounts[-1].unmount()
        write_file(first / "more", b"more")
        first.unmount()
        environment.cell("the session is closed", [], json.loads(
            protectfs("info", "--json", volume.path, env=volume.environment).stdout)["openEpochs"])
    finally:
        for mounted in environment.mounts:
            if mounted.is_mounted:
                mounted.unmount()
        for place in places:
            harness.run("umount", place, ok=False)


def test_after_a_crash(environment):
    """A daemon that was killed claims nothing."""
    volume = filled(environment)
    mount = environment.mount(volume)
    write_file(mount / "new", b"new")
    mount.crash()
    copy = copied(environment, volume)
    environment.cell("the copy", 0, tried(environment, copy).returncode)
    environment.mounts[-1].unmount()
    environment.cell("the volume", 0, tried(environment, volume).returncode)
    environment.mounts[-1].unmount()
