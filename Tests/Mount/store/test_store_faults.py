"""Real faults below: a full disk, a quota, a failing disk, a store that turns read-only.

Each gives the right errno and damages no other file.
"""

import errno
import os

import harness
from stores import save, store, write_and_close

MEGABYTE = 1 << 20
OLD = {f"old {number}": harness.pattern([0, 100, 4000, 70_000, 300_000][number % 5], seed=number + 1)
       for number in range(10)}


def make_old(mount):
    """Files that must not suffer; everything is synced."""
    for name, content in OLD.items():
        said = save(mount / name, content)
        assert said == "works", f"{name}: {said}"
    handle = os.open(mount.path, os.O_RDONLY)
    os.fsync(handle)
    os.close(handle)


def changed(mount, ignoring=()):
    """The old files that do not read as they were written."""
    return [name for name, content in OLD.items()
            if name not in ignoring and harness.outcome(lambda: check(mount / name, content)) != "works"]


def check(path, content):
    if harness.read_file(path) != content:
        raise OSError(errno.EILSEQ, "other content")


def fill_up(environment, mount, label, wanted):
    """Writes until no space is left: the errno at write, fsync or close; the same for files closed without fsync."""
    answers = set()
    late = os.open(mount / "late", os.O_RDWR | os.O_CREAT, 0o644)
    for number in range(400):
        answer = save(mount / f"big {number}", harness.pattern(MEGABYTE, seed=number))
        if answer != "works":
            answers.add(answer.split(" ")[0])
            break
    environment.cell(f"{label}: a big file", {wanted}, answers)
    # What close(2) says of a write-back error is ENOSPC or EIO: the kernel keeps no other.
    answer = write_and_close(mount / "closed", harness.pattern(2 * MEGABYTE, seed=1))
    environment.cell(f"{label}: closed without fsync", True,
                     answer.split(" ")[0] in ({wanted} if wanted == "ENOSPC" else {wanted, "EIO"}))
    for number in range(20_000):
        answer = save(mount / f"small {number}", b"x" * 5000)
        if answer != "works":
            break
    environment.cell(f"{label}: small files", wanted, answer.split(" ")[0])
    # The kernel finds out when no program waits for it; the next fsync has to say so.
    said = harness.outcome(os.pwrite, late, harness.pattern(3 * MEGABYTE, seed=2), 0)
    harness.sync(mount.path, ok=False)
    environment.cell(f"{label}: fsync after a write-back that failed", wanted,
                     harness.outcome(os.fsync, late) if said == "works" else said)
    harness.outcome(os.close, late)
    environment.cell(f"{label}: nothing old has suffered", [], changed(mount))
    environment.cell(f"{label}: the last small file but one", b"x" * 5000,
                     harness.read_file(mount / f"small {number - 1}") if number else b"x" * 5000)
    return number


def empty(mount, environment, label, smalls):
    for name in sorted(os.listdir(mount.path)):
        if name.startswith(("big", "small", "closed", "late")):
            os.unlink(mount / name)
    environment.cell(f"{label}: goes on", "works", save(mount / "after", harness.pattern(MEGABYTE, seed=3)))
    environment.cell(f"{label}: reads back", True,
                     harness.read_file(mount / "after") == harness.pattern(MEGABYTE, seed=3))
    environment.cell(f"{label}: nothing old has suffered after all", [], changed(mount))


