"""Saves by everyday programs: a name keeps its class, and a family of names shares the strongest."""

import os

import saves
from harness import CLASSES, REPOSITORY, Skip, get_class, outcome, set_class, write_file


def test_programs(environment):
    """The table of docs/use/saves.md; a mount that knows no families shows what would be otherwise."""
    with open(os.path.join(REPOSITORY, "docs/use/saves.md"), encoding="utf-8") as file:
        documented = file.read()
    mount, without = environment.mount(), environment.mount(options=("no_family_class",))
    outside = [environment.new_path("outside") for _ in range(2)]
    for row in saves.ROWS:
        environment.cell(f"[{row.name}: documented]", True, row.line in documented)
        try:
            environment.cell(f"[{row.name}]", row.after, row.run(mount, outside[0])[0])
            environment.cell(f"[{row.name}, no_family_class]", row.without, row.run(without, outside[1])[0])
        except Skip as reason:
            environment.skip(f"[{row.name}]", reason)


def create(path, content=b"x"):
    handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    os.write(handle, content)
    os.close(handle)


def test_while_locked(environment):
    """What belongs to a class A file cannot be made; what belongs to one of class B can, and is closed afterwards."""
    mount = environment.mount()
    for letter in "ABC":
        create(mount / letter)
        set_class(mount / letter, letter)
    create(mount / "gone")
    set_class(mount / "gone", "A")
    os.unlink(mount / "gone")
    mount.lock()
    before = sorted(os.listdir(mount.path))
    for name in ("A~", ".A.swp", "A-wal", "gone"):
        environment.cell(f"[{name}]", "EACCES", outcome(create, mount / name))
    environment.cell("[no entry left behind]", before, sorted(os.listdir(mount.path)))
    os.unlink(mount / "A")
    environment.cell("[removed while locked]", "EACCES", outcome(create, mount / "A"))
    for name in ("B~", "C~", "plain"):
        environment.cell(f"[{name}]", "works", outcome(create, mount / name))
    environment.cell("[B~ afterwards]", "EACCES", outcome(os.open, mount / "B~", os.O_RDONLY))
    environment.cell("[classes]", [CLASSES[letter] for letter in "BCC"],
                     [get_class(mount / name) for name in ("B~", "C~", "plain")])
    os.symlink("somewhere", mount / ".#gone")
    mount.unlock()
    environment.cell("[unlocked]", "works", outcome(create, mount / "A"))
    environment.cell("[its class]", CLASSES["A"], get_class(mount / "A"))


def test_mounted_again(environment):
    """A directory of before: what is in it is found without a list of it."""
    mount = environment.mount()
    os.mkdir(mount / "d")
    for name in ("diary~", "ü.bak", "l" * 250 + "~", "other"):
        create(os.path.join(mount / "d", name))
        set_class(os.path.join(mount / "d", name), "A")
    mount = environment.remount(mount)
    for name, letter in {"diary": "A", "ü": "A", "l" * 250: "A", "other~": "A", "another": "C", "letter.tmp": "C"}.items():
        path = os.path.join(mount / "d", name)
        create(path)
        environment.cell(f"[{name[:10]}]", CLASSES[letter], get_class(path))
    # A file that is renamed into a family keeps its class; so does one that a second name brings there.
    os.rename(os.path.join(mount / "d", "another"), os.path.join(mount / "d", ".diary.swp"))
    write_file(mount / "linked", b"x")
    os.link(mount / "linked", os.path.join(mount / "d", "diary-wal"))
    environment.cell("[renamed and linked]", [CLASSES["C"]] * 2,
                     [get_class(os.path.join(mount / "d", name)) for name in (".diary.swp", "diary-wal")])


def test_names_given_up_while_closed(environment):
    """What is removed or renamed while its class is closed leaves its own class to its name, and no stronger one."""
    mount = environment.mount()
    os.mkdir(mount / "spool")
    set_class(mount / "spool", "B")
    for name in ("pid", "log", "kept", "spool/index", "spool/log", "spool/kept"):
        write_file(mount / name, b"old")
    for name in ("kept", "spool/kept"):
        set_class(mount / name, "A")
    mount = environment.remount(mount, unlock=False)
    for name in ("pid", "spool/index", "kept", "spool/kept"):
        os.unlink(mount / name)
    for name in ("log", "spool/log"):
        os.rename(mount / name, mount / f"{name}.1")
    for name in ("spool/index", "spool/log"):
        environment.cell(f"{name}: made anew before first unlock", "works", outcome(write_file, mount / name, b"new"))
    environment.cell("of class A: not made anew", "EACCES", outcome(write_file, mount / "spool/kept", b"new"))
    mount.unlock()
    for name in ("pid", "log", "kept", "spool/kept"):
        write_file(mount / name, b"new")
    environment.cell("classes", dict.fromkeys(("pid", "log"), CLASSES["C"]) | dict.fromkeys(
        ("spool/index", "spool/log"), CLASSES["B"]) | dict.fromkeys(("kept", "spool/kept"), CLASSES["A"]), {
            name: get_class(mount / name) for name in ("pid", "log", "spool/index", "spool/log", "kept", "spool/kept")})


def test_access_times(environment):
    """Nobody has read a file of which the class is looked up: a mailbox with a new lock beside it stays unread."""
    mount = environment.mount()
    for name in ("mbox", "moved", "shown"):
        write_file(mount / name, b"x")
    mount = environment.remount(mount)
    for name in ("mbox", "moved", "shown"):
        os.utime(mount / name, (1_600_000_000, 1_700_000_000))
    write_file(mount / "mbox.lock", b"")
    os.rename(mount / "moved", mount / "here")
    mount = environment.remount(mount)
    get_class(mount / "shown")
    mount = environment.remount(mount)
    environment.cell("access times", [1_600_000_000] * 3,
                     [int(os.stat(mount / name).st_atime) for name in ("mbox", "here", "shown")])
