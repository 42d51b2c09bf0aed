"""Locking under load: nothing lost, nothing left in the page cache, no hang, no leak."""

import json
import mmap
import os
import threading
import time

import hammer
from harness import GRACE, PAGE, PATIENCE, Watch, in_child, outcome, pattern, read_file, set_class, wait_until, write_file
from memory import SleepingPage, resident
from subscriber import Subscriber

# The exit code of a lock that the kernel's pages outlive.
SWEEPING = 10
CONSTANT = pattern(300_000, seed=5)


def size_of(pid):
    """(resident KiB, number of descriptors) of a process; only root may count those of one that is not dumpable."""
    with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
        resident_size = next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))
    return resident_size, len(os.listdir(f"/proc/{pid}/fd")) if os.geteuid() == 0 else 0


def moved_into_a(path):
    """A handle that was opened under class C, and so has cached pages; then its file becomes class A."""
    handle = os.open(path, os.O_RDWR)
    set_class(path, "A")
    return handle


def test_hammer(environment):
    mount = environment.mount()
    cycles = 2000 if environment.mode == "full" else 12
    gang = hammer.Gang()
    everything, held = [], []

    def opened(path):
        held.append(os.open(path, os.O_RDWR))
        return held[-1]

    def slots(name, count, size):
        made = hammer.Slots(mount / name, count, size)
        made.prepare()
        everything.append(made)
        return made

    # Class A by direct handles: whole pages, and parts of pages shared by several writers.
    pages, parts = slots("a-pages", 16, PAGE), slots("a-parts", 64, 512)
    for each in (pages, parts):
        set_class(each.path, "A")
        for share in range(3):
            handle = opened(each.path)
            mine = range(share, each.count, 3)
            gang.start(lambda: hammer.writer(gang, each, mine, handle, True), nice=5 + 5 * share)
    # Class A by cached handles, all on one file, niced so that the kernel takes them off the processor in mid-write.
    cached_pages, cached_parts = slots("c-a-pages", 16, PAGE), slots("c-a-parts", 64, 512)
    mapped = slots("c-a-mapped", 32, 512)
    for each in (cached_pages, cached_parts):
        handles = [opened(each.path) for _ in range(3)] + [moved_into_a(each.path)]
        held.append(handles[-1])
        for share, handle in enumerate(handles):
            mine = range(share, each.count, 4)
            gang.start(lambda: hammer.writer(gang, each, mine, handle, True), nice=19)
    handle = moved_into_a(mapped.path)
    held.append(handle)
    for share in range(2):
        mine = range(share, mapped.count, 2)
        gang.start_mapped(lambda: hammer.mapped_writer(gang, mapped, mine, handle), nice=5 + 14 * share)
    # Classes B and C are not disturbed.
    for name, letter in (("b", "B"), ("c", "C")):
        each = slots(name, 32, 1024)
        set_class(each.path, letter)
        handle = opened(each.path)
        gang.start(lambda: hammer.writer(gang, each, range(each.count), handle, False), nice=10)
    # Readers.
    for letter in "ABC":
        path = mount / f"constant-{letter}"
        write_file(path, CONSTANT)
        set_class(path, letter)
        handle = opened(path)
        gang.start(lambda: hammer.reader(gang, handle, CONSTANT, letter == "A"), nice=5)
        gang.start(lambda: hammer.opener(gang, path, CONSTANT, letter in "AB"), nice=5)
        gang.start_mapped(lambda: hammer.mapped_reader(gang, handle, CONSTANT), nice=5)
    for _ in range(2):
        gang.start(lambda: hammer.hog(gang), nice=10)

    before = None
    started = time.monotonic()
    slowest = swept = 0
    try:
        for cycle in range(cycles):
            begun = time.monotonic()
            # A niced writer that has no processor may hold a page for longer than a lock waits: told as what it is.
            code = mount.command("lock", mount.path, ok=False).returncode
            slowest = max(slowest, time.monotonic() - begun)
            assert code in (0, SWEEPING), code
            swept += code == SWEEPING
            mount.command("wait", "--locked", mount.path)
            assert mount.state() == "locked"
            if cycle % 4 == 0:
                time.sleep(0.03)
            mount.unlock()
            time.sleep(0.02)
            if cycle == min(20, cycles // 2):
                before = size_of(mount.pid)
        elapsed = time.monotonic() - started
        # However rarely the niced ones have had a processor until now.
        wait_until(lambda: all(each.total > cycles for each in everything), 3 * PATIENCE, "as many writes of each as locks")
    finally:
        complaints = gang.finish()
    after = size_of(mount.pid)
    print(f"        {cycles} cycles in {elapsed:.1f} s, slowest lock {slowest:.2f} s, {swept} of them swept on, writes told successful: "
          + ", ".join(f"{os.path.basename(each.path)} {each.total}" for each in everything)
          + f"; fsyncs that told of a late write: {gang.told.value}; daemon {before} → {after} (KiB, descriptors)", flush=True)
    environment.cell("[complaints]", [], complaints[:10])
    for each in everything:
        environment.cell(f"[{os.path.basename(each.path)}: every byte]", [], each.check()[:5])
    environment.cell("[no descriptor leaks]", True, after[1] <= before[1] + 20)
    environment.cell("[no memory leaks]", True, after[0] <= before[0] + 16 * 1024)
    # A niced writer that holds the inode's lock while others have the processor is waited for, but not for ever.
    environment.cell("[every lock within its limit]", True, slowest < PATIENCE / 2)
    for handle in held:
        os.close(handle)
    # The same after another mount: it is on the disk, not only in a cache.
    mount = environment.remount(mount)
    for each in everything:
        environment.cell(f"[{os.path.basename(each.path)}: after mounting again]", [], each.check()[:5])


test_hammer.time_limit = 1200


def test_writer_asleep_in_write(environment):
    """A writer sleeps inside write(2) while the volume is locked; its late page must neither stay nor be lost silently."""
    for kind in ("direct", "cached"):
        sleeper = SleepingPage()
        mount = environment.mount()
        path = mount / "file"
        old, new = pattern(4 * PAGE, seed=1), pattern(PAGE, seed=2)
        write_file(path, old)
        if kind == "direct":
            set_class(path, "A")
            handle = os.open(path, os.O_RDWR)
        else:
            handle = moved_into_a(path)
        memory = mmap.mmap(handle, 4 * PAGE)
        results = []
        thread = threading.Thread(target=lambda: results.append(outcome(sleeper.write_to, handle, PAGE)))
        thread.start()
        sleeper.wait_for_sleeper()
        environment.cell(f"[{kind}: lock does not wait for ever]", 0, mount.lock().returncode)
        environment.cell(f"[{kind}: state]", "locked", mount.state())
        sleeper.fill(new)
        thread.join(PATIENCE)
        environment.cell(f"[{kind}: the write returned]", 1, len(results))
        told = results[0] if results else None
        synced = outcome(os.fsync, handle)
        try:
            wait_until(lambda: resident(memory) == 0, what="the late page's eviction")
            gone = True
        except AssertionError:
            gone = False
        environment.cell(f"[{kind}: the late page is gone]", True, gone)
        # Until then it is the program's own late page that the cache would give, never an older one.
        environment.cell(f"[{kind}: read while locked]", "EACCES", outcome(os.pread, handle, 10, PAGE))
        environment.cell(f"[{kind}: mapped load]", "SIGBUS", in_child(lambda: memory[PAGE]))
        mount.unlock()
        found = os.pread(handle, 4 * PAGE, 0)
        arrived = found == old[:PAGE] + new + old[2 * PAGE:]
        environment.cell(f"[{kind}: content is the old or the new]", True, found == old or arrived)
        environment.cell(f"[{kind}: not lost without a word (write {told}, fsync {synced})]", True,
                         arrived or told != "works" or synced != "works")
        memory.close()
        os.close(handle)
        mount.unmount()


def test_page_cache(environment):
    mount = environment.mount()
    content = pattern(64 * PAGE, seed=6)
    held = {}
    for name, letter, cached in [("direct", "A", False), ("moved", "A", True), ("closed-b", "B", False),
                                 ("open-b", "B", False), ("c", "C", False), ("d", "D", False)]:
        path = mount / name
        write_file(path, content)
        if cached:
            handle = moved_into_a(path)
        else:
            set_class(path, letter)
            handle = os.open(path, os.O_RDWR)
        memory = mmap.mmap(handle, len(content))
        memory[:]
        memory[0] = memory[0]
        held[name] = (handle, memory)
    environment.cell("[pages are there before]", {name: 64 for name in held},
                     {name: resident(memory) for name, (_, memory) in held.items()})
    # A mapping of a closed class B file would hold it open: let it go, and look with another one after unlock.
    handle, memory = held.pop("closed-b")
    memory.close()
    os.close(handle)
    mount.lock()
    wanted = {"direct": 0, "moved": 0, "open-b": 64, "c": 64, "d": 64}
    environment.cell("[pages after lock]", wanted, {name: resident(memory) for name, (_, memory) in held.items()})
    for name in ("direct", "moved"):
        handle, memory = held[name]
        environment.cell(f"[{name}: pread]", "EACCES", outcome(os.pread, handle, PAGE, 0))
        environment.cell(f"[{name}: load]", "SIGBUS", in_child(lambda: memory[5 * PAGE]))
        environment.cell(f"[{name}: no page came back]", 0, resident(memory))
        # mlock(2) of a page that cannot be had tries again for ever; it can be interrupted, and is slowed down meanwhile.
        environment.cell(f"[{name}: mlock]", True, in_child(lambda: lock_memory(memory), seconds=1) != "works")
        environment.cell(f"[{name}: no page came back by mlock]", 0, resident(memory))
    mount.unlock()
    for name, (handle, memory) in held.items():
        environment.cell(f"[{name}: again after unlock]", True, memory[:] == content and os.pread(handle, len(content), 0) == content)
        memory.close()
        os.close(handle)
    environment.cell("[closed-b: content]", True, read_file(mount / "closed-b") == content)


def lock_memory(memory):
    import ctypes
    import memory as tools
    if tools.libc.mlock(ctypes.c_void_p(tools.address_of(memory)), ctypes.c_size_t(len(memory))) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def test_size_of_an_open_handle(environment):
    """The kernel keeps sizes: SEEK_END is refused by the first call too, whatever the program did with the handle before."""
    mount = environment.mount()
    before = {"nothing": lambda handle: None, "read": lambda handle: os.read(handle, 10), "fstat": os.fstat,
              "write": lambda handle: os.write(handle, b"y"), "seek": lambda handle: os.lseek(handle, 0, os.SEEK_END)}
    handles = {}
    for name, act in before.items():
        write_file(mount / name, b"x" * 5000)
        set_class(mount / name, "A")
        handles[name] = os.open(mount / name, os.O_RDWR)
        act(handles[name])
    mount.lock()
    for name, handle in handles.items():
        environment.cell(f"[after {name}]", "EACCES", outcome(os.lseek, handle, 0, os.SEEK_END))
        environment.cell(f"[after {name}: the size itself is told]", 5000, os.fstat(handle).st_size)
        environment.cell(f"[after {name} and that]", "EACCES", outcome(os.lseek, handle, 0, os.SEEK_END))
    mount.unlock()
    for name, handle in handles.items():
        environment.cell(f"[{name}: unlocked]", 5000, os.lseek(handle, 0, os.SEEK_END))
        os.close(handle)


def test_many_open_handles(environment):
    mount = environment.mount()
    handles = []
    for number in range(300):
        write_file(mount / f"file{number}", b"")
        set_class(mount / f"file{number}", "A")
        handles.append(os.open(mount / f"file{number}", os.O_RDWR))
        os.pwrite(handles[-1], b"%d" % number, 0)
    done = mount.lock()
    environment.cell("[reports how many handles it cut off]", True, "300" in done.stdout)
    environment.cell("[all of them]", {"EACCES"}, {outcome(os.pread, handle, 10, 0) for handle in handles})
    mount.unlock()
    environment.cell("[all of them again]", True,
                     all(os.pread(handle, 10, 0) == b"%d" % number for number, handle in enumerate(handles)))
    for handle in handles:
        os.close(handle)


def test_dirty_pages_reach_the_disk(environment):
    """Mapped and cached writes just before the lock are there afterwards, whatever came between."""
    mount = environment.mount()
    for rounds in range(12):
        kind = ("opened as C", "opened as A", "unlinked", "two names")[rounds % 4]
        path = mount / f"file{rounds}"
        write_file(path, bytes(32 * PAGE))
        if kind == "opened as A":
            set_class(path, "A")
            handle = os.open(path, os.O_RDWR)
        else:
            handle = moved_into_a(path)
        if kind == "two names":
            os.link(path, path + ".second")
            os.unlink(path)
        memory = mmap.mmap(handle, 32 * PAGE)
        content = pattern(32 * PAGE, seed=rounds)
        memory[:16 * PAGE] = content[:16 * PAGE]
        written = outcome(os.pwrite, handle, content[16 * PAGE:], 16 * PAGE)
        if kind == "unlinked":
            os.unlink(path)
        mount.lock()
        environment.cell(f"[{kind} {rounds}: page cache]", 0, resident(memory))
        environment.cell(f"[{kind} {rounds}: load]", "SIGBUS", in_child(lambda: memory[3 * PAGE]))
        mount.unlock()
        environment.cell(f"[{kind} {rounds}: content]", ("works", True),
                         (written, os.pread(handle, 32 * PAGE, 0) == content))
        environment.cell(f"[{kind} {rounds}: mapped content]", True, memory[:] == content)
        memory.close()
        os.close(handle)


def test_lock_when_locked(environment):
    mount = environment.mount(unlock=False)
    environment.cell("[lock before first unlock]", 0, mount.command("lock", mount.path, ok=False).returncode)
    environment.cell("[state]", "before-first-unlock", mount.state())
    mount.unlock()
    mount.lock()
    environment.cell("[lock when locked]", 0, mount.command("lock", mount.path, ok=False).returncode)
    environment.cell("[unlock]", 0, mount.command("unlock", "--recovery-file", mount.volume.code_file, mount.path,
                                                  ok=False).returncode)
    environment.cell("[unlock when unlocked]", 0, mount.command(
        "unlock", "--recovery-file", mount.volume.code_file, mount.path, ok=False).returncode)


def test_many_files_under_few_descriptors(environment):
    """The lock walks every class A inode that the kernel knows, far more than the daemon may hold open."""
    mount = environment.mount()
    os.mkdir(mount / "many")
    set_class(mount / "many", "A")
    count = 500 if environment.mode == "quick" else 3000
    for number in range(count):
        write_file(mount / f"many/{number}", b"%d" % number)
        read_file(mount / f"many/{number}")
    mount.lock()
    refused = [outcome(os.open, mount / f"many/{number}", os.O_RDONLY) for number in range(count)]
    environment.cell("[all closed]", {"EACCES"}, set(refused))
    environment.cell("[all listed]", count, len(os.listdir(mount / "many")))
    mount.unlock()
    environment.cell("[all open]", True,
                     all(read_file(mount / f"many/{number}") == b"%d" % number for number in range(count)))


def test_events(environment):
    mount = environment.mount(unlock=False)
    watch = Watch(mount)
    environment.cell("[state at the beginning]", {"state": "before-first-unlock"}, watch.next())
    mount.unlock()
    mount.lock()
    mount.unlock()
    environment.cell("[order of events]", ["willUnlock", "firstUnlock", "willLock", "locked", "willUnlock", "unlocked"],
                     [watch.next()["event"] for _ in range(6)])
    environment.cell("[nothing more]", None, watch.next(0.5))
    watch.close()


def test_grace(environment):
    """During the grace everything is open; the lock waits until every waiting subscriber has answered, and no longer."""
    mount = environment.mount()
    write_file(mount / "file", b"content")
    set_class(mount / "file", "A")
    handle = os.open(mount / "file", os.O_RDWR)

    # A lock that waited for the end of its grace would be given up by the harness.
    environment.cell("[nobody asked: no wait]", 0, mount.lock("--grace", GRACE).returncode)
    mount.unlock()

    listener, patient = Subscriber(mount, False), Subscriber(mount, True)
    environment.cell("[state at subscription]", "unlocked", patient.state)
    locker = threading.Thread(target=lambda: mount.lock("--grace", GRACE))
    locker.start()
    event = patient.receive()
    environment.cell("[announced]", "willLock", event["event"])
    environment.cell("[announced to who does not wait]", "willLock", listener.receive()["event"])
    time.sleep(0.5)
    environment.cell("[open during the grace]", ("works", "unlocked"), (outcome(os.pread, handle, 7, 0), mount.state()))
    environment.cell("[written during the grace]", "works", outcome(os.pwrite, handle, b"CONTENT", 0))
    patient.send({"request": "done", "id": event["id"]})
    environment.cell("[locked once done]", "locked", patient.receive()["event"])
    locker.join(PATIENCE)
    environment.cell("[as soon as all were done]", False, locker.is_alive())
    environment.cell("[closed]", ("EACCES", "locked"), (outcome(os.pread, handle, 7, 0), mount.state()))
    mount.unlock()
    environment.cell("[written during the grace, after unlock]", b"CONTENT", os.pread(handle, 7, 0))

    # One client that never answers, and one that goes away.
    begun = time.monotonic()
    mount.lock("--grace", "1")
    environment.cell("[the grace runs out]", True, time.monotonic() - begun >= 1)
    mount.unlock()
    patient.close()
    environment.cell("[one who left is not waited for]", 0, mount.lock("--grace", GRACE).returncode)
    listener.close()
    os.close(handle)


def test_overtaken(environment):
    """A lock that waits for its grace ends when another one has locked, and does not lock again after an unlock."""
    mount = environment.mount()
    patient = Subscriber(mount, True)
    ended = []
    locker = threading.Thread(target=lambda: ended.append(mount.lock("--json", "--grace", GRACE)))
    locker.start()
    patient.receive()
    mount.lock("--grace", "0")
    locker.join(PATIENCE)
    environment.cell("[ends with the other lock]", False, locker.is_alive())
    told = json.loads(ended[0].stdout) if ended else {}
    environment.cell("[has done nothing itself]", (True, "locked"), (told.get("wasLocked"), told.get("state")))
    # Not even if the answer of a subscriber comes later.
    mount.unlock()
    time.sleep(0.5)
    environment.cell("[stays unlocked]", "unlocked", mount.state())
    patient.close()
