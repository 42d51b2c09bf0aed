"""Makes any object of a volume anew, with MACs and tags that are right: as a newer version, or someone with keys, would."""

import os

from . import primitives as p
from .files import PAGE, block_fields, capacity, sign_header
from .keybag import B, BIND_DEVICE, M, U, BundleEntry, Keybag, sign_keybag


def changed(data, changes):
    """The bytes with other ones: offset -> bytes; offsets below zero count from the end."""
    data = bytearray(data)
    for at, value in (changes or {}).items():
        at += len(data) if at < 0 else 0
        data[at:at + len(value)] = value
    return bytes(data)


# Keybags and slots.

def make_slot(uuid, number, kind, flags, material, entries, device_key=None, argon=False, ext=b"", changes=None, seed=None):
    """A slot; `changes` (offset -> bytes) are made before the bundle is sealed, which covers them."""
    def random(label, length):
        return os.urandom(length) if seed is None else p.mac(seed.encode(), b"%s %d" % (label.encode(), number), length)
    passes, memory, salt = (1, 8 << 20, random("salt", 16)) if argon else (0, 0, random("salt", 16))
    if argon:
        material = p.argon2id(material, salt, passes, memory)
    secret = p.kdf(material, "slot", uuid + p.le(number, 4) + bytes([kind]) + salt + (device_key if flags & BIND_DEVICE else b""))
    head = (p.le(104 + len(ext) + 40 * len(entries) + 16, 2) + bytes([kind, flags]) + p.le(number, 4)
            + bytes([int(argon), len(entries)]) + p.le(len(ext), 2) + p.le(passes, 4) + p.le(memory, 8) + bytes(8) + salt
            + p.kdf(secret, "slot-commit") + random("nonce", 24) + ext)
    return seal_slot(uuid, secret, changed(head, changes), entries)


def make_recipient_slot(uuid, number, public, entries, seed, ext=b"", other=None):
    """A slot for a recipient; with `other`, its material is encrypted to this key in place of the one that it names."""
    material, ephemeral = (p.mac(seed.encode(), b"%s %d" % (label, number), 32) for label in (b"material", b"ephemeral"))
    salt = p.mac(seed.encode(), b"salt %d" % number, 16)
    sealed = p.hpke_seal(other or public, ephemeral, b"protectfs1/recipient\0" + uuid + public,
                         uuid + p.le(number, 4) + b"\6" + salt, material)
    return make_slot(uuid, number, 6, 0, material, entries, ext=ext + p.make_tlvs([(3, public + sealed)]), seed=seed)


def tpm2_value(pcrs=1 << 7, pin=False, public=bytes(80), private=bytes(160), name=b"\0\x0b" + bytes(32), flags=None):
    """The TLV of a TPM's slot."""
    return (bytes([pin if flags is None else flags, 0]) + p.le(0xb, 2) + p.le(pcrs, 4) + bytes(16) + name +
            p.le(len(public), 2) + public + p.le(len(private), 2) + private)


def make_tpm2_slot(uuid, number, material, entries, seed, device_key=None, value=None, ext=b""):
    """A slot for a TPM that gives `material`."""
    return make_slot(uuid, number, 4, 0 if device_key is None else 1, material, entries, device_key=device_key,
                     ext=ext + p.make_tlvs([(4, tpm2_value() if value is None else value)]), seed=seed)


def seal_slot(uuid, secret, head, entries):
    """The slot from its bytes before the bundle and the bundle's entries; its lengths as these say."""
    return head + p.xchacha_seal(p.kdf(secret, "slot-wrap"), head[80:104], b"protectfs1/slot\0" + uuid + head,
                                 b"".join(entry.data for entry in entries))


def reseal_slot(uuid, slot, material, device_key=None, changes=None, entries=None, ext=None):
    """A slot that this material opens, with other bytes before its bundle, other entries, or other TLVs."""
    secret = slot.open_secret(uuid, material, device_key)
    entries = slot.open(uuid, material, device_key) if entries is None else entries
    ext = slot.data[104:slot.bundle_offset] if ext is None else ext
    head = changed(slot.data[:104], {
        0: p.le(104 + len(ext) + 40 * len(entries) + 16, 2), 9: bytes([len(entries)]), 10: p.le(len(ext), 2)})
    return seal_slot(uuid, secret, changed(head, changes) + ext, entries)


def open_any(uuid, data, material):
    """The entries of a slot that make_slot made, whatever version 2 thinks of its kind, flags and parameters."""
    ext = p.u16(data, 10)
    secret = p.kdf(material, "slot", uuid + data[4:8] + data[2:3] + data[32:48])
    plain = p.xchacha_open(p.kdf(secret, "slot-wrap"), data[80:104], b"protectfs1/slot\0" + uuid + data[:104 + ext],
                           data[104 + ext:])
    return [BundleEntry(plain[at:at + 40]) for at in range(0, len(plain), 40)]


def join_keybag(header, slots, tlvs, metadata_key, unlock_key):
    """A keybag from the first 128 bytes, in which lengths and counts are made anew, and its parts."""
    body = header[:128] + b"".join(slots) + tlvs + bytes(64)
    body = changed(body, {96: p.le(len(body), 4), 100: p.le(len(slots), 2), 108: p.le(len(tlvs), 4)})
    return sign_keybag(body, metadata_key, unlock_key)


def remake_keybag(data, keys, changes=None, slots=None, tlvs=None):
    """A keybag with other bytes in its header, other slots or other TLVs (type, value), both MACs made anew."""
    bag = Keybag(data)
    slots = [slot.data for slot in bag.slots] if slots is None else slots
    tlvs = bag.tlvs if tlvs is None else tlvs
    return join_keybag(changed(data[:128], changes), slots, p.make_tlvs(tlvs), keys.keys[M], keys.keys[U])


