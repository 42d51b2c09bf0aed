"""What applications and libraries for them write, and Foundation on Linux understands otherwise than an iPhone's."""

import os
import re

import harness
from harness import make_file, read_file, run, set_class, write_file
from porting_table import A, C, D, reading, writing

PROGRAM = "porting-examples"


def said(name, place, *words, **more):
    done = run(harness.program(PROGRAM), name, place, *words, **more)
    return done.stdout.splitlines(), done.stderr


def test_values_by_variable(environment):
    """A set in a variable gives the same type as a literal, and the class is a string, too."""
    mount = environment.mount()
    make_file(mount / "file", "A", b"abc")
    lines, _ = said("variable", mount.path, "file")
    environment.cell("said", ["true true 3", "true 4", A, f"true {A}", A, f"{A} true", A], lines)
    environment.cell("the mark", b"false", os.getxattr(mount / "other", "user.xdg.robots.backup"))


def test_sweeps(environment):
    """A cache that counts what its files take on the disk keeps those that it has room for."""
    away = environment.new_path("away")
    os.mkdir(away)
    mount = environment.mount()
    for place in (mount.path, away):
        lines, _ = said("sweeps", place)
        kept = [int(line.split()[1]) for line in lines[:4]]
        environment.cell(f"{place}: room for all", [10, 10], kept[:2])
        environment.cell(f"{place}: room for half", [True, True], [4 <= count <= 5 for count in kept[2:]])
        environment.cell(f"{place}: NSURL", "true true", lines[4])


def test_trash(environment):
    """An item goes to the trash of its file system under its class, in every state, and file managers can put it back."""
    mount, home = environment.mount(), environment.new_path("home")
    os.makedirs(mount / "folder/below")
    for name, letter in {"a": "A", "folder/d": "D", "folder/a b%": "A", "locked": "A"}.items():
        make_file(mount / name, letter, name.encode())
    own = os.path.join(mount.path, f".Trash-{os.geteuid()}")
    data = {**os.environ, "HOME": home, "XDG_DATA_HOME": home}
    lines, _ = said("trash", mount.path, "a", "folder/d", "folder/a b%", "a", "folder/below", env=data)
    environment.cell("said", [
        f"a: {own}/files/a {A}", f"folder/d: {own}/files/d {D}", f"folder/a b%: {own}/files/a b% {A}", "a: CocoaError 4 errno 2",
        f"folder/below: {own}/files/below nil", "without a result: ok"], lines)
    environment.cell("private", 0o700, os.stat(own).st_mode & 0o777)
    environment.cell("content", b"a", read_file(f"{own}/files/a"))
    note = read_file(f"{own}/info/a b%.trashinfo").decode().splitlines()
    environment.cell("the note", ["[Trash Info]", "Path=folder/a%20b%25", True],
                     [*note[:2], bool(re.fullmatch(r"DeletionDate=\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", note[2]))])
    make_file(mount / "a", "C", b"second")
    mount.lock()
    lines, _ = said("trash", mount.path, "locked", "a", env=data)
    environment.cell("locked", [f"locked: {own}/files/locked {A}", f"a: {own}/files/a.2 {C}"], lines[:2])
    # The home directory's own is taken where it is on the same file system, and a link in place of a trash is not.
    data["XDG_DATA_HOME"] = os.path.join(mount.path, "share")
    lines, _ = said("trash", mount.path, "folder", env=data)
    environment.cell("in the home directory", [f"folder: {mount.path}/share/Trash/files/folder nil"], lines[:1])
    note = read_file(f"{mount.path}/share/Trash/info/folder.trashinfo").decode().splitlines()
    environment.cell("whole path", f"Path={mount.path}/folder", note[1])
    os.rename(own, own + ".old")
    os.symlink(own + ".old", own)
    make_file(mount / "c", "C", b"third")
    data["XDG_DATA_HOME"] = home
    lines, _ = said("trash", mount.path, "c", env=data)
    environment.cell("a link is refused", ("c: CocoaError 513 EACCES", True), (lines[0], os.path.exists(mount / "c")))


