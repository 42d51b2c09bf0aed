"""Section 8: late files, what was written after the keys were gone; read and verified."""

import os
import re
import struct

from .keybag import A, B
from .primitives import Newer, Refused, equal, hpke_open, kdf, le, mac, u16, u32, u64, x25519_public, xchacha_open

HEADER, HEAD, MAC, LARGEST = 128, 56, 32, 1 << 20
DATA, DONE = 1, 2
PREFIX = b".protectfs.late."

#: The header's fields: name -> (offset, length).
HEADER_FIELDS = {
    "magic": (0, 8), "version": (8, 2), "generation": (10, 2), "generation of B": (12, 2), "reserved": (14, 2), "UUID": (16, 16), "number": (32, 8),
    "reserved, second": (40, 8), "nonce": (48, 24), "wrapped key": (72, 48), "reserved, last": (120, 8),
}

#: A record's fields, from its start; what is sealed and the MAC follow.
RECORD_FIELDS = {
    "length": (0, 4), "kind": (4, 1), "reserved": (5, 3), "running number": (8, 8), "file ID": (16, 16), "offset": (32, 8),
    "seconds": (40, 8), "nanoseconds": (48, 4), "reserved, last": (52, 4), "enc": (56, 32),
}


class LateKeys:
    """What a late file is read with: class A's keys and B's private halves, by generation; new files use the current ones."""

    def __init__(self, uuid, class_keys, privates, generation, other):
        self.uuid, self.class_keys, self.privates = uuid, class_keys, privates
        self.generation, self.other = generation, other

    @classmethod
    def of(cls, keys):
        """From an unlocked volume's keys."""
        by_generation = lambda wanted: {generation: key for (kind, generation), key in keys.every.items() if kind == wanted}
        return cls(keys.uuid, by_generation(A), by_generation(B), keys.bag.generation(A), keys.bag.generation(B))

    @property
    def public(self):
        return x25519_public(self.privates[self.other])

    def wrap_key(self, number, generation=None):
        return kdf(self.class_keys[self.generation if generation is None else generation], "late", self.uuid + le(number, 8))

    def info(self, other=None):
        return b"protectfs1/late\0" + self.uuid + x25519_public(self.privates[self.other if other is None else other])


class Record:
    """One record that verified."""

    def __init__(self, head, data):
        self.kind, self.number, self.id = head[4], u64(head, 8), head[16:32]
        self.offset, self.seconds, self.nanoseconds = u64(head, 32), struct.unpack_from("<q", head, 40)[0], u32(head, 48)
        self.data = data


def name_of(number):
    return PREFIX + b"%016x" % number


class Late:
    """A late file: the records that count, and in `end` why the rest does not, if anything stands behind them."""

    def __init__(self, keys, data, number=None):
        """`number` is the one that the file's name says. What makes the whole file count for nothing is refused."""
        self.keys, self.data = keys, data
        if len(data) < HEADER:
            raise Refused("late file: cut in its header")
        header = data[:HEADER]
        if header[:8] != b"PFSLATE1" or u16(header, 8) < 2:
            raise Refused("late file: magic or version")
        if header[16:32] != keys.uuid:
            raise Refused("late file: of another volume")
        if u16(header, 10) not in keys.class_keys:
            raise Refused("late file: generation")
        self.number = u64(header, 32)
        if number is not None and number != self.number:
            raise Refused("late file: under another number")
        self.lock_key = xchacha_open(
            keys.wrap_key(self.number, u16(header, 10)), header[48:72], header[:48], header[72:120])
        if u16(header, 8) != 2 or any(header[14:16]) or any(header[40:48]):
            raise Newer("late file: version or reserved")
        if any(header[120:128]):
            raise Refused("late file: reserved bytes that the tag does not cover")
        self.other = u16(header, 12)
        if self.other not in keys.privates:
            raise Newer("late file: generation of class B")
        self.records, self.borders, self.end = [], [HEADER], None
        last, at = mac(self.lock_key, header, 32), HEADER
        while at < len(data):
            try:
                record, last, at = self._record(at, last)
            except Refused as error:
                self.end = str(error)
                return
            self.records.append(record)
            self.borders.append(at)

    def _record(self, at, last):
        """The record that begins there, the MAC it ends with, and where the next one begins."""
        head = self.data[at:at + HEAD]
        if len(head) < HEAD:
            raise Refused("record %d: cut off" % len(self.records))
        count, kind = u32(head), head[4]
        if (kind == DATA and not 1 <= count <= LARGEST) or (kind == DONE and count):
            raise Refused("record %d: length" % len(self.records))
        # A record of an unknown kind is as long as one of kind 1.
        end = at + HEAD + (0 if kind == DONE else 48 + count)
        if end + MAC > len(self.data):
            raise Refused("record %d: cut off" % len(self.records))
        made = mac(self.lock_key, last + self.data[at:end], 32)
        if not equal(made, self.data[end:end + MAC]):
            raise Refused("record %d: MAC" % len(self.records))
        if kind not in (DATA, DONE) or any(head[5:8]) or any(head[52:56]):
            raise Newer("record %d: kind or reserved" % len(self.records))
        if u64(head, 8) != len(self.records):
            raise Refused("record %d: running number" % len(self.records))
        if kind == DONE:
            if any(head[32:52]):
                raise Refused("record %d: fields of a done record" % len(self.records))
            return Record(head, b""), made, end + MAC
        if u32(head, 48) >= 1_000_000_000 or u64(head, 32) + count > 1 << 63:
            raise Refused("record %d: offset or time" % len(self.records))
        data = hpke_open(self.keys.privates[self.other], self.keys.info(self.other), le(self.number, 8) + head,
                         self.data[at + HEAD:end])
        return Record(head, data), made, end + MAC

    @property
    def done(self):
        """How many done records it has."""
        return sum(record.kind == DONE for record in self.records)

    def pieces(self):
        """What is still to be written: file ID -> list of (offset, data), in order."""
        found = {}
        for record in self.records:
            if record.kind == DONE:
                found.pop(record.id, None)
            else:
                found.setdefault(record.id, []).append((record.offset, record.data))
        return found


def overlay(contents, pieces):
    """A file's contents with late data written over it."""
    result = bytearray(contents)
    for offset, data in pieces:
        if offset > len(result):
            result.extend(bytes(offset - len(result)))
        result[offset:offset + len(data)] = data
    return bytes(result)


def late_names(root):
    """(number, path) of every late file of a store, in the order of the numbers."""
    found = []
    for name in os.listdir(os.fsencode(root)):
        matched = re.fullmatch(re.escape(PREFIX) + rb"([0-9a-f]{16})", name)
        if matched:
            found.append((int(matched.group(1), 16), os.path.join(os.fsencode(root), name)))
    return sorted(found)


def pending(root, keys, state=None):
    """What an unlock has to write, by file ID, what it has to report, and whether one is newer: (pieces, reports, newer).

    A report is (number, reason).
    """
    pieces, reports, newer = {}, [], False
    listed = None if state is None else dict(state.open_locks)
    for number, path in late_names(root):
        try:
            if listed is not None and number not in listed:
                raise Refused("not listed in the state file")
            with open(path, "rb") as file:
                late = Late(LateKeys.of(keys), file.read(), number)
            if listed is not None and late.done < listed[number]:
                raise Refused("fewer done records than the state file lists")
        except (Newer, Refused) as error:
            reports.append((number, str(error)))
            newer = newer or isinstance(error, Newer)
            continue
        if late.end:
            reports.append((number, late.end))
        for identifier, own in late.pieces().items():
            pieces.setdefault(identifier, []).extend(own)
    return pieces, reports, newer
