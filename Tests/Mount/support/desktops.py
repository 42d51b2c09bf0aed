"""A desktop for tests: a screen without a monitor, a session bus, the installed window, and a panel that lists status items."""

import glob
import os
import re
import shutil
import struct
import subprocess

import harness
from harness import Skip, run, wait_until

try:
    import gi
    from gi.repository import Gio, GLib
except ImportError:
    gi = None

WATCHER = "org.kde.StatusNotifierWatcher"
MENU = "com.canonical.dbusmenu"


def needed(*programs, library, files=()):
    """Skips the test where something is missing that "mount-scripts/packages desktop" installs."""
    missing = [name for name in (*programs, "Xvfb", "dbus-daemon", "setpriv") if shutil.which(name) is None]
    missing += [pattern for pattern in files if not glob.glob(pattern)]
    if gi is None:
        missing.append("python3-gi")
    else:
        try:
            gi.require_version(*library)
        except ValueError:
            missing.append(f"gir1.2 of {library[0]} {library[1]}")
    if missing:
        raise Skip(f"{', '.join(missing)} not installed: mount-scripts/packages desktop")


def install(environment):
    """Installs what is tested into a directory; gives its place of programs and its place of shared files."""
    place = environment.new_path("installed")
    run(os.path.join(harness.REPOSITORY, "mount-scripts/install"), "--no-build", "--prefix", "/usr", "--destdir", place,
        env={**os.environ, "PROTECTFS_PROGRAM": harness.binary()})
    return place + "/usr/bin", place + "/usr/share"


class Desktop:
    """The screen, the bus, and the variables of programs that use both; `close` ends all of them."""

    def __init__(self, environment, data):
        self.programs, self.shared = install(environment)
        self.children, self.place = [], environment.new_path("desktop")
        for name in ("home", "run", "screen"):
            os.makedirs(f"{self.place}/{name}", 0o700)
        try:
            self._start(data)
        except BaseException:
            self.close()
            raise

    def _start(self, data):
        read, write = os.pipe()
        self.start("Xvfb", "-displayfd", str(write), "-screen", "0", "800x500x24", "-fbdir", self.place + "/screen",
                   "-nolisten", "tcp", pass_fds=[write])
        os.close(write)
        with open(read, encoding="ascii") as file:
            display = file.readline().strip()
        if not display:
            raise AssertionError("Xvfb did not start")
        bus = self.start("dbus-daemon", "--session", "--nofork", "--print-address", stdout=subprocess.PIPE, text=True)
        self.address = bus.stdout.readline().strip()
        self.variables = {
            **os.environ, "DISPLAY": ":" + display, "DBUS_SESSION_BUS_ADDRESS": self.address, "HOME": self.place + "/home",
            "XDG_STATE_HOME": data, "XDG_DATA_HOME": data, "XDG_DATA_DIRS": f"{self.shared}:/usr/share", "XDG_RUNTIME_DIR": self.place + "/run",
            "GSETTINGS_BACKEND": "memory", "GDK_BACKEND": "x11", "GSK_RENDERER": "cairo", "GTK_A11Y": "none",
            "LC_ALL": "C.UTF-8"}

    def start(self, *words, **more):
        options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, **more}
        # None of them outlives a test that is killed.
        child = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *words], **options)
        self.children.append(child)
        return child

    def close(self):
        for child in reversed(self.children):
            child.kill()
            child.wait()

    def run(self, *words, **more):
        return run(*words, env=self.variables, **more)

    def pixels(self, colour):
        """How many pixels of the screen have exactly this colour, such as "#a51d2d"."""
        with open(glob.glob(self.place + "/screen/*")[0], "rb") as file:
            content = file.read()
        header, colours = struct.unpack_from(">I", content)[0], struct.unpack_from(">I", content, 76)[0]
        wanted = bytes.fromhex(colour[1:])[::-1]
        return len(re.findall(re.escape(wanted) + b".", content[header + 12 * colours:], re.S))


class Panel:
    """What a panel does: it is told of status items, reads their menus and clicks."""

    def __init__(self, desktop):
        flags = Gio.DBusConnectionFlags.AUTHENTICATION_CLIENT | Gio.DBusConnectionFlags.MESSAGE_BUS_CONNECTION
        self.bus = Gio.DBusConnection.new_for_address_sync(desktop.address, flags, None, None)
        self.items = []
        node = Gio.DBusNodeInfo.new_for_xml(
            f'<node><interface name="{WATCHER}"><method name="RegisterStatusNotifierItem">'
            '<arg type="s" direction="in"/></method></interface></node>')
        self.bus.register_object("/StatusNotifierWatcher", node.interfaces[0], self._called, None, None)
        Gio.bus_own_name_on_connection(self.bus, WATCHER, Gio.BusNameOwnerFlags.NONE, None, None)

    def _called(self, _, __, ___, ____, _____, arguments, invocation):
        self.items.append(arguments.unpack()[0])
        invocation.return_value(None)

    def wait(self, condition, what):
        """Waits, and answers calls meanwhile."""
        def once():
            turn()
            return condition()

        wait_until(once, what=what)

    def call(self, path, interface, method, signature, *values):
        parameters = GLib.Variant(signature, values)
        return self.bus.call_sync(self.items[-1], path, interface, method, parameters, None, 0, -1, None).unpack()

    def property(self, name):
        return self.call("/StatusNotifierItem", "org.freedesktop.DBus.Properties", "Get", "(ss)",
                         "org.kde.StatusNotifierItem", name)[0]

    def rows(self):
        """(number, text, whether it can be clicked) of every row; lines have no text."""
        menu = self.property("Menu")
        children = self.call(menu, MENU, "GetLayout", "(iias)", 0, -1, [])[1][2]
        # One underscore would mark the key of the row.
        return [(number, values["label"].replace("__", "_") if "label" in values else None, values.get("enabled", False))
                for number, values, _ in children]

    def of(self, mount):
        """The texts of a mount's rows with their numbers, and its state: ({text: number}, state)."""
        found, state = {}, None
        for number, text, _ in self.rows():
            if state is None and text and text.startswith(mount.path + ": "):
                state = text.removeprefix(mount.path + ": ")
            elif state is not None and text is None:
                break
            elif state is not None:
                found[text] = number
        return found, state

    def click(self, number):
        self.call(self.property("Menu"), MENU, "Event", "(isvu)", number, "clicked", GLib.Variant("i", 0), 0)


def turn():
    """Lets callbacks of this process run that are due."""
    while GLib.MainContext.default().iteration(False):
        pass
