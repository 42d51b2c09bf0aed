"""Leaks that need no key: names in the log, commands in the process list, copies in the guard."""

import contextlib
import os
import shutil
import socket
import subprocess

import harness
import scan
from foreground import Foreground
from harness import outcome, read_file, set_class, write_file
from namespaces import own_devices, only_own_mounts
from users import OrdinaryUser

MARK = "telling"


class SystemLog:
    """The socket /dev/log, in a /dev of this test's own; keeps what is sent there."""

    def __init__(self, environment):
        own_devices(environment)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self.socket.bind("/dev/log")
        os.chmod("/dev/log", 0o666)
        self.text = ""

    def read(self):
        """Everything so far."""
        with contextlib.suppress(BlockingIOError):
            while True:
                self.text += self.socket.recv(1 << 16).decode(errors="replace") + "\n"
        return self.text

    def close(self):
        self.socket.close()


def fill(mount):
    """Files of every class below names that tell something; their paths by class."""
    place = mount / f"{MARK} directory"
    os.mkdir(place)
    paths = {}
    for letter in "ABCD":
        paths[letter] = os.path.join(place, f"{MARK} file {letter}")
        write_file(paths[letter], b"content")
        set_class(paths[letter], letter)
    script = os.path.join(place, f"{MARK}.sh")
    write_file(script, f"#!/bin/sh\ncat '{paths['A']}'\nexit 0\n".encode())
    os.chmod(script, 0o755)
    set_class(script, "D")
    return place, paths, script


def be_refused(mount, place, paths, script, handle):
    """Everything that a locked volume refuses and writes down."""
    for letter in "AB":
        assert outcome(read_file, paths[letter]) == "EACCES"
        assert outcome(os.truncate, paths[letter], 1) == "EACCES"
        assert outcome(set_class, paths[letter], "D") == "EACCES"
    assert outcome(os.pread, handle, 5, 0) == "EACCES"
    assert outcome(os.pwrite, handle, b"x", 0) == "EACCES"
    outcome(write_file, os.path.join(place, f"{MARK} new"), b"x")
    done = harness.run(script)
    assert "Permission denied" in done.stderr
    mount.command("class", "set", "complete", paths["B"], ok=False)


def damage(volume):
    """Gives an entry of the directory a name that does not decrypt."""
    for directory, _, files in os.walk(volume.path):
        if directory == volume.path:
            continue
        for name in files:
            if not name.startswith(".protectfs"):
                os.rename(os.path.join(directory, name), os.path.join(directory, "A" * 40))
                put_beside = os.path.join(directory, MARK + " by mistake.txt")
                with open(put_beside, "w", encoding="utf-8") as file:
                    file.write("not encrypted")
                return


def test_no_names_in_the_system_log(environment):
    """A refusal is logged with the inode number, which `find -inum` takes, and nothing in the log is a name."""
    with contextlib.closing(SystemLog(environment)) as log:
        mount = environment.mount()
        place, paths, script = fill(mount)
        number = os.stat(paths["A"]).st_ino
        with open(paths["A"], "r+b", buffering=0) as file:
            mount.lock()
            be_refused(mount, place, paths, script, file.fileno())
        mount.unlock()
        harness.wait_until(lambda: f"refused to open inode {number}, process" in log.read(),
                           what="the line of the refusal")
        found = harness.run("find", mount.path, "-inum", number).stdout.strip()
        environment.cell("the number leads to the file", paths["A"], found)
        mount.unmount()
        damage(mount.volume)
        mount = environment.mount(mount.volume, path=mount.path)
        outcome(os.listdir, place)
        harness.wait_until(lambda: "does not decrypt" in log.read(), what="the line of the damage")
        mount.unmount()
        lines = [line for line in log.read().splitlines() if MARK in line]
        environment.cell("no line has a name", [], lines)


def test_names_in_the_foreground(environment):
    """Standard error may be the journal's: names are there only where --log-names asks for them."""
    volume = environment.volume()
    mount = harness.Mount(volume, environment.new_path("mount"))
    os.mkdir(mount.path)
    credential = ["--recovery-file", volume.code_file]
    for words in ([], ["--log-names"]):
        with Foreground(environment, volume, *credential, *words, path=mount.path) as mount:
            path = mount / f"{MARK} file{len(words)}"
            write_file(path, b"x")
            set_class(path, "A")
            mount.lock()
            assert outcome(read_file, path) == "EACCES"
            harness.wait_until(lambda: "refused to open" in mount.said(), what="the line of the refusal")
        environment.cell(f"{words}: a name in the log", bool(words), MARK in mount.said())
    done = mount.command("mount", "--log-names", *credential, volume.path, mount.path, ok=False)
    environment.cell("--log-names without --foreground", (2, True), (done.returncode, "--foreground" in done.stderr))


