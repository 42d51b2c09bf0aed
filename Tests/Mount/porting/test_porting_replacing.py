"""Directories for item replacement, and replacements of directories and of items outside a mount."""

import os

import harness
from harness import CLASSES, get_class, make_file, read_file, run, set_class, write_file
from porting_table import A, B, BFU, C, D, LCK, STATES, UNL, writing


def said(directory, name, *words, **more):
    done = run(harness.program("porting-examples"), name, directory, *words, ok=False, **more)
    assert done.returncode == 0, (name, words, done.returncode, done.stderr)
    return done.stdout.splitlines()


def document(path, letter, content=b"old"):
    """A directory that is one document: its default, and a part of the same class."""
    os.mkdir(path)
    if letter:
        set_class(path, letter)
    write_file(os.path.join(path, "part"), content)


def lines(word, kind, written="ok", replaced="ok"):
    return [f"{word} directory: {kind}", f"{word} is near: true", f"{word} is private and empty: true",
            f"{word} written: {written}", f"{word} replaced: {replaced}"]


def test_saves_in_every_state(environment):
    """The directory has the class of what is replaced, and what is written in it is closed with that class."""
    mount = environment.mount()
    words = {"a": A, "b": B, "c": C, "d": D, "documentA": A, "documentD": D, "new": C, "folder/new": A}
    for state in STATES:
        os.mkdir(mount / state)
        for letter in "ABCD":
            make_file(mount / f"{state}/{letter.lower()}", letter, b"old")
        document(mount / f"{state}/documentA", "A")
        document(mount / f"{state}/documentD", "D")
        os.mkdir(mount / f"{state}/folder")
        set_class(mount / f"{state}/folder", "A")

    def judge(state):
        closed = {UNL: (), LCK: (A,), BFU: (A, C)}[state]
        missing = "CocoaError 260 errno 2"
        for word, kind in words.items():
            expected = lines(word, kind)
            if kind in closed:
                # Nothing is written, so there is nothing to replace by: a document's own directory is there, empty.
                isDocument = word.startswith("document")
                fails = "ok" if isDocument else "CocoaError 4 errno 2" if "new" in word else missing
                expected = lines(word, kind, writing(kind), fails)
            environment.cell(f"{state} {word}", expected, said(mount / state, "replacing", word))
        environment.cell(f"{state} no directory is left", [],
                         [name for name in os.listdir(mount / state) if name.startswith(".")])

    judge(UNL)
    mount.lock()
    judge(LCK)
    mount = environment.remount(mount, unlock=False)
    judge(BFU)
    mount.unlock()
    for state in STATES:
        closed = {UNL: "", LCK: "A", BFU: "AC"}[state]
        for letter in "ABCD":
            path = mount / f"{state}/{letter.lower()}"
            content = b"old" if letter in closed else b"new"
            environment.cell(f"{state} {letter}", (CLASSES[letter], content), (get_class(path), read_file(path)))
        for letter in "AD":
            path = mount / f"{state}/document{letter}"
            parts = [] if letter in closed else ["part"]
            environment.cell(f"{state} document {letter}", (CLASSES[letter], parts), (get_class(path), os.listdir(path)))
            if parts:
                environment.cell(f"{state} its part", (CLASSES[letter], b"new"),
                                 (get_class(path + "/part"), read_file(path + "/part")))


def test_its_place(environment):
    """In the temporary directory if that is on the same mount; else beside the item, hidden."""
    mount = environment.mount()
    expected = ["no reference: CocoaError 256 no path", "other domain: CocoaError 256 no path",
                "no file: CocoaError 262 no path", "two differ: true", "hidden beside: true",
                "in the temporary directory: true", "other directories: true"]
    environment.cell("off the mount's temporary directory", expected, said(mount.path, "replacementDirectories"))
    os.mkdir(mount / "tmp")
    inside = {**os.environ, "TMPDIR": mount / "tmp"}
    environment.cell("on it", [*expected[:4], "hidden beside: false", *expected[5:]],
                     said(mount.path, "replacementDirectories", env=inside))
    make_file(mount / "a", "A", b"old")
    environment.cell("saved by way of it", lines("a", A), said(mount.path, "replacing", "a", env=inside))
    environment.cell("nothing is left", ([], ["a", "tmp"]), (os.listdir(mount / "tmp"), sorted(os.listdir(mount.path))))
    # The root of a mount has nothing beside it on its own file system.
    environment.cell("of the root", True, said(mount.path, "replacing", ".")[0].startswith(". directory: "))


