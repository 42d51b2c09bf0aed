"""A sync client changes a volume while it is mounted: nothing crashes, and no file gets content of another."""

import json
import os
import shutil
import stat
import time

import harness
import reader
from damage import inspect
from harness import outcome, pattern, read_file, wait_until, write_file

SECONDS = 60  # for an access that must not hang
SIZES = {"small": 500, "middle": 9_000, "large": 300_000}


class Below:
    """A mounted volume and the backing paths of what is in it."""

    def __init__(self, environment, options=(), volume=None):
        reader.load()
        self.environment = environment
        self.mount = environment.mount(volume, options=options)
        self.label = ", ".join(options) or "exclusive"
        self.contents = {}

    def make(self, name, size=9_000, seed=None):
        self.contents[name] = pattern(size, seed=seed or len(self.contents) + 1)
        write_file(self.mount / name, self.contents[name], os.O_TRUNC)
        handle = os.open(self.mount / name, os.O_RDONLY)
        os.fsync(handle)
        os.close(handle)

    def look(self):
        """Backing paths as they are by now."""
        self.view = reader.unlock(self.mount.volume)

    def path(self, name):
        return os.fsdecode(self.view.backing_path(name))

    def cell(self, name, expected, actual):
        self.environment.cell(f"{self.label}: {name}", expected, actual)

    def still_works(self, name="the mount goes on"):
        write_file(self.mount / "still", self.contents.setdefault("still", pattern(5000, seed=77)), os.O_TRUNC)
        self.cell(name, True, read_file(self.mount / "still") == self.contents["still"])
        self.cell(f"{name}: socket", "unlocked", self.mount.status()["state"])


def copy(source, target):
    """As a sync client restores a file: contents and attributes, and another time."""
    with open(source, "rb") as file:
        content = file.read()
    with open(target, "r+b" if os.path.exists(target) else "wb") as file:
        file.write(content)
        file.truncate()
    for name in os.listxattr(source):
        os.setxattr(target, name, os.getxattr(source, name))
    later = time.time_ns() + 5_000_000_000
    os.utime(target, ns=(later, later))


def replace(source, target, in_place):
    if in_place:
        return copy(source, target)
    copy(source, target + ".sync-temporary")
    os.rename(target + ".sync-temporary", target)


def shown(path):
    """What reopening gives: the contents, or an errno's name."""
    found = []
    seen = outcome(lambda: found.append(read_file(path)))
    return found[0] if seen == "works" else seen


def another_volume(environment):
    """A volume with keys of its own: those of the other tests are copies of one."""
    place = environment.new_path("another")
    os.mkdir(place)
    volume = harness.Volume(os.path.join(place, "volume"), os.path.join(place, "data"), os.path.join(place, "code"),
                            environment.volume().passphrase_file)
    made = json.loads(harness.protectfs("init", "--json", "--passphrase-file", volume.passphrase_file, volume.path,
                                        env=volume.environment).stdout)
    write_file(volume.code_file, made["recoveryCode"].encode() + b"\n")
    return volume


