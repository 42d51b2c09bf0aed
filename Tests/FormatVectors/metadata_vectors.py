"""Names, records, links and attributes."""

from common import NEWER, REFUSE, p
from secondreader.signing import (attribute_entries, make_record, seal_long_target, seal_overflow, seal_record, seal_target,
                                  seal_value)
from secondreader.volume import NO_ID, RECORD, Volume
from secondreader.writer import rnd


def wrong_end(text):
    """b64 text with another last byte."""
    data = p.unb64(text.encode())
    return p.b64(data[:-1] + bytes([data[-1] ^ 1])).decode()


def names(volume, directory):
    result = []
    for name in (b"a", b"hello.txt", "gr\u00fc\u00dfe \U0001f511".encode(), b"\xff\xfe", b"x" * 175, b"x" * 176, b"y" * 255):
        backing, companion = volume.encode_name(name, directory)
        result.append({"comment": "%d bytes" % len(name), "directory": directory.hex(), "name": name.hex(),
                       "expect": {"backing": backing.decode(), "companion": companion and companion.decode()}})
    return result


def decoding(volume, directory):
    keys = volume.keys
    short = volume.encode_name(b"hello.txt", directory)[0].decode()
    result = [{"comment": "as written", "directory": directory.hex(), "backing": short, "expect": b"hello.txt".hex()},
              {"comment": "in another directory", "directory": rnd("other", 16).hex(), "backing": short, "expect": REFUSE},
              {"comment": "one character changed", "directory": directory.hex(),
               "backing": short[:-3] + ("A" if short[-3] != "A" else "B") + short[-2:], "expect": REFUSE}]
    for bad in (b"", b".", b"..", b"a/b", b"a\0b"):
        result.append({"comment": "decrypts to %r" % bad, "directory": directory.hex(), "expect": REFUSE,
                       "backing": volume._seal_name(bad, directory, keys.name_iv, keys.name_cipher).decode()})
    return result


def records(keys, directory):
    result = []

    def add(comment, target, default=None, **more):
        expect = {"directory": directory.hex(), "default_class": default, **more} if isinstance(default, int) else default
        result.append({"comment": comment, "target": target, "expect": expect})

    for default in (0, 1, 2, 3, 4, 7):
        add("default class %d" % default, make_record(keys, directory, default).decode(), default)
    for comment, changes, more in (
            ("version 3", {3: b"\3"}, b""), ("version 1", {3: b"\1"}, b""), ("default class 5", {4: b"\5"}, b""),
            ("default class 6", {4: b"\6"}, b""), ("default class 8", {4: b"\x08"}, b""),
            ("default class 255", {4: b"\xff"}, b""), ("flag bit 0", {5: b"\1"}, b""),
            ("flag bit 3", {5: b"\x08"}, b""), ("flag bits 3 and 4", {5: b"\x18"}, b""), ("generation 1", {6: b"\1"}, b""),
            ("generation 256", {7: b"\1"}, b""), ("freshness 1", {8: b"\1"}, b""), ("freshness 2^31", {11: b"\x80"}, b""),
            ("one byte longer", {}, b"\0"), ("100 bytes longer, version 9", {3: b"\x09"}, bytes(100))):
        target = make_record(keys, directory, 3, changes, more).decode()
        result.append({"comment": "newer: " + comment, "target": target, "expect": NEWER, "directory": directory.hex()})
        result.append({"comment": "MAC is wrong: " + comment, "target": wrong_end(target), "expect": REFUSE})
    for bit in (4, 5):
        add("flag bit %d: readable only" % bit, make_record(keys, directory, 2, {5: bytes([1 << bit])}).decode(), 2, read_only=True)
    for bit in (6, 7):
        add("flag bit %d: kept" % bit, make_record(keys, directory, 2, {5: bytes([1 << bit])}).decode(), 2)
    add("MAC is wrong", wrong_end(make_record(keys, directory, 4).decode()), REFUSE)
    add("43 bytes", p.b64(p.unb64(make_record(keys, directory, 4))[1:]).decode(), REFUSE)
    add("empty", "", REFUSE)
    return result


def sealed(comment, kind, made, value):
    """Version 2, others, and a byte changed: `made` gives what is stored for a version."""
    good = made(2)
    result = [{"comment": comment, **kind, "stored": good, "expect": value.hex()}]
    for version in (0, 1, 4, 255):
        result.append({"comment": "newer: version byte %d" % version, **kind, "stored": made(version), "expect": NEWER})
    return result


