"""Late records: data written after the keys were gone is in its file after the unlock."""

import os
import signal
import threading

import harness
import reader
from frozen import Case, count_in
from late import check_store, late_files, listed, lock_late
from stores import store

KINDS = ["class", "rename", "unlinked", "linked"]


def test_deterministic(environment):
    """A file becomes class A while its dirty pages wait for a frozen store, and the volume is locked."""
    for filesystem in ("ext4",) if environment.mode == "quick" else ("ext4", "xfs"):
        with store(environment, filesystem) as below:
            mount = below.mount()
            for seed, kind in enumerate(KINDS, 1):
                label = f"{filesystem}, {kind}"
                case = Case(mount, below.backing, kind, seed)
                try:
                    lock_late(environment, case, label)
                    check_store(environment, case, label)
                    mount.unlock()
                    environment.cell(f"{label}: pages after unlock", case.PAGES, case.count())
                    environment.cell(f"{label}: by the handle from before", case.PAGES,
                                     case.holder.ask("count", case.LENGTH, seed))
                    environment.cell(f"{label}: a later fsync", "works", case.holder.ask("fsync"))
                    environment.cell(f"{label}: late files after unlock", [], late_files(mount.volume))
                    environment.cell(f"{label}: listed after unlock", [], listed(mount))
                finally:
                    case.holder.close()
            mount = environment.remount(mount)
            for seed, kind in enumerate(KINDS, 1):
                if kind != "unlinked":
                    environment.cell(f"{filesystem}, {kind}: after mounting again", Case.PAGES,
                                     count_in(Case.name_of(mount, kind), Case.LENGTH, seed))
            mount.unmount()
            below.check(filesystem)


test_deterministic.time_limit = 1800


def kill(case, _below):
    """kill -9 of the daemon."""
    mount = case.mount
    os.kill(mount.pid, signal.SIGKILL)
    harness.wait_until(lambda: not harness.daemons(mount.path), what="the daemon's end")
    case.holder.close()
    mount.command("unmount", mount.path, ok=False)


def unmount(case, _below):
    """A clean end while locked."""
    case.holder.close()
    harness.wait_until(lambda: not any(case.mount.status()["openHandles"].values()), what="closed handles")
    case.mount.unmount()


def cut(case, below):
    """The disk keeps what was flushed, and any part of the rest."""
    mount = case.mount
    below.disk.order("cut", case.seed)
    mount.crash()
    case.holder.close()
    below.detach()
    below.attach()


def end_while_locked(environment, end, label, filesystem="ext4", data_below=False):
    """The mount ends while late records wait; they are there after the next unlock, once the file is opened."""
    with store(environment, filesystem) as below:
        if data_below:
            # Device key and state file lose power with the volume.
            harness.run("cp", "-a", below.volume.data, below.backing + "/data")
            below.volume.data = below.backing + "/data"
            harness.sync(below.backing)
        mount = below.mount()
        harness.write_file(mount / "beside", harness.pattern(100_000))
        harness.set_class(mount / "beside", "A")
        for seed, kind in enumerate(("class",) if environment.mode == "quick" else ("class", "rename", "linked"), 1):
            name = f"{label}, {kind}"
            case = Case(mount, below.backing, kind, seed)
            try:
                lock_late(environment, case, name, sync=end is not unmount)
                end(case, below)
            finally:
                case.holder.close()
            check_store(environment, case, name)
            mount = below.mount()
            environment.cell(f"{name}: nothing is listed", [], listed(mount))
            environment.cell(f"{name}: pages after mounting and unlocking again", Case.PAGES,
                             count_in(Case.name_of(mount, kind), Case.LENGTH, seed))
            environment.cell(f"{name}: another file", True,
                             harness.read_file(mount / "beside") == harness.pattern(100_000))
            mount.unmount()
            environment.cell(f"{name}: late files in the end", [], late_files(below.volume))
            below.check(name)
            mount = below.mount()
            environment.cell(f"{name}: mounted once more", Case.PAGES,
                             count_in(Case.name_of(mount, kind), Case.LENGTH, seed))
        mount.unmount()


def test_killed_while_locked(environment):
    end_while_locked(environment, kill, "killed")


def test_unmounted_while_locked(environment):
    end_while_locked(environment, unmount, "unmounted")


