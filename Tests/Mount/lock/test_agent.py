"""protectfs agent: screen savers, logind, sleep, idle, logout, notifications, and what comes and goes."""

import os
import time

from control_socket import ask, connect, receive
from desktop import LOGIND, MOCK, SESSION, Workplace, is_locked
from harness import Watch, make_file, protectfs, wait_until

SAVER = "org.freedesktop.ScreenSaver"
GNOME = "org.gnome.ScreenSaver"


def saver(place, service, path):
    mock = place.mock(place.user, service, path, service, path, service)
    mock.call("org.freedesktop.DBus.Mock", "AddMethod", service, "GetActive", "", "b", "ret = getattr(self, 'active', False)")
    return mock


def locked(environment, name, mount):
    """Counts a cell once the mount is locked, and unlocks it."""
    wait_until(lambda: is_locked(mount), what=f"the lock: {name}")
    environment.cell(name, True, True)
    mount.unlock()


def test_screen_savers(environment):
    with Workplace(environment) as place:
        place.configure(f"agent.lock = {environment.base}/music: none\n")
        mount, music = environment.mount(), environment.mount(path=environment.base + "/music")
        gnome = place.mock(place.user, GNOME, "/org/gnome/ScreenSaver", "-t", "gnome_screensaver")
        kde = saver(place, SAVER, "/ScreenSaver")
        notes = place.mock(place.user, "org.freedesktop.Notifications", "/org/freedesktop/Notifications", "-t",
                           "notification_daemon")
        place.agent()
        # A file of class complete stays open; a lock takes less than a second for that.
        path = mount / "open"
        make_file(path, "A", b"secret")
        handle = os.open(path, os.O_RDWR)
        watch = Watch(mount)
        watch.next()
        took = []
        # A machine may be busy for a while.
        for attempt in range(3):
            started = time.monotonic()
            gnome.call(GNOME, "SetActive", True)
            while watch.next()["event"] != "locked":
                pass
            took.append(time.monotonic() - started)
            if attempt < 2:
                mount.unlock()
                while watch.next()["event"] != "unlocked":
                    pass
        watch.close()
        environment.cell("a screen lock locks within a second, with a file open", True, min(took) < 1)
        print("a screen lock took", *(f"{one * 1000:.0f} ms" for one in took))
        wait_until(lambda: notes.calls("Notify"), what="the notification")
        name, replaced, icon, summary, text, actions, hints, timeout = notes.calls("Notify")[0]
        environment.cell("the notification", ("protectfs", 0, f"{mount.path} is locked", "1 open file is closed until unlock.", 1),
                         (name, replaced, summary, text, hints["urgency"]))
        environment.cell("a mount of which the configuration says so stays unlocked", "unlocked", music.status()["state"])
        os.close(handle)
        mount.unlock()
        gnome.call(GNOME, "SetActive", False)
        kde.signal(SAVER, "ActiveChanged", "b", [True])
        locked(environment, "the screen saver of another desktop", mount)
        environment.cell("no file was open, so there is no more notification", 3, len(notes.calls("Notify")))
        # The files are read for each event.
        place.configure(f"agent.lock = none\nagent.lock = {environment.base}/music: screensaver sleep\n")
        kde.signal(SAVER, "ActiveChanged", "b", [True])
        locked(environment, "the configuration is read anew", music)
        environment.cell("it is for each mount", "unlocked", mount.status()["state"])


