"""A busy file delays no other file: after a crash, with a store that hangs, during a long change of class."""

import contextlib
import ctypes
import json
import mmap
import os
import subprocess
import threading
import time

import harness
import reader
from harness import CLASSES, PAGE, get_class, pattern, read_file, wait_until, write_file
from stores import store

libc = ctypes.CDLL(None, use_errno=True)


def read_below(mount):
    """Bytes that the daemon has read so far, the kernel's requests among them."""
    with open(f"/proc/{mount.pid}/io", encoding="ascii") as file:
        return int(file.read().split()[1])


def sparse_file(path, size):
    write_file(path, b"begin")
    os.truncate(path, size)
    handle = os.open(path, os.O_WRONLY)
    os.pwrite(handle, b"end", size - 3)
    os.fsync(handle)
    os.close(handle)


def backing_of(mount, path):
    """The file below, of which nothing is cached above."""
    inode = os.stat(path).st_ino
    for directory, _, files in os.walk(mount.volume.path):
        for name in files:
            if os.lstat(os.path.join(directory, name)).st_ino == inode:
                return os.path.join(directory, name)
    raise AssertionError(f"no file below has inode {inode}")


def check(environment, mount, name):
    """What fsck says of a volume that is unmounted."""
    done = mount.command("fsck", "--json", "--recovery-file", mount.volume.code_file, mount.volume.path, ok=False)
    summary = json.loads(done.stdout)
    environment.cell(f"{name}: fsck", (0, 0, True), (done.returncode, summary["errors"], summary["complete"]))
    return summary


