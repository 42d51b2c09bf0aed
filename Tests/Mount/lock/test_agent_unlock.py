"""agent.unlock without a question: with a credential, with a recipient's private key, and with the TPM of the machine."""

import os

import tpms
from desktop import LOGIND, SESSION, Workplace, is_locked
from harness import Skip, protectfs, run, wait_until
from keybags import secret_file
from test_agent import GNOME


def test_sources(environment):
    """agent.unlock opens without a question: with a credential of the agent's unit, and with a recipient's private key."""
    with Workplace(environment) as place:
        place.sessions(c1="active")
        credentials = environment.new_path("credentials")
        os.mkdir(credentials, 0o700)
        os.environ["CREDENTIALS_DIRECTORY"] = credentials
        os.environ["HOME"] = environment.new_path("home")
        os.mkdir(os.environ["HOME"])
        mount, other = environment.mount(), environment.mount()
        with open(mount.volume.passphrase_file, "rb") as file:
            make_secret(credentials + "/documents", file.read())
        key = os.environ["HOME"] + "/laptop.key"
        protectfs("recipient", "new", key)
        other.command("slot", "add", "--passphrase-file", other.volume.passphrase_file, "--recipient", key, other.volume.path)
        place.configure(f"agent.unlock = {mount.path}: credential documents\nagent.unlock = {other.path}: recipient-key ~/laptop.key\n")
        logind = place.logind()
        logind.add(SESSION + "c1", LOGIND[0] + ".Session", {"LockedHint": False})
        agent = place.agent()
        for name in ("Lock", "Unlock"):
            logind.signal(LOGIND[0] + ".Session", name, "", [], path=SESSION + "c1")
            state = name.lower() + "ed"
            for each in (mount, other):
                wait_until(lambda each=each, state=state: each.status()["state"] == state, what=f"{each.path}: {state}")
        environment.cell("the agent says both", 2, agent.said().count("unlocked (session)"))


def test_tpm(environment):
    """agent.unlock opens with the TPM of the machine, if the slot needs no PIN."""
    tpms.installed(environment)
    with Workplace(environment) as place:
        place.sessions(c1="active")
        tpm, mount, guarded = tpms.TPM(environment), environment.mount(), environment.mount()
        pin = secret_file(guarded.volume, "pin", "2580")
        for one, words in ((mount, []), (guarded, ["--tpm2-pin-file", pin])):
            one.command("slot", "add", "--tpm2", "--tpm2-device", tpm.device, *words,
                        "--passphrase-file", one.volume.passphrase_file, one.volume.path)
        place.configure(f"agent.unlock = tpm2 {tpm.device}\n")
        logind = place.logind()
        logind.add(SESSION + "c1", LOGIND[0] + ".Session", {"LockedHint": False})
        agent = place.agent()
        logind.signal(LOGIND[0] + ".Session", "Lock", "", [], path=SESSION + "c1")
        for one in (mount, guarded):
            wait_until(lambda one=one: is_locked(one), what="the lock")
        logind.signal(LOGIND[0] + ".Session", "Unlock", "", [], path=SESSION + "c1")
        wait_until(lambda: mount.status()["state"] == "unlocked", what="the unlock")
        wait_until(lambda: "cannot ask for the PIN without a terminal" in agent.said(), what="the refusal")
        environment.cell("a slot that wants a PIN stays closed", True, is_locked(guarded))