def arguments(pid):
    return read_file(f"/proc/{pid}/cmdline").decode().split("\0")


def test_commands_are_hidden(environment):
    """The text of --passphrase-command may hold a secret: nobody reads it in the list of processes."""
    volume = environment.volume()
    mount = harness.Mount(volume, environment.new_path("mount"))
    os.mkdir(mount.path)
    command = f"cat {volume.passphrase_file} # {MARK}"
    for label, words in {"one word": [f"--passphrase-command={command}"],
                         "two words": ["--passphrase-command", command]}.items():
        with Foreground(environment, volume, *words, path=mount.path) as served:
            seen = arguments(served.process.pid)
            environment.cell(f"{label}, foreground: hidden", False, any(MARK in word for word in seen))
            environment.cell(f"{label}, foreground: what ps shows", ["mount", "--foreground", volume.path, mount.path],
                             [word for word in seen[1:-1] if "--pass" not in word and not word.startswith("*")])
        mount.command("mount", *words, volume.path, mount.path)
        environment.mounts.append(mount)
        seen = arguments(mount.pid)
        environment.cell(f"{label}: hidden", False, any(MARK in word for word in seen))
        environment.cell(f"{label}: what ps shows", ["protectfs", "mount", "--started-by-mount", volume.path, mount.path],
                         seen[:-1])
        mount.lock()
        fifo = environment.new_path("fifo")
        os.mkfifo(fifo)
        words = [word.replace(volume.passphrase_file, fifo) for word in words]
        asking = subprocess.Popen([harness.binary(), "unlock", *words, mount.path], stdin=subprocess.DEVNULL,
                                  env=volume.environment)
        with open(fifo, "wb") as line:
            environment.cell(f"{label}, unlock: hidden", False, any(MARK in word for word in arguments(asking.pid)))
            line.write(read_file(volume.passphrase_file))
        environment.cell(f"{label}, unlock: works", 0, asking.wait(harness.PATIENCE))
        mount.unmount()


def has_guard(pid):
    for child in scan.guards(pid):
        # It may have ended meanwhile.
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if read_file(f"/proc/{child}/comm").strip() == b"pfs-guard":
                return True
    return False


def test_guard_before_the_secret(environment):
    """The guard is there before the daemon has a passphrase, so no copy of one is in it."""
    volume = environment.volume()
    fifo = environment.new_path("fifo")
    os.mkfifo(fifo)
    mount = Foreground(environment, volume, "--passphrase-command", f"cat {fifo}")
    environment.mounts.append(mount)
    with open(fifo, "wb") as line:
        # The guard names itself after the fork.
        harness.wait_until(lambda: has_guard(mount.process.pid), what="the guard")
        line.write(read_file(volume.passphrase_file))
    mount.wait()
    mount.unmount()
    mount.process.wait(harness.PATIENCE)

    told, telling = os.pipe()
    secret, sending = os.pipe()
    daemon = os.fork()
    if daemon == 0:
        try:
            copies = [os.dup2(end, number) for end, number in ((telling, 30), (secret, 31))]
            os.closerange(3, 30)
            os.closerange(32, 4096)
            for number, end in enumerate(copies, 3):
                os.dup2(end, number)
            os.execve(harness.binary(), ["protectfs", "mount", "--started-by-mount", volume.path, mount.path],
                      volume.environment)
        finally:
            os._exit(127)
    os.close(telling)
    os.close(secret)
    harness.wait_until(lambda: has_guard(daemon), what="a guard before the secret is sent")
    os.write(sending, b"-p" + harness.PASSPHRASE.encode())
    os.close(sending)
    environment.cell("in the background", b"ready\n", os.read(told, 100))
    environment.mounts.append(mount)
    mount.unmount()
    os.waitpid(daemon, 0)


SQUATTER = 64001


def own_places(environment):
    """Has /tmp and /run/user empty but for what the tests need, in a mount namespace of this test's own."""
    only_own_mounts()
    place = environment.new_path("tmp")
    os.mkdir(place)
    harness.run("mount", "-t", "tmpfs", "-o", "mode=1777", "none", place)
    # The checkout may be in /tmp as well, and the program elsewhere in it.
    for kept in (os.path.dirname(environment.base), harness.REPOSITORY, os.path.dirname(harness.binary())):
        if kept.startswith("/tmp/") and not os.path.exists(place + kept[4:]):
            os.makedirs(place + kept[4:])
            harness.run("mount", "--rbind", kept, place + kept[4:])
    harness.run("mount", "--move", place, "/tmp")
    os.makedirs("/run/user", exist_ok=True)
    harness.run("mount", "-t", "tmpfs", "-o", "mode=755", "none", "/run/user")


