"""Objects in the store that a newer version made: used by nobody, harmed by nothing, and never taken for damage.

Each table has a row for each change: its name, what is changed, and what else is expected of it. The same change without
a MAC or tag that fits is damage, in a volume of its own.
"""

import contextlib
import os
import shutil

import harness
import reader
from checks import fsck, kinds, report
from future import Store, copied, erased, field_flags, flags, next_generation, snapshot
from harness import outcome, pattern, read_file, write_file

SIZE = 13_000  # pages 0 to 3
NO = "EOPNOTSUPP"

#: Row -> (what is changed in the header, class of the file).
HEADERS = {
    "version 3": ({3: b"\3"}, "A"), "class 6": ({4: b"\6"}, "C"), "class 9": ({4: b"\x09"}, "B"),
    "unknown flag": (flags(1 << 3), "C"), "highest incompatible flag": (flags(1 << 7), "D"),
    "freshness": ({12: b"\1"}, "C"), "compression": ({7: b"\1"}, "C"), "generation + 1": (next_generation, "C"),
    "a byte after the wrap": ({104: b"\1"}, "C"), "the last byte before the MAC": ({111: b"\x80"}, "A"),
    "other suite": ({5: b"\2"}, "C"), "block_log2 16": ({6: b"\x10"}, "C"),
}
READABLE = {"flag bit 8": (flags(1 << 8), "C"), "flag bit 11": (flags(1 << 11), "A")}
KEPT = {"flag bit 12": (flags(1 << 12), "C"), "flag bit 15": (flags(1 << 15), "A")}

#: Row -> (page, what is changed in the block's field).
BLOCKS = {
    "flag in block 0": (0, field_flags(2)), "flag in a middle block": (1, field_flags(0x80)),
    "reserved byte in a middle block": (2, {3: b"\1"}), "flag in the last block": (3, field_flags(4)),
    "too long a payload in a middle block": (1, {0: b"\xff\xff"}),
}


def whole_sentences(text):
    """What fsck must not say of a volume with newer objects."""
    return [words for words in ("whole", "undamaged", "no error") if words in text.lower()]


def check_untouched(environment, label, volume, count, before=None):
    """fsck, with every repair: newer objects have a finding of their own, exit code 64, and no byte is changed."""
    before = before or snapshot(volume)
    for words in ([], ["--repair"], ["--repair", "--quarantine"]):
        code, answer = report(volume, *words)
        found = [one for one in answer["findings"] if one["severity"] == "newer"]
        environment.cell(f"{label}: fsck {' '.join(words)}", (64, ["newer"] * count, 0, False),
                         (code, kinds({"findings": found}), answer["errors"], answer["closedEpochs"]))
        environment.cell(f"{label}: fsck {' '.join(words)}, its summary", count, answer["newer"])
        compare(environment, f"{label}: after fsck {' '.join(words)}", volume, before)
    done = fsck(volume, "--repair", "--quarantine", "--recovery-file", volume.code_file)
    environment.cell(f"{label}: fsck says so", (64, True, []),
                     (done.returncode, "newer version of protectfs" in done.stdout, whole_sentences(done.stdout)))


def compare(environment, label, volume, before):
    after = snapshot(volume)
    environment.cell(f"{label}: the store", [], sorted(
        os.fsdecode(path) for path in set(before) | set(after) if before.get(path) != after.get(path)))


def built(environment, rows, fill):
    """An unmounted volume with neighbours, and what `fill` makes for each row."""
    mount = environment.mount()
    for name in ("neighbour", "other"):
        write_file(mount / name, pattern(SIZE, seed=9))
    for row in rows:
        fill(mount, row)
    mount.unmount()
    return mount


def make_file(mount, name, letter, seed=1):
    harness.make_file(mount / name, letter, pattern(SIZE, seed))
    os.setxattr(mount / name, "user.comment", b"hello")


def neighbours_work(environment, label, mount):
    environment.cell(f"{label}: a neighbour", "works" if read_file(mount / "neighbour") == pattern(SIZE, seed=9) else "wrong",
                     outcome(lambda: write_file(mount / "new", b"new") or os.unlink(mount / "new")))


def truncate_open(path):
    os.close(os.open(path, os.O_WRONLY | os.O_TRUNC))