def long_targets(keys, nonce):
    """Targets in overflow objects: the links."""
    identifier = rnd("overflow", 16)
    long = seal_long_target(keys, identifier, 4095, nonce=nonce).decode()
    result = [{"comment": "in an overflow object, %d bytes" % length, "expect": {"overflow": identifier.hex(), "length": length},
               "stored": seal_long_target(keys, identifier, length, nonce=nonce).decode()} for length in (1, 3031, 4095)]
    for comment, link in (
            ("no length", seal_long_target(keys, identifier, 0, nonce=nonce)),
            ("4096 bytes", seal_long_target(keys, identifier, 4096, nonce=nonce)),
            ("a form of 508 bytes", seal_long_target(keys, identifier, 4000, nonce=nonce, form=508)),
            ("a form of 510 bytes", seal_long_target(keys, identifier, 4000, nonce=nonce, form=510)),
            ("a byte of the form is not zero", seal_target(keys, (identifier + p.le(4000, 4)).ljust(508, b"\0") + b"\1", 3, nonce)),
            ("a short form", seal_target(keys, b"../target", 3, nonce)),
            ("version byte 4", seal_long_target(keys, identifier, 4000, 4, nonce))):
        result.append({"comment": "newer: in an overflow object, " + comment, "stored": link.decode(), "expect": NEWER})
    result.append({"comment": "in an overflow object, changed", "stored": wrong_end(long), "expect": REFUSE})
    return result


def overflow(keys):
    """Overflow objects."""
    identifier, nonce, content = rnd("overflow", 16), rnd("overflow nonce", 24), (b"/" + rnd("target", 62).hex().encode()) * 33
    kind = {"overflow": identifier.hex(), "length": len(content)}
    result = sealed("%d bytes" % len(content), kind, lambda version: seal_overflow(keys, identifier, content, version, nonce).hex(), content)
    good = seal_overflow(keys, identifier, content, nonce=nonce)
    for comment, changes in (
            ("another object's name", {"overflow": rnd("another", 16).hex()}), ("another length", {"length": len(content) - 1}),
            ("changed", {"stored": (good[:-1] + bytes([good[-1] ^ 1])).hex()}), ("cut", {"stored": good[:-1].hex()}),
            ("longer", {"stored": (good + b"\0").hex()}), ("empty", {"stored": ""})):
        result.append({"comment": comment, **kind, "stored": good.hex(), "expect": REFUSE, **changes})
    return result


def attribute_records(keys, volume):
    """Records of attributes: what the store's attribute holds, and the attributes in it."""
    result, nonce, identifier = [], rnd("record nonce", 24), rnd("overflow", 16)
    values = [(b"security.x", b"\0"), (b"user.a", b"value"), (b"user.b", b""), (b"user." + b"n" * 250, bytes(range(256)))]
    entries = attribute_entries(values)
    expect = {name.hex(): value.hex() for name, value in values}

    def add(comment, form, expect, owner=rnd("owner", 16), version=3, **more):
        result.append({"comment": comment, "owner": owner.hex(), "backing": volume.encode_xattr(RECORD, owner).decode(),
                       "stored": seal_record(keys, owner, form, version, nonce).hex(), "expect": expect, **more})

    add("four attributes", b"\0" + entries, {"attributes": expect})
    add("of a symlink", b"\0" + attribute_entries([(b"trusted.x", b"y")]), {"attributes": {b"trusted.x".hex(): b"y".hex()}}, NO_ID)
    add("an overflow object", b"\1" + identifier + p.le(70000, 4), {"overflow": identifier.hex(), "length": 70000})
    add("the longest overflow object", b"\1" + identifier + p.le(1 << 20, 4), {"overflow": identifier.hex(), "length": 1 << 20})
    for comment, form in (
            ("form 2", b"\2" + entries), ("no attribute", b"\0"), ("nothing", b""), ("no reference", b"\1"),
            ("a short reference", b"\1" + identifier + p.le(5, 3)), ("a long reference", b"\1" + identifier + p.le(5, 5)),
            ("too long an overflow object", b"\1" + identifier + p.le((1 << 20) + 1, 4)), ("a byte more", b"\0" + entries + b"\0"),
            ("a byte less", b"\0" + entries[:-1]), ("six bytes more", b"\0" + entries + bytes(6)),
            ("not in order", b"\0" + attribute_entries([(b"user.b", b""), (b"user.a", b"")])),
            ("a name twice", b"\0" + attribute_entries([(b"user.a", b""), (b"user.a", b"")])),
            ("a zero byte in a name", b"\0" + attribute_entries([(b"user.\0", b"")])),
            ("a longer value than there is", b"\0" + b"\6\1\0\1\0user.a")):
        add("newer: " + comment, form, NEWER)
    add("newer: version byte 2", b"\0" + entries, NEWER, version=2)
    add("newer: version byte 4", b"\0" + entries, NEWER, version=4)
    good = bytes.fromhex(result[0]["stored"])
    add("changed", b"\0" + entries, REFUSE, stored=(good[:-1] + bytes([good[-1] ^ 1])).hex())
    add("cut", b"\0" + entries, REFUSE, stored=good[:40].hex())
    add("another object's", b"\0" + entries, REFUSE, rnd("o", 16), stored=good.hex())
    return result


