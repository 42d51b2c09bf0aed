"""Directory records, links, attributes and reserved names that a newer version made; see test_future_objects.py."""

import contextlib
import os
import shutil

import harness
import reader
from checks import kinds, report
from future import Store, erased, snapshot
from harness import CLASSES, get_class, outcome, pattern, read_file, set_class, write_file
from test_future_objects import NO, built, cells, check_untouched, compare, neighbours_work

#: Row -> (what is changed in the record, more bytes).
RECORDS = {
    "version 3": ({3: b"\3"}, b""), "class 6 as default": ({4: b"\6"}, b""), "incompatible flag": ({5: b"\1"}, b""),
    "generation": ({6: b"\1"}, b""), "freshness": ({8: b"\1"}, b""), "longer": ({}, b"more"),
}
READABLE = {"readable-only flag": ({5: b"\x10"}, b"")}
KEPT = {"compatible flag": ({5: b"\x80"}, b"")}


def fill_directory(mount, row):
    """A directory of class A by default with a file, a directory and a link, and an empty one beside it."""
    top = mount / row
    os.mkdir(top)
    set_class(top, "A")
    write_file(os.path.join(top, "file"), b"inner")
    os.mkdir(os.path.join(top, "below"))
    write_file(os.path.join(top, "below", "file"), b"deep")
    os.symlink("target", os.path.join(top, "link"))
    os.mkdir(top + " empty")


def use_of_directory(mount, row):
    """Everything that would change a directory, and what comes of it."""
    top = mount / row
    inner, new = os.path.join(top, "file"), os.path.join(top, "new")
    os.makedirs(mount / "moved", exist_ok=True)
    found = {
        "list": sorted(os.listdir(top)), "read": read_file(inner), "read below": read_file(os.path.join(top, "below", "file")),
        "readlink": os.readlink(os.path.join(top, "link")),
        "create": outcome(write_file, new, b"x"), "mkdir": outcome(os.mkdir, new), "symlink": outcome(os.symlink, "x", new),
        "mkfifo": outcome(os.mkfifo, new), "link into it": outcome(os.link, mount / "neighbour", new),
        "rename into it": outcome(os.rename, mount / "other", new),
        "rename out of it": outcome(os.rename, inner, mount / "out"),
        "rename within it": outcome(os.rename, inner, new), "unlink": outcome(os.unlink, inner),
        "unlink of a link": outcome(os.unlink, os.path.join(top, "link")),
        "rmdir below": outcome(os.rmdir, os.path.join(top, "below")),
        "set its default class": outcome(set_class, top, "C"), "rmdir": outcome(os.rmdir, top),
        "rmdir of an empty one": outcome(os.rmdir, top + " empty"),
        "rename over an empty one": outcome(os.rename, mount / "moved", top + " empty"),
        "rm -rf": harness.run("rm", "-rf", top + " empty", ok=False).returncode != 0 and os.path.isdir(top + " empty"),
        "mv over a file in it": harness.run("mv", "-f", mount / "other", inner, ok=False).returncode != 0,
    }
    os.rmdir(mount / "moved")
    # What is below has a record of its own.
    below = os.path.join(top, "below")
    found["create below"] = outcome(write_file, os.path.join(below, "new"), b"new")
    found["unlink below"] = outcome(os.unlink, os.path.join(below, "new"))
    return found


KEEPS = {"list": ["below", "file", "link"], "read": b"inner", "read below": b"deep", "readlink": "target", "create": NO,
         "mkdir": NO, "symlink": NO, "mkfifo": NO, "link into it": NO, "rename into it": NO, "rename out of it": NO,
         "rename within it": NO, "unlink": NO, "unlink of a link": NO, "rmdir below": NO, "set its default class": NO,
         "rmdir": NO, "rmdir of an empty one": NO, "rename over an empty one": NO, "rm -rf": True,
         "mv over a file in it": True, "create below": "works", "unlink below": "works"}


def change_records(volume, rows, tampered=False):
    for row, (changes, more) in rows.items():
        for name in (row, row + " empty"):
            Store(volume).record(name, changes, more, tampered)


