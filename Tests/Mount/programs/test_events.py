"""What inotify(7) tells of a change: one event per change, as on ext4, whatever the class.

Of class A an IN_ATTRIB can follow a write: the kernel's modification time, which a direct write does not move, is set then.
"""

import ctypes
import os
import select
import struct
import time

from harness import set_class, write_file

libc = ctypes.CDLL(None, use_errno=True)
CLOCK_REALTIME_COARSE = 5
NAMES = {0x2: "modify", 0x4: "attrib", 0x8: "close after writing", 0x80: "moved here", 0x100: "create", 0x20: "open",
         0x40: "moved away", 0x1: "access", 0x10: "close", 0x200: "delete"}
WATCHED = 0x2 | 0x4 | 0x8 | 0x40 | 0x80 | 0x100 | 0x200


def now():
    """The time as files get it, which advances in steps of some milliseconds, and of more where a processor is taken away."""
    return time.clock_gettime_ns(CLOCK_REALTIME_COARSE)


class Watch:
    def __init__(self, directory, events=WATCHED):
        self.handle = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        assert self.handle >= 0 and libc.inotify_add_watch(self.handle, os.fsencode(directory), events) >= 0

    def events(self, settle=0.3):
        """The events until none comes for a while, as (event, name)."""
        found = []
        while select.select([self.handle], [], [], settle)[0]:
            data = os.read(self.handle, 65536)
            while data:
                _, mask, _, length = struct.unpack_from("<iIII", data)
                name = data[16:16 + length].rstrip(b"\0").decode()
                found.append((NAMES.get(mask, hex(mask)), name))
                data = data[16 + length:]
        return found

    def close(self):
        os.close(self.handle)


def write(path):
    handle = os.open(path, os.O_WRONLY)
    os.write(handle, b"new")
    os.close(handle)


def write_slowly(path):
    """Longer than anybody would put off what he has to tell."""
    handle = os.open(path, os.O_WRONLY)
    for _ in range(3):
        os.write(handle, b"new")
        time.sleep(0.1)
    os.close(handle)


def append(path):
    handle = os.open(path, os.O_WRONLY | os.O_APPEND)
    os.write(handle, b"more")
    time.sleep(0.1)
    os.close(handle)


def save(path):
    write_file(path + ".new", b"a new version")
    os.rename(path + ".new", path)


def cut(path):
    os.truncate(path, 1)


CHANGES = {"write": write, "slow writes": write_slowly, "append": append, "save by rename": save, "cut": cut,
           "chmod": lambda path: os.chmod(path, 0o640)}


def results(directory, settle=0.3):
    """The events of each change. What came before it is waited for until none has come for `settle` seconds."""
    found = {}
    watch = Watch(directory)
    for name, change in CHANGES.items():
        path = os.path.join(directory, "file")
        write_file(path, b"old content")
        watch.events(settle)
        change(path)
        found[name] = watch.events()
    watch.close()
    return found


def test_one_event_per_change(environment):
    mount = environment.mount()
    below = environment.new_path("below")
    os.mkdir(below)
    theirs = results(below)
    for letter in ("C", "A"):
        directory = mount / letter
        os.mkdir(directory)
        set_class(directory, letter)
        # The daemon may be late to tell of times.
        ours = results(directory, 4 if letter == "A" else 0.3)
        for name, events in theirs.items():
            told = [event for event in ours[name] if letter != "A" or name == "chmod" or event[0] != "attrib"]
            # The kernel joins equal events that follow each other and are not read yet.
            told = [event for number, event in enumerate(told) if number == 0 or told[number - 1] != event]
            environment.cell(f"[{letter}, {name}] events", events, told)
            times = ours[name].count(("attrib", "file")) + ours[name].count(("attrib", "file.new"))
            if letter == "A" and name != "chmod":
                # Slow writes are further apart than the time for which what is to be told is collected.
                environment.cell(f"[{letter}, {name}] few events of times", True, times <= (3 if name == "slow writes" else 1))


def test_nobody_looks_at_directories(environment):
    """What the daemon does through its own mount opens no directory, of which a file manager would be told."""
    mount = environment.mount()
    directory = mount / "A"
    os.mkdir(directory)
    set_class(directory, "A")
    path = os.path.join(directory, "file")
    write_file(path, b"old")
    # IN_OPEN and IN_CLOSE_NOWRITE; with IN_ISDIR they have no name.
    watches = [Watch(place, 0x20 | 0x10) for place in (mount.path, directory)]
    for change in (write, write_slowly, append, save):
        change(path)
        told = [event for watch in watches for event in watch.events()]
        environment.cell(f"[{change.__name__}] directories opened", [], [event for event in told if event[1] in ("", "A")])
        environment.cell(f"[{change.__name__}] the file", True, any(name.startswith("file") for _, name in told))
    for watch in watches:
        watch.close()


def test_time_of_a_deep_file(environment):
    """The time of a write reaches the kernel also where the path is longer than one call may have it."""
    mount = environment.mount()
    set_class(mount.path, "A")
    here = os.open(mount.path, os.O_RDONLY)
    for _ in range(25):
        os.mkdir("d" * 200, dir_fd=here)
        deeper = os.open("d" * 200, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = deeper
    handle = os.open("file", os.O_WRONLY | os.O_CREAT, dir_fd=here)
    os.utime(handle, ns=(10 ** 18, 10 ** 18))
    before = now()
    os.write(handle, b"new")
    os.close(handle)
    environment.cell("its time", True, os.stat("file", dir_fd=here).st_mtime_ns >= before)
    os.close(here)


def test_time_is_seen_after_a_write(environment):
    """Whoever looks after a write sees its time at once, also when nobody has looked before, and after the last close."""
    mount = environment.mount()
    directory = mount / "A"
    os.mkdir(directory)
    set_class(directory, "A")
    wrong = []
    for number in range(20):
        path = os.path.join(directory, f"file{number}")
        write_file(path, b"old")
        os.utime(path, ns=(10 ** 18, 10 ** 18))
        before = now()
        write(path)
        if number % 2:
            time.sleep(0.05)
        if number % 3 == 0:
            os.rename(path, path + " renamed")
            path += " renamed"
        seen = [os.stat(path).st_mtime_ns for _ in range(2)]
        if min(seen) < before or seen[0] != seen[1]:
            wrong.append((number, seen, before))
    environment.cell("files with an old time", [], wrong)
    times = {name: os.stat(os.path.join(directory, name)).st_mtime_ns for name in os.listdir(directory)}
    mount = environment.remount(mount)
    later = {name: os.stat(mount / "A" + "/" + name).st_mtime_ns for name in os.listdir(mount / "A")}
    environment.cell("times after a remount", times, later)