def make(keys):
    volume = Volume("/", keys)
    directory, owner, nonce = rnd("directory", 16), rnd("owner", 16), rnd("link", 24)
    link = seal_target(keys, b"../target", nonce=nonce).decode()
    relabelled = p.b64(b"\4" + p.unb64(link.encode())[1:]).decode()
    value = seal_value(keys, owner, b"user.comment", b"value", nonce=nonce)
    attribute = {"owner": owner.hex(), "name": b"user.comment".hex(),
                 "backing": volume.encode_xattr(b"user.comment", owner).decode()}
    links = sealed("a target", {}, lambda version: seal_target(keys, b"../target", version, nonce).decode(), b"../target")
    links += [{"comment": "changed", "stored": wrong_end(link), "expect": REFUSE},
              {"comment": "another version byte, not sealed again", "stored": relabelled, "expect": REFUSE},
              {"comment": "cut", "stored": p.b64(p.unb64(link.encode())[:40]).decode(), "expect": REFUSE},
              {"comment": "empty", "stored": "", "expect": REFUSE}]
    links += long_targets(keys, nonce)
    attributes = sealed("a value", attribute, lambda version: seal_value(
        keys, owner, b"user.comment", b"value", version, nonce).hex(), b"value")
    attributes += [{**attribute, "comment": "another object", "owner": rnd("o", 16).hex(), "stored": value.hex(), "expect": REFUSE},
                   {**attribute, "comment": "changed", "stored": (value[:-1] + bytes([value[-1] ^ 1])).hex(), "expect": REFUSE},
                   {**attribute, "comment": "another version byte, not sealed again", "stored": (b"\4" + value[1:]).hex(),
                    "expect": REFUSE},
                   {**attribute, "comment": "cut", "stored": value[:40].hex(), "expect": REFUSE},
                   {**attribute, "comment": "empty", "stored": "", "expect": REFUSE}]
    of_link = {"owner": NO_ID.hex(), "name": b"trusted.comment".hex(),
               "backing": volume.encode_xattr(b"trusted.comment", NO_ID).decode()}
    stored = seal_value(keys, NO_ID, b"trusted.comment", b"value", nonce=nonce)
    attributes += sealed("a value, of a symlink or special file", of_link, lambda version: seal_value(
        keys, NO_ID, b"trusted.comment", b"value", version, nonce).hex(), b"value")
    attributes += [{**of_link, "comment": "of a symlink, under the prefix of files", "expect": REFUSE,
                    "backing": of_link["backing"].replace("trusted.pfs.", "user.pfs."), "stored": stored.hex()},
                   {**attribute, "comment": "of a file, under the prefix of symlinks", "expect": REFUSE,
                    "backing": attribute["backing"].replace("user.pfs.", "trusted.pfs."), "stored": value.hex()}]
    return {
        "metadata_keys": [{"comment": "from M", "M": keys.keys[16].hex(), "UUID": keys.uuid.hex(),
                           "expect": {"header": keys.header.hex(), "root_id": keys.root_id.hex()}}],
        "name": names(volume, directory), "name_decoding": decoding(volume, directory), "record": records(keys, directory),
        "symlink": links, "xattr": attributes, "overflow": overflow(keys),
        "xattr_record": attribute_records(keys, volume),
    }


def readers(keys):
    """How each of these kinds is read."""
    x, volume = bytes.fromhex, Volume("/", keys)

    def name(entry):
        backing, companion = volume.encode_name(x(entry["name"]), x(entry["directory"]))
        return {"backing": backing.decode(), "companion": companion and companion.decode()}

    def record(entry):
        found = volume.parse_record(entry["target"].encode())
        if found.default is None:
            return NEWER if found.id.hex() == entry["directory"] else found
        return {"directory": found.id.hex(), "default_class": found.default, **({"read_only": True} if found.newer else {})}

    def xattr(entry):
        owner, stored = x(entry["owner"]), x(entry["stored"])
        opened = volume.decode_xattr(entry["backing"].encode(), owner)
        if opened is None:
            return REFUSE
        return volume.xattr_value(stored, owner, opened).hex()

    def record_of_attributes(entry):
        found = volume.xattr_record(x(entry["stored"]), x(entry["owner"]))
        if isinstance(found, tuple):
            return {"overflow": found[0].hex(), "length": found[1]}
        return {"attributes": {name.hex(): value.hex() for name, value in volume.xattr_entries(found).items()}}

    def symlink(entry):
        form = volume.link_form(entry["stored"].encode())
        return form.hex() if isinstance(form, bytes) else {"overflow": form[0].hex(), "length": form[1]}

    return {
        "metadata_keys": lambda e: {"header": p.kdf(x(e["M"]), "header", x(e["UUID"])).hex(),
                                    "root_id": p.kdf(x(e["M"]), "root-id", x(e["UUID"]))[:16].hex()},
        "name": name, "record": record, "xattr": xattr, "xattr_record": record_of_attributes,
        "name_decoding": lambda e: volume.decode_name(e["backing"].encode(), b"/", x(e["directory"])).hex(),
        "symlink": symlink, "overflow": lambda e: volume.overflow_content(
            x(e["stored"]), x(e["overflow"]), e["length"]).hex(),
    }
