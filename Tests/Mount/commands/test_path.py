"""`protectfs path`: where an object of a mount is in the store, and back."""

import json
import os

import control_socket
from harness import binary, run, set_class, write_file
from refusals import FAILURE, NOT_MOUNTED, USAGE, code_of

NAMES = {
    "plain": b"file", "spaces": b" a b ", "newline": b"one\ntwo", "not text": b"\xff\xfe \x1b[31m", "quotes": b"\"'\\",
    "dash": b"-r", "175 bytes": b"d" * 175, "176 bytes": b"l" * 176, "255 bytes": "ü".encode() * 127 + b"x",
    "like a reserved one": b".protectfs.keybag", "like a marked one": b".unverified-abc",
}


def ask(mount, *words, ok=True, **more):
    """The path printed, as bytes."""
    done = run(binary(), "path", *words, env=mount.volume.environment, ok=ok, text=False, **more)
    return done.stdout.removesuffix(b"\n") if done.returncode == 0 else done


def report(mount, *words):
    """The report; that it parses shows that it is JSON, whatever the name is."""
    done = run(binary(), "path", "--json", *words, env=mount.volume.environment, text=False)
    return json.loads(done.stdout.decode("utf-8"))


def both(environment, mount, name, path):
    """Both directions, and the inode numbers of both ends."""
    path = os.fsencode(path)
    backing = ask(mount, "--", path)
    same = os.lstat(path).st_ino == os.lstat(backing).st_ino
    environment.cell(f"{name}: both are one object", True, same and backing.startswith(os.fsencode(mount.volume.path)))
    environment.cell(f"{name}: and back", path, ask(mount, "--reverse", "--", backing))
    facts = report(mount, "--", path)
    environment.cell(f"{name}: JSON", (path, backing),
                     (bytes.fromhex(facts["pathHex"]), bytes.fromhex(facts["backingPathHex"])))
    environment.cell(f"{name}: the same JSON back", facts, report(mount, "--reverse", "--", backing))
    return facts


def test_every_name_and_kind(environment):
    mount = environment.mount()
    os.makedirs(mount / "dir/sub")
    for name, raw in NAMES.items():
        path = os.path.join(os.fsencode(mount / "dir/sub"), raw)
        write_file(path, b"x")
        facts = both(environment, mount, name, path)
        environment.cell(f"{name}: companion", len(raw) > 175, facts["companion"] is not None)
        if facts["companion"]:
            environment.cell(f"{name}: its companion is there", True, os.path.islink(facts["companion"]))
            environment.cell(f"{name}: back from its companion", path, ask(mount, "-r", facts["companion"]))
    os.symlink("/nowhere", mount / "dangling")
    os.symlink("dir", mount / "to a directory")
    os.mkfifo(mount / "fifo")
    os.link(os.path.join(mount / "dir/sub", "file"), mount / "second name")
    kinds = {"dir": "directory", "dir/sub": "directory", "dangling": "symlink", "to a directory": "symlink",
             "fifo": "fifo", "second name": "file", "dir/sub/file": "file"}
    for name, kind in kinds.items():
        environment.cell(f"{name}: kind", kind, both(environment, mount, name, mount / name)["kind"])
    environment.cell("hard links are two entries", True,
                     ask(mount, mount / "second name") != ask(mount, mount / "dir/sub/file"))
    environment.cell("through a link to a directory", ask(mount, mount / "dir/sub"), ask(mount, mount / "to a directory/sub"))
    environment.cell("a link with a slash is its target", ask(mount, mount / "dir"), ask(mount, mount / "to a directory/"))
    both(environment, mount, "the root", mount.path)
    for path in (mount.path + "/", mount / ".", mount / "dir/.."):
        environment.cell(f"the root as {path[len(mount.path):]}", mount.volume.path.encode(), ask(mount, path))


