"""Keybags: opened, damaged, and made by a newer version."""

from common import CODE, DEVICE_KEY, NEWER, PASSPHRASE, RECOVERY, REFUSE, p
from secondreader.keybag import A, B, C, D, INACTIVE, M, U, BundleEntry, Keybag, sign_keybag
from secondreader.signing import (add_entries, changed, join_keybag, make_recipient_slot, make_slot, make_tpm2_slot, raise_generation, remake_keybag,
                                  reseal_slot, tpm2_value)
from secondreader.writer import make_keybag, rnd

SECRETS = ({1: DEVICE_KEY, 2: PASSPHRASE, 3: RECOVERY}, DEVICE_KEY)
RECIPIENT = rnd("recipient", 32)
PUBLIC = p.x25519_public(RECIPIENT)
SECURITY_KEY = rnd("security key", 32)
FIDO2_FIELD = b"\1" + rnd("FIDO2 salt", 32) + rnd("credential", 32) * 2
BOTH = {"device_key": DEVICE_KEY.hex(), "passphrase": PASSPHRASE.hex()}


def keys_of(data):
    return Keybag(data).unlock(PASSPHRASE, None, DEVICE_KEY)


class Entries:
    """The entries of one keybag and its variants."""

    def __init__(self, suite):
        self.data, secrets = make_keybag(suite)
        self.keys = keys_of(self.data)
        self.slots = self.keys.bag.slots
        self.expect = {"%d" % number: key.hex() for number, key in secrets.items()}
        self.result = []

    def add(self, comment, data, expect=None, secret=None, **more):
        """An entry; `expect` is the dictionary of all keys unless told otherwise."""
        self.result.append({"comment": comment, "keybag": data.hex(), **(secret or BOTH),
                            "expect": self.expect if expect is None else expect, **more})

    def remade(self, comment, expect=None, changes=None, slots=None, tlvs=None, **more):
        self.add(comment, remake_keybag(self.data, self.keys, changes, slots, tlvs), expect, **more)

    def with_slot(self, place, slot):
        slots = [one.data for one in self.slots]
        slots[place] = slot
        return slots


def opened(entries):
    """Credentials, and everything that is wrong without being newer."""
    data, keys, add = entries.data, entries.keys, entries.add
    metadata, unlock = keys.keys[M], keys.keys[U]
    device = {"device_key": DEVICE_KEY.hex()}
    add("device key", data, {number: entries.expect[number] for number in ("4", "16")}, device)
    add("device key and passphrase", data)
    add("recovery code alone", data, None, {"recovery_code": CODE})
    add("bound passphrase without device key", data, REFUSE, {"passphrase": PASSPHRASE.hex()})
    add("wrong passphrase", data, REFUSE, {**device, "passphrase": b"correct horses".hex()})
    other = data[:64] + p.x25519_public(rnd("x", 32)) + data[96:]
    add("another public key, first MAC made anew", sign_keybag(other, metadata), REFUSE)
    add("another public key, both MACs made anew", sign_keybag(other, metadata, unlock), REFUSE)
    for comment, at, expect in (
            ("magic", 0, REFUSE), ("version", 8, NEWER), ("header length", 10, NEWER), ("suite", 12, NEWER),
            ("block_log2", 13, NEWER), ("name scheme", 14, NEWER), ("flags", 15, NEWER), ("UUID", 16, REFUSE),
            ("serial", 32, REFUSE), ("incompatible features", 40, NEWER), ("compatible features", 44, REFUSE),
            ("generation", 50, REFUSE), ("pk", 64, REFUSE), ("length", 96, REFUSE), ("number of slots", 100, REFUSE),
            ("reserved", 102, NEWER), ("read-only compatible features", 104, REFUSE), ("bytes of TLVs", 108, REFUSE),
            ("reserved, last", 112, NEWER), ("slot's length", 128, REFUSE), ("slot salt", 160, REFUSE),
            ("commitment", 176, REFUSE), ("bundle", 250, REFUSE), ("TLV's value", len(data) - 65, REFUSE),
            ("first MAC", len(data) - 64, REFUSE), ("second MAC", len(data) - 1, REFUSE)):
        more = {"writer": "second reader 2"} if expect == NEWER else {}
        add("one bit changed: " + comment, changed(data, {at: bytes([data[at] ^ 0x40])}), expect, **more)
    add("version 1", changed(data, {8: b"\1"}), REFUSE)
    add("one byte longer", data + b"\0", REFUSE)
    add("one byte shorter", data[:-1], REFUSE)
    add("empty", b"", REFUSE)


