"""Volumes from the future: objects of real ones changed as a newer version writes them, with MACs and tags that are right.

With tampered=True the same bytes are changed and nothing is made anew: an object that must count as damaged.
"""

import os
import shutil
import stat

import harness
import reader
from states import CLASS_KEYS, changed

try:
    reader.load()
    from secondreader import latewriter, signing
    from secondreader import state as states
    from secondreader.files import PAGE, block_fields
    from secondreader.keybag import A, ALL_KEYS, B, C, D, INACTIVE, BundleEntry, Keybag
    from secondreader.late import LateKeys, name_of
    from secondreader.primitives import b64, make_tlvs, recovery_secret, u16, unb64
except harness.Skip:
    # Each test that needs the reader says so by itself; its module must be read without it.
    A = ALL_KEYS = B = C = D = INACTIVE = BundleEntry = Keybag = make_tlvs = signing = states = None

WRITER = "protectfs 9.8.7"
RECORD = b".protectfs.dir"


def le(value, length):
    return value.to_bytes(length, "little")


def snapshot(volume):
    """Every byte of the store: path -> content, target or kind, attributes, and the number of links."""
    found = {}
    for place, directories, files in os.walk(os.fsencode(volume.path)):
        for name in directories + files:
            path = os.path.join(place, name)
            status = os.lstat(path)
            content = stat.S_IFMT(status.st_mode)
            if stat.S_ISLNK(status.st_mode):
                content = os.readlink(path)
            elif stat.S_ISREG(status.st_mode):
                content = harness.read_file(path)
            attributes = {} if stat.S_ISLNK(status.st_mode) else {key: os.getxattr(path, key) for key in os.listxattr(path)}
            found[os.path.relpath(path, os.fsencode(volume.path))] = (content, attributes)
    return found


