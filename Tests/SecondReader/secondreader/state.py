"""Section 4.1: the state file, which a machine remembers of a volume; and epochs (6.2)."""

import struct

from .primitives import Newer, Refused, equal, hash256, le, make_tlvs, split_tlvs, tlvs, u16, u32, u64, writer_name

WRITER, EPOCHS, LOCKS, STORE, KEYS = 1, 2, 3, 4, 5
TOLERATE_ALL, UNPINNED = 1, 2

#: The fields: name -> (offset, length). The hash counts from the end.
STATE_FIELDS = {
    "magic": (0, 8), "version": (8, 2), "header length": (10, 2), "length": (12, 4), "UUID": (16, 16), "serial": (32, 8),
    "pk": (40, 32), "second MAC": (72, 32), "incompatible": (104, 4), "read-only compatible": (108, 4),
    "compatible": (112, 4), "flags": (116, 4), "highest epoch": (120, 4), "reserved": (124, 4), "hash": (-32, 32),
}


class State:
    """The state file."""

    def __init__(self, data):
        if data[:8] != b"PFSSTAT1":
            raise Refused("state: magic")
        if not 160 <= len(data) <= 1 << 20 or u32(data, 12) != len(data):
            raise Refused("state: length")
        if not equal(hash256(data[:-32]), data[-32:]):
            raise Refused("state: hash")
        head = u16(data, 10)
        self.writer = writer_name(data[head:-32]) if 128 <= head <= len(data) - 32 else None
        for known, what in ((u16(data, 8) == 2, "version"), (not u32(data, 104), "incompatible features"),
                            (not u32(data, 124), "reserved")):
            if not known:
                raise Newer("state: " + what, self.writer)
        if not 128 <= head <= len(data) - 32:
            raise Refused("state: header length")
        self.header = data[:head]
        self.read_only, self.flags, self.highest_epoch = u32(data, 108) != 0, u32(data, 116), u32(data, 120)
        self.tolerates_all = bool(self.flags & TOLERATE_ALL)
        #: Whether this machine has verified a keybag: else serial, pk and second MAC say nothing.
        self.pinned = not self.flags & UNPINNED
        if not self.pinned and any(data[32:104]):
            raise Refused("state: pins")
        self.uuid, self.serial = data[16:32], u64(data, 32)
        self.pk, self.second_mac = data[40:72], data[72:104]
        try:
            self.tlvs = tlvs(data[head:-32], (WRITER, EPOCHS, LOCKS, STORE, KEYS))
        except Newer as error:
            raise Newer("state: " + str(error), self.writer) from error
        found = dict(self.tlvs[::-1])
        if not all(found.get(kind, b"-") for kind in (EPOCHS, LOCKS)):
            raise Refused("state: an empty list")
        if len(found.get(KEYS, bytes(48))) != 48:
            raise Refused("state: keys")
        self.open_epochs = self._epochs(found.get(EPOCHS, b""))
        if max(self.open_epochs, default=0) > self.highest_epoch:
            raise Refused("state: an open epoch is above the highest one")
        #: (number, done records) of the locks that may have a late file (section 8).
        self.open_locks = self._locks(found.get(LOCKS, b""))
        #: (inode, seconds and nanoseconds of birth, file system, path) of the store, where they are known.
        self.store = self._store(found[STORE]) if STORE in found else None

    @staticmethod
    def _epochs(value):
        if len(value) % 4 or len(value) > 4 * 4096:
            raise Refused("state: open epochs")
        return [u32(value, at) for at in range(0, len(value), 4)]

    @staticmethod
    def _locks(value):
        result = [(u64(value, at), u32(value, at + 8)) for at in range(0, len(value), 16)]
        numbers = [number for number, _ in result]
        if len(value) % 16 or len(result) > 64 or numbers != sorted(set(numbers)):
            raise Refused("state: open locks")
        if any(u32(value, at + 12) for at in range(0, len(value), 16)):
            raise Newer("state: open locks: reserved")
        return result

    @staticmethod
    def _store(value):
        path = value[28:]
        if not 1 <= len(path) <= 4096 or path[:1] != b"/" or b"\0" in path:
            raise Refused("state: store")
        return (*struct.unpack_from("<QqIQ", value), path)


def sign_state(data):
    """The bytes with length and hash made anew."""
    body = data[:12] + le(len(data), 4) + data[16:-32]
    return body + hash256(body)


def make_state(uuid, serial=0, pk=bytes(32), second_mac=bytes(32), flags=0, highest=0, entries=()):
    """A state file; TOLERATE_ALL and UNPINNED are flags, and the lists are TLVs."""
    return sign_state(b"PFSSTAT1" + le(2, 2) + le(128, 2) + bytes(4) + uuid + le(serial, 8) + pk + second_mac + bytes(12)
                      + le(flags, 4) + le(highest, 4) + bytes(4) + make_tlvs(entries) + bytes(32))


def with_bytes(data, changes):
    """The state file with other bytes: offset -> bytes."""
    data = bytearray(data)
    for at, value in changes.items():
        data[at:at + len(value)] = value
    return sign_state(bytes(data))


def with_tlv(data, kind, value):
    """The state file with another value of a TLV, or without it for None; it stays in its place, or comes last."""
    head, entries = u16(data, 10), split_tlvs(data[u16(data, 10):-32])
    places = [at for at, entry in enumerate(entries) if entry[0] == kind]
    at = places[0] if places else len(entries)
    entries[at:at + 1] = [] if value is None else [(kind, value)]
    return sign_state(data[:head] + make_tlvs(entries) + bytes(32))


def epochs_value(epochs):
    return b"".join(le(epoch, 4) for epoch in epochs)


def locks_value(locks):
    return b"".join(le(number, 8) + le(done, 4) + bytes(4) for number, done in locks)


def store_value(store):
    *numbers, path = store
    return struct.pack("<QqIQ", *numbers) + path


def with_open_locks(data, locks):
    """The state file's bytes with other open locks: (number, done records), ascending."""
    return with_tlv(data, LOCKS, locks_value(locks) if locks else None)


def with_store(data, store):
    """The state file's bytes with another store, or with none: (inode, seconds, nanoseconds, file system, path)."""
    return with_tlv(data, STORE, store_value(store) if store else None)


def next_epoch(highest, seconds):
    """The epoch of a session that begins at this time (seconds since 1970)."""
    if highest == (1 << 32) - 1:
        raise Refused("no epoch is left")
    since = seconds - 1_577_836_800
    return max(highest + 1, since if 0 <= since < 1 << 32 else 0)
