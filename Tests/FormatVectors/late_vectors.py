"""Late files as they should be, and what an attacker, a power cut or a newer version makes of them."""

from common import NEWER, REFUSE, outcome
from secondreader import latewriter
from secondreader.late import Late, LateKeys
from secondreader.writer import content, rnd


def entry(comment, keys, data, end=False, **more):
    """What the second reader makes of it: `end` says that only records before the first bad one may count."""
    (class_key,), (private,) = keys.class_keys.values(), keys.privates.values()
    made = {"comment": comment, "classKeyA": class_key.hex(), "privateKeyB": private.hex(), "uuid": keys.uuid.hex(),
            "generation": keys.generation, "generationB": keys.other, "file": data.hex(), **more}
    made["expect"] = outcome(read, made)
    if end != ("after" in made["expect"] or made["expect"] == REFUSE) and made["expect"] != NEWER:
        raise AssertionError(comment)
    return made


def read(made):
    uuid, class_key, private = (bytes.fromhex(made[name]) for name in ("uuid", "classKeyA", "privateKeyB"))
    generation, other = made["generation"], made["generationB"]
    late = Late(LateKeys(uuid, {generation: class_key}, {other: private}, generation, other), bytes.fromhex(made["file"]))
    found = {"number": late.number, "records": [
        {"number": one.number, "kind": one.kind, "fileID": one.id.hex(), "offset": one.offset, "seconds": one.seconds,
         "nanoseconds": one.nanoseconds, "data": one.data.hex()} for one in late.records]}
    return dict(found, after=len(late.records)) if late.end else found


def make():
    class_key, private = rnd("key 1", 32), rnd("key 2", 32)

    def with_keys(class_key=class_key, private=private, generation=1, other=2):
        return LateKeys(rnd("uuid 1", 16), {generation: class_key}, {other: private}, generation, other)

    keys, wrong = with_keys(), rnd("no key", 32)
    number, one, other = 1_700_000_000_000_000, rnd("late one", 16), rnd("late other", 16)
    entries = [(one, 4096, content("late 0", 30), (1_700_000_000, 999_999_999)), (other, 0, content("late 1", 1), (-1, 0)),
               (one, 4100, content("late 2", 9)), (other,), (other, (1 << 63) - 9, content("late 4", 9))]
    good = latewriter.make_late(keys, number, entries, seed="late")
    stranger = latewriter.other_keys(keys)
    foreign = latewriter.make_late(stranger, number, entries, seed="foreign")
    another = latewriter.make_late(keys, number + 1, entries, seed="another")
    header = latewriter.make_late(keys, number, [], seed="late")
    result = [
        entry("four data records and a done record", keys, good),
        entry("no record", keys, header),
        entry("one page", keys, latewriter.make_late(keys, number, [(one, 0, content("page", 4096))], seed="page")),
        entry("the highest number", keys, latewriter.make_late(keys, (1 << 63) - 1, entries[:1], seed="highest")),
        entry("another class key A", with_keys(class_key=wrong), good, True),
        entry("another private key B", with_keys(private=wrong), good, True),
        entry("another generation of class key A", with_keys(generation=3), good, True)]
    borders = Late(keys, good).borders
    for label, data, count in latewriter.manipulations(keys, good, foreign, another):
        if label != "foreign: another lock's file under this number":
            result.append(entry(label, keys, data, True))
    for label, data, count in latewriter.cuts(keys, good):
        # Of the records the first is cut everywhere, the others where they end.
        if count in (None, 0) or len(data) + 1 in borders or len(data) in borders:
            result.append(entry(label, keys, data, len(data) not in borders))
    for label, data, count in latewriter.made_by_the_owner(keys, number, one):
        if len(data) < 1 << 20:
            result.append(entry(label, keys, data, True))
    for label, data in latewriter.made_by_a_newer_version(keys, number, one):
        result.append(entry("newer: " + label, keys, data))
        at = 119 if "record" not in label and "kind" not in label else borders_of(data)
        result.append(entry("wrong tag or MAC: " + label, keys, data[:at] + bytes([data[at] ^ 1]) + data[at + 1:], True))
    return result


def borders_of(data):
    """The last byte of the second record, which has 3 bytes of data, behind the first one with 4."""
    return 128 + (56 + 48 + 4 + 32) + (56 + 48 + 3 + 32) - 1
