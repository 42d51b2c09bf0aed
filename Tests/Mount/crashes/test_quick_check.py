"""fsck --quick after a crash: it reads the files that were being changed, and closes the session as a complete check does."""

import contextlib
import glob
import json
import os
import time

import harness
import states
from harness import PAGE, protectfs, read_file, set_class, write_file
from opens import opened_below
from state_refusals import fill, small_directory

CLEAN, ERRORS = 0, 4
#: The place of the first entry in a list of changed files, and the length of an entry (docs/judge/volume-format.md, section 4.2).
ENTRIES, ENTRY, ROOM = 128, 16, 4096


def check(volume, *words):
    """The exit code and the report of fsck."""
    done = protectfs("fsck", "--json", *words, "--recovery-file", volume.code_file, volume.path, env=volume.environment, ok=False)
    assert done.stdout, done
    return done.returncode, json.loads(done.stdout)


def lists(volume):
    return sorted(glob.glob(os.path.join(states.directory(volume), "*.changed-*")))


def inode_below(mount, name):
    """The inode number of a file in the store."""
    return os.stat(mount.stored(name)).st_ino


def filled(environment, count=40, length=3 * PAGE):
    """A volume with files from a session that was closed."""
    volume = environment.volume()
    mount = environment.mount(volume)
    for directory in ("one", "two", "three"):
        os.mkdir(mount / directory)
        for number in range(count):
            write_file(mount / f"{directory}/{number}", os.urandom(length))
    mount.unmount()
    # The times of files and the beginning of the next session must differ by more than a tick of the kernel's clock.
    time.sleep(0.2)
    return volume


def store_file(volume, inode):
    """The path of a store file with this inode number."""
    for directory, _, files in os.walk(volume.path):
        for name in files:
            path = os.path.join(directory, name)
            if os.lstat(path).st_ino == inode:
                return path
    raise AssertionError(f"no file {inode}")


def closed(environment, label, volume):
    """The session is closed, and a complete check that may write nothing finds nothing."""
    environment.cell(f"{label}: no session is open", [], states.open_epochs(states.read(states.path(volume))))
    environment.cell(f"{label}: no list is left", [], lists(volume))
    code, report = check(volume, "-n")
    environment.cell(f"{label}: a complete check finds nothing", (CLEAN, []), (code, report["findings"]))
    environment.cell(f"{label}: it reads all", report["files"], report["filesRead"])


def test_reads_what_was_changed(environment):
    """Each way to change a file's bytes puts it on the list; each way to change only its name or attributes does not."""
    volume = filled(environment)
    mount = environment.mount(volume)

    def overwrite(path, at=PAGE, content=b"changed"):
        handle = os.open(path, os.O_RDWR)
        try:
            os.pwrite(handle, content, at)
        finally:
            os.close(handle)

    changes = {
        "overwritten": lambda path: overwrite(path), "appended": lambda path: write_file(path, b"more", os.O_APPEND),
        "cut": lambda path: os.truncate(path, PAGE), "emptied": lambda path: write_file(path, b"", os.O_TRUNC),
        "extended": lambda path: os.truncate(path, 9 * PAGE), "class": lambda path: set_class(path, "D"),
        "punched": lambda path: harness.run("fallocate", "-p", "-o", str(PAGE), "-l", str(PAGE), path),
    }
    # Their first and last page are as before: so they read the same, whether the session is closed or not.
    inside = ("overwritten", "punched")
    others = {
        "mode": lambda path: os.chmod(path, 0o600), "time": lambda path: os.utime(path, (1, 1)),
        "attribute": lambda path: os.setxattr(path, "user.other", b"value"), "name": lambda path: os.rename(path, path + ".new"),
        "link": lambda path: os.link(path, path + ".link"), "read": lambda path: read_file(path),
        "opened for writing": lambda path: os.close(os.open(path, os.O_RDWR)),
    }
    wanted, cells = set(), {}
    # In three directories, as the files beside many changed ones are listed ahead.
    for number, (name, change) in enumerate({**changes, **others}.items()):
        path = ("one", "two", "three")[number % 3] + f"/{number}"
        inode = inode_below(mount, path)
        change(mount / path)
        cells[name] = inode
        if name in changes:
            wanted.add(inode)
    for name in ("new", "new directory/new", "empty"):
        os.makedirs(os.path.dirname(mount / name), exist_ok=True)
        write_file(mount / name, b"" if name == "empty" else b"new")
        wanted.add(inode_below(mount, name))
    harness.sync(volume.path)
    mount.crash()
    with opened_below(volume.path) as opened:
        code, report = check(volume, "-n", "--quick")
    environment.cell("by the list", "listed", report["quick"])
    environment.cell("opened without need", set(), {name for name, inode in cells.items() if inode in opened - wanted})
    environment.cell("not opened", set(), wanted - opened)
    environment.cell("the report counts them", len(opened), report["filesOpened"])
    environment.cell("of so many", 120 + 3, report["files"])
    environment.cell("read", len(wanted) - len(inside), report["filesRead"])
    environment.cell("-n closes nothing", (False, 1), (report["closedEpochs"], len(lists(volume))))
    code, report = check(volume, "--quick")
    environment.cell("closed", (CLEAN, True), (code, report["closedEpochs"]))
    closed(environment, "then", volume)
    code, report = check(volume, "--quick")
    environment.cell("again", (CLEAN, "nothing", 0), (code, report["quick"], report["filesOpened"]))


