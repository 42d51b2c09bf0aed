"""Programs that import FileProtection, at the edges of Foundation's promises: nothing is lost that Foundation would keep."""

import os

from harness import CLASSES, get_class, read_file, set_class, write_file
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


def test_copies(environment):
    """Names that are no text are copied; no tree goes into itself; a delegate is asked; a name that is too long is said."""
    mount = environment.mount()
    examples = Examples(environment, mount)
    root = os.fsencode(mount.path)
    for folder in (b"bytes", b"bytes/d\xff", b"tree", b"tree/below"):
        os.mkdir(os.path.join(root, folder))
    os.symlink(b"to\xff", os.path.join(root, b"bytes/d\xff/link\xfe"))
    for name in (b"bytes/d\xff/f\xff", b"bytes/last", b"tree/one", b"tree/refused"):
        write_file(os.path.join(root, name), name)
    set_class(os.path.join(root, b"bytes/d\xff"), "B")
    set_class(os.path.join(root, b"bytes/d\xff/f\xff"), "A")
    examples.says("UNL", [
        "no text: ok", "into itself: CocoaError 512 errno 22", "asked: ok", "not at all: ok", "goes on: ok",
        "below?, one 516, one?, one?, refused?, refused?, tree?",
        "long, written: CocoaError 514 errno 36", "long, copied: CocoaError 514 errno 36", "long, read: CocoaError 258 errno 36",
    ], "copies")
    copied = os.path.join(root, b"bytes.copied")
    environment.cell("names", [b"d\xff", b"last"], sorted(os.listdir(copied)))
    environment.cell("content", b"bytes/d\xff/f\xff", read_file(os.path.join(copied, b"d\xff/f\xff")))
    environment.cell("link", b"to\xff", os.readlink(os.path.join(copied, b"d\xff/link\xfe")))
    environment.cell("classes", [CLASSES["B"], CLASSES["A"]],
                     [get_class(os.path.join(copied, name)) for name in (b"d\xff", b"d\xff/f\xff")])
    environment.cell("into itself", [], os.listdir(mount / "tree/below"))
    environment.cell("asked", ["below", "one"], sorted(os.listdir(mount / "asked")))
    environment.cell("not at all", False, os.path.exists(mount / "not at all"))
    examples.no_debris()
