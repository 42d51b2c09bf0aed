"""Sections 3 and 7: names, records, links, attributes; and walking a whole volume."""

import collections
import os
import stat

from .files import EXPLICIT, KEY_EXPOSED, File
from .keybag import A, CLASS_NAMES, LARGEST, Keybag
from .late import overlay, pending
from .primitives import Newer, Refused, b64, equal, mac, unb64, u16, u32, xchacha_open, xchacha_stream
from .state import State

#: A directory record's fields: name -> (offset, length). The MAC counts from the end.
RECORD_FIELDS = {
    "magic": (0, 3), "version": (3, 1), "default class": (4, 1), "flags": (5, 1), "generation": (6, 2),
    "freshness": (8, 4), "directory ID": (12, 16), "MAC": (-16, 16),
}
RESERVED = b".protectfs."
#: In place of the ID of objects that have none: symlinks and special files.
NO_ID = bytes(16)
VERSION = b"\x02"
#: The longest name that is never long.
NEVER_LONG = 91
#: Version byte of a target that is in an overflow object, the form's length, and the longest target.
IN_OVERFLOW, LONG_FORM, LONGEST_TARGET = b"\x03", 509, 4095
#: The name of the attribute that holds others, and the longest value.
RECORD, LONGEST_VALUE = b"user.protectfs.attributes", 65536

#: The nanoseconds of a stored time beside which there is a shown one, and the attribute that has it.
TIME_MARK, SHOWN_TIME = 1_746_100, b"user.pfs-time"

#: A record that verified: what is not known of it in `newer`; `default` is 0 for no class, and None if it is not known.
Record = collections.namedtuple("Record", "id default newer")


class Entry:
    """One object of the volume: path (bytes, from the root, b"" for it), backing path, lstat, kind and what belongs to it."""

    def __init__(self, path, backing, status, kind):
        self.path, self.backing, self.status, self.kind = path, backing, status, kind
        self.id = self.protection_class = self.target = self.file = self.error = None
        #: What a newer version made of it; `error` is set too unless it can be read.
        self.newer = None
        self.xattrs = {}

    @property
    def class_name(self):
        return CLASS_NAMES.get(self.protection_class)

    @property
    def mtime_ns(self):
        """The modification time that programs are shown (7.5)."""
        stored = self.status.st_mtime_ns
        if not stat.S_ISREG(self.status.st_mode) or stored % 10**9 != TIME_MARK:
            return stored
        try:
            value = os.getxattr(self.backing, SHOWN_TIME)
        except OSError:
            return stored
        seconds, rest = int.from_bytes(value[:8], "little", signed=True), int.from_bytes(value[8:], "little")
        return seconds * 10**9 + rest if len(value) == 12 and rest < 10**9 else stored

    @property
    def is_key_exposed(self):
        return bool(self.file.flags & KEY_EXPOSED)

    @property
    def is_explicit(self):
        return bool(self.file.flags & EXPLICIT)