def test_records(environment):
    rows = {**RECORDS, **READABLE}
    mount = built(environment, rows, fill_directory)
    change_records(mount.volume, rows)
    before = snapshot(mount.volume)
    check_untouched(environment, "records", mount.volume, 2 * len(rows), before)
    mount = environment.mount(mount.volume, path=mount.path)
    for row in rows:
        cells(environment, row, KEEPS, use_of_directory(mount, row))
        environment.cell(f"{row}: its default class", CLASSES["A"] if row in READABLE else NO,
                         get_class(mount / row) if row in READABLE else outcome(get_class, mount / row))
        environment.cell(f"{row}: stat", "works", outcome(os.stat, mount / row))
    neighbours_work(environment, "records", mount)
    mount.lock()
    for row in rows:
        environment.cell(f"{row}, locked: list", ["below", "file", "link"], sorted(os.listdir(mount / row)))
        environment.cell(f"{row}, locked: create", NO, outcome(write_file, os.path.join(mount / row, "new"), b"x"))
        environment.cell(f"{row}, locked: rmdir of an empty one", NO, outcome(os.rmdir, mount / row + " empty"))
    mount.unmount()
    compare(environment, "records, after every use", mount.volume, before)
    mount = environment.mount(mount.volume, path=mount.path)
    for row in rows:
        environment.cell(f"{row}: rename of the directory itself", "works",
                         outcome(os.rename, mount / row, mount / row + " renamed"))
        environment.cell(f"{row}: and what is in it", b"inner", read_file(os.path.join(mount / row + " renamed", "file")))
    mount.unmount()
    code, answer = report(mount.volume, "--repair", "--quarantine")
    environment.cell("records renamed: fsck", (64, 0), (code, answer["errors"]))
    erased(environment, "records", mount.volume)


def test_damage_below_a_newer_record(environment):
    """Objects below a newer record are checked; nothing is moved out of it or made in it."""
    mount = built(environment, ["version 3"], fill_directory)
    store = Store(mount.volume)
    reader.flip(store.backing("version 3/file"), 2000)
    reader.flip(store.backing("version 3/below/file"), 2000)
    change_records(mount.volume, {"version 3": RECORDS["version 3"]})
    before = snapshot(mount.volume)
    code, answer = report(mount.volume)
    environment.cell("found", (64 | 4, ["version 3/below/file", "version 3/file"]), (code, sorted(
        one["path"] for one in answer["findings"] if one["severity"] == "error")))
    code, answer = report(mount.volume, "--repair", "--quarantine")
    environment.cell("newer", (2, 64), (answer["newer"], code & 64))
    after = snapshot(mount.volume)
    directory = store.relative("version 3")
    inside = lambda found: {path: bytes_ for path, bytes_ in found.items() if os.path.dirname(path) == directory}
    below = store.relative("version 3/below")
    environment.cell("nothing in it is changed", {path: value for path, value in inside(before).items() if path != below},
                     {path: value for path, value in inside(after).items() if path != below})


def test_records_of_the_root(environment):
    for row, (changes, more) in {**RECORDS, **READABLE}.items():
        mount = environment.mount()
        write_file(mount / "neighbour", b"inner")
        for name, letter in (("inherits", None), ("its own", "C")):
            os.mkdir(mount / name)
            if letter:
                set_class(mount / name, letter)
        mount.unmount()
        Store(mount.volume).record("", changes, more)
        before = snapshot(mount.volume)
        check_untouched(environment, f"root, {row}", mount.volume, 1, before)
        mount = environment.mount(mount.volume, path=mount.path)
        found = {
            "list": sorted(os.listdir(mount.path)), "read": read_file(mount / "neighbour"),
            "create": outcome(write_file, mount / "new", b"x"), "mkdir": outcome(os.mkdir, mount / "new"),
            "unlink": outcome(os.unlink, mount / "neighbour"),
            "rename": outcome(os.rename, mount / "neighbour", mount / "new"),
            "rename over": outcome(os.rename, mount / "inherits", mount / "its own"),
            "rmdir": outcome(os.rmdir, mount / "inherits"), "set its default class": outcome(set_class, mount.path, "C"),
            "create where the root's class is inherited": outcome(write_file, mount / "inherits/new", b"x"),
            "create in a directory of its own class": outcome(write_file, mount / "its own/new", b"x"),
        }
        cells(environment, f"root, {row}", {
            "list": ["inherits", "its own", "neighbour"], "read": b"inner", "create": NO, "mkdir": NO, "unlink": NO,
            "rename": NO, "rename over": NO, "rmdir": NO, "set its default class": NO,
            "create where the root's class is inherited": "works" if row in READABLE else NO,
            "create in a directory of its own class": "works"}, found)
        mount.unmount()
        erased(environment, f"root, {row}", mount.volume)


def test_kept_flags_of_records(environment):
    mount = built(environment, KEPT, fill_directory)
    change_records(mount.volume, KEPT)
    environment.cell("kept flags: fsck", (0, []), (lambda code, answer: (code, answer["findings"]))(*report(mount.volume)))
    mount = environment.mount(mount.volume, path=mount.path)
    for row in KEPT:
        write_file(os.path.join(mount / row, "new"), b"new")
        set_class(mount / row, "C")
    mount.unmount()
    for row in KEPT:
        environment.cell(f"{row}: after another default class", 0x80, Store(mount.volume).record_flags(row))


