"""A store that is a FUSE file system: power cuts over it, listings by its offsets, names that must be free."""

import ctypes
import os
import random

import harness
from aio import Requests
from checks import errors
from losing import LosingStore
from losing_rounds import Losing

SEED = 20
RENAME_NOREPLACE, RENAME_EXCHANGE = 1, 2
libc = ctypes.CDLL(None, use_errno=True)


class NothingElse(random.Random):
    """A power cut after which only what was synced is there."""

    def choice(self, _):
        return 0


def rename(old, new, flags):
    if libc.renameat2(-100, os.fsencode(old), -100, os.fsencode(new), flags) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), old)


def new_volume(environment, store):
    """A volume that is made there: also `init` needs a name that must be free."""
    host = environment.volume()
    path = store.path + "/volume"
    done = harness.protectfs("init", "--json", "--passphrase-file", host.passphrase_file, path, ok=False, env=host.environment)
    environment.cell("init", 0, done.returncode)
    assert done.returncode == 0, done.stderr
    code = environment.new_path("code")
    harness.write_file(code, harness.json.loads(done.stdout)["recoveryCode"].encode() + b"\n")
    return harness.Volume(path, host.data, code, host.passphrase_file)


def test_power_cuts(environment):
    """Rounds of power cuts, some just after a clean unmount: everything promised is there, and nothing is damaged."""
    rounds = Losing(environment, SEED)
    count = 100 if environment.mode == "full" else 6
    try:
        for _ in range(count):
            environment.cell(f"round {rounds.number + 1}", [], rounds.run())
    finally:
        rounds.close()
    environment.cell("fsyncs compared", True, rounds.figures["promises"] > 20 * count)
    environment.cell("cuts that lost something", True, rounds.figures["unflushed"] > 0)
    print("        " + ", ".join(f"{value} {name}" for name, value in rounds.figures.items()), flush=True)


test_power_cuts.time_limit = 1800


def test_synchronous_writes(environment):
    """write(2) with O_DSYNC or O_SYNC is there after a power cut also where the kernel sends no fsync: direct handles, and
    asynchronous requests with O_DIRECT."""
    old, new = harness.pattern(1 << 16), harness.pattern(1 << 16, 2)
    for options, direct in (("no_complete_cache", 0), ("", os.O_DIRECT)):
        for name, flag in (("O_DSYNC", os.O_DSYNC), ("O_SYNC", os.O_SYNC)):
            store = LosingStore(environment)
            try:
                volume = new_volume(environment, store)
                mount = environment.mount(volume, options=(options,) if options else ())
                harness.make_file(mount / "file", "A", old)
                for path in (mount / "file", mount.path):
                    handle = os.open(path, os.O_RDONLY)
                    os.fsync(handle)
                    os.close(handle)
                handle = os.open(mount / "file", os.O_RDWR | flag | direct)
                if direct:
                    requests = Requests(len(new), 4096)
                    requests.write(handle, new)
                    requests.close()
                else:
                    os.pwrite(handle, new, 0)
                store.stop()
                mount.crash()
                os.close(handle)
                store.cut(NothingElse())
                again = environment.mount(volume)
                environment.cell(f"{options or 'O_DIRECT, asynchronous'}, {name}", True, harness.read_file(again / "file") == new)
                again.unmount()
            finally:
                store.close()


