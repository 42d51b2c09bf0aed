"""Former class keys stay in the keybag after a rotation, for backups, until a person says that they are made anew."""

import os
import shutil

import harness
import reader
from harness import protectfs, read_file
from rotation import FAILURE, USAGE, fill, generations, retire, rotate, shown, take_code

KEY_TYPES = (1, 2, 3, 4, 7)


def kept(volume):
    """The generations of class keys in the keybag."""
    return {number for (kind, number) in reader.unlock(volume, with_passphrase=True).keys.every if kind in KEY_TYPES}


def restored(environment, volume, backup):
    """The backup on a machine that has the device key and has never seen the volume."""
    place = environment.new_path("restored")
    shutil.copytree(backup, os.path.join(place, "volume"), symlinks=True)
    os.makedirs(os.path.join(place, "data", "protectfs"))
    shutil.copy(reader.device_key_file(volume), os.path.join(place, "data", "protectfs"))
    return harness.Volume(os.path.join(place, "volume"), os.path.join(place, "data"), volume.code_file,
                          volume.passphrase_file)


def test_backup_with_the_new_keybag(environment):
    """A backup by size and time copies the new keybag and leaves the files out: it opens until the keys are retired."""
    volume = environment.volume()
    mount = environment.mount(volume)
    contents = fill(mount)
    mount.unmount()
    backup = environment.new_path("backup")
    shutil.copytree(volume.path, backup, symlinks=True)

    def by_size_and_time():
        """What such a tool copies when each file has the size and time of before."""
        shutil.copy2(reader.keybag_file(volume), os.path.join(backup, ".protectfs.keybag"))

    done = rotate(volume, retires=False)
    take_code(environment, volume, done)
    environment.cell("says what to do", True, "keys retire" in done.stdout)
    by_size_and_time()
    environment.cell("generations", ([0], [1], {0, 1}), (generations(backup), generations(volume.path), kept(volume)))
    found = environment.mount(restored(environment, volume, backup))
    environment.cell("the backup", contents, shown(found, contents))
    found.unmount()
    take_code(environment, volume, retire(volume))
    environment.cell("retired", {1}, kept(volume))
    by_size_and_time()
    found = environment.mount(restored(environment, volume, backup))
    environment.cell("afterwards", {os.strerror(95)}, {text for path, text in shown(found, contents).items()
                                                       if path != "empty"})
    found.unmount()
    found = environment.mount(restored(environment, volume, volume.path))
    environment.cell("a backup made anew", contents, shown(found, contents))
    found.unmount()


def test_not_while_a_file_needs_one(environment):
    """A file with two names needs the former key: nothing is retired, and the file is named."""
    volume = environment.volume()
    done = retire(volume, ok=False)
    environment.cell("nothing to retire", (USAGE, True), (done.returncode, "no former keys" in done.stderr))
    mount = environment.mount(volume)
    harness.write_file(mount / "one", b"two names")
    os.link(mount / "one", mount / "two")
    mount.unmount()
    take_code(environment, volume, rotate(volume, ok=False, retires=False))
    before = read_file(reader.keybag_file(volume))
    done = retire(volume, ok=False)
    environment.cell("refused", (FAILURE, True), (done.returncode, "needs generation 0" in done.stderr))
    environment.cell("nothing was changed", True, before == read_file(reader.keybag_file(volume)))
    mount = environment.mount(volume)
    os.unlink(mount / "one")
    mount.unmount()
    take_code(environment, volume, rotate(volume, retires=False))
    environment.cell("no further keys were made", {0, 1}, kept(volume))
    take_code(environment, volume, retire(volume))
    environment.cell("retired", {1}, kept(volume))
    mount = environment.mount(volume)
    environment.cell("reads", b"two names", read_file(mount / "two"))


def test_mounted(environment):
    """Rotations of a mounted volume keep the keys of each before, and retiring takes all of them out beside the mount."""
    volume = environment.volume()
    mount = environment.mount(volume)
    contents = fill(mount)
    take_code(environment, volume, rotate(volume, retires=False))
    take_code(environment, volume, rotate(volume, retires=False))
    environment.cell("two rotations", ([2], {0, 1, 2}), (generations(volume.path), kept(volume)))
    environment.cell("contents", contents, shown(mount, contents))
    take_code(environment, volume, retire(volume))
    environment.cell("retired", {2}, kept(volume))
    mount.lock()
    mount.unlock()
    environment.cell("after a lock", contents, shown(mount, contents))
    mount.unmount()
    environment.cell("fsck", 0, protectfs("fsck", "--recovery-file", volume.code_file, volume.path,
                                          env=volume.environment, ok=False).returncode)
