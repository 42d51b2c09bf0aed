"""State files that a newer version made: what every command does with them, and the way out; see test_future.py."""

import os

import reader
from future import WRITER, Store, erased, le, snapshot, states
from harness import CLASSES, outcome, pattern, protectfs, read_file, write_file
from keybags import mount as try_mount
from refusals import UNSUPPORTED, VOLUME
from test_future import KEY_COMMANDS, WRONG, beside, filled, refuses, use_by_both
from test_future_objects import compare

#: Row -> what is different in the state file; all of them make it newer.
STATES = {
    "version 3": {"changes": {8: b"\3"}}, "incompatible feature": {"changes": {104: b"\1"}},
    "reserved byte": {"changes": {124: b"\1"}}, "TLV that must be understood": {"tlvs": [(0x8123, b"new")]},
    "reserved byte of a lock": {"tlvs": [(3, le(7, 8) + le(0, 4) + le(1, 4))]},
    "version 3 with a longer header": {"changes": {8: b"\3"}, "header": bytes(range(40))},
}


def newer_state(row, difference):
    def test(environment):
        mount = filled(environment)
        volume = mount.volume
        Store(volume).state(**difference)
        path = reader.state_file(volume)
        refuses(environment, row, volume, ["mount", "mount without unlocking", "fsck", "fsck --repair", *KEY_COMMANDS],
                [WRITER, path])
        shown_with_newer_state(environment, row, volume, path)
        forgotten(environment, row, volume, path)
        erased(environment, row, volume)
        mount = filled(environment)
        Store(mount.volume).state(**difference, tampered=True)
        done = try_mount(environment, mount.volume, "--recovery-file", mount.volume.code_file, ok=False).result
        environment.cell(f"{row}, tampered: mount", (VOLUME, True, True, False), (
            done.returncode, "damaged" in done.stderr, reader.state_file(mount.volume) in done.stderr, "newer" in done.stderr))
    return test


def shown_with_newer_state(environment, row, volume, path):
    """info shows the rest and names the state file with its writer; inspect is refused, because it needs the epochs."""
    before, state = snapshot(volume), beside(volume)
    for words in ([], ["--json"]):
        done = protectfs("info", *words, volume.path, env=volume.environment, ok=False)
        said = done.stdout + done.stderr
        environment.cell(f"{row}: info {' '.join(words)}", (UNSUPPORTED, [], []), (
            done.returncode, [word for word in (WRITER, path, "--forget-state", "erial") if word not in said],
            [word for word in WRONG if word in said]))
    file = os.path.join(volume.path, next(name for name in sorted(os.listdir(volume.path)) if not name.startswith(".")))
    done = protectfs("inspect", "--recovery-file", volume.code_file, file, env=volume.environment, ok=False)
    environment.cell(f"{row}: inspect", (UNSUPPORTED, 1, [], []), (
        done.returncode, len(done.stderr.splitlines()), [word for word in (WRITER, path) if word not in done.stderr],
        [word for word in WRONG if word in done.stderr]))
    compare(environment, f"{row}, shown", volume, before)
    environment.cell(f"{row}, shown: nothing beside the store is changed", state, beside(volume))


def forgotten(environment, row, volume, path):
    """fsck --forget-state keeps the bytes under another name; the newer version can have them back."""
    newer = read_file(path)
    done = protectfs("fsck", "--forget-state", "--recovery-file", volume.code_file, volume.path, env=volume.environment, ok=False)
    kept = path + ".forgotten-1"
    environment.cell(f"{row}: fsck --forget-state", (0, True, True), (
        done.returncode, f"{path}: set aside as {kept}" in done.stderr, read_file(kept) == newer))
    environment.cell(f"{row}: a state file of this version", True, WRITER != states.State(read_file(path)).writer)
    use_by_both(environment, f"{row}, forgotten", volume)
    environment.cell(f"{row}: kept by all that came after", newer, read_file(kept))
    os.rename(kept, path)
    done = try_mount(environment, volume, "--recovery-file", volume.code_file, ok=False).result
    environment.cell(f"{row}: back again", (UNSUPPORTED, True), (done.returncode, WRITER in done.stderr))


def test_state_file_whose_writer_is_no_text(environment):
    """A writer of another form is kept, and not shown; the file works, and the next write names this program."""
    for value in (b"", b"w" * 65, b"line\nend", "\u00fcber".encode()):
        mount = filled(environment)
        path = reader.state_file(mount.volume)
        write_file(path, states.with_tlv(read_file(path), states.WRITER, value), os.O_TRUNC)
        before = read_file(path)
        environment.cell(f"{value[:9]}: info", 0, protectfs("info", mount.volume.path, env=mount.volume.environment).returncode)
        environment.cell(f"{value[:9]}: kept", before, read_file(path))
        use_by_both(environment, f"{value[:9]}", mount.volume)
        environment.cell(f"{value[:9]}: replaced by a mount", True, states.State(read_file(path)).writer.startswith("protectfs "))


def test_state_file_keeps_what_is_not_known(environment):
    """Compatible features, flags, TLVs and a longer header stay when the file is written again."""
    mount = filled(environment)
    volume = mount.volume
    flags = le(states.State(read_file(reader.state_file(volume))).flags | 0x8000_0100, 4)
    Store(volume).state({112: b"\5", 116: flags}, [(0x4321, b"kept"), (0x4322, b"")], header=bytes(range(40)))
    mount = environment.mount(volume)
    write_file(mount / "new", b"new")
    mount.lock()
    mount.unlock()
    mount.unmount()
    state = states.State(read_file(reader.state_file(volume)))
    environment.cell("kept", (5, True, bytes(range(40)), True, False), (
        int.from_bytes(state.header[112:116], "little"), state.flags & 0x8000_0100 == 0x8000_0100, state.header[128:],
        {(0x4321, b"kept"), (0x4322, b"")} <= set(state.tlvs), state.writer == WRITER))
    environment.cell("an epoch was drawn", True, state.highest_epoch > 100_000_000)
    environment.cell("and is closed", [], state.open_epochs)


def test_state_file_that_can_only_be_read(environment):
    mount = filled(environment)
    volume = mount.volume
    Store(volume).state({108: b"\2"})
    before, state = snapshot(volume), beside(volume)
    mount = environment.mount(volume)
    environment.cell("files read", True, all(read_file(mount / letter) == pattern(9000, seed=ord(letter)) for letter in CLASSES))
    environment.cell("nothing is written", "EROFS", outcome(write_file, mount / "new", b"x"))
    mount.unmount()
    compare(environment, "read-only state", volume, before)
    environment.cell("the state file is as it was", state, beside(volume))
    erased(environment, "read-only state", volume)


for row, what in STATES.items():
    globals()["test_" + row.replace(" ", "_")] = newer_state(row, what)
