"""Where the sides are: an ext4 image with a plain directory and with a volume, which is mounted."""

import os
import shutil
import subprocess

import harness

IMAGE_SIZE = 6 << 30


class Ground:
    """Gives fresh pairs of directories, and locks, unlocks and mounts again."""

    def __init__(self, environment, letter="C", options=()):
        self.environment, self.letter = environment, letter
        self.outside = os.open("/", os.O_RDONLY | os.O_DIRECTORY)
        self.disk = environment.new_path("disk")
        os.mkdir(self.disk)
        self.has_image = os.geteuid() == 0
        if self.has_image:
            self.make_image()
        self.plain = os.path.join(self.disk, "plain")
        os.mkdir(self.plain)
        made = environment.volume()
        volume = harness.Volume(os.path.join(self.disk, "volume"), made.data, made.code_file, made.passphrase_file)
        shutil.move(made.path, volume.path)
        words = ["allow_other", *options] if self.has_image else options
        self.words = words
        self.mount = environment.mount(volume, options=words)
        self.number = 0
        self.pairs = []

    def make_image(self):
        image = self.disk + ".ext4"
        with open(image, "wb") as file:
            file.truncate(IMAGE_SIZE)
        harness.run("mkfs.ext4", "-q", "-N", "600000", image)
        harness.run("mount", "-o", "loop,nosuid,nodev", image, self.disk)

    def fresh(self):
        """Two new directories: on ext4 and on the mount."""
        self.number += 1
        self.pair = [os.path.join(top, f"{os.getpid()}-{self.number}") for top in (self.plain, self.mount.path)]
        for path in self.pair:
            os.mkdir(path)
            os.chmod(path, 0o777)
        if self.letter != "C":
            harness.set_class(self.pair[1], self.letter)
        return self.pair

    def clear(self):
        """Removes the last pair."""
        for path in self.pair:
            remove(path)

    def lock(self):
        self.mount.lock()

    def unlock(self):
        self.mount.unlock()

    def remount(self):
        # Pages that the store refuses, as of a file that became immutable, keep a session open.
        self.mount = self.environment.remount(self.mount, may_stay_open=True, options=self.words)

    def crash(self):
        """Kills the daemon, and mounts again."""
        self.mount.crash()
        self.mount = self.environment.mount(self.mount.volume, path=self.mount.path, options=self.words)

    def close(self):
        """Takes all away."""
        os.fchdir(self.outside)
        try:
            if self.mount.is_mounted:
                self.mount.unmount(may_stay_open=True)
        finally:
            if self.has_image:
                harness.detach(self.disk)
                os.unlink(self.disk + ".ext4")


def remove(path):
    """Removes a tree, whatever flags and permissions its files have."""
    try:
        shutil.rmtree(os.fsencode(path))
    except OSError:
        for words in (["chattr", "-R", "-ia"], ["chmod", "-R", "u+rwx"]):
            subprocess.run([*words, path], stderr=subprocess.DEVNULL, check=False)
        subprocess.run(["rm", "-rf", path], stderr=subprocess.PIPE, check=True)
