"""chattr and lsattr: the flags that the store keeps and obeys, as on ext4."""

import fcntl
import os
import struct
import time

from checks import errors
from harness import PAGE, Skip, binary, make_file, outcome, pattern, read_file, run, set_class, write_file
from stores import store

GET, SET, GET_EXTENDED, SET_EXTENDED = 0x80086601, 0x40086602, 0x801C581F, 0x401C5820
SYNC, IMMUTABLE, APPEND, NODUMP, NOATIME, DIRSYNC = 0x8, 0x10, 0x20, 0x40, 0x80, 0x10000
SHOWN = SYNC | IMMUTABLE | APPEND | NODUMP | NOATIME | DIRSYNC


def call(path, command, argument):
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        return fcntl.ioctl(handle, command, argument)
    finally:
        os.close(handle)


def flags(path):
    """Those that both file systems have."""
    return struct.unpack("i", call(path, GET, bytes(4)))[0] & SHOWN


def set_flags(path, wanted):
    """As chattr: all others stay."""
    old = struct.unpack("I", call(path, GET, bytes(4)))[0]
    call(path, SET, struct.pack("I", old & ~SHOWN | wanted))


def tried(place):
    """What every change of an immutable file, and of what is in an immutable directory, answers."""
    at = lambda name: os.path.join(place, name)
    file, directory = at("file"), at("directory")
    calls = {
        "open": lambda: os.close(os.open(file, os.O_WRONLY)), "append": lambda: os.close(os.open(file, os.O_WRONLY | os.O_APPEND)),
        "O_TRUNC": lambda: os.close(os.open(file, os.O_WRONLY | os.O_TRUNC)), "truncate": lambda: os.truncate(file, 0),
        "unlink": lambda: os.unlink(file), "rename": lambda: os.rename(file, at("new")),
        "rename over": lambda: os.rename(at("other"), file), "link": lambda: os.link(file, at("new")),
        "chmod": lambda: os.chmod(file, 0o600), "chown": lambda: os.chown(file, 1, 1), "utimens": lambda: os.utime(file, (1, 1)),
        "setxattr": lambda: os.setxattr(file, "user.one", b"1"), "create": lambda: os.close(os.open(at("directory/new"), os.O_CREAT | os.O_WRONLY)),
        "mkdir": lambda: os.mkdir(at("directory/new")), "remove": lambda: os.unlink(at("directory/inner")),
        "move in": lambda: os.rename(at("other"), at("directory/other")), "move out": lambda: os.rename(at("directory/inner"), at("out")),
        "rmdir": lambda: os.rmdir(at("directory/empty")), "change inside": lambda: write_file(at("directory/inner"), b"changed"),
        "read": lambda: read_file(file), "list": lambda: os.listdir(directory),
    }
    return {name: outcome(act) for name, act in calls.items()}


def prepared(place):
    os.makedirs(os.path.join(place, "directory/empty"))
    for name in ("file", "other", "directory/inner"):
        write_file(os.path.join(place, name), pattern(2 * PAGE))


def test_as_below(environment):
    """Each flag alone, and every call on what is immutable, beside the file system below."""
    if os.geteuid() != 0:
        raise Skip("needs root, to make files immutable")
    below = environment.new_path("below")
    prepared(below)
    if outcome(flags, below + "/file") != "works":
        raise Skip("the file system of the tests has no flags")
    mount = environment.mount()
    prepared(mount / "place")
    places = (below, mount / "place")
    for name in ("file", "directory"):
        for flag in (NODUMP, NOATIME, SYNC, IMMUTABLE, NODUMP | NOATIME) + ((DIRSYNC,) if name == "directory" else ()):
            results = []
            for place in places:
                path = os.path.join(place, name)
                results.append((outcome(set_flags, path, flag), flags(path), call(path, GET_EXTENDED, bytes(28))[:4]))
                call(path, SET_EXTENDED, bytes(28))
                results[-1] += (flags(path) & ~DIRSYNC,)
                set_flags(path, 0)
            environment.cell(f"[{name}, {flag:#x}]", results[0], results[1])
    for place in places:
        for name in ("file", "directory"):
            set_flags(os.path.join(place, name), IMMUTABLE)
    expected, found = (tried(place) for place in places)
    for name, result in expected.items():
        environment.cell(f"[immutable: {name}]", result, found[name])
    mount = environment.remount(mount)
    environment.cell("[after a remount]", (IMMUTABLE, "EPERM"),
                     (flags(mount / "place/file"), outcome(os.open, mount / "place/file", os.O_WRONLY)))
    environment.cell("[lsattr]", True, "i" in run("lsattr", mount / "place/file").stdout.split()[0])
    for place in (below, mount / "place"):
        for name in ("file", "directory"):
            run("chattr", "-i", os.path.join(place, name))
    write_file(mount / "place/file", b"changed", os.O_TRUNC)
    environment.cell("[changed again]", b"changed", read_file(mount / "place/file"))
    mount.unmount()
    environment.cell("[errors]", [], errors(mount.volume))


