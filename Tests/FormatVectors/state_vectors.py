"""State files, and the epochs that come from them."""

from common import NEWER, REFUSE, p
from secondreader.signing import changed
from secondreader.state import (EPOCHS, KEYS, LOCKS, STORE, WRITER, State, epochs_value, locks_value, make_state,
                                next_epoch, sign_state, store_value, with_bytes, with_open_locks, with_store, with_tlv)
from secondreader.writer import rnd

TOP = (1 << 32) - 1


def base():
    return make_state(rnd("u", 16), 9, rnd("pk", 32), rnd("mac", 32), 1, TOP - 1, [
        (1, b"second reader 2"), (EPOCHS, epochs_value([5, TOP - 1])), (0x7001, b"kept")])


def read(entry):
    state = State(bytes.fromhex(entry["state"]))
    return {"serial": state.serial, "tolerates_all": state.tolerates_all, "open_epochs": state.open_epochs,
            "pinned": state.pinned, "highest_epoch": state.highest_epoch, "read_only": state.read_only}


def states():
    state, result = base(), []

    def add(comment, data, expect=None, **more):
        """What the second reader makes of it must be `expect`, or fields that are other ones than the base's."""
        wanted = expect if isinstance(expect, str) else {
            **{"serial": 9, "tolerates_all": True, "open_epochs": [5, TOP - 1], "pinned": True, "highest_epoch": TOP - 1,
               "read_only": False}, **(expect or {})}
        result.append({"comment": comment, "state": data.hex(), "expect": wanted, **more})

    unpinned = {32: bytes(72), 116: p.le(3, 4)}
    add("two epochs", state)
    add("nothing pinned", with_bytes(state, unpinned), {"serial": 0, "pinned": False})
    add("nothing pinned, and a serial", with_bytes(state, {116: p.le(3, 4)}), REFUSE)
    add("nothing pinned, and a MAC", with_bytes(state, {**unpinned, 103: b"\1"}), REFUSE)
    add("no list", with_tlv(state, EPOCHS, None), {"open_epochs": []})
    add("4096 epochs", with_tlv(state, EPOCHS, epochs_value(range(4096))), {"open_epochs": list(range(4096))})
    add("4097 epochs", with_tlv(state, EPOCHS, epochs_value(range(4097))), REFUSE)
    add("an empty list", with_tlv(state, EPOCHS, b""), REFUSE)
    add("an open epoch above the highest one", with_bytes(state, {120: p.le(TOP - 2, 4)}), REFUSE)
    add("the highest epoch is not open any more", with_bytes(state, {120: p.le(TOP, 4)}), {"highest_epoch": TOP})
    add("an epoch cut off", with_tlv(state, EPOCHS, bytes(7)), REFUSE)
    add("the list of epochs twice", sign_state(state[:-32] + p.make_tlvs([(EPOCHS, bytes(4))]) + bytes(32)), REFUSE)
    add("empty", b"", REFUSE)
    add("cut in the header", state[:127], REFUSE)
    add("one byte short", state[:-1], REFUSE)
    add("one byte longer", state + b"\0", REFUSE)
    add("cut, and hash and length made anew", sign_state(state[:180] + bytes(32)), REFUSE)
    for comment, at in (("magic", 0), ("version", 8), ("length", 12), ("UUID", 16), ("serial", 32), ("incompatible features", 104),
                        ("read-only compatible features", 108), ("flags", 116), ("highest epoch", 120), ("reserved", 124),
                        ("a TLV", 130), ("hash", len(state) - 1)):
        add("one bit changed: " + comment, changed(state, {at: bytes([state[at] ^ 0x40])}), REFUSE)
    add("version 1", b"PFSSTAT1" + p.le(1, 2) + p.le(1, 2) + bytes(4) + rnd("u", 16) + bytes(76), REFUSE)
    writer = {"writer": "second reader 2"}
    for comment, changes in (("version 3", {8: b"\3"}), ("an incompatible feature", {104: b"\1"}),
                             ("the highest incompatible feature", {107: b"\x80"}), ("a reserved byte", {124: b"\1"}),
                             ("the last reserved byte", {127: b"\1"})):
        add("newer: " + comment, with_bytes(state, changes), NEWER, **writer)
    add("newer: a TLV that must be understood", with_tlv(state, 0x8001, b""), NEWER, **writer)
    header = changed(state[:128], {10: p.le(192, 2), 8: b"\3"}) + bytes(range(64))
    add("newer: version 3, a longer header", sign_state(header + state[128:]), NEWER, **writer)
    add("newer: version 3, without a writer", sign_state(changed(state[:128], {8: b"\3"}) + b"what version 3 has" + bytes(32)), NEWER)
    header = changed(state[:128], {10: p.le(192, 2)}) + bytes(range(64))
    add("a longer header", sign_state(header + state[128:]))
    add("a shorter header", with_bytes(state, {10: p.le(127, 2)}), REFUSE)
    add("a header longer than the file", with_bytes(state, {10: p.le(4096, 2)}), REFUSE)
    add("read-only compatible features", with_bytes(state, {108: p.le(TOP, 4)}), {"read_only": True})
    add("compatible features", with_bytes(state, {112: p.le(TOP, 4)}))
    add("unknown flags", with_bytes(state, {116: p.le(TOP & ~2, 4)}))
    add("a writer that is no text", with_tlv(state, WRITER, b"\n\x80"))
    add("an empty writer", with_tlv(state, WRITER, b""))
    add("a writer that is too long", with_tlv(state, WRITER, b"w" * 65))
    add("the keys in use", with_tlv(state, KEYS, p.le(1, 2) * 8 + rnd("voucher", 32)))
    add("keys without what vouches for them", with_tlv(state, KEYS, bytes(48)))
    add("keys, one byte short", with_tlv(state, KEYS, bytes(47)), REFUSE)
    add("unknown TLVs", with_tlv(with_tlv(state, 0x7fff, b""), 300, b"kept"))
    return result


