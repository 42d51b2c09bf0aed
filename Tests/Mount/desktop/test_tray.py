"""The tray: a panel lists it, its menu follows the states, locks, asks for the passphrase, and unlocks."""

import contextlib
import os
import signal

import harness
from desktops import Desktop, Panel, needed
from harness import wait_until

WINDOW = "^Unlock$"


def windows(desktop):
    found = desktop.run("xdotool", "search", "--onlyvisible", "--name", WINDOW, ok=False).stdout.split()
    return found


def answer(desktop, text, before=()):
    """Types into the window that asks, and waits until that window is gone; gives the window's number."""
    wait_until(lambda: set(windows(desktop)) - set(before), what="the window that asks")
    window = windows(desktop)[0]
    desktop.run("xdotool", "windowfocus", "--sync", window)
    desktop.run("xdotool", "type", text)
    desktop.run("xdotool", "key", "Return")


def askers(desktop):
    """PIDs of the processes that ask."""
    program = f"{desktop.shared}/protectfs/desktop/ask_passphrase.py"
    return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if program in arguments(pid)]


def arguments(pid):
    """The command line of a process; empty if it is gone."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
        return os.fsdecode(file.read()).split("\0")
    return []


def has_in_memory(pid, secret):
    """Whether a process has these bytes in its memory."""
    with open(f"/proc/{pid}/maps", encoding="ascii", errors="replace") as maps, open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for line in maps:
            places, permissions = line.split()[:2]
            start, end = (int(part, 16) for part in places.split("-"))
            if "w" in permissions:
                with contextlib.suppress(OSError):
                    memory.seek(start)
                    if secret in memory.read(end - start):
                        return True
    return False


def followers(desktop, mount):
    """PIDs of the children by which this desktop's tray follows a mount."""
    return [pid for pid in harness.daemons(mount.path) if arguments(pid)[:2] == [desktop.programs + "/protectfs", "watch"]]


def all_locked(panel):
    states = [text.rpartition(": ")[2] for _, text, _ in panel.rows() if text and ": " in text]
    return all(state in ("locked", "not unlocked yet") for state in states)


@contextlib.contextmanager
def tray(environment, mount):
    """The desktop, the panel and the running tray."""
    desktop = Desktop(environment, mount.volume.data)
    try:
        panel = Panel(desktop)
        child = desktop.start(desktop.programs + "/protectfs-tray", env=desktop.variables)
        panel.wait(lambda: panel.items, "the item in the panel")
        panel.wait(lambda: panel.of(mount)[1] == "unlocked", "the mount in the menu")
        yield desktop, panel, child
    finally:
        desktop.close()


def test_lock_and_unlock(environment):
    needed("xdotool", library=("Gtk", "4.0"))
    mount = environment.mount()
    harness.make_file(mount / "diary", "A", b"content")
    with tray(environment, mount) as (desktop, panel, child):
        environment.cell("the icon", "protectfs-unlocked", panel.property("IconName"))
        environment.cell("its file", True, os.path.exists(
            f"{desktop.shared}/icons/hicolor/scalable/apps/{panel.property('IconName')}.svg"))
        old = panel.of(mount)[0]["Lock"]
        panel.click(old)
        wait_until(lambda: mount.state() == "locked", what="the lock")
        panel.wait(lambda: panel.of(mount)[1] == "locked", "the state in the menu")
        environment.cell("the file", "EACCES", harness.outcome(harness.read_file, mount / "diary"))
        rows = panel.of(mount)[0]
        environment.cell("the rows", ["Unlock…", "Open folder"], list(rows))
        environment.cell("a number is never used again", False, old in [row[0] for row in panel.rows()])

        panel.click(rows["Unlock…"])
        answer(desktop, "wrong")
        wait_until(lambda: mount.status()["unlockFailures"] == 1, what="the attempt")
        # The window asks again; the first one has ended, and its text with it.
        wait_until(lambda: len(askers(desktop)) == 1 and windows(desktop), what="the second window")
        environment.cell("still locked", "locked", mount.state())
        answer(desktop, harness.PASSPHRASE)
        wait_until(lambda: mount.state() == "unlocked", what="the unlock")
        panel.wait(lambda: panel.of(mount)[1] == "unlocked", "the state in the menu")
        environment.cell("the file, unlocked", b"content", harness.read_file(mount / "diary"))
        environment.cell("the tray never had it", False, has_in_memory(child.pid, harness.PASSPHRASE.encode()))
        wait_until(lambda: not askers(desktop), what="the end of the window")

        mount.lock()
        panel.wait(lambda: panel.of(mount)[1] == "locked", "a lock from elsewhere")
        panel.click(panel.of(mount)[0]["Unlock…"])
        wait_until(lambda: windows(desktop), what="the window")
        desktop.run("xdotool", "windowfocus", "--sync", windows(desktop)[0])
        desktop.run("xdotool", "key", "Escape")
        wait_until(lambda: not askers(desktop), what="the end of the window")
        environment.cell("cancelled", ("locked", 0), (mount.state(), mount.status()["unlockFailures"]))


