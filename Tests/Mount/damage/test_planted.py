"""Links, FIFOs, sockets and devices planted in the backing store: never followed, never waited for."""

import os
import shutil
import socket
import stat

import harness
import reader
from harness import PAGE, Skip, in_child, outcome, pattern, read_file, write_file

SECONDS = 60
SECRET = b"root:x:0:0:root"
SYSTEM = b"".join(b"%b%d:/root:/bin/sh\n" % (SECRET, number) for number in range(300))


def planters(environment):
    """Name -> how such an object is planted at a path."""
    outside = environment.new_path("outside")
    os.mkdir(outside)
    write_file(outside + "/victim", b"must stay as it is")
    # Not the system's own: a protectfs that follows the link would write there.
    write_file(outside + "/passwd", SYSTEM)
    os.mkdir(outside + "/directory")

    def sock(path):
        # sun_path is short.
        here = os.getcwd()
        os.chdir(os.path.dirname(path))
        try:
            with socket.socket(socket.AF_UNIX) as one:
                one.bind(os.path.basename(path))
        finally:
            os.chdir(here)

    found = {
        "link to a passwd file": lambda path: os.symlink(outside + "/passwd", path),
        "link to a file outside": lambda path: os.symlink(outside + "/victim", path),
        "link to ..": lambda path: os.symlink("..", path),
        "link to a directory outside": lambda path: os.symlink(outside + "/directory", path),
        "link to itself": lambda path: os.symlink(os.path.basename(path), path),
        "FIFO": os.mkfifo,
        "socket": sock,
    }
    if os.geteuid() == 0:
        for name, kind, numbers in (("character device", stat.S_IFCHR, (1, 5)), ("terminal", stat.S_IFCHR, (5, 0)),
                                    ("block device", stat.S_IFBLK, (7, 250))):
            try:
                os.mknod(environment.new_path("node"), kind | 0o600, os.makedev(*numbers))
            except OSError:
                environment.skip(name, "devices cannot be made here")
                continue
            found[name] = lambda path, kind=kind, numbers=numbers: os.mknod(path, kind | 0o600, os.makedev(*numbers))
    return found, outside


# Where each costs a password hash.
FEW = ("link to a file outside", "FIFO")


def untouched(environment, outside):
    environment.cell("the file outside", b"must stay as it is", read_file(outside + "/victim"))
    environment.cell("the passwd file outside", True, read_file(outside + "/passwd") == SYSTEM)
    environment.cell("the directory outside", [], os.listdir(outside + "/directory"))


def access(path):
    """Opens and reads as a program would that does not wait; what is in a passwd file must not come."""
    handle = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        found = os.read(handle, PAGE)
        if SECRET in found or b"must stay" in found:
            raise AssertionError("what lies outside of the volume was read")
        os.write(handle, b"written through the mount")
    finally:
        os.close(handle)


def answers(environment, title, mount):
    """The daemon still does what it is for."""
    environment.cell(f"{title}: the mount goes on", "works", in_child(
        lambda: write_file(mount / "still", b"here", os.O_TRUNC), SECONDS))
    environment.cell(f"{title}: and answers", "unlocked", mount.status()["state"])


