"""Programs that give files a stronger class, that make files of class B in every state, and that ask NSURL for a class."""

import json
import os

from harness import CLASSES, get_class, make_file, outcome, read_file, runtime_directory, write_file
from porting import Examples
from porting_table import A, B, BFU, LCK, UNL

CONTENT = b"content"


def marks(mount, name):
    """(class, whether an old header opens it, whether someone has chosen the class), as the command says it."""
    listed = json.loads(mount.command("class", "list", "--json", mount / name).stdout)
    entry = listed[0] if isinstance(listed, list) else listed
    return entry["class"], entry["keyExposed"], entry["explicit"]


def test_stronger_class(environment):
    """By attributes, by NSURL and by URL: the file gets a new key, keeps the rest, and open readers go on."""
    mount = environment.mount()
    examples = Examples(environment, mount)
    names = ["attributes", "nsurl", "url"]
    for name in names:
        make_file(mount / name, "D", CONTENT)
        os.chmod(mount / name, 0o640)
        os.utime(mount / name, (1_000_000, 2_000_000))
        os.setxattr(mount / name, "user.note", b"kept")
    expected = [f"{name}: ok" for name in names] + ["handle: content"] * 3 + ["content: content"] * 3
    examples.says("UNL", expected, "tighten", *names)
    for name in names:
        environment.cell(f"[{name}: class and key]", ("complete", False, True), marks(mount, name))
        status = os.stat(mount / name)
        environment.cell(f"[{name}: mode, time and attribute]", (0o640, 2_000_000, b"kept"),
                         (status.st_mode & 0o777, int(status.st_mtime), os.getxattr(mount / name, "user.note")))
    # The same class again, and a weaker one, need no new key.
    before = os.stat(mount / "nsurl").st_ino
    examples.says("UNL", ["set: ok", "complete: true"], "resource", directory=link(mount, "nsurl"))
    environment.cell("[the same class: the same file]", before, os.stat(mount / "nsurl").st_ino)


def link(mount, name):
    """A directory with a symbolic link `existing` to a file of the mount."""
    place = mount / "links"
    os.makedirs(place, exist_ok=True)
    if not os.path.lexists(os.path.join(place, "existing")):
        os.symlink(mount / name, os.path.join(place, "existing"))
    return place


def test_through_a_link(environment):
    """The class belongs to the link's target, and so does the new key."""
    mount = environment.mount()
    examples = Examples(environment, mount)
    make_file(mount / "target", "C", CONTENT)
    examples.says("UNL", ["set: ok", "complete: true"], "resource", directory=link(mount, "target"))
    environment.cell("[target]", ("complete", False, True), marks(mount, "target"))


def test_without_a_new_key(environment):
    """Where the daemon cannot give a new key now, the file gets the class and keeps its key, as before."""
    mount = environment.mount()
    examples = Examples(environment, mount)
    make_file(mount / "written", "C", CONTENT)
    examples.says("UNL", ["set: ok", "write: ok"], "tighten-written", "written")
    environment.cell("[open for writing]", ("complete", True, True), marks(mount, "written"))
    environment.cell("[what was written]", CONTENT + b" and more", read_file(mount / "written"))
    make_file(mount / "first", "C", CONTENT)
    os.link(mount / "first", mount / "second")
    examples.says("UNL", ["first: ok", "handle: content", "content: content"], "tighten", "first")
    environment.cell("[two names: one file]", os.stat(mount / "first").st_ino, os.stat(mount / "second").st_ino)
    environment.cell("[two names: the class]", ("complete", True, True), marks(mount, "second"))
    # No socket: the directory that has it is hidden by its name.
    make_file(mount / "alone", "C", CONTENT)
    socket = socket_of(mount)
    os.rename(socket, socket + ".away")
    try:
        examples.says("UNL", ["alone: ok", "handle: content", "content: content"], "tighten", "alone")
    finally:
        os.rename(socket + ".away", socket)
    environment.cell("[no socket]", ("complete", True, True), marks(mount, "alone"))