def test_records_tampered(environment):
    """The same bytes without the MAC: a directory without a record, which repair gives one."""
    rows = {**RECORDS, **READABLE, **KEPT}
    mount = built(environment, rows, fill_directory)
    change_records(mount.volume, rows, tampered=True)
    mount = environment.mount(mount.volume, path=mount.path)
    for row in rows:
        environment.cell(f"{row}, tampered: create", "EIO", outcome(write_file, os.path.join(mount / row, "new"), b"x"))
    mount.unmount()
    code, answer = report(mount.volume)
    environment.cell("tampered: fsck", (4, 0), (code, answer["newer"]))
    code, answer = report(mount.volume, "--repair", "--quarantine")
    environment.cell("tampered: repaired", (True, 0), (bool(code & 1), answer["remaining"]))
    mount = environment.mount(mount.volume, path=mount.path)
    for row in rows:
        environment.cell(f"{row}, repaired: create", "works", outcome(write_file, os.path.join(mount / row, "new"), b"x"))


VERSIONS = (1, 3, 255)


def fill_links(mount, version):
    os.symlink("the target", mount / f"link {version}")
    os.mkdir(mount / f"directory {version}")
    for name in (f"file {version}", f"directory {version}"):
        if name.startswith("file"):
            write_file(mount / name, b"content")
        os.setxattr(mount / name, "user.one", b"first")
        os.setxattr(mount / name, "user.two", b"second")


def change_links(volume, tampered=False):
    store = Store(volume)
    for version in VERSIONS:
        store.link(f"link {version}", version, tampered)
        for name in (f"file {version}", f"directory {version}"):
            store.attribute(name, "user.one", version, tampered)