def planted_for_files(environment, options, remount):
    reader.load()
    plants, outside = planters(environment)
    mount = environment.mount(options=options)
    for name in plants:
        write_file(mount / name.replace("/", "_"), pattern(9000))
        os.mkdir(mount / f"directory {name}".replace("/", "_"))
        write_file(mount / f"directory {name}".replace("/", "_") + "/inside", pattern(5000))
    view = reader.unlock(mount.volume)
    backing = {name: (os.fsdecode(view.backing_path(name.replace("/", "_"))),
                      os.fsdecode(view.backing_path(f"directory {name}".replace("/", "_")))) for name in plants}
    if remount:
        mount.unmount()
    for name, plant in plants.items():
        os.remove(backing[name][0])
        shutil.rmtree(backing[name][1])
        for path in backing[name]:
            plant(path)
    if remount:
        mount = environment.mount(mount.volume, path=mount.path, options=options)
    for name in plants:
        file = mount / name.replace("/", "_")
        seen = in_child(lambda: access(file), SECONDS)
        # A FIFO, a socket or a device is one in the mount as well: then the program deals with the kernel alone.
        kind = outcome(lambda: os.lstat(file))
        allowed = {"EIO", "ENOENT", "ESTALE", "ELOOP", "EACCES"}
        if "link" not in name:
            allowed |= {"works", "ENXIO", "EAGAIN", "ENODEV", "EINVAL", "EPERM"}
        environment.cell(f"{name} for a file: opening", True, seen in allowed or seen)
        environment.cell(f"{name} for a file: looking", True, kind in ("works", "ENOENT", "ESTALE", "EIO"))
        if "link" in name:
            environment.cell(f"{name} for a file: readlink", True,
                             outcome(os.readlink, file) in ("EIO", "EINVAL", "ENOENT", "ESTALE"))
        for attribute in ("user.protection", "user.other"):
            environment.cell(f"{name} for a file: {attribute}", True, in_child(
                lambda: os.getxattr(file, attribute, follow_symlinks=False), SECONDS) != "SIGALRM")
            environment.cell(f"{name} for a file: set {attribute}", True, in_child(
                lambda: os.setxattr(file, attribute, b"none", follow_symlinks=False), SECONDS) != "SIGALRM")
        directory = mount / f"directory {name}".replace("/", "_")
        for title, action in (("list", lambda: os.listdir(directory)), ("read", lambda: access(directory + "/inside")),
                              ("create", lambda: write_file(directory + "/new", b"x")),
                              ("victim", lambda: access(directory + "/victim")),
                              ("truncate", lambda: os.truncate(directory + "/inside", 1))):
            seen = in_child(action, SECONDS)
            environment.cell(f"{name} for a directory: {title}", True, seen in (
                "EIO", "ENOENT", "ENOTDIR", "ESTALE", "ELOOP") or seen)
        environment.cell(f"{name}: chmod", True, in_child(lambda: os.chmod(file, 0o600), SECONDS) != "SIGALRM")
    if any("device" in name for name in plants):
        environment.cell("devices do nothing on the mount", True, "nodev" in next(
            line for line in open("/proc/self/mountinfo", encoding="utf-8") if f" {mount.path} " in line)
            or os.geteuid() == 0)
    environment.cell("the whole list", "works", in_child(
        lambda: [os.lstat(os.path.join(mount.path, name)) for name in os.listdir(mount.path)], SECONDS))
    for name in plants:
        for path in (mount / name.replace("/", "_"), mount / f"directory {name}".replace("/", "_")):
            environment.cell(f"{name}: it can be removed", True, in_child(
                lambda: os.rmdir(path) if stat.S_ISDIR(os.lstat(path).st_mode) else os.unlink(path), SECONDS) in (
                    "works", "ENOENT", "ESTALE"))
    untouched(environment, outside)
    answers(environment, "files", mount)
    environment.cell("lock", 0, mount.lock("--grace", "0").returncode)
    mount.unlock()


def test_planted(environment):
    planted_for_files(environment, (), remount=False)


def test_planted_shared(environment):
    planted_for_files(environment, ("shared",), remount=False)


def test_planted_before_mounting(environment):
    planted_for_files(environment, (), remount=True)


