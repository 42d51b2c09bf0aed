"""Sections 2 and 4: keys, the keybag and its slots."""

import uuid as uuidlib

from .primitives import (Newer, Refused, argon2id, equal, hpke_open, kdf, le, mac, PRIVATE_TEXT, recipient_key,
                         recovery_secret, split_tlvs, tlvs, u16, u32, u64, writer_name, x25519_public, xchacha_open)

A, B, C, D, INACTIVE, M, U, SPARE = 1, 2, 3, 4, 7, 16, 17, 18
CLASS_NAMES = {A: "complete", B: "completeUnlessOpen", C: "completeUntilFirstUserAuthentication", D: "none",
               INACTIVE: "completeWhenUserInactive"}
#: The keys of a new volume, in the order of its bundles.
ALL_KEYS = (A, B, C, D, INACTIVE, M, U, SPARE)
BIND_DEVICE, MUST_UNDERSTAND = 1, 0x80
LABEL, DATE, RECIPIENT, TPM2, FIDO2 = 1, 2, 3, 4, 5
#: The characters that a label has not: those of control, and those that end a line, turn its direction or are invisible.
UNSHOWN = ((0, 0x1f), (0x7f, 0x9f), (0x61c, 0x61c), (0x200b, 0x200b), (0x200e, 0x200f), (0x2028, 0x202e),
           (0x2060, 0x206f), (0xfeff, 0xfeff))
LARGEST = 1 << 20

#: The keybag's fields: name -> (offset, length). The MACs count from the end.
KEYBAG_FIELDS = {
    "magic": (0, 8), "version": (8, 2), "header length": (10, 2), "suite": (12, 1), "block_log2": (13, 1),
    "name scheme": (14, 1), "flags": (15, 1), "UUID": (16, 16), "serial": (32, 8), "incompatible": (40, 4),
    "compatible": (44, 4), "generations": (48, 16), "pk": (64, 32), "length": (96, 4), "slots": (100, 2),
    "reserved": (102, 2), "read-only compatible": (104, 4), "TLV bytes": (108, 4), "reserved, last": (112, 16),
    "first MAC": (-64, 32), "second MAC": (-32, 32),
}

#: A slot's fields, from its start; TLVs and the bundle follow.
SLOT_FIELDS = {
    "length": (0, 2), "kind": (2, 1), "flags": (3, 1), "slot ID": (4, 4), "KDF": (8, 1), "entries": (9, 1),
    "ext length": (10, 2), "passes": (12, 4), "memory": (16, 8), "reserved": (24, 8), "salt": (32, 16),
    "commitment": (48, 32), "nonce": (80, 24),
}


class BundleEntry:
    """One key of a bundle, with all that is kept of it."""

    def __init__(self, data):
        self.data = data
        self.kind, self.flags, self.generation, self.key = data[0], data[1], u16(data, 2), data[8:]

    @classmethod
    def make(cls, kind, generation, key, flags=None, kept=bytes(4)):
        """DEVICE is set for D and M unless told otherwise."""
        flags = int(kind in (D, M)) if flags is None else flags
        return cls(bytes([kind, flags]) + le(generation, 2) + kept + key)


def is_tpm2(value):
    """Whether the value of a TPM's slot has the form of section 4."""
    if len(value) < 60 or value[0] & ~1 or value[1] or u16(value, 2) != 0xb or value[7]:
        return False
    at = 58
    for _ in range(2):
        if len(value) < at + 2 or not 1 <= u16(value, at) <= 512:
            return False
        at += 2 + u16(value, at)
    return at == len(value)