def test_limits(environment):
    """What cannot be had is refused, and other objects have no flags."""
    mount = environment.mount()
    write_file(mount / "file", b"")
    environment.cell("[append-only]", "EOPNOTSUPP" if os.geteuid() == 0 else "EPERM", outcome(set_flags, mount / "file", APPEND))
    environment.cell("[no flag set]", 0, flags(mount / "file"))
    os.mkfifo(mount / "fifo")
    environment.cell("[fifo]", "ENOTTY", outcome(call, mount / "fifo", GET, bytes(4)))
    environment.cell("[another command]", "ENOTTY", outcome(call, mount / "file", 0x80086607, bytes(4)))
    make_file(mount / "private", "A", b"private")
    set_flags(mount / "private", NODUMP)
    mount.lock()
    environment.cell("[locked]", "EACCES", outcome(flags, mount / "private"))
    mount.unlock()
    environment.cell("[kept]", NODUMP, flags(mount / "private"))
    if os.geteuid() == 0:
        handle = os.open(mount / "private", os.O_RDWR | os.O_DIRECT)  # fsync would tell of a write to the cache
        set_flags(mount / "private", IMMUTABLE)
        environment.cell("[a handle that was open]", "EPERM", outcome(os.pwrite, handle, b"x", 0))
        environment.cell("[its class]", "EPERM", outcome(set_class, mount / "private", "D"))
        os.close(handle)
        set_flags(mount / "private", 0)
        environment.cell("[its content]", b"private", read_file(mount / "private"))


def test_written_before(environment):
    """What was written before a file became immutable is kept, and its last close says nothing."""
    if os.geteuid() != 0:
        raise Skip("only root makes a file immutable")
    mount = environment.mount()
    for letter in "ABCD":
        path = mount / letter
        make_file(path, letter, b"")
        handle = os.open(path, os.O_WRONLY)
        os.pwritev(handle, [pattern(739)], 0, os.RWF_SYNC)
        os.pwrite(handle, pattern(800), 139264)
        # Not by another handle, whose close would store the time.
        flags_now = struct.unpack("I", fcntl.ioctl(handle, GET, bytes(4)))[0]
        fcntl.ioctl(handle, SET, struct.pack("I", flags_now | IMMUTABLE))
        environment.cell(f"[{letter}, close]", "works", outcome(os.close, handle))
        set_flags(path, 0)
        environment.cell(f"[{letter}, content]", pattern(739) + bytes(139264 - 739) + pattern(800), read_file(path))


def test_change_time(environment):
    """The change time of a directory moves with its flags, at once."""
    mount = environment.mount()
    os.mkdir(mount / "d")
    if outcome(flags, mount / "d") != "works":
        raise Skip("the file system of the tests has no flags")
    for flag in (NODUMP, 0, NOATIME, 0):
        before = os.stat(mount / "d").st_ctime_ns
        time.sleep(0.02)
        set_flags(mount / "d", flag)
        environment.cell(f"[{flag:#x}]", True, os.stat(mount / "d").st_ctime_ns > before)


def test_removed_directory(environment):
    """An open directory that was removed has flags still."""
    mount = environment.mount()
    os.mkdir(mount / "d")
    handle = os.open(mount / "d", os.O_RDONLY)
    os.rmdir(mount / "d")
    environment.cell("[flags]", 0, struct.unpack("I", fcntl.ioctl(handle, GET, bytes(4)))[0] & SHOWN)
    os.close(handle)


def test_flags_of_a_copy(environment):
    """A file that is encrypted anew keeps its flags."""
    with store(environment, "ext4") as disk:
        mount = disk.mount()
        make_file(mount / "file", "C", pattern(2 * PAGE))
        set_flags(mount / "file", NODUMP | NOATIME)
        before = os.stat(mount / "file").st_ino
        run(binary(), "class", "set", "complete", mount / "file", env=mount.volume.environment)
        environment.cell("a new inode", True, os.stat(mount / "file").st_ino != before)
        environment.cell("flags", NODUMP | NOATIME, flags(mount / "file"))