def late_states():
    """State files that list open lock numbers; the numbers and their done records are what is expected."""
    state, result = base(), []

    def add(comment, data, locks):
        result.append({"comment": comment, "state": data.hex(), "expect": locks if isinstance(locks, str) else {
            "open_locks": [{"number": number, "done": done} for number, done in locks]}})

    locks = [(5, 0), (1_700_000_000_000_000, 3)]
    two = with_open_locks(state, locks)
    add("none", state, [])
    add("two", two, locks)
    for count in (64, 65):
        many = [(n, n) for n in range(count)]
        add("%d" % count, with_open_locks(state, many), many if count == 64 else REFUSE)
    add("descending", with_open_locks(state, locks[::-1]), REFUSE)
    add("one number twice", with_open_locks(state, locks[:1] * 2), REFUSE)
    add("reserved", with_tlv(state, LOCKS, locks_value(locks)[:-1] + b"\1"), NEWER)
    add("one byte short", with_tlv(state, LOCKS, locks_value(locks)[:-1]), REFUSE)
    add("one byte longer", with_tlv(state, LOCKS, locks_value(locks) + b"\0"), REFUSE)
    return result


def stores():
    """State files that name the store that they belong to."""
    state, result = base(), []

    def add(comment, data, store=None):
        if store is None:
            return result.append({"comment": comment, "state": data.hex(), "expect": REFUSE})
        inode, seconds, nanoseconds, system, path = store
        return result.append({"comment": comment, "state": data.hex(), "expect": {
            "inode": "%016x" % inode, "seconds": seconds, "nanoseconds": nanoseconds, "file_system": "%016x" % system,
            "path": path.hex()}})

    store = (1 << 63 | 12345, 1_700_000_000, 999_999_999, 0xfedcba9876543210, b"/srv/vault")
    good, value = with_store(state, store), store_value(store)
    longest, unknown = (2, 0, 0, 0, b"/" + b"x" * 4095), (256, -1, 0, 0, b"/")
    add("a store", good, store)
    add("behind open locks", with_store(with_open_locks(state, [(5, 0), (7, 1)]), store), store)
    add("before open locks", with_open_locks(good, [(5, 0), (7, 1)]), store)
    add("the longest path", with_store(state, longest), longest)
    add("made before 1970, at the root", with_store(state, unknown), unknown)
    add("too long a path", with_store(state, (2, 0, 0, 0, b"/" + b"x" * 4096)))
    add("no path", with_store(state, (2, 0, 0, 0, b"")))
    add("a path that is not absolute", with_store(state, (2, 0, 0, 0, b"vault")))
    add("a zero byte in the path", with_store(state, (2, 0, 0, 0, b"/va\0lt")))
    add("cut in the fixed part", with_tlv(state, STORE, value[:27]))
    add("empty", with_tlv(state, STORE, b""))
    return result


def epochs():
    """The epoch of a session that begins, from the highest one that the state file names and the time."""
    begin = 1_577_836_800
    entries = [("the first session of all, now", 0, begin + 200_000_000), ("a later second", 200_000_000, begin + 200_000_001),
               ("the same second", 200_000_000, begin + 200_000_000), ("the clock went back", 200_000_000, begin + 5),
               ("before 2020", 0, 5), ("before 1970", 77, -5), ("at the beginning of 2020", 0, begin),
               ("one second after it", 0, begin + 1), ("the last second that is a u32", 9, begin + TOP),
               ("the second behind it", 9, begin + TOP + 1), ("one epoch is left", TOP - 1, begin + 9), ("none is left", TOP, begin + 9)]
    return [{"comment": comment, "highest": highest, "seconds": seconds,
             "expect": REFUSE if highest == TOP else max(
                 highest + 1, seconds - begin if begin <= seconds <= begin + TOP else 0)}
            for comment, highest, seconds in entries]


def read_epoch(entry):
    return next_epoch(entry["highest"], entry["seconds"])


def read_locks(entry):
    return {"open_locks": [{"number": number, "done": done} for number, done in State(bytes.fromhex(entry["state"])).open_locks]}


def read_store(entry):
    inode, seconds, nanoseconds, system, path = State(bytes.fromhex(entry["state"])).store
    return {"inode": "%016x" % inode, "seconds": seconds, "nanoseconds": nanoseconds, "file_system": "%016x" % system,
            "path": path.hex()}


def check_more(entry):
    """The writer that a newer state file names; a message if it is wrong."""
    try:
        State(bytes.fromhex(entry["state"]))
    except p.Newer as error:
        if error.writer != entry.get("writer"):
            return "writer: %r" % error.writer
    except p.Refused:
        pass
    return None
