"""Programs with FileProtection write only inside the mount: links, `..`, and names that others have taken."""

import os
import subprocess

import harness
from harness import CLASSES, get_class, make_file, read_file, run, set_class, write_file
from porting_table import A, C, writing
from users import OrdinaryUser

NOT_PERMITTED = "CocoaError 513 errno 1"
# Seconds for hundreds of writes that take turns.
CROWDED = 800


def said(*words):
    done = run(harness.program("porting-examples"), "places", "/", *words, ok=False)
    assert done.returncode == 0, (words, done.returncode, done.stderr)
    return done.stdout.splitlines()


def outside(environment):
    """A directory on no protected mount."""
    path = environment.new_path("outside")
    os.mkdir(path)
    return path


def old_file(path, letter):
    write_file(path, b"old")
    set_class(path, letter)


def test_links_into_the_mount(environment):
    """What is saved through a link outside takes the place of the file that the link leads to."""
    mount, out = environment.mount(), outside(environment)
    old_file(mount / "replacement", "D")
    write_file(mount / "replacement", b"new")
    for verb, letter in {"complete": "A", "atomic": "D", "in-place": "A", "string": "D", "create": "A", "replace": "D"}.items():
        old_file(mount / verb, "D")
        link = os.path.join(out, verb)
        os.symlink(mount / verb, link)
        more = [mount / "replacement"] if verb == "replace" else []
        environment.cell(verb, [f"{verb}: {'true' if verb == 'create' else 'ok'}"], said(verb, link, *more))
        environment.cell(f"{verb}: still a link", True, os.path.islink(link))
        environment.cell(f"{verb}: content and class", (b"new", CLASSES[letter]),
                         (read_file(mount / verb), get_class(mount / verb)))
        environment.cell(f"{verb}: outside", [verb], os.listdir(out))
        os.unlink(link)


def test_links_out_of_the_mount(environment):
    """An atomic write replaces the link by a file in the mount, as Foundation does; a write in place is not protected."""
    mount, out = environment.mount(), outside(environment)
    for verb, expected in {"complete": "complete: ok", "in-place": "in-place: notProtected"}.items():
        target = os.path.join(out, verb)
        write_file(target, b"old")
        os.symlink(target, mount / verb)
        environment.cell(verb, [expected], said(verb, mount / verb))
        environment.cell(f"{verb}: outside", b"old", read_file(target))
    environment.cell("class", CLASSES["A"], get_class(mount / "complete"))


def test_dot_dot(environment):
    """`..` behind a link is above the link's target, for the judgement as for the write."""
    mount, out = environment.mount(), outside(environment)
    os.mkdir(os.path.join(out, "sub"))
    os.mkdir(mount / "sub")
    os.symlink(os.path.join(out, "sub"), mount / "away")
    os.symlink(mount / "sub", os.path.join(out, "into"))
    for verb in ("complete", "in-place", "create", "directory"):
        refused = "create: false" if verb == "create" else f"{verb}: notProtected"
        environment.cell(f"{verb} out", [refused], said(verb, mount / f"away/../{verb}"))
        done = "create: true" if verb == "create" else f"{verb}: ok"
        environment.cell(f"{verb} into", [done], said(verb, f"{out}/into/../{verb}"))
        environment.cell(f"{verb}: class", CLASSES["A"], get_class(mount / verb))
    environment.cell("outside", ["into", "sub"], sorted(os.listdir(out)))


def test_staging_of_others(environment):
    """A link with the staging directory's name is not followed; a directory that others may write is not used."""
    mount, out = environment.mount(), outside(environment)
    staging = mount / f".protectfs-staging-{os.geteuid()}"
    os.mkdir(mount / "shared")
    for target in (out, mount / "shared"):
        os.symlink(target, staging)
        environment.cell(f"link to {os.path.basename(target)[:6]}", ["complete: CocoaError 512 errno 20"],
                         said("complete", mount / "file"))
        environment.cell("nothing there", [], os.listdir(target))
        os.unlink(staging)
    os.mkdir(staging)
    os.chmod(staging, 0o770)
    environment.cell("group may write", [f"complete: {NOT_PERMITTED}"], said("complete", mount / "file"))
    os.chmod(staging, 0o700)
    environment.cell("afterwards", ["complete: ok"], said("complete", mount / "file"))
    environment.cell("left", ["file", "shared"], sorted(os.listdir(mount.path)))


