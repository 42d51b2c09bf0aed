"""ProtectedData and UIKitCompat on real mounts: state, events, answers to willLock, daemons that end and restart."""

import json
import os
import signal
import subprocess
import time

from harness import GRACE, PATIENCE, binary, get_class, outcome, program, read_file, run, set_class, wait_until
from talk import Program, sockets

WILL_LOCK = f"willLock {float(GRACE)}"


def state(*words, **more):
    return Program("porting-state", *words, **more)


def spawn_lock(mount, grace=GRACE):
    return subprocess.Popen([binary(), "lock", "--json", "--grace", grace, mount.path], text=True,
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=mount.volume.environment)


def test_state(environment):
    mount = environment.mount(unlock=False)
    os.makedirs(mount / "some/where")
    environment.cell("[off a mount]", True, state("state", environment.base).line().startswith("error "))

    def says(path=None):
        with state("state", path or mount / "some/where/not there yet") as asked:
            return asked.line()

    environment.cell("[BFU]", "before-first-unlock false", says())
    mount.unlock()
    environment.cell("[UNL]", "unlocked true", says())
    mount.lock()
    environment.cell("[LCK]", "locked false", says())


def test_events(environment):
    mount = environment.mount(unlock=False)
    with state("events", mount.path) as events, state("events", mount / "x") as second, \
            state("notifications", mount.path) as notes:
        environment.cell("[connected]", "connected before-first-unlock", events.line())
        assert second.line() == "connected before-first-unlock" and notes.line() == "ready"
        mount.unlock()
        environment.cell("[first unlock]", ["willUnlock", "firstUnlock"], [events.line(), events.line()])
        # The notification's observer returns when a line is typed; the lock waits for it.
        locking = spawn_lock(mount)
        environment.cell("[will lock]", WILL_LOCK, events.line())
        expected = [f"ProtectedData{name}" for name in
                    ("WillBecomeAvailable", "FirstUnlock", "DidBecomeAvailable", "WillBecomeUnavailable")]
        environment.cell("[notifications]", expected, [notes.line() for _ in range(4)])
        environment.cell("[waits for the observer]", None, locking.poll())
        environment.cell("[still available]", "unlocked", mount.state())
        notes.say()
        environment.cell("[lock]", 0, locking.wait(PATIENCE))
        environment.cell("[locked]", ["locked", "ProtectedDataDidBecomeUnavailable"], [events.line(), notes.line()])
        mount.unlock()
        environment.cell("[unlocked]", ["willUnlock", "unlocked"], [events.line(), events.line()])
        environment.cell("[the second hears the same]",
                         ["willUnlock", "firstUnlock", WILL_LOCK, "locked", "willUnlock", "unlocked"],
                         [second.line() for _ in range(6)])


def test_answers(environment):
    """The grace is GRACE: a lock that ends within PATIENCE has been answered."""
    mount = environment.mount()
    with state("answer", mount.path) as answer, state("before", mount.path) as before, \
            state("events", mount.path) as silent:
        for one in (answer, before, silent):
            assert one.line() == "connected unlocked"
        locking = spawn_lock(mount)
        environment.cell("[told]", WILL_LOCK, answer.line())
        environment.cell("[function called]", "closing", before.line())
        answer.say()
        time.sleep(0.3)
        environment.cell("[one of two has answered]", (None, "unlocked"), (locking.poll(), mount.state()))
        before.say()
        environment.cell("[both have]", 0, locking.wait(PATIENCE))
        environment.cell("[locked]", "locked", answer.line())
        mount.unlock()
    # Of two in one process one leaves in the middle; the lock waits for the other, and for no more than it.
    for first in ("leave", "answer"):
        with state("leave", mount.path) as two:
            assert sorted(two.line() for _ in range(2)) == ["leaving connected unlocked", "staying connected unlocked"]
            locking = spawn_lock(mount)
            assert sorted(two.line() for _ in range(2)) == [f"leaving {WILL_LOCK}", f"staying {WILL_LOCK}"]
            two.say(first)
            environment.cell(f"[{first} first]", "left" if first == "leave" else "answered", two.line())
            time.sleep(0.3)
            environment.cell(f"[{first} first: the other is waited for]", (None, "unlocked"),
                             (locking.poll(), mount.state()))
            two.say("answer" if first == "leave" else "leave")
            environment.cell(f"[{first} first: then the lock goes on]", 0, locking.wait(PATIENCE))
            mount.unlock()
    # Who leaves in the middle is not waited for, whether it only stops listening or dies.
    with state("abandon", mount.path) as abandon, state("answer", mount.path) as dies:
        assert abandon.line() == dies.line() == "connected unlocked"
        locking = spawn_lock(mount)
        assert abandon.line() == dies.line() == WILL_LOCK
        dies.process.kill()
        environment.cell("[nobody listens any more]", 0, locking.wait(PATIENCE))
        mount.unlock()
    # An observer that does not answer costs the grace and no more; one that does not ask costs nothing.
    with state("answer", mount.path) as late, state("events", mount.path) as stopped:
        assert late.line() == stopped.line() == "connected unlocked"
        os.kill(stopped.process.pid, signal.SIGSTOP)
        started = time.monotonic()
        mount.lock("--grace", "1")
        environment.cell("[grace over]", True, time.monotonic() - started >= 1)
        environment.cell("[locked all the same]", "locked", mount.state())
        mount.unlock()
        late.process.kill()
        late.process.wait()
        environment.cell("[a stopped listener]", 0, spawn_lock(mount).wait(PATIENCE))


