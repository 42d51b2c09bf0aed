"""protectfs agent: screen savers, logind, sleep, idle, logout, notifications, and what comes and goes."""

import os
import signal
import time

from control_socket import ask, connect, receive
from desktop import LOGIND, MOCK, SESSION, Workplace, is_locked
from harness import Watch, make_file, protectfs, wait_until
from processes import is_running

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
        # A file of class complete stays open; a lock takes a tenth of a second for that, and nothing here waits out its grace of 5 s.
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
        environment.cell("a screen lock does not wait out the grace, with a file open", True, min(took) < 4)
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
        place.configure("agent.unlock = tpm2\n")
        signal_of("c1", "Unlock")
        wait_until(lambda: "no slot of the volume is for a TPM" in agent.said(), what="the refusal")
        environment.cell("without a slot of a TPM it stays locked", True, is_locked(other))
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
                              ("agent.unlock = maybe\n", "expected no, tpm2, command and a command that prints the passphrase, credential"),
                              ("agent.unlock = recipient-key here\n", "recipient-key and an absolute path"),
                              ("agent.unlock = yes\n", "expected no, tpm2"),
                              ("agent.unlock = tpm2 tabrmd:\n", "expected no, tpm2"),
                              ("agent.unlock = credential\n", "credential and its name"),
                              ("agent.lock = /a/../b: none\nagent.lock = /b: sleep\n", "agent.lock is already in line 1")):
            place.configure(text)
            done = protectfs("config", ok=False)
            environment.cell(f"{text.strip()}: exit code", 2, done.returncode)
            environment.cell(f"{text.strip()}: message", True, mention in done.stderr)
        place.configure("agent.lock = sleep session\nagent.lock = /my point: logout\nagent.unlock = /a b: command echo a: b\n"
                        "agent.unlock = credential mine\nagent.unlock = /c: recipient-key ~/key\nagent.unlock = /d: tpm2\n"
                        "agent.unlock = /e: tpm2 device:/dev/tpmrm1\n")
        said = protectfs("config").stdout
        for line in ("agent.lock    session sleep", "agent.unlock  /a b: command echo a: b", "agent.unlock  credential mine",
                     "agent.unlock  /c: recipient-key ~/key", "agent.unlock  /d: tpm2", "agent.unlock  /e: tpm2 device:/dev/tpmrm1"):
            environment.cell(f"config shows {line}", True, line in said)


def test_mistake(environment):
    """An agent that finds a mistake in the configuration at its start locks everything."""
    with Workplace(environment) as place:
        mount = environment.mount()
        place.configure("agent.lock = none\nagent.lok = none\n")
        gnome = place.mock(place.user, GNOME, "/org/gnome/ScreenSaver", "-t", "gnome_screensaver")
        notes = place.mock(place.user, "org.freedesktop.Notifications", "/org/freedesktop/Notifications", "-t",
                           "notification_daemon")
        agent = place.agent()
        environment.cell("said", True, "agent.lok" in agent.said() and "all events lock all mounts" in agent.said())
        wait_until(lambda: notes.calls("Notify"), what="the notification")
        environment.cell("shown", True, "agent.lok" in notes.calls("Notify")[0][4])
        gnome.call(GNOME, "SetActive", True)
        locked(environment, "locked", mount)
        gnome.call(GNOME, "SetActive", False)
        place.configure("agent.lock = none\n")
        gnome.call(GNOME, "SetActive", True)
        environment.cell("mended: nothing locks", "unlocked", mount.status()["state"])