def test_without_overwriting(environment):
    """What is there already stays, and nothing is left beside it."""
    mount = environment.mount()
    environment.cell("twice", ["once: ok", "once: CocoaError 516 errno 17"], said("once", mount / "new", "once", mount / "new"))
    old_file(mount / "old", "D")
    environment.cell("old", ["once: CocoaError 516 errno 17"], said("once", mount / "old"))
    environment.cell("content and class", (b"old", CLASSES["D"]), (read_file(mount / "old"), get_class(mount / "old")))
    environment.cell("left", ["new", "old"], sorted(os.listdir(mount.path)))


def test_attributes_outside(environment):
    """A copied attribute outside of a mount is not a class."""
    path = os.path.join(outside(environment), "copied")
    write_file(path, b"x")
    if harness.outcome(set_class, path, "A") != "works":
        environment.skip("copied attribute", "the file system of the tests has no user attributes")
        return
    environment.cell("class", ["class: nil", "value: nil"], said("class", path))


def test_default_of_the_root(environment):
    """A new file that names no class is refused for that of the mount's root, where its directory has none."""
    mount = environment.mount()
    for directory, letter in {"none": None, "own": "D"}.items():
        os.mkdir(mount / directory)
        if letter:
            set_class(mount / directory, letter)
    set_class(mount.path, "A")
    mount.lock()
    environment.cell("root's A", [f"atomic: {writing(A)}"], said("atomic", mount / "none/new"))
    environment.cell("own D", ["atomic: ok"], said("atomic", mount / "own/new"))
    set_class(mount.path, "inherit")
    mount = environment.remount(mount, unlock=False)
    environment.cell("root without", [f"atomic: {writing(C)}"], said("atomic", mount / "none/new"))


def test_read_only_files(environment):
    """What is replaced need not be writable: it is the lock that refuses. In place it is the permission."""
    user = OrdinaryUser(environment)
    user.run(harness.binary(), "mount", "--recovery-file", user.code_file, user.volume, user.path)
    path = os.path.join(user.path, "file")
    try:
        user.run("touch", path)
        user.run(harness.binary(), "class", "set", "complete", path)
        user.run("chmod", "444", path)
        user.run(harness.binary(), "lock", user.path)
        for verb, expected in {"complete": writing(A), "atomic": writing(A), "in-place": "CocoaError 513 EACCES"}.items():
            done = user.run(harness.program("porting-examples"), "places", "/", verb, path)
            environment.cell(verb, f"{verb}: {expected}", done.stdout.strip())
    finally:
        user.run(harness.binary(), "unmount", user.path)


def test_links_themselves(environment):
    """Moved or copied, a link is its text, wherever it leads."""
    mount, out = environment.mount(), outside(environment)
    old_file(mount / "file", "D")
    one, two, three = (os.path.join(out, name) for name in ("one", "two", "three"))
    os.symlink(mount / "file", one)
    environment.cell("outside", ["move: ok", "copy: ok"], said("move", one, two, "copy", two, three))
    environment.cell("links", [mount / "file"] * 2, [os.readlink(two), os.readlink(three)])
    environment.cell("what they lead to", (b"old", CLASSES["D"]), (read_file(mount / "file"), get_class(mount / "file")))


