"""NSFileCoordinator and NSFilePresenter of FileProtection, within one process."""

from harness import CLASSES, get_class, make_file, read_file
from porting import Examples
from porting_table import A, B, C, reading, writing


def test_in_every_state(environment):
    """A locked file is not waited for: the accessor's read and write say 257 and 513. Files keep their classes."""
    mount = environment.mount()
    for letter in "ABCD":
        make_file(mount / letter.lower(), letter, b"old")
    kinds = {"a": A, "b": B, "c": C}

    def expected(read, written):
        return [line for name in "abcd" for line in (
            f"{name} read: {reading(kinds[name]) if name in read else 'old'}",
            f"{name} written: {writing(kinds[name]) if name in written else 'ok'}")]

    def judge(state, read, written):
        Examples(environment, mount).says(state, expected(read, written), "coordinating", "a", "b", "c", "d")
        environment.cell(f"{state} classes", [CLASSES[letter] for letter in "ABCD"], [get_class(mount / name) for name in "abcd"])

    mount.lock()
    # A new file of class B can take the place of one that cannot be read.
    judge("LCK", "ab", "a")
    mount.unlock()
    environment.cell("LCK contents", [b"old", b"new", b"new", b"new"], [read_file(mount / name) for name in "abcd"])
    for letter in "ABCD":
        make_file(mount / letter.lower(), letter, b"old")
    for name in "abcd":
        environment.cell(f"{name} again", b"old", read_file(mount / name))
    mount = environment.remount(mount, unlock=False)
    judge("BFU", "abc", "ac")
    mount.unlock()
    environment.cell("BFU contents", [b"old", b"new", b"old", b"new"], [read_file(mount / name) for name in "abcd"])
    for name in "abcd":
        make_file(mount / name, name.upper(), b"old")
    judge("UNL", "", "")


def test_within_a_process(environment):
    """Writers are alone, readers are not; presenters are asked before and told after."""
    mount = environment.mount()
    Examples(environment, mount).says("UNL", [
        "increments that are not lost: 100", "readers at the same time: true",
        "who replaces the directory and a reader in it: writer, reader",
        "a writer of the directory and one in it: true", "another file goes on: true", "nested: true",
        "cancelled: 3072", "intents: true, counter other",
        "presenter: to reader, saves, read, back from reader, |, to writer, written, changed, back from writer, |, "
        "to writer, accommodates, deleted, back from writer, moved to counter.old, |, |, to reader, saves, back from reader, 640",
        "presenter of the directory: changed other, 1"], "coordination")
