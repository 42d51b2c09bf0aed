"""Volumes whose state file is then changed, and what a refusal because of it must say."""

import contextlib
import os

import harness
import states
from harness import Skip, read_file, set_class, write_file

WAY_OUT = "protectfs fsck --forget-state"


def named(error, place, *words):
    """What the message lacks: it is one line, which names the file and says the words."""
    lines = [line for line in error.strip().splitlines() if "copy of the volume" not in line]
    return [word for word in (place, *words) if len(lines) != 1 or word not in lines[0]] and error


def seen(environment):
    """A volume that this machine has mounted, with a file in it."""
    volume = environment.volume()
    mount = environment.mount(volume)
    write_file(mount / "kept", b"kept")
    set_class(mount / "kept", "A")
    mount.unmount()
    return volume


@contextlib.contextmanager
def small_directory(volume, size="64k"):
    """The directory of state files on a file system of its own, of 64 KiB if nothing else is said; gives its path."""
    place = states.directory(volume)
    content = {name: read_file(os.path.join(place, name)) for name in os.listdir(place)}
    if harness.run("mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "none", place, ok=False).returncode != 0:
        raise Skip("tmpfs cannot be mounted here")
    try:
        for name, data in content.items():
            states.put(os.path.join(place, name), data)
        yield place
    finally:
        harness.run("umount", "-l", place, ok=False)


def fill(place):
    """Fills the file system of a directory, by a file `ballast`."""
    with contextlib.suppress(OSError), open(os.path.join(place, "ballast"), "wb") as ballast:
        while True:
            ballast.write(bytes(4096))
            ballast.flush()


def read_only(place):
    harness.run("mount", "-o", "remount,ro", place)
