"""State files as bytes: what a test changes in them (docs/judge/volume-format.md, section 4.1)."""

import glob
import hashlib
import os

HEADER, HASH, VERSION = 128, 32, 2
TOLERATE_ALL, UNPINNED = 1, 2
EPOCHS, STORE, CLASS_KEYS = 2, 4, 5
LAST = (1 << 32) - 1


def number(data, at, length):
    return int.from_bytes(data[at:at + length], "little")


def little(value, length):
    return value.to_bytes(length, "little")


def signed(data):
    """The bytes with whole length and hash made anew."""
    body = data[:12] + little(len(data), 4) + data[16:-HASH]
    return body + hashlib.blake2b(body, digest_size=HASH).digest()


def values(data):
    """The TLVs, as (type, value)."""
    found, at = [], number(data, 10, 2)
    while at < len(data) - HASH:
        end = at + 6 + number(data, at + 2, 4)
        found.append((number(data, at, 2), data[at + 6:end]))
        at = end
    return found


def value(data, kind):
    return dict(values(data)).get(kind)


def changed(data, fields=None, tlvs=None, rest=b""):
    """Other bytes of the header (offset -> bytes) and other TLVs (type -> value, or None for none), and a right hash.

    `rest` is put behind the header, which gets longer.
    """
    header = bytearray(data[:number(data, 10, 2)] + rest)
    header[10:12] = little(len(header), 2)
    for at, new in (fields or {}).items():
        header[at:at + len(new)] = new
    found = dict(values(data))
    found.update(tlvs or {})
    text = b"".join(little(kind, 2) + little(len(new), 4) + new for kind, new in found.items() if new is not None)
    return signed(bytes(header) + text + bytes(HASH))


def changed_list(uuid, epoch, began, inodes, length=128 + 16 * 4096):
    """A list of changed files (docs/judge/volume-format.md, section 4.2)."""
    fields = (b"PFSCHNG1" + little(VERSION, 2) + bytes(2) + little(length, 4) + uuid + little(epoch, 4) + bytes(4)
              + little(began, 8) + bytes(48))
    head = hashlib.blake2b(fields, digest_size=HASH).digest()
    check, entries = bytes(8), b""
    for inode in inodes:
        check = hashlib.blake2b(head + check + little(inode, 8), digest_size=HASH).digest()[:8]
        entries += little(inode, 8) + check
    return (fields + head + entries).ljust(length, b"\0")


def highest(data):
    return number(data, 120, 4)


def open_epochs(data):
    found = value(data, EPOCHS) or b""
    return [number(found, at, 4) for at in range(0, len(found), 4)]


def flags(data):
    return number(data, 116, 4)


def directory(volume):
    return os.path.join(volume.data, "protectfs")


def path(volume):
    """The state file of a volume that this machine has seen once."""
    found, = glob.glob(os.path.join(directory(volume), "*.state"))
    return found


def read(place):
    with open(place, "rb") as file:
        return file.read()


def put(place, data):
    with open(place, "wb") as file:
        file.write(data)


def forget_store(place):
    """Takes out of a state file which store it belongs to: the next one that is seen takes it over."""
    put(place, changed(read(place), tlvs={STORE: None}))
