"""What applications and libraries for them write, and Foundation on Linux understands otherwise than an iPhone's."""

import os

import harness
from harness import make_file, read_file, run, set_class, write_file
from porting_table import A, B, C, reading

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