def test_every_state(environment):
    mount = environment.mount()
    for letter in "ABCD":
        write_file(mount / letter, b"x")
        set_class(mount / letter, letter)
    os.makedirs(mount / "dir")
    before = {letter: ask(mount, mount / letter) for letter in "ABCD"}
    mount.lock()
    environment.cell("locked", before, {letter: ask(mount, mount / letter) for letter in "ABCD"})
    again = environment.remount(mount, unlock=False)
    environment.cell("before first unlock", before, {letter: ask(again, again / letter) for letter in "ABCD"})
    environment.cell("back", os.fsencode(again / "A"), ask(again, "--reverse", before["A"]))


def test_ways_to_write_a_path(environment):
    mount = environment.mount()
    os.makedirs(mount / "dir")
    write_file(mount / "dir/file", b"x")
    backing = os.fsdecode(ask(mount, mount / "dir/file"))
    # An encrypted name may begin with a dash, as any name of base64url.
    relative = os.path.join(".", os.path.relpath(backing, mount.volume.path))
    outside = environment.new_path("outside")
    os.mkdir(outside)
    os.symlink(mount.path, os.path.join(outside, "link"))
    os.symlink(mount.volume.path, os.path.join(outside, "store"))
    visible = os.fsencode(mount / "dir/file")
    environment.cell("relative", visible, ask(mount, "-r", relative, cwd=mount.volume.path))
    environment.cell("relative to the store, from elsewhere", visible, ask(mount, "-r", relative, cwd=outside))
    environment.cell("with ..", visible, ask(mount, "-r", f"{mount.volume.path}/{os.path.dirname(relative)}/../{relative}"))
    environment.cell("through a link", visible, ask(mount, "-r", os.path.join(outside, "store", relative)))
    environment.cell("the store's root through a link", os.fsencode(mount.path), ask(mount, "-r", os.path.join(outside, "store")))
    environment.cell("the mount through a link", backing.encode(), ask(mount, os.path.join(outside, "link/dir/file")))
    environment.cell("a link to the mount", mount.volume.path.encode(), ask(mount, os.path.join(outside, "link")))
    environment.cell("from inside", backing.encode(), ask(mount, "file", cwd=mount / "dir"))
    environment.cell("here", backing.rpartition("/")[0].encode(), ask(mount, ".", cwd=mount / "dir"))


def test_what_is_missing(environment):
    mount = environment.mount()
    os.makedirs(mount / "dir")
    long = "l" * 200
    for name in ("gone", long):
        write_file(mount / f"dir/{name}", b"x")
        before = ask(mount, mount / f"dir/{name}")
        os.unlink(mount / f"dir/{name}")
        code_of(environment, f"{name}: deleted", FAILURE, "path", mount / f"dir/{name}")
        code_of(environment, f"{name}: its entry is gone", FAILURE, "path", "--reverse", before)
        environment.cell(f"{name}: where it was", before, ask(mount, "--missing", mount / f"dir/{name}"))
    environment.cell("its companion too", True, bool(report(mount, "--missing", mount / f"dir/{long}")["companion"]))
    environment.cell("no kind", None, report(mount, "--missing", mount / "dir/gone")["kind"])
    # Another directory of that name has another ID, and other names in it.
    os.rmdir(mount / "dir")
    code_of(environment, "no directory", FAILURE, "path", "--missing", mount / "dir/gone")
    os.mkdir(mount / "dir")
    environment.cell("a new directory", False, ask(mount, "--missing", mount / f"dir/{long}") == before)