@contextlib.contextmanager
def directory_of(user, path):
    """A directory of this user, for as long as the test needs it."""
    os.mkdir(path, 0o700)
    try:
        os.chown(path, user, user)
        yield path
    finally:
        shutil.rmtree(path)


def device_of(path):
    return next(row[0] for row in harness.mount_table() if row[1] == path)


def state_as(user):
    """The state of the user's mount, which root may not look into."""
    look = f"import os; print(os.getxattr({user.path!r}, 'user.protectfs.state').decode())"
    return user.run("/usr/bin/python3", "-c", look).stdout.strip()


def give_home(environment, number, home):
    """In this test's namespace the account has this home directory."""
    accounts = environment.new_path("passwd")
    with open("/etc/passwd", encoding="utf-8") as file:
        lines = [line for line in file if line.split(":")[2] != str(number)]
    with open(accounts, "w", encoding="utf-8") as file:
        file.writelines([*lines, f"someone:x:{number}:{number}::{home}:/bin/sh\n"])
    os.chmod(accounts, 0o644)
    harness.run("mount", "--bind", accounts, "/etc/passwd")


def test_places_of_sockets(environment):
    """A mount is reached by every program of its user, whatever its environment says, also after the last logout. No other user
    can have made the directory of its socket."""
    own_places(environment)
    user = OrdinaryUser(environment)
    number = os.stat(user.volume).st_uid
    home = user.variables["HOME"]
    give_home(environment, number, home)
    run = lambda *words, ok=True, **variables: harness.run(
        *user.become, "env", "-i", *(f"{name}={value}" for name, value in variables.items()), harness.binary(), *words, ok=ok)
    environments = ({}, {"XDG_RUNTIME_DIR": user.variables["XDG_RUNTIME_DIR"]}, {"HOME": "/nonexistent", "XDG_RUNTIME_DIR": "/run"})
    data = {"XDG_STATE_HOME": user.variables["XDG_STATE_HOME"]}
    mount = ["mount", "--recovery-file", user.code_file, user.volume, user.path]
    sockets = lambda place: sorted(name for name in os.listdir(place) if name[0].isdigit())
    with directory_of(SQUATTER, f"/tmp/protectfs-{number}") as squatted:
        os.chmod(squatted, 0o777)
        run(*mount, **data, PATH=os.environ["PATH"])
        environment.cell("the squatter has nothing", [], os.listdir(squatted))
    place = os.path.join(home, ".local/state/protectfs/run")
    environment.cell("without a session: in the home", [device_of(user.path)], sockets(place))
    environment.cell("closed to others", (number, 0o40700), (
        lambda status: (status.st_uid, status.st_mode))(os.stat(place)))
    for index, variables in enumerate(environments):
        done = run("status", user.path, ok=False, **variables)
        environment.cell(f"found with environment {index}", 0, done.returncode)
    run("unmount", user.path, PATH=os.environ["PATH"])
    environment.cell("nothing is left", [], sockets(place))

    with directory_of(number, f"/run/user/{number}") as session:
        run(*mount, **data, PATH=os.environ["PATH"], XDG_RUNTIME_DIR=user.variables["XDG_RUNTIME_DIR"])
        environment.cell("in a session: there", [device_of(user.path)], sockets(os.path.join(session, "protectfs")))
        for index, variables in enumerate(environments):
            done = run("status", user.path, ok=False, **variables)
            environment.cell(f"found in the session with environment {index}", 0, done.returncode)
    # The session's directory is gone.
    harness.wait_until(lambda: run("status", user.path, ok=False).returncode == 0, what="a new socket")
    environment.cell("after the last logout: in the home", [device_of(user.path)], sockets(place))
    harness.protectfs("lock", "--all")
    environment.cell("root locks all mounts", "locked", state_as(user))
    run("unmount", user.path, PATH=os.environ["PATH"])
    environment.cell("nothing is left after that", [], sockets(place))

    # A volume on the home itself: the socket must be elsewhere, or the mount could not be unmounted.
    bare = environment.new_path("home")
    os.mkdir(bare, 0o700)
    os.chown(bare, number, number)
    give_home(environment, number, bare)
    mount[-1] = bare
    environment.cell("home as mount point, no other place", (1, True), (
        lambda done: (done.returncode, "no place for the control socket" in done.stderr))(run(*mount, ok=False, **data)))
    environment.cell("the home is as it was", [], os.listdir(bare))
    run(*mount, **data, **environments[1], PATH=os.environ["PATH"])
    run("unmount", bare, **environments[1], PATH=os.environ["PATH"])
