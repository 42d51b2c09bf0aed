"""UIKit's foreground and background: notifications around a lock, and a task that a lock waits for."""

import subprocess

from harness import GRACE, PATIENCE, binary
from talk import Program


def begin_lock(mount, grace):
    return subprocess.Popen([binary(), "lock", "--grace", grace, mount.path], stdin=subprocess.DEVNULL,
                            stdout=subprocess.DEVNULL, env=mount.volume.environment)


def test_foreground(environment):
    mount = environment.mount()
    leaving = ["WillResignActiveNotification background", "DidEnterBackgroundNotification background",
               "ProtectedDataWillBecomeUnavailable background"]
    coming = ["ProtectedDataDidBecomeAvailable active", "WillEnterForegroundNotification active", "sequence true"]
    with Program("porting-state", "foreground", mount.path) as program:
        environment.cell("ready", "ready", program.line())
        environment.cell("a task", ["begin false"], program.ask("begin"))
        lock = begin_lock(mount, GRACE)
        environment.cell("before the lock", leaving, [program.line() for _ in leaving])
        environment.cell("it waits for the task", (None, "unlocked"), (lock.poll(), mount.state()))
        environment.cell("the task ends", ["end false"], program.ask("end"))
        environment.cell("the lock goes on", 0, lock.wait(PATIENCE))
        environment.cell("locked", "locked", mount.state())
        mount.unlock()
        environment.cell("after the unlock", coming, [program.line() for _ in coming])
        program.ask("begin")
        lock = begin_lock(mount, "1")
        environment.cell("a lock that does not wait for ever", leaving + ["expired"],
                         [program.line() for _ in range(4)])
        environment.cell("its end", 0, lock.wait(PATIENCE))
        mount.unlock()
        environment.cell("again", coming, [program.line() for _ in coming])
