"""Compares answers, and whole trees: each difference has a name that stays the same while a sequence is shrunk."""

import errno
import os
import stat
import zlib
from typing import NamedTuple

from .names import RECORD, status_fields
from .tree import name_of

BLOCK = 4096
RECORDS = b"records"  # a file to which several processes append: its records are compared in any order


class Difference(NamedTuple):
    """One thing that is not the same. The step is None for what the trees show at the end."""

    step: object
    what: str
    there: object  # on ext4
    here: object  # on the mount
    path: bytes = b""
    fields: dict = {}  # the whole status on ext4, if a field of it differs
    is_after_flags: bool = False  # whether a file was made immutable before
    is_after_close: bool = False  # whether a mapping was stored to before and after a close

    def __str__(self):
        place = f" of {short(self.path)}" if self.path else ""
        return f"{self.what}{place}: ext4 {short(self.there)}, mount {short(self.here)}"


def short(value):
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:120]} … {text[-60:]}"


def compare_answers(step, there, here):
    """The differences of one step's answers; those of a status are told by field."""
    if there == here:
        return []
    name = step.name
    if isinstance(there, dict) and isinstance(here, dict):
        return [Difference(step, f"{name}: {field}", there.get(field), here.get(field), b"", there)
                for field in sorted({*there, *here}) if there.get(field) != here.get(field)]
    return [Difference(step, name, there, here)]


def compare_trees(one, other):
    """The differences of two snapshots."""
    found = []
    for path in sorted({*one, *other}):
        if path not in one or path not in other:
            found.append(Difference(None, "tree: name", "is there" if path in one else "is not there",
                                    "is there" if path in other else "is not there", path))
            continue
        for field in sorted({*one[path], *other[path]}):
            if one[path].get(field) != other[path].get(field):
                found.append(Difference(None, f"tree: {field}", one[path].get(field), other[path].get(field), path,
                                        one[path]))
    return found


def snapshot(tree):
    """Everything that a program can learn of a tree, by path; and of the files that are open, by slot."""
    found, first = {}, {}
    walk(tree, tree.top, b"", found, first)
    for slot, handle in sorted(tree.files.items()):
        found[b"open file %d" % slot] = fields = dict(status_fields(tree, os.fstat(handle)))
        if stat.S_ISREG(os.fstat(handle).st_mode):
            fields["content"] = guarded(lambda: content(f"/proc/self/fd/{handle}"))
    return found


def walk(tree, directory, place, found, first):
    for name in sorted(os.fsencode(name) for name in os.listdir(directory)):
        path = place + name
        status = guarded(lambda: os.stat(name, dir_fd=directory, follow_symlinks=False))
        if isinstance(status, str):
            # An ordinary user may list the directory, but not search it.
            found[path] = {"status": status}
            continue
        found[path] = fields = dict(status_fields(tree, status))
        fields["same file as"] = first.setdefault(status.st_ino, path)
        below = f"/proc/self/fd/{directory}/".encode() + name
        fields["attributes"] = guarded(lambda: [
            (key, guarded(lambda: os.getxattr(below, key, follow_symlinks=False)))
            for key in sorted(os.listxattr(below, follow_symlinks=False))])
        if stat.S_ISLNK(status.st_mode):
            fields["target"] = os.readlink(name, dir_fd=directory)
        elif stat.S_ISREG(status.st_mode):
            fields["content"] = guarded(lambda: records(below) if name == RECORDS else content(below))
        elif stat.S_ISDIR(status.st_mode):
            handle = guarded(lambda: os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=directory))
            if isinstance(handle, str):
                fields["listing"] = handle
                continue
            try:
                walk(tree, handle, path + b"/", found, first)
            finally:
                os.close(handle)


def guarded(action):
    try:
        return action()
    except OSError as error:
        return name_of(error)


def content(path):
    """Checksums of the blocks that are not zero, with their numbers: holes and zeros are the same to a reader."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        size, at, blocks = os.fstat(handle).st_size, 0, []
        while at < size:
            try:
                at = os.lseek(handle, at, os.SEEK_DATA) // BLOCK * BLOCK
                end = max(os.lseek(handle, at, os.SEEK_HOLE), at + BLOCK)  # the mount may round otherwise
            except OSError as error:
                if error.errno == errno.ENXIO:
                    break
                end = size  # after a failed write-back the mount cannot seek, and says so
            while at < min(end, size):
                part = os.pread(handle, min(1 << 20, -(-(end - at) // BLOCK) * BLOCK), at)
                if not part:
                    break
                for start in range(0, len(part), BLOCK):
                    block = part[start:start + BLOCK]
                    if block.count(0) != len(block):
                        blocks.append(((at + start) // BLOCK, zlib.crc32(block.rstrip(b"\0"))))
                at += -(-len(part) // BLOCK) * BLOCK
        return tuple(blocks)
    finally:
        os.close(handle)


def records(path):
    """The records of a file in which they may have any order."""
    with open(path, "rb") as file:
        everything = file.read()
    return sorted(everything[at:at + RECORD] for at in range(0, len(everything), RECORD))
