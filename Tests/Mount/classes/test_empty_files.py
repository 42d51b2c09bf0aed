"""Empty files of class B: opened for writing in every state, under a new key."""

import json
import os

from harness import CLASSES, get_class, outcome, read_file, run, binary, set_class, write_file

CONTENT = b"what a background download brings\n" * 500


def place(mount):
    """A directory whose default is class B."""
    path = mount / "inbox"
    os.makedirs(path, exist_ok=True)
    set_class(path, "B")
    return path


def make_empty(path):
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o640))


def append(path, content=CONTENT, flags=0):
    handle = os.open(path, os.O_WRONLY | flags)
    try:
        assert os.write(handle, content) == len(content)
    finally:
        os.close(handle)


def marks(mount, path):
    listed = json.loads(mount.command("class", "list", "--json", path).stdout)
    entry = listed[0] if isinstance(listed, list) else listed
    return entry["class"], entry["keyExposed"], entry["explicit"]


def test_old_and_new_ones(environment):
    """Files of before the lock, of the lock, and of an earlier mount: written once, closed, and read after the unlock."""
    mount = environment.mount()
    inbox = place(mount)
    make_empty(inbox + "/old")
    set_class(inbox + "/old", "B")
    for name in ("later", "untouched"):
        make_empty(f"{inbox}/{name}")
    os.utime(inbox + "/untouched", (1_000_000, 2_000_000))
    mount.lock()
    make_empty(inbox + "/new")

    def write(state, *names):
        for name in names:
            path = f"{inbox}/{name}"
            environment.cell(f"[{state}: {name} cannot be read]", "EACCES", outcome(read_file, path))
            environment.cell(f"[{state}: {name} is written]", "works", outcome(append, path))
            environment.cell(f"[{state}: {name} has content, and is closed]", "EACCES", outcome(append, path))
            environment.cell(f"[{state}: {name} is not emptied]", "EACCES", outcome(append, path, CONTENT, os.O_TRUNC))
            environment.cell(f"[{state}: {name}'s size]", len(CONTENT), os.stat(path).st_size)

    write("LCK", "old", "new")
    os.close(os.open(inbox + "/untouched", os.O_RDWR))
    mount = environment.remount(mount, unlock=False)
    make_empty(inbox + "/newest")
    write("BFU", "later", "newest")
    mount.unlock()
    for name in ("old", "new", "later", "newest"):
        environment.cell(f"[{name}: content]", CONTENT, read_file(f"{inbox}/{name}"))
        environment.cell(f"[{name}: marks]", ("completeUnlessOpen", False, name == "old"), marks(mount, f"{inbox}/{name}"))
    status = os.stat(inbox + "/untouched")
    environment.cell("[only opened: still empty, as old as before]", (0, 2_000_000), (status.st_size, int(status.st_mtime)))
    mount.unmount()
    checked = run(binary(), "fsck", "--recovery-file", mount.volume.code_file, mount.volume.path, env=mount.volume.environment,
                  ok=False)
    environment.cell("[the check finds nothing]", 0, checked.returncode)


def test_new_key(environment):
    """Page 0 of the store has another key afterwards, and the same file ID."""
    mount = environment.mount()
    path = place(mount) + "/file"
    make_empty(path)
    place_below = mount.stored(path)
    mount.lock()
    before = read_file(place_below)[:128]
    os.close(os.open(path, os.O_WRONLY))
    after = read_file(place_below)[:128]
    environment.cell("[the same ID]", before[16:32], after[16:32])
    environment.cell("[another key]", False, before[32:112] == after[32:112])
    make_empty(mount / "inbox/other")
    os.close(os.open(mount / "inbox/other", os.O_WRONLY))
    mount.unlock()
    append(path)
    environment.cell("[content]", CONTENT, read_file(path))


def test_opened_twice(environment):
    """While a program has the file open for writing no other one can open it: the kernel may hold data of it already."""
    mount = environment.mount()
    path = place(mount) + "/file"
    mount.lock()
    make_empty(path)
    first = os.open(path, os.O_RDWR)
    environment.cell("[a second one]", "EACCES", outcome(append, path))
    os.pwrite(first, b"first ", 0)
    # Written to the page cache only: the store still has an empty file.
    environment.cell("[a second one, of data that nobody has synced]", "EACCES", outcome(os.open, path, os.O_RDWR))
    os.fsync(first)
    environment.cell("[a second one, of synced data]", "EACCES", outcome(append, path))
    os.pwrite(first, b"second", 6)
    environment.cell("[read by the first]", b"first second", os.pread(first, 100, 0))
    os.close(first)
    environment.cell("[closed]", "EACCES", outcome(read_file, path))
    mount.unlock()
    environment.cell("[unlocked]", b"first second", read_file(path))
    environment.cell("[class]", CLASSES["B"], get_class(path))


def test_after_a_crash(environment):
    """What was synced is there. A file that a crash may have emptied stays closed until the unlock."""
    mount = environment.mount()
    inbox = place(mount)
    for name in ("written", "opened"):
        make_empty(f"{inbox}/{name}")
    mount = environment.remount(mount)
    mount.lock()
    handle = os.open(inbox + "/written", os.O_WRONLY)
    os.write(handle, CONTENT)
    os.fsync(handle)
    os.close(os.open(inbox + "/opened", os.O_WRONLY))
    mount.crash()
    os.close(handle)
    mount = environment.mount(mount.volume, path=mount.path, unlock=False)
    environment.cell("[BFU: may have been emptied]", "EACCES", outcome(append, inbox + "/opened"))
    environment.cell("[BFU: a new one]", "works", outcome(write_file, inbox + "/another", CONTENT))
    mount.unlock()
    environment.cell("[what was synced]", CONTENT, read_file(inbox + "/written"))
    environment.cell("[what was opened]", b"", read_file(inbox + "/opened"))
    append(inbox + "/opened")
    environment.cell("[and is written now]", CONTENT, read_file(inbox + "/opened"))


def test_old_header(environment):
    """Someone who changes the store puts an older page 0 back, of class B: the class that this mount has verified counts."""
    mount = environment.mount()
    path = place(mount) + "/file"
    make_empty(path)
    below = mount.stored(path)
    old = read_file(below)[:4096]
    set_class(path, "A")
    # The mount knows what it has verified of a file as long as the kernel knows the file.
    known = os.open(path, os.O_PATH)
    mount.lock()
    status = os.stat(below)
    with open(below, "r+b") as file:
        file.write(old)
    # With another time the file counts as another one, of which nothing is known.
    os.utime(below, ns=(status.st_atime_ns, status.st_mtime_ns))
    environment.cell("[refused]", "EACCES", outcome(append, path))
    environment.cell("[nothing is written]", True, read_file(below) == old)
    os.close(known)
