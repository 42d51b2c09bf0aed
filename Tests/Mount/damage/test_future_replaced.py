"""Newer objects that are exchanged, replaced, overwritten or cut; see test_future_objects.py."""

import ctypes
import os

import harness
from checks import report
from future import Store, field_flags, flags, snapshot
from harness import outcome, pattern, read_file, write_file
from test_future_objects import NO, SIZE, check_untouched, compare, make_file, neighbours_work, read_part, truncate_open

EXCHANGE = 2
libc = ctypes.CDLL(None, use_errno=True)

#: Payload of page 0, and of each later page: the suite of a new volume here is 1, or 2 without AES in the processor.
PAYLOADS = {1: (3932, 4060), 2: (3920, 4048)}


def exchange(one, other):
    if libc.renameat2(-100, os.fsencode(one), -100, os.fsencode(other), EXCHANGE) != 0:
        raise OSError(ctypes.get_errno(), "renameat2")


def test_exchange(environment):
    """An exchange replaces nothing: both objects are whole under the other name, and back again."""
    mount = environment.mount()
    for name in ("header", "readable only", "block 0", "block 1"):
        make_file(mount, name, "C")
    os.symlink("target", mount / "link")
    for name in ("record", "closed", "free"):
        os.mkdir(mount / name)
        write_file(os.path.join(mount / name, "file"), b"inner")
    write_file(mount / "plain", b"plain")
    write_file(mount / "neighbour", pattern(SIZE, seed=9))
    mount.unmount()
    store = Store(mount.volume)
    store.header("header", {3: b"\3"})
    store.header("readable only", flags(1 << 8))
    store.block("block 0", 0, field_flags(2))
    store.block("block 1", 1, field_flags(2))
    store.link("link", 3)
    for name in ("record", "closed"):
        store.record(name, {3: b"\3"})
    # Backups see an exchange of files of one length and time in their stored times.
    for number, name in enumerate(("header", "readable only", "block 0", "block 1", "plain")):
        os.utime(store.backing(name), (0, 1_000_000_000 + 10 * number))
    before = snapshot(mount.volume)
    check_untouched(environment, "exchange, made", mount.volume, 7, before)
    mount = environment.mount(mount.volume, path=mount.path)
    newer = ("header", "readable only", "block 0", "block 1", "link", "record")
    for state in ("unlocked", "locked"):
        if state == "locked":
            mount.lock()
        for one in newer:
            for other in ("plain", "free", *(name for name in newer if name > one)):
                label = f"{one} and {other}, {state}"
                inodes = lambda one=one, other=other: (os.lstat(mount / one).st_ino, os.lstat(mount / other).st_ino)
                first = inodes()
                environment.cell(f"{label}: exchange", "works", outcome(exchange, mount / one, mount / other))
                environment.cell(f"{label}: each has the other's name", first, inodes()[::-1])
                environment.cell(f"{label}: and back", "works", outcome(exchange, mount / other, mount / one))
            inner = os.path.join(mount / "closed", "file")
            environment.cell(f"{one}, with an entry of a directory whose record is newer, {state}", (NO, NO), (
                outcome(exchange, mount / one, inner), outcome(exchange, inner, mount / one)))
    mount.unlock()
    environment.cell("plain: content", b"plain", read_file(mount / "plain"))
    environment.cell("readable only: content", True, read_file(mount / "readable only") == pattern(SIZE))
    environment.cell("header: read", NO, outcome(read_file, mount / "header"))
    neighbours_work(environment, "exchange", mount)
    mount.unmount()
    compare(environment, "exchanged and back", mount.volume, before)
    mount = environment.mount(mount.volume, path=mount.path)
    exchange(mount / "header", mount / "plain")
    mount.unmount()
    code, answer = report(mount.volume, "--repair", "--quarantine")
    environment.cell("exchanged: fsck", (64, 7, 0), (code, answer["newer"], answer["errors"]))
    mount = environment.mount(mount.volume, path=mount.path)
    environment.cell("exchanged, mounted again", (NO, b"plain"), (outcome(read_file, mount / "plain"), read_file(mount / "header")))