def headers(entries):
    """Fields of the header that a newer version has changed; it tells its name."""
    writer = {"writer": "protectfs 9.8.7"}
    tlvs = [(0x7001, b"abc"), (1, b"protectfs 9.8.7")]
    for comment, changes in (
            ("version 3", {8: b"\3"}), ("header length", {10: p.le(1280, 2)}), ("suite 3", {12: b"\3"}),
            ("block_log2 13", {13: b"\x0d"}), ("name scheme 2", {14: b"\2"}), ("an unknown flag", {15: b"\2"}),
            ("an incompatible feature", {40: b"\1"}), ("the highest incompatible feature", {43: b"\x80"}),
            ("a reserved byte", {102: b"\1"}), ("another reserved byte", {103: b"\1"}),
            ("a reserved byte at the end", {112: b"\1"}), ("the last reserved byte", {127: b"\1"})):
        entries.remade("newer: " + comment, NEWER, changes, tlvs=tlvs, **writer)
    entries.remade("newer: a TLV that must be understood", NEWER, tlvs=tlvs + [(0x8002, b"")], **writer)
    entries.remade("newer: version 3, without a writer", NEWER, {8: b"\3"}, tlvs=[])
    entries.remade("newer: version 3, a writer that cannot be printed", NEWER, {8: b"\3"}, tlvs=[(1, b"a\nb")])
    entries.remade("newer: version 3, too long a writer", NEWER, {8: b"\3"}, tlvs=[(1, b"x" * 65)])
    header = changed(entries.data[:128], {8: b"\3"})
    metadata, unlock = entries.keys.keys[M], entries.keys.keys[U]
    data = join_keybag(header, [b"what version 3 has for slots"], p.make_tlvs(tlvs), metadata, unlock)
    entries.add("newer: version 3, the slots are something else", data, NEWER, **writer)
    data = changed(data, {108: p.le(1 << 31, 4)})
    entries.add("newer: version 3, the length of its TLVs is not right", data, NEWER)
    entries.remade("compatible features", None, {44: b"\xff" * 4}, compatible=0xFFFFFFFF)
    entries.remade("a read-only compatible feature", None, {104: b"\1"}, read_only=True)
    entries.remade("the highest read-only compatible feature", None, {107: b"\x80"}, read_only=True)
    entries.remade("generations of classes that have no key", None, {58: b"\7\7\7\7"})
    entries.remade("no TLV", tlvs=[])
    entries.remade("unknown TLVs, one of them twice", tlvs=[(2, b""), (1, b"x"), (0x7fff, b"y"), (0x7fff, b"z")])
    entries.remade("a known TLV twice", REFUSE, tlvs=[(1, b"x"), (1, b"x")])
    for comment, tail in (("a TLV longer than its space", p.le(2, 2) + p.le(1, 4)), ("a TLV's header cut off", bytes(5))):
        slots = [one.data for one in entries.slots]
        entries.add(comment, join_keybag(entries.data[:128], slots, tail, metadata, unlock), REFUSE)
    slots = [one.data for one in entries.slots] + [bytes(2)]
    data = join_keybag(entries.data[:128], slots, b"", metadata, unlock)
    entries.add("bytes between slots and TLVs", sign_keybag(changed(data, {100: b"\3"}), metadata, unlock), REFUSE)


