"""Sections 2 and 4: keys, the keybag, its slots, and the state file."""

import uuid as uuidlib

from .primitives import (Refused, argon2id, equal, hpke_open, kdf, le, mac, recovery_secret, u16, u32, u64,
                         x25519_public, xchacha_open)

A, B, C, D, M, U = 1, 2, 3, 4, 16, 17
CLASS_NAMES = {A: "complete", B: "completeUnlessOpen", C: "completeUntilFirstUserAuthentication", D: "none"}

#: Where the keybag's fields stand: name -> (offset, length). The MACs count from the end.
KEYBAG_FIELDS = {
    "magic": (0, 8), "version": (8, 2), "header length": (10, 2), "suite": (12, 1), "block_log2": (13, 1),
    "name scheme": (14, 1), "flags": (15, 1), "UUID": (16, 16), "serial": (32, 8), "incompatible": (40, 4),
    "compatible": (44, 4), "generations": (48, 16), "pk": (64, 32), "length": (96, 4), "slots": (100, 2),
    "TLV bytes": (102, 2), "reserved": (104, 24), "first MAC": (-64, 32), "second MAC": (-32, 32),
}

#: Where a slot's fields stand, from its start; the bundle is what follows.
SLOT_FIELDS = {
    "length": (0, 2), "kind": (2, 1), "flags": (3, 1), "slot ID": (4, 4), "KDF": (8, 1), "entries": (9, 1),
    "ext length": (10, 2), "passes": (12, 4), "memory": (16, 8), "reserved": (24, 8), "salt": (32, 16),
    "commitment": (48, 32), "nonce": (80, 24),
}


class Slot:
    def __init__(self, data, offset, end):
        if end - offset < 120:
            raise Refused("slot: length")
        self.offset = offset
        self.length = u16(data, offset)
        ext = u16(data, offset + 10)
        self.entries = data[offset + 9]
        if self.length > end - offset or self.length != 104 + ext + 40 * self.entries + 16:
            raise Refused("slot: length")
        self.data = slot = data[offset:offset + self.length]
        self.kind, self.flags, self.id, self.kdf = slot[2], slot[3], u32(slot, 4), slot[8]
        self.passes, self.memory, self.salt = u32(slot, 12), u64(slot, 16), slot[32:48]
        self.bundle_offset = 104 + ext
        if self.kind not in range(1, 6) or self.flags > 1 or self.kdf > 1 or any(slot[24:32]):
            raise Refused("slot: fields")
        if self.kdf == 0 and (self.passes or self.memory):
            raise Refused("slot: parameters")
        if self.kdf == 1 and not (1 <= self.passes <= 16 and 8 << 20 <= self.memory <= 4 << 30):
            raise Refused("slot: parameters")

    def open(self, volume, material, device_key=None):
        """The bundle's entries as (type, generation, key); None when the credential is another one."""
        if self.kdf == 1:
            material = argon2id(material, self.salt, self.passes, self.memory)
        context = volume + le(self.id, 4) + bytes([self.kind]) + self.salt
        if self.flags & 1:
            if device_key is None:
                return None
            context += device_key
        secret = kdf(material, "slot", context)
        if not equal(kdf(secret, "slot-commit"), self.data[48:80]):
            return None
        head = self.data[:self.bundle_offset]
        plain = xchacha_open(
            kdf(secret, "slot-wrap"), self.data[80:104], b"protectfs1/slot\0" + volume + head,
            self.data[self.bundle_offset:])
        result = []
        for at in range(0, len(plain), 40):
            entry = plain[at:at + 40]
            if entry[1] or u32(entry, 4):
                raise Refused("bundle: reserved")
            result.append((entry[0], u16(entry, 2), entry[8:]))
        return result


