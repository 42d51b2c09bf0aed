"""Everything a program can do to a file, each as one generator for the cells of the class × state table.

A generator first prepares and yields None; then, in the state under test, acts and yields the outcome; then, unlocked
again, checks what the file holds. `file` is a Subject: it makes the file of the class in question.
"""

import mmap
import os
import socket

from harness import PAGE, CLASSES, get_class, in_child, outcome, pattern, read_file

CONTENT = pattern(4 * PAGE + 100, seed=7)
NEW = pattern(PAGE, seed=9)


def aligned(content):
    """The bytes in page-aligned memory, as O_DIRECT may ask for."""
    room = mmap.mmap(-1, (len(content) + PAGE - 1) // PAGE * PAGE)
    room[:len(content)] = content
    return memoryview(room)[:len(content)]


def expect(condition, text):
    if not condition:
        raise AssertionError(text)


class Subject:
    """One file of a class, below a directory whose default is that class."""

    def __init__(self, mount, letter, name):
        self.mount, self.letter = mount, letter
        self.directory = mount / f"{letter}-{name}"
        self.path = os.path.join(self.directory, "file")
        self.open_handles = []

    def make_directory(self):
        if not os.path.isdir(self.directory):
            os.mkdir(self.directory)
            os.setxattr(self.directory, "user.protection", CLASSES[self.letter].encode())

    def make(self):
        """The file with CONTENT, closed again."""
        os.close(self.handle(keep=False))

    def handle(self, flags=0, keep=True):
        """The file with CONTENT, through the handle that created it: the only way in for class B when locked."""
        self.make_directory()
        handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | flags, 0o644)
        if keep:
            self.open_handles.append(handle)
        expect(os.pwrite(handle, aligned(CONTENT), 0) == len(CONTENT), "short write")
        return handle

    def beside(self, name):
        return os.path.join(self.directory, name)

    def other(self, content=b""):
        """A handle on a file of class none, which is open to everything."""
        place = self.mount / "other"
        os.makedirs(place, exist_ok=True)
        os.setxattr(place, "user.protection", b"none")
        path = os.path.join(place, os.path.basename(self.directory))
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
        self.open_handles.append(handle)
        os.pwrite(handle, content, 0)
        return handle

    def intact(self, content=CONTENT):
        found = read_file(self.path)
        expect(found == content, f"content differs: {len(found)} bytes for {len(content)}")

    def close(self):
        for handle in self.open_handles:
            try:
                os.close(handle)
            except OSError:
                pass


# Rows of the table: name → [(operation, generator function, needs a handle from before)].
ROWS = {}


def operation(row, name, handle=True):
    def register(function):
        ROWS.setdefault(row, []).append((name, function, handle))
        return function
    return register


def simple(row, name, act, handle=False):
    """An operation on the path that leaves the content alone."""
    def generator(file):
        file.make()
        yield
        yield outcome(act, file)
        if os.path.exists(file.path):
            file.intact()
    operation(row, name, handle)(generator)


# Opening.

def empty(row, name, flags, writes):
    def generator(file):
        file.make_directory()
        os.close(os.open(file.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644))
        yield

        def act():
            handle = os.open(file.path, flags)
            try:
                if writes:
                    expect(os.write(handle, NEW) == len(NEW), "short write")
            finally:
                os.close(handle)
        result = outcome(act)
        yield result
        file.intact(NEW if writes and result == "works" else b"")
    operation(row, name, handle=False)(generator)


empty("open an empty file to write", "O_WRONLY", os.O_WRONLY, True)
empty("open an empty file to write", "O_RDWR, and nothing is written", os.O_RDWR, False)
empty("open an empty file to write", "O_APPEND", os.O_WRONLY | os.O_APPEND, True)
empty("open an empty file to write", "O_WRONLY|O_TRUNC", os.O_WRONLY | os.O_TRUNC, True)
empty("open an empty file to write", "O_RDWR|O_CREAT", os.O_RDWR | os.O_CREAT, True)
empty("open an empty file to read", "O_RDONLY", os.O_RDONLY, False)


