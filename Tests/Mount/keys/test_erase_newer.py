"""erase destroys the keys of volumes of every version, and nothing of another volume."""

import hashlib
import os
import shutil

import harness
import reader
from erasing import erase, keybags, left, overwrites_in_place


def patched(volume, *changes):
    """Changes bytes of a keybag by offset; a negative one counts from the end."""
    content = bytearray(harness.read_file(reader.keybag_file(volume)))
    for offset, value in changes:
        start = offset if offset >= 0 else len(content) + offset
        content[start:start + len(value)] = value
    harness.write_file(reader.keybag_file(volume), bytes(content), os.O_TRUNC)


def slot_offset(content, kind):
    """The offset of the first slot of a kind."""
    offset = 128
    while content[offset + 2] != kind:
        offset += int.from_bytes(content[offset:offset + 2], "little")
    return offset


def insert(volume, added):
    """Puts bytes between the slots and the MACs, as unknown TLVs are."""
    content = bytearray(harness.read_file(reader.keybag_file(volume)))
    content[-64:-64] = added
    content[96:100] = len(content).to_bytes(4, "little")
    content[108:112] = (int.from_bytes(content[108:112], "little") + len(added)).to_bytes(4, "little")
    harness.write_file(reader.keybag_file(volume), bytes(content), os.O_TRUNC)


def newer_keybags():
    """What a newer version may do to a keybag: a label, and a function that does it to a volume."""
    def slots(volume, change):
        content = harness.read_file(reader.keybag_file(volume))
        patched(volume, *((slot_offset(content, 1) + offset, value) for offset, value in change))
    yield "version", lambda volume: patched(volume, (8, b"\x63\0"))
    yield "length of headers", lambda volume: patched(volume, (10, b"\0\5"))
    yield "suite", lambda volume: patched(volume, (12, b"\3"))
    yield "flags", lambda volume: patched(volume, (15, b"\x80"))
    yield "incompatible feature", lambda volume: patched(volume, (40, b"\1"))
    yield "read-only feature", lambda volume: patched(volume, (104, b"\1"))
    yield "reserved bytes", lambda volume: patched(volume, (112, b"\1"))
    yield "everything", lambda volume: patched(volume, (8, b"\3\0"), (12, b"\x09" * 4), (32, os.urandom(64)))
    yield "TLV", lambda volume: insert(volume, b"\1\x80" + bytes([8, 0, 0, 0]) + bytes(8))
    yield "1 MiB", lambda volume: insert(volume, os.urandom((1 << 20) - os.path.getsize(reader.keybag_file(volume))))
    yield "above 1 MiB", lambda volume: insert(volume, os.urandom(3 << 20))
    yield "flag of the device slot", lambda volume: slots(volume, [(3, b"\x40")])
    yield "reserved bytes of the device slot", lambda volume: slots(volume, [(24, b"\1")])
    yield "KDF of the device slot", lambda volume: slots(volume, [(8, b"\7"), (12, b"\x63")])
    yield "kind of the device slot", lambda volume: slots(volume, [(2, b"\x09")])
    yield "device slot of another form", lambda volume: slots(volume, [(8, os.urandom(96))])


def hashed(content):
    """A state file with the hash that its other bytes have."""
    return content[:-32] + hashlib.blake2b(content[:-32], digest_size=32).digest()


def newer_states():
    """What may be in the place of a state file: a label, and the bytes made of this version's."""
    yield "empty", lambda content: b""
    yield "short", lambda content: content[:40]
    yield "damaged", lambda content: content[:12] + b"\xff" * 4 + content[16:]
    yield "version", lambda content: hashed(content[:8] + b"\x63\0" + content[10:])
    yield "junk", lambda content: os.urandom(5000)


def test_newer_keybags(environment):
    """A keybag of any version names its volume: key, state file and lock go with it."""
    for label, change in newer_keybags():
        volume = environment.volume()
        change(volume)
        length = os.path.getsize(reader.keybag_file(volume))
        with open(reader.keybag_file(volume), "rb") as handle:
            before = handle.read()
            handle.seek(0)
            _, answer = erase(volume)
            after = handle.read()
        environment.cell(f"{label}: nothing is left", ([], []), (left(volume), keybags(volume)))
        environment.cell(f"{label}: says so", ([], overwrites_in_place(volume.path)), (answer["left"], answer["verified"]))
        same = sum(one == other for one, other in zip(before[:65536], after))
        environment.cell(f"{label}: overwritten to its end", (True, True), (
            same < 20000 and before[-64:] != after[length - 64:length], len(after) >= length))


def test_newer_keybags_without_a_record(environment):
    """The key that made a slot goes; if no slot can be read, the person names it."""
    for label, change in newer_keybags():
        volume = environment.volume()
        key = reader.device_key_file(volume)
        change(volume)
        os.unlink(reader.state_file(volume))
        done, answer = erase(volume, ok=False)
        unreadable = label in ("kind of the device slot", "device slot of another form")
        environment.cell(f"{label}: code", 4 if unreadable else 0, done.returncode)
        if unreadable:
            environment.cell(f"{label}: refused", (True, True, [".protectfs.keybag"]), (
                f"--device-key {key}" in done.stderr, os.path.exists(key), keybags(volume)))
            _, answer = erase(volume, "--device-key", key)
        environment.cell(f"{label}: nothing is left", ([], [], []), (left(volume), keybags(volume), answer["left"]))


