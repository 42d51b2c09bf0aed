"""The differences that are known. Each has its reason, and a sequence that shows it: one that is gone is reported.

KNOWN holds what a FUSE file system cannot do otherwise, with the kernel's reason. OPEN holds defects that are to be mended;
it may only get shorter. MENDED has the sequences of differences that are gone.
"""

import errno
import os
import stat
from typing import Callable, NamedTuple

from .compare import Difference
from .tree import Step


class Entry(NamedTuple):
    """A difference that a run goes over. After one that forks, the sides are not comparable any more."""

    name: str
    reason: str
    steps: tuple
    explains: Callable[[Difference], bool]
    forks: bool = False
    always: bool = True  # false if it needs a class or a moment, so that its sequence may not show it


def listed(value):
    """Names of attributes, or pairs of name and value, without the class."""
    return [one for one in value if "user.protection" not in (one, one[0])] if isinstance(value, list) else value


def is_class_listed(difference):
    return "attributes" in difference.what and listed(difference.here) == difference.there


def field(name):
    """Differences of one field of a status, wherever it is seen."""
    return lambda difference: difference.what.endswith(": " + name)


def is_unaligned(difference):
    """ext4 refuses and the mount does not."""
    if difference.what == "asynchronous" and isinstance(difference.there, list):
        return all(result == -errno.EINVAL for _, result in difference.there)
    return difference.what in ("write", "read", "write_on", "read_on", "asynchronous", "copy_range", "send_file",
                               "write_aligned", "read_aligned") and difference.there == "EINVAL"


def answers(name, here, there=None):
    """An operation of which the mount gives that answer, and ext4 another one."""
    return lambda difference: difference.what == name and difference.here == here and there in (None, difference.there)


def is_far(step):
    return any(isinstance(number, int) and number >= 1 << 44 for number in step.arguments)


def is_of_immutable(difference):
    """ext4 refuses a change at once, and the mount for another reason, later, or not at all."""
    late = difference.here == "EPERM" and difference.what.startswith("sync")
    # A page of a mapping is given to a program without asking.
    mapped = difference.what == "map_put" and difference.there == "EFAULT"
    later = difference.what == "asynchronous" and isinstance(difference.there, list) and any(
        result == -errno.EPERM for _, result in difference.there)
    return difference.is_after_flags and (difference.there == "EPERM" or late or mapped or later)


def act(name, *arguments, actor=0):
    return Step(actor, name, arguments)


FILE = act("open_file", 0, b"a", os.O_RDWR | os.O_CREAT, 0o644)
DIRECT = act("open_file", 0, b"a", os.O_RDWR | os.O_CREAT | os.O_DIRECT, 0o644)

