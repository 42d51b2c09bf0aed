"""Volumes that a newer version made: their keybag, slots, keys and late files, and what every command does.

Each table has a row for each change, and each row is a test of its own. State files are in test_future_state.py, objects
in the store in test_future_objects.py, test_future_names.py and test_future_replaced.py.
"""

import json
import os

import harness
import reader
from checks import report
from future import (ALL_KEYS, INACTIVE, WRITER, A, B, BundleEntry, C, D, Keybag, Store, erased, le, make_tlvs, signing,
                    snapshot)
from harness import CLASSES, outcome, pattern, protectfs, read_file, set_class, write_file
from keybags import mount as try_mount
from refusals import UNSUPPORTED, VOLUME
from test_future_objects import NO, compare

NEW_PASSPHRASE = "another correct horse battery"
FOREIGN = b"what opens the slot of a newer version"

#: Row -> the header's bytes (None: something else, below). All of them make the keybag itself newer.
KEYBAGS = {
    "version": {8: b"\3"}, "incompatible bit": {40: b"\x10"}, "reserved byte": {102: b"\1"}, "last reserved byte": {127: b"\1"},
    "flags": {15: b"\2"}, "cipher suite 3": {12: b"\3"}, "header length": {10: le(1280, 2)}, "name scheme": {14: b"\2"},
    "block_log2": {13: b"\x10"}, "TLV that must be understood": None, "slot that must be understood": None,
}

#: Row -> what is different in a late file; all of them close class A.
LATE = {
    "version 3": {"changes": {8: b"\3"}}, "reserved byte": {"changes": {14: b"\1"}}, "second reserved byte": {"changes": {40: b"\1"}},
    "generation of class B": {"changes": {12: b"\x77"}}, "record of kind 3": {"kind": 3},
}


def filled(environment):
    """An unmounted volume with a file of each class."""
    mount = environment.mount()
    for letter in CLASSES:
        harness.make_file(mount / letter, letter, pattern(9000, seed=ord(letter)))
    os.mkdir(mount / "b")
    set_class(mount / "b", "B")
    mount.unmount()
    return mount


def new_passphrase(environment):
    path = environment.new_path("new-passphrase")
    with open(path, "w", encoding="ascii") as file:
        file.write(NEW_PASSPHRASE + "\n")
    return path


def commands(environment, volume):
    """Every command that needs the keybag: name -> words."""
    new, code = new_passphrase(environment), ["--recovery-file", volume.code_file]
    old = ["--passphrase-file", volume.passphrase_file]
    return {
        "mount": ["mount", *code, volume.path, environment.new_path("point")],
        "mount without unlocking": ["mount", "--no-unlock", volume.path, environment.new_path("point")],
        "fsck": ["fsck", *code, volume.path], "fsck --repair": ["fsck", "--repair", "--quarantine", *code, volume.path],
        "slot list": ["slot", "list", volume.path],
        "passphrase change": ["passphrase", "change", *old, "--new-passphrase-file", new, volume.path],
        "slot add": ["slot", "add", *old, "--new-passphrase-file", new, volume.path],
        "slot remove": ["slot", "remove", "--slot", "2", *code, volume.path],
        "slot add --recovery": ["slot", "add", "--recovery", *code, volume.path],
        "recovery use": ["recovery", "use", *code, "--new-passphrase-file", new, volume.path],
    }


#: Commands that change a keybag.
KEY_COMMANDS = ("passphrase change", "slot add", "slot remove", "slot add --recovery", "recovery use")
#: Words that no message about something newer has.
WRONG = ("damaged", "--previous-keybag", "changed", "tampered", "corrupt")


def beside(volume):
    """What is beside the store: names and bytes, without locks."""
    top = os.path.join(volume.data, "protectfs")
    return {name: read_file(os.path.join(top, name)) for name in sorted(os.listdir(top)) if not name.endswith(".lock")}


def refuses(environment, label, volume, names, mentions):
    """Each command is refused with one sentence that names what is newer, and changes nothing."""
    table = commands(environment, volume)
    before, state = snapshot(volume), beside(volume)
    for name in names:
        words = table[name]
        if words[0] == "mount":
            os.makedirs(words[-1], exist_ok=True)
        done = protectfs(*words, env=volume.environment, ok=False)
        said = done.stderr.strip()
        expected = 8 if words[0] == "fsck" else UNSUPPORTED
        environment.cell(f"{label}: {name}", (expected, 1, [], []), (
            done.returncode, len(said.splitlines()), [word for word in mentions if word not in said],
            [word for word in WRONG if word in said]))
    compare(environment, f"{label}, after every command", volume, before)
    environment.cell(f"{label}: nothing beside the store is changed", state, beside(volume))


