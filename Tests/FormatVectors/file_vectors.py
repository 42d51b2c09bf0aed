"""Backing files: whole, after a crash, damaged, and made by a newer version."""

from common import NEWER, REFUSE, p
from secondreader.files import File, block_fields, capacity, sign_header
from secondreader.keybag import A, B, C, D, INACTIVE
from secondreader.signing import change_block, change_header, seal_page
from secondreader.writer import content, make_file, make_header, make_page, rnd

EPOCH = 0x11223344


class Files:
    """The entries of one suite."""

    def __init__(self, keys, pool):
        self.keys, self.pool, self.result = keys, pool, []

    def add(self, comment, data, expect, bad=(), flip=None):
        """`expect` is the plaintext, or an outcome."""
        entry = {"comment": comment, "suite": self.keys.suite, "backing": split_pages(data, self.pool), "bad_epochs": list(bad)}
        if flip is not None:
            entry["flip"] = flip
        has_header = len(data) >= 4096 and data[:3] == b"PFS"
        read_only = has_header and data[9] & 0x0F
        entry["expect"] = expect if isinstance(expect, str) else {
            "length": len(expect), "hash": p.hash256(expect).hex(), "class": data[4] if has_header else 0,
            **({"read_only": True} if read_only else {})}
        self.result.append(entry)


def split_pages(data, pool):
    """The data as numbers of pages in `pool`; -n stands for n zero bytes."""
    result = []
    for at in range(0, len(data), 4096):
        page = data[at:at + 4096]
        if not any(page):
            result.append(-len(page))
            continue
        if page not in pool:
            pool.append(page)
        result.append(pool.index(page))
    return result


def join_pages(entry, pool):
    data = bytearray(b"".join(pool[number] if number >= 0 else bytes(-number) for number in entry["backing"]))
    if "flip" in entry:
        data[entry["flip"]] ^= 1
    return bytes(data)


def crashes(files):
    keys, add = files.keys, files.add
    epoch = EPOCH
    for number, size in ((A, 0), (B, 1), (C, capacity(keys.suite, 0)), (D, capacity(keys.suite, 0) + 1), (A, 9000),
                         (INACTIVE, 0), (INACTIVE, 9000)):
        data, plain, *_ = make_file(keys, number, 4, "file %d %d" % (number, size), size)
        add("class %d, %d bytes" % (number, size), data, plain)
    data, plain, pages, header, key = make_file(keys, C, 1, "holes", 14000, holes=(1, 2))
    add("holes", data, plain)
    data, plain, pages, header, key = make_file(keys, C, 0, "plain", 14000)
    first, later = capacity(keys.suite, 0), capacity(keys.suite, 1)
    zeroed = data[:4096] + bytes(4096) + data[8192:]
    with_zeros = plain[:first] + bytes(later) + plain[first + later:]
    add("a page zeroed, no epoch ended badly", zeroed, REFUSE)
    add("R4: a page zeroed, its epoch ended badly", zeroed, with_zeros, (epoch,))
    add("a page zeroed, another epoch ended badly", zeroed, REFUSE, (epoch + 1,))
    add("cut, no epoch ended badly", data[:8192], REFUSE)
    add("R3: cut by whole pages", data[:8192], plain[:first + later], (epoch,))
    add("R3: cut with a tail", data[:8192].ljust(8192 + 100, b"\0"), plain[:first + 100], (epoch,))
    add("R3: the extension's ftruncate arrived, its pages did not", data[:12288] + bytes(4096 + 50),
        plain[:first + 2 * later], (epoch,))
    add("two blocks swapped", data[:4096] + data[8192:12288] + data[4096:8192] + data[12288:], REFUSE, (epoch,))
    add("R3: zero pages behind the end need no epoch", data[:16384] + bytes(8192), plain)
    one, one_plain, *_ = make_file(keys, D, 0, "one", 10)
    stale = make_page(keys, *make_header(keys, D, 0, "one"), 1, content("stale", 30), True, epoch, "one")
    add("R1: LAST in page 0 and a page behind it, no epoch", one[:4096] + stale + bytes(30), REFUSE)
    add("R1: LAST in page 0 and a page behind it", one[:4096] + stale + bytes(30), one_plain, (epoch,))
    middle = pages[0] + make_page(keys, header, key, 1, plain[first:first + 7], True, epoch, "middle") + b"".join(pages[2:])
    middle = middle.ljust(len(data), b"\0")
    add("LAST in the middle, no epoch", middle, REFUSE)
    add("R4: LAST in the middle", middle, plain[:first + 7] + bytes(later - 7) + plain[first + later:], (epoch,))
    add("R0: shorter than a page, no epoch", bytes(100), REFUSE)
    add("R0: page 0 is zero", bytes(4096), b"", (epoch,))
    places = block_fields(keys.suite, 0)
    for name, (at, length) in sorted(places.items()) + [("header class", (4, 1)), ("header flags", (8, 2)),
                                                         ("file ID", (16, 16)), ("wrap", (32, 80)), ("MAC", (112, 16))]:
        add("one bit changed: block 0's or header's " + name, one, REFUSE, flip=at + length - 1)
    other = sign_header(keys, one[:4] + bytes([C]) + one[5:128])
    add("another class, header MAC made anew with M, the generation is not one of that class", other + one[128:], NEWER)
    other = sign_header(keys, one[:4] + bytes([C]) + one[5:10] + p.le(keys.bag.generation(C), 2) + one[12:128])
    add("another class, header MAC made anew with M", other + one[128:], REFUSE)


