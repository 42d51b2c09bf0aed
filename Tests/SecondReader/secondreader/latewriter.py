"""The writing half of section 8: late files as the specification says, and every way to falsify one."""

import os

from . import primitives as p
from .late import DATA, DONE, HEADER, HEADER_FIELDS, MAC, RECORD_FIELDS, Late, LateKeys


def make_header(keys, number, lock_key, nonce=None, wrap_key=None, changes=None):
    """The header; `wrap_key` in place of the one that comes from class A's key, as somebody without that would.

    `changes` (offset -> bytes) are in place of what version 2 writes there.
    """
    head = bytearray(b"PFSLATE1" + p.le(2, 2) + p.le(keys.generation, 2) + p.le(keys.other, 2) + bytes(2) + keys.uuid
                     + p.le(number, 8) + bytes(8))
    for at, value in (changes or {}).items():
        head[at:at + len(value)] = value
    head, nonce = bytes(head), nonce or os.urandom(24)
    return head + nonce + p.xchacha_seal(wrap_key or keys.wrap_key(number), nonce, head, lock_key) + bytes(8)


def record_head(kind, running, identifier, offset=0, length=0, time=(0, 0)):
    return (p.le(length, 4) + bytes([kind, 0, 0, 0]) + p.le(running, 8) + identifier + p.le(offset, 8)
            + p.le(time[0] % (1 << 64), 8) + p.le(time[1], 4) + bytes(4))


def make_body(keys, number, running, identifier, offset=0, data=b"", time=(0, 0), kind=DATA, ephemeral=None, head=None):
    """A record without its MAC."""
    head = head or record_head(kind, running, identifier, offset, len(data), time)
    if kind == DONE:
        return head
    return head + p.hpke_seal(keys.public, ephemeral or os.urandom(32), keys.info(), p.le(number, 8) + head, data)


def chain(lock_key, header, bodies):
    """The file: every record with the MAC that its place gives it."""
    last, result = p.mac(lock_key, header, 32), header
    for body in bodies:
        last = p.mac(lock_key, last + body, 32)
        result += body + last
    return result


def make_late(keys, number, entries, lock_key=None, seed=None, wrap_key=None, changes=None):
    """A whole file; an entry is (file ID, offset, data, (seconds, nanoseconds)), or (file ID,) for a done record."""
    def random(label, length):
        return os.urandom(length) if seed is None else p.mac(seed.encode(), label.encode(), length)
    lock_key = lock_key or random("lock key", 32)
    bodies = []
    for running, (identifier, *rest) in enumerate(entries):
        if not rest:
            bodies.append(make_body(keys, number, running, identifier, kind=DONE))
            continue
        offset, data, time = (rest + [(1_700_000_000, 5)])[:3]
        bodies.append(make_body(keys, number, running, identifier, offset, data, time,
                                ephemeral=random("ephemeral %d" % running, 32)))
    return chain(lock_key, make_header(keys, number, lock_key, random("nonce", 24), wrap_key, changes), bodies)


def manipulations(keys, data, foreign_volume, other_lock):
    """(label, bytes, n): what becomes of a late file in other hands; n of its records count then, None: it is refused.

    `data` is a good file of at least three data records, `foreign_volume` one of another volume and `other_lock` one of
    another lock of this volume, both with as many.
    """
    late = Late(keys, data)
    borders, count = late.borders, len(late.records)
    header, records = data[:HEADER], [data[at:end] for at, end in zip(borders, borders[1:])]
    bodies = [record[:-MAC] for record in records]
    number = late.number

    def flipped(at, value=1):
        return data[:at] + bytes([data[at] ^ value]) + data[at + 1:]

    made_up, nonce, ephemeral = bytes(range(32)), p.hash256(b"nonce")[:24], p.hash256(b"ephemeral")
    yield "forged: sealed to pk, MACs by a made-up key", chain(made_up, header, bodies), 0
    yield "forged: the made-up key wrapped under a made-up one", chain(
        made_up, make_header(keys, number, made_up, nonce, wrap_key=p.hash256(b"made up")), bodies), None
    yield "forged: the made-up key wrapped under one that comes from itself", chain(made_up, make_header(
        keys, number, made_up, nonce, wrap_key=p.kdf(made_up, "late", keys.uuid + p.le(number, 8))), bodies), None
    yield "forged: a record more, MAC zero", data + make_body(
        keys, number, count, late.records[0].id, 0, b"forged", ephemeral=ephemeral) + bytes(32), count
    yield "forged: a record more, MAC by a made-up key", data + chain(
        made_up, b"", [make_body(keys, number, count, late.records[0].id, 0, b"forged", ephemeral=ephemeral)]), count
    yield "forged: a done record more", data + make_body(
        keys, number, count, late.records[0].id, kind=DONE) + bytes(32), count
    yield "forged: the first record resealed with other data", header + make_body(
        keys, number, 0, late.records[0].id, late.records[0].offset, b"x" * len(late.records[0].data), ephemeral=ephemeral) + data[
            borders[1] - MAC:], 0
    yield "reordered: the first two records", header + records[1] + records[0] + b"".join(records[2:]), 0
    yield "reordered: the last two records", data[:borders[-3]] + records[-1] + records[-2], count - 2
    yield "a record left out: the first", header + b"".join(records[1:]), 0
    yield "a record left out: the one before the last", data[:borders[-3]] + records[-1], count - 2
    yield "repeated: the first record twice", header + records[0] + b"".join(records), 1
    yield "repeated: the last record twice", data + records[-1], count
    yield "repeated: all records twice", data + b"".join(records), count
    yield "foreign: another volume's file", foreign_volume, None
    yield "foreign: another volume's file with this one's UUID", (
        foreign_volume[:16] + keys.uuid + foreign_volume[32:]), None
    yield "foreign: another volume's records", header + foreign_volume[HEADER:], 0
    yield "foreign: another lock's file under this number", other_lock, None
    yield "foreign: another lock's file with this number in its header", (
        other_lock[:32] + p.le(number, 8) + other_lock[40:]), None
    yield "foreign: another lock's records", header + other_lock[HEADER:], 0
    other = Late(keys, other_lock)
    yield "foreign: another lock's record behind the first one", (
        data[:borders[1]] + other_lock[other.borders[1]:other.borders[2]] + data[borders[2]:]), 1
    yield "foreign: another lock's record at the end", (
        data + other_lock[other.borders[-2]:]), count
    for place, (at, length) in HEADER_FIELDS.items():
        yield "header changed: " + place, flipped(at + length - 1), None
    for place, (at, length) in RECORD_FIELDS.items():
        yield "first record changed: " + place, flipped(borders[0] + at), 0
        yield "last record changed: " + place, flipped(borders[-2] + at + length - 1, 0x80), count - 1
    yield "last record changed: ciphertext", flipped(borders[-1] - MAC - 17), count - 1
    yield "last record changed: tag", flipped(borders[-1] - MAC - 1), count - 1
    yield "last record changed: MAC", flipped(borders[-1] - 1), count - 1
    yield "second record changed: MAC", flipped(borders[2] - 1), 1
    yield "something behind the end", data + b"\0", count
    yield "a page of zeros behind the end", data + bytes(4096), count


