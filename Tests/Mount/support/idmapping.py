"""Idmapped mounts (mount_setattr(2)): a copy of a mount that shows its users and groups as others."""

import contextlib
import ctypes
import os

import harness

OPEN_TREE, MOVE_MOUNT, MOUNT_SETATTR = 428, 429, 442
CLONE, EMPTY_PATH, MOVE_EMPTY_PATH, IDMAP = 1, 0x1000, 4, 0x100000
AT_FDCWD = -100
CLONE_NEWUSER = 0x10000000
libc = ctypes.CDLL(None, use_errno=True)


class Attributes(ctypes.Structure):
    """struct mount_attr."""

    _fields_ = [(name, ctypes.c_uint64) for name in ("set", "clear", "propagation", "namespace")]


def call(number, *arguments):
    result = libc.syscall(number, *arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), f"system call {number}")
    return result


def namespace(stored, shown, count):
    """A descriptor of a user namespace in which `count` users and groups from `stored` on are `shown` and following ones."""
    ready, go = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        libc.unshare(CLONE_NEWUSER)
        os.write(ready[1], b"x")
        os.read(go[0], 1)
        os._exit(0)
    os.read(ready[0], 1)
    for name in ("uid_map", "gid_map"):
        with open(f"/proc/{child}/{name}", "w", encoding="ascii") as file:
            file.write(f"{stored} {shown} {count}\n")
    found = os.open(f"/proc/{child}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    os.write(go[1], b"x")
    os.waitpid(child, 0)
    for end in (*ready, *go):
        os.close(end)
    return found


@contextlib.contextmanager
def idmapped(path, target, stored, shown, count):
    """Has `path` at `target` too, with other users and groups."""
    users = namespace(stored, shown, count)
    tree = call(OPEN_TREE, AT_FDCWD, os.fsencode(path), CLONE | os.O_CLOEXEC)
    try:
        attributes = Attributes(IDMAP, 0, 0, users)
        call(MOUNT_SETATTR, tree, b"", EMPTY_PATH, ctypes.byref(attributes), ctypes.sizeof(attributes))
        call(MOVE_MOUNT, tree, b"", AT_FDCWD, os.fsencode(target), MOVE_EMPTY_PATH)
    finally:
        os.close(tree)
        os.close(users)
    try:
        yield target
    finally:
        harness.run("umount", target)