def test_planted_for_what_the_volume_keeps(environment):
    """In place of a directory's record, a long name's companion, the keybag, and a temporary name."""
    reader.load()
    plants, outside = planters(environment)
    mount = environment.mount()
    long = "l" * 200
    for name in plants:
        directory = mount / f"in {name}".replace("/", "_")
        os.mkdir(directory)
        write_file(directory + "/" + long, pattern(100))
    view = reader.unlock(mount.volume)
    keybag = reader.keybag_file(mount.volume)
    mount.unmount()
    for name, plant in plants.items():
        place = f"in {name}".replace("/", "_")
        record = os.path.join(os.fsdecode(view.backing_path(place)), ".protectfs.dir")
        companion = os.fsdecode(view.backing_path(place + "/" + long)) + ".n"
        for path in (record, companion):
            os.remove(path)
            plant(path)
    mount = environment.mount(mount.volume, path=mount.path)
    for name in plants:
        directory = mount / f"in {name}".replace("/", "_")
        for title, action in (("list", lambda: os.listdir(directory)), ("create", lambda: write_file(directory + "/x", b"")),
                              ("open", lambda: read_file(directory + "/" + long)),
                              ("default", lambda: os.setxattr(directory, "user.protection", b"A"))):
            seen = in_child(action, SECONDS)
            environment.cell(f"{name} for a record and a companion: {title}", True, seen in (
                "works", "EIO", "ENOENT", "ENODATA") or seen)
        environment.cell(f"{name}: nothing was made outside", True, outcome(os.lstat, directory) == "works")
    untouched(environment, outside)
    answers(environment, "records", mount)
    # The keybag: looked at by unlock, replaced by a change of the passphrase.
    mount.lock()
    new = environment.new_path("new")
    write_file(new, b"another passphrase\n")
    volume = mount.volume
    os.rename(keybag, keybag + ".kept")
    for name, plant in plants.items():
        plant(keybag)
        done = mount.command("unlock", "--recovery-file", volume.code_file, mount.path, ok=False)
        environment.cell(f"{name} for the keybag: unlock", True, done.returncode != 0)
        done = name in FEW and harness.protectfs("passphrase", "change", "--passphrase-file", volume.passphrase_file,
                                 "--new-passphrase-file", new, volume.path, env=volume.environment, ok=False)
        environment.cell(f"{name} for the keybag: change", True, not done or done.returncode != 0)
        os.remove(keybag)
    os.rename(keybag + ".kept", keybag)
    mount.unlock()
    # Objects at the temporary names of a keybag change are removed; nothing is written through them.
    for name, plant in ((name, plants[name]) for name in FEW):
        for path in (keybag + ".old", os.path.join(volume.path, ".protectfs.tmp.keybag")):
            if os.path.lexists(path):
                os.remove(path)
            plant(path)
        done = harness.protectfs("passphrase", "change", "--passphrase-file", volume.passphrase_file,
                                 "--new-passphrase-file", volume.passphrase_file, volume.path,
                                 env=volume.environment, ok=False)
        environment.cell(f"{name} for the old keybag: change", (0, ""), (done.returncode, done.stderr.strip()))
    untouched(environment, outside)
    answers(environment, "keybag", mount)


def test_planted_beside_the_volume(environment):
    """In place of the device key, the state file and their locks: refused, with nothing written through."""
    volume = environment.volume()
    plants, outside = planters(environment)
    mount = environment.mount(volume)
    mount.unmount()
    key, state = reader.device_key_file(volume), reader.state_file(volume)
    for path, title in ((state, "state file"), (state.removesuffix("state") + "lock", "lock"),
                        (state.removesuffix("state") + "keybag.lock", "keybag's lock")):
        kept = os.path.lexists(path)
        if kept:
            os.rename(path, path + ".kept")
        for name, plant in plants.items():
            plant(path)
            before = os.lstat(path).st_ino
            point = environment.new_path("point")
            os.mkdir(point)
            done = harness.protectfs("mount", "--recovery-file", volume.code_file, volume.path, point,
                                     env=volume.environment, ok=False)
            environment.cell(f"{name} for the {title}: mounting", (True, "keybag" in title), (
                bool(done.stderr.strip()) or done.returncode == 0, done.returncode == 0))  # a mount needs no keybag's lock
            if done.returncode == 0:
                harness.protectfs("unmount", point, env=volume.environment)
            if title != "lock" and name in FEW:
                done = harness.protectfs("passphrase", "change", "--passphrase-file", volume.passphrase_file,
                                         "--new-passphrase-file", volume.passphrase_file, volume.path,
                                         env=volume.environment, ok=False)
                environment.cell(f"{name} for the {title}: change", True, done.returncode != 0)
            environment.cell(f"{name} for the {title}: it lies there as it was", before, os.lstat(path).st_ino)
            os.remove(path)
        if kept:
            os.rename(path + ".kept", path)
    os.rename(key, key + ".kept")
    for name, plant in plants.items():
        plant(key)
        done = harness.protectfs("mount", "--no-unlock", volume.path, environment.new_path("none"),
                                 env=volume.environment, ok=False)
        environment.cell(f"{name} for the device key", True, done.returncode != 0)
        os.remove(key)
    os.rename(key + ".kept", key)
    untouched(environment, outside)
    environment.mount(volume).unmount()