def test_shared_trash(environment):
    """The trash that the users of a file system share is taken if no user can replace another's directory in it."""
    top, home = environment.new_path("top"), environment.new_path("home")
    os.mkdir(top)
    if run("mount", "-t", "tmpfs", "none", top, ok=False).returncode != 0:
        raise harness.Skip("tmpfs cannot be mounted here")
    try:
        data, shared = {**os.environ, "HOME": home, "XDG_DATA_HOME": home}, os.path.join(top, ".Trash")
        own, other = os.path.join(shared, str(os.geteuid())), os.path.join(top, f".Trash-{os.geteuid()}")

        def taken(name, wanted):
            write_file(os.path.join(top, name), b"x")
            lines, _ = said("trash", top, name, env=data)
            environment.cell(name, f"{name}: {wanted}/files/{name} nil", lines[0])

        os.mkdir(shared)
        os.chmod(shared, 0o777)
        taken("without the sticky bit", other)
        os.chmod(shared, 0o1777)
        taken("sticky, 100%", own)
        environment.cell("private", 0o700, os.stat(own).st_mode & 0o7777)
        note = read_file(f"{own}/info/sticky, 100%.trashinfo").decode().splitlines()
        environment.cell("the path from the top", "Path=sticky,%20100%25", note[1])
        os.chown(shared, 1234, -1)
        taken("another user's", other)
        os.chown(shared, 0, -1)
        os.chown(own, 1234, -1)
        taken("another user's in it", other)
        os.rename(shared, shared + ".old")
        os.chown(f"{shared}.old/{os.geteuid()}", 0, -1)
        os.symlink(shared + ".old", shared)
        taken("a link", other)
    finally:
        harness.detach(top)


def test_device(environment):
    lines, _ = said("device", environment.base)
    system = os.uname()
    environment.cell("this machine", [f"{system.nodename} Linux {system.release} nil"], lines)


def test_export(environment):
    """What was chosen stays on the mount. What a directory gave goes with a warning, and the usual class without one."""
    mount, away = environment.mount(), environment.new_path("away")
    os.makedirs(away)
    for folder, letter in {"usual": None, "given": "A", "mixed": None}.items():
        os.mkdir(mount / folder)
        if letter:
            set_class(mount / folder, letter)
        write_file(os.path.join(mount / folder, "file"), folder.encode())
    make_file(os.path.join(mount / "mixed", "chosen"), "B", b"chosen")
    make_file(mount / "chosen", "C", b"chosen")
    os.symlink("chosen", mount / "link")

    def judge(words, refused, warnings):
        lines, errors = said("export", mount.path, away, *words)
        expected = []
        for word in words:
            outcome = "notProtected" if word in refused else "ok"
            expected += [f"{word} copied: {outcome}", f"{word} moved: {outcome}"]
        environment.cell(f"{words}", expected, lines)
        environment.cell(f"{words}: warnings", warnings, errors.count("has no data protection"))

    judge(["usual", "link"], [], 0)
    judge(["given"], [], 2)
    judge(["chosen", "mixed"], ["chosen", "mixed"], 0)
    environment.cell("what is outside", ["given", "given moved", "link", "link moved", "usual", "usual moved"], sorted(os.listdir(away)))
    environment.cell("its content", b"given", read_file(os.path.join(away, "given moved/file")))
    environment.cell("what stays", ["chosen", "mixed"], sorted(os.listdir(mount.path)))


def test_export_while_locked(environment):
    """A file that is closed is not copied, and none is left outside."""
    mount, away = environment.mount(), environment.new_path("away")
    os.makedirs(away)
    os.mkdir(mount / "given")
    set_class(mount / "given", "A")
    write_file(mount / "given/file", b"given")
    mount.lock()
    lines, _ = said("export", mount / "given", away, "file")
    environment.cell("locked", [f"file copied: {reading(A)}", f"file moved: {reading(A)}"], lines)