def use_of_file(mount, name):
    """Every use of a file that needs to understand it, and what comes of it."""
    path = mount / name
    write_file(mount / "over", b"over")
    found = {
        "read": outcome(read_file, path), "write": outcome(write_file, path, b"x"),
        "append": outcome(write_file, path, b"x", os.O_APPEND), "open with O_TRUNC": outcome(truncate_open, path),
        "truncate": outcome(os.truncate, path, 5), "its class": outcome(os.getxattr, path, "user.protection"),
        "set its class": outcome(harness.set_class, path, "C"),
        "an attribute": outcome(os.getxattr, path, "user.comment"),
        "set an attribute": outcome(os.setxattr, path, "user.new", b"new"),
        "rename over it": outcome(os.rename, mount / "over", path),
        "cp over it": harness.run("cp", mount / "over", path, ok=False).returncode != 0,
        "mv over it": harness.run("mv", "-f", mount / "over", path, ok=False).returncode != 0,
    }
    with contextlib.suppress(FileNotFoundError):
        os.unlink(mount / "over")
    return found


#: What a newer file does: nothing is possible that needs its header.
CLOSED = {"read": NO, "write": NO, "append": NO, "open with O_TRUNC": NO, "truncate": NO, "its class": NO,
          "set its class": NO, "an attribute": NO, "set an attribute": NO, "rename over it": NO, "cp over it": True,
          "mv over it": True}
READ_ONLY = {**CLOSED, "read": "works", "its class": "works", "an attribute": "works"}


def of_the_store(mount, name):
    """What needs nothing but the store: names, links, modes, times."""
    path = mount / name
    return {
        "stat": (SIZE, True), "listed": name in os.listdir(mount.path),
        "ls -l": harness.run("ls", "-l", path, ok=False).returncode, "chmod": outcome(os.chmod, path, 0o640),
        "utime": outcome(os.utime, path, (5, 5)), "chown": outcome(os.chown, path, 0, 0),
        "link": outcome(os.link, path, path + " link"), "unlink a link": outcome(os.unlink, path + " link"),
        "rename to a free name": outcome(os.rename, path, path + " moved"),
        "and back": outcome(os.rename, path + " moved", path),
    } if (os.stat(path).st_size, True) == (SIZE, True) else {"stat": os.stat(path).st_size}


OF_THE_STORE = {"stat": (SIZE, True), "listed": True, "ls -l": 0, "chmod": "works", "utime": "works", "chown": "works",
                "link": "works", "unlink a link": "works", "rename to a free name": "works", "and back": "works"}


def cells(environment, label, expected, found):
    for what in expected:
        environment.cell(f"{label}: {what}", expected[what], found.get(what))


def in_every_lock_state(environment, mount, rows):
    """Newer is newer without keys too; a class that is closed may say that first."""
    for state in ("before the first unlock", "unlocked", "locked"):
        if state == "before the first unlock":
            mount = environment.mount(mount.volume, path=mount.path, unlock=False)
        elif state == "unlocked":
            mount.unlock()
        else:
            mount.lock()
        for row in rows:
            # Before the first unlock the generations of a closed class are not known.
            expected = {NO, "EACCES"} if row == "generation + 1" and state.startswith("before") else {NO}
            found = {outcome(read_file, mount / row), outcome(write_file, mount / row, b"x")}
            environment.cell(f"{row}, {state}: read and write", True, found <= expected or (found, expected))
            environment.cell(f"{row}, {state}: stat", SIZE, os.stat(mount / row).st_size)
        environment.cell(f"{state}: listing", True, set(rows) <= set(os.listdir(mount.path)))
    return mount