def socket_of(mount):
    device = os.stat(mount.path).st_dev
    return os.path.join(runtime_directory(), f"{os.major(device)}:{os.minor(device)}")


def test_closed_classes(environment):
    """Into a closed class nothing gets, and nothing is changed then; from D to C it works while locked, with a new key."""
    mount = environment.mount()
    examples = Examples(environment, mount)
    make_file(mount / "existing", "D", CONTENT)
    mount.lock()
    examples.says("LCK", [f"set: CocoaError 513 EACCES {A} unavailable"], "set")
    environment.cell("[LCK: as before]", ("none", False, True), marks(mount, "existing"))
    environment.cell("[LCK: content]", CONTENT, read_file(mount / "existing"))


def test_value_of_nsurl(environment):
    """NSURL.getResourceValue gives the class, in every state, and other values as Foundation does."""
    mount = environment.mount()
    examples = Examples(environment, mount)
    make_file(mount / "a", "A", CONTENT)
    make_file(mount / "b", "B", CONTENT)
    expected = [f"{A} {A} {A}", f"{B} {B} {B}", "CocoaError 260 errno 2", str(len(CONTENT))]

    def judge(state):
        examples.says(state, expected, "value", "a", "b", "missing")

    judge(UNL)
    mount.lock()
    judge(LCK)
    again = environment.remount(mount, unlock=False)
    examples.mount = again
    judge(BFU)
    examples.says("off", ["nil nil nil", "7"], "value", "plain", directory=outside(environment))


def outside(environment):
    place = environment.new_path("outside")
    os.mkdir(place)
    write_file(os.path.join(place, "plain"), CONTENT)
    return place


def test_chosen_while_locked(environment):
    """A class B file that a program makes is marked as chosen in every state, so that it keeps its class over a stronger one."""
    mount = environment.mount()
    names = ["option", "atomic", "created"]
    made = ["option: ok", "atomic: ok", "created: true"]

    def judge(state, mount):
        place = mount / state
        os.mkdir(place)
        Examples(environment, mount).says(state, made, "unless-open", directory=place)
        for name in names:
            environment.cell(f"[{state}: {name}]", ("completeUnlessOpen", False, True), marks(mount, f"{state}/{name}"))

    judge("UNL", mount)
    mount.lock()
    judge("LCK", mount)
    mount = environment.remount(mount, unlock=False)
    judge("BFU", mount)
    mount.unlock()
    for state in ("UNL", "LCK", "BFU"):
        for name in names:
            make_file(mount / f"{state}/old", "A", b"old")
            os.rename(mount / f"{state}/{name}", mount / f"{state}/old")
            environment.cell(f"[{state}: {name} over a stronger one]", CLASSES["B"], get_class(mount / f"{state}/old"))
            environment.cell(f"[{state}: {name}, content]", name.encode(), read_file(mount / f"{state}/old"))


def test_marks_of_open_files(environment):
    """Naming the class again marks a file that is open, and taking the attribute away clears the mark, also while locked."""
    mount = environment.mount()
    os.mkdir(mount / "place")
    os.setxattr(mount / "place", "user.protection", b"completeUnlessOpen")
    mount.lock()
    handle = os.open(mount / "place/file", os.O_RDWR | os.O_CREAT)
    os.write(handle, CONTENT)
    environment.cell("[inherited]", False, marks(mount, "place/file")[2])
    os.setxattr(mount / "place/file", "user.protection", b"completeUnlessOpen")
    environment.cell("[named]", True, marks(mount, "place/file")[2])
    os.removexattr(mount / "place/file", "user.protection")
    environment.cell("[taken away]", False, marks(mount, "place/file")[2])
    environment.cell("[another class]", "EACCES", outcome(os.setxattr, mount / "place/file", "user.protection", b"none"))
    os.setxattr(handle, "user.protection", b"B")
    environment.cell("[named by its handle]", True, marks(mount, "place/file")[2])
    os.close(handle)
    mount.unlock()
    environment.cell("[unlocked]", ("completeUnlessOpen", False, True), marks(mount, "place/file"))
    environment.cell("[content]", CONTENT, read_file(mount / "place/file"))
