"""Operations on files: each makes one system call, or a few, and gives what they answered."""

import ctypes
import fcntl
import mmap
import os
import platform
import random
import stat
import struct
import zlib

from .tree import checked, libc

FLOCK = "<hh4xqqi4x"  # struct flock
BUFFER = mmap.mmap(-1, 1 << 20, mmap.MAP_PRIVATE)  # each process its own
# Asynchronous I/O has no function in libc.
IO_SETUP, IO_GETEVENTS, IO_SUBMIT = (206, 208, 209) if platform.machine() == "x86_64" else (0, 4, 2)


def data(seed, length):
    """Bytes to write; seed 0 gives zeros."""
    return random.Random(seed).randbytes(length) if seed else bytes(length)


def shown(content):
    """A content so short that it can be printed."""
    return f"{len(content)} bytes, {zlib.crc32(content):08x}"


def keep(tree, slot, handle):
    """Puts a descriptor into a slot, and closes the one that was there."""
    before = tree.files.get(slot)
    tree.files[slot] = handle
    if before is not None:
        os.close(before)


# Open, read, write.

def open_file(tree, slot, path, flags, mode):
    keep(tree, slot, os.open(path, flags | os.O_NONBLOCK, mode))


def reopen(tree, slot, other, flags):
    keep(tree, slot, os.open(f"/proc/self/fd/{tree.files[other]}", flags | os.O_NONBLOCK))


def close(tree, slot):
    os.close(tree.files.pop(slot))


def write(tree, slot, offset, seed, length, flags=0):
    return os.pwritev(tree.files[slot], [data(seed, length)], offset, flags)


def read(tree, slot, offset, length):
    return shown(os.pread(tree.files[slot], length, offset))


def write_on(tree, slot, seed, length):
    """Writes where the file offset is."""
    return os.write(tree.files[slot], data(seed, length)), os.lseek(tree.files[slot], 0, os.SEEK_CUR)


def read_on(tree, slot, length):
    return shown(os.read(tree.files[slot], length)), os.lseek(tree.files[slot], 0, os.SEEK_CUR)


def write_aligned(tree, slot, offset, seed, length):
    """From memory that O_DIRECT accepts."""
    BUFFER[:length] = data(seed, length)
    with memoryview(BUFFER) as view:
        return os.pwritev(tree.files[slot], [view[:length]], offset)


def read_aligned(tree, slot, offset, length):
    with memoryview(BUFFER) as view:
        return shown(bytes(view[:os.preadv(tree.files[slot], [view[:length]], offset)]))


CONTEXTS = {}


def context():
    """This process's, as ending one takes long."""
    if os.getpid() not in CONTEXTS:
        CONTEXTS[os.getpid()] = made = ctypes.c_ulong()
        checked(libc.syscall(IO_SETUP, 16, ctypes.byref(made)))
    return CONTEXTS[os.getpid()]


def asynchronous(tree, slot, writes, requests):
    """Sends several reads or writes at once, as (offset, seed, length), and waits for all."""
    handle, address, at, blocks = tree.files[slot], ctypes.addressof(ctypes.c_char.from_buffer(BUFFER)), 0, []
    for number, (offset, seed, length) in enumerate(requests):
        BUFFER[at:at + length] = data(seed, length) if writes else bytes(length)
        blocks.append(ctypes.create_string_buffer(struct.pack(
            "<QIiHhIQQqQII", number, 0, 0, 1 if writes else 0, 0, handle, address + at, length, offset, 0, 0, 0)))
        at += length
    pointers = (ctypes.c_void_p * len(blocks))(*map(ctypes.addressof, blocks))
    sent = checked(libc.syscall(IO_SUBMIT, context(), len(blocks), pointers))
    events = ctypes.create_string_buffer(32 * sent)
    checked(libc.syscall(IO_GETEVENTS, context(), sent, sent, events, None))
    results = sorted(struct.unpack_from("<QQqq", events, 32 * number)[::2] for number in range(sent))
    return results if writes else (results, shown(BUFFER[:at]))


def append_elsewhere(tree, path, seed, length):
    """Another process appends."""
    child = os.fork()
    if child == 0:
        try:
            os._exit(os.write(os.open(path, os.O_WRONLY | os.O_APPEND), data(seed, length)))
        finally:
            os._exit(255)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def seek(tree, slot, offset, whence):
    """In files: a place in a directory means something to its file system only."""
    handle = tree.files[slot]
    return None if stat.S_ISDIR(os.fstat(handle).st_mode) else os.lseek(handle, offset, whence)


