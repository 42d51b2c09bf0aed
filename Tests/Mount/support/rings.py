"""FUSE over io_uring in tests: which tests run over it too, and the kernel's switch, which only root may turn."""

import contextlib
import fcntl
import os

SWITCH = "/sys/module/fuse/parameters/enable_uring"
USERS = "/run/protectfs-tests-io-uring"
# With this variable set, the mounts of a test take their requests over io_uring.
VARIABLE = "PROTECTFS_TEST_IO_URING"
SUFFIX = ".io_uring"

# Tests that run over /dev/fuse and again over io_uring, by the beginning of "file.function": those of locks, of many requests
# at a time, of the bytes that come back, and of a daemon's end. In a usual run those that take little, in a full one all.
USUAL = ("direct_writes.", "file_handles.", "guard.", "killed.", "lock_cache.", "lock_gets_through.busy",
         "lock_gets_through.idle", "lock_gets_through.no_threads", "locking.", "memory_scan.", "model.", "races.", "signals.")
BOTH = USUAL + ("differential.", "late.", "lock_gets_through.", "lock_stress.", "seeking.", "stalls.", "sweeping.",
                "written_times.")


def allowed():
    """Whether the kernel has the switch, and this process may turn it."""
    return os.access(SWITCH, os.W_OK)


def value():
    with open(SWITCH) as file:
        return file.read(1)


def turn(to):
    with open(SWITCH, "w") as file:
        file.write(to)


@contextlib.contextmanager
def switched_on():
    """Switches it on for a while. The last of several runs puts it back as the first one has found it."""
    with open(USERS, "a+") as users:
        # Only who finds nobody else may look at what the switch was.
        try:
            fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
            users.truncate(0)
            users.write(value())
            users.flush()
        except BlockingIOError:
            pass
        fcntl.flock(users, fcntl.LOCK_SH)
        turn("Y")
        try:
            yield
        finally:
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
                users.seek(0)
                turn(users.read(1) or "N")
