"""A volume on a file system of its own, whose disk a test can fill, fail, hang or take away."""

import contextlib
import errno
import json
import os
import shutil

import device
import harness
from checks import errors


class Store:
    """A file system on a disk of `device`, with a volume on it; device key and state file are elsewhere."""

    def __init__(self, environment, kind="ext4", size=None, options=""):
        self.environment, self.kind, self.options = environment, kind, options
        image_file, self.place = environment.new_path("image"), environment.new_path("disk")
        self.backing, self.point = environment.new_path("backing"), environment.new_path("mount")
        device.make_image(kind, image_file, size)
        self.image = device.load_image(image_file)
        self.attach()
        host = environment.volume()
        shutil.copytree(host.path, self.backing + "/volume", symlinks=True)
        harness.sync(self.backing)
        self.volume = harness.Volume(self.backing + "/volume", host.data, host.code_file, host.passphrase_file)

    def attach(self):
        self.disk = device.Disk(self.image, self.place)
        device.mount_disk(self.kind, self.disk.loop, self.backing, self.options)

    def detach(self):
        device.unmount_disk(self.backing)
        self.disk.end()

    def mount(self, options=()):
        self.mounted = self.environment.mount(self.volume, path=self.point, options=options)
        return self.mounted

    def forget_pages(self):
        """Drops what the kernel has cached of the backing files, so that reading asks the disk."""
        harness.sync(self.backing)
        for directory, _, files in os.walk(self.volume.path):
            for name in files:
                path = os.path.join(directory, name)
                if not os.path.islink(path):
                    handle = os.open(path, os.O_RDONLY)
                    os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
                    os.close(handle)

    def open_epochs(self):
        return json.loads(harness.protectfs("info", "--json", self.volume.path,
                                                    env=self.volume.environment).stdout)["openEpochs"]

    def check(self, name):
        """fsck finds no error."""
        self.environment.cell(f"{name}: errors that fsck finds", [], errors(self.volume))

    def close(self):
        """Takes all away, whatever state it is in."""
        with contextlib.suppress(OSError):
            self.disk.order("resume")
            self.disk.order("fail", 0)
        mounted = getattr(self, "mounted", None)
        if mounted and mounted.is_mounted:
            mounted.command("unmount", mounted.path, ok=False)
        harness.Mount(self.volume, self.point).crash()
        self.detach()
        os.close(self.image)


@contextlib.contextmanager
def store(environment, kind="ext4", size=None, options=""):
    """With a store, which is taken away at the end."""
    if os.geteuid() != 0:
        raise harness.Skip("loop devices need root")
    made = Store(environment, kind, size, options)
    try:
        yield made
    finally:
        made.close()


def save(path, content, flags=os.O_TRUNC, synced=True):
    """Writes, syncs and closes: "works", or the errno and which call it came from."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | flags, 0o644)
    except OSError as error:
        return named(error, "open")
    try:
        done = 0
        while done < len(content):
            done += os.write(handle, content[done:done + (1 << 18)])
    except OSError as error:
        with contextlib.suppress(OSError):
            os.close(handle)
        return named(error, "write")
    try:
        if synced:
            os.fsync(handle)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.close(handle)
        return named(error, "fsync")
    try:
        os.close(handle)
    except OSError as error:
        return named(error, "close")
    return "works"


def write_and_close(path, content):
    """The same without fsync, in a file that may be there: what close(2) says."""
    return save(path, content, flags=0, synced=False)


def named(error, call):
    return f"{errno.errorcode.get(error.errno, error.errno)} at {call}"
