"""Two daemons serve one store (-o shared) on other file systems than ext4, and on GlusterFS, each on a mount of its own."""

import contextlib
import os
import shutil

import device
import harness
import sides
from checks import errors
from replicas import SHARED, UNCACHED, directory, glusterfs
from test_losing_store import new_volume
from test_shared import two_mounts

LOCAL = (sides.content, sides.appended, sides.counted, sides.filled, sides.conflicts)


def compare(environment, one, other, actions):
    """Each action on the two mounts as in one directory below."""
    for action in actions:
        places = [os.path.join(mount.path, action.__name__) for mount in (one, other)]
        os.mkdir(places[0])
        harness.wait_until(lambda: os.path.isdir(places[1]), what="the directory")
        for wanted, seen in zip(action(*[directory(environment, "below")] * 2), action(*places)):
            environment.cell(f"[{action.__name__}: {wanted[0]}]", wanted, seen)


class Place:
    def __init__(self, path):
        self.path = path


@contextlib.contextmanager
def store(environment, kind):
    """A directory on a file system of this kind."""
    path = directory(environment, kind)
    if kind == "tmpfs":
        harness.run("mount", "-t", "tmpfs", "tmpfs", path)
    elif kind == "overlay":
        base = directory(environment, "base")
        harness.run("mount", "-t", "tmpfs", "tmpfs", base)
        for name in ("lower", "upper", "work"):
            os.mkdir(os.path.join(base, name))
        harness.run("mount", "-t", "overlay", "-o", f"lowerdir={base}/lower,upperdir={base}/upper,workdir={base}/work", "overlay", path)
    else:
        image = environment.new_path("image")
        device.make_image(kind, image, None)
        harness.run("mount", "-o", "loop", image, path)
    try:
        yield Place(path)
    finally:
        harness.run("umount", "-l", path, ok=False)
        if kind == "overlay":
            harness.run("umount", "-l", base, ok=False)


def on(environment, kind):
    if os.geteuid() != 0:
        raise harness.Skip("only root may mount file systems")
    with store(environment, kind) as place:
        one, other = two_mounts(environment, new_volume(environment, place))
        compare(environment, one, other, LOCAL)
        one.unmount()
        other.unmount()
        environment.cell("[errors that fsck finds]", [], errors(one.volume))


def test_xfs(environment):
    on(environment, "xfs")


def test_btrfs(environment):
    on(environment, "btrfs")


def test_tmpfs(environment):
    on(environment, "tmpfs")


def test_overlayfs(environment):
    on(environment, "overlay")


def test_glusterfs(environment):
    """Each daemon has a mount of its own, as on two machines."""
    if environment.mode == "quick":
        raise harness.Skip("GlusterFS takes a minute: --mode usual")
    if os.geteuid() != 0:
        raise harness.Skip("only root may mount GlusterFS")
    if not shutil.which("glusterd"):
        raise harness.Skip("glusterd is not installed: mount-scripts/packages servers")
    paths = [directory(environment, "gluster") for _ in range(2)]
    with glusterfs(environment, *paths, off=SHARED, options=UNCACHED):
        volume = new_volume(environment, Place(paths[0]))
        again = harness.Volume(paths[1] + "/volume", volume.data, volume.code_file, volume.passphrase_file)
        one, other = [environment.mount(each, options=("shared",)) for each in (volume, again)]
        actions = (sides.content, sides.held_open, sides.attributes, sides.names, sides.appended, sides.counted, sides.filled,
                   sides.conflicts, sides.databases)
        compare(environment, one, other, actions)
        with sides.holder(one / "locked", sides.fcntl.lockf, makes=True), sides.holder(one / "locked", sides.fcntl.flock):
            one.crash()
            with open(other / "locked", "r+b") as file:
                for lock in (sides.fcntl.lockf, sides.fcntl.flock):
                    environment.cell(f"[{lock.__name__} after a crash]", "works", harness.outcome(lock, file, sides.fcntl.LOCK_EX))
        environment.cell("[the other side goes on]", "works", harness.outcome(harness.write_file, other / "after", b"content"))
        other.unmount()
        environment.cell("[errors that fsck finds]", [], errors(volume))
