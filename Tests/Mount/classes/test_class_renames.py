"""Classes and renames: a save by rename keeps the class; a staging directory gives one before the first byte."""

import os

from harness import CLASSES, PAGE, get_class, make_file, outcome, pattern, read_file, set_class, write_file

CONTENT = pattern(2 * PAGE + 50, seed=3)


def replace(mount, name, content):
    """A save as editors make it."""
    # By a name that does not say whose it is, as sed's: one that does would get the class when it is made.
    new = os.path.join(os.path.dirname(mount / name), "saved." + os.path.basename(name))
    write_file(new, content)
    os.rename(new, mount / name)


def test_save_by_rename(environment):
    mount = environment.mount()
    new = pattern(PAGE + 5, seed=8)
    for letter in "ABCD":
        make_file(mount / letter, letter, CONTENT)
        replace(mount, letter, new)
        kept = letter if letter in "AB" else "C"
        environment.cell(f"[inherited C over {letter}]", CLASSES[kept], get_class(mount / letter))
        environment.cell(f"[inherited C over {letter}: content]", True, read_file(mount / letter) == new)
    for letter in "ABCD":
        for chosen in "ABCD":
            make_file(mount / "old", letter, CONTENT)
            make_file(mount / "new", chosen, new)
            os.rename(mount / "new", mount / "old")
            environment.cell(f"[chosen {chosen} over {letter}]", CLASSES[chosen], get_class(mount / "old"))
            environment.cell(f"[chosen {chosen} over {letter}: content]", True, read_file(mount / "old") == new)
    # The file replaced is open and goes on under its own class; the new one is open as well.
    make_file(mount / "old", "A", CONTENT)
    old = os.open(mount / "old", os.O_RDWR)
    write_file(mount / "new", new)
    fresh = os.open(mount / "new", os.O_RDWR)
    os.rename(mount / "new", mount / "old")
    mount.lock()
    environment.cell("[replaced, open]", "EACCES", outcome(os.pread, old, 10, 0))
    environment.cell("[replacing, open]", "EACCES", outcome(os.pread, fresh, 10, 0))
    mount.unlock()
    environment.cell("[replaced, content]", True, os.pread(old, 3 * PAGE, 0) == CONTENT)
    environment.cell("[replacing, content]", True, os.pread(fresh, 3 * PAGE, 0) == new)
    os.close(old)
    os.close(fresh)


def test_save_by_rename_while_locked(environment):
    mount = environment.mount()
    new = pattern(PAGE + 5, seed=8)
    for letter in "ABCD":
        make_file(mount / letter, letter, CONTENT)
    mount.lock()
    for letter, wanted in {"A": "EACCES", "B": "works", "C": "works", "D": "works"}.items():
        environment.cell(f"[inherited C over {letter} at LCK]", wanted, outcome(replace, mount, letter, new))
    environment.cell("[the new file stays]", True, os.path.exists(mount / "saved.A"))
    environment.cell("[B stays B]", CLASSES["B"], get_class(mount / "B"))
    mount.unlock()
    environment.cell("[A is what it was]", True, read_file(mount / "A") == CONTENT and get_class(mount / "A") == CLASSES["A"])
    environment.cell("[saved.A is C]", CLASSES["C"], get_class(mount / "saved.A"))
    environment.cell("[contents]", [True] * 4,
                     [read_file(mount / name) == new for name in ("saved.A", "B", "C", "D")])
    # Before first unlock, with a new file of class none, inherited.
    os.mkdir(mount / "d")
    set_class(mount / "d", "D")
    for letter in "ABCD":
        make_file(mount / f"d/{letter}", letter, CONTENT)
    mount = environment.remount(mount, unlock=False)
    for letter, wanted in {"A": "EACCES", "B": "works", "C": "EACCES", "D": "works"}.items():
        environment.cell(f"[inherited D over {letter} at BFU]", wanted, outcome(replace, mount, f"d/{letter}", new))
    mount.unlock()
    environment.cell("[B at BFU]", (CLASSES["B"], True), (get_class(mount / "d/B"), read_file(mount / "d/B") == new))
    environment.cell("[C at BFU]", (CLASSES["C"], True), (get_class(mount / "d/C"), read_file(mount / "d/C") == CONTENT))


def stage(mount, letter, name, content):
    """Creates a file with a class, by plain POSIX calls; gives the handle."""
    staging = mount / f".staging-{name}"
    os.mkdir(staging)
    set_class(staging, letter)
    handle = os.open(os.path.join(staging, name), os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    os.rename(os.path.join(staging, name), mount / name)
    os.rmdir(staging)
    os.write(handle, content)
    return handle


def test_staging_directory(environment):
    mount = environment.mount()
    states = [("UNL", "ABCD"), ("LCK", "BCD"), ("BFU", "BD")]
    for state, letters in states:
        if state == "LCK":
            mount.lock()
        elif state == "BFU":
            mount = environment.remount(mount, unlock=False)
        for letter in letters:
            name = f"{state}-{letter}"
            handle = stage(mount, letter, name, CONTENT)
            environment.cell(f"[{name}: class]", CLASSES[letter], get_class(mount / name))
            environment.cell(f"[{name}: content]", True, os.pread(handle, 3 * PAGE, 0) == CONTENT)
            os.close(handle)
        if state == "LCK":
            environment.cell("[LCK A]", "EACCES", outcome(stage, mount, "A", "LCK-A", CONTENT))
    mount.unlock()
    for state, letters in states:
        for letter in letters:
            environment.cell(f"[{state}-{letter}: content after unlock]", True,
                             read_file(mount / f"{state}-{letter}") == CONTENT)
