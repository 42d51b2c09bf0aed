"""Attributes of any name, many of them, and large ones, compared with a dictionary; on ext4, which has 4 KiB for all of an object."""

import glob
import os
import random
import stat

from checks import errors, kinds, report
from harness import Skip, get_class, outcome, read_file, run, set_class, write_file
from reader import flip
from stores import store


def overflow(volume):
    """The names in the volume's directory of overflow objects."""
    place = os.path.join(volume.path, ".protectfs.overflow")
    return sorted(os.listdir(place)) if os.path.isdir(place) else []


def attributes(path):
    """All attributes of an object but its class, with their values."""
    return {name: os.getxattr(path, name, follow_symlinks=False)
            for name in os.listxattr(path, follow_symlinks=False) if name != "user.protection"}


def check(environment, label, expected, path):
    found = attributes(path)
    environment.cell(f"{label}: names", sorted(expected), sorted(found))
    environment.cell(f"{label}: values that differ", [], [name for name in expected if found.get(name) != expected[name]])


def many(count):
    return {f"user.attribute_{number}": f"value_{number}".encode() for number in range(count)}


def test_limits(environment):
    """Names of 255 bytes, 1,000 attributes, and values of 64 KiB, of files and directories; through locks, mounts and links."""
    mount = environment.mount()
    write_file(mount / "file", b"content")
    os.mkdir(mount / "directory")
    for name in ("file", "directory"):
        path = mount / name
        expected = {}

        def put(key, value, path=path, expected=expected):
            os.setxattr(path, key, value)
            expected[key] = value

        for length in (1, 64, 163, 164, 249, 250):
            put("user." + "n" * length, b"value of %d" % length)
        environment.cell(f"[{name}] a name of 256 bytes", "ERANGE", outcome(os.setxattr, path, "user." + "n" * 251, b""))
        for key, value in many(1000 if name == "file" else 200).items():
            put(key, value)
        put("user.empty", b"")
        put("user.large", random.Random(1).randbytes(65536))
        put("user.second", random.Random(2).randbytes(30000))
        environment.cell(f"[{name}] 64 KiB and one byte", "E2BIG", outcome(os.setxattr, path, "user.x", bytes(65537)))
        check(environment, f"[{name}] as set", expected, path)
        put("user.large", b"small now")
        put("user.attribute_3", random.Random(3).randbytes(5000))
        for number in range(100, 200):
            os.removexattr(path, f"user.attribute_{number}")
            del expected[f"user.attribute_{number}"]
        for what, mode, key in (("create", os.XATTR_CREATE, "user.second"), ("replace", os.XATTR_REPLACE, "user.none")):
            environment.cell(f"[{name}] {what}", "EEXIST" if what == "create" else "ENODATA",
                             outcome(os.setxattr, path, key, b"", mode))
        environment.cell(f"[{name}] remove again", "ENODATA", outcome(os.removexattr, path, "user.attribute_100"))
        environment.cell(f"[{name}] get", "ENODATA", outcome(os.getxattr, path, "user.attribute_100"))
        check(environment, f"[{name}] as changed", expected, path)
        if name == "file":
            set_class(path, "A")
            os.link(path, mount / "link")
            os.rename(path, mount / "moved")
            run("cp", "-a", mount / "moved", mount / "copy")
            check(environment, "a copy", expected, mount / "copy")
            os.unlink(mount / "copy")
            mine = dict(expected)
        else:
            theirs = dict(expected)
    environment.cell("one overflow object each", 2, len(overflow(mount.volume)))
    mount.lock()
    check(environment, "locked", mine, mount / "moved")
    mount.unlock()
    os.unlink(mount / "moved")
    mount = environment.remount(mount)
    check(environment, "after a remount, the file", mine, mount / "link")
    check(environment, "after a remount, the directory", theirs, mount / "directory")
    environment.cell("content and class", (b"content", "complete"), (read_file(mount / "link"), get_class(mount / "link")))
    mount.unmount()
    environment.cell("fsck", (0, ["key-exposed"]), (lambda found: (found[0], kinds(found[1])))(report(mount.volume)))
    mount = environment.mount(mount.volume)
    os.rmdir(mount / "directory")
    write_file(mount / "new", b"new")
    os.rename(mount / "new", mount / "link")
    mount.unmount()
    environment.cell("nothing is left", [], overflow(mount.volume))


