"""What is written past the page cache is seen by everyone who reads through it, as soon as the write has ended."""

import mmap
import os
import random
import signal

from aio import Requests
from harness import PAGE, read_file, set_class, wait_until, write_file

LENGTH, REQUEST, ROUNDS = 10 * (640 << 10), 640 << 10, 12


def content(number):
    return bytes([number]) * LENGTH


def read_on(path, mapped, seed):
    """Reads random pages of the file until it is killed."""
    handle = os.open(path, os.O_RDONLY)
    choose = random.Random(seed)
    view = mmap.mmap(handle, LENGTH, mmap.MAP_SHARED, mmap.PROT_READ) if mapped else None
    while True:
        page = choose.randrange(LENGTH // PAGE) * PAGE
        if view:
            view[page]
        else:
            os.pread(handle, PAGE, page)


def readers(path, mapped):
    made = []
    for seed in range(2):
        pid = os.fork()
        if pid == 0:
            try:
                read_on(path, mapped, seed)
            finally:
                os._exit(1)
        made.append(pid)
    return made


def all_of(path, mapped):
    handle = os.open(path, os.O_RDONLY)
    try:
        if mapped:
            with mmap.mmap(handle, LENGTH, mmap.MAP_SHARED, mmap.PROT_READ) as view:
                return view[:]
        return os.pread(handle, LENGTH, 0)
    finally:
        os.close(handle)


def stale(path, asynchronous, mapped, flags):
    """Pages that show something old, after any of several writes of the whole file beside readers."""
    write_file(path, content(0))
    handle = os.open(path, os.O_RDWR | flags)
    writer = Requests(LENGTH, REQUEST)
    reading = readers(path, mapped)
    found = 0
    try:
        for number in range(1, ROUNDS + 1):
            if asynchronous:
                writer.write(handle, content(number))
            else:
                writer.buffer[:] = content(number)
                with memoryview(writer.buffer) as buffer:
                    for start in range(0, LENGTH, REQUEST):
                        assert os.pwritev(handle, [buffer[start:start + REQUEST]], start) == REQUEST
            seen = all_of(path, mapped)
            found += sum(seen[start] != number for start in range(0, LENGTH, PAGE))
    finally:
        for pid in reading:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        writer.close()
        os.close(handle)
    return found


def test_readers_beside_direct_writes(environment):
    """Each class, with and without libaio; class A is direct by itself, and its readers through the cache have it mapped."""
    mount = environment.mount()
    below = environment.new_path("below")
    os.mkdir(below)
    for letter, asynchronous, mapped in (("below", True, False), ("C", True, False), ("C", True, True), ("C", False, False),
                                         ("D", True, False), ("B", True, False), ("A", True, True), ("A", False, True)):
        name = f"{letter} {asynchronous} {mapped}"
        path = os.path.join(below, name) if letter == "below" else mount / name
        write_file(path, b"")
        if letter != "below":
            set_class(path, letter)
        flags = 0 if letter == "A" and not asynchronous else os.O_DIRECT
        environment.cell(f"[{letter}, {'libaio' if asynchronous else 'pwrite'}, {'mapped' if mapped else 'read'}] stale pages", 0,
                         stale(path, asynchronous, mapped, flags))


def ends(mount, action):
    """How the action ends. If it does not, the daemon is killed, because nothing else ends it."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            action()
            status = 0
        except BaseException as problem:  # noqa: the child must not go on
            os.write(2, f"{problem!r}\n".encode())
        finally:
            os._exit(status)
    found = []

    def has_ended():
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            found.append("works" if status == 0 else f"status {status}")
        return found

    try:
        wait_until(has_ended, 600, "the end")
    except AssertionError:
        mount.crash()
        os.waitpid(pid, 0)
        found.append("hangs")
    return found[0]


def test_more_in_flight_than_the_kernel_has_places(environment):
    """More direct requests than the kernel sends ahead, of which each wants pages dropped that need such a place, too."""
    mount = environment.mount()
    path, small = mount / "file", 32 << 10

    def write():
        writer = Requests(LENGTH, small)
        handle = os.open(path, os.O_RDWR | os.O_DIRECT)
        for number in range(1, 41):
            writer.write(handle, content(number))

    def read_all():
        while True:
            read_file(path)

    def read():
        reader = Requests(LENGTH, PAGE)
        with open(path, "r+b", buffering=0) as file:
            handle = os.open(path, os.O_RDONLY | os.O_DIRECT)
            for number in range(20):
                # The daemon's file ends before all of the requests, until the kernel writes this byte back.
                os.truncate(path, 0)
                os.pwrite(file.fileno(), b"x", 1 << 30)
                assert reader.read(handle) == bytes(LENGTH), number

    write_file(path, content(0))
    others = []
    for _ in range(2):
        others.append(os.fork())
        if not others[-1]:
            try:
                read_all()
            finally:
                os._exit(1)
    try:
        environment.cell("[writes beside readers]", "works", ends(mount, write))
    finally:
        for pid in others:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    wait_until(lambda: read_file(path) == content(40), what="the last content")
    environment.cell("[reads before a byte that is not written back]", "works", ends(mount, read))


test_more_in_flight_than_the_kernel_has_places.time_limit = 1800