def test_another_mount_over_the_mount_point(environment):
    """What the daemon does through its own mount never reaches what somebody mounts over it."""
    if os.geteuid() != 0:
        raise Skip("only root may mount over it")
    mount = environment.mount()
    write_file(mount / "file", pattern(9000))
    harness.set_class(mount / "file", "A")
    handle = os.open(mount / "file", os.O_RDWR)
    if harness.run("mount", "-t", "tmpfs", "none", mount.path, ok=False).returncode != 0:
        os.close(handle)
        raise Skip("tmpfs cannot be mounted here")
    try:
        write_file(mount / "file", b"of somebody else")
        os.utime(mount / "file", (1000, 1000))
        for number in range(20):
            # Each direct write has the kernel told of its time, through the mount itself.
            os.pwrite(handle, b"x", number)
            os.stat(f"/proc/self/fd/{handle}")
        os.fsync(handle)
        environment.cell("the time of the other file", 1000, os.stat(mount / "file").st_mtime)
    finally:
        os.close(handle)
        harness.run("umount", mount.path)
    environment.cell("its own file", b"x" * 20, read_file(mount / "file")[:20])


def moved_outside(environment, options, remount):
    """A link to the original object, moved away: following it would give the right content, but it must not be followed."""
    reader.load()
    mount = environment.mount(options=options)
    outside = environment.new_path("outside")
    os.mkdir(outside)
    names = [f"{kind} {letter}" for kind in ("absolute", "relative") for letter in "AD"]
    for name in names:
        write_file(mount / name, pattern(9000))
        harness.set_class(mount / name, name[-1])
        os.mkdir(mount / f"directory {name}")
        write_file(mount / f"directory {name}/inside", pattern(5000))
    write_file(mount / "heard", pattern(9000))
    view = reader.unlock(mount.volume)
    backing = {name: os.fsdecode(view.backing_path(name))
               for name in [*names, *(f"directory {name}" for name in names), "heard"]}
    if remount:
        mount.unmount()
    for name, path in backing.items():
        there = os.path.join(outside, name)
        os.rename(path, there)
        if name == "heard":
            os.mkfifo(path)
        else:
            os.symlink(there if "absolute" in name else os.path.relpath(there, os.path.dirname(path)), path)
    listener = os.open(backing["heard"], os.O_RDWR | os.O_NONBLOCK)
    before = contents_below(outside)
    if remount:
        mount = environment.mount(mount.volume, path=mount.path, options=options)
    refusals = {"EIO", "ENOENT", "ENOTDIR", "ESTALE", "ELOOP"}
    for name in names:
        inside = mount / f"directory {name}/inside"
        for title, action in (
                ("read", lambda: read_file(mount / name)),
                ("write", lambda: access(mount / name)),
                ("truncate", lambda: os.truncate(mount / name, 1)),
                ("class", lambda: harness.get_class(mount / name)),
                ("set class", lambda: harness.set_class(mount / name, "B")),
                ("list", lambda: os.listdir(mount / f"directory {name}")),
                ("read in a directory", lambda: read_file(inside)),
                ("write in a directory", lambda: access(inside)),
                ("create in a directory", lambda: write_file(mount / f"directory {name}/new", b"x")),
                ("remove in a directory", lambda: os.unlink(inside))):
            seen = in_child(action, SECONDS)
            environment.cell(f"{name}, moved outside: {title}", True, seen in refusals or seen)
    # A program may have a FIFO of the mount there; the one below is never opened, so its other end hears nothing.
    seen = in_child(lambda: access(mount / "heard"), SECONDS)
    environment.cell("a FIFO for a file: opening", True, seen in refusals | {"works", "EAGAIN", "ENXIO"} or seen)
    environment.cell("what the other end of the FIFO hears", "EAGAIN", outcome(os.read, listener, PAGE))
    os.close(listener)
    environment.cell("nothing outside was changed", True, contents_below(outside) == before)
    answers(environment, "moved outside", mount)


def contents_below(place):
    """Path → content, size, mode and attributes of every object there."""
    found = {}
    for directory, _, files in os.walk(place):
        for path in [directory, *(os.path.join(directory, name) for name in files)]:
            status = os.lstat(path)
            found[path] = (stat.S_IMODE(status.st_mode), status.st_size, {
                name: os.getxattr(path, name, follow_symlinks=False) for name in os.listxattr(path, follow_symlinks=False)},
                read_file(path) if stat.S_ISREG(status.st_mode) else os.listdir(path) if stat.S_ISDIR(status.st_mode) else None)
    return found


def test_moved_outside(environment):
    moved_outside(environment, (), remount=False)


def test_moved_outside_shared(environment):
    moved_outside(environment, ("shared",), remount=False)


def test_moved_outside_before_mounting(environment):
    moved_outside(environment, (), remount=True)
