"""The writing half of the specification, for vectors and tests: every "random" byte comes from a hash of a label."""

import hashlib
import os

from . import primitives as p
from .files import capacity, length_of_size
from .keybag import A, ALL_KEYS, B, BIND_DEVICE, C, D, INACTIVE, M, SPARE, U, BundleEntry, Keybag, Keys
from .signing import (attribute_entries, join_keybag, make_record, make_slot, seal_long_target, seal_overflow, seal_page,
                      seal_record, seal_target, seal_value, wrap_header)
from .volume import RECORD, Volume

PASSPHRASE, DEVICE_KEY = b"correct horse", hashlib.blake2b(b"device key", digest_size=32).digest()


def rnd(label, length):
    return hashlib.blake2b(label.encode(), digest_size=length).digest()


RECOVERY = rnd("recovery", 16)


def make_keybag(suite):
    """A keybag of one device slot, a bound passphrase slot and a recovery slot; gives its keys by type too."""
    uuid = rnd("uuid %d" % suite, 16)
    keys = {number: rnd("key %d" % number, 32) for number in ALL_KEYS}
    generations = {M: 0, U: 0, SPARE: 0, A: 1, B: 2, C: 3, D: 4, INACTIVE: 5}
    full = [BundleEntry.make(number, generations[number], keys[number]) for number in ALL_KEYS]
    # Older keys, which files may still have; and one of a later feature.
    full += [BundleEntry.make(number, 9, rnd("older key %d" % number, 32), int(number == D))
             for number in (A, B, C, D, INACTIVE)]
    full += [BundleEntry.make(40, 3, rnd("key 40", 32), 0x80, b"kept")]
    device = [entry for entry in full if entry.flags & 1]
    label = p.make_tlvs([(1, "a label \u00fc".encode()), (2, p.le(1_700_000_000, 8))])
    slots = [
        make_slot(uuid, 1, 1, 0, DEVICE_KEY, device, seed="slot"),
        make_slot(uuid, 2, 2, BIND_DEVICE, PASSPHRASE, full, DEVICE_KEY, argon=True, ext=label, seed="slot"),
        make_slot(uuid, 4, 3, 0, RECOVERY, full, seed="slot"),
    ]
    header = (b"PFSKBAG1" + p.le(2, 2) + p.le(128, 2) + bytes([suite, 12, 1, 0]) + uuid + p.le(7, 8) + p.le(0, 4)
              + p.le(0, 4) + b"".join(p.le(number, 2) for number in (0, 1, 2, 3, 4, 0, 0, 5))
              + p.x25519_public(keys[B]) + bytes(32))
    entries = [(1, b"second reader 2"), (0x7001, b"abc")]
    return join_keybag(header, slots, p.make_tlvs(entries), keys[M], keys[U]), keys


def make_header(keys, number, flags, label, generation=None):
    identifier, key = rnd("id " + label, 16), rnd("file key " + label, 32)
    generation = keys.bag.generation(number) if generation is None else generation
    header = (b"PFS\x02" + bytes([number, keys.suite, 12, 0]) + p.le(flags, 2) + p.le(generation, 2) + bytes(4) + identifier)
    return wrap_header(keys, header, key, rnd("wrap " + label, 32)), key


def make_page(keys, header, key, index, payload, last, epoch, label):
    """A block; it is not checked here whether version 2 would write it like that."""
    nonce = rnd("nonce %s %d %d" % (label, index, epoch), 12 if keys.suite == 1 else 24)
    field = p.le(len(payload), 2) + bytes([int(last), 0]) + p.le(epoch, 4)
    return seal_page(keys, header, key, index, nonce, field, payload)


def content(label, length):
    return hashlib.shake_128(label.encode()).digest(length)


def make_file(keys, number, flags, label, size, epoch=0x11223344, holes=(), header=None):
    """Backing file and plaintext; `header` is one that make_header gave."""
    header, key = header or make_header(keys, number, flags, label)
    data, pages, at, index = content(label, size), [], 0, 0
    plain = b""
    while True:
        full = capacity(keys.suite, index)
        payload, last = data[at:at + full], at + full >= size
        if index in holes:
            payload = bytes(full)
            pages.append(bytes(4096))
        else:
            pages.append(make_page(keys, header, key, index, payload, last, epoch, label))
        plain += payload
        at, index = at + full, index + 1
        if last:
            return b"".join(pages).ljust(length_of_size(keys.suite, size), b"\0"), plain, pages, header, key


class Writer:
    """Makes a whole volume below an empty directory."""

    def __init__(self, root, suite):
        data, secrets = make_keybag(suite)
        self.root = os.fsencode(root)
        with open(os.path.join(root, ".protectfs.keybag"), "wb") as file:
            file.write(data)
        bag = Keybag(data)
        self.keys = Keys(bag, [BundleEntry.make(kind, bag.generation(kind), key) for kind, key in secrets.items()])
        self.volume = Volume(root, self.keys)
        os.symlink(make_record(self.keys, self.keys.root_id), os.path.join(self.root, b".protectfs.dir"))

    def _place(self, path):
        """Backing path of a new entry, its companion made."""
        parent, name = os.path.split(os.fsencode(path))
        directory = self.volume.backing_path(parent)
        backing, companion = self.volume.encode_name(name, self.volume.record(directory)[0])
        if companion is not None:
            os.symlink(companion, os.path.join(directory, backing + b".n"))
        return os.path.join(directory, backing)

    def directory(self, path, default=0):
        place = self._place(path)
        os.mkdir(place)
        os.symlink(make_record(self.keys, rnd("directory " + path, 16), default), os.path.join(place, b".protectfs.dir"))

    def file(self, path, number, size, flags=0, holes=()):
        """A file of class `number`; gives its plaintext."""
        data, plain, *_ = make_file(self.keys, number, flags | bool(holes), path, size, holes=holes)
        with open(self._place(path), "wb") as file:
            file.write(data.rstrip(b"\0"))
            file.truncate(len(data))
        return plain

    def symlink(self, path, target):
        os.symlink(seal_target(self.keys, target, nonce=rnd("link " + path, 24)), self._place(path))

    def long_symlink(self, path, target):
        """A symlink whose target is an overflow object."""
        os.symlink(seal_long_target(self.keys, self._overflow(path, target), len(target), nonce=rnd("link " + path, 24)),
                   self._place(path))

    def _overflow(self, label, content):
        """The ID of a new overflow object."""
        identifier, place = rnd("overflow " + label, 16), os.path.join(self.root, b".protectfs.overflow")
        os.makedirs(place, exist_ok=True)
        with open(os.path.join(place, p.b64(identifier)), "wb") as file:
            file.write(seal_overflow(self.keys, identifier, content, nonce=rnd("content " + label, 24)))
        return identifier

    def attribute(self, path, owner, name, value):
        os.setxattr(self.volume.backing_path(path), self.volume.encode_xattr(name, owner),
                    seal_value(self.keys, owner, name, value, nonce=rnd("xattr " + path, 24)), follow_symlinks=False)

    def attribute_record(self, path, owner, values, is_overflow):
        """Attributes that are stored together."""
        record = attribute_entries(sorted(values.items()))
        form = b"\0" + record
        if is_overflow:
            form = b"\1" + self._overflow("record " + path, record) + p.le(len(record), 4)
        os.setxattr(self.volume.backing_path(path), self.volume.encode_xattr(RECORD, owner),
                    seal_record(self.keys, owner, form, nonce=rnd("record " + path, 24)), follow_symlinks=False)
