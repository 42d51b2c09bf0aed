"""A process's memory, searched for keys: where they are, and whether that memory is locked and left out of core files."""

import glob
import os
import struct

import harness
import reader


def expanded_schedule(key):
    """The 15 round keys of AES-256 (FIPS 197, 5.2), from nothing but the definition."""
    box = substitution_box()
    words = [key[at:at + 4] for at in range(0, 32, 4)]
    constant = 1
    for index in range(8, 60):
        word = words[-1]
        if index % 8 == 0:
            word = bytes(box[byte] for byte in word[1:] + word[:1])
            word = bytes([word[0] ^ constant]) + word[1:]
            constant = constant << 1 ^ (0x11B if constant & 0x80 else 0)
        elif index % 8 == 4:
            word = bytes(box[byte] for byte in word)
        words.append(bytes(a ^ b for a, b in zip(word, words[-8])))
    return b"".join(words)


def substitution_box():
    box, p, q = [0] * 256, 1, 1
    while True:
        p ^= (p << 1 & 0xFF) ^ (0x1B if p & 0x80 else 0)
        for shift in (1, 2, 4):
            q ^= q << shift & 0xFF
        q ^= 0x09 if q & 0x80 else 0
        box[p] = q ^ 0x63
        for turn in (1, 2, 3, 4):
            box[p] ^= (q << turn | q >> 8 - turn) & 0xFF
        if p == 1:
            break
    box[0] = 0x63
    return box


PART = 4 << 20
PAGEMAP = struct.Struct("<Q")
# In a page's entry of /proc/PID/pagemap: it is in memory, or swapped.
THERE = 3 << 62


