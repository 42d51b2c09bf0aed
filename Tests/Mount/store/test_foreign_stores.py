"""Volumes on stores that are FUSE file systems themselves, as Debian has them: bindfs, mergerfs, encfs, gocryptfs, ntfs-3g,
and GlusterFS with two replicas."""

import contextlib
import json
import os
import shutil
import sqlite3

import crashes
import harness
from checks import errors
from replicas import directory, glusterfs
from test_losing_store import RENAME_NOREPLACE, new_volume, rename


def bindfs(environment, path):
    harness.run("bindfs", directory(environment, "below"), path)


def mergerfs(environment, path):
    harness.run("mergerfs", directory(environment, "one") + ":" + directory(environment, "two"), path)


def encfs(environment, path):
    below = directory(environment, "below")
    harness.run("encfs", "--standard", "-S", below, path, input="passphrase\n")


def gocryptfs(environment, path):
    below = directory(environment, "below")
    words = ["gocryptfs", "-q", "-extpass", "echo passphrase"]
    harness.run(*words, "-init", "-scryptn", "10", below)
    harness.run(*words, below, path)


def ntfs(environment, path):
    image = environment.new_path("image")
    with open(image, "wb") as file:
        file.truncate(64 << 20)
    harness.run("mkntfs", "-F", "-Q", "-q", image)
    harness.run("ntfs-3g", image, path)


STORES = {"bindfs": (bindfs, "bindfs"), "mergerfs": (mergerfs, "mergerfs"), "encfs": (encfs, "encfs"),
          "gocryptfs": (gocryptfs, "gocryptfs"), "ntfs-3g": (ntfs, "ntfs-3g"), "GlusterFS": (glusterfs, "glusterd")}


class Place:
    """What `new_volume` needs of a store."""

    def __init__(self, path):
        self.path = path


@contextlib.contextmanager
def foreign(environment, name):
    if os.geteuid() != 0:
        raise harness.Skip("only root may mount all of these")
    make, program = STORES[name]
    if not shutil.which(program):
        raise harness.Skip(f"{program} is not installed")
    path = directory(environment, name)
    with contextlib.ExitStack() as stack:
        made = make(environment, path)
        if made is not None:
            stack.enter_context(made)
        stack.callback(harness.run, "umount", "-l", path, ok=False)
        yield Place(path)


def work(environment, name, mount):
    """What programs do; gives what they could not."""
    def cell(label, wanted, found):
        environment.cell(f"{name}: {label}", wanted, found)

    many = mount / "many"
    os.mkdir(many)
    names = sorted(f"file {number:03} {'x' * 100}" for number in range(300))
    for one in names:
        harness.write_file(os.path.join(many, one), one.encode())
    done = harness.run("timeout", "60", "ls", many, ok=False)
    cell("ls", (0, names), (done.returncode, sorted(done.stdout.splitlines())))
    done = harness.run("mv", "-n", mount / "many/" + names[0], mount / "moved", ok=False)
    cell("mv", (0, names[0].encode()), (done.returncode, harness.read_file(mount / "moved")))
    cell("a name in use", "EEXIST", harness.outcome(rename, mount / "moved", mount / "many/" + names[1], RENAME_NOREPLACE))
    cell("a directory", "works", harness.outcome(rename, many, mount / "others", RENAME_NOREPLACE))
    content = harness.pattern(300_000)
    for letter in "ABCD":
        harness.make_file(mount / letter, letter, content)
    with open(mount / "D", "r+b") as file:
        file.truncate(100_001)
        file.seek(200_000)
        file.write(b"after a hole")
    cell("a cut", content[:100_001] + bytes(99_999) + b"after a hole", harness.read_file(mount / "D"))
    with contextlib.closing(sqlite3.connect(mount / "database")) as database:
        database.execute("create table numbers (number)")
        for number in range(20):
            with database:
                database.execute("insert into numbers values (?)", (number,))
    os.symlink("A", mount / "link")
    for number in range(20):
        harness.write_file(mount / "new", b"%d" % number)
        os.replace(mount / "new", mount / "saved")
    shutil.rmtree(mount / "others/none", ignore_errors=True)
    os.mkdir(mount / "d")
    os.rmdir(mount / "d")