def test_power_cut_while_locked(environment):
    end_while_locked(environment, cut, "power cut")
    end_while_locked(environment, cut, "power cut, state file too", data_below=True)
    if environment.mode != "quick":
        end_while_locked(environment, cut, "power cut on XFS", "xfs")


def open_together(path, count):
    """What each of so many threads says that open the file in the same moment."""
    said, begin = [None] * count, threading.Barrier(count)

    def one(number):
        begin.wait()
        said[number] = harness.outcome(lambda: os.close(os.open(path, os.O_RDWR if number % 3 == 0 else os.O_RDONLY)))
    threads = [threading.Thread(target=one, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(harness.PATIENCE)
    return said


def test_opened_by_several_programs(environment):
    """After a crash while locked, the file's late records change its size: of programs that open it at once, none gets ESTALE."""
    with store(environment) as below:
        for seed in range(1, 4 if environment.mode == "quick" else 12):
            mount = below.mount()
            case = Case(mount, below.backing, "class", seed)
            try:
                lock_late(environment, case, f"round {seed}")
                kill(case, below)
            finally:
                case.holder.close()
            mount = below.mount()
            path = Case.name_of(mount, "class")
            environment.cell(f"round {seed}: opens", ["works"] * 8, open_together(path, 8))
            environment.cell(f"round {seed}: pages", Case.PAGES, count_in(path, Case.LENGTH, seed))
            os.unlink(path)
            mount.unmount()
        below.check("opened by several")


def test_fsck_applies(environment):
    """What waits in a late file after an unmount while locked is written to its file by fsck as well."""
    with store(environment) as below:
        case = Case(below.mount(), below.backing, "class", 1)
        try:
            lock_late(environment, case, "fsck", sync=False)
            unmount(case, below)
        finally:
            case.holder.close()
        below.check("before it is mounted again")
        environment.cell("late files after fsck", [], late_files(below.volume))
        reader.load()
        opened = reader.unlock(below.volume)
        contents = opened.file(opened.backing_path("class file")).contents()
        environment.cell("the file, by the second reader", True, contents == harness.pattern(Case.LENGTH, 1))
        mount = below.mount()
        environment.cell("the file, on the mount", Case.PAGES, count_in(mount / "class file", Case.LENGTH, 1))
        mount.unmount()


def test_removed_while_locked(environment):
    """Late records of a file that is gone hold up nothing: no late file stays for ever."""
    with store(environment) as below:
        case = Case(below.mount(), below.backing, "unlinked", 1)
        try:
            lock_late(environment, case, "removed")
            unmount(case, below)
        finally:
            case.holder.close()
        environment.cell("there is a late file", 1, len(late_files(below.volume)))
        mount = below.mount()
        environment.cell("state after the unlock", "unlocked", mount.state())
        mount.unmount()
        below.check("removed")
        environment.cell("late files after fsck", [], late_files(below.volume))
        reader.load()
        with open(reader.state_file(below.volume), "rb") as file:
            environment.cell("open locks in the state file", [], reader.load().State(file.read()).open_locks)


def test_many_locks(environment):
    """Locks with late records, each after an unlock, and nothing is left of any. More of them than a state file lists:
    LateTests.moreLocksThanAStateFileLists, and here with --mode full."""
    with store(environment) as below:
        # Else each file would be of class A from the start, as the one was that had its name a moment ago.
        mount = below.mount(options=["no_family_class"])
        for seed in range(1, {"quick": 4, "usual": 16, "full": 70}[environment.mode]):
            case = Case(mount, below.backing, "class", seed)
            try:
                said = case.lock()
                environment.cell(f"{seed}: write and change of class", ("works", "works"), (said["write"], said["class"]))
                environment.cell(f"{seed}: fsync", "works", case.holder.ask("fsync"))
                mount.unlock()
                environment.cell(f"{seed}: pages", case.PAGES, case.count())
            finally:
                case.holder.close()
            os.unlink(case.path)
        environment.cell("late files in the end", [], late_files(mount.volume))
        mount.unmount()
        below.check("many locks")


test_many_locks.time_limit = 1800
for each in (test_killed_while_locked, test_unmounted_while_locked, test_power_cut_while_locked,
             test_opened_by_several_programs):
    each.time_limit = 1800
