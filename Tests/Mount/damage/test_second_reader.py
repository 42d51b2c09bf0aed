"""A volume with every kind of object, written through the mount and read by the second reader."""

import os
import socket
import stat
import sys

import ciphers
import harness
import reader

SIZES = [0, 1, 100, 3919, 3920, 3921, 3931, 3932, 3933, 7968, 7969, 7992, 7993, 100_000, (1 << 20) + 5]


def make_tree(mount):
    """One of everything."""
    root = mount.path
    for letter, name in harness.CLASSES.items():
        place = os.path.join(root, f"class {letter}")
        os.mkdir(place)
        for size in SIZES:
            path = os.path.join(place, f"{size} bytes")
            harness.write_file(path, harness.pattern(size, seed=size + ord(letter)))
            harness.set_class(path, letter)
            os.utime(path, ns=(1_600_000_000_123_456_789, 1_500_000_000_000_000_000 + size))
    big = os.path.join(root, "two extents")
    harness.write_file(big, harness.pattern(17 << 20, seed=5))

    defaults = os.path.join(root, "defaults")
    os.mkdir(defaults)
    for letter, name in harness.CLASSES.items():
        place = os.path.join(defaults, letter)
        os.mkdir(place)
        harness.set_class(place, letter)
        harness.write_file(os.path.join(place, "inherits"), b"inherited " + letter.encode())
        os.mkdir(os.path.join(place, "below"))
        harness.write_file(os.path.join(place, "below", "too"), b"below")

    names = os.path.join(root, "names")
    os.mkdir(names)
    odd = [b"a", b" ", b"-", b"~tilde", b".hidden", b"new\nline", b"\xff\xfe\x80", "\u00e4\u4f60\U0001f511".encode(),
           b"x" * 175, b"y" * 176, b"z" * 255]
    for name in odd:
        path = os.path.join(os.fsencode(names), name)
        harness.write_file(path, b"named " + name)
        os.mkdir(os.path.join(os.fsencode(names), b"d" + name[:254]))
    deep = os.path.join(names, "l" * 255, "m" * 200, "n")
    os.makedirs(deep)
    harness.write_file(os.path.join(deep, "o" * 176), b"deep")

    for number, target in enumerate(["a", "../somewhere/else", "/absolute", "t" * 2000, "\u00e9", "o" * 4095]):
        os.symlink(target, os.path.join(root, f"link {number}"))
    os.mkfifo(os.path.join(root, "fifo"), 0o640)
    with socket.socket(socket.AF_UNIX) as server:
        directory = os.open(root, os.O_PATH)
        server.bind(f"/proc/self/fd/{directory}/socket")
        os.close(directory)
    if os.geteuid() == 0:
        os.mknod(os.path.join(root, "device"), stat.S_IFCHR | 0o600, os.makedev(1, 3))
        for name in ("link 1", "fifo", "socket", "device"):
            os.setxattr(os.path.join(root, name), "trusted.of.another", name.encode(), follow_symlinks=False)

    path = os.path.join(root, "hard link 1")
    harness.write_file(path, b"linked")
    os.link(path, os.path.join(root, "hard link 2"))

    path = os.path.join(root, "attributes")
    harness.write_file(path, b"attributes")
    os.setxattr(path, "user.comment", b"hello")
    os.setxattr(path, "user.empty", b"")
    os.setxattr(path, "user." + "n" * 150, bytes(range(256)) * 4)
    os.setxattr(path, "user." + "l" * 250, b"long name")
    for number in range(20):
        os.setxattr(path, f"user.of.many.{number}", b"%d" % number)
        os.setxattr(names, f"user.of.many.{number}", b"%d" % number * 1000)
    if os.geteuid() == 0:
        os.setxattr(path, "trusted.secret", b"trusted")
    os.setxattr(root, "user.on.root", b"root")
    os.setxattr(names, "user.on.directory", b"directory")
    os.chmod(path, 0o4751)

    path = os.path.join(root, "sparse")
    with open(path, "wb") as file:
        file.write(b"start")
        file.seek(300_000)
        file.write(b"end")
    path = os.path.join(root, "only a hole")
    with open(path, "wb") as file:
        file.truncate(1_000_000)
    path = os.path.join(root, "punched")
    harness.write_file(path, harness.pattern(200_000))
    harness.run("fallocate", "-p", "-o", "10000", "-l", "100000", path)
    path = os.path.join(root, "shrunk")
    harness.write_file(path, harness.pattern(50_000))
    os.truncate(path, 20_001)
    os.truncate(path, 20_100)

    path = os.path.join(root, "exposed")
    harness.write_file(path, harness.pattern(9000))
    os.utime(path, ns=(1_600_000_000_123_456_789, 1_500_000_000_000_000_001))
    harness.set_class(path, "D")
    harness.set_class(path, "A")