def test_sleep_and_logind(environment):
    with Workplace(environment) as place:
        place.sessions(c1="active", c2="online")
        mount = environment.mount()
        secret = mount.volume.passphrase_file
        logind = place.logind()
        for name in ("c1", "c2", "c9"):
            logind.add(SESSION + name, LOGIND[0] + ".Session", {"LockedHint": False})
        logind.add(f"{LOGIND[1]}/user/{os.geteuid()}", LOGIND[0] + ".User", {"IdleHint": False})
        agent = place.agent()

        def signal_of(session, name):
            logind.signal(LOGIND[0] + ".Session", name, "", [], path=SESSION + session)

        def inhibitors():
            return [tuple(str(word) for word in row[:4]) for row in logind.call(LOGIND[0] + ".Manager", "ListInhibitors")]

        held = [("sleep", "protectfs", "Protected volumes are locked", "delay")]
        environment.cell("sleep waits for the agent", held, inhibitors())
        signal_of("c9", "Lock")
        signal_of("c2", "Lock")
        locked(environment, "a lock of one's own session", mount)
        environment.cell("and not of another user's", 1, agent.said().count("locked (session)"))
        # Sleep: locked first, then logind may go on, and the next sleep waits again.
        logind.signal(LOGIND[0] + ".Manager", "PrepareForSleep", "b", [True])
        wait_until(lambda: not inhibitors(), what="the end of the delay")
        environment.cell("locked before the sleep", True, is_locked(mount))
        logind.signal(LOGIND[0] + ".Manager", "PrepareForSleep", "b", [False])
        wait_until(lambda: inhibitors() == held, what="the next delay")
        # Unlock, as far as the configuration says.
        place.configure(f"agent.unlock = {mount.path}: command cat {secret}\n")
        signal_of("c1", "Unlock")
        wait_until(lambda: mount.status()["state"] == "unlocked", what="the unlock")
        mount.lock()
        signal_of("c1", "Unlock")
        other = environment.mount()
        signal_of("c1", "Lock")
        wait_until(lambda: is_locked(other), what="the lock")
        environment.cell("what a person has locked stays locked", True, is_locked(mount))
        place.configure("agent.unlock = yes\n")
        signal_of("c1", "Unlock")
        wait_until(lambda: "cannot ask for the passphrase without a terminal" in agent.said(), what="the refusal")
        environment.cell("without a slot that needs no answer it stays locked", True, is_locked(other))
        # logind is restarted.
        other.unlock()
        logind.stop()
        logind = place.logind()
        logind.add(SESSION + "c1", LOGIND[0] + ".Session", {"LockedHint": False})
        wait_until(lambda: inhibitors() == held, what="the delay after a restart of logind")
        signal_of("c1", "Lock")
        locked(environment, "after a restart of logind", other)


def test_sleep_after_other_locks(environment):
    """Sleep has its own short grace, though other events have asked for a lock that waits long for a program."""
    with Workplace(environment) as place:
        place.sessions(c1="active")
        place.configure("lock.grace = 240\n")
        mount = environment.mount()
        logind = place.logind()
        logind.add(SESSION + "c1", LOGIND[0] + ".Session", {"LockedHint": False})
        gnome = place.mock(place.user, GNOME, "/org/gnome/ScreenSaver", "-t", "gnome_screensaver")
        place.agent()
        program = connect(mount)
        assert ask(program, {"request": "subscribe", "wait": True})["ok"]
        # A desktop that locks the screen says so in three ways.
        logind.signal(LOGIND[0] + ".Session", "Lock", "", [], path=SESSION + "c1")
        logind.call(MOCK, "UpdateProperties", LOGIND[0] + ".Session", {"LockedHint": True}, path=SESSION + "c1")
        gnome.call(GNOME, "SetActive", True)
        environment.cell("the program is asked to wait", ("willLock", 240), announced(program))
        for _ in range(20):
            logind.signal(LOGIND[0] + ".Session", "Lock", "", [], path=SESSION + "c1")
        logind.signal(LOGIND[0] + ".Manager", "PrepareForSleep", "b", [True])
        environment.cell("then less, before the sleep", ("willLock", 2), announced(program))
        wait_until(lambda: is_locked(mount), what="the lock before the sleep")
        environment.cell("locked before the sleep", True, is_locked(mount))
        program.close()


def announced(program):
    """The next event of the control socket, and how long it lets a program wait."""
    event = receive(program)
    return event["event"], event["grace"]


