"""Commands at the same time: lock, unlock, re-encryption and unmount."""

import collections
import os
import threading
import time

import hammer
from harness import CLASSES, PAGE, get_class, outcome, pattern, read_file, set_class, wait_until, write_file


def together(*actions):
    """Runs all at once; gives their results in order."""
    results = [None] * len(actions)

    def work(index, action):
        try:
            results[index] = action()
        except Exception as error:  # noqa: shown in the cell
            results[index] = repr(error)
    threads = [threading.Thread(target=work, args=pair) for pair in enumerate(actions)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def test_lock_and_unlock_at_once(environment):
    mount = environment.mount()
    content = pattern(5 * PAGE)
    write_file(mount / "file", content)
    set_class(mount / "file", "A")
    handle = os.open(mount / "file", os.O_RDWR)
    gang = hammer.Gang()
    for _ in range(2):
        gang.start(lambda: hammer.reader(gang, handle, content, True), nice=5)
    codes = collections.Counter()

    def some(*words):
        for _ in range(8):
            codes[mount.command(*words, ok=False).returncode] += 1
    unlock = ("unlock", "--recovery-file", mount.volume.code_file, mount.path)
    lock = ("lock", mount.path)
    together(*[lambda: some(*lock)] * 3, *[lambda: some(*unlock)] * 3)
    environment.cell("[complaints]", [], gang.finish())
    # 6: busy, an unlock that met a lock.
    environment.cell("[exit codes]", [], [code for code in codes if code not in (0, 6)])
    mount.unlock()
    environment.cell("[unlocked in the end]", ("unlocked", True), (mount.state(), os.pread(handle, 5 * PAGE, 0) == content))
    mount.lock()
    environment.cell("[locked in the end]", ("locked", "EACCES"), (mount.state(), outcome(os.pread, handle, 1, 0)))
    os.close(handle)


def test_class_set_while_locking(environment):
    """Re-encryption that meets a lock: done, or refused with the file as it was."""
    mount = environment.mount()
    for attempt in range(4):
        content = pattern(24 << 20, seed=attempt)
        path = mount / f"file{attempt}"
        write_file(path, content)
        def change():
            return mount.command("class", "set", "complete", path, ok=False).returncode
        def lock():
            time.sleep(0.02 * attempt)
            return mount.command("lock", mount.path, ok=False).returncode
        changed, locked = together(change, lock)
        environment.cell(f"[{attempt}: lock succeeds]", 0, locked)
        mount.unlock()
        found = get_class(path)
        environment.cell(f"[{attempt}: class]", True, found == CLASSES["A"] if changed == 0 else found in CLASSES.values())
        environment.cell(f"[{attempt}: content]", True, read_file(path) == content)
        environment.cell(f"[{attempt}: nothing left beside it]", sorted(f"file{n}" for n in range(attempt + 1)),
                         sorted(os.listdir(mount.path)))


def test_unmount_while_locking(environment):
    for delay in (0, 0.03, 0.1):
        mount = environment.mount()
        content = pattern(64 * PAGE)
        write_file(mount / "file", content)
        set_class(mount / "file", "A")
        def unmount():
            time.sleep(delay)
            return mount.command("unmount", mount.path, ok=False).returncode
        together(lambda: mount.command("lock", mount.path, ok=False).returncode, unmount)
        if mount.is_mounted:
            mount.unmount()
        wait_until(lambda: not mount.is_mounted, what="the unmounting")
        mount = environment.mount(mount.volume, path=mount.path)
        environment.cell(f"[{delay} s: content]", True, read_file(mount / "file") == content)
        mount.unmount()


def test_open_races_with_lock(environment):
    """Opens in flight while the volume is locked: none yields a handle that reads afterwards."""
    mount = environment.mount()
    paths = []
    for number in range(40):
        paths.append(mount / f"file{number}")
        write_file(paths[-1], pattern(PAGE, seed=number))
        set_class(paths[-1], "AB"[number % 2])
    for _ in range(10):
        handles, done = collections.deque(), threading.Event()

        def opener(number):
            while not done.is_set():
                for path in paths[number::4]:
                    try:
                        handles.append((path, os.open(path, os.O_RDWR)))
                    except PermissionError:
                        continue
                    # Those of the last moments are of interest, not how many there were.
                    if len(handles) > 1000:
                        os.close(handles.popleft()[1])
        openers = [threading.Thread(target=opener, args=(number,)) for number in range(4)]
        for thread in openers:
            thread.start()
        time.sleep(0.01)
        mount.lock()
        done.set()
        for thread in openers:
            thread.join()
        # Class B handles that were opened before the lock go on; class A handles do not, whenever they were opened.
        wrong = [path for path, handle in handles
                 if int(path.rsplit("file", 1)[1]) % 2 == 0 and outcome(os.pread, handle, 10, 0) != "EACCES"]
        environment.cell("[no class A handle reads]", [], wrong[:3])
        environment.cell("[no fresh handle]", {"EACCES"}, {outcome(os.open, path, os.O_RDONLY) for path in paths})
        refused = [path for path, handle in handles
                   if int(path.rsplit("file", 1)[1]) % 2 == 1 and outcome(os.pread, handle, 10, 0) != "works"]
        environment.cell("[class B handles read]", [], refused[:3])
        for _, handle in handles:
            os.close(handle)
        mount.unlock()
