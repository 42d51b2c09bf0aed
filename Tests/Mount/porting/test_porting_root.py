"""The root of a mount for programs: its state for other users, the volume's default class, raw values."""

import os

from harness import CLASSES, as_user, get_class, outcome, pattern, set_class, write_file
from refusals import code_of

CONTENT = pattern(5000)
RAW = {"A": "NSFileProtectionComplete", "B": "NSFileProtectionCompleteUnlessOpen",
       "C": "NSFileProtectionCompleteUntilFirstUserAuthentication", "D": "NSFileProtectionNone",
       "7": "NSFileProtectionCompleteWhenUserInactive"}
UNKNOWN = "NSFileProtectionCompleteWhenUserAsleep"


def test_state_for_other_users(environment):
    """A user without access to the control socket reads the state if they may read the directory."""
    if os.geteuid() != 0:
        environment.skip("[another user]", "needs root")
        return
    mount = environment.mount(options=["allow_other"], unlock=False)
    os.chmod(mount.path, 0o755)

    def read(wanted):
        def action():
            value = os.getxattr(mount.path, "user.protectfs.state").decode()
            assert value == wanted, value
        return as_user(1234, action)

    environment.cell("[BFU]", "works", read("before-first-unlock"))
    mount.unlock()
    environment.cell("[UNL]", "works", read("unlocked"))
    mount.lock()
    environment.cell("[LCK]", "works", read("locked"))
    environment.cell("[cannot be set]", True, as_user(
        1234, lambda: os.setxattr(mount.path, "user.protectfs.state", b"unlocked")).startswith("E"))
    os.chmod(mount.path, 0o700)
    environment.cell("[not where the directory is closed to him]", "EACCES", read("locked"))


def test_volume_default(environment):
    """The class that `class set` gives to the root is the volume's: the entitlement's role."""
    mount = environment.mount(options=["default_class=none"])
    os.makedirs(mount / "old/inner")
    os.mkdir(mount / "own")
    set_class(mount / "own", "C")
    environment.cell("[status before]", CLASSES["D"], mount.status()["defaultClass"])
    for letter in RAW:
        mount.command("class", "set", RAW[letter], mount.path)
        environment.cell(f"[status says {letter}]", CLASSES[letter], mount.status()["defaultClass"])
        for place in ("", "old/", "old/inner/", "own/"):
            write_file(mount / f"{place}{letter}", CONTENT)
            wanted = CLASSES["C" if place == "own/" else letter]
            environment.cell(f"[root's {letter} in /{place}]", wanted, get_class(mount / f"{place}{letter}"))
    # Stored in the volume: in the next mount too, at every state, and before its option.
    mount.command("class", "set", RAW["B"], mount.path)
    again = environment.remount(mount, options=["default_class=none"], unlock=False)
    environment.cell("[status of the next mount]", CLASSES["B"], again.status()["defaultClass"])
    write_file(again / "old/inner/later", CONTENT)
    environment.cell("[in the next mount, at BFU]", CLASSES["B"], get_class(again / "old/inner/later"))
    set_class(again.path, "inherit")
    environment.cell("[status when taken away]", CLASSES["D"], again.status()["defaultClass"])
    write_file(again / "old/inner/last", CONTENT)
    environment.cell("[taken away: the option's]", CLASSES["D"], get_class(again / "old/inner/last"))
    again.unmount()
    shared = environment.mount(mount.volume, options=["shared"])
    set_class(shared.path, "A")
    write_file(shared / "old/shared", CONTENT)
    environment.cell("[-o shared]", CLASSES["A"], get_class(shared / "old/shared"))


def test_raw_values(environment):
    """The raw values of iOS wherever a class is named."""
    mount = environment.mount()
    os.mkdir(mount / "directory")
    write_file(mount / "file", CONTENT)
    for letter, raw in RAW.items():
        for name in ("file", "directory"):
            os.setxattr(mount / name, "user.protection", raw.encode())
            environment.cell(f"[{name}: setfattr {raw}]", CLASSES[letter], get_class(mount / name))
            set_class(mount / name, "D" if letter == "C" else "C")
            mount.command("class", "set", raw, mount / name)
            environment.cell(f"[{name}: class set {raw}]", CLASSES[letter], get_class(mount / name))
    code_of(environment, "class set: an unknown one", 2, "class", "set", UNKNOWN, mount / "file")
    environment.cell("[setfattr: an unknown one]", "EINVAL",
                     outcome(os.setxattr, mount / "file", "user.protection", UNKNOWN.encode()))
    mount.unmount()
    for letter, raw in RAW.items():
        optioned = environment.mount(mount.volume, options=[f"default_class={raw}"])
        write_file(optioned / f"by option {letter}", CONTENT)
        environment.cell(f"[default_class={raw}]", CLASSES[letter], get_class(optioned / f"by option {letter}"))
        optioned.unmount()