class Keybag:
    def __init__(self, data):
        self.data = data
        if data[:8] != b"PFSKBAG1":
            raise Refused("keybag: magic")
        if not 192 <= len(data) <= 65536:
            raise Refused("keybag: length")
        if u16(data, 8) != 1:
            raise Refused("keybag: version")
        self.suite = data[12]
        if u16(data, 10) != 128 or self.suite not in (1, 2) or data[13] != 12 or data[14] != 1 or data[15] > 1:
            raise Refused("keybag: parameters")
        self.has_device_key = not data[15]
        self.uuid, self.serial, self.pk = data[16:32], u64(data, 32), data[64:96]
        if u32(data, 40):
            raise Refused("keybag: incompatible features")
        if u32(data, 96) != len(data) or any(data[104:128]):
            raise Refused("keybag: length or reserved bytes")
        self.generations = [u16(data, 48 + 2 * number) for number in range(8)]
        end = len(data) - 64
        offset = 128
        self.slots = []
        for _ in range(u16(data, 100)):
            self.slots.append(Slot(data, offset, end))
            offset += self.slots[-1].length
        if len({slot.id for slot in self.slots}) != len(self.slots):
            raise Refused("keybag: slot ID twice")
        if end - offset != u16(data, 102):
            raise Refused("keybag: TLV bytes")
        while offset < end:
            if end - offset < 4 or end - offset - 4 < u16(data, offset + 2):
                raise Refused("keybag: TLV")
            offset += 4 + u16(data, offset + 2)

    @property
    def uuid_text(self):
        return str(uuidlib.UUID(bytes=self.uuid))

    def _checked(self, entries, types):
        expected = [(kind, 0 if kind == U else self.generations[0 if kind == M else kind]) for kind in types]
        if [(kind, generation) for kind, generation, _ in entries] != expected:
            raise Refused("bundle: entries")
        return {kind: key for kind, _, key in entries}

    def _check_first_mac(self, keys):
        if not equal(mac(kdf(keys[M], "keybag-dev", self.uuid), self.data[:-64], 32), self.data[-64:-32]):
            raise Refused("keybag: first MAC")

    def open(self, device_key):
        """What the device key opens: D and M, with the first MAC checked."""
        for slot in self.slots:
            if slot.kind == 1:
                entries = slot.open(self.uuid, device_key)
                if entries is not None:
                    keys = self._checked(entries, (D, M))
                    self._check_first_mac(keys)
                    return Keys(self, keys)
        raise Refused("the device key opens no slot")

    def unlock(self, passphrase=None, recovery_code=None, device_key=None):
        """Every key; passphrase in bytes, recovery code as text."""
        device = self.open(device_key) if device_key is not None else None
        kind, material = (2, passphrase) if passphrase is not None else (3, recovery_secret(recovery_code))
        for slot in self.slots:
            entries = slot.open(self.uuid, material, device_key) if slot.kind == kind else None
            if entries is None:
                continue
            keys = self._checked(entries, (A, B, C, D, M, U))
            self._check_first_mac(keys)
            if not equal(mac(kdf(keys[U], "keybag-unlock", self.uuid), self.data[:-32], 32), self.data[-32:]):
                raise Refused("keybag: second MAC")
            if x25519_public(keys[B]) != self.pk:
                raise Refused("keybag: public key")
            if device and (device.keys[D], device.keys[M]) != (keys[D], keys[M]):
                raise Refused("keybag: device and full bundle differ")
            return Keys(self, keys)
        raise Refused("the credential opens no slot")


def sign_keybag(data, metadata_key, unlock_key=None):
    """The keybag's bytes with the first MAC (and the second, where U is given) made anew, as an attacker with keys would."""
    body, uuid = data[:-64], data[16:32]
    body += mac(kdf(metadata_key, "keybag-dev", uuid), body, 32)
    second = data[-32:] if unlock_key is None else mac(kdf(unlock_key, "keybag-unlock", uuid), body, 32)
    return body + second