def test_observers_on_the_main_queue(environment):
    """In a program whose main is asynchronous; the lock ends within PATIENCE because they have returned."""
    mount = environment.mount()
    for form, prefix in (("main", "ProtectedData"), ("application", "UIApplicationProtectedData")):
        with state(form, mount.path) as observing:
            assert observing.line() == "ready"
            for number in range(2):
                locking = spawn_lock(mount)
                environment.cell(f"[{form}: told, {number}]", f"{prefix}WillBecomeUnavailable", observing.line())
                environment.cell(f"[{form}: the lock goes on, {number}]", 0, locking.wait(PATIENCE))
                mount.unlock()
                environment.cell(f"[{form}: and of the unlock, {number}]", f"{prefix}DidBecomeAvailable", observing.line())


def test_waiting(environment):
    mount = environment.mount(unlock=False)
    with state("available", mount.path) as available, state("first", mount.path) as first, \
            state("cancel", mount.path) as cancel:
        environment.cell("[cancelled]", "true", cancel.line())
        environment.cell("[both wait]", (None, None), (available.line(0.3), first.line(0)))
        mount.unlock()
        environment.cell("[unlocked]", ("available", "first unlock"), (available.line(), first.line()))
        environment.cell("[they end]", (0, 0), (available.process.wait(PATIENCE), first.process.wait(PATIENCE)))
    mount.lock()
    with state("available", mount.path) as available, state("first", mount.path) as first:
        environment.cell("[first unlock has been]", "first unlock", first.line())
        environment.cell("[locked: waits]", None, available.line(0.3))
        mount.unlock()
        environment.cell("[unlocked again]", "available", available.line())


def test_daemon_goes_and_comes(environment):
    mount = environment.mount()
    with state("events", mount.path) as events, state("available", mount.path) as early:
        assert events.line() == "connected unlocked" and early.line() == "available"
        mount.unmount()
        environment.cell("[unmounted]", "disconnected", events.line())
        with state("state", mount.path) as asked:
            environment.cell("[nothing is there]", True, asked.line().startswith("error "))
        for unlock in (True, False):
            again = environment.mount(mount.volume, path=mount.path, unlock=unlock)
            environment.cell(f"[mounted again, {unlock}]",
                             "connected unlocked" if unlock else "connected before-first-unlock", events.line())
            if unlock:
                again.unmount()
                assert events.line() == "disconnected"
        with state("available", mount.path) as waiting:
            environment.cell("[waits]", None, waiting.line(0.3))
            # Killed, not ended: the socket stays behind, and the mount as a dead one.
            os.kill(again.pid, signal.SIGKILL)
            environment.cell("[killed]", "disconnected", events.line())
            wait_until(lambda: outcome(os.statvfs, mount.path) in ("ENOTCONN", "ECONNABORTED"), what="the end")
            environment.cell("[waits for the next]", None, waiting.line(0.3))
            again.unmount()
            again = environment.mount(mount.volume, path=mount.path, unlock=False)
            environment.cell("[mounted after that]", "connected before-first-unlock", events.line())
            again.unlock()
            environment.cell("[unlocked at last]", "available", waiting.line())
            environment.cell("[events go on]", ["willUnlock", "firstUnlock"], [events.line(), events.line()])


