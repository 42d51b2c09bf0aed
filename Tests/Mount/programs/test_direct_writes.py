"""What is written past the page cache is seen by everyone who reads through it, as soon as the write has ended."""

import mmap
import os
import random
import signal

from aio import Writer
from harness import PAGE, set_class, write_file

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
    writer = Writer(LENGTH, REQUEST)
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
