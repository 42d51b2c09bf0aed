"""Programs with FileProtection at the limits of Foundation's promises: nothing is lost that Foundation would keep."""

import os
import shutil

import future
from harness import CLASSES, get_class, read_file, run, set_class, write_file
from porting_table import A
from porting import Examples


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
    """Names that are not text are copied; no tree goes into itself; a delegate is asked; a name that is too long is said."""
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


def test_moves(environment):
    """A delegate that keeps items out of copies loses none of them in a move to another mount, nor off it."""
    mount, other = environment.mount(), environment.mount()
    examples = Examples(environment, mount)
    away = environment.new_path("away")
    for folder in (mount / "tree", mount / "second", away):
        os.mkdir(folder)
    place(mount, {"tree/refused": "A", "second/refused": "D", "refused": "C", "there": "C"})
    place(other, {"there": "C"})
    examples.says("UNL", ["to a mount: ok", "refused: ok", "goes on: ok", "away: ok",
                          "tree?, refused?, there?, there 516, second?"], "moves", other.path, away)
    environment.cell("moved", (b"tree/refused", CLASSES["A"]), (read_file(other / "tree/refused"), get_class(other / "tree/refused")))
    environment.cell("moved off", b"second/refused", read_file(os.path.join(away, "second/refused")))
    environment.cell("left", {"refused": "refused", "there": "there"}, contents(mount))
    environment.cell("left over", ["refused", "there"], sorted(os.listdir(mount.path)))
    environment.cell("not replaced", {"there": "there"}, contents(other))


def test_permissions(environment):
    """The owner of what is not writable, links that lead nowhere, directories on the way; as an ordinary user."""
    root = os.geteuid() == 0
    mount = environment.mount(options=["allow_other"] if root else [])
    examples = Examples(environment, mount)
    for folder in ("", "folder", "closed", "there"):
        os.makedirs(mount / folder, exist_ok=True)
    place(mount, {name: "C" for name in ("file", "other", "unreadable", "closed/weak", "closed/strong", "there/file")})
    set_class(mount / "closed/strong", "A")
    outside = environment.new_path("outside")
    for name, target in {"link": "target", "chain": "there/next", "there/next": "end", "out": outside}.items():
        os.symlink(target, mount / name)
    modes = {"file": 0o444, "other": 0o444, "unreadable": 0o200, "folder": 0o555, "closed": 0o555}
    for name, mode in modes.items():
        os.chmod(mount / name, mode)
    identity = {}
    if root:
        # The other user cannot read the repository.
        examples.program = shutil.copy(examples.program, os.path.join(environment.base, "examples"))
        identity = {"user": 1234, "group": 1234, "extra_groups": []}
        for folder, folders, files in os.walk(mount.path):
            for path in [folder, *(os.path.join(folder, name) for name in folders + files)]:
                os.chown(path, 1234, 1234, follow_symlinks=False)
    done = run(examples.program, "permissions", mount.path, **identity)
    environment.cell("said", [
        "file: ok", f"file: {0o444}", "folder: ok", f"folder: {0o555}", "with permissions: ok", "not readable: 10",
        "not readable, saved: CocoaError 513 EACCES", "not readable, with a class: ok", "tightened: ok", "weakened: CocoaError 513 EACCES", "link: ok", "chain: ok", "out: notProtected", "directories: ok",
    ], done.stdout.splitlines())
    for name in ("file", "folder", "other", "unreadable", "closed/weak", "closed/strong", "target", "there/end"):
        examples.class_of(name, "A")
    for name in ("there/one", "there/one/two", "there/one/two/three"):
        examples.class_of(name, "B")
        environment.cell(f"mode of {name}", 0o750, os.stat(mount / name).st_mode & 0o777)
    environment.cell("what was there", None, get_class(mount / "there") if has_class(mount / "there") else None)
    environment.cell("contents", [b"new", b"closed/strong", b"link", b"chain"],
                     [read_file(mount / name) for name in ("closed/weak", "closed/strong", "target", "there/end")])
    environment.cell("links", ["target", "there/next", outside],
                     [os.readlink(mount / name) for name in ("link", "chain", "out")])
    environment.cell("outside", False, os.path.exists(outside))
    examples.no_debris()


def test_newer_objects(environment):
    """What a newer version made has a class that this one does not know: an error, where no class is none."""
    mount = environment.mount()
    place(mount, {"file": "A", "known": "A"})
    os.mkdir(mount / "folder")
    os.mkdir(mount / "plain")
    mount.unmount()
    store = future.Store(mount.volume)
    store.header("file", {3: b"\3"})
    store.record("folder", {3: b"\3"})
    mount = environment.mount(mount.volume, path=mount.path)
    examples = Examples(environment, mount)
    refused = "CocoaError 256 errno 95"
    examples.says("UNL", [f"{name}, {use}: {refused}" for name in ("file", "folder")
                          for use in ("attributes", "resource value", "copied")], "newer", "file", "folder")
    known = ["known, attributes: " + A, "known, resource value: " + A, "known, copied: ok"]
    plain = ["plain, attributes: nil", "plain, resource value: nil", "plain, copied: ok"]
    examples.says("UNL", known + plain, "newer", "known", "plain")
    environment.cell("copies", ["known.copied", "plain.copied"], sorted(name for name in os.listdir(mount.path) if "copied" in name))
    examples.no_debris()


def has_class(path):
    return "user.protection" in os.listxattr(path)
