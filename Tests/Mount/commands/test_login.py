"""The PAM module: a login unlocks, the last logout locks, a changed password follows, and no login fails or waits long."""

import contextlib
import os
import select
import signal

import harness
from harness import PASSPHRASE, wait_until
from logins import NAME, SERVICE, Login, Session

OTHER = "another passphrase that nobody guesses"


@contextlib.contextmanager
def login(environment, **more):
    made = Login(environment, **more)
    try:
        yield made
    finally:
        made.close()


def test_sessions(environment):
    """The first login mounts; with two sessions the first logout does not lock; the last one does."""
    with login(environment) as ada, Session() as first, Session() as second:
        environment.cell("before", "not mounted", ada.state)
        environment.cell("a wrong password", 7, first.call("authenticate", OTHER))
        environment.cell("first login", (0, 0), first.log_in())
        environment.cell("mounted and unlocked", "unlocked", ada.state)
        environment.cell("second login", (0, 0), second.log_in())
        environment.cell("first logout", (0, "unlocked"), (first.call("close"), ada.state))
        environment.cell("closed twice", (0, "unlocked"), (first.call("close"), ada.state))
        environment.cell("last logout", (0, "locked"), (second.call("close"), ada.state))
        environment.cell("login again", (0, 0, "unlocked"), (*first.log_in(), ada.state))
        environment.cell("opened twice", (0, 0), (first.call("open"), first.call("close")))
        environment.cell("logout again", "locked", ada.state)
        environment.cell("nothing to say", [], ada.said())


def test_killed(environment):
    """A login program that is killed does not keep the volume unlocked for ever."""
    with login(environment) as ada, Session() as first, Session() as second:
        first.log_in()
        first.kill()
        environment.cell("killed", "unlocked", ada.state)
        second.log_in()
        second.call("close")
        environment.cell("the next logout", "locked", ada.state)
        environment.cell("its file", 0o600, os.stat("/run/pam-protectfs/64123.sessions").st_mode & 0o777)


def test_logout_choices(environment):
    """LOGOUT=unmount and keep."""
    with login(environment) as ada, Session() as session:
        for choice, expected in (("unmount", "not mounted"), ("keep", "unlocked"), ("lock", "locked")):
            ada.settings(f"LOGOUT={choice}\n")
            session.log_in()
            session.call("close")
            environment.cell(choice, expected, ada.state)
        environment.cell("nothing to say", [], ada.said())


def test_wrong_passphrase(environment):
    """One clear line in the log; the login goes on."""
    with login(environment, password=OTHER) as ada, Session() as session:
        environment.cell("login", (0, 0), session.log_in(OTHER))
        environment.cell("log", ["unlock of documents: the password of the login is not its passphrase; use protectfs unlock"],
                         ada.said())
        environment.cell("state", "not mounted", ada.state)
        environment.cell("logout", 0, session.call("close"))


def test_changed_password(environment):
    """FOLLOW_PASSWORD: the passphrase changes with the password, also while a login asks for a new one; not without it."""
    with login(environment) as ada:
        for more, expected in (("", "not mounted"), ("FOLLOW_PASSWORD=yes\n", "unlocked")):
            ada.settings("LOGOUT=unmount\n" + more)
            with Session() as session:
                environment.cell(f"{more}login", 0, session.call("authenticate", PASSPHRASE))
                environment.cell(f"{more}change", 0, session.call("change", [PASSPHRASE, OTHER]))
                environment.cell(f"{more}session", (0, 0), (session.call("open"), session.call("close")))
            with Session() as session:
                environment.cell(f"{more}next login", ((0, 0), expected), (session.log_in(OTHER), ada.state))
                session.call("close")
            ada.said()
            with Session() as session:
                # Root is not asked for the old password.
                environment.cell(f"{more}by root", 0, session.call("set", PASSPHRASE))
                environment.cell(f"{more}log", ["the old password is not known, so the volumes keep their passphrases"], ada.said())


def helper(ada, action, *tokens):
    """Runs the login helper as the module does; gives its exit code."""
    text = b"".join(len(token).to_bytes(4, "little") for token in (*tokens, b"")[:2]) + b"".join(tokens)
    with open("/dev/null", "rb+") as null:
        # In place of the descriptors that order helpers and tell their end.
        words = ["sh", "-c", 'exec 3</dev/null 4</dev/null; exec "$@"', "sh", ada.helper, action, harness.binary()]
        return ada.user.run(*words, input=text, text=False, stdout=null, ok=False).returncode