def test_open_files(environment):
    """A file that has no name any more keeps its attributes as long as it is open; so does one without a name from the start."""
    mount = environment.mount()
    write_file(mount / "file", b"")
    os.setxattr(mount / "file", "user.large", bytes(20000))
    handle = os.open(mount / "file", os.O_RDWR)
    os.unlink(mount / "file")
    environment.cell("unlinked", bytes(20000), os.getxattr(handle, "user.large"))
    os.setxattr(handle, "user.large", b"x" * 30000)
    environment.cell("changed", (b"x" * 30000, 1), (os.getxattr(handle, "user.large"), len(overflow(mount.volume))))
    os.close(handle)
    handle = os.open(mount.path, os.O_TMPFILE | os.O_RDWR, 0o600)
    os.setxattr(handle, "user.large", b"y" * 30000)
    # With a directory Python calls linkat(2) with AT_SYMLINK_FOLLOW.
    os.link(f"/proc/self/fd/{handle}", mount / "named", src_dir_fd=handle, follow_symlinks=True)
    os.close(handle)
    handle = os.open(mount.path, os.O_TMPFILE | os.O_RDWR, 0o600)
    os.setxattr(handle, "user.large", b"z" * 30000)
    os.close(handle)
    mount = environment.remount(mount)
    environment.cell("named later", b"y" * 30000, os.getxattr(mount / "named", "user.large"))
    environment.cell("what is left", 1, len(overflow(mount.volume)))


def test_random_changes(environment):
    """Random changes of a few names with values of all sizes, against a dictionary."""
    with store(environment, "ext4") as disk:
        mount = disk.mount()
        write_file(mount / "file", b"")
        chance, expected = random.Random(7), {}
        names = ["user." + "k" * length for length in (1, 2, 3, 60, 100, 250)] + [f"user.{number}" for number in range(30)]
        for _ in range(1500):
            name = chance.choice(names)
            if chance.random() < 0.3 and name in expected:
                os.removexattr(mount / "file", name)
                del expected[name]
            else:
                expected[name] = chance.randbytes(chance.choice((0, 5, 128, 129, 900, 3000, 20000)))
                os.setxattr(mount / "file", name, expected[name])
        check(environment, "at the end", expected, mount / "file")
        environment.cell("overflow objects", True, len(glob.glob(os.path.join(disk.backing, "*/.protectfs.overflow/*")) +
                                                     glob.glob(os.path.join(disk.backing, ".protectfs.overflow/*"))) <= 1)


def test_damage(environment):
    mount = environment.mount()
    for name in ("file", "other"):
        write_file(mount / name, b"content")
        os.setxattr(mount / name, "user.small", b"small")
        os.setxattr(mount / name, "user.large", name.encode() * 5000)
    if os.geteuid() == 0:
        os.symlink("target", mount / "link")
        os.setxattr(mount / "link", "trusted.large", b"z" * 9000, follow_symlinks=False)
    mount.unmount()
    place = os.path.join(mount.volume.path, ".protectfs.overflow")
    environment.cell("fsck", [], errors(mount.volume))
    for name in overflow(mount.volume):
        flip(os.path.join(place, name), 3000)
    count = len(overflow(mount.volume))
    environment.cell("damage", ["attribute"] * count, [one["kind"] for one in errors(mount.volume)])
    mount = environment.mount(mount.volume)
    environment.cell("the large one", "EIO", outcome(os.getxattr, mount / "file", "user.large"))
    environment.cell("the small one", b"small", os.getxattr(mount / "file", "user.small"))
    environment.cell("listed", ["user.small"], os.listxattr(mount / "file"))
    environment.cell("a new one", "EIO", outcome(os.setxattr, mount / "file", "user.new", b""))
    environment.cell("content", b"content", read_file(mount / "file"))
    mount.unmount()
    code, answer = report(mount.volume, "--repair", "--quarantine")
    environment.cell("repaired", (1, ["attribute"] * count), (code, kinds(answer)))
    mount = environment.mount(mount.volume)
    os.setxattr(mount / "file", "user.new", b"x" * 3000)
    environment.cell("after the repair", {"user.small": b"small", "user.new": b"x" * 3000}, attributes(mount / "file"))


def test_links_and_special_files(environment):
    """`trusted.*` of these goes the same way."""
    if os.geteuid() != 0:
        raise Skip("needs root, to set trusted attributes")
    mount = environment.mount()
    os.symlink("l" * 4000, mount / "link")
    os.mkfifo(mount / "fifo")
    os.mknod(mount / "device", 0o600 | stat.S_IFCHR, os.makedev(1, 3))
    for name in ("link", "fifo", "device"):
        for number in range(50):
            os.setxattr(mount / name, f"trusted.attribute_{number}", b"%d" % number * 100, follow_symlinks=False)
    mount = environment.remount(mount)
    for name in ("link", "fifo", "device"):
        check(environment, name, {f"trusted.attribute_{number}": b"%d" % number * 100 for number in range(50)}, mount / name)
        os.unlink(mount / name)
    mount.unmount()
    environment.cell("nothing is left", ([], []), (overflow(mount.volume), errors(mount.volume)))
