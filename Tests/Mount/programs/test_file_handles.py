"""File handles (name_to_handle_at(2)) after the kernel has forgotten the object, and after a remount."""

import ctypes
import os

import harness
from costs import Counter
from handles import FileHandle, forget, handle_of, reopen, result
from harness import read_file, set_class, write_file

LONG = "long " + "n" * 240


def make(mount):
    """A tree with each kind of object. Gives what a handle of each must open: name -> (handle, flags, result)."""
    os.makedirs(mount / "a/b/c")
    names = {"a/b/c/file": b"content", "empty": b"", "a/" + LONG: b"long", "a/b/linked": b"linked"}
    for name, content in names.items():
        write_file(mount / name, content)
    os.link(mount / "a/b/linked", mount / "a/second name")
    set_class(mount / "a/b/c/file", "A")
    os.symlink("a/b/c/file", mount / "a/b/symlink")
    os.mkfifo(mount / "a/fifo")
    expected = {name: (os.O_RDONLY, content) for name, content in names.items()}
    expected |= {"a/b/c": (os.O_RDONLY, ["file"]), "a/b": (os.O_RDONLY, ["c", "linked", "symlink"]),
                 "a/b/symlink": (os.O_PATH, "a/b/c/file"), "a/fifo": (os.O_PATH, "special")}
    return {name: (handle_of(mount / name), *rest) for name, rest in expected.items()}


def judge(environment, name, mount, handles):
    environment.cell(name, {path: expected for path, (_, _, expected) in handles.items()},
                     {path: result(mount, handle, flags) for path, (handle, flags, _) in handles.items()})


def test_lasting(environment):
    """A handle opens its object whatever was forgotten, as long as the object has a name."""
    mount = environment.mount()
    handles = make(mount)
    judge(environment, "known", mount, handles)
    forget()
    judge(environment, "forgotten", mount, handles)
    mount = environment.remount(mount)
    judge(environment, "another mount", mount, handles)
    mount = environment.remount(mount)
    for _ in range(2):
        for path, (handle, flags, expected) in reversed(handles.items()):
            forget()
            environment.cell(f"alone: {path}", expected, result(mount, handle, flags))
    environment.cell("the same handle again", {path: bytes(handle.bytes) for path, (handle, *_) in handles.items()},
                     {path: bytes(handle_of(mount / path).bytes) for path in handles})


def test_moved(environment):
    """A handle follows its object to other names and directories."""
    mount = environment.mount()
    write_file(mount / "file", b"1")
    os.makedirs(mount / "from/deep")
    write_file(mount / "from/deep/other", b"2")
    handles = {name: handle_of(mount / name) for name in ("file", "from/deep/other", "from/deep")}
    os.mkdir(mount / "to")
    os.rename(mount / "file", mount / "to/moved")
    os.rename(mount / "from/deep", mount / "to/deeper")
    expected = {"file": b"1", "from/deep/other": b"2", "from/deep": ["other"]}
    for name in ("known", "another mount"):
        environment.cell(name, expected, {path: result(mount, handle) for path, handle in handles.items()})
        mount = environment.remount(mount)
    directory = reopen(mount, handles["from/deep"])
    environment.cell("parent of a directory", os.stat(mount / "to").st_ino, os.stat("..", dir_fd=directory).st_ino)
    os.close(directory)


def test_gone(environment):
    """A handle of a removed object is stale, also if another object has its inode number."""
    mount = environment.mount()
    for number in range(50):
        write_file(mount / f"old {number}", b"old")
    os.mkdir(mount / "old directory")
    handles = [handle_of(mount / name) for name in os.listdir(mount.path)]
    numbers = {os.stat(mount / name).st_ino for name in os.listdir(mount.path)}
    for name in os.listdir(mount.path):
        (os.rmdir if name.endswith("directory") else os.unlink)(mount / name)
    for number in range(200):
        write_file(mount / f"new {number}", b"new")
    reused = {os.stat(mount / name).st_ino for name in os.listdir(mount.path)} & numbers
    for name in (f"{len(reused)} inode numbers are in use again", "another mount"):
        environment.cell(name, {"ESTALE"}, {result(mount, handle) for handle in handles})
        forget()
        environment.cell(f"{name}, forgotten", {"ESTALE"}, {result(mount, handle) for handle in handles})
        mount = environment.remount(mount)
    environment.cell("new files have lasting handles", {b"new"}, {
        result(mount, handle) for handle in [handle_of(mount / f"new {number}") for number in range(200)]})


def test_unlinked_but_open(environment):
    """A file without a name is reachable by its handle as long as it is open, as on ext4."""
    mount = environment.mount()
    write_file(mount / "file", b"kept")
    handle = handle_of(mount / "file")
    with open(mount / "file", "rb"):
        os.unlink(mount / "file")
        forget()
        environment.cell("open", b"kept", result(mount, handle))
    # The kernel keeps the inode until RELEASE, which follows close(2), is answered.
    harness.wait_until(lambda: result(mount, handle) == "ESTALE", what="the handle's end")


def test_locked(environment):
    """A handle gives no more than a path does."""
    mount = environment.mount()
    handles = make(mount)
    mount.lock()
    forget()
    environment.cell("class A", "EACCES", result(mount, handles["a/b/c/file"][0]))
    environment.cell("class C", b"long", result(mount, handles["a/" + LONG][0]))
    environment.cell("a directory", ["c", "linked", "symlink"], result(mount, handles["a/b"][0]))


def test_rubbish(environment):
    """A handle that was not made by this volume opens nothing."""
    mount = environment.mount()
    handle = handle_of(mount.path)
    for number in (0, 1 << 63, (1 << 63) | 7, 3, 0xFFFFFFFF, (1 << 48) - 1, (1 << 64) - 1):
        # The node's number, high half first, then the generation.
        parts = ((number >> 32) & 0xFFFFFFFF, number & 0xFFFFFFFF, 0)
        handle.bytes = b"".join(part.to_bytes(4, "little") for part in parts)
        ctypes.memmove(ctypes.addressof(handle) + FileHandle.bytes.offset, b"".join(
            part.to_bytes(4, "little") for part in parts), 12)
        environment.cell(f"number {number:#x}", "ESTALE", result(mount, handle))
    environment.cell("the mount works", [], os.listdir(mount.path))
    environment.cell("nothing is logged as damaged", True, "damage" not in harness.protectfs(
        "status", mount.path).stdout)
    environment.cell("read", b"x", (write_file(mount / "x", b"x"), read_file(mount / "x"))[1])


def test_removed_are_not_looked_for(environment):
    """Handles of removed objects: the store is listed once, and not for each of them."""
    counter = Counter(environment, environment.volume())
    mount = counter.mount
    for number in range(40):
        os.mkdir(mount / f"{number}")
        write_file(mount / f"{number}/file", b"content")
    handles = [handle_of(mount / f"{number}/file") for number in range(40)]
    for number in range(40):
        os.unlink(mount / f"{number}/file")
    forget()
    cost, calls = counter.cost(lambda handle: environment.cell("stale", "ESTALE", result(mount, handle)), handles)
    # Two calls for each directory, once.
    environment.cell("listings", True, 0 < calls.get("getdents64", 0) * len(handles) <= 2 * 42 + 10)
    write_file(mount / "1/new", b"new")
    handle = handle_of(mount / "1/new")
    forget()
    environment.cell("a new one is looked for", b"new", result(mount, handle))