class Keys:
    """The keys of an opened keybag and what comes from them."""

    def __init__(self, bag, keys):
        self.bag, self.keys, self.uuid, self.suite = bag, keys, bag.uuid, bag.suite
        for name, label in (("header", "header"), ("record", "dir-record"), ("name_iv", "name-siv"),
                            ("name_cipher", "name-enc"), ("long_name", "name-long"), ("symlink", "symlink"),
                            ("xattr_iv", "xattr-siv"), ("xattr_cipher", "xattr-enc"),
                            ("xattr_value", "xattr-value")):
            setattr(self, name, kdf(keys[M], label, bag.uuid))
        self.root_id = kdf(keys[M], "root-id", bag.uuid)[:16]

    def wrap_key(self, number):
        return kdf(self.keys[number], "wrap", self.uuid + bytes([number]) + le(self.bag.generations[number], 2))

    def wrap_data(self, header):
        return b"protectfs1/wrap\0" + self.uuid + header[:8] + b"\0\0" + header[10:12] + bytes(4) + header[16:32]

    def hpke_info(self):
        return b"protectfs1/hpke\0" + self.uuid + self.bag.pk

    def file_key(self, header):
        """The file key in a header whose MAC is right; KeyError when the class key is not here."""
        number, wrapped = header[4], header[32:112]
        if u16(header, 10) != self.bag.generations[number]:
            raise Refused("header: generation")
        if number == B:
            return hpke_open(self.keys[B], self.hpke_info(), self.wrap_data(header), wrapped)
        if any(wrapped[72:]):
            raise Refused("header: wrapped key")
        return xchacha_open(self.wrap_key(number), wrapped[:24], self.wrap_data(header), wrapped[24:72])

    def extent_key(self, file_key, epoch, page):
        return kdf(file_key, "extent", bytes([self.suite]) + le(epoch, 4) + le(page * 4096 >> 24, 8))


class State:
    """The state file."""

    def __init__(self, data):
        if data[:8] != b"PFSSTAT1" or u16(data, 8) != 1:
            raise Refused("state: magic or version")
        count, flags = u16(data, 10), u32(data, 12)
        at = 104 + 4 * count
        if count > 4096 or len(data) < at or flags & ~15:
            raise Refused("state: length or flags")
        self.tolerates_all = bool(flags & 1)
        #: Whether this machine has verified a keybag: else serial, pk and second MAC say nothing.
        self.pinned = not flags & 4
        if not self.pinned and any(data[32:104]):
            raise Refused("state: pins")
        self.uuid, self.serial = data[16:32], u64(data, 32)
        self.pk, self.second_mac = data[40:72], data[72:104]
        self.open_epochs = [u32(data, 104 + 4 * number) for number in range(count)]
        #: (number, done records) of the locks that may have a late file (section 8).
        self.open_locks = []
        if flags & 2:
            if not 1 <= u32(data, at) <= 64 or len(data) < at + 4 + 16 * u32(data, at):
                raise Refused("state: number of open locks")
            for place in range(at + 4, at + 4 + 16 * u32(data, at), 16):
                if u32(data, place + 12) or (self.open_locks and u64(data, place) <= self.open_locks[-1][0]):
                    raise Refused("state: open locks")
                self.open_locks.append((u64(data, place), u32(data, place + 8)))
            at += 4 + 16 * len(self.open_locks)
        #: (inode, seconds and nanoseconds of birth, file system, path) of the store, where they are known.
        self.store = None
        if flags & 8:
            length = u16(data, at + 28) if len(data) >= at + 32 else 0
            path = data[at + 32:at + 32 + length]
            if not 1 <= length <= 4096 or len(path) != length or path[:1] != b"/" or b"\0" in path or u16(data, at + 30):
                raise Refused("state: store")
            self.store = (u64(data, at), int.from_bytes(data[at + 8:at + 16], "little", signed=True), u32(data, at + 16),
                          u64(data, at + 20), path)
            at += 32 + length
        if at != len(data):
            raise Refused("state: length or flags")


def with_open_locks(data, locks):
    """The state file's bytes with other open locks: (number, done records), ascending."""
    end, flags = 104 + 4 * u16(data, 10), u32(data, 12)
    behind = data[end + 4 + 16 * u32(data, end):] if flags & 2 else data[end:]
    flags = flags & ~2 | (2 if locks else 0)
    tail = b"".join(le(number, 8) + le(done, 4) + bytes(4) for number, done in locks)
    return data[:12] + le(flags, 4) + data[16:end] + (le(len(locks), 4) + tail if locks else b"") + behind


def with_store(data, store):
    """The bytes of a state file that names no store with one: (inode, seconds, nanoseconds, file system, path)."""
    inode, seconds, nanoseconds, system, path = store
    place = le(inode, 8) + seconds.to_bytes(8, "little", signed=True) + le(nanoseconds, 4) + le(system, 8)
    return data[:12] + le(u32(data, 12) | 8, 4) + data[16:] + place + le(len(path), 2) + bytes(2) + path