def snapshot(root):
    """What the mount says of every object below root."""
    seen = {}
    for place, directories, files in os.walk(os.fsencode(root)):
        for path in [place] + [os.path.join(place, name) for name in files] + [
                os.path.join(place, name) for name in directories if os.path.islink(os.path.join(place, name))]:
            relative = os.path.relpath(path, os.fsencode(root))
            status = os.lstat(path)
            row = {"mode": status.st_mode, "owner": (status.st_uid, status.st_gid), "mtime": status.st_mtime_ns}
            if stat.S_ISLNK(status.st_mode):
                row["target"] = os.readlink(path)
            if stat.S_ISREG(status.st_mode):
                row.update(size=status.st_size, links=status.st_nlink, contents=harness.read_file(path))
            if stat.S_ISCHR(status.st_mode):
                row["device"] = status.st_rdev
            names = [name for name in os.listxattr(path, follow_symlinks=False) if name != "user.protection"]
            row["xattrs"] = {os.fsencode(name): os.getxattr(path, name, follow_symlinks=False) for name in names}
            if stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode):
                try:
                    row["class"] = os.getxattr(path, "user.protection").decode()
                except OSError:
                    row["class"] = None
            seen[b"" if relative == b"." else relative] = row
    return seen


def read_again(volume):
    """The same of the backing store, by the second reader."""
    found, errors = {}, []
    for entry in volume.walk():
        if entry.error:
            errors.append(f"{entry.path!r}: {entry.error}")
            continue
        status = entry.status
        row = {"mode": status.st_mode, "owner": (status.st_uid, status.st_gid), "mtime": entry.mtime_ns}
        if entry.kind == "symlink":
            row["target"] = entry.target
        if entry.kind == "file":
            contents = entry.file.contents()
            row.update(size=len(contents), links=status.st_nlink, contents=contents)
            if entry.file.departures:
                errors.append(f"{entry.path!r}: departs from the ordinary: {entry.file.departures}")
        if entry.kind == "character device":
            row["device"] = status.st_rdev
        row["xattrs"] = entry.xattrs
        if entry.kind in ("file", "directory"):
            row["class"] = entry.class_name
        found[entry.path] = row
    return found, errors


def compare(environment, mount, label):
    make_tree(mount)
    # Twice, as the first look may be served from what the kernel remembers.
    mount.sync()
    expected = snapshot(mount.path)
    mount.unmount()
    volume = reader.unlock(mount.volume, with_passphrase=True)
    found, errors = read_again(volume)
    environment.cell(f"{label}: nothing refused", [], errors)
    environment.cell(f"{label}: same names", sorted(expected), sorted(found))
    for path in sorted(set(expected) & set(found)):
        differences = {key: (brief(expected[path].get(key)), brief(found[path].get(key)))
                       for key in set(expected[path]) | set(found[path])
                       if expected[path].get(key) != found[path].get(key)}
        environment.cell(f"{label}: {path[:60]!r}", {}, differences)
    return expected, volume


def brief(value):
    return value if not isinstance(value, bytes) or len(value) < 80 else f"{len(value)} bytes {hash(value)}"


def test_every_kind_of_object(environment):
    reader.load()
    mount = environment.mount()
    expected, volume = compare(environment, mount, "aes-256-gcm")
    flags = {path: (entry.is_explicit, entry.is_key_exposed)
             for path, entry in ((entry.path, entry) for entry in volume.walk()) if entry.kind == "file"}
    environment.cell("KEY_EXPOSED after tightening by setxattr", (True, True), flags[b"exposed"])
    exposed, = (entry for entry in volume.walk() if entry.path == b"exposed")
    environment.cell("backups see the change of class, programs do not", (True, 1_500_000_000_000_000_001),
                     (exposed.status.st_mtime > 1_600_000_000, exposed.mtime_ns))
    environment.cell("EXPLICIT and KEY_EXPOSED of an inherited file", (False, False), flags[b"two extents"])
    environment.cell("EXPLICIT where a class was set", True, flags[b"class D/1 bytes"][0])
    environment.cell("inherited class is not EXPLICIT", False, flags[b"defaults/A/inherits"][0])
    holes = volume.file(volume.backing_path("sparse"))
    environment.cell("a sparse file has hole pages", True, bool(holes.flags & 1) and bool(holes.hole_pages()))

    # By the recovery code the same keys; by the device key names and class D alone.
    by_code = reader.unlock(mount.volume)
    environment.cell("recovery code gives the same keys", volume.keys.keys, by_code.keys.keys)
    device = reader.unlock(mount.volume, device_only=True)
    outcomes = {}
    for letter in harness.CLASSES:
        try:
            contents = device.file(device.backing_path(f"class {letter}/100 bytes")).contents()
            outcomes[letter] = contents == expected[f"class {letter}/100 bytes".encode()]["contents"]
        except KeyError:
            outcomes[letter] = "no key"
    environment.cell("device key alone", {"A": "no key", "B": "no key", "C": "no key", "D": True, "7": "no key"}, outcomes)

    program = os.path.join(harness.REPOSITORY, "Tests", "SecondReader", "read-volume")
    words = [sys.executable, program, "--device-key", reader.device_key_file(mount.volume), "--recovery-file",
             mount.volume.code_file, "--state", reader.state_file(mount.volume), mount.volume.path]
    listing = harness.run(*words)
    environment.cell("the reader's listing names an object of each kind", [],
                     [kind for kind in ("file", "directory", "symlink", "fifo", "socket")
                      if f"\n{kind} " not in "\n" + listing.stdout])
    shown = harness.run(*words, "names/" + "y" * 176, text=False)
    environment.cell("the reader prints a file", b"named " + b"y" * 176, shown.stdout)