def test_full_disk(environment):
    """ENOSPC of a real full file system, on each kind."""
    for kind, size in (("ext4", 24 << 20), ("xfs", 300 << 20), ("btrfs", 120 << 20)):
        try:
            with store(environment, kind, size) as below:
                if kind != "ext4":
                    # Filled from beside, so that it does not take long.
                    room = os.statvfs(below.backing)
                    with open(below.backing + "/filler", "wb") as file:
                        harness.run("fallocate", "-l", room.f_bavail * room.f_frsize - (40 << 20), file.name, ok=False)
                mount = below.mount()
                make_old(mount)
                count = fill_up(environment, mount, kind, "ENOSPC")
                environment.cell(f"{kind}: an old file is overwritten in place or refused", True,
                                 overwrite(mount / "old 4") in ("works", "ENOSPC"))
                environment.cell(f"{kind}: a rename", "works",
                                 harness.outcome(os.rename, mount / "old 1", mount / "old one"))
                os.rename(mount / "old one", mount / "old 1")
                environment.cell(f"{kind}: delete on a full volume", "works",
                                 harness.outcome(os.unlink, mount / "big 0"))
                empty(mount, environment, kind, count)
                mount = environment.remount(mount, may_stay_open=True)
                environment.cell(f"{kind}: nothing old has suffered after mounting again", [], changed(mount))
                mount.unmount()
                below.check(kind)
        except harness.Skip as reason:
            environment.skip(f"full {kind}", str(reason))


def overwrite(path):
    """The same bytes again, in place."""
    content = harness.read_file(path)
    handle = os.open(path, os.O_RDWR)
    try:
        os.pwrite(handle, content, 0)
        os.fsync(handle)
        return "works"
    except OSError as error:
        return errno.errorcode[error.errno]
    finally:
        harness.outcome(os.close, handle)


def test_quota(environment):
    """EDQUOT, by a Btrfs quota group."""
    with store(environment, "btrfs") as below:
        for words in (["quota", "enable", below.backing], ["qgroup", "limit", "16M", "0/5", below.backing]):
            done = harness.run("btrfs", *words, ok=False)
            if done.returncode != 0:
                raise harness.Skip(f"no Btrfs quota here: {done.stderr.strip()}")
        mount = below.mount()
        make_old(mount)
        count = fill_up(environment, mount, "quota", "EDQUOT")
        # Btrfs refuses to delete where the quota is used up to the last block: the limit is raised, as one would.
        harness.run("btrfs", "qgroup", "limit", "40M", "0/5", below.backing)
        empty(mount, environment, "quota", count)
        mount.unmount(may_stay_open=True)
        below.check("quota")


def test_failing_disk(environment):
    """EIO of reads, writes and flushes: at the call that it concerns; afterwards what was synced is there."""
    for kind in ("ext4", "xfs", "btrfs"):
        try:
            with store(environment, kind) as below:
                failing_disk(environment, below, kind)
        except harness.Skip as reason:
            environment.skip(f"failing {kind}", str(reason))


def failing_disk(environment, below, kind):
    mount = below.mount()
    make_old(mount)
    mount = environment.remount(mount)
    handle = os.open(mount / "old 4", os.O_RDONLY)
    first = os.pread(handle, 4000, 0)
    below.forget_pages()
    below.disk.order("fail", errno.EIO, "read")
    environment.cell(f"{kind}: reading from a disk that cannot read", "EIO",
                     harness.outcome(os.pread, handle, 4000, 200_000))
    environment.cell(f"{kind}: what the cache has", True, os.pread(handle, 4000, 0) == first)
    below.disk.order("fail", 0)
    environment.cell(f"{kind}: the same handle once the disk reads again", True,
                     os.pread(handle, 4000, 200_000) == OLD["old 4"][200_000:204_000])
    os.close(handle)
    environment.cell(f"{kind}: an error of reading hurts no content", [], changed(mount))
    # From here on nothing reaches the disk: every file system but ext4 gives up at once.
    handle = os.open(mount / "old 9", os.O_RDWR)
    below.disk.order("fail", errno.EIO, "write", "fsync")
    os.pwrite(handle, b"new" * 2000, 100)
    # The error comes to light here, where no program waits for it.
    for place in (mount.path, below.backing):
        harness.sync(place, ok=False)
    environment.cell(f"{kind}: fsync after a write-back that failed", True,
                     harness.outcome(os.fsync, handle) in ("EIO", "EROFS"))
    harness.outcome(os.close, handle)
    environment.cell(f"{kind}: a new file", True, save(mount / "new", b"new" * 2000).split(" ")[0] in ("EIO", "EROFS"))
    environment.cell(f"{kind}: a write-back error at close or fsync", False,
                     any(save(mount / f"old {number}", b"y" * 10_000) == "works" for number in (6, 8)))
    environment.cell(f"{kind}: other files are readable", [],
                     changed(mount, ["old 6", "old 8", "old 9"]) if kind == "ext4" else [])
    done = mount.command("unmount", mount.path, ok=False)
    environment.cell(f"{kind}: unmounting goes", False, mount.is_mounted)
    assert done.returncode in (0, 1), done.stderr
    below.detach()
    below.attach()
    environment.cell(f"{kind}: the epoch is open, as nobody knows what reached the disk", 1, len(below.open_epochs()))
    mount = below.mount()
    environment.cell(f"{kind}: everything synced is there with another cable", [],
                     changed(mount, ["old 6", "old 8", "old 9"]))
    for name in ("old 6", "old 8", "old 9"):
        environment.cell(f"{kind}: {name} can be read", "works", harness.outcome(harness.read_file, mount / name))
    environment.cell(f"{kind}: it is written again", "works", save(mount / "old 9", OLD["old 9"]))
    mount.unmount()
    below.check(kind)