def add_entries(data, keys, secrets, added, changes=None):
    """A keybag whose full slots hold more keys; `secrets` is (kind of slot -> material, device key)."""
    materials, device_key = secrets
    bag, slots = Keybag(data), []
    for slot in bag.slots:
        entries = slot.open(bag.uuid, materials[slot.kind], device_key)
        entries = entries + [entry for entry in added if slot.kind != 1 or entry.flags & 1]
        slots.append(reseal_slot(bag.uuid, slot, materials[slot.kind], device_key, entries=entries))
    return remake_keybag(data, keys, changes, slots)


def raise_generation(data, keys, secrets, number, generation, key):
    """A keybag with a second key of a class, which its header names for new wraps."""
    changes = {48 + 2 * number: p.le(generation, 2)}
    if number == B:
        changes[64] = p.x25519_public(key)
    return add_entries(data, keys, secrets, [BundleEntry.make(number, generation, key)], changes)


# Headers and blocks.

def wrap_header(keys, header, key, seed=None):
    """The whole header from its first 32 bytes: the file key wrapped under the class and the generation that they name."""
    seed = seed or os.urandom(32)
    number, generation, data = header[4], p.u16(header, 10), keys.wrap_data(header)
    if number == B:
        public = p.x25519_public(keys.class_key(B, generation))
        wrapped = p.hpke_seal(public, seed, keys.hpke_info(generation), data, key)
    else:
        wrapped = seed[:24] + p.xchacha_seal(keys.wrap_key(number, generation), seed[:24], data, key) + bytes(8)
    return sign_header(keys, header[:32] + wrapped + bytes(16))


def seal_page(keys, header, key, index, nonce, field, payload):
    suite = keys.suite
    data = header[16:32] + p.le(index, 8) + field + bytes([suite, 12, 0, 0]) + (header[:32] if index == 0 else b"")
    sealed = p.block_seal(suite, keys.extent_key(key, p.u32(field, 4), index), nonce, data,
                          payload.ljust(capacity(suite, index), b"\0"))
    return (header if index == 0 else b"") + nonce + field + sealed


def open_page(keys, header, key, index, page):
    """Nonce, field and the plaintext to the block's capacity, whatever the field says."""
    places = block_fields(keys.suite, index)
    nonce, field = (page[at:at + length] for at, length in ((places["nonce"]), (places["payload length"][0], 8)))
    data = header[16:32] + p.le(index, 8) + field + bytes([keys.suite, 12, 0, 0]) + (header[:32] if index == 0 else b"")
    plain = p.block_open(keys.suite, keys.extent_key(key, p.u32(field, 4), index), nonce, data, page[places["ciphertext"][0]:])
    return nonce, field, plain


def change_header(keys, page, changes):
    """Page 0 with other bytes in the header's first 112, all that covers them made anew: wrap, MAC and block 0.

    With a class that has no key here the file key stays wrapped as it was.
    """
    key = keys.file_key(page)
    nonce, field, plain = open_page(keys, page[:128], key, 0, page)
    header = changed(page[:128], changes)
    try:
        header = wrap_header(keys, header, key, p.hash256(header))
    except (KeyError, p.Newer):
        pass
    header = sign_header(keys, changed(header, {at: value for at, value in changes.items() if at >= 32}))
    return seal_page(keys, header, key, 0, nonce, field, plain)


def change_block(keys, data, index, changes):
    """A file's bytes with other bytes in the field of a block (offset in the field -> bytes), encrypted again."""
    header, key, at = data[:128], keys.file_key(data), index * PAGE
    nonce, field, plain = open_page(keys, header, key, index, data[at:at + PAGE])
    return data[:at] + seal_page(keys, header, key, index, nonce, changed(field, changes), plain) + data[at + PAGE:]


# Records, links and attributes.

def make_record(keys, identifier, default=0, changes=None, more=b""):
    """A record's target; `more` bytes make it longer than version 2 does."""
    data = changed(b"PFD\x02" + bytes([default]) + bytes(7) + identifier, changes) + more
    return p.b64(data + p.mac(keys.record, data, 16))


def _seal(key, ad, value, version, nonce):
    nonce = nonce or os.urandom(24)
    return bytes([version]) + nonce + p.xchacha_seal(key, nonce, bytes([version]) + ad, value)


def seal_target(keys, target, version=2, nonce=None):
    return p.b64(_seal(keys.symlink, b"", target, version, nonce))


def seal_long_target(keys, identifier, length, version=3, nonce=None, form=509):
    """A link whose target of `length` bytes is in the overflow object `identifier`."""
    return p.b64(_seal(keys.symlink, b"", (identifier + p.le(length, 4)).ljust(form, b"\0"), version, nonce))


def seal_overflow(keys, identifier, content, version=2, nonce=None):
    """An overflow object's file."""
    return _seal(keys.overflow, identifier, content, version, nonce)


def attribute_entries(values):
    """An attribute record's bytes, of (name, value) in the order of the names."""
    return b"".join(bytes([len(name)]) + p.le(len(value), 4) + name + value for name, value in values)


def seal_record(keys, owner, form, version=3, nonce=None):
    """The value of the attribute that holds others; form is a zero byte and entries, or a 1, an overflow ID and a length."""
    return _seal(keys.xattr_value, owner + b"user.protectfs.attributes", form, version, nonce)


def seal_value(keys, owner, name, value, version=2, nonce=None):
    """An attribute's value; its owner is a file ID or a directory ID."""
    return _seal(keys.xattr_value, owner + name, value, version, nonce)
