"""An application with a delegate, in every state, and one that is started by the name of its delegate."""

import concurrent.futures
import os
import signal

from harness import CLASSES, GRACE, PATIENCE, get_class, read_file
from talk import Program


def application(mount, **more):
    return Program("porting-application", mount / "app", **more)


def ends(environment, state, program):
    """SIGTERM ends it, and its delegate is told."""
    program.process.send_signal(signal.SIGTERM)
    environment.cell(f"[{state}: told of the end]", "terminated", program.line())
    environment.cell(f"[{state}: its end]", 0, program.process.wait(PATIENCE))


def test_three_states(environment):
    """The application is launched in each state, and each of the others comes while it runs."""
    # Another volume of the same user, which stays closed, says nothing about the container of this application.
    environment.mount(unlock=False)
    mount = environment.mount(unlock=False)
    with application(mount) as running:
        environment.cell("[BFU: launched]", ["launched", "log: locked, error 513", "diary closed"],
                         [running.line() for _ in range(3)])
        environment.cell("[BFU: works in the background]", ["false", "note waits", "message 1 received",
                                                            "inbox: locked, error 257", "locked, error 513"],
                         running.ask("available", "note first", "message one two", "read", "log x"))
        mount.unlock()
        environment.cell("[unlocked: told]", "diary open, 1 notes", running.line())
        environment.cell("[unlocked: works]", ["true", "note saved", "one two ", "logged"],
                         running.ask("available", "note second", "read", "log unlocked"))
        ends(environment, "UNL", running)
    mount.lock()
    with application(mount) as running:
        environment.cell("[LCK: launched]", ["launched", "log: logged", "diary closed"],
                         [running.line() for _ in range(3)])
        environment.cell("[LCK: works in the background]", ["false", "note waits", "message 2 received",
                                                            "inbox: locked, error 257", "logged"],
                         running.ask("available", "note third", "message three", "read", "log locked"))
        mount.unlock()
        environment.cell("[unlocked again: told]", "diary open, 3 notes", running.line())
        environment.cell("[unlocked again: reads]", ["one two | three "], running.ask("read"))
        # The lock waits for the delegate, and no longer.
        mount.lock("--grace", GRACE)
        environment.cell("[locked: told]", "diary closed", running.line())
        environment.cell("[locked: a message]", ["message 3 received"], running.ask("message four"))
        ends(environment, "LCK", running)
    mount.unlock()
    with application(mount) as running:
        environment.cell("[UNL: launched]", ["launched", "log: logged", "diary open, 3 notes"],
                         [running.line() for _ in range(3)])
        environment.cell("[UNL: reads]", ["one two | three | four "], running.ask("read"))
        ends(environment, "UNL at last", running)
    home = mount / "app"
    for name, letter in {"Documents/diary.json": "A", "Library/Caches/Inbox/1.txt": "B", "Library/Caches/Inbox/3.txt": "B",
                         "Library/Application Support/launches.log": "C"}.items():
        environment.cell(f"[class of {name}]", CLASSES[letter], get_class(os.path.join(home, name)))
    environment.cell("[notes]", b'["first","second","third"]', read_file(os.path.join(home, "Documents/diary.json")))
    environment.cell("[log]", b"unlocked\nlaunch\nlocked\nlaunch\n",
                     read_file(os.path.join(home, "Library/Application Support/launches.log")))


def test_delegate_by_name(environment):
    """UIApplicationMain with the name of a class, as a file main.swift calls it; the run loop and its timers run."""
    mount = environment.mount()
    with Program("porting-examples", "launch-by-name", mount.path) as running:
        environment.cell("[launched]", ["launched true", "timer"], [running.line(), running.line()])
        ends(environment, "by name", running)


def test_end_straight_after_launch(environment):
    """A signal in the moment after the launch is not lost, on a busy machine as well."""
    mount = environment.mount()

    def outcome(_):
        with Program("porting-examples", "launch-by-name", mount.path) as running:
            running.line()
            running.process.send_signal(signal.SIGTERM)
            lines = [line for line in iter(running.line, None) if line != "timer"]
            return lines, running.process.wait(PATIENCE)

    with concurrent.futures.ThreadPoolExecutor(8) as several:
        outcomes = list(several.map(outcome, range(64)))
    environment.cell("[told of the end]", [], [found for found in outcomes if found != (["terminated"], 0)])