def lose_page(volume, inode, page):
    """Zeroes a page of a store file, as a power cut does to one that was not written yet."""
    with open(store_file(volume, inode), "r+b") as file:
        file.seek(page * PAGE)
        file.write(bytes(PAGE))


def cut_off(volume, inode):
    """Takes the last pages of a store file away."""
    path = store_file(volume, inode)
    os.truncate(path, 2 * PAGE)


def crashed(environment):
    """A volume after a crash: one existing file that has grown, one new file, and a lost page in each."""
    volume = filled(environment)
    return volume, crash(environment, volume, "one/7", "two/new")


def crash(environment, volume, grown, new):
    """A crash of a session that has changed two files; gives their inode numbers in the store."""
    mount = environment.mount(volume)
    write_file(mount / grown, os.urandom(8 * PAGE), os.O_APPEND)
    write_file(mount / new, os.urandom(8 * PAGE))
    inodes = inode_below(mount, grown), inode_below(mount, new)
    mount.crash()
    for inode in inodes:
        lose_page(volume, inode, 5)
    return inodes


def test_mends_and_closes(environment):
    """The damage of a crash is mended. Damage of a file that was not being changed is neither mended nor accepted."""
    volume, _ = crashed(environment)
    mount = environment.mount(volume, options=["ro"])
    old = inode_below(mount, "three/3")
    mount.unmount()
    cut_off(volume, old)
    code, report = check(volume, "--quick")
    environment.cell("mended", (CLEAN, 2, 2, 2, True),
                     (code, report["crashes"], report["mended"], report["filesRead"], report["closedEpochs"]))
    code, report = check(volume, "-n")
    found = [(one["severity"], one["path"]) for one in report["findings"]]
    environment.cell("the other damage is an error", (ERRORS, [("error", "three/3")]), (code, found))
    mount = environment.mount(volume)
    environment.cell("reading it", "EIO", harness.outcome(read_file, mount / "three/3"))
    environment.cell("reading the mended one", "works", harness.outcome(read_file, mount / "one/7"))


def test_says_what_it_reads(environment):
    volume, _ = crashed(environment)
    info = protectfs("info", volume.path, env=volume.environment).stdout
    environment.cell("info names it", True, "protectfs fsck --quick" in info)
    done = protectfs("fsck", "--quick", "--recovery-file", volume.code_file, volume.path, env=volume.environment, ok=False)
    environment.cell("the count", True, "Of 121 files 2 were opened, and 2 read" in done.stdout or done.stdout)
    environment.cell("the end", True, "What was being changed is undamaged" in done.stdout or done.stdout)
    done = protectfs("fsck", "--quick", "--recovery-file", volume.code_file, volume.path, env=volume.environment, ok=False)
    environment.cell("nothing to do", (CLEAN, True), (done.returncode, "there is nothing to check quickly" in done.stdout))


