"""Programs that walk over a tree: those that want names pay for names, and the others get attributes with them."""

import contextlib
import ctypes
import os
import stat
import struct
import subprocess
import sys

import harness
from costs import Counter
from handles import forget
from harness import Skip, in_child, read_file, run, write_file

DIRECTORIES, FILES = 40, 25
libc = ctypes.CDLL(None, use_errno=True)

# Each in a process of its own, which has listed nothing before.
WALKS = {
    "names": "for _, _, files in os.walk(top): assert len(files) in (0, FILES - 1)",
    "status": "for at, _, files in os.walk(top):\n for name in files: os.lstat(os.path.join(at, name))",
    "turns": "for number, (at, _, files) in enumerate(os.walk(top)):\n"
             " for name in files:\n  if number % 8 < 4: os.lstat(os.path.join(at, name))",
}


def kernel():
    return tuple(int(part) for part in os.uname().release.split("-")[0].split(".")[:2])


def walk(name, top, files=FILES):
    """Runs one of the walks."""
    subprocess.run([sys.executable, "-c", f"import os, sys\ntop, FILES = sys.argv[1], {files}\n{WALKS[name]}", top], check=True)


def tree(mount, directories=DIRECTORIES, files=FILES):
    """Makes the tree, with a link and a directory beside the files of each directory."""
    for number in range(directories):
        os.makedirs(mount / f"d/{number:02}/below")
        for file in range(files - 1):
            write_file(mount / f"d/{number:02}/{file}", b"content")
        os.symlink("below", mount / f"d/{number:02}/link")


def test_costs(environment):
    """Requests of the kernel and calls to the store, for each file."""
    mount = environment.mount()
    tree(mount)
    mount.unmount()
    files = DIRECTORIES * FILES
    # Names only: a directory's own requests. The others: hardly a LOOKUP for a file.
    for name, (requests, looks) in {"names": (0.3, 0.45), "status": (0.4, 1.5), "turns": (0.5, 1.5)}.items():
        counter = Counter(environment, mount.volume)
        cost, calls = counter.cost(lambda top, name=name: walk(name, top), [counter.mount / "d"])
        environment.cell(f"{name}: requests", True, cost.requests <= requests * files or cost)
        environment.cell(f"{name}: looks at the store", True, calls["statx"] <= looks * files or calls)
        counter.mount.unmount()


def test_large_directories(environment):
    """A directory of several pages: the kernel's own rule would look up most of the files, as it knows only of the first page."""
    if kernel() < (6, 16):
        raise Skip("before Linux 6.16 the kernel's rule is used")
    directories, most = 12, 1000
    mount = environment.mount()
    tree(mount, directories, most)
    mount.unmount()
    files = directories * most
    for name, (requests, looks) in {"names": (0.02, 0.05), "status": (0.3, 1.5)}.items():
        counter = Counter(environment, mount.volume)
        cost, calls = counter.cost(lambda top, name=name: walk(name, top, most), [counter.mount / "d"])
        environment.cell(f"{name}: requests", True, cost.requests <= requests * files or cost)
        environment.cell(f"{name}: looks at the store", True, calls["statx"] <= looks * files or calls)
        counter.mount.unmount()


def test_shared(environment):
    """Where each use of a name looks it up, a listing looks at nothing."""
    mount = environment.mount(options=("shared",))
    tree(mount)
    mount.unmount()
    counter = Counter(environment, mount.volume, ("shared",))
    calls = counter.cost(lambda top: subprocess.run(["ls", "-U", f"{top}/00"], check=True, capture_output=True), [counter.mount / "d"])[1]
    environment.cell("looks at the store", True, calls["statx"] <= 10 or calls)


def test_what_is_listed(environment):
    """Names, kinds and inode numbers are the same, whatever comes with them."""
    mount = environment.mount()
    tree(mount)
    mount = environment.remount(mount)
    for number in range(DIRECTORIES):
        with os.scandir(mount / f"d/{number:02}") as listing:
            found = {entry.name: (entry.inode(), entry.is_symlink(), entry.is_dir(follow_symlinks=False)) for entry in listing}
        # Some of the directories, so that the next one is listed in the other way.
        looks = {} if number % 3 else {name: os.lstat(mount / f"d/{number:02}/{name}") for name in found}
        environment.cell(f"{number}: names", sorted([*map(str, range(FILES - 1)), "below", "link"]), sorted(found))
        environment.cell(f"{number}: kinds", ({"link"}, {"below"}), ({name for name, one in found.items() if one[1]},
                                                                     {name for name, one in found.items() if one[2]}))
        environment.cell(f"{number}: numbers", {}, {
            name: found[name] for name, status in looks.items() if found[name] != (
                status.st_ino, stat.S_ISLNK(status.st_mode), stat.S_ISDIR(status.st_mode))})


def test_deep(environment):
    """A tree that is deeper than any path may be long: it is made, forgotten, read and removed."""
    mount = environment.mount()
    levels = 6_300  # more than the daemon once went down, below the directories that it keeps open
    with in_directory(mount.path):
        for _ in range(levels):
            os.mkdir("d")
            os.chdir("d")
        write_file("bottom", b"content")
        environment.cell("its content", b"content", read_file("bottom"))
        forget()
    environment.cell("the daemon lives", "unlocked", mount.state())
    done = run("rm", "-rf", mount / "d", ok=False)
    environment.cell("rm -rf", (0, ""), (done.returncode, done.stderr))
    environment.cell("what is left", [], os.listdir(mount.path))


@contextlib.contextmanager
def in_directory(path):
    before = os.open(".", os.O_RDONLY)
    os.chdir(path)
    try:
        yield
    finally:
        os.fchdir(before)
        os.close(before)


def entries_of(handle):
    """(name, position after it) of each entry from the position of the handle on, as getdents64(2) gives them."""
    room, found = ctypes.create_string_buffer(32768), []
    while True:
        filled = libc.syscall(217 if os.uname().machine == "x86_64" else 61, handle, room, len(room))
        assert filled >= 0, ctypes.get_errno()
        if not filled:
            return found
        start = 0
        while start < filled:
            _, position, length = struct.unpack_from("<QqH", room, start)
            found.append((room.raw[start + 19:start + length].split(b"\0")[0], position))
            start += length


def test_positions_of_32_bits(environment):
    """On ext4, a program without large-file support can list a directory, and go on from each position."""
    mount = environment.mount()
    os.mkdir(mount / "many")
    for number in range(150):
        harness.write_file(mount / f"many/{number}", b"")
    store = os.open(mount.stored("many"), os.O_RDONLY)
    try:
        if os.lseek(store, 0, os.SEEK_END) != 2 ** 63 - 1:
            raise harness.Skip("the store does not list by a hash")
    finally:
        os.close(store)
    handle = os.open(mount / "many", os.O_RDONLY)
    try:
        found = entries_of(handle)
        names = [name for name, _ in found]
        environment.cell("each name once", sorted([b".", b".."] + [b"%d" % number for number in range(150)]), sorted(names))
        environment.cell("positions beyond 31 bits", [], [position for _, position in found if not 0 < position < 2 ** 31])
        environment.cell("from each position", [], [
            index for index, (_, position) in enumerate(found)
            if [name for name, _ in from_position(handle, position)] != names[index + 1:]])
    finally:
        os.close(handle)


def from_position(handle, position):
    os.lseek(handle, position, os.SEEK_SET)
    return entries_of(handle)