def test_newer_keybags_of_a_store_that_was_used(environment):
    """The state file names the store: that is proof enough, although nothing in the keybag can be read but the UUID."""
    for label, change in newer_keybags():
        if label not in ("everything", "device slot of another form"):
            continue
        for is_newer in (False, True):
            mount = environment.mount()
            mount.unmount()
            volume = mount.volume
            change(volume)
            patched(volume, (64, os.urandom(32)), (8, b"\x63\0"))
            if is_newer:
                state = reader.state_file(volume)
                content = harness.read_file(state)
                harness.write_file(state, hashed(content[:8] + b"\x63\0" + content[10:]), os.O_TRUNC)
            _, answer = erase(volume)
            environment.cell(f"{label}, newer state file {is_newer}: nothing is left", ([], [], []), (
                left(volume), keybags(volume), answer["left"]))


def test_state_files_of_any_kind(environment):
    """The key that opens the keybag proves that they are this volume's."""
    for label, change in newer_states():
        for is_newer in (False, True):
            volume = environment.volume()
            state = reader.state_file(volume)
            harness.write_file(state, change(harness.read_file(state)), os.O_TRUNC)
            if is_newer:
                patched(volume, (8, b"\x63\0"))
            _, answer = erase(volume)
            environment.cell(f"{label}, newer keybag {is_newer}: nothing is left", ([], [], []), (
                left(volume), keybags(volume), answer["left"]))
            environment.cell(f"{label}, newer keybag {is_newer}: named", True, state in answer["destroyed"])


def test_state_files_that_were_set_aside(environment):
    volume = environment.volume()
    state = reader.state_file(volume)
    names = [state + ".forgotten-1", state + ".forgotten-2", state[:-6] + ".2.state.forgotten-1"]
    for name, content in zip(names, (harness.read_file(state), b"", os.urandom(99))):
        harness.write_file(name, content)
    _, answer = erase(volume)
    environment.cell("nothing is left", ([], [], []), (left(volume), keybags(volume), answer["left"]))


def test_a_damaged_state_file_of_a_copy(environment):
    """The store's own state file is there, so the other one is not this store's."""
    volume = environment.volume()
    other = reader.state_file(volume)[:-6] + ".2.state"
    harness.write_file(other, b"damaged")
    done, answer = erase(volume)
    environment.cell("it is left, and said to be", (0, [os.path.basename(other)], [other], False), (
        done.returncode, [name for name in left(volume) if not name.endswith(".lock")], answer["left"],
        answer["verified"]))


def test_files_that_are_no_keys(environment):
    """A file with the name of a key and another length is left, and does not stop anything."""
    for label, suffix, make in (
            ("text", ".key.old", lambda path: harness.write_file(path, b"a note\n")),
            ("empty", ".key.old.2", lambda path: harness.write_file(path, b"")),
            ("directory", ".key.old", os.mkdir),
            ("number", ".2.key", lambda path: harness.write_file(path, b"x" * 33)),
            ("other", ".notes", lambda path: harness.write_file(path, b"x" * 33))):
        volume = environment.volume()
        key = reader.device_key_file(volume)
        junk = key[:-4] + suffix
        make(junk)
        _, answer = erase(volume)
        environment.cell(f"{label}: the key goes", (True, []), (key in answer["destroyed"], keybags(volume)))
        environment.cell(f"{label}: it is left, and said to be", (True, [junk], False), (
            os.path.exists(junk), answer["left"], answer["verified"]))


def test_a_newer_store_that_names_another_volume(environment):
    """The same with a keybag of another version, in which no slot can be read: a UUID proves nothing."""
    victim = environment.volume()
    files = [reader.device_key_file(victim), reader.state_file(victim)]
    contents = [harness.read_file(path) for path in files]
    uuid = harness.read_file(reader.keybag_file(victim))[16:32]
    hostile = environment.new_path("hostile")
    os.mkdir(hostile)
    for label, change in [("whole", lambda content: content), *newer_states()]:
        harness.write_file(files[1], change(contents[1]), os.O_TRUNC)
        before = [harness.read_file(path) for path in files]
        header = b"PFSKBAG1" + b"\x63\0" + os.urandom(6) + uuid + os.urandom(1000)
        harness.write_file(hostile + "/.protectfs.keybag", header, os.O_TRUNC)
        store = harness.Volume(hostile, victim.data, victim.code_file, victim.passphrase_file)
        done, _ = erase(store, ok=False)
        environment.cell(f"{label}: refused", (4, True), (done.returncode, "Nothing was destroyed" in done.stderr))
        environment.cell(f"{label}: all is there", before, [harness.read_file(path) for path in files])
    harness.write_file(files[1], contents[1], os.O_TRUNC)
    environment.mount(victim)


def test_a_newer_copy_that_shares_the_key(environment):
    """A copy whose keybag cannot be read may need the key."""
    mount = environment.mount()
    mount.unmount()
    original = mount.volume
    copy = harness.Volume(environment.new_path("copy"), original.data, original.code_file, original.passphrase_file)
    shutil.copytree(original.path, copy.path, symlinks=True)
    patched(original, (8, b"\x63\0"))
    state = reader.state_file(original)
    content = harness.read_file(state)
    for label, changed in (("readable", content), ("newer", hashed(content[:8] + b"\x63\0" + content[10:]))):
        harness.write_file(state, changed, os.O_TRUNC)
        done, _ = erase(copy, ok=False)
        environment.cell(f"state file {label}: refused", (6, True, True), (
            done.returncode, original.path in done.stderr, os.path.exists(reader.device_key_file(original))))
    _, answer = erase(copy, "--device-key", "none")
    environment.cell("what the machine knows of the other is left", (True, True), (
        state in answer["left"], os.path.exists(state)))
