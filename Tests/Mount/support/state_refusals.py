"""Volumes whose state file is then changed, and what a refusal because of it must say."""

from harness import set_class, write_file

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
