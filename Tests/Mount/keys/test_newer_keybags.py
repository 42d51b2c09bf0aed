"""Keybags that a newer version made: refused by name, readable only, or with slots, keys and TLVs that are kept."""

import os

import harness
import reader
from harness import PASSPHRASE, protectfs, read_file, write_file
from keybags import change, mount, refused, secret_file, slots

UNSUPPORTED, NOT_CHECKED = 5, 8
WRITER = "protectfs 9.8.7"


class Bag:
    """A volume's keybag and every key of it, to be made anew with MACs that are right."""

    def __init__(self, environment):
        self.volume = environment.volume()
        reader.load()
        from secondreader import keybag, primitives, signing
        self.modules, self.signing, self.primitives = keybag, signing, primitives
        self.path = reader.keybag_file(self.volume)
        self.device_key = read_file(reader.device_key_file(self.volume))
        code = read_file(self.volume.code_file).decode()
        self.materials = {1: self.device_key, 2: PASSPHRASE.encode(), 3: primitives.recovery_secret(code)}

    @property
    def data(self):
        return read_file(self.path)

    def keys(self, passphrase=PASSPHRASE):
        return self.modules.Keybag(self.data).unlock(passphrase.encode(), None, self.device_key)

    def slots(self):
        return [slot.data for slot in self.modules.Keybag(self.data).slots]

    def put(self, data):
        """Writes a keybag with a higher serial."""
        serial = {32: self.primitives.le(self.primitives.u64(data, 32) + 1, 8)}
        keys = self.keys().keys
        data = self.modules.sign_keybag(self.signing.changed(data, serial), keys[16], keys[17])
        write_file(self.path, data, os.O_TRUNC)

    def remake(self, **more):
        self.put(self.signing.remake_keybag(self.data, self.keys(), **more))


def commands(bag):
    """Every command that opens or shows the keybag."""
    volume, new = bag.volume, secret_file(bag.volume, "new", "cargo plum violet ankle")
    code = ("--recovery-file", volume.code_file)
    yield "mount", ("mount", "--no-unlock", volume.path, os.path.dirname(volume.path) + "/there")
    yield "fsck", ("fsck", *code, volume.path)
    yield "fsck --repair", ("fsck", "--repair", *code, volume.path)
    yield "slot list", ("slot", "list", volume.path)
    yield "info", ("info", volume.path)
    yield "slot add", ("slot", "add", *code, "--new-passphrase-file", new, volume.path)
    yield "slot add --recovery", ("slot", "add", "--recovery", *code, volume.path)


def test_newer(environment):
    for what, changes in (
            ("version", {8: b"\3"}), ("header length", {10: b"\0\5"}), ("suite", {12: b"\3"}), ("flags", {15: b"\2"}),
            ("incompatible feature", {40: b"\1"}), ("reserved byte", {120: b"\1"})):
        bag = Bag(environment)
        os.mkdir(os.path.dirname(bag.volume.path) + "/there")
        bag.remake(changes=changes, tlvs=[(1, WRITER.encode())])
        before = bag.data
        for name, words in commands(bag):
            done = protectfs(*words, env=bag.volume.environment, ok=False)
            code = NOT_CHECKED if name.startswith("fsck") else UNSUPPORTED
            said = "newer version" in done.stderr and WRITER in done.stderr
            wrong = [text for text in ("damaged", "--previous-keybag", "has been changed") if text in done.stderr]
            environment.cell(f"{what}: {name}", (code, True, []), (done.returncode, said, wrong))
        environment.cell(f"{what}: the keybag is left alone", True, bag.data == before)


def test_version_1(environment):
    bag = Bag(environment)
    reader.flip(bag.path, 8, 3)
    message = refused(environment, bag.volume, UNSUPPORTED, "--no-unlock")
    assert "never released" in message and "newer version" not in message, message


