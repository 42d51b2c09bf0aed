"""A daemon that is told to end, or whose mount is detached, while files are open: it locks first and keeps no keys."""

import contextlib
import os
import signal
import subprocess
import sys
import time

import harness

CONTENT = harness.pattern(300_000)
KINDS = ("A", "B", "C", "D")


def filled(environment, options=()):
    """A mount with a file of each class, and a handle on each."""
    mount = environment.mount(options=options)
    handles = {}
    for kind in KINDS:
        assert harness.outcome(harness.write_file, mount / kind, CONTENT) == "works"
        harness.set_class(mount / kind, kind)
        handles[kind] = os.open(mount / kind, os.O_RDWR)
        assert os.pread(handles[kind], 100, 0) == CONTENT[:100]
    return mount, handles


def gone(pid):
    """Whether the process has ended; one that nobody has waited for counts as ended."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/stat", encoding="ascii") as file:
        return file.read().rsplit(") ", 1)[1][0] == "Z"
    return True


def state(mount):
    """The state that the daemon tells over its socket."""
    with contextlib.suppress(AssertionError):
        return mount.status()["state"]
    return "no answer"


def closed(environment, mount, handles, label):
    """Class A and B cannot be had by any path."""
    environment.cell(f"{label}: an open handle of class A", "EACCES", harness.outcome(os.pread, handles["A"], 10, 0))
    for kind in ("A", "B"):
        path = f"/proc/self/fd/{handles[kind]}"
        environment.cell(f"{label}: class {kind} by another way", "EACCES",
                         harness.outcome(lambda path=path: os.close(os.open(path, os.O_RDONLY))))
    for kind in ("B", "C", "D"):
        environment.cell(f"{label}: an open handle of class {kind} works", "works",
                         harness.outcome(os.pwrite, handles[kind], b"saved at the end", 0))


def test_told_to_end_while_in_use(environment):
    """SIGTERM, SIGINT and SIGHUP: locked at once, still there and answering, and gone with the last handle."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        label = number.name
        mount, handles = filled(environment)
        pid = mount.pid
        os.kill(pid, number)
        harness.wait_until(lambda: state(mount) in ("locked", "no answer"), what=f"the lock by {label}")
        environment.cell(f"{label}: state over the socket", "locked", state(mount))
        environment.cell(f"{label}: it is still mounted", True, mount.is_mounted)
        closed(environment, mount, handles, label)
        done = mount.command("unlock", "--recovery-file", mount.volume.code_file, mount.path, ok=False)
        environment.cell(f"{label}: keys do not come back", (6, "locked"), (done.returncode, state(mount)))
        environment.cell(f"{label}: unlock says why", True, "told to end" in done.stderr)
        environment.cell(f"{label}: unmount says that it is in use", 6,
                         mount.command("unmount", mount.path, ok=False).returncode)
        # A second one changes nothing while it is in use.
        os.kill(pid, number)
        environment.cell(f"{label}: lock answers", 0, mount.command("lock", mount.path, ok=False).returncode)
        for handle in handles.values():
            os.close(handle)
        harness.wait_until(lambda: gone(pid), what="the end of the daemon")
        environment.cell(f"{label}: nothing is mounted", False, mount.is_mounted)
        mount = environment.mount(mount.volume, path=mount.path)
        for kind in ("B", "C", "D"):
            environment.cell(f"{label}: what was written after it to class {kind}", b"saved at the end",
                             harness.read_file(mount / kind)[:16])
        mount.unmount()


def test_lock_comes_first(environment):
    """The lock does not wait for programs that asked to be waited for, nor for an earlier lock's grace."""
    mount, handles = filled(environment)
    pid = mount.pid
    subscriber = subprocess.Popen(["/usr/bin/python3", "-c", SUBSCRIBER, mount.path, *sys.path],
                                  stdout=subprocess.PIPE, text=True)
    assert subscriber.stdout.readline() == "subscribed\n"
    locking = subprocess.Popen([harness.binary(), "lock", "--grace", harness.GRACE, mount.path],
                               env=mount.volume.environment, stdout=subprocess.DEVNULL)
    assert subscriber.stdout.readline() == "willLock\n"
    environment.cell("the grace runs", "unlocked", state(mount))
    os.kill(pid, signal.SIGTERM)
    harness.wait_until(lambda: state(mount) in ("locked", "no answer"), what="the lock")
    closed(environment, mount, handles, "within a grace")
    subscriber.kill()
    subscriber.wait()
    environment.cell("the earlier lock ends", 0, locking.wait(harness.PATIENCE))
    for handle in handles.values():
        os.close(handle)
    harness.wait_until(lambda: not harness.daemons(mount.path), what="the end of the daemon")