def newer_keybag(row, changes):
    def test(environment):
        mount = filled(environment)
        store = Store(mount.volume)
        if changes is not None:
            store.keybag(changes)
        elif row.startswith("TLV"):
            store.keybag(tlvs=[(0x8123, b"new")])
        else:
            old = [slot.data for slot in store.bag.slots]
            store.keybag(slots=old + [signing.make_slot(store.bag.uuid, 99, 8, 0x80, FOREIGN, store.keys.entries)])
        refuses(environment, row, mount.volume, commands(environment, mount.volume), [WRITER])
        done = protectfs("info", mount.volume.path, env=mount.volume.environment, ok=False)
        environment.cell(f"{row}: info names the writer", (True, []), (
            WRITER in done.stdout + done.stderr, [word for word in WRONG if word in done.stdout + done.stderr]))
        erased(environment, row, mount.volume)
    return test


#: Row -> the slot: (kind, flags, bytes that are changed). It is in front of all others, and of a newer version.
SLOTS = {
    "slot of kind 8": (8, 0, {}), "slot of kind 200": (200, 0, {}), "slot with an unknown flag": (2, 0x20, {}),
    "slot with an unknown KDF": (2, 0, {8: b"\2"}), "slot with a reserved byte": (3, 0, {24: b"\1"}),
    "slot with a TLV that must be understood": (2, 0, {104: le(0x8055, 2)}),
    "slot with more passes than anybody has": (2, 0, {8: b"\1", 12: le(1000, 4), 16: le(8 << 20, 8)}),
}


def newer_slot(row, kind, flags, changes):
    """The others open; its bytes survive every change, and what it holds still opens the volume."""
    def test(environment):
        mount = filled(environment)
        volume, store = mount.volume, Store(mount.volume)
        ext = make_tlvs([(1, b"my new device"), (2, le(1_700_000_000, 8))] if 104 not in changes else [(9, b"x")])
        foreign = signing.make_slot(store.bag.uuid, 77, kind, flags, FOREIGN, store.keys.entries, ext=ext, changes=changes)
        store.keybag(slots=[foreign] + [slot.data for slot in store.bag.slots], tlvs=[(0x77, b"kept")], changes={44: b"\7"})

        def check(when):
            bag = Store(volume).bag
            environment.cell(f"{row}, {when}: its bytes", True, foreign in [slot.data for slot in bag.slots])
            keys = signing.open_any(bag.uuid, foreign, FOREIGN)
            environment.cell(f"{row}, {when}: its keys are the volume's", [entry.data for entry in store.keys.entries],
                             [entry.data for entry in keys])
            environment.cell(f"{row}, {when}: kept TLV and features", (True, 7), ((0x77, b"kept") in bag.tlvs, bag.compatible))

        check("made")
        shown = protectfs("slot", "list", volume.path, env=volume.environment)
        environment.cell(f"{row}: slot list", True, "newer version" in shown.stdout)
        if 104 not in changes:
            environment.cell(f"{row}: its label is shown", True, "my new device" in shown.stdout)
        environment.cell(f"{row}: fsck", 0, report(volume)[0])
        use_by_both(environment, row, volume)
        new = new_passphrase(environment)
        for words in (["passphrase", "change", "--passphrase-file", volume.passphrase_file, "--new-passphrase-file", new],
                      ["slot", "add", "--portable", "--passphrase-file", new, "--new-passphrase-file", volume.passphrase_file]):
            protectfs(*words, volume.path, env=volume.environment)
            check(" ".join(words[:2]))
        made = protectfs("slot", "add", "--recovery", "--json", "--passphrase-file", new, volume.path, env=volume.environment)
        write_file(volume.code_file, json.loads(made.stdout)["recoveryCode"].encode() + b"\n", os.O_TRUNC)
        check("slot add --recovery")
        environment.cell(f"{row}: the writer is now this program", False, WRITER == writer_of(volume))
        use_by_both(environment, row, volume)
        erased(environment, row, volume)
    return test


def writer_of(volume):
    return Keybag(read_file(reader.keybag_file(volume))).writer


def use_by_both(environment, label, volume, letters=CLASSES):
    """Mounted, every class reads; and the second reader reads it too."""
    mount = environment.mount(volume)
    environment.cell(f"{label}: files read", [True] * len(letters),
                     [read_file(mount / letter) == pattern(9000, seed=ord(letter)) for letter in letters])
    mount.unmount()
    opened = reader.unlock(volume)
    environment.cell(f"{label}: the second reader reads them", [True] * len(letters), [
        opened.file(opened.backing_path(letter)).contents() == pattern(9000, seed=ord(letter)) for letter in letters])