def slots(entries):
    """Slots of a newer version beside others, and in their place."""
    uuid, old = entries.keys.uuid, [one.data for one in entries.slots]
    entries.remade("a slot of kind 8 in front", slots=[make_slot(uuid, 9, 8, 0, b"tpm", [], seed="new")] + old)
    entries.remade("a slot of kind 6, one of kind 255", slots=old[:1] + [
        make_slot(uuid, 9, 6, 0, b"recipient", [], seed="new")] + old[1:] + [
            make_slot(uuid, 10, 255, 0, b"anything", [], seed="new")])
    entries.remade("a slot of kind 7 and 8 bytes", slots=old + [p.le(8, 2) + b"\7\0" + p.le(77, 4)])
    entries.remade("a slot of kind 7 whose lengths are its own", slots=old + [p.le(200, 2) + b"\7\0" + p.le(77, 4) + b"x" * 192])
    entries.remade("a slot of kind 7 and 7 bytes", REFUSE, slots=old + [p.le(7, 2) + b"\7\0\0\0\0"])
    entries.remade("a slot of kind 7 without length", REFUSE, slots=old + [bytes(2) + b"\7\0" + p.le(77, 4)])
    entries.remade("a slot of kind 7 with another one's ID", REFUSE, slots=old + [p.le(8, 2) + b"\7\0" + p.le(2, 4)])
    code, metadata, unlock = {"recovery_code": CODE}, entries.keys.keys[M], entries.keys.keys[U]
    changes = {
        "an unknown flag": {3: b"\3"}, "flag bit 6": {3: b"\x41"}, "KDF 2": {8: b"\2"}, "a reserved byte": {24: b"\1"},
        "the last reserved byte": {31: b"\1"}, "17 passes": {12: b"\x11"}, "no pass": {12: b"\0"},
        "less than 8 MiB": {16: p.le((8 << 20) - 1, 8)}, "more than 4 GiB": {16: p.le((4 << 30) + 1, 8)},
        "no KDF, and passes": {8: b"\0", 16: bytes(8)}}
    for comment, change in changes.items():
        slot = reseal_slot(uuid, entries.slots[1], PASSPHRASE, DEVICE_KEY, change)
        entries.remade("a newer passphrase slot: %s; the code" % comment, None, slots=entries.with_slot(1, slot), secret=code)
        entries.remade("a newer passphrase slot: %s; the passphrase" % comment, REFUSE, slots=entries.with_slot(1, slot))
        must = {**change, 3: bytes([change.get(3, b"\1")[0] | 0x80])}
        slot = reseal_slot(uuid, entries.slots[1], PASSPHRASE, DEVICE_KEY, must)
        entries.remade("a newer passphrase slot that must be understood: " + comment, NEWER,
                       slots=entries.with_slot(1, slot), secret=code, writer="second reader 2")
    slot = reseal_slot(uuid, entries.slots[1], PASSPHRASE, DEVICE_KEY, ext=p.make_tlvs([(0x8005, b"new")]))
    entries.remade("a slot's TLV that must be understood; the code", slots=entries.with_slot(1, slot), secret=code)
    entries.remade("a slot's TLV that must be understood; the passphrase", REFUSE, slots=entries.with_slot(1, slot))
    slot = reseal_slot(uuid, entries.slots[1], PASSPHRASE, DEVICE_KEY, ext=p.make_tlvs([(0x7005, b"new"), (0x7005, b"")]))
    entries.remade("unknown TLVs of a slot", slots=entries.with_slot(1, slot))
    slot = reseal_slot(uuid, entries.slots[1], PASSPHRASE, DEVICE_KEY, {3: b"\x81"})
    entries.remade("MUST_UNDERSTAND in a slot that is understood", slots=entries.with_slot(1, slot))
    for comment, ext in (("a slot's label twice", p.make_tlvs([(1, b"a"), (1, b"a")])), ("a slot's TLV cut off", b"\1\0\1")):
        slot = reseal_slot(uuid, entries.slots[1], PASSPHRASE, DEVICE_KEY, ext=ext)
        entries.remade(comment, REFUSE, slots=entries.with_slot(1, slot))
    for comment, change in (("a slot whose lengths do not add up", {9: b"\7"}), ("a slot longer than its space", {1: b"\x40"})):
        bad = sign_keybag(changed(entries.data, {128 + at: value for at, value in change.items()}), metadata, unlock)
        entries.add(comment, bad, REFUSE)


