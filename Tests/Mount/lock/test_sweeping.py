"""A lock with a store that hangs: it ends at once, reports `sweeping`, and leaves no clean file readable."""

import contextlib
import json
import mmap
import os

import frozen
import harness
import memory
from harness import PAGE, PATIENCE, Watch, in_child, wait_until

COUNT, LENGTH, SWEEPING = 20, 1 << 20, 10


def cached(path, seed):
    """A class A file all of whose pages are in the page cache: its handle and a mapping."""
    harness.write_file(path, harness.pattern(LENGTH, seed))
    handle = os.open(path, os.O_RDWR)
    os.fsync(handle)
    harness.set_class(path, "A")
    mapped = mmap.mmap(handle, LENGTH)
    mapped[:]
    return handle, mapped


def load(mapped):
    """'works' where a page can be read through the mapping, else the signal that ends the reader."""
    return in_child(lambda: mapped[5 * PAGE], seconds=60)


def test_sweeping(environment):
    """One file's pages are on their way to a store that does not answer: everything else is locked, and the state is told."""
    store, files = frozen.LoopStore(environment), []
    holder = watch = None
    try:
        mount = environment.mount(store.volume)
        harness.write_file(mount / "stuck", b"x" * PAGE)
        holder = frozen.Holder(mount / "stuck")
        assert holder.ask("fsync") == "works"
        harness.set_class(mount / "stuck", "A")
        files += [cached(mount / f"clean {number}", number) for number in range(COUNT)]
        environment.cell("[pages before]", [LENGTH // PAGE] * COUNT, [memory.resident(mapped) for _, mapped in files])
        watch = Watch(mount)
        environment.cell("[watch]", {"state": "unlocked"}, watch.next())
        with frozen.freezing(store.backing) as thaw:
            assert holder.ask("write", 0, 4 << 20, 7) == "works"
            # Requests of the kernel are on their way now, and a lock waits for none of them longer than its limit.
            holder.begin("fsync")
            done = mount.command("lock", "--json", mount.path, ok=False)
            environment.cell("[exit code of lock]", SWEEPING, done.returncode)
            try:
                said = json.loads(done.stdout)
            except ValueError:
                said = {}
            said = said[0] if isinstance(said, list) and said else said
            # On a busy machine some of the others may not be done yet; in the end it is the one.
            environment.cell("[lock --json]", ("sweeping", True), (said.get("state"), said.get("files", 0) >= 1))
            wait_for(lambda: not any(memory.resident(mapped) for _, mapped in files))
            # The sweep that comes again after a second queues all of them for a moment: what is judged is one answer.
            status = {}
            wait_for(lambda: status.update(mount.status()) or status.get("sweepingFiles") == 1)
            environment.cell("[status]", ("sweeping", 1), (status.get("state"), status.get("sweepingFiles")))
            environment.cell("[status in words]", True, "sweeping" in mount.command("status", mount.path, ok=False).stdout)
            environment.cell("[attribute]", "works", in_child(lambda: expect_state(mount, "sweeping"), seconds=60))
            environment.cell("[pages of clean files]", [0] * COUNT, [memory.resident(mapped) for _, mapped in files])
            environment.cell("[loads from clean files]", {"SIGBUS"}, {load(mapped) for _, mapped in files})
            environment.cell("[reads of clean files]", {"EACCES"},
                             {in_child(lambda: os.pread(handle, 10, 0), seconds=60) for handle, _ in files})
            environment.cell("[opens]", {"EACCES"}, {in_child(lambda: os.open(mount / name, os.O_RDONLY), seconds=60)
                                                     for name in ("clean 0", "stuck")})
            again = mount.command("lock", mount.path, ok=False)
            environment.cell("[a second lock says so too]", SWEEPING, again.returncode)
            announced = [event(watch), event(watch)]
            environment.cell("[announced]", [("willLock", False), ("sweeping", True)],
                             [(name, bool(count)) for name, count in announced])
            thaw()
        environment.cell("[the fsync goes on]", "works", holder.outcome())
        wait_until(lambda: mount.state() == "locked", what="the state locked")
        if announced[1][0] == "sweeping":
            environment.cell("[announced in the end]", "locked", event(watch)[0])
        environment.cell("[lock when locked]", 0, mount.command("lock", mount.path, ok=False).returncode)
        environment.cell("[status in the end]", "locked", mount.status()["state"])
        mount.unlock()
        environment.cell("[what was stuck]", 1024, holder.ask("count", 4 << 20, 7))
        for number, (_, mapped) in enumerate(files):
            environment.cell(f"[clean {number} after unlock]", True, mapped[:] == harness.pattern(LENGTH, number))
    finally:
        for handle, mapped in files:
            mapped.close()
            os.close(handle)
        if watch:
            watch.close()
        if holder:
            holder.close()
        environment.close()
        store.close()


def wait_for(condition):
    """What comes true while the store is frozen still, if it does: cells judge that."""
    with contextlib.suppress(AssertionError):
        wait_until(condition, PATIENCE / 4)


def event(watch):
    """What is announced next, and of how many files."""
    found = watch.next() or {}
    return found.get("event"), found.get("files")


def expect_state(mount, wanted):
    found = mount.state()
    assert found == wanted, found


def test_unlock_while_sweeping(environment):
    """An unlock need not wait for the end of the sweeping, and nothing is lost by it."""
    store = frozen.LoopStore(environment)
    holder = None
    try:
        mount = environment.mount(store.volume)
        harness.write_file(mount / "stuck", b"x" * PAGE)
        holder = frozen.Holder(mount / "stuck")
        harness.set_class(mount / "stuck", "A")
        for seed in (1, 2, 3):
            assert holder.ask("fsync") == "works"
            with frozen.freezing(store.backing) as thaw:
                assert holder.ask("write", 0, 4 << 20, seed) == "works"
                holder.begin("fsync")
                done = mount.command("lock", mount.path, ok=False)
                environment.cell(f"[{seed}: exit code of lock]", SWEEPING, done.returncode)
                thaw()
                mount.unlock()
            environment.cell(f"[{seed}: state]", "unlocked", mount.state())
            environment.cell(f"[{seed}: fsync]", "works", holder.outcome())
            environment.cell(f"[{seed}: pages]", 1024, holder.ask("count", 4 << 20, seed))
        mount = environment.remount(mount) if not holder.close() else mount
        environment.cell("[after mounting again]", 1024, frozen.count_in(mount / "stuck", 4 << 20, 3))
    finally:
        if holder:
            holder.close()
        environment.close()
        store.close()