class Volume:
    """A volume below a directory, read with the keys of its keybag."""

    def __init__(self, root, keys, bad_epochs=(), tolerates_all=False):
        self.root, self.keys = os.fsencode(root), keys
        self.bad_epochs, self.tolerates_all = bad_epochs, tolerates_all
        #: What late files still have to bring: file ID -> list of (offset, data); and what of them does not count.
        self.late, self.late_reports = {}, []
        #: Whether a newer late file closes class A.
        self.late_newer = False

    @classmethod
    def unlock(cls, root, passphrase=None, recovery_code=None, device_key=None, state=None, recipient=None,
               security_key=None, tpm2=None):
        """Opens the keybag of `root`; `state` is the state file's bytes."""
        with open(os.path.join(root, ".protectfs.keybag"), "rb") as file:
            bag = Keybag(file.read(LARGEST + 1))
        if all(one is None for one in (passphrase, recovery_code, recipient, security_key, tpm2)):
            keys = bag.open(device_key)
        else:
            keys = bag.unlock(passphrase, recovery_code, device_key, recipient, security_key, tpm2)
        state = State(state) if state is not None else None
        if state and (state.uuid != bag.uuid or state.pinned and (state.serial > bag.serial or state.pk != bag.pk)):
            raise Refused("the keybag is not the one that was seen last")
        volume = cls(root, keys, state.open_epochs if state else (), state.tolerates_all if state else True)
        if A in keys.keys:
            volume.late, volume.late_reports, volume.late_newer = pending(root, keys, state)
        return volume

    # Names and attributes: one scheme, two sets of keys.

    def _seal_name(self, name, owner, iv_key, cipher_key):
        iv = mac(iv_key, owner + name, 16)
        return b64(iv + xchacha_stream(cipher_key, iv + bytes(8), name))

    def _open_name(self, encoding, owner, iv_key, cipher_key):
        data = unb64(encoding)
        if len(data) < 17:
            raise Refused("name: length")
        name = xchacha_stream(cipher_key, data[:16] + bytes(8), data[16:])
        if owner is not None and not equal(mac(iv_key, owner + name, 16), data[:16]):
            raise Refused("name: IV")
        return name

    def encode_name(self, name, directory_id):
        """Backing name and, for a long name, the companion's target."""
        encoding = self._seal_name(name, directory_id, self.keys.name_iv, self.keys.name_cipher)
        if len(name) <= 175:
            return encoding, None
        return b"~" + b64(mac(self.keys.long_name, directory_id + encoding, 32)), encoding

    def decode_name(self, backing, directory, directory_id):
        """The name of a backing entry; None for companions and reserved names."""
        if backing.startswith(RESERVED):
            return None
        encoding = backing
        if backing.startswith(b"~"):
            if len(backing) == 46 and backing.endswith(b".n"):
                return None
            try:
                encoding = os.readlink(os.path.join(directory, backing + b".n"))
            except OSError as error:
                raise Refused("name: no companion") from error
            long = b"~" + b64(mac(self.keys.long_name, directory_id + encoding, 32))
            if long != backing:
                raise Refused("name: companion")
        name = self._open_name(encoding, directory_id, self.keys.name_iv, self.keys.name_cipher)
        if name in (b".", b"..") or b"/" in name or b"\0" in name or len(name) > 255:
            raise Refused("name: form")
        is_long = encoding is not backing
        if len(name) > 175 and not is_long or len(name) <= NEVER_LONG and is_long:
            raise Refused("name: long form")
        # A store with shorter names has made it. Beside the other form it does not count.
        if is_long and len(name) <= 175 and os.path.lexists(os.path.join(directory, encoding)):
            raise Refused("name: both forms")
        return name

    def encode_xattr(self, name, owner):
        return self._xattr_prefix(owner) + self._seal_name(name, owner, self.keys.xattr_iv, self.keys.xattr_cipher)

    @staticmethod
    def _xattr_prefix(owner):
        return b"trusted.pfs." if owner == NO_ID else b"user.pfs."

    def decode_xattr(self, backing, owner):
        """The name of a stored attribute of this object; None if it is none."""
        prefix = self._xattr_prefix(owner)
        if not backing.startswith(prefix):
            return None
        return self._open_name(backing[len(prefix):], owner, self.keys.xattr_iv, self.keys.xattr_cipher)

    def xattrs(self, path, owner):
        result = {}
        for backing in map(os.fsencode, os.listxattr(path, follow_symlinks=False)):
            name = self.decode_xattr(backing, owner)
            if name is None:
                continue
            stored = os.getxattr(path, backing, follow_symlinks=False)
            if name == RECORD:
                found = self.xattr_record(stored, owner)
                record = found if isinstance(found, bytes) else self.overflow(*found)
                result = {**self.xattr_entries(record), **result}
            else:
                result[name] = self.xattr_value(stored, owner, name)
        return result

    def xattr_record(self, stored, owner):
        """The bytes of an attribute record, or (overflow ID, length) of one in an overflow object."""
        form = xchacha_open(self.keys.xattr_value, stored[1:25], stored[:1] + owner + RECORD, stored[25:])
        if stored[:1] != IN_OVERFLOW or len(form) < 2:
            raise Newer("attribute record: version")
        if form[0] == 0:
            self.xattr_entries(form[1:])
            return form[1:]
        if form[0] != 1 or len(form) != 21 or u32(form, 17) > 1 << 20:
            raise Newer("attribute record: form")
        return form[1:17], u32(form, 17)

    @staticmethod
    def xattr_entries(record):
        """Names and values of a record."""
        at, result, last = 0, {}, b""
        while at < len(record):
            if len(record) - at < 6 or not record[at]:
                raise Newer("attribute record: entry")
            name, length = record[at + 5:at + 5 + record[at]], u32(record, at + 1)
            at += 5 + record[at]
            if length > LONGEST_VALUE or at + length > len(record) or b"\0" in name or name <= last:
                raise Newer("attribute record: entry")
            result[name] = record[at:at + length]
            last, at = name, at + length
        return result

    @staticmethod
    def _open_sealed(key, stored, ad, what):
        """A value in the envelope that every version has."""
        value = xchacha_open(key, stored[1:25], stored[:1] + ad, stored[25:])
        if stored[:1] != VERSION:
            raise Newer(what + ": version")
        return value

    def xattr_value(self, stored, owner, name):
        return self._open_sealed(self.keys.xattr_value, stored, owner + name, "attribute")

    def link_target(self, stored):
        """A link's target, read from its overflow object if it is there."""
        form = self.link_form(stored)
        return form if isinstance(form, bytes) else self.overflow(*form)

    def link_form(self, stored):
        """A target, or (overflow ID, length) of one in an overflow object."""
        stored = unb64(stored)
        if stored[:1] != IN_OVERFLOW:
            return self._open_sealed(self.keys.symlink, stored, b"", "symlink")
        form = xchacha_open(self.keys.symlink, stored[1:25], IN_OVERFLOW, stored[25:])
        if len(form) != LONG_FORM or any(form[20:]) or not 1 <= u32(form, 16) <= LONGEST_TARGET:
            raise Newer("symlink: form")
        return form[:16], u32(form, 16)

    def overflow(self, identifier, length):
        with open(os.path.join(self.root, b".protectfs.overflow", b64(identifier)), "rb") as file:
            return self.overflow_content(file.read(), identifier, length)

    def overflow_content(self, stored, identifier, length):
        if len(stored) != 41 + length:
            raise Refused("overflow object: length")
        return self._open_sealed(self.keys.overflow, stored, identifier, "overflow object")

    def parse_record(self, target):
        data = unb64(target)
        if len(data) < 44:
            raise Refused("record: length")
        if not equal(mac(self.keys.record, data[:-16], 16), data[-16:]):
            raise Refused("record: MAC")
        for known, what in (
                (data[:4] == b"PFD" + VERSION, "version"), (data[4] in (0, *CLASS_NAMES), "default class"), (not data[5] & 0x0F, "flags"),
                (not u16(data, 6), "generation"), (not u32(data, 8), "freshness"), (len(data) == 44, "length")):
            if not known:
                return Record(data[12:28], None, what)
        return Record(data[12:28], data[4], "readable only" if data[5] & 0x30 else None)

    def record(self, directory, is_root=False):
        record = self.parse_record(os.readlink(os.path.join(directory, b".protectfs.dir")))
        if is_root and record.id != self.keys.root_id:
            raise Refused("record: root")
        return record

    # The tree.

    def file(self, backing):
        with open(backing, "rb") as file:
            return File(self.keys, file.read(), self.bad_epochs, self.tolerates_all)

    def contents(self, file):
        """A file's plaintext with the late records that wait for it: what a program sees after the next unlock."""
        if self.late_newer and file.protection_class == A:
            raise Newer("late file")
        return overlay(file.contents(), self.late.get(file.id, []))

    def backing_path(self, path):
        """The backing path of a path from the root (bytes, or text), by encryption of each component."""
        at, identifier = self.root, self.keys.root_id
        parts = [part for part in os.fsencode(path).split(b"/") if part]
        for number, part in enumerate(parts):
            at = os.path.join(at, self.encode_name(part, identifier)[0])
            if number < len(parts) - 1:
                identifier = self.record(at).id
        return at

    def walk(self):
        """Every object, the root first; an object that is refused carries `error`."""
        return self._walk(b"", self.root, True)

    def _walk(self, path, backing, is_root=False):
        status = os.lstat(backing)
        kind = {stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFLNK: "symlink", stat.S_IFIFO: "fifo",
                stat.S_IFSOCK: "socket", stat.S_IFCHR: "character device",
                stat.S_IFBLK: "block device"}[stat.S_IFMT(status.st_mode)]
        entry = Entry(path, backing, status, kind)
        children = []
        try:
            if kind == "directory":
                entry.id, default, entry.newer = self.record(backing, is_root)
                entry.protection_class = default or None
                entry.xattrs = self.xattrs(backing, entry.id)
                children = sorted(os.listdir(backing))
            elif kind == "symlink":
                entry.target = self.link_target(os.readlink(backing))
                entry.xattrs = self.xattrs(backing, NO_ID)
            elif kind == "file":
                entry.file = self.file(backing)
                entry.protection_class, entry.id = entry.file.protection_class, entry.file.id
                if entry.id:
                    entry.xattrs = self.xattrs(backing, entry.id)
                if entry.file.read_only:
                    entry.newer = "readable only"
            else:
                entry.xattrs = self.xattrs(backing, NO_ID)
        except Newer as error:
            entry.error = entry.newer = str(error)
        except (Refused, OSError) as error:
            entry.error = str(error)
        yield entry
        for child in children:
            if is_root and child in (b".protectfs.keybag", b".protectfs.keybag.old"):
                continue
            try:
                name = self.decode_name(child, backing, entry.id)
            except Refused as error:
                below = Entry(path + b"/?" + child, os.path.join(backing, child), None, "undecryptable")
                below.error = str(error)
                yield below
                continue
            if name is not None:
                yield from self._walk(path + b"/" + name if path else name, os.path.join(backing, child))