def spoiled(volume):
    """Name -> bytes of the list that must not be believed; None for none."""
    place, = lists(volume)
    whole = read_file(place)
    flip = lambda at: whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1:]
    found = {f"{length} bytes": whole[:length] for length in
             (0, 1, 7, 8, 15, 127, ENTRIES, ENTRIES + 8, ENTRIES + ENTRY, len(whole) // 2, len(whole) - 1)}
    found.update({f"byte {at} changed": flip(at) for at in (0, 8, 12, 16, 33, 40, 60, 96, 127, ENTRIES, ENTRIES + 8, len(whole) - 1)})
    found["longer"] = whole + bytes(1)
    found["an entry is missing"] = whole[:ENTRIES] + bytes(ENTRY) + whole[ENTRIES:-ENTRY]
    found["none"] = None
    return place, found


def test_a_list_that_cannot_be_used(environment):
    """Missing, torn, changed, of another volume or of another session: the ends of every file are looked at."""
    volume, _ = crashed(environment)
    whole = read_file(lists(volume)[0])
    environment.cell("the list has entries", True, any(whole[ENTRIES:ENTRIES + ENTRY]))
    place, cases = spoiled(volume)
    uuid, epoch, began = whole[16:32], states.number(whole, 32, 4), states.number(whole, 40, 8)
    count = next(at for at in range(ROOM) if not any(whole[ENTRIES + at * ENTRY:][:8]))
    inodes = [states.number(whole, ENTRIES + at * ENTRY, 8) for at in range(count)]
    environment.cell("as the format says", True, states.changed_list(uuid, epoch, began, inodes) == whole)
    cases["of another volume"] = states.changed_list(bytes(16), epoch, began, inodes)
    cases["of another epoch"] = states.changed_list(uuid, epoch - 1, began, inodes)
    cases["with the mark of all"] = states.changed_list(uuid, epoch, began, [*inodes, 0])
    cases["something behind that mark"] = states.changed_list(uuid, epoch, began, [*inodes, 0, 5])
    for name, content in cases.items():
        if content is None:
            os.unlink(place)
        else:
            states.put(place, content)
        code, report = check(volume, "-n", "--quick")
        environment.cell(name, ("ends", 2, 2, 121), (report["quick"], report["crashes"], report["filesRead"], report["filesOpened"]))
    # What the list is for: without its entries only the new file is found.
    states.put(place, states.changed_list(uuid, epoch, began, []))
    code, report = check(volume, "-n", "--quick")
    environment.cell("an empty list", ("listed", 1, 1), (report["quick"], report["crashes"], report["filesRead"]))
    states.put(place, whole)
    # The list of another session of the same volume, under this one's name.
    check(volume, "--quick")
    mount = environment.mount(volume)
    write_file(mount / "one/9", b"x", os.O_APPEND)
    mount.crash()
    states.put(lists(volume)[0], whole)
    code, report = check(volume, "-n", "--quick")
    environment.cell("of another session", "ends", report["quick"])
    os.unlink(lists(volume)[0])
    code, report = check(volume, "--quick")
    environment.cell("closes without a list", (CLEAN, "ends", True), (code, report["quick"], report["closedEpochs"]))
    closed(environment, "without a list", volume)


def test_two_crashes(environment):
    """Both sessions are open: the files of both are read."""
    volume, _ = crashed(environment)
    crash(environment, volume, "three/1", "three/new")
    environment.cell("two lists", 2, len(lists(volume)))
    code, report = check(volume, "--quick")
    environment.cell("all four", (CLEAN, "listed", 4, 4, True),
                     (code, report["quick"], report["crashes"], report["filesRead"], report["closedEpochs"]))
    closed(environment, "two crashes", volume)


def test_a_crash_then_a_session(environment):
    """The session after a crash is closed; the one that crashed stays open, with its list."""
    volume, _ = crashed(environment)
    mount = environment.mount(volume)
    write_file(mount / "three/1", b"x", os.O_APPEND)
    mount.unmount()
    environment.cell("one list", 1, len(lists(volume)))
    code, report = check(volume, "--quick")
    environment.cell("both files", (CLEAN, "listed", 2, True), (code, report["quick"], report["crashes"], report["closedEpochs"]))
    closed(environment, "a crash and a session", volume)


def test_more_files_than_the_list_has_room_for(environment):
    volume = filled(environment, count=1500, length=100)
    mount = environment.mount(volume)
    names = [f"{directory}/{number}" for directory in ("one", "two", "three") for number in range(1500)]
    for name in names:
        write_file(mount / name, b"more", os.O_APPEND)
    place, = lists(volume)
    environment.cell("its length", ENTRIES + ROOM * ENTRY, os.path.getsize(place))
    mount.crash()
    code, report = check(volume, "--quick")
    environment.cell("it says all", (CLEAN, "ends", 4500, True),
                     (code, report["quick"], report["filesRead"], report["closedEpochs"]))
    closed(environment, "all", volume)


def plant_temporaries(volume, label):
    """What a killed daemon leaves: a file without header, and a directory that has its record and not its name yet."""
    empty, made = (os.path.join(volume.path, f".protectfs.tmp.{label}{kind}") for kind in "FD")
    os.close(os.open(empty, os.O_CREAT | os.O_WRONLY, 0o600))
    os.mkdir(made)
    os.symlink(os.readlink(os.path.join(volume.path, ".protectfs.dir")), os.path.join(made, ".protectfs.dir"))


def test_leftovers(environment):
    """Leftovers of the session that crashed are gone after a quick check. What others may have made is not touched."""
    volume = filled(environment)
    overflow = os.path.join(volume.path, ".protectfs.overflow")
    for others in (False, True):
        label = "with those of others" if others else "its own"
        if others:
            plant_temporaries(volume, "old")
            time.sleep(0.2)
        mount = environment.mount(volume)
        write_file(mount / f"two/new {others}", b"new")
        for name in ("gone", "kept"):
            os.symlink("t" * 4000, mount / f"{name} {others}")
        os.setxattr(mount / "one/7", "user.long", os.urandom(3000))
        os.setxattr(mount / "three", "user.long", os.urandom(3000))
        link = mount.stored(f"gone {others}")
        harness.sync(volume.path)
        mount.crash()
        # As if the crash had come before the link's object was removed with it.
        os.unlink(link)
        plant_temporaries(volume, f"new{others}")
        before = set(os.listdir(overflow))
        if others:
            # A sync client has brought it, and not yet what refers to it.
            write_file(os.path.join(overflow, "A" * 22), b"another machine's")
        code, report = check(volume, "--quick")
        kinds = sorted(one["kind"] for one in report["findings"] if one["kind"] in ("temporary", "orphan-overflow"))
        environment.cell(f"{label}: found", (CLEAN, ["orphan-overflow"] + ["temporary"] * (4 if others else 2)), (code, kinds))
        after = set(os.listdir(overflow))
        environment.cell(f"{label}: objects gone", 1, len(before - after))
        if not others:
            closed(environment, label, volume)
    code, report = check(volume, "-n")
    environment.cell("those of others are left", ["orphan-overflow", "temporary", "temporary"],
                     sorted(one["kind"] for one in report["findings"]))
    mount = environment.mount(volume)
    for others in (False, True):
        environment.cell("a link that was kept", 4000, len(os.readlink(mount / f"kept {others}")))
    for name in ("one/7", "three"):
        environment.cell(f"attribute of {name}", 3000, len(os.getxattr(mount / name, "user.long")))


def test_shared(environment):
    """Several machines may write: no list is kept, and the ends of every file are looked at."""
    volume = filled(environment)
    mount = environment.mount(volume, options=["shared"])
    write_file(mount / "one/7", os.urandom(8 * PAGE), os.O_APPEND)
    inode = inode_below(mount, "one/7")
    mount.crash()
    environment.cell("no list", [], lists(volume))
    lose_page(volume, inode, 5)
    code, report = check(volume, "--quick")
    environment.cell("found", (CLEAN, "ends", 1, True), (code, report["quick"], report["crashes"], report["closedEpochs"]))
    closed(environment, "shared", volume)


def test_nothing_known(environment):
    """A machine that has not checked the volume before reads everything, and says so."""
    volume, _ = crashed(environment)
    os.unlink(states.path(volume))
    # Without the state file the check's session gets its number from the time in seconds, which must not be that of the crashed
    # one (docs/judge/volume-format.md, 4.1). Sessions of the same second before it have numbers that run ahead of the time.
    time.sleep(4)
    done = protectfs("fsck", "-n", "--quick", "--recovery-file", volume.code_file, volume.path, env=volume.environment, ok=False)
    environment.cell("it says so", True, "everything is read" in done.stdout)
    code, report = check(volume, "--quick")
    environment.cell("everything", (CLEAN, "everything", 121, True),
                     (code, report["quick"], report["filesRead"], report["closedEpochs"]))
    closed(environment, "nothing known", volume)


def test_no_room_for_a_list(environment):
    """The mount works, and the check looks at the ends of every file."""
    volume = filled(environment)
    with small_directory(volume, "64k"):
        mount = environment.mount(volume)
        write_file(mount / "one/7", os.urandom(8 * PAGE), os.O_APPEND)
        inode = inode_below(mount, "one/7")
        mount.crash()
        environment.cell("no list", [], lists(volume))
        lose_page(volume, inode, 5)
        code, report = check(volume, "--quick")
        environment.cell("found", (CLEAN, "ends", 1, True), (code, report["quick"], report["crashes"], report["closedEpochs"]))


def test_the_directory_becomes_full_or_read_only(environment):
    """The list has its room from the beginning, and needs no other file."""
    for name, spoil in (("full", lambda place: fill(place)), ("read-only", lambda place: os.chmod(place, 0o500)),
                        ("gone", lambda place: os.unlink(lists_in(place)[0]))):
        volume = filled(environment)
        with small_directory(volume, "256k") as place:
            mount = environment.mount(volume)
            write_file(mount / "two/new", b"new")
            spoil(place)
            write_file(mount / "one/7", os.urandom(8 * PAGE), os.O_APPEND)
            inode = inode_below(mount, "one/7")
            harness.sync(mount.path)
            mount.crash()
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(place, "ballast"))
            lose_page(volume, inode, 5)
            code, report = check(volume, "--quick")
            environment.cell(name, (CLEAN, "ends" if name == "gone" else "listed", 1, True),
                             (code, report["quick"], report["crashes"], report["closedEpochs"]))


def lists_in(place):
    return glob.glob(os.path.join(place, "*.changed-*"))


def test_erase_takes_the_list_along(environment):
    volume, _ = crashed(environment)
    environment.cell("a list", 1, len(lists(volume)))
    done = protectfs("erase", "--yes", volume.path, env=volume.environment, ok=False)
    environment.cell("nothing is left", (CLEAN, []), (done.returncode, os.listdir(states.directory(volume))))