def opening(name, flags, truncates=False):
    def generator(file):
        file.make()
        yield
        result = outcome(lambda: os.close(os.open(file.path, flags)))
        yield result
        file.intact(b"" if truncates and result == "works" else CONTENT)
    operation("open", name, handle=False)(generator)


opening("O_RDONLY", os.O_RDONLY)
opening("O_WRONLY", os.O_WRONLY)
opening("O_RDWR", os.O_RDWR)
opening("O_APPEND", os.O_WRONLY | os.O_APPEND)
opening("O_DIRECT", os.O_RDONLY | os.O_DIRECT)
opening("O_NONBLOCK", os.O_RDONLY | os.O_NONBLOCK)
opening("O_WRONLY|O_TRUNC", os.O_WRONLY | os.O_TRUNC, truncates=True)
opening("O_RDWR|O_TRUNC|O_DIRECT", os.O_RDWR | os.O_TRUNC | os.O_DIRECT, truncates=True)
opening("O_CREAT on an existing file", os.O_RDWR | os.O_CREAT)
opening("O_CREAT|O_TRUNC on an existing file", os.O_RDWR | os.O_CREAT | os.O_TRUNC, truncates=True)


@operation("open", "open elsewhere already")
def _(file):
    file.handle()
    yield
    yield outcome(lambda: os.close(os.open(file.path, os.O_RDONLY)))
    file.intact()


@operation("open", "reopened through /proc/self/fd")
def _(file):
    handle = file.handle()
    yield
    yield outcome(lambda: os.close(os.open(f"/proc/self/fd/{handle}", os.O_RDONLY)))
    file.intact()


@operation("open", "read after open in a fresh handle", handle=False)
def _(file):
    file.make()
    yield

    def act():
        with open(file.path, "rb", buffering=0) as opened:
            expect(opened.readall() == CONTENT, "wrong content")
    yield outcome(act)
    file.intact()


# Creating.

def creating(name, flags):
    def generator(file):
        file.make_directory()
        yield

        def act():
            handle = os.open(file.path, flags | os.O_CREAT | os.O_RDWR, 0o600)
            try:
                os.pwrite(handle, CONTENT, 0)
                os.fsync(handle)
                expect(os.pread(handle, PAGE, 0) == CONTENT[:PAGE], "wrong content")
            finally:
                os.close(handle)
        result = outcome(act)
        if result != "works" and os.path.lexists(file.path):
            result += ", but an entry was left behind"
        yield result
        if result == "works":
            file.intact()
            expect(get_class(file.path) == CLASSES[file.letter], "class not taken from the directory")
    operation("create", name, handle=False)(generator)


creating("O_CREAT", 0)
creating("O_CREAT|O_EXCL", os.O_EXCL)
creating("O_CREAT|O_TRUNC", os.O_TRUNC)
creating("O_CREAT|O_DIRECT", os.O_DIRECT)
creating("O_CREAT|O_APPEND", os.O_APPEND)


# Reading through a handle from before.

def held(file, flags, is_cached):
    """A handle from before; the content is in the page cache or is not."""
    handle = file.handle(flags)
    os.fsync(handle)
    if is_cached:
        os.pread(handle, len(CONTENT), 0)
    else:
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
    return handle


def reading(name, act, flags=0, cached=(False, True)):
    def make(is_cached):
        def generator(file):
            handle = held(file, flags, is_cached)
            yield
            os.lseek(handle, 0, os.SEEK_SET)
            yield outcome(act, file, handle)
            expect(os.pread(handle, PAGE, 0) == CONTENT[:PAGE], "the handle does not read again")
            file.intact()
        return generator
    for is_cached in cached:
        operation("handle", f"{name}{', page in the cache' if is_cached else ''}")(make(is_cached))