def test_refusals(environment):
    mount = environment.mount()
    os.makedirs(mount / "dir")
    outside = environment.new_path("outside")
    os.mkdir(outside)
    write_file(os.path.join(outside, "file"), b"x")
    for name, code, words in (
            ("not on a mount", NOT_MOUNTED, [os.path.join(outside, "file")]),
            ("a path of the store without --reverse", NOT_MOUNTED, [mount.volume.path]),
            ("not in a store", NOT_MOUNTED, ["-r", os.path.join(outside, "file")]),
            ("out of the store", NOT_MOUNTED, ["-r", mount.volume.path + "/.."]),
            ("a path of the mount with --reverse", NOT_MOUNTED, ["-r", mount / "dir"]),
            ("missing above", FAILURE, [mount / "none/none"]), ("missing in the store", FAILURE, ["-r", "none"]),
            ("a long name", FAILURE, [mount / ("n" * 256)]), ("a long path", FAILURE, [mount / ("n/" * 3000)]),
            ("the keybag", FAILURE, ["-r", mount.volume.path + "/.protectfs.keybag"]),
            ("a record", FAILURE, ["-r", mount.volume.path + "/.protectfs.dir"]),
            ("--reverse and --missing", USAGE, ["-r", "--missing", "x"]), ("nothing", USAGE, []),
            ("an empty path", USAGE, [""])):
        code_of(environment, name, code, "path", *words)
    mount.unmount()
    code_of(environment, "unmounted", NOT_MOUNTED, "path", mount / "dir")
    code_of(environment, "a store that is not mounted", NOT_MOUNTED, "path", "-r", mount.volume.path)


def test_names_that_nothing_proves(environment):
    mount = environment.mount()
    os.makedirs(mount / "dir/sub")
    write_file(mount / "dir/text", b"x")
    store = os.fsdecode(ask(mount, mount / "dir"))
    write_file(os.path.join(mount.volume.path, "foreign\nname"), b"x")
    mount.unmount()
    os.unlink(os.path.join(store, ".protectfs.dir"))
    mount = environment.mount(mount.volume)
    shown = [os.path.join(mount / "dir", name) for name in os.listdir(mount / "dir")]
    shown += [mount / name for name in os.listdir(mount.path) if name.startswith(".undecryptable-")]
    environment.cell("what is shown", 3, len(shown))
    for path in shown:
        name = os.path.basename(path).split("-")[0] + " " + os.path.basename(path)[-4:]
        wanted = "unverified" if "unverified" in path else "undecryptable"
        environment.cell(f"{name}: said", wanted, both(environment, mount, name, path)["name"])
    code_of(environment, "the name itself proves nothing", FAILURE, "path", mount / "dir/text")


def test_hostile_requests(environment):
    """What the command never sends."""
    mount = environment.mount()
    write_file(mount / "file", b"x")
    for name, wanted, request in (
            ("no path", "malformed", {}), ("a number", "malformed", {"path": 7}),
            ("half a byte", "malformed", {"path": "6"}), ("an absolute path", "malformed", {"path": b"/file".hex()}),
            ("..", "malformed", {"path": b"../file".hex()}), ("a zero byte", "malformed", {"path": "610062"}),
            ("4097 bytes", "malformed", {"path": "61" * 4097}), ("4096 bytes", "failed", {"path": "61" * 4096}),
            ("2048 names", "failed", {"path": b"/".join([b"a"] * 2048).hex(), "missing": True}),
            ("a store's path of a file", "failed", {"path": b"file".hex(), "reverse": True})):
        with control_socket.connect(mount) as client:
            answer = control_socket.ask(client, {"request": "path", **request})
        environment.cell(name, wanted, answer.get("error"))
    with control_socket.connect(mount) as client:
        answer = control_socket.ask(client, {"request": "path", "path": b"file".hex()})
    environment.cell("and one that is answered", ("file", "file"), (bytes.fromhex(answer["visible"]).decode(), answer["kind"]))


def test_deep_and_bind_mounted(environment):
    mount = environment.mount()
    deep = "/".join(["d"] * 100)
    os.makedirs(mount / deep)
    write_file(mount / deep + "/file", b"x")
    both(environment, mount, "100 directories", mount / deep + "/file")
    if os.geteuid() == 0:
        part = environment.new_path("part")
        os.mkdir(part)
        run("mount", "--bind", mount / "d/d", part)
        try:
            environment.cell("through a bind mount", ask(mount, mount / deep), ask(mount, os.path.join(part, "/".join(["d"] * 98))))
        finally:
            run("umount", part)
