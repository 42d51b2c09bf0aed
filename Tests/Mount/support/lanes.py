"""Lanes: several processes that take groups of tests from one queue, with nothing of the machine in common that tests look at.

Each lane has mounts and processes that only it sees (mount_namespaces(7), pid_namespaces(7)), and control sockets of its own,
so that a command for all mounts finds those of its lane.
"""

import contextlib
import ctypes
import json
import mmap
import os
import signal
import struct
import sys
import traceback

import harness
import times

CLONE_NEWNS, CLONE_NEWPID = 0x20000, 0x20000000
PR_SET_PDEATHSIG = 1
SOCKETS = "/run/protectfs"
libc = ctypes.CDLL(None, use_errno=True)
# A lane's first process says here how much processor time those have taken that had lost their parents: daemons, above all.
orphans = None


def of_orphans():
    """The processor time, in seconds, of this lane's processes that have lost their parents and ended; 0 outside of lanes."""
    return struct.unpack("d", orphans[:])[0] if orphans else 0.0


def in_namespaces(body):
    """Runs body() in a process below a first process of new namespaces. Gives the first one's process ID here; its exit code is
    body's, or 1."""
    def outer():
        # An interrupt is for the tests, which clean up.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        # Whoever ends the first process of a namespace ends everything in it.
        if libc.unshare(CLONE_NEWNS | CLONE_NEWPID) != 0:
            return 1
        return exit_code(os.waitpid(below(lambda: first_process(body)), 0)[1])

    return below(outer)


def below(body):
    """Runs body() in a child process that ends with this one. Gives its process ID; its exit code is what body returns."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        code = body()
    except (OSError, harness.CommandFailed) as error:
        sys.stderr.write(f"lanes: {error}\n")
    except BaseException:  # noqa: the process ends here, whatever happens
        sys.stderr.write(traceback.format_exc())
    finally:
        os._exit(code)


def exit_code(status):
    """The exit code of a process; 1 if a signal has ended it."""
    return os.WEXITSTATUS(status) if os.WIFEXITED(status) else 1


def first_process(body):
    """What the first process of a namespace does: mounts, and waiting for all that have lost their parents."""
    harness.run("mount", "--make-rslave", "/")
    harness.run("mount", "-t", "proc", "proc", "/proc")
    os.makedirs(SOCKETS, mode=0o700, exist_ok=True)
    harness.run("mount", "-t", "tmpfs", "-o", "mode=700", "none", SOCKETS)

    def interruptible():
        signal.signal(signal.SIGINT, signal.default_int_handler)
        return body()

    global orphans
    orphans = mmap.mmap(-1, struct.calcsize("d"))
    child = below(interruptible)
    while True:
        pid, status = os.wait()
        orphans[:] = struct.pack("d", times.of_children())
        if pid == child:
            return exit_code(status)


def can():
    """Whether this machine lets us."""
    return os.geteuid() == 0 and os.waitpid(in_namespaces(lambda: 0), 0)[1] == 0


def share(count, length, work):
    """Has `count` lanes take the numbers from 0 to length - 1. Gives what work(numbers) returns in each, as JSON keeps it; None
    for a lane that has ended without a result."""
    queue, filling = os.pipe()
    os.write(filling, b"".join(struct.pack("=H", number) for number in range(length)))
    os.close(filling)

    def numbers():
        while len(taken := os.read(queue, 2)) == 2:
            yield struct.unpack("=H", taken)[0]

    lanes = []
    for number in range(count):
        here, there = os.pipe()

        def body(there=there, number=number):
            # Process IDs are those of other lanes, too.
            os.environ["PROTECTFS_TEST_LANE"] = str(number)
            with os.fdopen(there, "w", encoding="utf-8") as file:
                json.dump(work(numbers()), file)
            return 0

        lanes.append((in_namespaces(body), here))
        os.close(there)
    os.close(queue)
    try:
        return [result(pid, here) for pid, here in lanes]
    except KeyboardInterrupt:
        # They clean up.
        for pid, _ in lanes:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)
        raise


def result(pid, here):
    """What a lane returns; None if it has ended without."""
    with os.fdopen(here, encoding="utf-8") as file:
        said = file.read()
    os.waitpid(pid, 0)
    return json.loads(said) if said else None


def unique():
    """A name that no other process of any lane has."""
    return f"{os.environ.get('PROTECTFS_TEST_LANE', '')}-{os.getpid()}"