def read_into(call):
    def act(file, handle):
        rooms = [bytearray(1000), bytearray(PAGE - 1000)]
        expect(call(handle, rooms) == PAGE, "short read")
        expect(b"".join(rooms) == CONTENT[:PAGE], "wrong content")
    return act


def plain_read(file, handle):
    expect(os.read(handle, PAGE) == CONTENT[:PAGE], "wrong content")


def direct_read(file, handle):
    room = mmap.mmap(-1, PAGE)
    expect(os.preadv(handle, [room], PAGE) == PAGE, "short read")
    expect(room[:] == CONTENT[PAGE:2 * PAGE], "wrong content")


def through_pipe(call):
    def act(file, handle):
        out, into = os.pipe()
        try:
            expect(call(into, handle) == 1000, "short")
            expect(os.read(out, 1000) == CONTENT[:1000], "wrong content")
        finally:
            os.close(out)
            os.close(into)
    return act


def sendfile_to_socket(file, handle):
    left, right = socket.socketpair()
    with left, right:
        expect(os.sendfile(left.fileno(), handle, 0, 1000) == 1000, "short")
        expect(right.recv(1000, socket.MSG_WAITALL) == CONTENT[:1000], "wrong content")


reading("read", plain_read)
reading("pread", lambda file, handle: expect(os.pread(handle, 100, PAGE) == CONTENT[PAGE:PAGE + 100], "wrong content"))
reading("pread of the tail", lambda file, handle: expect(os.pread(handle, PAGE, 4 * PAGE) == CONTENT[4 * PAGE:], "wrong"))
reading("readv", read_into(os.readv))
reading("preadv", read_into(lambda handle, rooms: os.preadv(handle, rooms, 0)))
reading("preadv2", read_into(lambda handle, rooms: os.preadv(handle, rooms, 0, os.RWF_HIPRI)))
reading("read, O_DIRECT", direct_read, flags=os.O_DIRECT)
reading("readv, O_DIRECT", read_into(os.readv), flags=os.O_DIRECT)
reading("sendfile to a socket", sendfile_to_socket)
reading("sendfile to a pipe", through_pipe(lambda into, handle: os.sendfile(into, handle, 0, 1000)))
reading("splice", through_pipe(lambda into, handle: os.splice(handle, into, 1000, offset_src=0)))


def copy_from(file, handle):
    target = file.other()
    expect(os.copy_file_range(handle, target, PAGE, 0, 0) == PAGE, "short copy")
    expect(os.pread(target, PAGE, 0) == CONTENT[:PAGE], "wrong content")


reading("copy_file_range, as the source", copy_from)


# Writing through a handle from before.

def writing(name, act, flags=0, cached=(False, True), changed=None):
    """changed: content after the write was let through."""
    changed = NEW[:1000] + CONTENT[1000:] if changed is None else changed

    def make(is_cached):
        def generator(file):
            handle = held(file, flags, is_cached)
            yield
            os.lseek(handle, 0, os.SEEK_SET)
            result = outcome(act, file, handle)
            yield result
            file.intact(changed if result == "works" else CONTENT)
            expect(os.pwrite(handle, b"" if flags & os.O_APPEND else CONTENT[:10], 0) >= 0, "cannot write again")
            os.fsync(handle)
        return generator
    for is_cached in cached:
        operation("handle", f"{name}{', page in the cache' if is_cached else ''}")(make(is_cached))


def short(count, wanted):
    expect(count == wanted, f"short write: {count} of {wanted}")


writing("write of part of a page", lambda file, handle: short(os.write(handle, NEW[:1000]), 1000))
writing("pwrite of part of a page", lambda file, handle: short(os.pwrite(handle, NEW[:1000], 0), 1000))
writing("pwrite of a whole page", lambda file, handle: short(os.pwrite(handle, NEW, PAGE), PAGE),
        changed=CONTENT[:PAGE] + NEW + CONTENT[2 * PAGE:])