def recipients(entries):
    """Slots of kind 6, and what is wrong or newer of them."""
    uuid, old = entries.keys.uuid, [one.data for one in entries.slots]
    full = entries.slots[2].open(uuid, RECOVERY)
    code = {"recovery_code": CODE}
    secret = {"recipient_key": p.recipient_text(RECIPIENT, p.PRIVATE_TEXT)}
    device = {**secret, "device_key": DEVICE_KEY.hex()}
    stranger = {"recipient_key": p.recipient_text(rnd("stranger", 32), p.PRIVATE_TEXT)}
    slot = make_recipient_slot(uuid, 9, PUBLIC, full, "recipient", p.make_tlvs([(1, b"escrow")]))
    other = make_recipient_slot(uuid, 10, p.x25519_public(rnd("another", 32)), full, "recipient")
    entries.remade("a recipient alone", slots=old + [slot], secret=secret)
    entries.remade("a recipient and the device key", slots=old + [slot], secret=device)
    entries.remade("the second of two recipients", slots=old + [other, slot], secret=secret)
    entries.remade("a recipient of another slot only", REFUSE, slots=old + [other], secret=secret)
    entries.remade("a stranger's key", REFUSE, slots=old + [slot], secret=stranger)
    wrong = secret["recipient_key"][:-1] + ("A" if secret["recipient_key"][-1] != "A" else "B")
    entries.remade("a recipient's key with a wrong checksum", REFUSE, slots=old + [slot], secret={"recipient_key": wrong})
    moved = make_recipient_slot(uuid, 9, PUBLIC, full, "recipient", other=p.x25519_public(rnd("another", 32)))
    entries.remade("encrypted to another key than the slot names", REFUSE, slots=old + [moved], secret=secret)
    at = slot.index(p.le(3, 2) + p.le(112, 4))
    for comment, place in (("public key", at + 6), ("encapsulated key", at + 38), ("material", at + 70), ("tag", at + 117),
                           ("salt", 32), ("slot ID", 4)):
        entries.remade("a recipient's slot, both MACs made anew: one bit of its %s" % comment, REFUSE,
                       slots=old + [changed(slot, {place: bytes([slot[place] ^ 1])})], secret=secret)
    short = make_slot(uuid, 11, 6, 0, b"recipient", full, ext=p.make_tlvs([(3, PUBLIC + bytes(79))]), seed="new")
    entries.remade("newer: a recipient of 111 bytes; the code", slots=old + [short], secret=code)
    entries.remade("newer: a recipient of 111 bytes; the key", REFUSE, slots=old + [short], secret=secret)
    hashed = make_slot(uuid, 11, 6, 0, b"recipient", full, ext=p.make_tlvs([(3, PUBLIC + bytes(80))]), argon=True, seed="new")
    entries.remade("newer: a recipient with a password hash", slots=old + [hashed], secret=code)
    twice = make_recipient_slot(uuid, 9, PUBLIC, full, "recipient", p.make_tlvs([(3, b"")]))
    entries.remade("two recipients in one slot", REFUSE, slots=old + [twice], secret=code)


def tpms(entries):
    """Slots of kind 4, and what is wrong or newer of them."""
    uuid, old = entries.keys.uuid, [one.data for one in entries.slots]
    full = entries.slots[2].open(uuid, RECOVERY)
    material, code = rnd("tpm2", 32), {"recovery_code": CODE}
    secret = {"tpm2": material.hex()}
    device = {**secret, "device_key": DEVICE_KEY.hex()}

    def slot(number=9, **more):
        return make_tpm2_slot(uuid, number, more.pop("material", material), full, "tpm2", **more)

    free, bound = slot(), slot(device_key=DEVICE_KEY)
    entries.remade("a TPM alone", slots=old + [free], secret=secret)
    entries.remade("a TPM and the device key", slots=old + [bound], secret=device)
    entries.remade("a TPM without the device key that its slot needs", REFUSE, slots=old + [bound], secret=secret)
    entries.remade("the second of two TPMs", slots=old + [slot(10, material=rnd("another", 32)), free], secret=device)
    entries.remade("another TPM's slot only", REFUSE, slots=old + [slot(material=rnd("another", 32))], secret=device)
    entries.remade("a TPM's material of 31 bytes", REFUSE, slots=old + [free], secret={"tpm2": material.hex()[2:]})
    for size in (1, 512):
        value = tpm2_value(0xffffff, True, bytes(size), bytes(size))
        entries.remade("a TPM's slot with a PIN and parts of %d bytes" % size, slots=old + [slot(value=value)], secret=device)
    at = free.index(tpm2_value())
    for comment, place in (("PCRs", at + 4), ("PIN salt", at + 8), ("storage key", at + 57), ("public part", at + 60),
                           ("private part", at + 142), ("salt", 32), ("slot ID", 4)):
        entries.remade("a TPM's slot, both MACs made anew: one bit of its %s" % comment, REFUSE,
                       slots=old + [changed(free, {place: bytes([free[place] ^ 1])})], secret=secret)
    good = tpm2_value()
    for comment, value in (
            ("an unknown flag", tpm2_value(flags=2)), ("a reserved byte", good[:1] + b"\1" + good[2:]),
            ("another bank of PCRs", good[:2] + p.le(0xc, 2) + good[4:]), ("PCR 24", tpm2_value(1 << 24)),
            ("an empty public part", tpm2_value(public=b"")), ("a private part of 513 bytes", tpm2_value(private=bytes(513))),
            ("a private part that is cut off", good[:-1]), ("a byte too many", good + b"\0"), ("an empty value", b"")):
        entries.remade("newer: a TPM's slot with %s; the code" % comment, slots=old + [slot(value=value)], secret=code)
        entries.remade("newer: a TPM's slot with %s; the TPM" % comment, REFUSE, slots=old + [slot(value=value)], secret=secret)
    hashed = make_slot(uuid, 11, 4, 0, b"tpm2", full, ext=p.make_tlvs([(4, good)]), argon=True, seed="new")
    entries.remade("newer: a TPM's slot with a password hash", slots=old + [hashed], secret=code)
    entries.remade("two TPMs in one slot", REFUSE, slots=old + [slot(ext=p.make_tlvs([(4, b"")]))], secret=code)