def test_locked_by_hand(environment):
    """What a person has locked stays locked, also if the agent has locked it before."""
    with Workplace(environment) as place:
        place.sessions(c1="active")
        mount = environment.mount()
        place.configure(f"agent.unlock = command cat {mount.volume.passphrase_file}\n")
        logind = place.logind()
        logind.add(SESSION + "c1", LOGIND[0] + ".Session", {"LockedHint": False})
        agent = place.agent()

        def signal_of_session(name):
            logind.signal(LOGIND[0] + ".Session", name, "", [], path=SESSION + "c1")

        def lock_by_agent(count):
            signal_of_session("Lock")
            wait_until(lambda: agent.said().count("locked (session)") == count, what="the lock by the agent")

        def refused(name, count):
            signal_of_session("Unlock")
            refusal = "the volume has been locked again meanwhile, and stays locked"
            wait_until(lambda: agent.said().count(refusal) == count or not is_locked(mount), what="the refusal")
            environment.cell(name, (True, count), (is_locked(mount), agent.said().count(refusal)))

        lock_by_agent(1)
        mount.unlock()
        mount.lock()
        refused("unlocked and locked by hand", 1)
        mount.unlock()
        lock_by_agent(2)
        mount.lock()
        refused("locked by hand once more", 2)
        mount.unlock()
        lock_by_agent(3)
        # The unit protectfs-lock comes after the agent.
        mount.command("lock", "--reason", "sleep", mount.path)
        signal_of_session("Unlock")
        wait_until(lambda: mount.status()["state"] == "unlocked", what="the unlock")
        # A lock that finds the volume locked by hand does not make it the agent's.
        lock_by_agent(4)
        mount.unlock()
        mount.lock()
        other = environment.mount()
        signal_of_session("Lock")
        wait_until(lambda: is_locked(other), what="the lock of the other mount")
        place.configure(f"agent.unlock = command cat {other.volume.passphrase_file}\n")
        signal_of_session("Unlock")
        wait_until(lambda: other.status()["state"] == "unlocked", what="the unlock of the other mount")
        environment.cell("locked by hand before the agent's lock", True, is_locked(mount))


def test_endless_unlock(environment):
    """A lock ends an unlock that still runs, with everything that its command has started."""
    with Workplace(environment) as place:
        place.sessions(c1="active")
        mount = environment.mount()
        started = environment.new_path("started")
        place.configure(f"agent.unlock = command sleep 1000 & echo $$ $! >{started}.new; mv {started}.new {started}; wait\n")
        logind = place.logind()
        logind.add(SESSION + "c1", LOGIND[0] + ".Session", {"LockedHint": False})
        agent = place.agent()

        def signal_of_session(name):
            logind.signal(LOGIND[0] + ".Session", name, "", [], path=SESSION + "c1")

        signal_of_session("Lock")
        wait_until(lambda: is_locked(mount), what="the lock")
        signal_of_session("Unlock")
        wait_until(lambda: os.path.exists(started), what="the command")
        with open(started, encoding="ascii") as file:
            processes = [int(word) for word in file.read().split()]
        environment.cell("the command runs", [True, True], [is_running(process) for process in processes])
        signal_of_session("Lock")
        wait_until(lambda: "the unlock was stopped" in agent.said(), what="the end of the unlock")
        # What was killed ends a moment later.
        wait_until(lambda: not any(map(is_running, processes)), what="the end of all that the command has started")
        environment.cell("locked", True, is_locked(mount))
        # Another unlock is not held up.
        place.configure(f"agent.unlock = command cat {mount.volume.passphrase_file}\n")
        mount.unlock()
        signal_of_session("Lock")
        wait_until(lambda: is_locked(mount), what="the next lock")
        signal_of_session("Unlock")
        wait_until(lambda: mount.status()["state"] == "unlocked", what="the next unlock")


def test_bus_hangs(environment):
    """A bus that takes connections and does not answer delays neither a logout nor the agent's end."""
    with Workplace(environment) as place:
        place.sessions(c1="active")
        mount = environment.mount()
        os.kill(place.system.process.pid, signal.SIGSTOP)
        try:
            agent = place.agent()
            place.sessions(c1="closing")
            wait_until(lambda: is_locked(mount), what="the lock")
            # The attempt to connect has not ended, so nothing has been said of it.
            environment.cell("locked while the bus hangs", False, "no connection to logind" in agent.said())
            environment.cell("the agent ends meanwhile", (0, False), (agent.end(), "no connection to logind" in agent.said()))
        finally:
            os.kill(place.system.process.pid, signal.SIGCONT)


def test_logind_hangs(environment):
    """A logind that does not answer for a while is asked again, and its signals are followed."""
    with Workplace(environment) as place:
        place.sessions(c1="active")
        mount = environment.mount()
        logind = place.logind()
        logind.add(SESSION + "c1", LOGIND[0] + ".Session", {"LockedHint": True})
        os.kill(logind.process.pid, signal.SIGSTOP)
        try:
            agent = place.agent(logind_answers=False)
            wait_until(lambda: "logind: " in agent.said(), what="a call without an answer")
        finally:
            os.kill(logind.process.pid, signal.SIGCONT)
        locked(environment, "the lock of before is found when logind answers", mount)
        wait_until(lambda: [str(row[1]) for row in logind.call(LOGIND[0] + ".Manager", "ListInhibitors")] == ["protectfs"],
                   what="the delay of sleep")
        environment.cell("the failure is said once", 1, agent.said().count("logind: "))