def test_other_suite(environment):
    reader.load()
    mount = ciphers.xchacha(environment)
    compare(environment, mount, "xchacha20-poly1305")


def test_written_from_the_specification(environment):
    """A volume that the second implementation wrote mounts, in both suites."""
    reader.load()
    from secondreader.writer import DEVICE_KEY, RECOVERY, Writer
    from secondreader.primitives import recovery_text
    for suite in (1, 2):
        place = environment.new_path(f"written by the other {suite}")
        backing = os.path.join(place, "volume")
        os.makedirs(backing)
        writer = Writer(backing, suite)
        data = os.path.join(place, "data")
        os.makedirs(os.path.join(data, "protectfs"), 0o700)
        with open(os.path.join(data, "protectfs", writer.keys.bag.uuid_text + ".key"), "wb") as file:
            file.write(DEVICE_KEY)
        os.chmod(file.name, 0o600)
        with open(os.path.join(place, "code"), "w", encoding="ascii") as file:
            file.write(recovery_text(RECOVERY) + "\n")
        writer.directory("d", 1)
        writer.directory("d/" + "x" * 255)
        expected = {}
        for number, letter in ((1, "A"), (2, "B"), (3, "C"), (4, "D"), (7, "7")):
            for size in (0, 1, 3920, 3932, 3933, 7969, 123_456):
                name = f"d/class {number}, {size} bytes"
                expected[name] = (writer.file(name, number, size), harness.CLASSES[letter])
        expected["with holes"] = (writer.file("with holes", 3, 60_000, holes=(1, 2, 7)), harness.CLASSES["C"])
        expected["d/" + "x" * 255 + "/" + "y" * 200] = (
            writer.file("d/" + "x" * 255 + "/" + "y" * 200, 3, 10), harness.CLASSES["C"])
        writer.symlink("link", b"some/where")
        writer.long_symlink("long link", b"some/where/" * 300)
        identifier = writer.volume.file(writer.volume.backing_path("with holes")).id
        writer.attribute("with holes", identifier, b"user.comment", b"a comment")
        records = {b"user.comment": b"hidden by the other", b"user." + b"n" * 250: b"long name", b"user.empty": b""}
        writer.attribute_record("with holes", identifier, records, suite == 1)

        volume = harness.Volume(backing, data, os.path.join(place, "code"), None)
        mount = environment.mount(volume)
        label = f"suite {suite}: "
        for name, (contents, protection) in expected.items():
            environment.cell(f"{label}{name[:40]}", (True, protection),
                             (harness.read_file(mount / name) == contents, harness.get_class(mount / name)))
        environment.cell(label + "default class", "complete", harness.get_class(mount / "d"))
        environment.cell(label + "link", "some/where", os.readlink(mount / "link"))
        environment.cell(label + "long link", ("some/where/" * 300, 3300),
                         (os.readlink(mount / "long link"), os.lstat(mount / "long link").st_size))
        environment.cell(label + "attribute", b"a comment", os.getxattr(mount / "with holes", "user.comment"))
        environment.cell(label + "attributes of the record", {**records, b"user.comment": b"a comment"}, {
            os.fsencode(name): os.getxattr(mount / "with holes", name)
            for name in os.listxattr(mount / "with holes") if name != "user.protection"})
        with open(mount / "with holes", "r+b") as file:
            file.seek(5000)
            file.write(b"changed by protectfs")
        mount.unmount()
        again = reader.unlock(volume)
        contents = again.file(again.backing_path("with holes")).contents()
        wanted = expected["with holes"][0]
        environment.cell(label + "changed by protectfs", True,
                         contents == wanted[:5000] + b"changed by protectfs" + wanted[5020:])