def security_keys(entries):
    """Slots of kind 5, and what is wrong or newer of them."""
    uuid, old = entries.keys.uuid, [one.data for one in entries.slots]
    full = entries.slots[2].open(uuid, RECOVERY)
    code, secret = {"recovery_code": CODE}, {"security_key": SECURITY_KEY.hex()}
    both = {**secret, "device_key": DEVICE_KEY.hex()}

    def made(number, field=FIDO2_FIELD, ext=(), **more):
        return make_slot(uuid, number, 5, more.pop("flags", 0), more.pop("material", SECURITY_KEY), full,
                         ext=p.make_tlvs([*ext, (5, field)]), seed="fido2", **more)

    slot, other = made(9, ext=[(1, b"ring")]), made(10, material=rnd("another key", 32))
    entries.remade("a security key alone", slots=old + [slot], secret=secret)
    entries.remade("a security key and the device key", slots=old + [slot], secret=both)
    entries.remade("the second of two security keys", slots=old + [other, slot], secret=secret)
    entries.remade("a security key of another slot only", REFUSE, slots=old + [other], secret=secret)
    entries.remade("a security key, no slot", REFUSE, secret=secret)
    for length in (31, 33):
        entries.remade("%d bytes of a security key" % length, REFUSE, slots=old + [slot],
                       secret={"security_key": (SECURITY_KEY + bytes(1))[:length].hex()})
    at = slot.index(p.le(5, 2) + p.le(len(FIDO2_FIELD), 4))
    for comment, place in (("flags", at + 6), ("FIDO2 salt", at + 7), ("credential ID", at + 39), ("last byte of it", at + 102),
                           ("salt", 32), ("slot ID", 4)):
        entries.remade("a security key's slot, both MACs made anew: one bit of its %s" % comment, REFUSE,
                       slots=old + [changed(slot, {place: bytes([slot[place] ^ 1])})], secret=secret)
    for comment, field in (("a credential ID of 1 byte", FIDO2_FIELD[:34]), ("a credential ID of 1,023 bytes", FIDO2_FIELD[:33] + bytes(1023)),
                           ("no flag PIN", b"\0" + FIDO2_FIELD[1:])):
        entries.remade("a security key: " + comment, slots=old + [made(9, field)], secret=secret)
    for comment, field in (("no credential ID", FIDO2_FIELD[:33]), ("a credential ID of 1,024 bytes", FIDO2_FIELD[:33] + bytes(1024)),
                           ("an empty field", b""), ("an unknown flag", b"\3" + FIDO2_FIELD[1:]),
                           ("the highest flag", b"\x81" + FIDO2_FIELD[1:])):
        entries.remade("newer: a security key with %s; the code" % comment, slots=old + [made(9, field)], secret=code)
        entries.remade("newer: a security key with %s; the key" % comment, REFUSE, slots=old + [made(9, field)], secret=secret)
    for comment, more in (("a password hash", {"argon": True}), ("BIND_DEVICE", {"flags": 1, "device_key": DEVICE_KEY})):
        entries.remade("newer: a security key with " + comment, slots=old + [made(9, **more)], secret=code)
        entries.remade("newer: a security key with %s; the key" % comment, REFUSE, slots=old + [made(9, **more)], secret=both)
    bare = make_slot(uuid, 9, 5, 0, SECURITY_KEY, full, seed="fido2")
    entries.remade("newer: a security key without its field", slots=old + [bare], secret=code)
    entries.remade("two fields in one slot of a security key", REFUSE, slots=old + [made(9, ext=[(5, b"")])], secret=code)
    stray = reseal_slot(uuid, entries.slots[2], RECOVERY, ext=p.make_tlvs([(5, b"\xff")]))
    entries.remade("a security key's field in another slot means nothing", slots=entries.with_slot(2, stray), secret=code)


