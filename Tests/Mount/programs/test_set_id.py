"""Set-ID bits after a change of content, compared with the file system of the store: who keeps them, and who takes them away."""

import ctypes
import json
import mmap
import os
import struct
import tempfile

import harness

OWNER, GROUP, OTHER_GROUP, STRANGER = 65534, 65533, 65532, 65531
CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_FOWNER, CAP_FSETID = 0, 1, 3, 4
PR_SET_KEEPCAPS = 8
# Name → user, groups, and capabilities that are not those of the user.
CALLERS = {
    "root": (0, [0]),
    "owner in the group": (OWNER, [OTHER_GROUP, GROUP]),
    "owner outside": (OWNER, [OTHER_GROUP]),
    "stranger in the group": (STRANGER, [OTHER_GROUP, GROUP]),
    "stranger outside": (STRANGER, [OTHER_GROUP]),
    "root without CAP_FSETID": (0, [0], (CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_FOWNER)),
    "stranger with CAP_FSETID": (STRANGER, [OTHER_GROUP], (CAP_FSETID,)),
    "owner with CAP_FSETID": (OWNER, [OTHER_GROUP], (CAP_FSETID,)),
}
MODES = (0o2666, 0o2676, 0o4666, 0o6666, 0o6777, 0o2766, 0o2667, 0o666)
libc = ctypes.CDLL(None, use_errno=True)
libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long]


def with_file(flags, action):
    def act(path):
        handle = os.open(path, flags)
        try:
            action(handle)
        finally:
            os.close(handle)
    return act


def direct(handle):
    with mmap.mmap(-1, 4096) as page:
        os.writev(handle, [page])


def mapped(handle):
    with mmap.mmap(handle, 4096, mmap.MAP_SHARED) as view:
        view[0] = 1
        view.flush()


def fallocate(handle):
    if libc.fallocate(handle, 0, 0, 100_000) != 0:
        raise OSError(ctypes.get_errno(), "fallocate")


def acl(path):
    entries = ((1, 6, 0xFFFFFFFF), (2, 6, 12345), (4, 6, 0xFFFFFFFF), (16, 6, 0xFFFFFFFF), (32, 6, 0xFFFFFFFF))
    os.setxattr(path, "system.posix_acl_access", struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *one) for one in entries))


OPERATIONS = {
    "write": with_file(os.O_WRONLY, lambda handle: os.write(handle, b"x")),
    "write of a page": with_file(os.O_WRONLY, lambda handle: os.write(handle, b"x" * 4096)),
    "append": with_file(os.O_WRONLY | os.O_APPEND, lambda handle: os.write(handle, b"x")),
    "direct write": with_file(os.O_RDWR | os.O_DIRECT, direct),
    "mapped write": with_file(os.O_RDWR, mapped),
    "ftruncate": with_file(os.O_WRONLY, lambda handle: os.ftruncate(handle, 10)),
    "truncate": lambda path: os.truncate(path, 20_000),
    "O_TRUNC": with_file(os.O_WRONLY | os.O_TRUNC, lambda handle: None),
    "fallocate": with_file(os.O_WRONLY, fallocate),
    "chmod": lambda path: os.chmod(path, os.stat(path).st_mode & 0o7777),
    "chgrp": lambda path: os.chown(path, -1, OTHER_GROUP),
    "setfacl": acl,
    "utime": lambda path: os.utime(path, (1, 1)),
}


def keep_capabilities(numbers):
    """Has these capabilities in effect, and no others (capset(2))."""
    bits = sum(1 << number for number in numbers)
    header, data = struct.pack("<Ii", 0x20080522, 0), struct.pack("<6I", bits, bits, 0, 0, 0, 0)
    if libc.capset(header, data) != 0:
        raise OSError(ctypes.get_errno(), "capset")


def act_as(user, groups, action, path, capabilities=None):
    def act():
        if capabilities is not None:
            libc.prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0)
        os.setgroups(groups)
        os.setresgid(groups[0], groups[0], groups[0])
        os.setresuid(user, user, user)
        if capabilities is not None:
            keep_capabilities(capabilities)
        action(path)
    return harness.in_child(act)


def results(place, set_up):
    """(caller, operation, mode) → outcome, and the mode afterwards. Each caller is one process, for all of its cases."""
    found = {}
    for name, (user, groups, *capabilities) in CALLERS.items():
        cases = {(name, kind, oct(mode)): os.path.join(place, f"{name} {kind} {mode:o}") for kind in OPERATIONS for mode in MODES}
        for (_, _, mode), path in cases.items():
            harness.write_file(path, b"old" * 3000)
            set_up(path)
            os.chown(path, OWNER, GROUP)
            os.chmod(path, int(mode, 8))
        with tempfile.TemporaryFile(buffering=0) as answers:
            def act(cases=cases, answers=answers):
                said = [harness.outcome(OPERATIONS[kind], path) for (_, kind, _), path in cases.items()]
                answers.write(json.dumps(said).encode())
            assert act_as(user, groups, lambda _, act=act: act(), None, *capabilities) == "works", name
            answers.seek(0)
            for (case, path), said in zip(cases.items(), json.load(answers)):
                found[case] = (said, oct(os.stat(path).st_mode & 0o7777))
    return found


def test_matrix(environment):
    if os.geteuid() != 0:
        raise harness.Skip("needs root, to act as other users")
    mount = environment.mount(options=("allow_other",))
    os.chmod(mount.path, 0o755)
    plain = environment.new_path("plain")
    os.mkdir(plain)
    os.chmod(plain, 0o777)
    theirs = results(plain, lambda path: None)
    for letter in ("C", "A"):
        directory = mount / letter
        os.mkdir(directory)
        os.chmod(directory, 0o777)
        ours = results(directory, lambda path: harness.set_class(path, letter))
        wrong = [f"{key}: {ours[key]} / {theirs[key]}" for key in theirs if ours[key] != theirs[key]]
        environment.cell(f"class {letter}: cases that differ from the store's file system", (0, []), (len(wrong), wrong[:8]))


def test_members_before_strangers(environment):
    """A handle through which a member of the group has written does not spare a stranger's write."""
    if os.geteuid() != 0:
        raise harness.Skip("needs root, to act as other users")
    mount = environment.mount(options=("allow_other",))
    os.chmod(mount.path, 0o755)
    path = mount / "file"
    harness.write_file(path, b"old")
    os.chown(path, OWNER, GROUP)
    os.chmod(path, 0o2666)
    write = OPERATIONS["direct write"]
    held = os.open(path, os.O_RDWR)
    environment.cell("a member", "works", act_as(*CALLERS["stranger in the group"], write, path))
    environment.cell("the mode after a member", oct(0o2666), oct(os.stat(path).st_mode & 0o7777))
    environment.cell("a stranger", "works", act_as(*CALLERS["stranger outside"], write, path))
    environment.cell("the mode after a stranger", oct(0o666), oct(os.stat(path).st_mode & 0o7777))
    os.close(held)