SUBSCRIBER = """
import sys, time
sys.path[:0] = sys.argv[2:]
from subscriber import Subscriber
class Mount: path = sys.argv[1]
subscriber = Subscriber(Mount, wait=True)
print("subscribed", flush=True)
while True:
    print(subscriber.receive()["event"], flush=True)
"""


def test_unlock_under_way(environment):
    """A passphrase that is just being tried when the signal comes opens nothing any more."""
    mount, handles = filled(environment)
    pid = mount.pid
    mount.lock()
    # The password hash takes its time; where it was over before the signal came, the lock comes after it.
    unlocking = subprocess.Popen([harness.binary(), "unlock", "--passphrase-file", mount.volume.passphrase_file, mount.path],
                                 env=mount.volume.environment, stderr=subprocess.PIPE, text=True)
    time.sleep(0.05)
    was_over = mount.state() == "unlocked"
    os.kill(pid, signal.SIGTERM)
    _, said = unlocking.communicate(timeout=harness.PATIENCE)
    harness.wait_until(lambda: state(mount) != "unlocked", what="the lock")
    if unlocking.returncode != 0 or not was_over:
        environment.cell("it is refused, and says why", (6, True), (unlocking.returncode, "told to end" in said))
    closed(environment, mount, handles, "after the unlock")
    for handle in handles.values():
        os.close(handle)
    harness.wait_until(lambda: gone(pid), what="the end of the daemon")


def test_detached_by_somebody_else(environment):
    """umount -l while in use: no command finds the mount any more, so it is locked, and the daemon ends with the last handle."""
    mount, handles = filled(environment)
    pid = mount.pid
    words = ["umount", "-l"] if os.geteuid() == 0 else ["fusermount3", "-u", "-z"]
    harness.run(*words, mount.path)
    harness.wait_until(lambda: harness.outcome(os.pread, handles["A"], 10, 0) == "EACCES", what="the lock")
    closed(environment, mount, handles, "detached")
    environment.cell("the daemon serves what is open", False, gone(pid))
    for handle in handles.values():
        os.close(handle)
    harness.wait_until(lambda: gone(pid), what="the end of the daemon")
    mount = environment.mount(mount.volume, path=mount.path)
    environment.cell("what was written", b"saved at the end", harness.read_file(mount / "C")[:16])
    # An unused mount ends at once when any program unmounts it.
    pid = mount.pid
    harness.run(*words, mount.path)
    harness.wait_until(lambda: gone(pid), what="the end of an unused mount")


def test_another_mount_in_its_place(environment):
    """What is mounted over a mount that was told to end is not unmounted in its stead."""
    if os.geteuid() != 0:
        raise harness.Skip("only root can mount over it")
    mount, handles = filled(environment)
    harness.run("mount", "-t", "tmpfs", "over", mount.path)
    try:
        pid = mount.pid
        os.kill(pid, signal.SIGTERM)
        harness.wait_until(lambda: harness.outcome(os.pread, handles["A"], 10, 0) == "EACCES", what="the lock")
        for handle in handles.values():
            os.close(handle)
        time.sleep(3)
        environment.cell("what covers it stays", True,
                         any(row[1] == mount.path and row[2] == "tmpfs" for row in harness.mount_table()))
    finally:
        harness.run("umount", "-t", "tmpfs", mount.path, ok=False)
    harness.wait_until(lambda: gone(pid), what="the end of the daemon")


def test_without_device_key(environment):
    """A volume without a device key locks as well, by command and by signal, and unlocks by its passphrase."""
    place, data, path = (environment.new_path(name) for name in ("bare", "data", "mount"))
    secret = environment.volume().passphrase_file
    where = {**os.environ, "XDG_STATE_HOME": data}
    harness.protectfs("init", "--json", "--device-key", "none", "--passphrase-file", secret, place, env=where)
    os.mkdir(path)
    harness.protectfs("mount", "--passphrase-file", secret, place, path, env=where)
    mount = harness.Mount(harness.Volume(place, data, None, secret), path)
    environment.mounts.append(mount)
    harness.write_file(mount / "file", CONTENT)
    harness.set_class(mount / "file", "A")
    handle = os.open(mount / "file", os.O_RDWR)
    mount.lock()
    environment.cell("locked by a command", ("locked", "EACCES"),
                     (state(mount), harness.outcome(os.pread, handle, 10, 0)))
    mount.command("unlock", "--passphrase-file", secret, path)
    environment.cell("unlocked", CONTENT[:10], os.pread(handle, 10, 0))
    os.kill(mount.pid, signal.SIGTERM)
    harness.wait_until(lambda: state(mount) in ("locked", "no answer"), what="the lock")
    environment.cell("locked by a signal", ("locked", "EACCES"),
                     (state(mount), harness.outcome(os.pread, handle, 10, 0)))
    os.close(handle)
    harness.wait_until(lambda: not harness.daemons(path), what="the end of the daemon")