class Slot:
    """A slot; one that is newer has the reason in `newer`, and nothing else of it is believed."""

    def __init__(self, data, offset, end):
        self.offset, self.length = offset, u16(data, offset)
        if end - offset < 8 or not 8 <= self.length <= end - offset:
            raise Refused("slot: length")
        self.data = slot = data[offset:offset + self.length]
        self.kind, self.flags, self.id = slot[2], slot[3], u32(slot, 4)
        self.must_be_understood = bool(self.flags & MUST_UNDERSTAND)
        self.newer, self.label, self.date = None, None, None
        try:
            self._parse(slot)
        except Newer as error:
            self.newer = str(error)
            self._read_label(slot)

    def _parse(self, slot):
        if self.kind not in (1, 2, 3, 4, 5, 6) or self.flags & ~(BIND_DEVICE | MUST_UNDERSTAND):
            raise Newer("slot: kind or flags")
        if self.length > 8 and slot[8] > 1:
            raise Newer("slot: KDF")
        if self.length < 120:
            raise Refused("slot: length")
        self.kdf, self.passes, self.memory, self.salt = slot[8], u32(slot, 12), u64(slot, 16), slot[32:48]
        within = not self.passes and not self.memory if self.kdf == 0 else (
            1 <= self.passes <= 16 and 8 << 20 <= self.memory <= 4 << 30)
        if any(slot[24:32]) or not within:
            raise Newer("slot: reserved or parameters")
        self.bundle_offset, self.entries = 104 + u16(slot, 10), slot[9]
        if self.length != self.bundle_offset + 40 * self.entries + 16:
            raise Refused("slot: length")
        found = dict(tlvs(slot[104:self.bundle_offset], (LABEL, DATE, RECIPIENT, TPM2, FIDO2))[::-1])
        #: The recipient's public key, and the material that is encrypted to it.
        self.recipient = found.get(RECIPIENT, b"")
        if self.kind == 6 and (self.kdf or len(self.recipient) != 32 + 80):
            raise Newer("slot: recipient")
        if self.kind == 4 and (self.kdf or not is_tpm2(found.get(TPM2, b""))):
            raise Newer("slot: TPM")
        #: Flags, salt and credential ID of a security key.
        self.fido2 = found.get(FIDO2, b"")
        if self.kind == 5 and (self.kdf or self.flags & BIND_DEVICE or not 34 <= len(self.fido2) <= 1056 or self.fido2[0] > 1):
            raise Newer("slot: FIDO2")
        self._read_label(slot)

    def _read_label(self, slot):
        """Label and date, where they can be read."""
        ext = u16(slot, 10) if self.length >= 12 else 0
        try:
            found = dict(split_tlvs(slot[104:104 + ext])[::-1]) if self.length >= 104 + ext else {}
        except Refused:
            found = {}
        label, date = found.get(LABEL, b""), found.get(DATE, b"")
        try:
            text = label.decode()
        except UnicodeDecodeError:
            text = ""
        if 1 <= len(label) <= 64 and text and not any(first <= ord(one) <= last for one in text for first, last in UNSHOWN):
            self.label = text
        self.date = u64(date) if len(date) == 8 else None

    def open_secret(self, volume, material, device_key=None):
        """The slot's secret S; None when the credential is another one."""
        if self.kdf == 1:
            material = argon2id(material, self.salt, self.passes, self.memory)
        context = volume + le(self.id, 4) + bytes([self.kind]) + self.salt
        if self.flags & BIND_DEVICE:
            if device_key is None:
                return None
            context += device_key
        secret = kdf(material, "slot", context)
        return secret if equal(kdf(secret, "slot-commit"), self.data[48:80]) else None

    def recipient_material(self, volume, private):
        """The material of a recipient's slot; None when it is another one's, or the slot is newer."""
        if self.newer or self.recipient[:32] != x25519_public(private):
            return None
        info = b"protectfs1/recipient\0" + volume + self.recipient[:32]
        return hpke_open(private, info, volume + le(self.id, 4) + bytes([self.kind]) + self.salt, self.recipient[32:])

    def open(self, volume, material, device_key=None):
        """The bundle's entries; None when the credential is another one, or the slot is newer."""
        secret = None if self.newer else self.open_secret(volume, material, device_key)
        if secret is None:
            return None
        plain = xchacha_open(
            kdf(secret, "slot-wrap"), self.data[80:104], b"protectfs1/slot\0" + volume + self.data[:self.bundle_offset],
            self.data[self.bundle_offset:])
        result = [BundleEntry(plain[at:at + 40]) for at in range(0, len(plain), 40)]
        if len({(one.kind, one.generation) for one in result}) != len(result):
            raise Refused("bundle: an entry twice")
        return result