def test_time_does_not_follow_holes(environment):
    """4 GiB of holes: the first write after a crash, class set and fsck read next to nothing."""
    size = 4 << 30
    mount = environment.mount()
    sparse_file(mount / "sparse", size)
    mount.crash()
    mount = environment.mount(mount.volume, path=mount.path)
    before = read_below(mount)
    handle = os.open(mount / "sparse", os.O_RDWR)
    os.pwrite(handle, b"middle", size // 2)
    os.fsync(handle)
    environment.cell("first write after a crash", True, read_below(mount) - before < 64 << 20)
    os.close(handle)
    before = read_below(mount)
    mount.command("class", "set", "A", mount / "sparse")
    environment.cell("class set", True, read_below(mount) - before < 64 << 20)
    environment.cell("class set: size and blocks", (size, True), (os.stat(mount / "sparse").st_size,
                                                                 os.stat(mount / "sparse").st_blocks < 8192))
    mount.unmount()
    summary = check(environment, mount, "afterwards")
    environment.cell("bytes that fsck has verified", True, summary["bytes"] < 64 << 20)
    mount = environment.mount(mount.volume, path=mount.path)
    with open(mount / "sparse", "rb") as file:
        for place, text in ((0, b"begin"), (size // 2, b"middle"), (size - 3, b"end"), (size // 3, bytes(9))):
            file.seek(place)
            environment.cell(f"at {place}", text, file.read(len(text)))


def test_unmounted_before_it_is_mended(environment):
    """A crash loses pages in the middle of a file; written to, unmounted and mounted again and again: never an error."""
    reader.load()
    mount = environment.mount()
    content = bytearray(pattern(48 << 20))
    write_file(mount / "file", content)
    harness.sync(mount.path)
    backing = backing_of(mount, mount / "file")
    mount.crash()
    # Blocks 5000 to 5002, of 4060 bytes (or 4048: the suite is the machine's).
    handle = os.open(backing, os.O_RDWR)
    suite = os.pread(handle, 8, 0)[5]
    first, each = (3932, 4060) if suite == 1 else (3920, 4048)
    os.pwrite(handle, bytes(3 * PAGE), 5000 * PAGE)
    os.close(handle)
    lost = first + 4999 * each
    content[lost:lost + 3 * each] = bytes(3 * each)
    for turn in range(3):
        mount = environment.mount(mount.volume, path=mount.path)
        handle = os.open(mount / "file", os.O_RDWR)
        text = b"turn %d" % turn
        os.pwrite(handle, text, 100 * turn)
        os.pwrite(handle, text, len(content))
        content[100 * turn:100 * turn + len(text)] = text
        content += text
        os.close(handle)
        if turn == 1:
            mount.crash()
        else:
            mount.unmount()
        volume = reader.unlock(mount.volume)
        found = [entry.file.contents() for entry in volume.walk() if entry.kind == "file" and not entry.error]
        environment.cell(f"turn {turn}: the second reader", True, bytes(content) in found)
        mount = environment.mount(mount.volume, path=mount.path)
        environment.cell(f"turn {turn}: content", True, read_file(mount / "file") == content)
        mount.unmount()
    check(environment, mount, "afterwards")
    mount = environment.mount(mount.volume, path=mount.path, options=("strict",))
    environment.cell("content, strictly", True, read_file(mount / "file") == content)


def test_it_is_mended_while_it_is_open(environment):
    """The middle is mended in the background: in the end nothing is tolerated, without a check."""
    reader.load()
    from secondreader.state import State
    mount = environment.mount()
    content = bytearray(pattern(8 << 20))
    write_file(mount / "file", content)
    harness.sync(mount.path)
    backing = backing_of(mount, mount / "file")
    mount.crash()
    with open(reader.state_file(mount.volume), "rb") as file:
        bad = State(file.read()).open_epochs
    handle = os.open(backing, os.O_RDWR)
    os.pwrite(handle, bytes(PAGE), 700 * PAGE)
    mount = environment.mount(mount.volume, path=mount.path)
    opened = os.open(mount / "file", os.O_RDWR)
    environment.cell("a page that was lost", bytes(PAGE), os.pread(handle, PAGE, 700 * PAGE))
    os.pwrite(opened, b"x", 0)
    os.fsync(opened)
    wait_until(lambda: os.pread(handle, PAGE, 700 * PAGE) != bytes(PAGE), what="the mending of a page in the middle")
    # Page 0 goes last, from the epoch that ended badly to the mount's own.
    place = 128 + (16 if os.pread(handle, 8, 0)[5] == 1 else 28)
    wait_until(lambda: int.from_bytes(os.pread(handle, 4, place), "little") not in bad, what="the end of the mending")
    os.close(opened)
    os.close(handle)
    mount.unmount()
    mount = environment.mount(mount.volume, path=mount.path, options=("strict",))
    environment.cell("read strictly", len(content), len(read_file(mount / "file")))


def direct_read(path, offset):
    """One page, not through the page cache."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECT)
    try:
        with contextlib.closing(mmap.mmap(-1, PAGE)) as page:
            count = os.preadv(handle, [page], offset)
            return page[:count]
    finally:
        os.close(handle)


def test_readers_of_a_busy_file_take_no_workers(environment):
    """A write hangs in a frozen store, and 48 read what it holds: other files are read, and all is well afterwards."""
    with store(environment) as below:
        mount = below.mount()
        content = pattern(64 * PAGE)
        for name in ("busy", "busy too", "other"):
            write_file(mount / name, content)
        harness.sync(below.backing)
        mount = environment.remount(mount)
        below.mounted = mount
        handles = [os.open(mount / name, os.O_RDWR) for name in ("busy", "busy too")]
        # What the first write of a mount and of a file takes longer for is done before.
        for handle in handles:
            os.pwrite(handle, content[:1], 0)
            os.fsync(handle)
        # Started now: a child that is forked later closes the files, which waits for the store. It thaws in every case.
        thaw = subprocess.Popen(["bash", "-c", f"read -t {2 * harness.PATIENCE} x; fsfreeze -u {below.backing}"],
                                stdin=subprocess.PIPE)
        harness.run("fsfreeze", "-f", below.backing, timeout=None)
        other = os.open(mount / "other", os.O_RDONLY)
        results, finished = [], []

        def write(handle):
            os.pwrite(handle, b"late", len(content))
            os.fsync(handle)

        def read(name):
            results.append(direct_read(mount / name, 63 * PAGE)[:100])

        threads = [threading.Thread(target=write, args=(handle,)) for handle in handles]
        for thread in threads:
            thread.start()
        try:
            # No more than 48: the kernel has 64 reads ahead and direct reads of a mount under way at most.
            # The appends hold their files' ends: nothing is read there before the thaw.
            time.sleep(0.5)
            for name in ("busy", "busy too"):
                for _ in range(24):
                    threads.append(threading.Thread(target=read, args=(name,)))
                    threads[-1].start()
            time.sleep(1)
            environment.cell("readers that got through", 0, len(results))

            def look():
                os.posix_fadvise(other, 0, 0, os.POSIX_FADV_DONTNEED)
                finished.append(os.pread(other, len(content), 0) == content)
                finished.append(sorted(os.listdir(mount.path)))
            looking = threading.Thread(target=look, daemon=True)
            looking.start()
            looking.join(30)
            environment.cell("another file, while the store is frozen", [True, ["busy", "busy too", "other"]], finished)
            environment.cell("readers that got through meanwhile", 0, len(results))
        finally:
            thaw.stdin.close()
            thaw.wait()
        for thread in threads:
            thread.join(harness.PATIENCE)
        environment.cell("what all of them have read", {content[63 * PAGE:63 * PAGE + 100]}, set(results))
        environment.cell("how many", 48, len(results))
        for handle in [*handles, other]:
            os.close(handle)
        for name in ("busy", "busy too"):
            environment.cell(f"{name}: content", True, read_file(mount / name) == content + b"late")
        mount.unmount()
        below.check("afterwards")


def temporaries(mount):
    """Names of what is being made below."""
    return [name for _, directories, files in os.walk(mount.volume.path) for name in directories + files
            if name.startswith(".protectfs.tmp.")]


def while_changing(environment, mount, path, act):
    """Starts `class set`, and does something as soon as the new file is there; gives the process, and whether it still ran.

    A machine may be so slow at noticing that the change is over: then again.
    """
    for _ in range(20):
        process = subprocess.Popen([harness.binary(), "class", "set", "A", path], env=mount.volume.environment,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        while process.poll() is None and not temporaries(mount):
            time.sleep(0.001)
        if process.poll() is None and get_class_below(mount, path) == "C":
            act(process)
            return process
        process.wait()
        mount.command("class", "set", "C", path)
    raise harness.Skip("each change of class was over before it was noticed")


def get_class_below(mount, path):
    return "C" if get_class(path) == CLASSES["C"] else "other"


def test_class_set_ends_with_its_client(environment):
    mount = environment.mount()
    content = pattern(400 << 20)
    write_file(mount / "file", content)
    process = while_changing(environment, mount, mount / "file", lambda process: process.kill())
    process.wait()
    process.stderr.close()
    wait_until(lambda: not temporaries(mount), what="the end of the change")
    environment.cell("class", CLASSES["C"], get_class(mount / "file"))
    environment.cell("content", True, read_file(mount / "file") == content)


def test_unmount_waits_for_no_class_set(environment):
    mount = environment.mount()
    content = pattern(400 << 20)
    write_file(mount / "file", content)
    harness.sync(mount.path)
    process = while_changing(environment, mount, mount / "file", lambda process: mount.unmount())
    said = process.communicate(timeout=harness.PATIENCE)[1]
    environment.cell(f"class set fails: {said.decode().strip()}", True, process.returncode != 0)
    environment.cell("leftovers", [], temporaries(mount))
    mount = environment.mount(mount.volume, path=mount.path)
    environment.cell("class", CLASSES["C"], get_class(mount / "file"))
    environment.cell("content", True, read_file(mount / "file") == content)
    mount.unmount()
    check(environment, mount, "afterwards")


def test_long_ranges(environment):
    """A range of 200 MiB is zeroed piece by piece, with all around it as it was; a cut with much unsynced keeps the rest."""
    mount = environment.mount()
    content = bytearray(pattern(200 << 20))
    write_file(mount / "file", content)
    handle = os.open(mount / "file", os.O_RDWR)
    begin, length = 5000, len(content) - 11_000
    result = libc.fallocate(handle, 0x10 | 0x01, ctypes.c_long(begin), ctypes.c_long(length))
    environment.cell("zero range", 0, result)
    content[begin:begin + length] = bytes(length)
    environment.cell("content", True, read_file(mount / "file") == content)
    environment.cell("blocks", True, os.stat(mount / "file").st_blocks < 1 << 12)
    for place in range(0, 100 << 20, 1 << 20):
        os.pwrite(handle, b"y" * (1 << 20), place)
    content[:100 << 20] = b"y" * (100 << 20)
    os.ftruncate(handle, 90_000_001)
    del content[90_000_001:]
    os.close(handle)
    mount = environment.remount(mount)
    environment.cell("content after a cut", True, read_file(mount / "file") == content)
    mount.unmount()
    check(environment, mount, "afterwards")