def test_slots(environment):
    bag = Bag(environment)
    values = bag.primitives.make_tlvs([(1, "the TPM of this \U0001f4bb".encode()), (2, bag.primitives.le(1700000000, 8))])
    uuid = bag.keys().uuid
    newer = [bag.signing.make_slot(uuid, 90, 8, 0, b"tpm", [], ext=values), b"\x08\0\xff\1" + bag.primitives.le(91, 4)]
    bag.remake(slots=[newer[0]] + bag.slots() + [newer[1]])
    volume = bag.volume
    listed = [slot for slot in slots(volume) if slot["kind"] == "newer"]
    assert [(slot["slot"], slot["kindNumber"], slot["label"], slot["made"]) for slot in listed] == [
        (90, 8, "the TPM of this \U0001f4bb", 1700000000), (91, 255, None, None)], listed
    shown = change(volume, "slot", "list").stdout
    assert "made by a newer version (kind 8)" in shown and "the TPM of this" in shown, shown
    assert "made by a newer version (kind 255)" in change(volume, "info").stdout

    def kept():
        return [slot for slot in bag.slots() if slot in newer] == newer
    mount(environment, volume, "--passphrase-file", volume.passphrase_file).unmount()
    new = secret_file(volume, "new", "cargo plum violet ankle")
    change(volume, "passphrase", "change", "--passphrase-file", volume.passphrase_file, "--new-passphrase-file", new)
    environment.cell("passphrase change keeps newer slots", True, kept())
    mount(environment, volume, "--passphrase-file", new).unmount()
    done = change(volume, "recovery", "use", "--recovery-file", volume.code_file, "--new-passphrase-file", new)
    environment.cell("recovery use keeps newer slots, and says so", (True, True), (kept(), "are kept" in done.stdout))
    remove = ("slot", "remove", "--passphrase-file", new, "--slot", "90")
    done = change(volume, *remove, ok=False)
    environment.cell("remove refuses", (UNSUPPORTED, True), (done.returncode, kept()))
    change(volume, *remove, "--newer")
    environment.cell("remove --newer", [newer[1]], [slot for slot in bag.slots() if slot in newer])


def test_a_slot_that_must_be_understood(environment):
    bag = Bag(environment)
    bag.remake(slots=bag.slots() + [b"\x08\0\x07\x80" + bag.primitives.le(91, 4)], tlvs=[(1, WRITER.encode())])
    message = refused(environment, bag.volume, UNSUPPORTED, "--no-unlock")
    assert "newer version" in message and WRITER in message, message


def test_read_only_feature(environment):
    bag = Bag(environment)
    volume = bag.volume
    with_file = environment.mount(volume)
    write_file(with_file / "file", b"content")
    with_file.unmount()
    bag.remake(changes={104: b"\2"}, tlvs=[(1, WRITER.encode())])
    before = bag.data
    one = mount_read_only(environment, volume)
    assert read_file(one / "file") == b"content"
    assert os.statvfs(one.path).f_flag & os.ST_RDONLY and one.status()["readOnly"]
    one.unmount()
    code = ("--recovery-file", volume.code_file)
    done = protectfs("fsck", *code, volume.path, env=volume.environment)
    assert WRITER in done.stderr and "bit 1" in done.stderr, done.stderr
    done = protectfs("fsck", "--repair", *code, volume.path, env=volume.environment, ok=False)
    assert done.returncode == NOT_CHECKED and WRITER in done.stderr, done
    new = secret_file(volume, "new", "cargo plum violet ankle")
    for words in (("slot", "add", *code, "--new-passphrase-file", new), ("slot", "add", "--recovery", *code),
                  ("passphrase", "change", *code, "--new-passphrase-file", new),
                  ("slot", "remove", *code, "--slot", "2"),
                  ("recovery", "use", *code, "--new-passphrase-file", new)):
        done = change(volume, *words, ok=False)
        environment.cell(" ".join(words[:2]), (UNSUPPORTED, True), (done.returncode, WRITER in done.stderr))
    assert bag.data == before
    facts = harness.json.loads(change(volume, "info", "--json").stdout)
    assert facts["features"] == {"incompatible": [], "readOnlyCompatible": ["bit 1"], "compatible": []}, facts
    assert facts["writer"] == WRITER and facts["format"] == 2, facts


def test_a_feature_that_comes_while_mounted(environment):
    """A writable mount does not unlock with a keybag that forbids writing."""
    bag = Bag(environment)
    one = environment.mount(bag.volume)
    one.lock()
    bag.remake(changes={104: b"\1"}, tlvs=[(1, WRITER.encode())])
    done = one.command("unlock", "--recovery-file", bag.volume.code_file, one.path, ok=False)
    assert done.returncode == UNSUPPORTED and WRITER in done.stderr, done
    assert one.state() == "locked", one.state()


def mount_read_only(environment, volume):
    """A mount that says on standard error why it is read-only."""
    result = environment.mount(volume)
    assert "read-only" in result.result.stderr and WRITER in result.result.stderr, result.result.stderr
    return result


