"""Programs that import FileProtection, at the edges of Foundation's promises: nothing is lost that Foundation would keep."""

import os

from harness import read_file, set_class, write_file
from porting_table import A
from test_porting import Examples


def place(mount, files):
    """files is {name: class letter}, each with its own name as content."""
    for name, letter in files.items():
        write_file(mount / name, name.encode())
        set_class(mount / name, letter)


def contents(mount):
    return {name: read_file(mount / name).decode() for name in sorted(os.listdir(mount.path)) if os.path.isfile(mount / name)}


def test_backups(environment):
    """A backup's name that is in use by one of the two files is refused; what fails leaves an older backup as it was."""
    mount = environment.mount()
    examples = Examples(environment, mount)
    place(mount, {"item": "C", "new": "A", "older": "D"})
    os.link(mount / "item", mount / "same")
    os.mkdir(mount / "folder")
    before = contents(mount)
    # The new file is complete, so that its copy into class C needs it open.
    mount.lock()
    refused = "CocoaError 516 errno 17"
    closed = f"CocoaError 257 EACCES {A} unavailable"
    examples.says("LCK", [f"{name}: {refused}" for name in ("item", "new", "./item", "same", "folder")]
                  + [f"closed: {closed}", f"closed, no older one: {closed}"], "backups", "refused")
    environment.cell("links", 2, os.stat(mount / "item").st_nlink)
    mount.unlock()
    environment.cell("nothing lost", before, contents(mount))
    examples.class_of("older", "D")
    os.unlink(mount / "same")
    examples.says("UNL", ["kept: ok", "removed: ok"], "backups", "kept")
    environment.cell("replaced", {"item": "third"}, contents(mount))
    examples.class_of("item", "C")
    examples.no_debris()