class Keybag:
    def __init__(self, data):
        self.data = data
        if data[:8] != b"PFSKBAG1":
            raise Refused("keybag: magic")
        if not 192 <= len(data) <= LARGEST or u32(data, 96) != len(data):
            raise Refused("keybag: length")
        if u16(data, 8) < 2:
            raise Refused("keybag: version")
        tail = len(data) - 64 - u32(data, 108)
        #: The program that wrote it and its version, which nothing has verified.
        self.writer = writer_name(data[tail:-64]) if tail >= 128 else None
        self._check_known(data)
        self.suite, self.has_device_key = data[12], not data[15]
        self.uuid, self.serial, self.pk = data[16:32], u64(data, 32), data[64:96]
        self.compatible, self.read_only = u32(data, 44), u32(data, 104) != 0
        self.generations = [u16(data, 48 + 2 * number) for number in range(8)]
        if tail < 128:
            raise Refused("keybag: TLV bytes")
        offset, self.slots = 128, []
        for _ in range(u16(data, 100)):
            self.slots.append(Slot(data, offset, tail))
            offset += self.slots[-1].length
        if offset != tail:
            raise Refused("keybag: slots and TLVs do not fill it")
        if len({slot.id for slot in self.slots}) != len(self.slots):
            raise Refused("keybag: slot ID twice")
        try:
            self.tlvs = tlvs(data[tail:-64], (1, 2))
        except Newer as error:
            raise Newer("keybag: " + str(error), self.writer) from error
        if any(slot.newer and slot.must_be_understood for slot in self.slots):
            raise Newer("keybag: a slot that must be understood", self.writer)

    def _check_known(self, data):
        for known, what in (
                (u16(data, 8) == 2, "version"), (u16(data, 10) == 128, "header length"), (data[12] in (1, 2), "suite"),
                (data[13] == 12, "block_log2"), (data[14] == 1, "name scheme"), (data[15] <= 1, "flags"),
                (not u32(data, 40), "incompatible features"), (not any(data[102:104] + data[112:128]), "reserved")):
            if not known:
                raise Newer("keybag: " + what, self.writer)

    def generation(self, kind):
        """The generation that new wraps use: element 0 is M's; U and the spare key have 0."""
        return 0 if kind in (U, SPARE) else self.generations[0 if kind == M else kind]

    @property
    def uuid_text(self):
        return str(uuidlib.UUID(bytes=self.uuid))

    def _checked(self, entries, kinds):
        found = {(one.kind, one.generation) for one in entries}
        if any((kind, self.generation(kind)) not in found for kind in kinds):
            raise Refused("bundle: entries")
        return Keys(self, entries)

    def _check_first_mac(self, keys):
        if not equal(mac(kdf(keys.keys[M], "keybag-dev", self.uuid), self.data[:-64], 32), self.data[-64:-32]):
            raise Refused("keybag: first MAC")

    def open(self, device_key):
        """What the device key opens: D and M at least, with the first MAC checked."""
        for slot in self.slots:
            if slot.kind == 1:
                entries = slot.open(self.uuid, device_key)
                if entries is not None:
                    keys = self._checked(entries, (D, M))
                    self._check_first_mac(keys)
                    return keys
        raise Refused("the device key opens no slot")

    def unlock(self, passphrase=None, recovery_code=None, device_key=None, recipient=None, security_key=None, tpm2=None):
        """Every key; recovery code and a recipient's private key as text, the others as bytes: a passphrase, what a security key
        gave, and a TPM's material."""
        device = self.open(device_key) if device_key is not None else None
        private = None
        if recipient is not None:
            kind, private = 6, recipient_key(recipient, PRIVATE_TEXT)
        elif tpm2 is not None:
            kind, material = 4, tpm2
            if len(tpm2) != 32:
                raise Refused("a TPM's material has 32 bytes")
        elif security_key is not None:
            kind, material = 5, security_key
            if len(material) != 32:
                raise Refused("security key: length")
        else:
            kind, material = (2, passphrase) if passphrase is not None else (3, recovery_secret(recovery_code))
        for slot in self.slots:
            if slot.kind != kind:
                continue
            if private is not None:
                material = slot.recipient_material(self.uuid, private)
            entries = slot.open(self.uuid, material, device_key) if material is not None else None
            if entries is None:
                continue
            keys = self._checked(entries, ALL_KEYS)
            self._check_first_mac(keys)
            if not equal(mac(kdf(keys.keys[U], "keybag-unlock", self.uuid), self.data[:-32], 32), self.data[-32:]):
                raise Refused("keybag: second MAC")
            if x25519_public(keys.keys[B]) != self.pk:
                raise Refused("keybag: public key")
            if device and any(keys.every.get(which, key) != key for which, key in device.every.items()):
                raise Refused("keybag: device and full bundle differ")
            return keys
        raise Refused("the credential opens no slot")