def test_generations(environment):
    """Files of older generations are read, new ones get the keybag's, and what is not known is kept."""
    bag = Bag(environment)
    volume, secrets = bag.volume, (bag.materials, bag.device_key)
    letters = {1: "A", 2: "B", 3: "C", 4: "D"}
    one = environment.mount(volume)
    for letter in letters.values():
        harness.make_file(one / ("old" + letter), letter, b"old " + letter.encode())
    one.unmount()
    data = bag.data
    for number in (1, 2, 3, 4, 7):
        keys = bag.modules.Keybag(data).unlock(PASSPHRASE.encode(), None, bag.device_key)
        data = bag.signing.raise_generation(data, keys, secrets, number, 5, os.urandom(32))
    entry = bag.modules.BundleEntry.make(40, 3, os.urandom(32), 0x81, b"kept")
    keys = bag.modules.Keybag(data).unlock(PASSPHRASE.encode(), None, bag.device_key)
    data = bag.signing.add_entries(data, keys, secrets, [entry], {44: b"\x80"})
    data = bag.modules.sign_keybag(bag.signing.changed(data, {32: bag.primitives.le(50, 8)}), keys.keys[16], keys.keys[17])
    write_file(bag.path, data, os.O_TRUNC)
    before = bag.keys().every
    # Nobody has seen the new public key yet: a person accepts it.
    mount(environment, volume, "--accept-keybag", "--recovery-file", volume.code_file).unmount()
    one = environment.mount(volume)
    for letter in letters.values():
        environment.cell(f"class {letter}, the old generation", b"old " + letter.encode(), read_file(one / ("old" + letter)))
        harness.make_file(one / ("new" + letter), letter, b"new " + letter.encode())
    one.lock()
    one.unlock()
    for letter in letters.values():
        environment.cell(f"class {letter}, the new generation", b"new " + letter.encode(), read_file(one / ("new" + letter)))
    one.unmount()
    generations = {}
    for name in os.listdir(volume.path):
        path = os.path.join(volume.path, name)
        if not name.startswith(".protectfs") and os.path.isfile(path) and not os.path.islink(path):
            page = read_file(path)
            generations.setdefault(letters[page[4]], []).append(int.from_bytes(page[10:12], "little"))
    environment.cell("generations of the headers", {letter: [0, 5] for letter in letters.values()},
                     {letter: sorted(found) for letter, found in generations.items()})
    new = secret_file(volume, "new", "cargo plum violet ankle")
    change(volume, "passphrase", "change", "--passphrase-file", volume.passphrase_file, "--new-passphrase-file", new)
    environment.cell("every key is kept", before, bag.keys("cargo plum violet ankle").every)
    assert bag.data[44] == 0x80
    facts = harness.json.loads(change(volume, "info", "--json").stdout)
    assert set(facts["generations"].values()) == {5}, facts
    protectfs("fsck", "--passphrase-file", new, volume.path, env=volume.environment)


def test_labels(environment):
    volume = environment.volume()
    assert [slot["label"] for slot in slots(volume)] == ["init"] * 3
    assert all(slot["made"] > 1_700_000_000 for slot in slots(volume))
    new = secret_file(volume, "new", "cargo plum violet ankle")
    code = ("--recovery-file", volume.code_file)
    change(volume, "slot", "add", "--label", "for Zoë", *code, "--new-passphrase-file", new)
    number = slots(volume)[-1]["slot"]
    other = secret_file(volume, "other", "ankle violet plum cargo")
    again = ("passphrase", "change", "--slot", str(number), *code, "--new-passphrase-file", other)
    for words, label in (((), "for Zoë"), (("--label", "for both"), "for both"), (("--label", ""), None)):
        change(volume, *again, *words)
        environment.cell(f"passphrase change {words}", label, slots(volume)[-1]["label"])
    for label in ("a\nb", "x" * 65):
        done = change(volume, *again, "--label", label, ok=False)
        environment.cell("refuses a label", (2, True), (done.returncode, "64 bytes" in done.stderr))
    made = change(volume, "slot", "add", "--recovery", "--json", *code)
    write_file(volume.code_file, harness.json.loads(made.stdout)["recoveryCode"].encode() + b"\n", os.O_TRUNC)
    assert slots(volume)[-1]["label"] == "slot add"
    assert "slot add" in change(volume, "info").stdout