def test_helper(environment):
    """What the helper does with old and new password, and with input that no module sends."""
    with login(environment) as ada:
        change = lambda old, new: helper(ada, "change", old.encode(), new.encode())
        ada.settings("FOLLOW_PASSWORD=no\n")
        change(PASSPHRASE, OTHER)
        helper(ada, "unlock", PASSPHRASE.encode())
        environment.cell("does not follow", "unlocked", ada.state)
        helper(ada, "lock")
        ada.settings("FOLLOW_PASSWORD=yes\n")
        change(PASSPHRASE, OTHER)
        environment.cell("nothing to say", [], ada.said())
        helper(ada, "unlock", PASSPHRASE.encode())
        environment.cell("the old one", ("locked", 1), (ada.state, len(ada.said())))
        helper(ada, "unlock", OTHER.encode())
        environment.cell("the new one", "unlocked", ada.state)
        change(PASSPHRASE, "never")
        environment.cell("not the old one", ["change of documents: the old password is not its passphrase, which stays as it is"],
                         ada.said())
        for name, words in (("no password", ("unlock", b"")), ("two lines", ("unlock", b"a\nb")), ("too long", ("unlock", b"a" * 2000)),
                            ("nothing new", ("change", b"a"))):
            environment.cell(name, 1, helper(ada, *words))


def test_settings(environment):
    """Settings that are wrong or hostile are named in the log, and hold up nothing."""
    with login(environment) as ada, Session() as session:
        folder = f"{ada.home}/.config/protectfs/"
        os.chmod(ada.settings(name="open"), 0o666)
        os.mkfifo(folder + "pipe.conf")
        os.symlink("/dev/zero", folder + "zero.conf")
        ada.settings(name="large", more="#" * 70_000)
        ada.settings(name="relative", more="VOLUME=volume\n")
        ada.settings(name="quoted", more='VOLUME="a" "b"\n')
        ada.settings(name="other", login="no", more="MOUNTPOINT=\n")
        ada.settings(name="strange name")
        # In another place, as people do who keep their settings elsewhere; with quotes and comments.
        os.rename(ada.settings(f'# A comment\n MOUNTPOINT = "{ada.user.path}" \n'), ada.home + "/elsewhere")
        os.symlink(ada.home + "/elsewhere", folder + "documents.conf")
        environment.cell("login", (0, 0, "unlocked"), (*session.log_in(), ada.state))
        environment.cell("log", sorted([
            "unlock of open: others can change its settings; use chmod go-w",
            "unlock of pipe: its settings are not a regular file", "unlock of zero: its settings are not a regular file",
            "unlock of large: its settings are too long", "unlock of relative: VOLUME is not an absolute path",
            "unlock of quoted: a value has quotes or backslashes within"]), sorted(ada.said()))
        environment.cell("logout", (0, "locked"), (session.call("close"), ada.state))


def test_hangs(environment):
    """A program that does not answer: the login waits for its limit, and the next one for its turn in the background."""
    with login(environment) as ada, Session() as first, Session() as second:
        hanging = environment.new_path("hanging")
        harness.write_file(hanging, b"#!/bin/sh\necho $$ >>\"$HOME/hanging\"\nexec sleep 1000\n")
        os.chmod(hanging, 0o755)
        ada.service(options="timeout=1", program=hanging)
        environment.cell("login", (0, 0), first.log_in())
        environment.cell("another login", (0, 0), second.log_in())
        environment.cell("log", ["unlock: not done after 1 s; it continues in the background"] * 2,
                         ada.said())
        environment.cell("logouts", (0, 0), (first.call("close"), second.call("close")))
        # What waits for its turn has nothing of the login program: its terminal closes before the first program ends.
        second.kill()
        select.select([second.process.stdout], [], [], harness.PATIENCE)
        environment.cell("programs at the end of the terminal", 1, len(started(ada)))
        environment.cell("log of the last", ["lock: not done after 1 s; it continues in the background"], ada.said())
        # Each waits for the end of the one before it. The second login has ended meanwhile, so it unlocks nothing.
        for number in range(2):
            wait_until(lambda: len(started(ada)) > number, what=f"program {number}")
            environment.cell(f"before the end of program {number}", number + 1, len(started(ada)))
            os.kill(started(ada)[number], signal.SIGKILL)


def started(ada):
    """The processes that the hanging program has written down."""
    try:
        with open(ada.home + "/hanging", encoding="ascii") as file:
            return [int(line) for line in file if line.endswith("\n")]
    except FileNotFoundError:
        return []