def run(environment, name):
    with foreign(environment, name) as store:
        volume = new_volume(environment, store)
        mount = environment.mount(volume)
        work(environment, name, mount)
        mount.lock()
        mount.unlock()
        before = crashes.digest(mount.path)
        mount.unmount()
        facts = json.loads(harness.protectfs("info", "--json", volume.path, env=volume.environment).stdout)
        environment.cell(f"{name}: open epochs after the unmount", [], facts["openEpochs"])
        environment.cell(f"{name}: errors that fsck finds", [], errors(volume))
        again = environment.mount(volume, path=mount.path)
        environment.cell(f"{name}: after a remount", before, crashes.digest(again.path))
        shutil.rmtree(again / "others")
        again.unmount()
        environment.cell(f"{name}: errors at the end", [], errors(volume))


def test_bindfs(environment):
    run(environment, "bindfs")


def test_mergerfs(environment):
    run(environment, "mergerfs")


def test_encfs(environment):
    run(environment, "encfs")


def test_gocryptfs(environment):
    run(environment, "gocryptfs")


def test_ntfs(environment):
    run(environment, "ntfs-3g")


def test_glusterfs(environment):
    """Not installed by mount-scripts/packages, as it takes a minute: apt install glusterfs-server."""
    if environment.mode == "quick":
        raise harness.Skip("GlusterFS takes a minute: --mode usual")
    run(environment, "GlusterFS")

def test_short_names(environment):
    """encfs takes names of 175 bytes: names of any length work, there and where the volume is moved, and init says what it costs."""
    with foreign(environment, "encfs") as store:
        volume = new_volume(environment, store)
        other = os.path.join(store.path, "other")
        done = harness.protectfs("init", "--passphrase-file", volume.passphrase_file, other, env=volume.environment)
        environment.cell("init says so", True, "names of at most 175 bytes" in done.stderr and "more than 115 bytes" in done.stderr)
        mount = environment.mount(volume)
        names = ["n" * length for length in (1, 91, 92, 115, 116, 150, 175, 176, 254, 255)]
        environment.cell("statvfs", 255, os.statvfs(mount.path).f_namemax)
        for name in names:
            harness.write_file(mount / name, name.encode())
            os.rename(mount / name, mount / (name[:-1] + "m"))
            os.rename(mount / (name[:-1] + "m"), mount / name)
        environment.cell("listed", names, sorted(os.listdir(mount.path), key=len))
        mount.unmount()
        environment.cell("errors that fsck finds", [], errors(volume))
        place = environment.new_path("moved")
        shutil.copytree(volume.path, place, symlinks=True)
    moved = harness.Volume(place, volume.data, volume.code_file, volume.passphrase_file)
    mount = environment.mount(moved)
    environment.cell("moved: listed", names, sorted(os.listdir(mount.path), key=len))
    environment.cell("moved: read", [name.encode() for name in names], [harness.read_file(mount / name) for name in names])
    long = names[5]
    environment.cell("moved: made anew", "EEXIST", harness.outcome(os.mkdir, mount / long))
    harness.write_file(mount / "new", b"new")
    os.rename(mount / "new", mount / long)
    os.unlink(mount / names[6])
    harness.write_file(mount / names[6], b"direct")
    environment.cell("moved: changed", (b"new", b"direct"), (harness.read_file(mount / long), harness.read_file(mount / names[6])))
    environment.cell("moved: each once", names, sorted(os.listdir(mount.path), key=len))
    mount.unmount()
    environment.cell("moved: errors that fsck finds", [], errors(moved))