def test_many_observers(environment):
    mount = environment.mount()
    with state("many", mount.path, 500) as many:
        def figures():
            many.say()
            cost, threads, *heard = map(int, many.line().split())
            return cost, threads, heard

        wait_until(lambda: figures()[2][0] == 500, what="500 observers")
        # No thread per observer: those of the pools are as many as there are processors, and some.
        environment.cell("[threads]", True, figures()[1] < 30 + 2 * (os.cpu_count() or 1))
        environment.cell("[one connection]", 1, sockets(many.process.pid))
        # No polling: waiting costs nothing.
        before = figures()[0]
        time.sleep(2)
        environment.cell("[idle]", True, figures()[0] - before < 100)
        mount.lock("--grace", GRACE)  # all answer: else the command would not end in its time
        wait_until(lambda: figures()[2] == [500, 500, 500], what="what all have heard")
        # While nothing is mounted neither.
        mount.unmount()
        wait_until(lambda: figures()[2][2] == 1000, what="disconnected")
        before = figures()[0]
        time.sleep(2)
        environment.cell("[idle without a mount]", True, figures()[0] - before < 100)


def test_other_user(environment):
    if os.geteuid() != 0:
        environment.skip("[another user]", "needs root")
        return
    mount = environment.mount(options=["allow_other"])
    os.chmod(mount.path, 0o755)
    identity = {"user": 1234, "group": 1234, "extra_groups": []}
    probe = os.path.join(environment.base, "probe")
    with open(program("porting-state"), "rb") as source, open(probe, "wb") as target:
        target.write(source.read())
    os.chmod(probe, 0o755)

    def says(word):
        done = run(probe, word, mount.path, ok=False, **identity)
        return done.stdout.strip() or done.stderr
    environment.cell("[state]", "unlocked true", says("state"))
    environment.cell("[no events, and it is said]", True, "belongs to another user" in says("events"))


def test_downloader(environment):
    """Class B: begun while unlocked, it goes on through the lock; once closed the file waits for the unlock."""
    mount = environment.mount()
    # The volume's default is another class: it is the program that says which one the file has.
    path = mount / "film"
    with Program("downloader", path) as downloader:
        downloader.say("before")
        environment.cell("[unlocked]", "received 7", downloader.line())
        environment.cell("[class]", "completeUnlessOpen", get_class(path))
        mount.lock()
        downloader.say("while locked")
        environment.cell("[locked]", "received 20", downloader.line())
        environment.cell("[others cannot open it]", "EACCES", outcome(read_file, path))
        downloader.process.stdin.close()
        downloader.process.stdin = open(os.devnull, "wb")
        environment.cell("[closed]", "complete; it can be opened after the next unlock", downloader.line())
        environment.cell("[waits]", None, downloader.line(0.3))
        mount.unlock()
        environment.cell("[after the unlock]", "opened: 20 bytes", downloader.line())
        environment.cell("[its end]", 0, downloader.process.wait(PATIENCE))
    environment.cell("[whole]", b"before\nwhile locked\n", read_file(path))


def edited(environment, *words):
    """Text typed before, during and after a lock is in the document, whole and in order."""
    mount = environment.mount()
    path = mount / "document"
    set_class(mount.path, "A")
    lines = [f"line {number:05}" for number in range(3000)]
    with Program("document-editor", *words, path) as editor:
        assert editor.line() == "open"
        for line in lines[:1000]:
            editor.say(line)
        for start in (1000, 2000):
            locking = spawn_lock(mount)
            for line in lines[start:start + 500]:
                editor.say(line)
            environment.cell(f"[{start}: answered]", 0, locking.wait(PATIENCE))
            environment.cell(f"[{start}: closed]", "closed", editor.line())
            environment.cell(f"[{start}: no handle is cut off]", 0, json.loads(locking.stdout.read())["cutOff"])
            environment.cell(f"[{start}: closed to all]", "EACCES", outcome(read_file, path))
            for line in lines[start + 500:start + 1000]:
                editor.say(line)
            mount.unlock()
            environment.cell(f"[{start}: open]", "open", editor.line())
        editor.process.stdin.close()
        editor.process.wait(PATIENCE)
        editor.process.stdin = open(os.devnull, "wb")
    environment.cell("[class]", "complete", get_class(path))
    environment.cell("[no byte lost]", True, read_file(path).decode().split("\n") == lines + [""])


def test_document_editor_with_notifications(environment):
    edited(environment)


def test_document_editor_with_delegate(environment):
    edited(environment, "--delegate")