def test_headers(environment):
    mount = built(environment, HEADERS, lambda mount, row: make_file(mount, row, HEADERS[row][1]))
    for row, (changes, _) in HEADERS.items():
        Store(mount.volume).header(row, changes)
    before = snapshot(mount.volume)
    check_untouched(environment, "headers", mount.volume, len(HEADERS), before)
    mount = in_every_lock_state(environment, mount, HEADERS)
    mount.unlock()
    for row in HEADERS:
        cells(environment, row, CLOSED, use_of_file(mount, row))
    neighbours_work(environment, "headers", mount)
    mount.unmount()
    compare(environment, "headers, after every use", mount.volume, before)
    mount = environment.mount(mount.volume, path=mount.path)
    for row in HEADERS:
        cells(environment, row, OF_THE_STORE, of_the_store(mount, row))
    os.mkdir(mount / "d")
    os.rename(mount / "version 3", mount / "d/version 3")
    environment.cell("a newer file in an otherwise empty directory: rmdir", "ENOTEMPTY", outcome(os.rmdir, mount / "d"))
    os.mkdir(mount / "empty")
    environment.cell("rename of a directory over that one", "ENOTEMPTY", outcome(os.rename, mount / "empty", mount / "d"))
    os.link(mount / "class 6", mount / "d/linked")
    mount.unmount()
    code, answer = report(mount.volume, "--repair", "--quarantine")
    environment.cell("a newer file with two names, one moved", (64, 0), (code, answer["errors"]))
    mount = environment.mount(mount.volume, path=mount.path)
    environment.cell("both are there", (True, True),
                     ("linked" in os.listdir(mount / "d"), os.path.samefile(mount / "class 6", mount / "d/linked")))
    environment.cell("rm -rf, as unlink may remove it", "works", outcome(shutil.rmtree, mount / "d"))
    environment.cell("unlink", "works", outcome(os.unlink, mount / "freshness"))
    mount.unmount()
    erased(environment, "headers", mount.volume)


def test_headers_that_can_be_read(environment):
    """Flag bits 8 to 11: everything can be read, nothing is changed."""
    mount = built(environment, READABLE, lambda mount, row: make_file(mount, row, READABLE[row][1]))
    for row, (changes, _) in READABLE.items():
        Store(mount.volume).header(row, changes)
    before = snapshot(mount.volume)
    check_untouched(environment, "readable only", mount.volume, len(READABLE), before)
    mount = environment.mount(mount.volume, path=mount.path)
    for row, (_, letter) in READABLE.items():
        cells(environment, row, READ_ONLY, use_of_file(mount, row))
        environment.cell(f"{row}: content", True, read_file(mount / row) == pattern(SIZE))
        environment.cell(f"{row}: class", harness.CLASSES[letter], harness.get_class(mount / row))
    mount.lock()
    environment.cell("of class A, locked", "EACCES", outcome(read_file, mount / "flag bit 11"))
    mount.unmount()
    compare(environment, "readable only, after every use", mount.volume, before)
    # It is verified all the same.
    reader.flip(Store(mount.volume).backing("flag bit 8"), 2 * harness.PAGE + 100)
    code, answer = report(mount.volume)
    environment.cell("damage in it is found", (64 | 4, ["block"]),
                     (code, [one["kind"] for one in answer["findings"] if one["severity"] == "error"]))


def test_headers_with_kept_flags(environment):
    """Flag bits 12 to 15 hinder nothing, and stay."""
    mount = built(environment, KEPT, lambda mount, row: make_file(mount, row, KEPT[row][1]))
    store = Store(mount.volume)
    for row, (changes, _) in KEPT.items():
        store.header(row, changes)
    environment.cell("kept flags: fsck", (0, []), (lambda code, answer: (code, answer["findings"]))(*report(mount.volume)))
    mount = environment.mount(mount.volume, path=mount.path)
    for row in KEPT:
        write_file(mount / row, pattern(SIZE * 2, seed=4))
        os.truncate(mount / row, 20_000)
        harness.set_class(mount / row, "B")
    mount.unmount()
    for row, (changes, _) in KEPT.items():
        file = Store(mount.volume).opened.file(store.backing(row))
        bits = {"flag bit 12": 1 << 12, "flag bit 15": 1 << 15}[row]
        environment.cell(f"{row}: written, cut, another class", (True, True, 2),
                         (file.contents() == pattern(SIZE * 2, seed=4)[:20_000], bool(file.flags & bits), file.protection_class))


def test_headers_tampered(environment):
    """The same bytes without the MAC: damaged, as ever."""
    rows = {**HEADERS, **READABLE, **KEPT}
    mount = built(environment, rows, lambda mount, row: make_file(mount, row, rows[row][1]))
    for row, (changes, _) in rows.items():
        Store(mount.volume).header(row, changes, tampered=True)
    tampered(environment, mount, rows)


def tampered(environment, mount, rows, kind="header"):
    mount = environment.mount(mount.volume, path=mount.path)
    for row in rows:
        environment.cell(f"{row}, tampered: read", "EIO", outcome(read_file, mount / row))
    mount.unmount()
    code, answer = report(mount.volume)
    environment.cell("tampered: fsck", (4, 0, [kind] * len(rows)), (code, answer["newer"], [
        one["kind"] for one in answer["findings"] if one["severity"] == "error"]))
    code, answer = report(mount.volume, "--repair", "--quarantine")
    environment.cell("tampered: repaired", (True, 0), (bool(code & 1), answer["remaining"]))