def container(environment, place, *words, home):
    done = run(harness.program("porting-examples"), "container", place, *words,
               env=harness.at_home(home), ok=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def said_of_container(before, kind):
    """What the program says of its standard directories, below its container."""
    lines = [before, "use: ok"]
    for name, path in {"documents": "/Documents", "support": "/Library/Application Support",
                       "caches": "/Library/Caches", "downloads": "/Downloads"}.items():
        lines += [f"{name}: {path}", "true true true"]
    return lines + ["temporary: /tmp", "temporary path: /tmp/", "home: ", "true true true", "file: ok",
                    f"class of the file: {kind}"]


def test_container(environment):
    """The standard directories are on the mount, whatever HOME says, in every state, for root and for others."""
    mount = environment.mount(unlock=False)
    away = outside(environment)
    closed = f"CocoaError 513 EACCES {A} unavailable"

    def judge(state, kind, file):
        expected = said_of_container("", kind)
        expected[-2:] = file
        found = container(environment, mount.path, state, *([A] if kind == A else []), home=away)
        environment.cell(f"[{state}]", expected[1:], found[1:])
        environment.cell(f"[{state}: the mode]", 0o700, os.stat(mount / f"{state}/Documents").st_mode & 0o777)
        for name in ("Documents", "Library/Application Support", "Library/Caches", "tmp"):
            environment.cell(f"[{state}: {name}]", True, os.path.isdir(mount / f"{state}/{name}"))

    judge("BFU", A, [f"file: {closed}", "class of the file: CocoaError 260 errno 2"])
    mount.unlock()
    judge("UNL", C, ["file: ok", f"class of the file: {C}"])
    judge("UNL A", A, ["file: ok", f"class of the file: {A}"])
    mount.lock()
    judge("LCK", A, [f"file: {closed}", "class of the file: CocoaError 260 errno 2"])
    # A second start finds what the first one made.
    judge("UNL", C, ["file: ok", f"class of the file: {C}"])
    environment.cell("[outside]", [], os.listdir(away))
    environment.cell("[off a mount]", "use: notProtected", container(environment, away, "place", home=away)[1])
    environment.cell("[nothing made off a mount]", [], os.listdir(away))


def test_container_of_an_ordinary_user(environment):
    user = OrdinaryUser(environment)
    user.run(harness.binary(), "mount", "--recovery-file", user.code_file, user.volume, user.path)
    try:
        done = user.run(harness.program("porting-examples"), "container", user.path, "place")
        environment.cell("[an ordinary user]", said_of_container("", C)[1:], done.stdout.splitlines()[1:])
    finally:
        user.run(harness.binary(), "unmount", user.path)


def test_many_at_the_same_time(environment):
    """Programs and threads replace files of one directory at once: each write is whole, and nothing is left beside."""
    mount = environment.mount()
    program = harness.program("porting-examples")
    running = [subprocess.Popen([program, "crowd", mount.path], stdout=subprocess.PIPE, text=True) for _ in range(3)]
    ends = [(process.communicate(timeout=CROWDED)[0], process.returncode) for process in running]
    environment.cell("no write fails", [("failed: []\n", 0)] * 3, ends)
    environment.cell("only the files", ["file0", "file1", "file2"], sorted(os.listdir(mount.path)))
    for name in sorted(os.listdir(mount.path)):
        content = read_file(mount / name)
        environment.cell(f"{name} is whole", (5000, 1, CLASSES["A"]), (len(content), len(set(content)), get_class(mount / name)))


def test_many_while_locked(environment):
    """The same of class B while locked, when nobody can open what another one writes: each file gets its own content."""
    mount = environment.mount()
    names = [f"file{number}" for number in range(60)]
    for name in names:
        make_file(mount / name, "B", b"old")
    mount.lock()
    program = harness.program("porting-examples")
    running = [subprocess.Popen([program, "crowdWhileLocked", mount.path, str(first)], stdout=subprocess.PIPE, text=True)
               for first in (0, 20, 40)]
    ends = [(process.communicate(timeout=CROWDED)[0], process.returncode) for process in running]
    environment.cell("no write fails", [("failed: []\n", 0)] * 3, ends)
    environment.cell("only the files", sorted(names), sorted(os.listdir(mount.path)))
    mount.unlock()
    wrong = [name for number, name in enumerate(names) if read_file(mount / name) != bytes([number]) * 5000]
    environment.cell("each has its own content", [], wrong)
    environment.cell("and its class", {CLASSES["B"]}, {get_class(mount / name) for name in names})
