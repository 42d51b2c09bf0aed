"""The writing half of the specification, for vectors and tests: every "random" byte comes from a hash of a label."""

import hashlib
import os

from . import primitives as p
from .files import capacity, length_of_size, sign_header
from .keybag import A, B, C, D, M, U, Keybag, Keys, sign_keybag
from .volume import Volume

PASSPHRASE, DEVICE_KEY = b"correct horse", hashlib.blake2b(b"device key", digest_size=32).digest()


def rnd(label, length):
    return hashlib.blake2b(label.encode(), digest_size=length).digest()


RECOVERY = rnd("recovery", 16)


def make_slot(uuid, number, kind, flags, material, entries, argon=False):
    passes, memory = (1, 8 << 20) if argon else (0, 0)
    salt = rnd("salt %d" % number, 16)
    if argon:
        material = p.argon2id(material, salt, passes, memory)
    context = uuid + p.le(number, 4) + bytes([kind]) + salt + (DEVICE_KEY if flags & 1 else b"")
    secret = p.kdf(material, "slot", context)
    head = (p.le(104 + 40 * len(entries) + 16, 2) + bytes([kind, flags]) + p.le(number, 4)
            + bytes([int(argon), len(entries), 0, 0]) + p.le(passes, 4) + p.le(memory, 8) + bytes(8) + salt
            + p.kdf(secret, "slot-commit") + rnd("nonce %d" % number, 24))
    bundle = b"".join(bytes([kind, 0]) + p.le(generation, 2) + bytes(4) + key for kind, generation, key in entries)
    return head + p.xchacha_seal(p.kdf(secret, "slot-wrap"), head[80:104], b"protectfs1/slot\0" + uuid + head, bundle)


def make_keybag(suite):
    uuid = rnd("uuid %d" % suite, 16)
    keys = {number: rnd("key %d" % number, 32) for number in (A, B, C, D, M, U)}
    generations = {M: 0, U: 0, A: 1, B: 2, C: 3, D: 4}
    full = [(number, generations[number], keys[number]) for number in (A, B, C, D, M, U)]
    slots = [
        make_slot(uuid, 1, 1, 0, DEVICE_KEY, [full[3], full[4]]),
        make_slot(uuid, 2, 2, 1, PASSPHRASE, full, argon=True),
        make_slot(uuid, 4, 3, 0, RECOVERY, full),
    ]
    tlv = p.le(0x7001, 2) + p.le(3, 2) + b"abc"
    length = 128 + sum(map(len, slots)) + len(tlv) + 64
    header = (b"PFSKBAG1" + p.le(1, 2) + p.le(128, 2) + bytes([suite, 12, 1, 0]) + uuid + p.le(7, 8) + p.le(0, 4)
              + p.le(0, 4) + b"".join(p.le(number, 2) for number in (0, 1, 2, 3, 4, 0, 0, 0))
              + p.x25519_public(keys[B]) + p.le(length, 4) + p.le(len(slots), 2) + p.le(len(tlv), 2) + bytes(24))
    return sign_keybag(header + b"".join(slots) + tlv + bytes(64), keys[M], keys[U]), keys


def make_header(keys, number, flags, label):
    identifier, key = rnd("id " + label, 16), rnd("file key " + label, 32)
    header = (b"PFS\x01" + bytes([number, keys.suite, 12, 0]) + p.le(flags, 2)
              + p.le(keys.bag.generations[number], 2) + bytes(4) + identifier)
    data = keys.wrap_data(header)
    if number == B:
        wrapped = p.hpke_seal(keys.bag.pk, rnd("ephemeral " + label, 32), keys.hpke_info(), data, key)
    else:
        nonce = rnd("wrap nonce " + label, 24)
        wrapped = nonce + p.xchacha_seal(keys.wrap_key(number), nonce, data, key) + bytes(8)
    return sign_header(keys, header + wrapped + bytes(16)), key


def make_page(keys, header, key, index, payload, last, epoch, label):
    suite = keys.suite
    nonce = rnd("nonce %s %d %d" % (label, index, epoch), 12 if suite == 1 else 24)
    field = p.le(len(payload), 2) + bytes([int(last), 0]) + p.le(epoch, 4)
    data = header[16:32] + p.le(index, 8) + field + bytes([suite, 12, 0, 0]) + (header[:32] if index == 0 else b"")
    sealed = p.block_seal(suite, keys.extent_key(key, epoch, index), nonce, data,
                          payload.ljust(capacity(suite, index), b"\0"))
    return (header if index == 0 else b"") + nonce + field + sealed


def content(label, length):
    return hashlib.shake_128(label.encode()).digest(length)


def make_file(keys, number, flags, label, size, epoch=0x11223344, holes=()):
    """Backing file and plaintext."""
    header, key = make_header(keys, number, flags, label)
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


def make_record(keys, identifier, default=0):
    """The target of a directory's record."""
    data = b"PFD\x01" + bytes([default]) + bytes(7) + identifier
    return p.b64(data + p.mac(keys.record, data, 16))


def seal_target(keys, target):
    nonce = rnd("link " + target.hex(), 24)
    return p.b64(nonce + p.xchacha_seal(keys.symlink, nonce, b"", target))


class Writer:
    """Makes a whole volume below an empty directory."""

    def __init__(self, root, suite):
        data, secrets = make_keybag(suite)
        self.root = os.fsencode(root)
        with open(os.path.join(root, ".protectfs.keybag"), "wb") as file:
            file.write(data)
        self.keys = Keys(Keybag(data), secrets)
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
        os.symlink(seal_target(self.keys, target), self._place(path))

    def attribute(self, path, owner, name, value):
        nonce = rnd("xattr " + path, 24)
        sealed = nonce + p.xchacha_seal(self.keys.xattr_value, nonce, owner + name, value)
        os.setxattr(self.volume.backing_path(path), self.volume.encode_xattr(name, owner), sealed)