def cuts(keys, data):
    """(label, bytes, n): the file cut at every border of a field of its header, and of its records, and beside them."""
    late = Late(keys, data)
    for at, label in sorted({at: name for name, (at, _) in HEADER_FIELDS.items()}.items()):
        yield "cut in the header before its " + label, data[:at], None
    yield "cut one byte before the header's end", data[:HEADER - 1], None
    for number, (at, end) in enumerate(zip(late.borders, late.borders[1:])):
        places = [0, 1, 4, 8, 16, 32, 40, 48, 52, 55, 56]
        if late.records[number].kind == DATA:
            places += [57, 88, 89, end - at - MAC - 16]
        places += [end - at - MAC, end - at - MAC + 1, end - at - 1]
        for place in sorted(set(places)):
            yield "cut %d bytes into record %d" % (place, number), data[:at + place], number


def made_by_the_owner(keys, number, identifier):
    """(label, bytes, n): records that break a rule although their MACs are right."""
    lock_key = p.hash256(b"owner")
    header = make_header(keys, number, lock_key, p.hash256(b"nonce")[:24])

    def seeded(label, *words, **more):
        return make_body(keys, number, *words, ephemeral=p.hash256(label.encode()), **more)

    def field(head, at, value):
        return head[:at] + value + head[at + len(value):]

    good = seeded("good", 0, identifier, 0, b"good", (1, 2))
    head = record_head(DATA, 1, identifier, 0, 3, (1, 2))
    done = record_head(DONE, 1, identifier)
    for label, bad in (
            ("a data record without data", seeded("e", 1, identifier, data=b"")),
            ("a running number twice", seeded("f", 0, identifier, data=b"bad")),
            ("a running number left out", seeded("g", 2, identifier, data=b"bad")),
            ("10⁹ nanoseconds", seeded("h", 1, identifier, 0, b"bad", (1, 1_000_000_000))),
            ("an offset behind every file's end", seeded("i", 1, identifier, (1 << 63) - 1, b"bad")),
            ("a done record with an offset", field(done, 32, b"\1")),
            ("a done record with a time", field(done, 40, b"\1"))):
        yield "MAC is right: " + label, chain(lock_key, header, [good, bad, seeded("z", 2, identifier, 9, b"behind")]), 1
    longest = seeded("k", 1, identifier, 0, bytes((1 << 20) + 1))
    yield "MAC is right: more than 1 MiB", chain(lock_key, header, [good, longest]), 1


def made_by_a_newer_version(keys, number, identifier):
    """(label, bytes): whole files that open, and have what version 2 does not know."""
    lock_key, nonce = p.hash256(b"newer"), p.hash256(b"nonce")[:24]

    def seeded(label, *words, **more):
        return make_body(keys, number, *words, ephemeral=p.hash256(label.encode()), **more)

    good = seeded("good", 0, identifier, 0, b"good", (1, 2))
    for label, changes in (("version 3", {8: b"\3"}), ("a reserved byte behind the generations", {14: b"\1"}),
                           ("a reserved byte behind the number", {40: b"\1"})):
        yield label, chain(lock_key, make_header(keys, number, lock_key, nonce, changes=changes), [good])
    yield "a generation of class B that the bundle has not", chain(
        lock_key, make_header(keys, number, lock_key, nonce, changes={12: b"\x63"}), [good])
    header, head = make_header(keys, number, lock_key, nonce), record_head(DATA, 1, identifier, 0, 3, (1, 2))
    for label, at, value in (("kind 0", 4, b"\0"), ("kind 3", 4, b"\3"), ("a reserved byte behind the kind", 5, b"\1"),
                             ("a reserved byte at the record's end", 52, b"\1")):
        new = seeded(label, 1, identifier, data=b"new", head=head[:at] + value + head[at + 1:])
        yield label, chain(lock_key, header, [good, new, seeded("z", 2, identifier, 9, b"behind")])


def other_keys(keys, label="other volume"):
    """The keys of a volume that somebody else has, with this one's generations."""
    secret = p.hash256(label.encode())
    return LateKeys(p.mac(secret, b"uuid", 16), {keys.generation: p.mac(secret, b"A", 32)},
                    {keys.other: p.mac(secret, b"B", 32)}, keys.generation, keys.other)