def runs(pagemap, low, high):
    """The parts of a mapping without a file that have been touched, as (from, to): the others are zeros, and never were more."""
    start = None
    for part in range(low, high, PART):
        end = min(part + PART, high)
        entries = os.pread(pagemap, (end - part) // harness.PAGE * PAGEMAP.size, part // harness.PAGE * PAGEMAP.size)
        for number, (entry,) in enumerate(PAGEMAP.iter_unpack(entries)):
            at = part + number * harness.PAGE
            if entry & THERE and start is None:
                start = at
            elif not entry & THERE and start is not None:
                yield start, at
                start = None
    if start is not None:
        yield start, high


def memory(pid):
    """Every readable piece of a process's memory that may be anything but zeros: (address, bytes)."""
    with open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as maps:
        lines = maps.readlines()
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as file, open(f"/proc/{pid}/pagemap", "rb", buffering=0) as pagemap:
        for line in lines:
            place, rights, _, _, inode, *_ = line.split()
            low, high = (int(number, 16) for number in place.split("-"))
            if rights[0] != "r" or low >= 1 << 47:
                continue
            for start, end in runs(pagemap.fileno(), low, high) if inode == "0" else [(low, high)]:
                yield from pieces(file, start, end)


def pieces(file, low, high):
    """A part of the memory that can be read, piece by piece."""
    at, tail = low, b""
    while at < high:
        try:
            file.seek(at)
            part = file.read(min(high - at, PART))
        except OSError:
            return
        if not part:
            return
        # A key across two reads is found too.
        yield at - len(tail), tail + part
        at += len(part)
        tail = part[-256:]


def found(pid, secrets):
    """Which of the secrets {name: bytes} are in the process's memory; name -> a sorted list of addresses."""
    places = {}
    for address, part in memory(pid):
        for name, secret in secrets.items():
            at = part.find(secret)
            while at >= 0:
                places.setdefault(name, set()).add(hex(address + at))
                at = part.find(secret, at + 1)
    return {name: sorted(addresses) for name, addresses in places.items()}


def without_zeros(path):
    """A file's content, with a page of zeros in place of each part that has nothing else."""
    zeros = bytes(1 << 20)
    with open(path, "rb") as file:
        parts = iter(lambda: file.read(len(zeros)), b"")
        return b"".join(zeros[:harness.PAGE] if part == zeros else part for part in parts)


def clamped(private):
    return bytes([private[0] & 248]) + private[1:31] + bytes([private[31] & 127 | 64])


def file_secrets(view, path, label):
    """The file key, its extent keys, and what AES-256 expands the first one to."""
    file = view.file(view.backing_path(path))
    key = view.keys.file_key(file.header)
    secrets = {f"{label}: file key": key}
    for index in {0, 1}:
        if index * harness.PAGE >= len(file.data) // harness.PAGE * harness.PAGE:
            continue
        extent = view.keys.extent_key(key, file.field(index)[2], index)
        secrets[f"{label}: extent key"] = extent
        schedule = expanded_schedule(extent)
        # The first two round keys are the key itself.
        secrets[f"{label}: expanded key, rounds 2 and 3"] = schedule[32:64]
        secrets[f"{label}: expanded key, the last round"] = schedule[224:240]
    return secrets


def class_secrets(view):
    keybag = reader.load().keybag
    keys = view.keys.keys
    return {
        "class key A": keys[keybag.A],
        "wrap key of A": view.keys.wrap_key(keybag.A),
        "private key of B": keys[keybag.B],
        "private key of B, clamped": clamped(keys[keybag.B])[:31],
        "unlock authentication key": keys[keybag.U],
        "spare key": keys[keybag.SPARE],
    }


def areas(pid):
    """(from, to, VmFlags, KiB locked) of each mapping of a process, from smaps."""
    result, place = [], None
    with open(f"/proc/{pid}/smaps", encoding="utf-8", errors="replace") as file:
        for line in file:
            word, *rest = line.split()
            if not word.endswith(":"):
                place = tuple(int(number, 16) for number in word.split("-"))
            elif word == "Locked:":
                locked = int(rest[0])
            elif word == "VmFlags:":
                result.append((*place, set(rest), locked))
    return result


def unprotected(pid, secrets, flags=("lo", "dd", "wf"), seen=None):
    """The addresses of secrets in memory that is not locked, or that core files or forks get; of those seen, if they are given."""
    places = [(low, high) for low, high, found_flags, _ in areas(pid) if set(flags) <= found_flags]
    return {name: outside for name, addresses in (found(pid, secrets) if seen is None else seen).items() if (outside := [
        address for address in addresses if not any(low <= int(address, 16) < high for low, high in places)])}


def credential_secrets(keybag, passphrase, device_key):
    """What a passphrase becomes on its way to the keys: Argon2's output and the slot's key, for every slot of its kind."""
    primitives = reader.load().primitives
    secrets = {"passphrase": passphrase}
    for slot in keybag.slots:
        if slot.kind != 2:
            continue
        hashed = primitives.argon2id(passphrase, slot.salt, slot.passes, slot.memory)
        context = keybag.uuid + primitives.le(slot.id, 4) + bytes([slot.kind]) + slot.salt
        secret = primitives.kdf(hashed, "slot", context + (device_key if slot.flags & 1 else b""))
        secrets |= {f"hash for slot {slot.id}": hashed, f"key of slot {slot.id}": secret,
                    f"wrap of slot {slot.id}": primitives.kdf(secret, "slot-wrap")}
    return secrets


def texts(secrets):
    """The same secrets in the encodings that a text may use."""
    import base64
    result = {}
    for name, value in secrets.items():
        result |= {name: value, f"{name}, hexadecimal": value.hex().encode(),
                   f"{name}, base64": base64.b64encode(value).rstrip(b"=")[:-1],
                   f"{name}, base64url": base64.urlsafe_b64encode(value).rstrip(b"=")[:-1]}
    return result


def guards(pid):
    """The daemon's own children, such as the process that guards its mount."""
    found = []
    # A thread of its own has forked it.
    for path in glob.glob(f"/proc/{pid}/task/*/children"):
        with open(path, encoding="ascii") as file:
            found += [int(word) for word in file.read().split()]
    return found