def bundles(entries):
    """Bundles with more keys, and with fewer."""
    data, keys = entries.data, entries.keys
    later = dict(entries.expect)
    for number in (A, B, C, D, INACTIVE):
        key = rnd("second key %d" % number, 32)
        later["%d" % number] = key.hex()
        data = raise_generation(data, keys_of(data), SECRETS, number, 0x1234, key)
    entries.add("two generations of every class, the keybag names the new ones", data, later)
    entries.add("the same, device key", data, {number: later[number] for number in ("4", "16")},
                {"device_key": DEVICE_KEY.hex()})
    old = [BundleEntry.make(number, 0, rnd("old key %d" % number, 32)) for number in (A, B, C, D, INACTIVE)]
    entries.add("two generations of every class, the keybag names the old ones", add_entries(entries.data, keys, SECRETS, old))
    unknown = [BundleEntry.make(19, 0, rnd("19", 32)), BundleEntry.make(255, 7, rnd("255", 32), 0xFE, b"kept")]
    entries.add("unknown types, flags and kept bytes", add_entries(entries.data, keys, SECRETS, unknown))
    entries.add("an unknown type with DEVICE", add_entries(
        entries.data, keys, SECRETS, [BundleEntry.make(200, 1, rnd("200", 32), 1)]))
    full = entries.slots[2].open(keys.uuid, RECOVERY)
    code = {"recovery_code": CODE}

    def with_bundle(comment, bundle, expect=None):
        slot = reseal_slot(keys.uuid, entries.slots[2], RECOVERY, entries=bundle)
        entries.remade(comment, expect, slots=entries.with_slot(2, slot), secret=code)

    with_bundle("another order", full[::-1])
    needed = [one for one in full if one.kind != 40 and one.generation == keys.bag.generation(one.kind)]
    for entry in needed:
        with_bundle("type %d is missing" % entry.kind, [one for one in full if one is not entry], REFUSE)
    with_bundle("an entry twice", full + full[:1], REFUSE)
    with_bundle("one type and generation with two keys", full + [BundleEntry.make(A, full[0].generation, bytes(32))], REFUSE)
    for entry in needed:
        others = [one for one in full if one is not entry]
        other = BundleEntry.make(entry.kind, entry.generation + 1, entry.key)
        with_bundle("type %d has another generation" % entry.kind, others + [other], REFUSE)
    device = entries.slots[0].open(keys.uuid, DEVICE_KEY)
    for place, entry in enumerate(device[:2]):
        slot = reseal_slot(keys.uuid, entries.slots[0], DEVICE_KEY, entries=device[:place] + device[place + 1:])
        entries.remade("device slot: type %d is missing" % entry.kind, REFUSE, slots=entries.with_slot(0, slot),
                       secret={"device_key": DEVICE_KEY.hex()})
    other = [BundleEntry.make(D, device[0].generation, rnd("other", 32))] + device[1:]
    slot = reseal_slot(keys.uuid, entries.slots[0], DEVICE_KEY, entries=other)
    entries.remade("the device slot has another key of class none", REFUSE, slots=entries.with_slot(0, slot))