KNOWN = (
    Entry("unaligned direct I/O", "FUSE has no alignment: fuse_direct_io copies any bytes, and no open flag asks for it",
          (DIRECT, act("write", 0, 0, 1, 100)), is_unaligned, forks=True),
    Entry("collapsed and inserted ranges", "fuse_file_fallocate refuses all modes but KEEP_SIZE, PUNCH_HOLE and ZERO_RANGE",
          (FILE, act("write", 0, 0, 1, 9000), act("allocate", 0, 8, 0, 4096)),
          lambda difference: difference.what == "allocate" and difference.step.arguments[1] in (8, 32)
          and difference.here == "EOPNOTSUPP", forks=True),
    Entry("chown(-1, -1)", "fuse_do_setattr asks to clear the set-id bits only with a new owner or group, and fuse_setattr drops the mode",
          (FILE, act("change_mode", b"a", 0o4755), act("change_owner", b"a", -1, -1, actor=1)),
          answers("change_owner", None, "EPERM"), forks=True),
    Entry("times of pipes", "what is written to a pipe never reaches FUSE, which keeps no times of special files in the kernel",
          (act("make_node", b"a", stat.S_IFIFO | 0o644, 0), act("set_times", b"a", 0, 0), act("open_file", 0, b"a", os.O_RDWR, 0),
           act("write_on", 0, 1, 1), act("status", b"a")),
          lambda difference: (field("modification time")(difference) or field("change time")(difference)) and
          stat.S_ISFIFO(int(difference.fields["mode"], 8))),
    Entry("largest offset", "a FUSE file system's s_maxbytes is MAX_LFS_FILESIZE; ext4's is 16 TiB less a block",
          (FILE, act("seek", 0, 1 << 62, 0)),
          lambda difference: difference.what in ("seek", "truncate", "truncate_open", "allocate", "write", "copy_range", "send_file")
          and difference.there in ("EINVAL", "EFBIG", "EOVERFLOW") and is_far(difference.step), forks=True),
    Entry("flag of append-only files", "an append encrypts the last block again, which the store refuses for such a file",
          (FILE, act("add_flags", 0, 32)),
          lambda difference: difference.what == "add_flags" and difference.here == "EOPNOTSUPP", forks=True),
    Entry("immutable files", "the kernel's inode has no such flag: other refusals are found first, and the page cache takes what the "
          "store refuses later; fsync and close tell",
          (FILE, act("add_flags", 0, 16), act("write", 0, 0, 1, 1)), is_of_immutable, forks=True, always=False),
    Entry("flags of files of a closed class", "the kernel opens the file to ask for them",
          (FILE, act("get_flags", 0)),
          lambda difference: difference.what in ("get_flags", "add_flags") and difference.here == "EACCES", forks=True, always=False),
    Entry("a class stronger than the volume's default", "is listed, so that a copy of the file is never weaker",
          (FILE, act("attributes", b"a")), is_class_listed, always=False),
    Entry("short holes, and written zeros", "a page of the ciphertext holds 4,060 bytes, and only whole pages are holes "
          "(the mount test `seeking` says which differences there may be)",
          (FILE, act("write", 0, 0, 1, 1), act("write", 0, 8192, 1, 1), act("seek_data", 0, 0, os.SEEK_HOLE)),
          lambda difference: difference.what == "seek_data", always=False),
    Entry("access time", "the kernel keeps none for FUSE (S_NOATIME), and does not tell the daemon of reads from its cache",
          (FILE, act("write", 0, 0, 1, 5), act("tick"), act("read", 0, 0, 5), act("status_open", 0)), field("access time")),
    Entry("change time after a direct write", "the kernel owns it under the write-back cache, and does not move it with such a write; "
          "the daemon moves it a little later, through the mount",
          (DIRECT, act("write_aligned", 0, 0, 1, 4096), act("tick"), act("status_open", 0)),
          lambda difference: field("change time")(difference) and {difference.there, difference.here} == {"old", "new"},
          always=False),
    Entry("times of a store into a mapping after a close", "a close writes the pages of a FUSE file back (`fuse_flush`), so the next "
          "store into one is a first one again, and moves the times",
          (FILE, act("write", 0, 0, 1, 4096), act("map_file", 0, 0, 0, 0, True, True), act("map_put", 0, 0, 1, 1),
           act("reopen", 1, 0, 0), act("close", 1), act("tick"), act("map_put", 0, 9, 1, 1), act("status_open", 0)),
          lambda difference: difference.is_after_close and difference.there != difference.here == "new" and
          (field("modification time")(difference) or field("change time")(difference))),
    Entry("device nodes of an ordinary user", "fusermount3 mounts with nodev",
          (act("make_node", b"a", 0o20644, 0), act("open_file", 0, b"a", os.O_RDONLY, 0)),
          lambda difference: os.geteuid() != 0 and (answers("open_file", "EACCES", "ENXIO")(difference)
                                                    or answers("lock_seen", str(errno.EACCES), str(errno.ENXIO))(difference)),
          always=False),
    Entry("times of a removed file after a direct write", "the kernel owns the modification time under the write-back cache and does "
          "not move it with such a write; the daemon sets it through the mount, where such a file has no path",
          (DIRECT, act("unlink", b"a"), act("tick"), act("write_aligned", 0, 0, 1, 4096), act("status_open", 0)),
          lambda difference: (field("modification time")(difference) or field("change time")(difference)) and
          difference.fields["links"] == 0 and difference.fields["mode"].startswith("0o10"), always=False),
)
OPEN = ()
# Of systematic sequences, after a crash: a matter of moments.
AFTER_CRASH = Entry(
    "time of an open file after a crash", "pages that are written back after the file's time was stored move the store's time; the "
    "daemon puts it back at the last close, which a killed one does not reach", (),
    lambda difference: field("modification time")(difference) and (difference.there, difference.here) == ("old", "new"), always=False)
# Differences that this tester has found and that are gone: their sequences must not differ again.
MENDED = {
    "sync of a removed directory": (
        act("make_directory", b"a", 0o755), act("open_file", 0, b"a", 0, 0), act("remove_directory", b"a"), act("sync", 0)),
    "targets of links": (act("make_link", b"x" * 4000, b"a"), act("make_link", b"x" * 4095, b"b"), act("status", b"a")),
    "names of attributes": (
        act("make_directory", b"a", 0o755), act("set_attribute", b"a", b"user." + b"x" * 250, b""), act("attributes", b"a"),
        act("set_attribute", b"a", b"user." + b"x" * 251, b"")),
    "attribute without a name": (FILE, act("get_attribute", b"a", b"user."), act("set_attribute", b"a", b"user.", b"")),
    "security attributes of links": (act("make_link", b"a", b"b"), act("set_attribute", b"b", b"security.t", b"")),
    "asynchronous direct read beyond the pages that it flushes": (
        DIRECT, act("open_file", 1, b"a", os.O_RDWR, 0), act("write", 1, 65536, 1, 1),
        act("asynchronous", 0, False, ((4096, 1, 4096),))),
    "empty capabilities": (
        FILE, act("set_attribute", b"a", b"security.capability", b""), act("write", 0, 0, 1, 1), act("attributes", b"a")),
    "times of a removed directory": (
        act("make_directory", b"a", 0o755), act("open_file", 0, b"a", 0, 0), act("tick"), act("remove_directory", b"a"),
        act("status_open", 0)),
    "attributes of a directory that was removed before its record was read": (
        act("make_directory", b"a", 0o755), act("remount"), act("open_file", 0, b"a", 0, 0), act("remove_directory", b"a"),
        act("set_attribute_open", 0, b"user.x", b"1")),
    "lease of a file that is sought in": (
        FILE, act("write", 0, 0, 1, 1), act("lease", 0, 1), act("seek_data", 0, 0, os.SEEK_DATA), act("lease", 0, 1)),
    "set-group bit of a special file": (
        act("make_node", b"a", stat.S_IFIFO | 0o2644, 0), act("change_owner", b"a", 20002, -1, False),
        act("change_owner", b"a", -1, 20011, False, actor=2)),
    "time that is put back after the last writer's close": (
        FILE, act("write", 0, 0, 1, 1), act("reopen", 1, 0, 0), act("close", 0), act("open_file", 2, b"a", os.O_PATH, 0),
        act("close", 1), act("truncate", b"a", 0)),
}
