"""A daemon without free descriptors: it still answers, locks and unlocks, and leaves nothing half-made."""

import contextlib
import errno
import os
import resource
import time

import harness
from control_socket import connect
from frozen import Case
from late import check_store, lock_late
from stores import store

SOON = 8


def limited_mount(environment, limit, volume=None):
    """A mount whose daemon may have so many descriptors."""
    volume = volume or environment.volume()
    return environment.mount(volume, ok=False,
                             preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit)))


def open_all(paths, flags=os.O_RDWR):
    """Opens until no more can be opened; gives the handles and the errnos of the rest."""
    handles, answers = [], set()
    for path in paths:
        try:
            handles.append(os.open(path, flags))
        except OSError as error:
            answers.add(errno.errorcode[error.errno])
    return handles, answers


def below(volume):
    """Every path in the store."""
    return sorted(os.path.join(place, name) for place, directories, files in os.walk(volume.path)
                  for name in directories + files)


def descriptors(mount):
    return len(os.listdir(f"/proc/{mount.pid}/fd"))


def soon(environment, mount, label, *words, ok=0):
    started = time.monotonic()
    try:
        done = mount.command(*words, ok=False, timeout=30)
        environment.cell(f"{label}", (ok, True), (done.returncode, time.monotonic() - started < SOON))
    except harness.CommandFailed as late:
        environment.cell(f"{label}", "an answer", str(late))