def test_idle(environment):
    with Workplace(environment) as place:
        place.sessions(c1="active")
        mount, never = environment.mount(), environment.mount()
        place.configure(f"agent.idle = {mount.path}: 1s\n")
        logind = place.logind()
        user = f"{LOGIND[1]}/user/{os.geteuid()}"
        now = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        import dbus
        logind.add(user, LOGIND[0] + ".User", {"IdleHint": False, "IdleSinceHintMonotonic": dbus.UInt64(now)})
        place.agent()
        logind.call("org.freedesktop.DBus.Mock", "UpdateProperties", LOGIND[0] + ".User", {"IdleHint": True},
                    path=user)
        locked(environment, "after a second without input", mount)
        environment.cell("a mount without agent.idle stays unlocked", "unlocked", never.status()["state"])


def test_logout(environment):
    with Workplace(environment) as place:
        place.sessions(c1="active", c2="active")
        mount = environment.mount()
        agent = place.agent()
        # Programs of the session go on, so its last state is closing.
        place.sessions(c1="closing", c2="active")
        place.sessions(c1="closing", c2="closing")
        locked(environment, "the last session ends", mount)
        environment.cell("the first one that ends locks nothing", 1, agent.said().count("locked (logout)"))
        environment.cell("the agent ends well", 0, agent.end())
        environment.cell("its end locks", True, is_locked(mount))


def test_nothing_is_there(environment):
    """Without buses, and with some that come late or are restarted; mounts that come, go, and have died."""
    with Workplace(environment) as place:
        place.user.stop()
        place.system.stop()
        mount = environment.mount()
        agent = place.agent()
        place.user.start()
        place.system.start()
        gnome = place.mock(place.user, GNOME, "/org/gnome/ScreenSaver", "-t", "gnome_screensaver")
        # The agent may not have connected yet; then it asks.
        gnome.call(GNOME, "SetActive", True)
        locked(environment, "a bus that comes late", mount)
        gnome.stop()
        place.user.stop()
        place.user.start()
        gnome = place.mock(place.user, GNOME, "/org/gnome/ScreenSaver", "-t", "gnome_screensaver")
        gnome.call(GNOME, "SetActive", True)
        locked(environment, "a bus that is restarted", mount)
        dead = environment.mount()
        os.kill(dead.pid, 19)
        try:
            gnome.call(GNOME, "SetActive", True)
            locked(environment, "a daemon that hangs hinders no other lock", mount)
        finally:
            os.kill(dead.pid, 18)
        wait_until(lambda: is_locked(dead), what="the lock of the daemon that goes on")
        dead.unmount()
        mount.unmount()
        new = environment.mount()
        gnome.call(GNOME, "SetActive", True)
        locked(environment, "a new mount", new)
        environment.cell("the agent still runs", None, agent.process.poll())


def test_configuration(environment):
    with Workplace(environment) as place:
        for text, mention in (("agent.lock = sometimes\n", "expected none, or one or more of session, screensaver, sleep and logout"),
                              ("agent.lock = /a: \n", "expected none"),
                              ("agent.idle = ~/a: soon\n", "expected a duration"),
                              ("agent.unlock = maybe\n", "expected no, yes, or the word command"),
                              ("agent.lock = /a/../b: none\nagent.lock = /b: sleep\n", "agent.lock is already in line 1")):
            place.configure(text)
            done = protectfs("config", ok=False)
            environment.cell(f"{text.strip()}: exit code", 2, done.returncode)
            environment.cell(f"{text.strip()}: message", True, mention in done.stderr)
            environment.cell(f"{text.strip()}: the agent", 2, protectfs("agent", ok=False).returncode)
        place.configure("agent.lock = sleep session\nagent.lock = /my point: logout\nagent.unlock = /a b: command echo a: b\n")
        said = protectfs("config").stdout
        for line in ("agent.lock    session sleep", "agent.unlock  /a b: command echo a: b"):
            environment.cell(f"config shows {line}", True, line in said)
