"""`protectfs secret service` on a message bus of the test's own, and the clients that desktop programs use."""

import os
import shutil
import socket
import subprocess

import harness

NAME = "org.freedesktop.secrets"
ROOT = "/org/freedesktop/secrets"
COLLECTION = ROOT + "/collection/login"
SERVICE = "org.freedesktop.Secret.Service"
ITEM = "org.freedesktop.Secret.Item"
COLLECTION_INTERFACE = "org.freedesktop.Secret.Collection"


class Failure(Exception):
    """An error that the service answered, by its name."""


class SecretBus:
    """A dbus-daemon, and a service on it for a mount."""

    def __init__(self, environment, mount=None, *words):
        for program, package in (("dbus-daemon", "dbus-daemon"), ("secret-tool", "libsecret-tools")):
            if not shutil.which(program):
                raise harness.Skip(f"{package} is not installed")
        try:
            import jeepney  # noqa: F401
            import keyring  # noqa: F401
            import secretstorage  # noqa: F401
        except ImportError:
            raise harness.Skip("python3-secretstorage or python3-keyring is not installed") from None
        self.environment, self.mount, self.words = environment, mount, words
        self.path = environment.new_path("bus")
        self.address = "unix:path=" + self.path
        self.log = environment.new_path("log")
        self.daemon = subprocess.Popen(["dbus-daemon", "--session", "--nofork", "--nopidfile", "--address=" + self.address],
                                       stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.service = None
        self.connections = []

    def __enter__(self):
        try:
            harness.wait_until(self.listens, what="the message bus")
            os.environ["DBUS_SESSION_BUS_ADDRESS"] = self.address
            if self.mount:
                self.service = self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for process in (self.service, self.daemon):
            if process and process.poll() is None:
                process.kill()
            if process:
                process.wait()
        for connection in self.connections:
            connection.close()
        os.environ.pop("DBUS_SESSION_BUS_ADDRESS", None)

    def listens(self):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
            return client.connect_ex(self.path) == 0

    def start(self):
        """Starts the service, and returns when it has its name."""
        with open(self.log, "ab") as file:
            service = subprocess.Popen(
                [harness.binary(), "secret", "service", *self.words, self.mount.path], stdin=subprocess.DEVNULL,
                stdout=file, stderr=file, env={**self.mount.volume.environment, "DBUS_SESSION_BUS_ADDRESS": self.address})
        client = self.client()
        harness.wait_until(lambda: service.poll() is not None or client.bus("NameHasOwner", "s", NAME)[0],
                           what="the name of the service")
        assert service.poll() is None, harness.read_file(self.log).decode()
        return service

    def tool(self, *words, secret=""):
        """One call of secret-tool: exit code and output."""
        done = subprocess.run(["secret-tool", *words], input=secret.encode(), capture_output=True, timeout=harness.PATIENCE,
                              check=False)
        return done.returncode, done.stdout.decode()

    def client(self):
        from jeepney.io.blocking import open_dbus_connection
        self.connections.append(open_dbus_connection(bus=self.address))
        return Client(self.connections[-1])


class Client:
    """A client that sends what the test says."""

    def __init__(self, connection):
        self.connection = connection

    def call(self, path, interface, method, signature=None, *body, service=NAME):
        import jeepney
        message = jeepney.new_method_call(jeepney.DBusAddress(path, service, interface), method, signature, body)
        answer = self.connection.send_and_get_reply(message, timeout=harness.PATIENCE)
        if answer.header.message_type == jeepney.MessageType.error:
            raise Failure(answer.header.fields[jeepney.HeaderFields.error_name])
        return answer.body

    def bus(self, method, *words):
        return self.call("/org/freedesktop/DBus", "org.freedesktop.DBus", method, *words, service="org.freedesktop.DBus")

    def error(self, *words):
        """The last part of the name of the error of a call; None if it is answered."""
        try:
            self.call(*words)
        except Failure as failure:
            return str(failure).rsplit(".", maxsplit=1)[-1]
        return None

    def get(self, path, interface, name):
        return self.call(path, "org.freedesktop.DBus.Properties", "Get", "ss", interface, name)[0][1]

    def session(self):
        return self.call(ROOT, SERVICE, "OpenSession", "sv", "plain", ("s", ""))[1]

    def create(self, session, label, attributes, secret, replace=False):
        properties = {ITEM + ".Label": ("s", label), ITEM + ".Attributes": ("a{ss}", attributes)}
        return self.call(COLLECTION, COLLECTION_INTERFACE, "CreateItem", "a{sv}(oayays)b", properties,
                         (session, b"", secret, "text/plain"), replace)[0]

    def secret(self, session, item):
        return bytes(self.call(item, ITEM, "GetSecret", "o", session)[0][2])

    def listen(self):
        """Subscribes to all signals of the service."""
        self.bus("AddMatch", "s", f"type='signal',sender='{NAME}'")

    def signals_until(self, member, wanted=lambda body: True):
        """(signal, body) of what came until one is as wanted."""
        import jeepney
        found = []
        while True:
            message = self.connection.receive(timeout=harness.PATIENCE)
            if message.header.message_type != jeepney.MessageType.signal:
                continue
            found.append((message.header.fields[jeepney.HeaderFields.member], message.body))
            if found[-1][0] == member and wanted(message.body):
                return found
