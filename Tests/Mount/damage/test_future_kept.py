"""Newer objects in places where little of them can be verified: short files, closed classes; and the way to be rid of them."""

import os
import shutil

import harness
from checks import report
from future import Store, field_flags, next_generation, snapshot
from harness import outcome, pattern, read_file, set_class, write_file
from test_future_objects import NO, check_untouched, compare, make_file


def crash(environment, mount):
    """Leaves an open epoch, and nothing that a check would mend."""
    mount = environment.mount(mount.volume, path=mount.path)
    write_file(mount / "crashed", b"x")
    harness.sync(mount.path)
    os.unlink(mount / "crashed")
    harness.sync(mount.path)
    mount.crash()


def test_short_files(environment):
    """The header comes before the rule for files that are shorter than a page, also after a crash."""
    for label in ("clean", "crashed"):
        mount = environment.mount()
        for name in ("short", "header alone"):
            write_file(mount / name, b"small")
            os.setxattr(mount / name, "user.comment", b"hello")
        mount.unmount()
        store = Store(mount.volume)
        for name, length in (("short", 2048), ("header alone", 128)):
            store.header(name, {3: b"\3"})
            os.truncate(store.backing(name), length)
        if label == "crashed":
            crash(environment, mount)
        before = snapshot(mount.volume)
        check_untouched(environment, f"short, {label}", mount.volume, 2, before)
        mount = environment.mount(mount.volume, path=mount.path)
        write_file(mount / "over", b"over")
        for name in ("short", "header alone"):
            path = mount / name
            environment.cell(f"{name}, {label}: use", (NO, NO, NO, NO, 0), (
                outcome(read_file, path), outcome(write_file, path, b"x"), outcome(os.getxattr, path, "user.comment"),
                outcome(os.rename, mount / "over", path), os.stat(path).st_size))
        os.unlink(mount / "over")
        mount.unmount()
        compare(environment, f"short, {label}, after use", mount.volume, before)
        mount = environment.mount(mount.volume, path=mount.path)
        environment.cell(f"short, {label}: unlink", "works", outcome(os.unlink, mount / "short"))


def test_replaced_in_every_lock_state(environment):
    """A rename over a newer file is refused without keys, too, whatever class the other file has."""
    mount = environment.mount()
    os.mkdir(mount / "d")
    set_class(mount / "d", "D")
    parts = ("generation", "first block", "last block", "attribute")
    for letter in "ABC":
        for part in parts:
            make_file(mount, f"d/{part} {letter}", letter)
    mount.unmount()
    store = Store(mount.volume)
    for letter in "ABC":
        store.header(f"d/generation {letter}", next_generation)
        store.block(f"d/first block {letter}", 0, field_flags(2))
        store.block(f"d/last block {letter}", 3, field_flags(2))
        store.attribute(f"d/attribute {letter}", "user.comment", 3)
    before = snapshot(mount.volume)
    check_untouched(environment, "every lock state", mount.volume, 12, before)
    mount = environment.mount(mount.volume, path=mount.path, unlock=False)
    for state in ("before the first unlock", "unlocked", "locked"):
        if state == "unlocked":
            mount.unlock()
        elif state == "locked":
            mount.lock()
        for letter in "ABC":
            for part in parts:
                # Before the first unlock the generations of the closed classes are not known.
                expected = "EACCES" if part == "generation" and state.startswith("before") else NO
                for explicit in (False, True):
                    write_file(mount / "d/over", b"over")
                    if explicit:
                        set_class(mount / "d/over", "D")
                    environment.cell(f"{part} {letter}, {state}: rename over it, explicit {explicit}", expected,
                                     outcome(os.rename, mount / "d/over", mount / f"d/{part} {letter}"))
                    os.unlink(mount / "d/over")
    mount.unmount()
    compare(environment, "every lock state, after every rename", mount.volume, before)


def test_names_that_do_not_verify(environment):
    """A repair renames nothing of which a block or an attribute is newer."""
    mount = environment.mount()
    names = ("first block", "middle block", "last block", "attribute")
    for name in names:
        make_file(mount, name, "C")
    mount.unmount()
    store = Store(mount.volume)
    for name, block in (("first block", 0), ("middle block", 2), ("last block", 3)):
        store.block(name, block, field_flags(2))
    store.attribute("attribute", "user.comment", 3)
    for name in names:
        place, entry = os.path.split(store.backing(name))
        os.rename(store.backing(name), os.path.join(place, (b"B" if entry[:1] == b"A" else b"A") + entry[1:]))
    before = snapshot(mount.volume)
    for words in (["--repair"], ["--repair", "--quarantine"]):
        answer = report(mount.volume, *words)[1]
        environment.cell(f"{' '.join(words)}: newer", (4, []), (answer["newer"], answer["repairs"]))
        compare(environment, f"names, after {' '.join(words)}", mount.volume, before)


def test_removed_by_hand(environment):
    """`rm -r` in the mount keeps directories with something newer. docs/man/protectfs.1 says how to remove them."""
    mount = environment.mount()
    for name in ("record", "reserved"):
        os.mkdir(mount / name)
        write_file(os.path.join(mount / name, "file"), b"file")
    write_file(mount / "neighbour", pattern(9000))
    mount.unmount()
    store = Store(mount.volume)
    store.record("record", {3: b"\3"})
    write_file(os.path.join(store.backing("reserved"), b".protectfs.x"), b"of a newer version")
    mount = environment.mount(mount.volume, path=mount.path)
    environment.cell("rm -r in the mount", (True, True), tuple(
        harness.run("rm", "-rf", mount / name, ok=False).returncode != 0 and os.path.isdir(mount / name)
        for name in ("record", "reserved")))
    places = [mount.stored(name) for name in ("record", "reserved")]
    mount.unmount()
    for place in places:
        shutil.rmtree(place)
    code, answer = report(mount.volume)
    environment.cell("removed in the store: fsck", (0, []), (code, answer["findings"]))
    mount = environment.mount(mount.volume, path=mount.path)
    environment.cell("mounted again", (["neighbour"], True), (
        os.listdir(mount.path), read_file(mount / "neighbour") == pattern(9000)))