def sign_keybag(data, metadata_key, unlock_key=None):
    """The keybag's bytes with the first MAC (and the second, where U is given) made anew, as an attacker with keys would."""
    body, uuid = data[:-64], data[16:32]
    body += mac(kdf(metadata_key, "keybag-dev", uuid), body, 32)
    second = data[-32:] if unlock_key is None else mac(kdf(unlock_key, "keybag-unlock", uuid), body, 32)
    return body + second


class Keys:
    """The keys of an opened keybag and what comes from them."""

    def __init__(self, bag, entries):
        self.bag, self.entries, self.uuid, self.suite = bag, entries, bag.uuid, bag.suite
        #: (type, generation) -> key, and the ones of the keybag's generations by type alone.
        self.every = {(one.kind, one.generation): one.key for one in entries}
        self.keys = {kind: self.every[kind, bag.generation(kind)] for kind in ALL_KEYS
                     if (kind, bag.generation(kind)) in self.every}
        metadata = self.keys[M]
        self.header, self.record, self.symlink = (kdf(metadata, x, self.uuid) for x in ("header", "dir-record", "symlink"))
        self.name_iv, self.name_cipher, self.long_name = (
            kdf(metadata, x, self.uuid) for x in ("name-siv", "name-enc", "name-long"))
        self.overflow = kdf(metadata, "overflow", self.uuid)
        self.xattr_iv, self.xattr_cipher, self.xattr_value = (
            kdf(metadata, x, self.uuid) for x in ("xattr-siv", "xattr-enc", "xattr-value"))
        self.root_id = kdf(metadata, "root-id", self.uuid)[:16]

    def class_key(self, number, generation):
        """KeyError when the class is closed; Newer when it is open and has no such generation."""
        if (number, generation) not in self.every and any(kind == number for kind, _ in self.every):
            raise Newer("header: generation")
        return self.every[number, generation]

    def wrap_key(self, number, generation=None):
        """The wrap key of a class; without a generation, the one that new wraps use."""
        generation = self.bag.generation(number) if generation is None else generation
        return kdf(self.class_key(number, generation), "wrap", self.uuid + bytes([number]) + le(generation, 2))

    def wrap_data(self, header):
        return b"protectfs1/wrap\0" + self.uuid + header[:8] + b"\0\0" + header[10:12] + bytes(4) + header[16:32]

    def hpke_info(self, generation):
        return b"protectfs1/hpke\0" + self.uuid + x25519_public(self.class_key(B, generation))

    def file_key(self, header):
        """The file key in a header whose MAC is right; KeyError when the class key is not here."""
        number, generation, wrapped = header[4], u16(header, 10), header[32:112]
        if number == B:
            return hpke_open(self.class_key(B, generation), self.hpke_info(generation), self.wrap_data(header), wrapped)
        if any(wrapped[72:]):
            raise Refused("header: wrapped key")
        return xchacha_open(self.wrap_key(number, generation), wrapped[:24], self.wrap_data(header), wrapped[24:72])

    def extent_key(self, file_key, epoch, page):
        return kdf(file_key, "extent", bytes([self.suite]) + le(epoch, 4) + le(page * 4096 >> 24, 8))