def versions(environment, options):
    """Files that are replaced by their own older version, by another file, by a file of another volume."""
    below, other = Below(environment, options), Below(environment, volume=another_volume(environment))
    store = environment.new_path("older")
    os.mkdir(store)
    cases = [(size, source, how) for size in SIZES for source in ("older", "sibling", "foreign")
             for how in ("renamed", "in place")]
    names = {case: " ".join(case) for case in cases}
    for case, name in names.items():
        below.make(name, SIZES[case[0]], seed=1)
        other.make(name, SIZES["middle"] + 17, seed=99)
    below.look()
    other.look()
    for case, name in names.items():
        shutil.copy2(below.path(name), os.path.join(store, name))
    older = dict(below.contents)
    held = {}
    for case, name in names.items():
        below.make(name, SIZES[case[0]] + 5000, seed=2)
        below.make(name + " sibling", SIZES["middle"], seed=3)
        held[name] = os.open(below.mount / name, os.O_RDONLY)
        read_file(below.mount / name)
    below.look()
    closed = [name for number, name in enumerate(names.values()) if number % 2]
    for name in closed:
        os.close(held.pop(name))
    for case, name in names.items():
        source = {"older": os.path.join(store, name), "sibling": below.path(name + " sibling"),
                  "foreign": other.path(name)}[case[1]]
        replace(source, below.path(name), case[2] == "in place")
    if options:
        time.sleep(1.5)
    for case, name in names.items():
        new = below.contents[name]
        if name in held:
            # The handle from before: bytes of the file it was opened on, in one of its versions, or an error.
            def page(at):
                result = []
                seen = outcome(lambda: result.append(os.pread(held[name], harness.PAGE, at)))
                return result[0] if seen == "works" else seen
            pages = [(at, page(at)) for at in range(0, len(new), harness.PAGE)]
            wrong = [at for at, found in pages if found != "EIO" and found != "ESTALE" and not any(
                (found == b"" or content[at:].startswith(found)) for content in (new, older[name]))]
            below.cell(f"{name}: through a handle from before", [], wrong)
            os.close(held[name])
        expected = {"older": older[name], "sibling": below.contents[name + " sibling"], "foreign": "EIO"}[case[1]]
        found = shown(below.mount / name)
        # The daemon hears of a close after close(2) has returned; until then the handle from before counts.
        end = time.monotonic() + SECONDS
        while found != expected and time.monotonic() < end:
            time.sleep(0.05)
            found = shown(below.mount / name)
        below.cell(f"{name}: at reopening", True, found == expected or
                   f"{found if isinstance(found, str) else (len(found), found[:16], len(expected))}")
        if found == expected and not isinstance(found, str):
            below.cell(f"{name}: size", len(expected), os.stat(below.mount / name).st_size)
            # What is written from now on belongs to the file that is there.
            handle = os.open(below.mount / name, os.O_RDWR | os.O_APPEND)
            os.write(handle, b"more")
            os.close(handle)
            below.cell(f"{name}: appended", True, read_file(below.mount / name) == expected + b"more")
    for name in below.contents:
        if name.endswith(" sibling"):
            below.cell(f"{name} itself", {"right"}, inspect(below.mount / name, below.contents[name]))
    below.still_works()
    mount = environment.remount(below.mount)
    for case, name in names.items():
        if case[1] != "foreign":
            expected = older[name] if case[1] == "older" else below.contents[name + " sibling"]
            below.cell(f"{name}: mounted again", True, read_file(mount / name) == expected + b"more")


def test_versions(environment):
    versions(environment, ())


def test_versions_shared(environment):
    versions(environment, ("shared",))


def test_changed_beside_a_reader(environment):
    """A program reads a file while it is replaced in place, and closes it: the next open gets the new content."""
    below = Below(environment)
    below.make("file", SIZES["middle"], seed=1)
    below.look()
    store = environment.new_path("older")
    shutil.copy2(below.path("file"), store)
    older = below.contents["file"]
    below.make("file", SIZES["middle"] + 5000, seed=2)
    # Until the daemon has heard of that close the file is open for writing, and the change might be the program's own.
    wait_until(lambda: not any(below.mount.status()["openHandles"].values()), what="closed handles")
    held = os.open(below.mount / "file", os.O_RDONLY)
    below.cell("before", True, os.pread(held, 30_000, 0) == below.contents["file"])
    replace(store, below.path("file"), in_place=True)
    os.close(held)
    wait_until(lambda: shown(below.mount / "file") == older, SECONDS, "the older version")
    below.cell("its size", len(older), os.stat(below.mount / "file").st_size)