def test_links_and_attributes(environment):
    mount = built(environment, VERSIONS, fill_links)
    change_links(mount.volume)
    before = snapshot(mount.volume)
    check_untouched(environment, "links and attributes", mount.volume, 3 * len(VERSIONS), before)
    mount = environment.mount(mount.volume, path=mount.path)
    for version in VERSIONS:
        link = mount / f"link {version}"
        write_file(mount / "over", b"over")
        cells(environment, f"symlink of version {version}", {
            "lstat": "works", "listed": True, "readlink": NO, "following it": NO, "rename over it": NO,
            "ln -sf": True, "rename away": "works", "and back": "works", "link": "works", "unlink of a link": "works"}, {
                "lstat": outcome(os.lstat, link), "listed": f"link {version}" in os.listdir(mount.path),
                "readlink": outcome(os.readlink, link), "following it": outcome(read_file, link),
                "rename over it": outcome(os.rename, mount / "over", link),
                "ln -sf": harness.run("ln", "-sfn", "other", link + " new", ok=False).returncode == 0 and (
                    outcome(os.rename, link + " new", link) == NO),
                "rename away": outcome(os.rename, link, link + " moved"),
                "and back": outcome(os.rename, link + " moved", link),
                "link": outcome(lambda: os.link(link, link + " 2", follow_symlinks=False)),
                "unlink of a link": outcome(os.unlink, link + " 2")})
        for left in (link + " new", mount / "over"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(left)
        for name in (f"file {version}", f"directory {version}"):
            cells(environment, f"attribute of version {version}, {name.split()[0]}", {
                "get": NO, "set": NO, "replace": NO, "list": ["user.one", "user.two"], "another one": b"second",
                "set another one": "works", "create it": "EEXIST"}, {
                    "get": outcome(os.getxattr, mount / name, "user.one"),
                    "set": outcome(os.setxattr, mount / name, "user.one", b"new"),
                    "replace": outcome(os.setxattr, mount / name, "user.one", b"new", os.XATTR_REPLACE),
                    "list": sorted(key for key in os.listxattr(mount / name) if key in ("user.one", "user.two")),
                    "another one": os.getxattr(mount / name, "user.two"),
                    "set another one": outcome(os.setxattr, mount / name, "user.three", b"3"),
                    "create it": outcome(os.setxattr, mount / name, "user.one", b"new", os.XATTR_CREATE)})
            os.removexattr(mount / name, "user.three")
        environment.cell(f"file with an attribute of version {version}: content", b"content", read_file(mount / f"file {version}"))
    mount.unmount()
    compare(environment, "links and attributes, after every use", mount.volume, before)
    mount = environment.mount(mount.volume, path=mount.path)
    for version in VERSIONS:
        environment.cell(f"attribute of version {version}: remove", ("works", "works"), tuple(
            outcome(os.removexattr, mount / name, "user.one") for name in (f"file {version}", f"directory {version}")))
        environment.cell(f"symlink of version {version}: remove", "works", outcome(os.unlink, mount / f"link {version}"))
    mount.unmount()
    code, answer = report(mount.volume)
    environment.cell("all removed: fsck", (0, []), (code, answer["findings"]))


def test_links_and_attributes_tampered(environment):
    mount = built(environment, VERSIONS, fill_links)
    change_links(mount.volume, tampered=True)
    mount = environment.mount(mount.volume, path=mount.path)
    for version in VERSIONS:
        environment.cell(f"tampered, version {version}", ("EIO", "EIO", "EIO"), (
            outcome(os.readlink, mount / f"link {version}"), outcome(os.getxattr, mount / f"file {version}", "user.one"),
            outcome(os.getxattr, mount / f"directory {version}", "user.one")))
    mount.unmount()
    code, answer = report(mount.volume)
    environment.cell("tampered: fsck", (4, 0), (code, answer["newer"]))


#: Names that this version does not know, or that it knows in another place: a file, a directory with a file, a symlink.
RESERVED = (".protectfs.x", ".protectfs.index", ".protectfs.")


def test_reserved_names(environment):
    """Hidden, kept, never moved; a directory that holds one is not empty."""
    mount = environment.mount()
    for name in ("d", "e", "full"):
        os.mkdir(mount / name)
    write_file(mount / "full/file", b"file")
    write_file(mount / "neighbour", pattern(13_000, seed=9))
    mount.unmount()
    store = Store(mount.volume)
    made = []
    for place in (os.fsencode(mount.volume.path), store.backing("d"), store.backing("full")):
        for number, name in enumerate(RESERVED):
            made.append(os.path.join(place, os.fsencode(name)))
            write_file(made[-1], b"of a newer version %d" % number)
        made.append(os.path.join(place, b".protectfs.directory"))
        os.mkdir(made[-1])
        write_file(os.path.join(made[-1], b"inner"), b"inner")
        made.append(os.path.join(place, b".protectfs.link"))
        os.symlink(b"anywhere", made[-1])
    # Known names in another place.
    for name in (b".protectfs.keybag", b".protectfs.late.0000000000000001", b".protectfs.lost+found"):
        made.append(os.path.join(store.backing("e"), name))
        write_file(made[-1], b"not of this place")
    before = snapshot(mount.volume)
    for words in ([], ["--repair"], ["--repair", "--quarantine"]):
        code, answer = report(mount.volume, *words)
        environment.cell(f"fsck {' '.join(words)}", (0, 0, 0, True), (
            code, answer["errors"], answer["newer"], {one["severity"] for one in answer["findings"]} == {"note"}))
        environment.cell(f"fsck {' '.join(words)}: a note for each", len(made), len(kinds(answer)))
        compare(environment, f"after fsck {' '.join(words)}", mount.volume, before)
    mount = environment.mount(mount.volume, path=mount.path)
    environment.cell("hidden in ls -a", (["d", "e", "full", "neighbour"], [], [], ["file"]), tuple(
        sorted(os.listdir(mount / name)) for name in ("", "d", "e", "full")))
    for name in RESERVED:
        environment.cell(f"{name}: by its name", "ENOENT", outcome(os.lstat, mount / name))
        environment.cell(f"{name}: unlink by its name", "ENOENT", outcome(os.unlink, mount / name))
    for name in ("d", "e"):
        environment.cell(f"rmdir {name}", "ENOTEMPTY", outcome(os.rmdir, mount / name))
        os.mkdir(mount / "over")
        environment.cell(f"rename over {name}", "ENOTEMPTY", outcome(os.rename, mount / "over", mount / name))
        os.rmdir(mount / "over")
    environment.cell("rm -rf", ("ENOTEMPTY", True), (outcome(shutil.rmtree, mount / "full"), os.path.isdir(mount / "full")))
    environment.cell("rm -rf has removed what is known", [], os.listdir(mount / "full"))
    write_file(mount / "d/new", b"new")
    environment.cell("a name of a program that looks like one", "works", outcome(write_file, mount / ".protectfs.x", b"program"))
    environment.cell("it is another one", b"program", read_file(mount / ".protectfs.x"))
    mount.unmount()
    after = snapshot(mount.volume)
    kept = [os.path.relpath(path, os.fsencode(mount.volume.path)) for path in made]
    environment.cell("every one of them is as it was", [before[path] for path in kept], [after.get(path) for path in kept])
    erased(environment, "reserved names", mount.volume)