def test_blocks(environment):
    mount = built(environment, BLOCKS, lambda mount, row: make_file(mount, row, "C"))
    for row, (index, changes) in BLOCKS.items():
        Store(mount.volume).block(row, index, changes if callable(changes) else lambda _, changes=changes: changes)
    before = snapshot(mount.volume)
    check_untouched(environment, "blocks", mount.volume, len(BLOCKS), before)
    mount = environment.mount(mount.volume, path=mount.path)
    first, later = 3932, 4060
    for row, (index, _) in BLOCKS.items():
        start = 0 if index == 0 else first + (index - 1) * later
        environment.cell(f"{row}: stat", SIZE, os.stat(mount / row).st_size)
        environment.cell(f"{row}: reading it", NO, outcome(read_part, mount / row, start + 10, 10))
        environment.cell(f"{row}: reading over its border", NO, outcome(read_part, mount / row, max(start - 10, 0), 20))
        environment.cell(f"{row}: a write into it", NO, outcome(write_part, mount / row, start + 10))
        if index in (1, 2):
            # A page of the cache that has nothing of the block.
            other = 8192 if index == 1 else 0
            environment.cell(f"{row}: another page", "works", outcome(read_part, mount / row, other, 100))
            if outcome(read_part, mount / row, other, 100) == "works":
                environment.cell(f"{row}: what it has", pattern(SIZE)[other:other + 100], read_part(mount / row, other, 100))
    write_file(mount / "over", b"over")
    environment.cell("rename over a newer block 0", NO, outcome(os.rename, mount / "over", mount / "flag in block 0"))
    with contextlib.suppress(FileNotFoundError):
        os.unlink(mount / "over")
    neighbours_work(environment, "blocks", mount)
    mount.unmount()
    compare(environment, "blocks, after every use", mount.volume, before)
    # After a crash a newer block is not mended either.
    mount = environment.mount(mount.volume, path=mount.path)
    write_file(mount / "crashed", b"crashed")
    harness.sync(mount.path)
    mount.crash()
    check_crashed(environment, mount.volume, len(BLOCKS))


def check_crashed(environment, volume, count):
    """The epochs that ended badly stay while something newer was found."""
    path = reader.state_file(volume)
    secondreader = reader.load()
    epochs = secondreader.State(read_file(path)).open_epochs
    environment.cell("crashed: an epoch is listed", 1, len(epochs))
    mended = Store(volume).relative("crashed")
    before = snapshot(volume)
    code, answer = report(volume, "--repair", "--quarantine")
    environment.cell("crashed: fsck", (64, count, 0, False),
                     (code & ~1, answer["newer"], answer["errors"], answer["closedEpochs"]))
    environment.cell("crashed: the epochs stay", epochs, secondreader.State(read_file(path)).open_epochs)
    before[mended] = snapshot(volume)[mended]
    compare(environment, "crashed", volume, before)


def read_part(path, offset, length):
    handle = os.open(path, os.O_RDONLY)
    try:
        return os.pread(handle, length, offset)
    finally:
        os.close(handle)


def write_part(path, offset):
    handle = os.open(path, os.O_RDWR)
    try:
        os.pwrite(handle, b"changed", offset)
        os.fsync(handle)
    finally:
        os.close(handle)


def test_blocks_tampered(environment):
    mount = built(environment, BLOCKS, lambda mount, row: make_file(mount, row, "C"))
    for row, (index, changes) in BLOCKS.items():
        changes = changes if callable(changes) else lambda _, changes=changes: changes
        Store(mount.volume).block(row, index, changes, tampered=True)
    tampered(environment, mount, BLOCKS, "block")


def test_copies_of_newer_files(environment):
    """A copy of a whole store is another store, with the same newer objects."""
    mount = built(environment, ["file"], lambda mount, row: make_file(mount, row, "C"))
    Store(mount.volume).header("file", {3: b"\x09"})
    other = copied(environment, mount.volume)
    code, answer = report(other, "--repair", "--quarantine")
    environment.cell("a copy", (64, 1), (code, answer["newer"]))
    compare(environment, "a copy", other, snapshot(mount.volume))