def test_names(environment):
    """init, listings and renames without replacing, where offsets are 1, 2, 3 and RENAME_NOREPLACE is EINVAL."""
    store = LosingStore(environment)
    try:
        volume = new_volume(environment, store)
        store.cut(NothingElse())
        environment.cell("a new volume after a power cut", 0,
                         harness.protectfs("info", volume.path, ok=False, env=volume.environment).returncode)
        mount = environment.mount(volume)
        place = mount / "many"
        os.mkdir(place)
        names = sorted(f"file {number} {'x' * 80}" for number in range(700))
        for name in names:
            harness.write_file(os.path.join(place, name), b"x")
        done = harness.run("timeout", "60", "ls", "-a", place, ok=False)
        environment.cell("ls", (0, [".", "..", *names]), (done.returncode, sorted(done.stdout.splitlines())))
        for count in (0, 1, 2, 3):
            few = mount / f"few{count}"
            os.mkdir(few)
            wanted = sorted(f"f{number}" for number in range(count))
            for name in wanted:
                harness.write_file(os.path.join(few, name), b"")
            done = harness.run("timeout", "60", "ls", "-a", few, ok=False)
            environment.cell(f"ls of {count}", (0, [".", "..", *wanted]), (done.returncode, sorted(done.stdout.splitlines())))
        harness.write_file(mount / "one", b"one")
        harness.write_file(mount / "two", b"two")
        os.mkdir(mount / "a")
        os.mkdir(mount / "b")
        outcome = harness.outcome
        cells = {
            "a file to a free name": (outcome(rename, mount / "one", mount / "free", RENAME_NOREPLACE), "works"),
            "a file to a name in use": (outcome(rename, mount / "free", mount / "two", RENAME_NOREPLACE), "EEXIST"),
            "a file over a directory": (outcome(rename, mount / "free", mount / "a", RENAME_NOREPLACE), "EEXIST"),
            "into another directory": (outcome(rename, mount / "free", mount / "a/moved", RENAME_NOREPLACE), "works"),
            "a directory to a free name": (outcome(rename, mount / "a", mount / "c", RENAME_NOREPLACE), "works"),
            "a directory over a directory": (outcome(rename, mount / "c", mount / "b", RENAME_NOREPLACE), "EEXIST"),
            "a directory over a file": (outcome(rename, mount / "c", mount / "two", RENAME_NOREPLACE), "EEXIST"),
            "a long name": (outcome(rename, mount / "two", mount / ("l" * 250), RENAME_NOREPLACE), "works"),
            "mkdir of a name in use": (outcome(os.mkdir, mount / "b"), "EEXIST"),
        }
        for name, (found, wanted) in cells.items():
            environment.cell(name, wanted, found)
        environment.cell("content that moved", (b"one", b"two"),
                         (harness.read_file(mount / "c/moved"), harness.read_file(mount / ("l" * 250))))
        os.symlink("somewhere", mount / "link")
        environment.cell("a symlink", ("works", "somewhere"),
                         (outcome(rename, mount / "link", mount / "link2", RENAME_NOREPLACE), os.readlink(mount / "link2")))
        mount.unmount()
        environment.cell("errors that fsck finds", [], errors(volume))
        repair(environment, volume)
    finally:
        store.close()


def repair(environment, volume):
    """A file with a damaged block goes to lost+found by a rename that must not replace."""
    damaged = None
    for directory, _, files in os.walk(volume.path):
        for name in files:
            path = os.path.join(directory, name)
            if os.path.isfile(path) and not name.startswith(".protectfs") and os.path.getsize(path) > 4000:
                damaged = path
    with open(damaged, "r+b") as file:
        file.seek(-40, os.SEEK_END)
        file.write(b"damage")
    words = ("fsck", "--repair", "--quarantine", "--recovery-file", volume.code_file, volume.path)
    done = harness.protectfs(*words, ok=False, env=volume.environment)
    environment.cell("fsck --repair on such a store", False, "Invalid argument" in done.stdout + done.stderr)
    again = harness.protectfs("fsck", "--recovery-file", volume.code_file, volume.path, ok=False, env=volume.environment)
    environment.cell("fsck after it", 0, again.returncode)


#: What makes a name, and its name: (the call, the name that it makes).
MAKING = {
    "file": lambda place, name: harness.write_file(place + name, b"content"),
    "directory": lambda place, name: os.mkdir(place + name),
    "symlink": lambda place, name: os.symlink("target", place + name),
    "long target": lambda place, name: os.symlink("t" * 4000, place + name),
    "link": lambda place, name: os.link(place + "old", place + name),
    "fifo": lambda place, name: os.mkfifo(place + name),
    "rename": lambda place, name: os.rename(place + "moved", place + name),
}


def test_lost_replies(environment):
    """The store makes a name and answers with an error: what the program was told is what is there, and nothing is damaged."""
    store = LosingStore(environment)
    try:
        volume = new_volume(environment, store)
        mount = environment.mount(volume)
        wanted = {"old"}
        harness.write_file(mount / "old", b"old")
        lose = os.path.join(store.record, "lose")
        for kind, make in MAKING.items():
            for length in (20, 250):
                for number in range(1, 9):
                    name = f"{kind} {number} {length} ".ljust(length, "x")
                    if kind == "rename":
                        harness.write_file(mount / "moved", b"moved")
                    harness.write_file(lose, b"%d\n" % number)
                    said = harness.outcome(make, mount.path + "/", name)
                    left = int(harness.read_file(lose))
                    os.unlink(lose)
                    environment.cell(f"{kind}, {length}, {number}", True, said in ("works", "EIO"))
                    if said == "works":
                        wanted.add(name)
                    if kind == "rename" and said != "works":
                        os.unlink(mount / "moved")
                    environment.cell(f"{kind}, {length}, {number}: names", [], sorted(wanted ^ set(os.listdir(mount.path))))
                    if left > 0:
                        break
        mount.unmount()
        environment.cell("errors that fsck finds", [], errors(volume))
        mount = environment.mount(volume)
        environment.cell("names after mounting again", [], sorted(wanted ^ set(os.listdir(mount.path))))
        for name in wanted:
            environment.cell(f"{name[:20]} is whole", "works", harness.outcome(os.lstat, mount / name))
        environment.cell("content", b"old", harness.read_file(mount / "old"))
        mount.unmount()
    finally:
        store.close()