def test_read_only_underneath(environment):
    """The file system below is remounted read-only, and writable again."""
    with store(environment) as below:
        mount = below.mount()
        make_old(mount)
        harness.wait_until(lambda: harness.run("mount", "-o", "remount,ro", below.backing, ok=False).returncode == 0,
                           what="the remount")
        environment.cell("write to an old file", "EROFS", save(mount / "old 2", b"x" * 100).split(" ")[0])
        for name, act in (("create", lambda: harness.write_file(mount / "new", b"x")),
                          ("unlink", lambda: os.unlink(mount / "old 3")),
                          ("mkdir", lambda: os.mkdir(mount / "directory")),
                          ("rename", lambda: os.rename(mount / "old 3", mount / "other")),
                          ("chmod", lambda: os.chmod(mount / "old 3", 0o600)),
                          ("class", lambda: harness.set_class(mount / "old 3", "B"))):
            environment.cell(name, "EROFS", harness.outcome(act))
        environment.cell("everything is readable", [], changed(mount))
        harness.run("mount", "-o", "remount,rw", below.backing)
        environment.cell("writable again", "works", save(mount / "new", b"x" * 10_000))
        environment.cell("nothing has suffered", [], changed(mount))
        mount.unmount()
        below.check("read-only")


def test_given_up(environment):
    """A file system that gives up at a flush that fails: the epoch must stay open. (Btrfs turns read-only, and calls a
    syncfs done then; a failed flush, unlike a failed write, is no error that anybody keeps for it.)"""
    for kind in ("ext4", "xfs", "btrfs"):
        try:
            with store(environment, kind) as below:
                mount = below.mount()
                make_old(mount)
                handle = os.open(mount / "old 4", os.O_RDWR | os.O_DIRECT)
                os.fsync(handle)
                harness.sync(below.backing)
                below.disk.order("fail", errno.EIO, "fsync")
                os.pwrite(handle, b"lost" * 1000, 0)  # only the cache below has it
                os.mkdir(mount / "directory")
                environment.cell(f"{kind}: a directory's fsync", True,
                                 harness.outcome(sync_directory, mount.path) in ("EIO", "EROFS"))
                harness.outcome(os.close, handle)  # may say so, too
                mount.command("unmount", mount.path, ok=False)
                below.detach()
                below.attach()
                environment.cell(f"{kind}: the epoch is open", 1, len(below.open_epochs()))
                mount = below.mount()
                environment.cell(f"{kind}: the other files", [], changed(mount, ["old 4"]))
                environment.cell(f"{kind}: this one is readable", "works",
                                 harness.outcome(harness.read_file, mount / "old 4"))
                mount.unmount()
                below.check(kind)
        except harness.Skip as reason:
            environment.skip(f"given up {kind}", str(reason))


def sync_directory(path):
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
