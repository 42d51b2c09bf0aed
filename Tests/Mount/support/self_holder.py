"""A small FUSE server with a guard that has a file of its own mount open: python3 self_holder.py GUARD-LIBRARY MOUNT-POINT.

The file's descriptor has a lower number than those of the guard's pipe and of /dev/fuse. The kernel closes it first when
the server is killed, and waits for the server's answer to FLUSH.
"""

import ctypes
import errno
import os
import struct
import sys
import threading

HEADER = struct.Struct("<IIQQIIIHH")
LOOKUP, FORGET, GETATTR, OPEN, READ, RELEASE, FLUSH, INIT, INTERRUPT, BATCH_FORGET = 1, 2, 3, 14, 15, 18, 25, 26, 36, 42
ROOT, FILE = 1, 2


def attributes(node):
    mode, links = (0o40755, 2) if node == ROOT else (0o100644, 1)
    return struct.pack("<6Q10I", node, 0, 0, 0, 0, 0, 0, 0, 0, mode, links, os.getuid(), os.getgid(), 0, 4096, 0)


def answer(kind, node):
    """The body of an answer, or an errno."""
    if kind == INIT:
        return struct.pack("<4I2H2I9I", 7, 31, 1 << 17, 0, 12, 9, 1 << 17, 1, *[0] * 9)
    if kind == LOOKUP:
        return struct.pack("<4Q2I", FILE, 0, 60, 60, 0, 0) + attributes(FILE)
    if kind == GETATTR:
        return struct.pack("<Q2I", 60, 0, 0) + attributes(node)
    if kind == OPEN:
        return struct.pack("<Q2I", 1, 0, 0)
    return b"" if kind in (READ, RELEASE, FLUSH) else errno.ENOSYS


def serve(device, until=None):
    """Answers requests; returns after the first one of the kind `until`."""
    while True:
        _, kind, unique, node, *_ = HEADER.unpack_from(os.read(device, 1 << 18))
        if kind in (FORGET, INTERRUPT, BATCH_FORGET):
            continue
        body = answer(kind, node)
        error, body = (-body, b"") if isinstance(body, int) else (0, body)
        os.write(device, struct.pack("<IiQ", 16 + len(body), error, unique) + body)
        if kind == until:
            return


def main(library, mount_point):
    libc, guard = ctypes.CDLL(None, use_errno=True), ctypes.CDLL(library)
    low = os.open("/dev/null", os.O_RDONLY)
    messages = guard.pfs_guard_start()
    device = os.open("/dev/fuse", os.O_RDWR)
    assert low < min(messages, device), (low, messages, device)
    options = f"fd={device},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()}"
    if libc.mount(b"test", mount_point.encode(), b"fuse", 0, options.encode()) != 0:
        sys.exit(os.strerror(ctypes.get_errno()))
    server = threading.Thread(target=serve, args=(device, FLUSH))
    server.start()
    own = os.open(mount_point + "/file", os.O_RDONLY)
    number = os.fstat(own).st_dev
    os.dup2(own, low)
    os.close(own)
    # The descriptors are closed by the thread that ends last. From now on only the main thread has them.
    server.join()
    watched = struct.pack("<2I4080s", os.major(number), os.minor(number), mount_point.encode())
    assert guard.pfs_guard_watch(messages, watched) == 0
    print("ready", flush=True)
    serve(device)


if __name__ == "__main__":
    main(*sys.argv[1:])
