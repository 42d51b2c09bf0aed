"""Passphrases from systemd: credentials of a service, and questions of systemd-ask-password."""

import configparser
import glob
import os
import shutil
import socket
import subprocess

import harness
from harness import PASSPHRASE, protectfs, wait_until
from namespaces import own_run

OTHER = "another passphrase that nobody guesses"


class Credentials:
    """A directory as systemd makes it for a service."""

    def __init__(self, environment):
        self.path = environment.new_path("credentials")
        os.mkdir(self.path, 0o700)

    def add(self, name, text, mode=0o400):
        path = os.path.join(self.path, name)
        with open(path, "wb") as file:
            file.write(text)
        os.chmod(path, mode)
        return path

    def run(self, *words, variables=None, **more):
        """Runs protectfs as the service does."""
        return protectfs(*words, env={**os.environ, **(variables or {}), "CREDENTIALS_DIRECTORY": self.path}, ok=False, **more)


def test_credential(environment):
    """Every command that takes a passphrase file takes a credential."""
    given = Credentials(environment)
    given.add("documents", PASSPHRASE.encode() + b"\nwhat comes after the first line is not read")
    given.add("new", OTHER.encode())
    os.chmod(given.path, 0o500)
    volume, point, key = environment.new_path("volume"), environment.new_path("point"), environment.new_path("key")
    os.mkdir(point, mode=0o500)
    variables = {"XDG_STATE_HOME": environment.new_path("data")}
    source = ("--passphrase-credential", "documents")
    places = ("--device-key", key)

    def works(name, *words):
        done = given.run(*words, variables=variables)
        environment.cell(name, (0, ""), (done.returncode, "" if done.returncode == 0 else done.stderr))
        return done

    works("init", "init", "--json", *places, *source, volume)
    works("slot test", "slot", "test", *places, *source, volume)
    works("slot add", "slot", "add", *places, *source, "--new-passphrase-credential=new", volume)
    works("the new one", "slot", "test", *places, "--passphrase-credential=new", volume)
    works("fsck", "fsck", *places, *source, volume)
    works("mount", "mount", *places, *source, volume, point)
    works("lock", "lock", point)
    works("unlock", "unlock", "--passphrase-credential=new", point)
    works("unmount", "unmount", point)
    helper = os.path.join(harness.REPOSITORY, "mount-scripts/packaging/mount.fuse.protectfs")
    options = f"passphrase_credential=documents,device_key={key}"
    done = subprocess.run(["sh", helper, volume, point, "-o", options], check=False, capture_output=True, text=True,
                          env={**os.environ, **variables, "CREDENTIALS_DIRECTORY": given.path, "PROTECTFS": harness.binary(),
                               "PATH": os.path.dirname(harness.binary()) + ":" + os.environ["PATH"]})
    environment.cell("as an option of mount(8)", (0, ""), (done.returncode, done.stderr))
    works("unmount again", "unmount", point)
    done = given.run("mount", "--no-unlock", *source, volume, point, variables=variables)
    environment.cell("with --no-unlock", 2, done.returncode)