def test_changed_after_the_last_writer(environment):
    """A reader has the file open. Its last writer leaves a time that must be put back; then the file is replaced in place."""
    below = Below(environment)
    below.make("file", SIZES["middle"], seed=1)
    below.look()
    store = environment.new_path("older")
    shutil.copy2(below.path("file"), store)
    older = below.contents["file"]
    below.make("file", SIZES["middle"] + 5000, seed=2)
    held = os.open(below.mount / "file", os.O_RDONLY)
    writer = os.open(below.mount / "file", os.O_RDWR)
    os.pwrite(writer, b"dirty", 0)
    # The kernel sends its time, while the page is dirty still.
    os.rename(below.mount / "file", below.mount / "away")
    os.rename(below.mount / "away", below.mount / "file")
    os.close(writer)
    wait_until(lambda: sum(below.mount.status()["openHandles"].values()) == 1, what="the writer's handle to be closed")
    replace(store, below.path("file"), in_place=True)
    os.close(held)
    wait_until(lambda: shown(below.mount / "file") == older, SECONDS, "the older version")
    below.cell("its size", len(older), os.stat(below.mount / "file").st_size)


def names_come_and_go(environment, options):
    below = Below(environment, options)
    for name in ("removed", "removed and held", "moved", "conflict", "d-file"):
        below.make(name)
    for name in ("d", "e", "record", "no record"):
        os.mkdir(below.mount / name)
        below.make(f"{name}/inside")
        below.make(f"{name}/" + "l" * 200)
    below.look()
    taken = {}
    for name in ("e", "d"):
        taken[name] = environment.new_path("copy")
        shutil.copytree(below.path(name), taken[name], symlinks=True)
    held = os.open(below.mount / "removed and held", os.O_RDWR)
    removed = below.path("removed")
    shutil.copy2(removed, removed + ".away")
    os.rename(removed + ".away", environment.new_path("away"))
    os.remove(removed)
    os.remove(below.path("removed and held"))
    path = below.path("conflict")
    copies = [path + " (conflicted copy 2026-01-01)", path + ".sync-conflict-20260101-120000-ABCDEFG", path + "~",
              os.path.join(below.mount.volume.path, ".sync.tmp"), os.path.join(below.mount.volume.path, "desktop.ini"),
              os.path.join(below.mount.volume.path, "\xff\xfe".encode("latin-1").decode("utf-8", "surrogateescape"))]
    for one in copies:
        shutil.copy2(path, one)
    os.mkdir(os.path.join(below.mount.volume.path, ".stfolder"))
    # Another place in the volume: its name is bound to its directory.
    os.rename(below.path("moved"), os.path.join(below.path("e"), os.path.basename(below.path("moved"))))
    os.remove(os.path.join(below.path("no record"), ".protectfs.dir"))
    record = os.path.join(below.path("record"), ".protectfs.dir")
    os.remove(record)
    os.symlink(os.readlink(os.path.join(below.path("d"), ".protectfs.dir")), record)
    if options:
        time.sleep(1.5)
    below.cell("removed", "ENOENT", shown(below.mount / "removed"))
    below.cell("removed and held: read", True, os.pread(held, 9_000, 0) == below.contents["removed and held"])
    below.cell("removed and held: write", "works", outcome(os.pwrite, held, b"x", 100))
    os.close(held)
    below.cell("moved", True, shown(below.mount / "moved") in ("ENOENT", "EIO"))
    below.cell("the one beside the conflict copies", True, shown(below.mount / "conflict") == below.contents["conflict"])
    for name in ("no record/inside", "record/inside"):
        found = shown(below.mount / name)
        below.cell(f"{name}: right, or an error", True, found in (below.contents[name], "EIO", "ENOENT"))
    for directory in ("", "e", "record", "no record"):
        below.cell(f"list of {directory or 'the root'}", "works", outcome(os.listdir, below.mount / directory))
    # A directory that goes, and one that takes its place.
    gone = below.path("d")
    shutil.rmtree(gone)
    if options:
        time.sleep(1.5)
    below.cell("in a directory that is gone", True, shown(below.mount / "d/inside") in ("ENOENT", "ESTALE"))
    shutil.copytree(taken["e"], gone, symlinks=True)
    if options:
        time.sleep(1.5)
    below.cell("another directory in its place", True, shown(below.mount / "d/inside") in (
        below.contents["e/inside"], "EIO", "ENOENT"))
    shutil.rmtree(gone)
    shutil.copytree(taken["d"], gone, symlinks=True)
    if options:
        time.sleep(1.5)
        for name in ("d/inside", "d/" + "l" * 200):
            below.cell(f"the directory back again: {name[:8]}", True, shown(below.mount / name) == below.contents[name])
    below.still_works()
    below.cell("lock", 0, below.mount.lock().returncode)
    below.mount.unlock()
    mount = environment.remount(below.mount)
    listed = os.listdir(mount.path)
    strange = [name for name in listed if name.startswith(".undecryptable-")]
    # A directory and names that protectfs did not make are shown as well: nothing is hidden.
    below.cell("mounted again: strange names are shown", len(copies) + 1, len(strange))
    for name in strange:
        if stat.S_ISREG(os.lstat(mount / name).st_mode):
            below.cell("mounted again: a strange file", "EIO", shown(mount / name))
        below.cell("mounted again: it can be moved away", "works", outcome(
            os.rmdir if stat.S_ISDIR(os.lstat(mount / name).st_mode) else os.unlink, mount / name))
    for name in ("conflict", "d-file", "d/inside", "e/inside", "d/" + "l" * 200):
        below.cell(f"mounted again: {name[:10]}", True, shown(mount / name) == below.contents[name])