def test_directories(environment):
    """A directory takes the place of another one with its default; files keep their classes. Backups of directories."""
    mount = environment.mount()
    document(mount / "old", "A")
    os.chmod(mount / "old", 0o750)
    document(mount / "new", "D", b"new")
    environment.cell("replaced", ["replace: ok"], said(mount.path, "replaceAny", "old", "new"))
    environment.cell("its default, permissions and part", (CLASSES["A"], 0o750, CLASSES["D"], b"new"),
                     (get_class(mount / "old"), os.stat(mount / "old").st_mode & 0o777, get_class(mount / "old/part"),
                      read_file(mount / "old/part")))
    environment.cell("the new one is gone", ["old"], os.listdir(mount.path))
    document(mount / "new", "D", b"newer")
    environment.cell("with a backup", ["replace: ok"], said(mount.path, "replaceAny", "old", "new", "older"))
    environment.cell("the backup", (b"newer", b"new"), (read_file(mount / "old/part"), read_file(mount / "older/part")))
    document(mount / "new", "D", b"third")
    refused = said(mount.path, "replaceAny", "old", "new", "older")
    environment.cell("over a backup that is a directory", ["replace: CocoaError 516 errno 17"], refused)
    make_file(mount / "file", "C", b"file")
    environment.cell("by a file", ["replace: ok"], said(mount.path, "replaceAny", "new", "file"))
    environment.cell("the file", (CLASSES["C"], b"file"), (get_class(mount / "new"), read_file(mount / "new")))
    environment.cell("a file by a directory", ["replace: ok"], said(mount.path, "replaceAny", "new", "older"))
    environment.cell("the directory", (CLASSES["C"], ["part"]), (get_class(mount / "new"), os.listdir(mount / "new")))
    environment.cell("all", ["new", "old"], sorted(os.listdir(mount.path)))


def test_outside_and_across(environment):
    """Outside a mount nothing is lost, which Foundation on Linux alone does; from there into the mount, by a copy."""
    mount, out = environment.mount(), environment.new_path("outside")
    os.mkdir(out)
    for name in ("old", "new"):
        write_file(os.path.join(out, name), name.encode())
    os.chmod(os.path.join(out, "old"), 0o600)
    environment.cell("files", ["replace: ok"], said(out, "replaceAny", "old", "new", "backup"))
    environment.cell("their contents", (b"new", b"old", 0o600), (
        read_file(out + "/old"), read_file(out + "/backup"), os.stat(out + "/old").st_mode & 0o777))
    environment.cell("nothing more", ["backup", "old"], sorted(os.listdir(out)))
    write_file(out + "/new", b"newer")
    environment.cell("over an older backup", ["replace: ok"], said(out, "replaceAny", "old", "new", "backup"))
    environment.cell("contents again", (b"newer", b"new"), (read_file(out + "/old"), read_file(out + "/backup")))
    document(mount / "document", "A")
    os.mkdir(out + "/document")
    write_file(out + "/document/part", b"from outside")
    environment.cell("into the mount", ["replace: ok"], said(mount.path, "replaceAny", "document", out + "/document"))
    part = mount / "document/part"
    environment.cell("in the document's class", (CLASSES["A"], CLASSES["A"], b"from outside"),
                     (get_class(mount / "document"), get_class(part), read_file(part)))
    environment.cell("moved", (False, ["document"]), (os.path.exists(out + "/document"), os.listdir(mount.path)))
    mount.lock()
    os.mkdir(out + "/document")
    write_file(out + "/document/part", b"again")
    refused = said(mount.path, "replaceAny", "document", out + "/document")
    environment.cell("while locked", True, refused[0].startswith("replace: CocoaError 513"))
    environment.cell("then nothing is lost", (b"again", ["document"]),
                     (read_file(out + "/document/part"), os.listdir(mount.path)))


def test_by_itself(environment):
    """An item that is replaced by itself, under whatever path, is still there afterwards."""
    mount, out = environment.mount(), environment.new_path("outside")
    for place in (mount.path, out):
        os.makedirs(place + "/directory")
        write_file(place + "/directory/part", b"part")
        write_file(place + "/file", b"file")
        os.symlink(place, place + "/way")
        for name, part in (("directory", "directory/part"), ("file", "file")):
            for words in ((name, name), (name, "way/" + name), (name, name, "backup")):
                environment.cell(f"{place == out}: {words}", ["replace: ok"], said(place, "replaceAny", *words))
                environment.cell(f"{place == out}: {words}: content", True, os.path.exists(f"{place}/{part}"))
        environment.cell(f"{place == out}: contents", (b"part", b"file"),
                         (read_file(place + "/directory/part"), read_file(place + "/file")))