def seek_data(tree, slot, offset, whence):
    """Where data or a hole is; the file offset stays."""
    handle = tree.files[slot]
    if stat.S_ISDIR(os.fstat(handle).st_mode):
        return None
    before = os.lseek(handle, 0, os.SEEK_CUR)
    try:
        return os.lseek(handle, offset, whence)
    finally:
        os.lseek(handle, before, os.SEEK_SET)


def set_flags(tree, slot, flags):
    """O_APPEND, O_DIRECT, O_NOATIME of an open file."""
    fcntl.fcntl(tree.files[slot], fcntl.F_SETFL, flags | os.O_NONBLOCK)
    return fcntl.fcntl(tree.files[slot], fcntl.F_GETFL)


def sync(tree, slot):
    os.fsync(tree.files[slot])


def sync_data(tree, slot):
    os.fdatasync(tree.files[slot])


def forget_pages(tree, slot):
    os.posix_fadvise(tree.files[slot], 0, 0, os.POSIX_FADV_DONTNEED)


# Sizes, holes, copies.

def truncate(tree, path, size):
    """Not to the size that the file has: known.py has what differs then."""
    status = os.stat(path)
    if not stat.S_ISREG(status.st_mode) or status.st_size != size:
        os.truncate(path, size)


def truncate_same(tree, path, size):
    os.truncate(path, size)


def truncate_open(tree, slot, size):
    os.ftruncate(tree.files[slot], size)


def allocate(tree, slot, mode, offset, length):
    """fallocate(2): 1 keeps the size, 3 punches a hole, 16 zeroes, 8 collapses, 32 inserts."""
    checked(libc.fallocate(tree.files[slot], mode, ctypes.c_long(offset), ctypes.c_long(length)))


def copy_range(tree, source, start, target, offset, length):
    return os.copy_file_range(tree.files[source], tree.files[target], length, start, offset)


def send_file(tree, target, source, offset, length):
    return os.sendfile(tree.files[target], tree.files[source], offset, length)


def clone(tree, target, source):
    fcntl.ioctl(tree.files[target], 0x40049409, tree.files[source])


# Mappings. The kernel copies into and out of them, so that a place without a page is EFAULT and no signal.

def map_file(tree, name, slot, offset, length, shared, writable):
    protection = mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0)
    try:
        made = mmap.mmap(tree.files[slot], length, mmap.MAP_SHARED if shared else mmap.MAP_PRIVATE, protection,
                         offset=offset)
    except ValueError:
        return "beyond the end"
    if name in tree.maps:
        tree.maps[name].close()
    tree.maps[name] = made
    return None


def unmap(tree, name):
    tree.maps.pop(name).close()


def map_put(tree, name, offset, seed, length):
    mapping = tree.maps[name]
    away, back = os.pipe()
    try:
        length = max(0, min(length, len(mapping) - offset))
        os.write(back, data(seed, length) or b"\0")
        address = ctypes.create_string_buffer(0)
        with memoryview(mapping) as view:
            try:
                return os.readv(away, [view[offset:offset + length]]) if length else 0
            except (TypeError, BufferError):
                return "read-only"
    finally:
        os.close(away)
        os.close(back)


def map_get(tree, name, offset, length):
    mapping = tree.maps[name]
    away, back = os.pipe()
    try:
        length = max(0, min(length, len(mapping) - offset))
        with memoryview(mapping) as view:
            done = os.writev(back, [view[offset:offset + length]])
        return shown(os.read(away, done)) if done else None
    finally:
        os.close(away)
        os.close(back)


def map_sync(tree, name):
    tree.maps[name].flush()


# Locks.

def lock_file(tree, slot, operation):
    fcntl.flock(tree.files[slot], operation | fcntl.LOCK_NB)


def lock_range(tree, slot, kind, start, length, command):
    """A lock of the open file description (37) or of the process (6), or the question who has one (36, 5)."""
    answer = fcntl.fcntl(tree.files[slot], command, struct.pack(FLOCK, kind, os.SEEK_SET, start, length, 0))
    fields = struct.unpack(FLOCK, answer)
    return fields[:4] if command in (36, 5) else None


def lock_seen(tree, path, start, length):
    """What another process is told of the locks of a file."""
    away, back = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
            answer = fcntl.fcntl(handle, 5, struct.pack(FLOCK, fcntl.F_WRLCK, os.SEEK_SET, start, length, 0))
            os.write(back, repr(struct.unpack(FLOCK, answer)[:4]).encode())
        except OSError as error:
            os.write(back, str(error.errno).encode())
        finally:
            os._exit(0)
    os.close(back)
    os.waitpid(child, 0)
    answer = os.read(away, 200).decode()
    os.close(away)
    return answer


def lease(tree, slot, kind):
    fcntl.fcntl(tree.files[slot], fcntl.F_SETLEASE, kind)
    return fcntl.fcntl(tree.files[slot], fcntl.F_GETLEASE)