def test_slot_tampered(environment):
    """A known slot changed without its keys: damage, with the first MAC as witness."""
    mount = filled(environment)
    store = Store(mount.volume)
    slot = store.bag.slots[1]
    changed = slot.data[:2] + b"\4" + slot.data[3:]
    slots = [changed if one is slot else one.data for one in store.bag.slots]
    store.keybag(slots=slots, tampered=True)
    done = try_mount(environment, mount.volume, "--recovery-file", mount.volume.code_file, ok=False).result
    environment.cell("mount", (VOLUME, False), (done.returncode, "newer" in done.stderr))


def test_two_generations(environment):
    """Old files read with their keys, new ones get the keybag's generation, both readers read both, and nothing is lost."""
    mount = filled(environment)
    volume = mount.volume
    store = Store(volume)
    first = {number: store.bag.generations[number] for number in (A, B, C, D, INACTIVE)}
    store.generation((A, B, C, D, INACTIVE), 0x1234)
    use_by_both(environment, "two generations", volume)
    mount = environment.mount(volume)
    for letter in CLASSES:
        harness.make_file(mount / f"new {letter}", letter, pattern(9000, seed=ord(letter)))
        write_file(mount / letter, pattern(9000, seed=ord(letter)))
    mount.lock()
    while_locked = ["EACCES", "EACCES", "works", "works", "works"]
    environment.cell("locked", while_locked, [outcome(read_file, mount / letter) for letter in CLASSES])
    environment.cell("locked, the new ones", while_locked,
                     [outcome(read_file, mount / f"new {letter}") for letter in CLASSES])
    write_file(mount / "b/made while locked", pattern(9000, seed=5))
    mount.unlock()
    environment.cell("unlocked again", True, read_file(mount / "b/made while locked") == pattern(9000, seed=5)
                     and read_file(mount / "A") == pattern(9000, seed=ord("A")))
    set_class(mount / "C", "A")
    mount.unmount()
    opened = reader.unlock(volume)
    generations = lambda name: opened.file(opened.backing_path(name)).header[10:12]
    environment.cell("generation of new files", [le(0x1234, 2)] * 6, [
        generations(name) for name in [f"new {letter}" for letter in CLASSES] + ["b/made while locked"]])
    environment.cell("generation of old files that were written", [le(first[number], 2) for number in (A, B, D, INACTIVE)],
                     [generations(letter) for letter in "ABD7"])
    environment.cell("an old file with another class has the new generation", le(0x1234, 2), generations("C"))
    environment.cell("the second reader reads the new ones", [True] * 5, [opened.file(
        opened.backing_path(f"new {letter}")).contents() == pattern(9000, seed=ord(letter)) for letter in CLASSES])
    environment.cell("fsck", 0, report(volume)[0])
    kept_by_key_commands(environment, "two generations", volume)
    erased(environment, "two generations", volume)


def kept_by_key_commands(environment, label, volume):
    """Slots that are made anew hold every entry of the bundle, as it was."""
    before = sorted(entry.data for entry in reader.unlock(volume).keys.entries)
    new = new_passphrase(environment)
    protectfs("passphrase", "change", "--passphrase-file", volume.passphrase_file, "--new-passphrase-file", new, volume.path,
              env=volume.environment)
    bag = Keybag(read_file(reader.keybag_file(volume)))
    device = read_file(reader.device_key_file(volume))
    environment.cell(f"{label}: passphrase change keeps every entry", before, sorted(
        entry.data for entry in bag.unlock(NEW_PASSPHRASE.encode(), None, device).entries))
    device_entries = sorted(entry.data for entry in bag.open(device).entries)
    environment.cell(f"{label}: the device slot's", [data for data in before if data[1] & 1], device_entries)
    old = os.path.join(os.path.dirname(volume.path), "device.old")
    os.rename(reader.device_key_file(volume), old)
    protectfs("recovery", "use", "--recovery-file", volume.code_file, "--new-passphrase-file", volume.passphrase_file,
              volume.path, env=volume.environment)
    bag = Keybag(read_file(reader.keybag_file(volume)))
    device = read_file(reader.device_key_file(volume))
    environment.cell(f"{label}: recovery use keeps every entry", (before, device_entries), (sorted(entry.data for entry in bag.unlock(
        harness.PASSPHRASE.encode(), None, device).entries), sorted(entry.data for entry in bag.open(device).entries)))
    use_by_both(environment, f"{label}, keys changed", volume, "ABD7")


