"""The PAM module: a login unlocks, the last logout locks, a changed password follows, and no login fails or waits long."""

import contextlib
import ctypes
import os
import select
import signal
import time

import harness
from harness import PASSPHRASE, wait_until
from logins import NAME, SERVICE, Login, Session
from processes import is_running

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
    """A program that does not answer: the login waits for its limit, and what comes after it waits in the background."""
    with login(environment) as ada, Session() as first, Session() as second:
        hanging = environment.new_path("hanging")
        harness.write_file(hanging, b"#!/bin/sh\necho $$ >>\"$HOME/hanging\"\nexec sleep 1000\n")
        os.chmod(hanging, 0o755)
        ada.service(options="timeout=1", program=hanging)
        environment.cell("login", (0, 0), first.log_in())
        environment.cell("another login", (0, 0), second.log_in())
        environment.cell("logouts", (0, 0), (first.call("close"), second.call("close")))
        # What waits for its turn has nothing of the login program: its terminal closes before the first program ends.
        second.kill()
        select.select([second.process.stdout], [], [], harness.PATIENCE)
        # The second login has ended meanwhile, so it unlocks nothing. The lock is done at once, though the unlock still runs.
        wait_until(lambda: len(started(ada)) == 2, what="the lock")
        environment.cell("the unlock runs", True, is_running(started(ada)[0]))
        os.kill(started(ada)[1], signal.SIGKILL)
        environment.cell("the second lock waits for the unlock", (2, True), (len(started(ada)), is_running(started(ada)[0])))
        os.kill(started(ada)[0], signal.SIGKILL)
        wait_until(lambda: len(started(ada)) == 3, what="the lock after the unlock")
        os.kill(started(ada)[2], signal.SIGKILL)
        said = ada.said()
        environment.cell("log", ["unlock: not done after 1 s; it continues in the background"] * 2 +
                         ["lock: not done after 1 s; it continues in the background"], [line for line in said if "not done" in line])


def test_one_hangs(environment):
    """A volume that hangs does not keep the others from being locked."""
    with login(environment) as ada, Session() as session:
        program = environment.new_path("program")
        harness.write_file(program, b'#!/bin/sh\ncase "$*" in */stuck*) echo $$ >>"$HOME/hanging"; exec sleep 1000;; esac\n'
                           b'exec ' + harness.binary().encode() + b' "$@"\n')
        os.chmod(program, 0o755)
        ada.service(options="timeout=1", program=program)
        ada.settings(f"MOUNTPOINT={ada.home}/stuck\n", name="stuck")
        environment.cell("login", (0, 0), session.log_in())
        wait_until(lambda: ada.state == "unlocked", what="the unlock")
        wait_until(lambda: started(ada), what="the program that hangs")
        environment.cell("logout", 0, session.call("close"))
        wait_until(lambda: ada.state == "locked", what="the lock")
        environment.cell("the other volume still hangs", True, is_running(started(ada)[0]))
        # The next login unlocks the others, and leaves that one out: its lock comes as soon as it no longer hangs.
        environment.cell("the next login", (0, 0), session.log_in())
        wait_until(lambda: ada.state == "unlocked", what="the next unlock")
        said = []
        wait_until(lambda: said.extend(ada.said()) or [line for line in said if "left out" in line], what="what the log says")
        environment.cell("left out", ["unlock of stuck: left out, because those before it have not ended"],
                         [line for line in said if "left out" in line])
        end_all(ada, 3)


@contextlib.contextmanager
def silent_directory(environment):
    """A FUSE file system that answers nothing, so that every lookup in it hangs until the end."""
    place = environment.new_path("silent")
    os.makedirs(place)
    device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other"
    if ctypes.CDLL(None, use_errno=True).mount(b"silent", place.encode(), b"fuse", 0, options.encode()) != 0:
        raise OSError(ctypes.get_errno(), "mount")
    try:
        yield place
    finally:
        # What hangs gets an error.
        os.close(device)
        harness.run("umount", "-l", place)