def test_hostile_credential(environment):
    """What systemd does not make is refused, and the message says why."""
    given, mount = Credentials(environment), environment.mount()
    mount.lock()
    text = PASSPHRASE.encode()
    for name, mode in (("good", 0o400), ("with-acl", 0o440), ("others", 0o404), ("changeable", 0o420)):
        given.add(name, text, mode)
    given.add("empty", b"")
    given.add("long", b"a" * 5000)
    given.add("large", text + b"\n" + b"a" * 70_000)
    os.symlink("good", given.path + "/link")
    os.mkdir(given.path + "/directory")
    os.mkfifo(given.path + "/pipe", 0o400)
    given.add("stranger", text)
    os.chown(given.path + "/stranger", 65534, 0)

    def attempt(name, mention, code=3):
        done = given.run("unlock", "--passphrase-credential", name, mount.path, stdin=subprocess.DEVNULL)
        environment.cell(name or "no name", (code, True), (done.returncode, mention in done.stderr))
        if mention not in done.stderr:
            print(done.stderr)

    for name in ("../good", "/etc/passwd", "a/b", ".", "..", "", "a:b", "a\nb", "a" * 256):
        attempt(name, "invalid name of a credential", 2)
    attempt("missing", "No such file or directory")
    for name in ("link", "directory", "pipe"):
        attempt(name, "is not a regular file")
    for name in ("others", "changeable", "stranger"):
        attempt(name, "other users can read or change")
    attempt("empty", "a passphrase cannot be empty")
    attempt("long", "the first line is longer than")
    attempt("large", "too large for a file with a secret")
    for mode in (0o705, 0o720):
        os.chmod(given.path, mode)
        attempt("good", "other users can read or change")
    os.chmod(given.path, 0o700)
    for place in (None, "relative", ""):
        variables = {name: value for name, value in os.environ.items() if name != "CREDENTIALS_DIRECTORY"}
        if place is not None:
            variables["CREDENTIALS_DIRECTORY"] = place
        done = protectfs("unlock", "--passphrase-credential", "good", mount.path, env=variables, ok=False)
        environment.cell(f"directory {place}", (3, True), (done.returncode, "this process has no credentials" in done.stderr))
    environment.cell("still locked", "locked", mount.status()["state"])
    for name in ("with-acl", "good"):
        done = given.run("unlock", "--passphrase-credential", name, mount.path)
        environment.cell(name, (0, "unlocked"), (done.returncode, mount.status()["state"]))
        mount.lock()
    done = given.run("unlock", "--passphrase-credential=good", "--passphrase-file=-", mount.path)
    environment.cell("two sources", (2, True), (done.returncode, "cannot be used together" in done.stderr))


class Answering:
    """A person before the screen at boot, by the protocol of systemd's password agents."""

    def __init__(self):
        own_run()
        self.place = "/run/systemd/ask-password"
        os.mkdir(self.place)
        self.asked = []

    def answer(self, text):
        """Waits for a question, and sends a datagram to its socket. Gives the question."""
        questions = lambda: [path for path in glob.glob(self.place + "/ask.*") if path not in self.asked]
        wait_until(questions, what="the question")
        self.asked += questions()
        file = configparser.ConfigParser(interpolation=None)
        file.read(self.asked[-1], encoding="utf-8")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as client:
            client.sendto(text, file["Ask"]["Socket"])
        return file["Ask"]


def test_ask_password(environment):
    """Without a terminal the system asks: a wrong answer may be repeated, and a refusal ends it."""
    if os.geteuid() != 0 or not shutil.which("systemd-ask-password"):
        raise harness.Skip("needs root and systemd-ask-password")
    person = Answering()
    mount = environment.mount()

    def start(*words):
        return subprocess.Popen([harness.binary(), *words], env={**os.environ, **mount.volume.environment}, text=True,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)

    mount.lock()
    process = start("unlock", "--ask-password", mount.path)
    question = person.answer(b"+wrong")
    environment.cell("the question", (f"Passphrase for {mount.path}", "protectfs"), (question["Message"].rstrip(":"), question["Id"]))
    person.answer(b"+" + PASSPHRASE.encode())
    said = process.communicate(timeout=harness.PATIENCE)[1]
    environment.cell("the second answer", (0, True, "unlocked"), (process.returncode, "try again" in said, mount.status()["state"]))
    mount.lock()
    process = start("unlock", "--ask-password", mount.path)
    person.answer(b"-")
    said = process.communicate(timeout=harness.PATIENCE)[1]
    environment.cell("a refusal", (3, True, "locked"), (process.returncode, "nobody has answered" in said, mount.status()["state"]))
    # No program of that name.
    done = protectfs("unlock", "--ask-password", mount.path, env={**mount.volume.environment, "PATH": "/nonexistent"}, ok=False)
    environment.cell("without it", (3, True), (done.returncode, "systemd-ask-password cannot be run" in done.stderr))