def test_password_is_guarded(environment):
    """Between authentication and session the password is in memory that is locked, in no core dump and in no child; then it is gone."""
    with login(environment), Session() as session:
        environment.cell("before", 0, guarded(session))
        session.call("authenticate", PASSPHRASE)
        environment.cell("kept", 1, guarded(session))
        session.call("authenticate", PASSPHRASE)
        environment.cell("kept once", 1, guarded(session))
        session.call("open")
        environment.cell("gone", 0, guarded(session))


def guarded(session):
    """How many mappings of a process are locked (lo), left out of core dumps (dd) and empty in children (wf)."""
    with open(f"/proc/{session.process.pid}/smaps", encoding="ascii", errors="replace") as file:
        return sum({"lo", "dd", "wf"} <= set(line.split()) for line in file if line.startswith("VmFlags:"))


def test_privileges(environment):
    """The program runs as the user: no group, descriptor, variable or privilege of the login program's."""
    with login(environment) as ada, Session() as session:
        shows = environment.new_path("shows")
        harness.write_file(shows, b"#!/bin/sh\n{ cat /proc/self/status; ls -l /proc/self/fd; env; ps -o sid= $$; } >\"$HOME/shown\"\n"
                           b"cat >\"$HOME/token\"\n")
        os.chmod(shows, 0o755)
        ada.service(program=shows)
        environment.cell("login", (0, 0), session.log_in())
        with open(ada.home + "/shown", encoding="ascii") as file:
            text = file.read()
        lines = dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
        for key in ("Uid", "Gid"):
            environment.cell(key, ["64123"] * 4, lines[key].split())
        environment.cell("groups", ["64123", "64124"], lines["Groups"].split())
        for key in ("CapInh", "CapPrm", "CapEff", "CapAmb", "SigBlk"):
            environment.cell(key, 0, int(lines[key], 16))
        environment.cell("umask", "0077", lines["Umask"])
        names = {line.split("=")[0] for line in text.splitlines() if "=" in line and line[0].isupper()}
        environment.cell("variables", set(), names - {"HOME", "USER", "LOGNAME", "PATH", "LANG", "PWD", "OLDPWD", "SHLVL", "_"})
        descriptors = {line.split(" -> ")[0].split()[-1] for line in text.splitlines() if " -> " in line}
        # The last is the directory that is listed.
        environment.cell("descriptors", set(), descriptors - {"0", "1", "2", "3"})
        environment.cell("a session of its own", True, int(text.splitlines()[-1]) != os.getsid(session.process.pid))
        environment.cell("the password, whole", PASSPHRASE + "\n", open(ada.home + "/token", encoding="ascii").read())


def test_not_for_it(environment):
    """Other services, root, users without a home, and a session of another user than the one with the password."""
    with login(environment) as ada:
        for name, path in (("nobody-home", "/nonexistent"), ("no-home", "")):
            with open("/etc/passwd", "a", encoding="ascii") as file:
                file.write(f"{name}:x:64125:64125::{path}:/bin/sh\n")
        for service in ("sudo", "cron", "systemd-user"):
            ada.service(service)
            with Session(service) as session:
                environment.cell(service, (0, 0, "not mounted"), (*session.log_in(), ada.state))
        for name in ("root", "nobody-home", "no-home"):
            with Session() as session:
                session.call("authenticate", PASSPHRASE)
                environment.cell(f"to {name}", 0, session.call("user", name))
                environment.cell(f"session of {name}", (0, 0), (session.call("open"), session.call("close")))
        with Session(user="root") as session:
            session.call("user", NAME)
            environment.cell("without a password", (0, "not mounted"), (session.call("open"), ada.state))
        # A user without a password whom root becomes is not counted: the end of su locks nothing.
        ada.service("su")
        with Session() as session, Session("su") as switched:
            session.log_in()
            switched.call("open")
            environment.cell("su by root", (0, "unlocked"), (switched.call("close"), ada.state))
            session.call("close")
        environment.cell("sessions are of the services that are named", (0, 0, "locked"), only(ada, "services=login,sshd"))
        environment.cell("named", (0, 0, "unlocked"), only(ada, f"services=login,{SERVICE}"))
        environment.cell("nothing to say", [], ada.said())


def only(ada, options):
    ada.service(options=options + " timeout=60")
    with Session() as session:
        return (*session.log_in(), ada.state)


def test_huge_password(environment):
    """A password longer than PAM takes fails in PAM; the longest one is tried like any other."""
    long = "a" * 600
    with login(environment, password=long[:255]) as ada, Session() as session:
        environment.cell("too long for PAM", True, session.call("authenticate", long) != 0)
        environment.cell("login", (0, 0), session.log_in(long[:255]))
        environment.cell("one line", 1, len(ada.said()))