writing("pwrite over all pages", lambda file, handle: short(os.pwrite(handle, NEW * 5, 0), 5 * PAGE), changed=NEW * 5)
writing("pwrite behind the end", lambda file, handle: short(os.pwrite(handle, NEW, 8 * PAGE), PAGE),
        changed=CONTENT + bytes(8 * PAGE - len(CONTENT)) + NEW)
writing("writev", lambda file, handle: short(os.writev(handle, [NEW[:300], NEW[300:1000]]), 1000))
writing("pwritev", lambda file, handle: short(os.pwritev(handle, [NEW[:300], NEW[300:1000]], 0), 1000))
writing("pwritev2", lambda file, handle: short(os.pwritev(handle, [NEW[:300], NEW[300:1000]], 0, os.RWF_DSYNC), 1000))
writing("write, O_APPEND", lambda file, handle: short(os.write(handle, NEW[:1000]), 1000), flags=os.O_APPEND,
        changed=CONTENT + NEW[:1000])
writing("write, O_SYNC", lambda file, handle: short(os.write(handle, NEW[:1000]), 1000), flags=os.O_SYNC)
writing("write, O_DIRECT", lambda file, handle: short(os.pwrite(handle, aligned(NEW), PAGE), PAGE), flags=os.O_DIRECT,
        changed=CONTENT[:PAGE] + NEW + CONTENT[2 * PAGE:])
writing("pwritev, O_DIRECT", lambda file, handle: short(os.pwritev(handle, [aligned(NEW), aligned(NEW)], PAGE), 2 * PAGE),
        flags=os.O_DIRECT, changed=CONTENT[:PAGE] + NEW + NEW + CONTENT[3 * PAGE:])
writing("writev, O_APPEND", lambda file, handle: short(os.writev(handle, [NEW[:300], NEW[300:1000]]), 1000),
        flags=os.O_APPEND, changed=CONTENT + NEW[:1000])


def send_into(file, handle):
    source = file.other(NEW)
    short(os.sendfile(handle, source, 0, 1000), 1000)


def splice_into(file, handle):
    out, into = os.pipe()
    try:
        os.write(into, NEW[:1000])
        short(os.splice(out, handle, 1000, offset_dst=0), 1000)
    finally:
        os.close(out)
        os.close(into)


def copy_into(file, handle):
    source = file.other(NEW)
    short(os.copy_file_range(source, handle, 1000, 0, 0), 1000)
    expect(get_class(file.path) == CLASSES[file.letter], "the destination's class changed")


writing("sendfile into it", send_into)
writing("splice into it", splice_into)
writing("copy_file_range, as the destination", copy_into)


# Mapped pages.

def mapping(name, act, prepare=lambda memory: None, flags=mmap.MAP_SHARED, changed=None, late=False):
    def generator(file):
        handle = file.handle()
        os.fsync(handle)

        def open_map():
            return mmap.mmap(handle, len(CONTENT), flags=flags, prot=mmap.PROT_READ | mmap.PROT_WRITE)
        memory = None
        if not late:
            memory = open_map()
            prepare(memory)
        yield
        yield in_child(lambda: act(memory or open_map()))
        memory = memory or open_map()
        expect(memory[2 * PAGE:2 * PAGE + 100] == CONTENT[2 * PAGE:2 * PAGE + 100], "the mapping does not load again")
        if flags == mmap.MAP_SHARED:
            memory[3 * PAGE] = memory[3 * PAGE]
            memory.flush()
    operation("mapped", name)(generator)


def load(memory):
    expect(memory[PAGE:PAGE + 100] == CONTENT[PAGE:PAGE + 100], "wrong content")


def store(memory):
    memory[PAGE] = 65


def dirty(memory):
    memory[PAGE] = memory[PAGE]


mapping("load", load)
mapping("load of a page loaded before", load, prepare=load)
mapping("load, private mapping", load, flags=mmap.MAP_PRIVATE)
mapping("store", store)
mapping("store to a page loaded before", store, prepare=load)
mapping("store to a page stored to before", store, prepare=dirty)
mapping("load from a mapping made now", load, late=True)
mapping("store to a mapping made now", store, late=True)