class Store:
    """The store of an unmounted volume, its keys, and the changes that a newer version makes to it."""

    def __init__(self, volume):
        self.volume, self.opened = volume, reader.unlock(volume)
        self.keys = self.opened.keys

    def backing(self, path):
        return self.opened.backing_path(path)

    def relative(self, path):
        return os.path.relpath(self.backing(path), os.fsencode(self.volume.path))

    def rewrite(self, path, data):
        """Other bytes in the same file, whose times stay."""
        status = os.stat(path)
        with open(path, "r+b") as file:
            file.write(data)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))

    # Objects; `changes` is offset -> bytes, or a function that gives that from the bytes as they are.

    def header(self, path, changes, tampered=False):
        backing = self.backing(path)
        page = harness.read_file(backing)[:PAGE]
        changes = changes(page) if callable(changes) else changes
        self.rewrite(backing, signing.changed(page, changes) if tampered else signing.change_header(self.keys, page, changes))

    def block(self, path, index, changes, tampered=False):
        backing = self.backing(path)
        data = harness.read_file(backing)
        at = index * PAGE + block_fields(self.keys.suite, index)["payload length"][0]
        changes = changes(data[at:at + 8])
        if tampered:
            data = signing.changed(data, {at + place: value for place, value in changes.items()})
        else:
            data = signing.change_block(self.keys, data, index, changes)
        self.rewrite(backing, data[:-(-len(data) // PAGE) * PAGE])

    def record(self, path, changes, more=b"", tampered=False):
        place = os.path.join(self.backing(path) if path else os.fsencode(self.volume.path), RECORD)
        data = unb64(os.readlink(place))
        if tampered:
            target = b64(signing.changed(data[:28], changes) + more + data[28:])
        else:
            target = signing.make_record(self.keys, data[12:28], data[4], {5: data[5:6], **changes}, more)
        relink(place, target)

    def record_flags(self, path):
        place = os.path.join(self.backing(path) if path else os.fsencode(self.volume.path), RECORD)
        return unb64(os.readlink(place))[5]

    def link(self, path, version, tampered=False):
        backing = self.backing(path)
        target = bytes(self.opened.link_target(os.readlink(backing)))
        changed = b64(bytes([version]) + unb64(os.readlink(backing))[1:])
        relink(backing, changed if tampered else signing.seal_target(self.keys, target, version))

    def attribute(self, path, name, version, tampered=False):
        backing = self.backing(path)
        directory = os.path.isdir(backing)
        owner = self.opened.record(backing).id if directory else self.opened.file(backing).id
        key = self.opened.encode_xattr(name.encode(), owner)
        stored = os.getxattr(backing, key)
        value = self.opened.xattr_value(stored, owner, name.encode())
        os.setxattr(backing, key, bytes([version]) + stored[1:] if tampered else signing.seal_value(
            self.keys, owner, name.encode(), value, version))

    # The keybag, the state file, and late files.

    @property
    def bag(self):
        return Keybag(harness.read_file(reader.keybag_file(self.volume)))

    def materials(self):
        """What opens the slots, by their kind, and the device key."""
        device = harness.read_file(reader.device_key_file(self.volume))
        with open(self.volume.code_file, encoding="ascii") as file:
            code = recovery_secret(file.read())
        return {1: device, 2: harness.PASSPHRASE.encode(), 3: code}, device

    def put_keybag(self, data):
        """Writes a keybag, and pins it as the program that made it would have."""
        harness.write_file(reader.keybag_file(self.volume), data, os.O_TRUNC)
        path = reader.state_file(self.volume)
        state = harness.read_file(path)
        flags = states.State(state).flags & ~states.UNPINNED
        state = states.with_bytes(state, {32: data[32:40], 40: data[64:96], 72: data[-32:], 116: le(flags, 4)})
        harness.write_file(path, state, os.O_TRUNC)

    def keybag(self, changes=None, slots=None, tlvs=None, tampered=False):
        """The keybag with other bytes in its header, other slots or other TLVs; the serial goes up."""
        bag = self.bag
        tlvs = [(1, WRITER.encode())] + [entry for entry in bag.tlvs if entry[0] != 1] + (tlvs or [])
        changes = {32: le(bag.serial + 1, 8), **(changes or {})}
        data = signing.remake_keybag(bag.data, self.keys, changes, slots, tlvs)
        self.put_keybag(data[:-64] + bag.data[-64:] if tampered else data)

    def generation(self, numbers, generation=0x1234):
        """A second key for each of these classes, which the keybag names for new wraps."""
        data = self.bag.data
        for number in numbers:
            data = signing.raise_generation(data, self.keys, self.materials(), number, generation, os.urandom(32))
        self.put_keybag(data)
        self.keybag()
        # A newer version that does so on this machine keeps no pins that say otherwise.
        path = reader.state_file(self.volume)
        harness.write_file(path, changed(harness.read_file(path), tlvs={CLASS_KEYS: None}), os.O_TRUNC)
        self.opened = reader.unlock(self.volume)
        self.keys = self.opened.keys

    def state(self, changes=None, tlvs=(), header=b"", tampered=False):
        """The state file with other bytes, more TLVs, or a longer header."""
        path = reader.state_file(self.volume)
        old = harness.read_file(path)
        new = states.with_tlv(old, states.WRITER, WRITER.encode())
        for kind, value in tlvs:
            new = states.with_tlv(new, kind, value)
        if header:
            head = u16(new, 10)
            new = new[:10] + le(head + len(header), 2) + new[12:head] + header + new[head:]
        new = states.with_bytes(new, changes or {})
        harness.write_file(path, new[:-32] + old[-32:] if tampered else new, os.O_TRUNC)

    def late(self, path, number, changes=None, kind=None, tampered=False):
        """A late file for a class A file, listed in the state file; gives its path."""
        keys, identifier = LateKeys.of(self.keys), self.opened.file(self.backing(path)).id
        if kind is None:
            data = latewriter.make_late(keys, number, [(identifier, 0, b"late")], changes=None if tampered else changes)
        else:
            lock_key = os.urandom(32)
            head = latewriter.record_head(kind if not tampered else 1, 0, identifier, 0, 4, (1, 2))
            body = latewriter.make_body(keys, number, 0, identifier, data=b"late", head=head)
            data = latewriter.chain(lock_key, latewriter.make_header(keys, number, lock_key), [body])
        if tampered:
            data = signing.changed(data, changes or {128 + 4: bytes([kind])})
        place = os.path.join(os.fsencode(self.volume.path), name_of(number))
        harness.write_file(place, data)
        state = reader.state_file(self.volume)
        old = harness.read_file(state)
        harness.write_file(state, states.with_open_locks(old, states.State(old).open_locks + [(number, 0)]), os.O_TRUNC)
        return place


def relink(path, target):
    os.unlink(path)
    os.symlink(target, path)


def flags(bits):
    """More flags of a header."""
    return lambda page: {8: le(u16(page, 8) | bits, 2)}


def next_generation(page):
    return {10: le(u16(page, 10) + 1, 2)}


def field_flags(bits):
    """More flags of a block."""
    return lambda field: {2: bytes([field[2] | bits])}


def copied(environment, volume):
    """The volume with its device key and state file, once more; nothing of it knows of the first one."""
    place = environment.new_path("copy")
    shutil.copytree(os.path.dirname(volume.path), place, symlinks=True)
    harness.forget_store(os.path.join(place, "data"))
    old = os.path.dirname(volume.path)
    return harness.Volume(*(path.replace(old, place) for path in (volume.path, volume.data, volume.code_file,
                                                                  volume.passphrase_file)))


def erased(environment, label, volume):
    """erase works: exit code 0; keybag, key and state file are gone, and no byte of the keys is left."""
    names = os.listdir(os.path.join(volume.data, "protectfs"))
    key = harness.read_file(reader.device_key_file(volume))
    bag = harness.read_file(reader.keybag_file(volume))
    done = harness.protectfs("erase", "--yes", volume.path, env=volume.environment, ok=False)
    environment.cell(f"{label}: erase, exit code", 0, done.returncode)
    uuid = [name for name in names if name.endswith(".state")][0][:36]
    left = [name for name in os.listdir(os.path.join(volume.data, "protectfs"))
            if name.startswith(uuid) and not name.endswith(".lock")]
    environment.cell(f"{label}: after erase, beside the store", [], left)
    environment.cell(f"{label}: after erase, in the store", [], [name for name in os.listdir(volume.path) if "keybag" in name])
    parts = [key] + [bag[at:at + 32] for at in range(128, len(bag) - 64, 32)]
    found = []
    for top in (volume.path, volume.data):
        for place, _, files in os.walk(top):
            for name in files:
                if os.path.isfile(os.path.join(place, name)):
                    data = harness.read_file(os.path.join(place, name))
                    found += [name for part in parts if any(part) and part in data]
    environment.cell(f"{label}: after erase, keys anywhere", [], found)
    return done