def test_names(environment):
    names_come_and_go(environment, ())


def test_names_shared(environment):
    names_come_and_go(environment, ("shared",))


def test_added(environment):
    """What another machine adds appears: at once where nobody has asked, else after the timeout."""
    volume = environment.volume()
    first = environment.mount(volume, options=("shared",))
    second = environment.mount(volume, options=("shared",))
    environment.cell("not there yet", "ENOENT", shown(second / "new"))
    os.mkdir(first / "directory")
    write_file(first / "directory/file", b"from the other one")
    write_file(first / "new", b"new")
    wait_until(lambda: shown(second / "new") == b"new", what="the new file")
    wait_until(lambda: "directory" in os.listdir(second.path), what="the new directory")
    wait_until(lambda: shown(second / "directory/file") == b"from the other one", what="the file in it")
    os.rename(first / "new", first / "old")
    wait_until(lambda: shown(second / "new") == "ENOENT" and shown(second / "old") == b"new", what="the other name")
    write_file(first / "old", b"longer than before")
    wait_until(lambda: shown(second / "old") == b"longer than before", what="the longer file")
    os.remove(first / "old")
    wait_until(lambda: shown(second / "old") == "ENOENT" and "old" not in os.listdir(second.path), what="its end")


def test_keybag_of_another(environment):
    """The keybag of another volume, or an older one, in place of the mount's own."""
    below, other = Below(environment), another_volume(environment)
    below.make("file")
    keybag = os.path.join(below.mount.volume.path, ".protectfs.keybag")
    shutil.copy2(keybag, keybag + ".kept")
    below.mount.lock()
    replace(os.path.join(other.path, ".protectfs.keybag"), keybag, in_place=False)
    done = below.mount.command("unlock", "--recovery-file", below.mount.volume.code_file, below.mount.path, ok=False)
    below.cell("unlock with the keybag of another volume", (True, True), (done.returncode != 0, bool(done.stderr.strip())))
    below.cell("it stays locked", "locked", below.mount.state())
    os.remove(keybag)
    done = below.mount.command("unlock", "--recovery-file", below.mount.volume.code_file, below.mount.path, ok=False)
    below.cell("unlock without a keybag", (True, True), (done.returncode != 0, bool(done.stderr.strip())))
    os.rename(keybag + ".kept", keybag)
    below.mount.unlock()
    below.cell("with its own again", True, read_file(below.mount / "file") == below.contents["file"])
    below.still_works()
