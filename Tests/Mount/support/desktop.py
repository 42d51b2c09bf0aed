"""Message buses of a test's own, with python3-dbusmock's desktop and logind on them, and the agent beside."""

import json
import os
import signal
import socket
import subprocess
import sys

import harness
from namespaces import only_own_mounts, own_run

MOCK = "org.freedesktop.DBus.Mock"
LOGIND = ("org.freedesktop.login1", "/org/freedesktop/login1")
SESSION = LOGIND[1] + "/session/"
SYSTEM = "<!DOCTYPE busconfig PUBLIC '-//freedesktop//DTD D-BUS Bus Configuration 1.0//EN' " \
    "'http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd'>"


class Bus:
    """A dbus-daemon of the test's own."""

    def __init__(self, environment, name):
        self.path = os.path.join(environment.base, name)
        self.address = "unix:path=" + self.path
        self.process = None
        self.start()

    def start(self):
        self.process = subprocess.Popen(["dbus-daemon", "--session", "--nofork", "--nopidfile", "--address=" + self.address],
                                        stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        harness.wait_until(self.listens, what="the message bus")

    def listens(self):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
            return client.connect_ex(self.path) == 0

    def stop(self):
        self.process.kill()
        self.process.wait()
        os.remove(self.path)

    def connection(self):
        import dbus.bus
        return dbus.bus.BusConnection(self.address)


class Mock:
    """A service that python3-dbusmock plays."""

    def __init__(self, bus, service, path, *words, system=False):
        self.bus, self.service, self.path = bus, service, path
        variable = "DBUS_SYSTEM_BUS_ADDRESS" if system else "DBUS_SESSION_BUS_ADDRESS"
        self.process = subprocess.Popen([sys.executable, "-m", "dbusmock", "--system" if system else "--session", *words],
                                        env={**os.environ, variable: bus.address}, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, text=True)
        connection = bus.connection()
        harness.wait_until(lambda: connection.name_has_owner(service), what=service)
        # The template's methods come a moment after the name.
        self.proxy = connection.get_object(service, path, introspect=False)
        if "-t" in words or words[-1].startswith("/"):
            harness.wait_until(self.answers, what=f"an answer of {service}")

    def answers(self):
        import dbus.exceptions
        try:
            return bool(self.proxy.Introspect(dbus_interface="org.freedesktop.DBus.Introspectable"))
        except dbus.exceptions.DBusException:
            return False

    def call(self, interface, method, *words, path=None):
        target = self.proxy if path is None else self.bus.connection().get_object(self.service, path, introspect=False)
        return getattr(target, method)(*words, dbus_interface=interface)

    def signal(self, interface, name, signature, words, path=None):
        import dbus
        self.call(MOCK, "EmitSignal", interface, name, signature, dbus.Array(words, signature="v"), path=path)

    def add(self, path, interface, properties):
        """Another object with properties."""
        import dbus
        self.call(MOCK, "AddObject", path, interface, dbus.Dictionary(properties, signature="sv"),
                  dbus.Array([], signature="(ssss)"))

    def calls(self, name):
        """The arguments of the calls of a method so far."""
        return [list(words) for _, method, words in self.call(MOCK, "GetCalls") if method == name]

    def stop(self):
        self.process.terminate()
        self.process.wait()


class Workplace:
    """What a test of the agent needs, apart from the machine: mounts that no other test sees, buses, configuration, sessions."""

    def __init__(self, environment):
        try:
            import dbusmock  # noqa: F401
        except ImportError:
            raise harness.Skip("python3-dbusmock is not installed") from None
        only_own_mounts()
        own_run()
        self.environment = environment
        os.environ["XDG_CONFIG_HOME"] = environment.new_path("xdg")
        os.makedirs(os.environ["XDG_CONFIG_HOME"] + "/protectfs")
        self.user = Bus(environment, "user-bus")
        self.system = Bus(environment, "system-bus")
        self.agents, self.mocks, self.manager = [], [], None

    def configure(self, text):
        path = os.environ["XDG_CONFIG_HOME"] + "/protectfs/config"
        harness.write_file(path + ".new", text.encode(), os.O_TRUNC)
        os.rename(path + ".new", path)

    def mock(self, *words, **more):
        self.mocks.append(Mock(*words, **more))
        return self.mocks[-1]

    def logind(self):
        mock = self.manager = self.mock(self.system, *LOGIND, "-t", "logind", system=True)
        # The template's method takes a text for the number.
        mock.call(MOCK, "AddMethod", LOGIND[0] + ".Manager", "GetUser", "u", "o", f"ret = '{LOGIND[1]}/user/%d' % args[0]")
        return mock

    def sessions(self, **states):
        """The user's sessions as logind writes them down, by name with their state."""
        for place in ("users", "sessions"):
            os.makedirs("/run/systemd/" + place, exist_ok=True)
        files = {f"sessions/{name}": f"UID={os.geteuid()}\nSTATE={state}\nCLASS=user\n" for name, state in states.items()}
        online = " ".join(name for name, state in states.items() if state != "closing")
        files[f"users/{os.geteuid()}"] = f"NAME=root\nSTATE=active\nSESSIONS={' '.join(states)}\nONLINE_SESSIONS={online}\n"
        for name in set(os.listdir("/run/systemd/sessions")) - set(states):
            os.remove("/run/systemd/sessions/" + name)
        # As logind does: with a rename.
        for name, text in files.items():
            harness.write_file("/run/systemd/" + name + ".new", text.encode())
            os.rename(f"/run/systemd/{name}.new", "/run/systemd/" + name)

    def agent(self, ready=True, logind_answers=True):
        """An agent. Once it delays sleep, it has asked logind for everything, and misses no signal: see LogindWatch.swift."""
        self.agents.append(Agent(self))
        if ready:
            self.agents[-1].wait()
            if self.manager and logind_answers:
                harness.wait_until(self.delays_sleep, what="the delay of sleep")
        return self.agents[-1]

    def delays_sleep(self):
        return any(str(row[1]) == "protectfs" for row in self.manager.call(LOGIND[0] + ".Manager", "ListInhibitors"))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for agent in self.agents:
            agent.end()
        for mock in self.mocks:
            mock.process.kill()
        for bus in (self.user, self.system):
            if bus.process.poll() is None:
                bus.stop()


class Agent:
    """A running agent."""

    def __init__(self, workplace):
        environment = workplace.environment
        self.log = environment.new_path("agent-log")
        address = environment.new_path("notify")
        self.server = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        self.server.bind(address)
        self.server.settimeout(harness.PATIENCE)
        variables = {**os.environ, "NOTIFY_SOCKET": address, "DBUS_SESSION_BUS_ADDRESS": workplace.user.address,
                     "DBUS_SYSTEM_BUS_ADDRESS": workplace.system.address}
        with open(self.log, "wb") as file:
            self.process = subprocess.Popen([harness.binary(), "agent"], env=variables, stdin=subprocess.DEVNULL, stdout=file,
                                            stderr=file)

    def wait(self):
        """Until it is ready, and so follows what is there."""
        said = self.server.recv(4096)
        assert said == b"READY=1", said

    def said(self):
        return harness.read_file(self.log).decode()

    def end(self):
        """Its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(harness.PATIENCE)


def is_locked(mount):
    return json.loads(mount.command("status", "--json", mount.path).stdout)["state"] == "locked"