def test_mounts_come_and_go(environment):
    needed("xdotool", library=("Gtk", "4.0"))
    mount = environment.mount()
    with tray(environment, mount) as (desktop, panel, child):
        second = environment.mount()
        panel.wait(lambda: panel.of(second)[1] == "unlocked", "a second mount")
        # It is not clicked: the user of this test may have other mounts.
        environment.cell("a row for all of them", True, "Lock all" in [text for _, text, _ in panel.rows()])
        panel.click(panel.of(second)[0]["Lock"])
        panel.wait(lambda: panel.of(second)[1] == "locked", "the lock")
        environment.cell("the other one", "unlocked", mount.state())
        environment.cell("one of two is open", "protectfs-unlocked", panel.property("IconName"))
        # A daemon that does not answer may have a volume open: that is not shown as locked.
        second.unlock()
        panel.wait(lambda: panel.of(second)[1] == "unlocked", "the unlock")
        mount.lock()
        panel.wait(lambda: panel.of(mount)[1] == "locked", "the lock of the first one")
        watching = followers(desktop, second)
        os.kill(second.pid, signal.SIGSTOP)
        try:
            for process in watching:
                os.kill(process, signal.SIGKILL)
            panel.wait(lambda: panel.of(second)[1] == "does not answer", "a daemon that does not answer")
            environment.cell("unknown is not locked", "protectfs-unlocked", panel.property("IconName"))
        finally:
            os.kill(second.pid, signal.SIGCONT)
        panel.wait(lambda: panel.of(second)[1] == "unlocked", "an answer")
        second.lock()
        panel.wait(lambda: panel.of(second)[1] == "locked", "the lock of the second one")
        # The user of this test may have other mounts.
        panel.wait(lambda: (panel.property("IconName") == "protectfs-locked") == all_locked(panel), "the locked padlock")
        mount.unlock()
        panel.wait(lambda: panel.of(mount)[1] == "unlocked", "the unlock of the first one")
        second.unmount()
        panel.wait(lambda: panel.of(second)[1] is None, "the end of the second mount")
        mount.unmount()
        panel.wait(lambda: panel.of(mount)[1] is None, "the end of the mount")
        mount = environment.mount(mount.volume, path=mount.path)
        panel.wait(lambda: panel.of(mount)[1] == "unlocked", "the mount that is back")
        environment.cell("one child follows it", 1, len(followers(desktop, mount)))
        other = desktop.start(desktop.programs + "/protectfs-tray", env=desktop.variables)
        environment.cell("a second tray ends", 1, other.wait(harness.PATIENCE))
        os.kill(child.pid, signal.SIGKILL)
        wait_until(lambda: not followers(desktop, mount), what="the end of its children")


def test_quit(environment):
    needed("xdotool", library=("Gtk", "4.0"))
    mount = environment.mount()
    with tray(environment, mount) as (desktop, panel, child):
        panel.click(next(number for number, text, _ in panel.rows() if text == "Quit"))
        environment.cell("the exit code", 0, child.wait(harness.PATIENCE))
        wait_until(lambda: not followers(desktop, mount), what="the end of its children")
        environment.cell("still unlocked", "unlocked", mount.state())