def test_clearing_at_logout(environment):
    """An application that empties Application Support and its caches empties its own."""
    home = environment.new_path("home")
    for name in (".local/share/protectfs", ".local/share/other", ".cache/other"):
        os.makedirs(os.path.join(home, name))
        write_file(os.path.join(home, name, "kept"), b"kept")
    environment.mount()
    variables = {name: value for name, value in harness.at_home(home).items() if name not in ("XDG_DATA_HOME", "XDG_CACHE_HOME")}
    lines, _ = said("logout", home, env=variables)
    own = [os.path.join(home, name, PROGRAM) for name in (".local/share", ".cache")]
    environment.cell("said", [own[0], "true", "true", "0", own[1], "true", "true", "0", "true"], lines)
    environment.cell("modes", [0o700] * 2, [os.stat(path).st_mode & 0o777 for path in own])
    environment.cell("what others have", [b"kept"] * 3, [
        read_file(os.path.join(home, name, "kept")) for name in (".local/share/protectfs", ".local/share/other", ".cache/other")])


def test_descriptors(environment):
    """Darwin's calls on descriptors: a file that is made has its class at once, or is not there."""
    mount = environment.mount()
    lines, _ = said("descriptors", mount.path, "1")
    environment.cell("unlocked", ["made", "1 3", "1 -1", "0 3", "-1 true -1 true", "-1 true -1 true"], lines)
    os.remove(mount / "opened")
    mount.lock()
    environment.cell("locked", ["errno 13", "left: false"], said("descriptors", mount.path, "1")[0])
    environment.cell("locked, unless open", ["made", "2 3"], said("descriptors", mount.path, "2")[0][:2])
    away = environment.new_path("away")
    os.mkdir(away)
    environment.cell("off a mount", ["errno 95", "left: false"], said("descriptors", away, "1")[0])


def test_groups(environment):
    home = environment.new_path("home")
    os.mkdir(home)
    mount = environment.mount()
    variables = {name: value for name, value in harness.at_home(home).items() if name != "XDG_DATA_HOME"}
    lines, _ = said("groups", mount.path, env=variables)
    environment.cell("places", [os.path.join(home, ".local/share/group.org.example"), mount / "group.org.example"], lines)
    environment.cell("its mode", 0o700, os.stat(mount / "group.org.example").st_mode & 0o777)


def test_databases(environment):
    """A database that is opened with a class among SQLite's flags: it and its journal have that class, in each state."""
    mount = environment.mount()
    words = ("complete", "first", "none")
    if said("databases", mount.path, *words)[0] == ["built without SQLite"]:
        raise harness.Skip("built without SQLite: install libsqlite3-dev")
    # A journal has the stronger class of its database and of the directory.
    os.mkdir(mount / "open")
    set_class(mount / "open", "D")
    environment.cell("unlocked", [f"complete: 2 {A} {A}", f"first: 2 {C} {C}", f"none: 2 {D} {C}"],
                     said("databases", mount.path, *words)[0])
    environment.cell("in a directory of class none", [f"complete: 1 {A} {A}", f"none: 1 {D} {D}"],
                     said("databases", mount / "open", "complete", "none")[0])
    environment.cell("no flag", [f"plain: 1 {C} {C}"], said("databases", mount.path, "plain")[0])
    cannot_open = "SQLite 14"
    mount.lock()
    environment.cell("locked", [f"complete: {cannot_open}", f"first: 3 {C} {C}", f"none: 3 {D} {C}"],
                     said("databases", mount.path, *words)[0])
    os.mkdir(mount / "new")
    environment.cell("new while locked", [f"complete: {writing(A)}", f"first: 1 {C} {C}"],
                     said("databases", mount / "new", "complete", "first")[0])
    environment.cell("nothing half made", ["first.sqlite"], os.listdir(mount / "new"))
    mount = environment.remount(mount, unlock=False)
    environment.cell("before the first unlock", [f"complete: {cannot_open}", f"first: {cannot_open}"],
                     said("databases", mount.path, "complete", "first")[0])
    environment.cell("class none, before the first unlock", [f"none: 2 {D} {D}"], said("databases", mount / "open", "none")[0])


def test_suite(environment):
    """A suite of XCTest: its names come without Foundation's, so the classes work in it."""
    done = run(harness.program("porting-suite"), env={**os.environ, "RECORDS": environment.mount().path}, ok=False)
    environment.cell("passed", (0, True), (done.returncode, "Executed 3 tests, with 0 failures" in done.stdout + done.stderr))
