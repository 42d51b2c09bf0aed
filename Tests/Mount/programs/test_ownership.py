"""Owner, group, permission bits and ACLs of new objects, compared with the file system of the store."""

import itertools
import os
import shutil
import stat
import struct

import harness

USER, GROUP, OTHER_GROUP = 65534, 65533, 65532
UNDEFINED = 0xFFFFFFFF
USER_OBJ, NAMED_USER, GROUP_OBJ, NAMED_GROUP, MASK, OTHER = 0x01, 0x02, 0x04, 0x08, 0x10, 0x20


def acl(*entries):
    """The value of a system.posix_acl_* attribute: acl_ea_header and its entries (Linux, posix_acl_xattr.h)."""
    return struct.pack("<I", 2) + b"".join(
        struct.pack("<HHI", tag, bits, name[0] if name else UNDEFINED) for tag, bits, *name in entries)


DEFAULTS = {
    "no default ACL": None,
    "others nothing": acl((USER_OBJ, 7), (GROUP_OBJ, 7), (OTHER, 0)),
    "all bits": acl((USER_OBJ, 7), (GROUP_OBJ, 7), (OTHER, 7)),
    "named, masked": acl((USER_OBJ, 7), (GROUP_OBJ, 5), (NAMED_GROUP, 7, OTHER_GROUP), (MASK, 5), (OTHER, 0)),
}
MODES = {"plain": 0o777, "setgid": 0o2777, "sticky": 0o1777}
MAKERS = {
    "mkdir": lambda path, mode: os.mkdir(path, mode),
    "create": lambda path, mode: os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode)),
    "mknod": lambda path, mode: os.mknod(path, stat.S_IFREG | mode),
    "fifo": lambda path, mode: os.mkfifo(path, mode),
    "symlink": lambda path, mode: os.symlink("target", path),
}


def make(root, user, group):
    """Makes a directory of each kind, and, as the user, each kind of object with several modes and umasks in it."""
    os.mkdir(root)
    os.chmod(root, 0o777)
    for (bits, mode), (name, default) in itertools.product(MODES.items(), DEFAULTS.items()):
        directory = os.path.join(root, f"{bits}, {name}")
        os.mkdir(directory)
        os.chown(directory, 0, GROUP)
        if default:
            os.setxattr(directory, "system.posix_acl_default", default)
        os.chmod(directory, mode)

        def fill():
            os.chdir(directory)
            os.setgroups([group])
            os.setresgid(group, group, group)
            os.setresuid(user, user, user)
            for mask, (kind, maker), wanted in itertools.product(
                    (0, 0o022, 0o077), MAKERS.items(), (0o777, 0o666, 0o4755, 0o2755, 0o2666, 0o1700)):
                os.umask(mask)
                maker(f"{kind} {wanted:o} umask {mask:o}", wanted)

        filled = harness.in_child(fill)
        if filled != "works":
            raise AssertionError(f"{directory}: {filled}")


def described(root):
    """path → mode, owner, group and ACLs of everything below `root`."""
    found = {}
    for directory, directories, files in os.walk(root):
        for name in directories + files:
            path = os.path.join(directory, name)
            status = os.lstat(path)
            acls = {} if stat.S_ISLNK(status.st_mode) else {
                key: os.getxattr(path, key).hex() for key in os.listxattr(path) if key.startswith("system.")}
            found[os.path.relpath(path, root)] = (oct(status.st_mode), status.st_uid, status.st_gid, acls)
    return found


def test_new_objects(environment):
    if os.geteuid() != 0:
        raise harness.Skip("needs root, to create as other users")
    mount = environment.mount(options=("allow_other",))
    plain = environment.new_path("plain")
    os.mkdir(plain)
    for name, user, group in (("user in the group", USER, GROUP), ("user of another group", USER, OTHER_GROUP),
                              ("root", 0, 0)):
        make(mount / name, user, group)
        make(os.path.join(plain, name), user, group)
        ours, theirs = described(mount / name), described(os.path.join(plain, name))
        environment.cell(f"{name}: as many objects", len(theirs), len(ours))
        wrong = [f"{path}: {ours.get(path)} / {theirs[path]}" for path in sorted(theirs)
                 if ours.get(path) != theirs[path]]
        environment.cell(f"{name}: mode, owner and ACLs as below", (0, []), (len(wrong), wrong[:5]))
    shutil.rmtree(plain)