def slot_lists(entries):
    """Slots as a list shows them."""
    uuid, old = entries.keys.uuid, [one.data for one in entries.slots]
    labelled = p.make_tlvs([(1, "TPM in the \U0001f4bb".encode()), (2, p.le(5, 8)), (0x8009, b"must")])
    new = make_slot(uuid, 9, 8, 0, b"tpm", [], ext=labelled, seed="new")
    result = []

    def add(comment, data):
        result.append({"comment": comment, "keybag": data.hex(), "expect": read_slots(data)})

    add("as made", entries.data)
    full = entries.slots[2].open(uuid, RECOVERY)
    recipient = make_recipient_slot(uuid, 9, PUBLIC, full, "recipient", p.make_tlvs([(1, b"escrow")]))
    add("a recipient", remake_keybag(entries.data, entries.keys, slots=old + [recipient]))
    add("a TPM", remake_keybag(entries.data, entries.keys, slots=old + [
        make_tpm2_slot(uuid, 9, rnd("tpm2", 32), full, "tpm2", ext=p.make_tlvs([(1, b"laptop")]))]))
    field = make_slot(uuid, 9, 5, 0, SECURITY_KEY, full, ext=p.make_tlvs([(1, b"ring"), (5, FIDO2_FIELD)]), seed="fido2")
    add("a security key", remake_keybag(entries.data, entries.keys, slots=old + [field]))
    add("a newer slot with a label", remake_keybag(entries.data, entries.keys, slots=old + [new]))
    for comment, label in (("too long", b"x" * 65), ("of the longest length", b"x" * 64), ("empty", b""),
                           ("no UTF-8", b"\xff"), ("with a line end", b"a\nb"), ("with DEL", b"\x7f"), ("with a C1 control", b"\xc2\x9b")):
        slot = reseal_slot(uuid, entries.slots[2], RECOVERY, ext=p.make_tlvs([(1, label)]))
        add("a label " + comment, remake_keybag(entries.data, entries.keys, slots=entries.with_slot(2, slot)))
    slot = reseal_slot(uuid, entries.slots[2], RECOVERY, ext=p.make_tlvs([(2, bytes(7))]))
    add("a date of 7 bytes", remake_keybag(entries.data, entries.keys, slots=entries.with_slot(2, slot)))
    return result


def read_slots(data):
    return [{"id": slot.id, "kind": slot.kind, "label": slot.label or "", "date": slot.date or 0, "newer": bool(slot.newer)}
            for slot in Keybag(data).slots]


def make(suite):
    """The entries of one suite, the keys of its keybag, and its lists of slots."""
    entries = Entries(suite)
    opened(entries)
    headers(entries)
    if suite == 1:
        slots(entries)
        recipients(entries)
        tpms(entries)
        security_keys(entries)
        bundles(entries)
    return entries.result, entries.keys, slot_lists(entries) if suite == 1 else []


def read(entry):
    bag = Keybag(bytes.fromhex(entry["keybag"]))
    device = bytes.fromhex(entry["device_key"]) if "device_key" in entry else None
    if "security_key" in entry:
        keys = bag.unlock(device_key=device, security_key=bytes.fromhex(entry["security_key"]))
    elif "recipient_key" in entry:
        keys = bag.unlock(device_key=device, recipient=entry["recipient_key"])
    elif "tpm2" in entry:
        keys = bag.unlock(device_key=device, tpm2=bytes.fromhex(entry["tpm2"]))
    elif "passphrase" in entry or "recovery_code" in entry:
        phrase = bytes.fromhex(entry["passphrase"]) if "passphrase" in entry else None
        keys = bag.unlock(phrase, entry.get("recovery_code"), device)
    else:
        keys = bag.open(device)
    return {"%d" % number: key.hex() for number, key in keys.keys.items()}


def check_more(entry):
    """Writer and features, which stand beside the outcome; a message if one is wrong."""
    try:
        bag = Keybag(bytes.fromhex(entry["keybag"]))
        found = {"read_only": bag.read_only, "compatible": bag.compatible}
    except p.Newer as error:
        found = {"writer": error.writer}
    except p.Refused:
        return None
    if isinstance(entry["expect"], dict) or entry["expect"] == NEWER:
        wrong = [name for name in found if (entry.get(name) or None) != (found[name] or None)]
    else:
        wrong = []
    return "; ".join("%s: %r" % (name, found[name]) for name in wrong) or None


def all_keys(entries):
    """The keys of the first keybag of each suite that opens with everything."""
    result = {}
    for entry in entries:
        if "passphrase" in entry and isinstance(entry["expect"], dict):
            bag = Keybag(bytes.fromhex(entry["keybag"]))
            if bag.suite not in result:
                result[bag.suite] = keys_of(bag.data)
    return result