#: How a program replaces all that a newer block holds, or drops it: it needs nothing of the block, whose file is known.
def uses(start, end):
    changed = bytearray(pattern(SIZE))
    # The kernel reads the pages of its cache that a write covers only in part.
    aligned, length = start // 4096 * 4096, -(-end // 4096) * 4096 - start // 4096 * 4096
    changed[aligned:aligned + length] = b"c" * length
    return {
        "overwritten": (lambda path: write_at(path, aligned, b"c" * length), bytes(changed)),
        "open with O_TRUNC": (truncate_open, b""), "truncate to 0": (lambda path: os.truncate(path, 0), b""),
        "cut before it": (lambda path: os.truncate(path, start - 10), pattern(SIZE)[:start - 10]),
        "cut at its start": (lambda path: os.truncate(path, start), pattern(SIZE)[:start]),
        "cp over it": (None, pattern(SIZE, seed=9)), "rename over it": (None, b"over"), "mv over it": (None, b"over"),
        "unlinked": (os.unlink, None),
    }


def write_at(path, offset, data):
    handle = os.open(path, os.O_RDWR)
    try:
        assert os.pwrite(handle, data, offset) == len(data)
        os.fsync(handle)
    finally:
        os.close(handle)


def payloads(volume):
    return PAYLOADS[Store(volume).keys.suite]


def test_block_in_the_middle_is_replaced(environment):
    """The class of the file is known, and what replaces the whole block needs nothing of it."""
    mount = environment.mount()
    names = list(uses(4096, 8192))
    for name in names:
        make_file(mount, name, "A" if "rename" in name else "C")
    write_file(mount / "neighbour", pattern(SIZE, seed=9))
    mount.unmount()
    store = Store(mount.volume)
    first, later = payloads(mount.volume)
    for name in names:
        store.block(name, 2, field_flags(2))
    start, end = first + later, first + 2 * later
    check_untouched(environment, "made", mount.volume, len(names))
    mount = environment.mount(mount.volume, path=mount.path)
    wanted = {}
    for name, (use, content) in uses(start, end).items():
        path = mount / name
        environment.cell(f"{name}: read before", NO, outcome(read_part, path, start, 10))
        if name.startswith("cp"):
            harness.run("cp", mount / "neighbour", path)
        elif use is None:
            write_file(mount / "over", b"over")
            if name.startswith("mv"):
                harness.run("mv", "-f", mount / "over", path)
            else:
                os.rename(mount / "over", path)
                environment.cell("a save by rename keeps the class", harness.CLASSES["A"], harness.get_class(path))
        else:
            use(path)
        if content is not None:
            wanted[name] = content
            environment.cell(f"{name}: what it has", True, read_file(path) == content)
    mount.unmount()
    code, answer = report(mount.volume)
    environment.cell("nothing newer is left: fsck", (0, 0, 0), (code, answer["newer"], answer["errors"]))
    mount = environment.mount(mount.volume, path=mount.path)
    environment.cell("mounted again", [], [name for name, content in wanted.items() if read_file(mount / name) != content])


def test_block_in_the_middle_is_needed(environment):
    """What needs a part of the block is refused before any byte of the file is changed."""
    mount = environment.mount()
    make_file(mount, "file", "C")
    mount.unmount()
    first, later = payloads(mount.volume)
    start = first + later
    Store(mount.volume).block("file", 2, field_flags(2))
    before = snapshot(mount.volume)
    mount = environment.mount(mount.volume, path=mount.path)
    path = mount / "file"
    for label, size in (("its first byte", start + 1), ("its middle", start + 2000), ("its last but one", start + later - 1)):
        environment.cell(f"cut behind {label}", (NO, SIZE), (outcome(os.truncate, path, size), os.stat(path).st_size))
    environment.cell("ftruncate", NO, outcome(ftruncate, path, start + 5))
    environment.cell("a hole that ends in it", True, harness.run(
        "fallocate", "--punch-hole", "--offset", "0", "--length", str(start + 5), path, ok=False).returncode != 0)
    environment.cell("a write of all its bytes, and a part of the cache's pages", NO,
                     outcome(write_at, path, start, b"c" * later))
    environment.cell("a write that ends in it", NO, outcome(write_at, path, start - 5, b"0123456789"))
    mount.unmount()
    compare(environment, "refused", mount.volume, before)


def ftruncate(path, size):
    handle = os.open(path, os.O_RDWR)
    try:
        os.ftruncate(handle, size)
    finally:
        os.close(handle)
