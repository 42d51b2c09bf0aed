"""A user who logs in through PAM, with a volume whose settings say so; /etc, /run and the log are the test's own."""

import json
import os
import shutil
import socket
import subprocess
import sys

import harness
from built import built
from namespaces import own_devices, own_etc, own_run
from users import OrdinaryUser

NAME, SERVICE = "ada", "protectfs-test"
MAKE = os.path.join(harness.REPOSITORY, "mount-scripts/packaging/make-login")
SESSION = os.path.join(harness.SUPPORT, "pam_session.py")


class Session:
    """A login program. Use it in a `with` statement, whose end kills it if it still runs."""

    def __init__(self, service=SERVICE, user=NAME):
        # Nothing of this test's environment may be needed.
        self.process = subprocess.Popen([sys.executable, SESSION, service, user], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, bufsize=1)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()
        self.process.stdin.close()
        self.process.stdout.close()

    def call(self, name, value=None):
        """The number that PAM returns; 0 is success."""
        self.process.stdin.write(name + ("" if value is None else " " + json.dumps(value)) + "\n")
        return int(self.process.stdout.readline())

    def log_in(self, password=harness.PASSPHRASE):
        return self.call("authenticate", password), self.call("open")

    def kill(self):
        self.process.kill()
        self.process.wait()


class Login:
    """The user, the module as built from this checkout, and what it says to the log."""

    def __init__(self, environment, password=harness.PASSPHRASE):
        if os.geteuid() != 0:
            raise harness.Skip("needs root")
        if not os.path.exists("/usr/include/security/pam_ext.h") or not shutil.which("cc"):
            raise harness.Skip("needs libpam0g-dev and a C compiler")
        self.environment = environment
        own_devices(environment)
        self.user = OrdinaryUser(environment, number=64123)
        place = self.home = os.path.dirname(self.user.path)
        os.makedirs(place + "/.config/protectfs")
        os.makedirs(place + "/.local/state")
        os.rename(place + "/data/protectfs", place + "/.local/state/protectfs")
        harness.write_file(place + "/.config/protectfs/config", harness.CONFIGURATION)
        for path in (".config", ".config/protectfs", ".local", ".local/state"):
            os.chown(os.path.join(place, path), 64123, 64123)
        self.user.variables = {"HOME": place, "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
        own_etc(environment)
        self.log = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        self.log.bind(own_run() + "/dev-log")
        self.log.setblocking(False)
        os.chmod("/run/systemd/journal/dev-log", 0o666)
        os.symlink("/run/systemd/journal/dev-log", "/dev/log")
        made = built(environment, "login", lambda place: harness.run(MAKE, "/usr", place, timeout=None))
        self.module, self.helper = made + "/usr/lib/security/pam_protectfs.so", made + "/usr/libexec/protectfs-login"
        hashed = harness.run("openssl", "passwd", "-6", "-stdin", input=password + "\n").stdout.strip()
        for name, line in (("passwd", f"{NAME}:x:64123:64123::{place}:/bin/sh"), ("shadow", f"{NAME}:{hashed}:19000:0:99999:7:::"),
                           ("group", f"{NAME}:x:64123:\nextra:x:64124:{NAME}")):
            with open("/etc/" + name, "a", encoding="ascii") as file:
                file.write(line + "\n")
        self.service()
        self.settings()

    def service(self, name=SERVICE, options="timeout=60", program=None):
        """Configures a service."""
        ours = f"optional {self.module} helper={self.helper} program={program or harness.binary()} {options}\n"
        with open("/etc/pam.d/" + name, "w", encoding="ascii") as file:
            file.write("auth required pam_unix.so\nauth " + ours + "account required pam_permit.so\n"
                       "session required pam_permit.so\nsession " + ours +
                       "password required pam_unix.so sha512\npassword " + ours)

    def settings(self, more="", name="documents", login="yes"):
        """Writes the settings of the user's volume."""
        path = f"{self.home}/.config/protectfs/{name}.conf"
        harness.write_file(path, f"VOLUME={self.user.volume}\nMOUNTPOINT={self.user.path}\nLOGIN={login}\n{more}".encode(),
                           os.O_TRUNC)
        os.chown(path, 64123, 64123)
        return path

    def protectfs(self, *words, **more):
        """Runs protectfs as the user."""
        return self.user.run(harness.binary(), *words, **more)

    @property
    def state(self):
        """The state of the user's volume, or 'not mounted'."""
        done = self.protectfs("status", "--json", self.user.path, ok=False)
        if done.returncode != 0:
            return "not mounted"
        answer = json.loads(done.stdout)
        return (answer[0] if isinstance(answer, list) else answer)["state"]

    def said(self):
        """The lines of the module and its helper in the log since the last look."""
        lines = []
        while True:
            try:
                text = self.log.recv(65536).decode(errors="replace").rstrip("\0\n")
            except BlockingIOError:
                return lines
            # The module's have the service in brackets behind its name, the helper's its process.
            if " pam_protectfs[" in text or " pam_protectfs(" in text or "]: pam_protectfs(" in text:
                lines.append(text.split(": ", 1)[1].split("): ")[-1])

    def close(self):
        """Ends the mount; the rest belongs to the test's namespace."""
        self.protectfs("unmount", "--force", self.user.path, ok=False)
        self.log.close()