def test_waits_for_a_person(environment):
    """An unlock that asks a person is not ended by an event that locks other mounts only."""
    with Workplace(environment) as place:
        place.sessions(c1="active")
        mount, other = environment.mount(), environment.mount()
        started, answer = environment.new_path("started"), environment.new_path("answer")
        ask = f"touch {started}; while ! test -e {answer}; do sleep 0.1; done; cat {mount.volume.passphrase_file}"
        place.configure(f"agent.lock = {mount.path}: session\nagent.lock = {other.path}: screensaver\n"
                        f"agent.unlock = {mount.path}: command {ask}\n")
        logind = place.logind()
        logind.add(SESSION + "c1", LOGIND[0] + ".Session", {"LockedHint": False})
        gnome = place.mock(place.user, GNOME, "/org/gnome/ScreenSaver", "-t", "gnome_screensaver")
        agent = place.agent()
        logind.signal(LOGIND[0] + ".Session", "Lock", "", [], path=SESSION + "c1")
        wait_until(lambda: is_locked(mount), what="the lock")
        logind.signal(LOGIND[0] + ".Session", "Unlock", "", [], path=SESSION + "c1")
        wait_until(lambda: os.path.exists(started), what="the question")
        gnome.call(GNOME, "SetActive", True)
        wait_until(lambda: is_locked(other), what="the lock of the other mount")
        with open(answer, "w", encoding="ascii"):
            pass
        wait_until(lambda: "unlocked (session)" in agent.said() or "was stopped" in agent.said(), what="the answer")
        environment.cell("unlocked", ("unlocked", False), (mount.status()["state"], "was stopped" in agent.said()))


def test_sleep_and_end_while_it_waits(environment):
    """An unlock that asks a person holds up neither a sleep that locks other mounts only, nor the end of the agent."""
    with Workplace(environment) as place:
        place.sessions(c1="active")
        mount, other = environment.mount(), environment.mount()
        started = environment.new_path("started")
        place.configure(f"agent.lock = {mount.path}: session\nagent.lock = {other.path}: sleep\n"
                        f"agent.unlock = {mount.path}: command touch {started}; sleep 1000\n")
        logind = place.logind()
        logind.add(SESSION + "c1", LOGIND[0] + ".Session", {"LockedHint": False})
        agent = place.agent()
        logind.signal(LOGIND[0] + ".Session", "Lock", "", [], path=SESSION + "c1")
        wait_until(lambda: is_locked(mount), what="the lock")
        logind.signal(LOGIND[0] + ".Session", "Unlock", "", [], path=SESSION + "c1")
        wait_until(lambda: os.path.exists(started), what="the question")
        logind.signal(LOGIND[0] + ".Manager", "PrepareForSleep", "b", [True])
        wait_until(lambda: not logind.call(LOGIND[0] + ".Manager", "ListInhibitors"), what="the end of the delay")
        environment.cell("sleep", (True, False, False), (
            is_locked(other), "not every mount was locked" in agent.said(), "was stopped" in agent.said()))
        environment.cell("the agent ends well", 0, agent.end())
        environment.cell("its end", (True, False), (
            "was stopped: the agent ends" in agent.said(), "not every mount was locked" in agent.said()))


def test_no_table_of_mounts(environment):
    """A table of mounts that cannot be read is not an empty one: the agent says that it has locked nothing."""
    if os.geteuid() != 0:
        raise Skip("needs root")
    with Workplace(environment) as place:
        place.sessions(c1="active")
        mount = environment.mount()
        logind = place.logind()
        logind.add(SESSION + "c1", LOGIND[0] + ".Session", {"LockedHint": False})
        notes = place.mock(place.user, "org.freedesktop.Notifications", "/org/freedesktop/Notifications", "-t",
                           "notification_daemon")
        agent = place.agent()
        table = f"/proc/{agent.process.pid}/mountinfo"
        if run("mount", "--bind", f"/proc/{agent.process.pid}/mem", table, ok=False).returncode != 0:
            raise Skip("nothing can be mounted over the table of mounts here")
        try:
            logind.signal(LOGIND[0] + ".Manager", "PrepareForSleep", "b", [True])
            wait_until(lambda: notes.calls("Notify"), what="the notification")
            environment.cell("before sleep", True, "no mount could be locked (sleep): the table of mounts" in agent.said())
        finally:
            run("umount", table)
        logind.signal(LOGIND[0] + ".Session", "Lock", "", [], path=SESSION + "c1")
        wait_until(lambda: is_locked(mount), what="the lock")
        environment.cell("when it can be read again", True, is_locked(mount))


def make_secret(path, text):
    """A file of mode 0400."""
    with open(path, "wb") as file:
        file.write(text)
    os.chmod(path, 0o400)