def test_settings_hang(environment):
    """Settings on a file system that does not answer keep no other volume from being locked, and no later logout waiting."""
    with login(environment) as ada, silent_directory(environment) as silent:
        ada.service(options="timeout=1")
        # Names on both sides in the directory, as its order is not known.
        for name in ("a", "stuck", "z"):
            os.symlink(silent + "/settings", f"{ada.home}/.config/protectfs/{name}.conf")
        for turn in ("first", "second"):
            with Session() as session:
                environment.cell(f"{turn} login", (0, 0), session.log_in())
                wait_until(lambda: ada.state == "unlocked", what="the unlock")
                environment.cell(f"{turn} logout", 0, session.call("close"))
                begin = time.monotonic()
                wait_until(lambda: ada.state == "locked", what="the lock")
                environment.cell(f"{turn} lock is soon", True, time.monotonic() - begin < 60)


def test_next_waits(environment):
    """While a volume hangs, one more unlock waits for it; others are left out."""
    with login(environment) as ada, Session() as first, Session() as second, Session() as third:
        hanging = environment.new_path("hanging")
        harness.write_file(hanging, b"#!/bin/sh\necho $$ >>\"$HOME/hanging\"\nexec sleep 1000\n")
        os.chmod(hanging, 0o755)
        ada.service(options="timeout=1", program=hanging)
        for session in (first, second, third):
            environment.cell("login", (0, 0), session.log_in())
        said = []
        wait_until(lambda: said.extend(ada.said()) or [line for line in said if "left out" in line], what="what the log says")
        environment.cell("left out", ["unlock of documents: left out, because those before it have not ended"],
                         [line for line in said if "left out" in line])
        environment.cell("one program", 1, len(started(ada)))
        end_all(ada, 2)


def end_all(ada, count):
    """Kills programs that hang, one after another, until there have been so many."""
    for number in range(count):
        wait_until(lambda number=number: len(started(ada)) > number, what=f"program {number}")
        if is_running(started(ada)[number]):
            os.kill(started(ada)[number], signal.SIGKILL)


def test_count_fails(environment):
    """A session that cannot be counted unlocks nothing, as its end would lock nothing."""
    with login(environment) as ada, Session() as session:
        os.makedirs("/run/pam-protectfs/64123.sessions")
        os.chmod("/run/pam-protectfs", 0o700)
        environment.cell("login", (0, 0, "not mounted"), (*session.log_in(), ada.state))
        environment.cell("log", ["cannot count this session, so it unlocks nothing: Is a directory"], ada.said())
        environment.cell("logout", 0, session.call("close"))


def test_file_limit(environment):
    """A limit for the size of files, as pam_limits sets it for a session, does not keep the session from being counted."""
    with login(environment) as ada, Session() as first, Session() as second:
        first.log_in()
        environment.cell("limit", 0, second.call("limit", [0, -1]))
        environment.cell("login", (0, 0), second.log_in())
        environment.cell("counted", 2, records())
        with open(f"/proc/{second.process.pid}/limits", encoding="ascii") as file:
            limits = [line.split()[3:5] for line in file if line.startswith("Max file size")]
        environment.cell("the limit is as before", [["0", "unlimited"]], limits)
        environment.cell("logout", (0, "unlocked", 1), (second.call("close"), ada.state, records()))
        environment.cell("the last logout", (0, "locked", 0), (first.call("close"), ada.state, records()))
        environment.cell("nothing to say", [], ada.said())
        # A program that may not raise the limit is not killed. It may be unable to count the session.
        with Session() as limited:
            limited.call("limit", [0, 0])
            environment.cell("a limit that cannot be raised", (0, 0, 0), (*limited.log_in(), limited.call("close")))


def test_no_proc(environment):
    """A login program that cannot read /proc does not take other sessions for ended ones."""
    with login(environment) as ada, Session() as first, Session() as second:
        first.log_in()
        second.log_in()
        environment.cell("hidden", 0, second.call("hide"))
        environment.cell("logout", (0, "unlocked", 1), (second.call("close"), ada.state, records()))
        environment.cell("the last logout", (0, "locked"), (first.call("close"), ada.state))


def records():
    """How many sessions the module's file counts."""
    with open("/run/pam-protectfs/64123.sessions", "rb") as file:
        text = file.read()
    return sum(any(text[place:place + 24]) for place in range(0, len(text), 24))


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