def newer(files):
    """Headers and blocks that verify, with what version 2 does not know; and the same ones with a wrong MAC or tag."""
    keys, add = files.keys, files.add
    data, plain, *_ = make_file(keys, C, 4, "newer", 9000)
    page, rest = data[:4096], data[4096:]
    for comment, changes in (
            ("version 3", {3: b"\3"}), ("version 1", {3: b"\1"}), ("class 5", {4: b"\5"}), ("class 6", {4: b"\6"}), ("class 8", {4: b"\x08"}),
            ("class 7, whose key has another generation", {4: b"\7"}), ("class 0", {4: b"\0"}),
            ("class 200", {4: b"\xc8"}), ("suite 3", {5: b"\3"}), ("the other suite", {5: bytes([3 - keys.suite])}),
            ("block_log2 13", {6: b"\x0d"}), ("compression 1", {7: b"\1"}), ("flag bit 3", {8: b"\x0c"}),
            ("flag bit 7", {8: b"\x84"}), ("generation + 1", {10: p.le(keys.bag.generation(C) + 1, 2)}),
            ("freshness 1", {12: b"\1"}), ("freshness 2^31", {15: b"\x80"}),
            ("a byte after the wrap", {104: b"\1"}), ("the last byte after the wrap", {111: b"\x80"}),
            ("flag bit 7 and a readable-only one", {8: b"\x84\1"})):
        new = change_header(keys, page, changes) + rest
        add("newer: header, " + comment, new, NEWER)
        add("newer: header, %s, and its epoch ended badly" % comment, new, NEWER, (EPOCH,))
        add("header with a wrong MAC: " + comment, new, REFUSE, flip=127)
    for bit in range(8, 16):
        new = change_header(keys, page, {8: p.le(4 | 1 << bit, 2)}) + rest
        add("flag bit %d, which does not hinder reading" % bit, new, plain)
        add("flag bit %d, block 0's tag is wrong" % bit, new, REFUSE, flip=4095)
    for comment, changes in (("version 3", {3: b"\3"}), ("flag bit 8", {8: b"\4\1"}),
                             ("generation + 1", {10: p.le(keys.bag.generation(C) + 1, 2)})):
        for length in (128, 2048, 4095):
            new = change_header(keys, page, changes)[:length]
            add("newer: %d bytes, %s" % (length, comment), new, NEWER)
            add("newer: %d bytes, %s, and an epoch ended badly" % (length, comment), new, NEWER, (EPOCH,))
        add("R0: 2048 bytes, %s, a wrong MAC" % comment, change_header(keys, page, changes)[:2048], b"", (EPOCH,), flip=127)
        add("R0: 127 bytes, %s" % comment, change_header(keys, page, changes)[:127], b"", (EPOCH,))
    add("R0: 2048 bytes with a header of this version", page[:2048], b"", (EPOCH,))
    add("R0: 2048 bytes with a header of this version, no epoch", page[:2048], REFUSE)
    new = change_header(keys, page, {8: p.le(0xFF04, 2)}) + rest
    add("all flag bits that do not hinder reading", new, plain)
    tag, full = 4095, capacity(keys.suite, 1)
    for place, index in (("block 0", 0), ("a middle block", 1), ("the last block", 2)):
        last = index == 2
        at = index * 4096
        for comment, changes in (("flag bit 1", {2: bytes([2 | last])}), ("flag bit 7", {2: bytes([0x80 | last])}),
                                 ("its reserved byte", {3: b"\1"}), ("more than its capacity", {0: p.le(full + 1, 2)}),
                                 ("less than its capacity without LAST", {0: p.le(full - 200, 2), 2: b"\0"})):
            new = change_block(keys, data, index, changes)
            add("newer: %s, %s" % (place, comment), new, NEWER)
            add("newer: %s, %s, and its epoch ended badly" % (place, comment), new, NEWER, (EPOCH,))
            add("wrong tag: %s, %s" % (place, comment), new, REFUSE, flip=at + tag)


def generations(files):
    """Files whose header names a key of its class that new files do not get."""
    keys, add = files.keys, files.add
    for number, size in ((A, 100), (B, 5000), (C, 0), (D, 9000), (INACTIVE, 100)):
        label = "older %d" % number
        header, key = make_header(keys, number, 4, label, generation=9)
        data, plain, *_ = make_file(keys, number, 4, label, size, header=(header, key))
        add("class %d, generation 9 of the bundle" % number, data, plain)
        add("class %d, generation 9, the wrap is wrong" % number, data, REFUSE, flip=70)
    header, key = make_header(keys, A, 4, "older 1", generation=9)
    page = seal_page(keys, header, key, 0, rnd("n", 12 if keys.suite == 1 else 24), p.le(3, 2) + b"\1\0" + p.le(EPOCH, 4), b"abc")
    add("page 0 alone of generation 9", page + bytes(3), b"abc")


def make(keys, pool):
    files = Files(keys, pool)
    crashes(files)
    newer(files)
    generations(files)
    return files.result


def read(entry, keys, pool):
    opened = File(keys[entry["suite"]], join_pages(entry, pool), entry["bad_epochs"])
    plain = opened.contents()
    return {"length": len(plain), "hash": p.hash256(plain).hex(), "class": opened.protection_class or 0,
            **({"read_only": True} if opened.read_only else {})}