def test_unknown_entries_of_a_bundle(environment):
    """Keys of later features, unknown flags and kept bytes stay in every slot that is made."""
    mount = filled(environment)
    store = Store(mount.volume)
    more = [BundleEntry.make(19, 3, os.urandom(32), 0xFE, b"kept"), BundleEntry.make(200, 0, os.urandom(32), 1),
            BundleEntry.make(A, 9, os.urandom(32), 0x40, b"\1\2\3\4")]
    store.put_keybag(signing.add_entries(store.bag.data, store.keys, store.materials(), more))
    store.keybag()
    use_by_both(environment, "unknown entries", mount.volume)
    kept_by_key_commands(environment, "unknown entries", mount.volume)
    environment.cell("all keys of a new volume are among them", True, {entry.kind for entry in more} | set(ALL_KEYS) == {
        entry.kind for entry in reader.unlock(mount.volume).keys.entries})


def test_keybag_that_can_only_be_read(environment):
    """A read-only compatible bit: mounts are read-only, a check works, no key command does."""
    mount = filled(environment)
    volume = mount.volume
    Store(volume).keybag({104: b"\1"})
    before = snapshot(volume)
    environment.cell("fsck", 0, report(volume)[0])
    refuses(environment, "read-only bit", volume, KEY_COMMANDS + ("fsck --repair",), [WRITER])
    mount = environment.mount(volume, path=mount.path)
    environment.cell("files read", True, all(read_file(mount / letter) == pattern(9000, seed=ord(letter)) for letter in CLASSES))
    environment.cell("nothing is written", ["EROFS"] * 4, [
        outcome(write_file, mount / "A", b"x"), outcome(write_file, mount / "new", b"x"), outcome(os.unlink, mount / "A"),
        outcome(set_class, mount / "C", "A")])
    mount.lock()
    environment.cell("locked", "EACCES", outcome(read_file, mount / "A"))
    mount.unlock()
    environment.cell("unlocked", "works", outcome(read_file, mount / "A"))
    mount.unmount()
    compare(environment, "read-only bit, after use", volume, before)
    erased(environment, "read-only bit", volume)


def newer_late(row, difference):
    """Class A is closed, all else works, and the file stays until a newer version applies it."""
    def test(environment):
        mount = filled(environment)
        volume = mount.volume
        place = Store(volume).late("A", 1_700_000_000_000_000, **difference)
        late, before = read_file(place), snapshot(volume)
        for words in ([], ["--repair"], ["--repair", "--quarantine"]):
            code, answer = report(volume, *words)
            environment.cell(f"{row}: fsck {' '.join(words)}", (64, True, 0), (code, answer["newer"] >= 1, answer["errors"]))
            compare(environment, f"{row}: after fsck {' '.join(words)}", volume, before)
        mount = environment.mount(volume, path=mount.path)
        environment.cell(f"{row}: class A", [NO, NO], [outcome(read_file, mount / "A"), outcome(write_file, mount / "A", b"x")])
        environment.cell(f"{row}: the other classes", ["works"] * 3, [outcome(read_file, mount / letter) for letter in "BCD"])
        environment.cell(f"{row}: hidden", [], [name for name in os.listdir(mount.path) if "protectfs" in name])
        mount.lock()
        mount.unlock()
        environment.cell(f"{row}: class A, unlocked again", NO, outcome(read_file, mount / "A"))
        mount.unmount()
        environment.cell(f"{row}: its bytes", late, read_file(place))
        erased(environment, row, volume)
        mount = filled(environment)
        Store(mount.volume).late("A", 1_700_000_000_000_000, tampered=True, **difference)
        mount = environment.mount(mount.volume, path=mount.path)
        environment.cell(f"{row}, tampered: class A is not closed", "works", outcome(read_file, mount / "A"))
        environment.cell(f"{row}, tampered: nothing of it is applied", pattern(9000, seed=ord("A")), read_file(mount / "A"))
    return test


for table, prefix, maker in ((KEYBAGS, "keybag", lambda row, what: newer_keybag(row, what)),
                             (SLOTS, "keybag", lambda row, what: newer_slot(row, *what)),
                             (LATE, "late_file", newer_late)):
    for row, what in table.items():
        globals()["test_%s_%s" % (prefix, row.replace(" ", "_").replace("+", "plus"))] = maker(row, what)