def test_full_table(environment):
    """Open files have all that they may: lock, unlock and the rest of the control socket are answered as ever."""
    limit = 128
    mount = limited_mount(environment, limit)
    environment.cell("mount", (0, ""), (mount.result.returncode, mount.result.stderr))
    paths = [mount / f"file {number}" for number in range(2 * limit)]
    for number, path in enumerate(paths):
        harness.write_file(path, b"%d" % number)
    harness.set_class(paths[0], "A")
    harness.set_class(paths[1], "B")
    os.makedirs(mount / "a/deep/er/directory")
    mount = restarted(environment, mount, limit)
    handles, answers = open_all([mount / f"file {number}" for number in range(2 * limit)])
    environment.cell("the rest is refused", {"ENFILE"}, answers)
    environment.cell("many could be opened", True, len(handles) > limit // 4)
    print(f"{len(handles)} files open of a limit of {limit}, the daemon has {descriptors(mount)} descriptors", flush=True)
    # Nothing has been written by this mount: its session is entered in the state file by the first write, which needs
    # descriptors too.
    environment.cell("the first write of the mount", "works", harness.outcome(os.pwrite, handles[5], b"5", 0))
    environment.cell("and its fsync", "works", harness.outcome(os.fsync, handles[5]))
    unlock = ("unlock", "--recovery-file", mount.volume.code_file, mount.path)
    crowd = [connect(mount) for _ in range(64)]
    for label in ("beside 64 connections", "alone"):
        soon(environment, mount, f"{label}: status", "status", mount.path)
        soon(environment, mount, f"{label}: lock", "lock", mount.path)
        environment.cell(f"{label}: class A is closed", "EACCES", harness.outcome(os.pread, handles[0], 1, 0))
        soon(environment, mount, f"{label}: unlock", *unlock)
        environment.cell(f"{label}: class A is open", b"0", os.pread(handles[0], 1, 0))
        soon(environment, mount, f"{label}: wait", "wait", "--unlocked", "--timeout", "20", mount.path)
        soon(environment, mount, f"{label}: unmount says that it is in use", "unmount", mount.path, ok=6)
        while crowd:
            crowd.pop().close()
    soon(environment, mount, "lock again", "lock", mount.path)
    soon(environment, mount, "unlock by the passphrase", "unlock", "--passphrase-file", mount.volume.passphrase_file,
         mount.path)
    with contextlib.closing(harness.Watch(mount)) as watch:
        environment.cell("watch", {"state": "unlocked"}, watch.next(SOON))
    environment.cell("the limit is kept", True, descriptors(mount) <= limit)
    for handle in handles:
        os.close(handle)
    mount.unmount()


def restarted(environment, mount, limit):
    mount.unmount()
    return limited_mount(environment, limit, mount.volume)


def test_nothing_is_left(environment):
    """What is refused for want of descriptors has changed nothing; what works on names goes on."""
    limit = 128
    mount = limited_mount(environment, limit)
    for number in range(limit):
        harness.write_file(mount / f"file {number}", b"content")
    os.makedirs(mount / "a/deep/er/directory")
    harness.write_file(mount / "a/deep/er/file", b"content")
    handles, answers = open_all([mount / f"file {number}" for number in range(limit)])
    environment.cell("the rest is refused", {"ENFILE"}, answers)
    before = below(mount.volume)
    for label, action in (("create", lambda: harness.write_file(mount / "new", b"x")),
                          ("create exclusively", lambda: harness.write_file(mount / "a/new", b"x", os.O_EXCL)),
                          ("create with a long name", lambda: harness.write_file(mount / ("n" * 230), b"x")),
                          ("a device's twin, a regular file", lambda: os.mknod(mount / "node", 0o100644)),
                          ("truncating open", lambda: os.close(os.open(mount / "a/deep/er/file",
                                                                       os.O_WRONLY | os.O_TRUNC))),
                          ("truncate", lambda: os.truncate(mount / f"file {limit - 1}", 0))):
        environment.cell(f"{label} is refused", "ENFILE", harness.outcome(action))
    environment.cell("nothing is left of it", [], [name for name in below(mount.volume) if name not in before])
    for label, action in (("stat", lambda: os.stat(mount / "a/deep/er/directory")),
                          ("list", lambda: os.listdir(mount / "a/deep/er")), ("mkdir", lambda: os.mkdir(mount / "new")),
                          ("mkdir with a long name", lambda: os.mkdir(mount / ("d" * 230))),
                          ("symlink", lambda: os.symlink("target", mount / "a/link")),
                          ("mkfifo", lambda: os.mkfifo(mount / "a/fifo")),
                          ("rename", lambda: os.rename(mount / "a/deep", mount / "new/deep")),
                          ("rename of a file", lambda: os.rename(mount / "file 1", mount / "new/file 1")),
                          ("link", lambda: os.link(mount / "file 2", mount / "new/link")),
                          ("unlink", lambda: os.unlink(mount / "file 3")),
                          ("chmod", lambda: os.chmod(mount / "new/deep/er/file", 0o600)),
                          ("rmdir", lambda: os.rmdir(mount / "new/deep/er/directory")),
                          ("rmdir with a long name", lambda: os.rmdir(mount / ("d" * 230)))):
        environment.cell(f"{label} works", "works", harness.outcome(action))
    for handle in handles:
        os.close(handle)
    harness.wait_until(lambda: not any(mount.status()["openHandles"].values()), what="closed handles")
    environment.cell("what was to be truncated", (b"content", b"content"), (
        harness.read_file(mount / "new/deep/er/file"), harness.read_file(mount / f"file {limit - 1}")))
    environment.cell("creating again", "works", harness.outcome(harness.write_file, mount / "later", b"x"))
    mount.unmount()
    done = mount.command("fsck", "--recovery-file", mount.volume.code_file, mount.volume.path, ok=False)
    environment.cell("fsck finds nothing", 0, done.returncode)


def test_directories_go_first(environment):
    """Directories are kept open for speed only: as many files can be opened after a walk as before it."""
    limit = 160
    mount = limited_mount(environment, limit)
    for number in range(limit):
        os.mkdir(mount / f"directory {number}")
        harness.write_file(mount / f"directory {number}/file", b"content")
        harness.write_file(mount / f"file {number}", b"content")
    counts = []
    for walk in (False, True):
        mount = restarted(environment, mount, limit)
        if walk:
            for number in range(limit):
                os.stat(mount / f"directory {number}/file")
                os.listdir(mount / f"directory {number}")
        handles, answers = open_all([mount / f"file {number}" for number in range(limit)])
        environment.cell(f"walk {walk}: the rest is refused", {"ENFILE"}, answers)
        counts.append(len(handles))
        # Names without a descriptor of their own: files that are deleted while the kernel knows them.
        for number in range(limit - 20, limit):
            os.stat(mount / f"directory {number}/file")
            os.unlink(mount / f"directory {number}/file")
        soon(environment, mount, f"walk {walk}: lock", "lock", mount.path)
        soon(environment, mount, f"walk {walk}: unlock", "unlock", "--recovery-file", mount.volume.code_file, mount.path)
        for handle in handles:
            os.close(handle)
        for number in range(limit - 20, limit):
            harness.write_file(mount / f"directory {number}/file", b"content")
    environment.cell("as many after a walk", True, abs(counts[0] - counts[1]) <= 2)
    print(f"{counts[0]} files without, {counts[1]} after a walk", flush=True)
    mount.unmount()


def test_limits(environment):
    """The daemon raises its limit to the hard one, which an administrator has set, and refuses one that is too low."""
    volume = environment.volume()
    path = environment.new_path("mount")
    os.makedirs(path, mode=0o500)

    def run(soft, hard):
        return environment.mount(volume, path=path, ok=False, preexec_fn=lambda: resource.setrlimit(
            resource.RLIMIT_NOFILE, (soft, hard))).result

    for soft, hard in ((20, 3000), (64, 200)):
        done = run(soft, hard)
        environment.cell(f"mount with {soft} of {hard}", (0, ""), (done.returncode, done.stderr))
        mount = harness.Mount(volume, path)
        environment.mounts.append(mount)
        with open(f"/proc/{mount.pid}/limits", encoding="ascii") as file:
            line = next(line.split() for line in file if line.startswith("Max open files"))
        environment.cell(f"its limits with {soft} of {hard}", [str(hard)] * 2, line[3:5])
        mount.unmount()
    done = run(60, 60)
    environment.cell("too low", 1, done.returncode)
    environment.cell("it says why, and what to do", True, "limit of open files" in done.stderr and "raise" in done.stderr)


def test_late_records_have_theirs(environment):
    """A lock that finds pages still to be written puts them into a late file, whatever is open."""
    with store(environment) as below_it:
        limit = 128
        mount = limited_mount(environment, limit, below_it.volume)
        for number in range(limit):
            harness.write_file(mount / f"file {number}", b"content")
        case = Case(mount, below_it.backing, "class", 1)
        try:
            handles, answers = open_all([mount / f"file {number}" for number in range(limit)])
            environment.cell("the rest is refused", {"ENFILE"}, answers)
            lock_late(environment, case, "full")
            check_store(environment, case, "full")
            mount.unlock()
            environment.cell("pages after unlock", case.PAGES, case.holder.ask("count", case.LENGTH, 1))
        finally:
            case.holder.close()
        for handle in handles:
            os.close(handle)
        mount.unmount()
