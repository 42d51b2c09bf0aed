"""What the Nautilus extension and the tray share: the user's mounts, their states, and calls of the program protectfs.

Nothing here waits: programs run as children, and their answers come through the main loop.
"""

import json
import os
import re

from gi.repository import Gio, GLib

HERE = os.path.dirname(os.path.realpath(__file__))
TABLE = "/proc/self/mountinfo"
# Seconds until the next try to follow a mount whose daemon does not answer: doubled from the first to the last.
FIRST_RETRY, LAST_RETRY = 1, 60
# Each event of `protectfs watch`, and the state that begins with it.
EVENTS = {"willLock": "locking", "sweeping": "sweeping", "locked": "locked", "unlocked": "unlocked",
          "firstUnlock": "unlocked"}
STATES = {"before-first-unlock": "not unlocked yet", "unlocked": "unlocked", "locking": "locking…", "sweeping": "locked",
          "locked": "locked", None: "does not answer"}


def program():
    """The protectfs of the same installation, else the one in PATH."""
    beside = os.path.join(HERE, "../../../bin/protectfs")
    return os.path.realpath(beside) if os.path.exists(beside) else "protectfs"


def call(words, done, seconds=None, standard_input=None):
    """Runs protectfs; then done(exit code, output, complaints). Without an end in `seconds` it is killed."""
    launcher = Gio.SubprocessLauncher.new(Gio.SubprocessFlags.STDOUT_PIPE | Gio.SubprocessFlags.STDERR_PIPE)
    if standard_input is not None:
        launcher.take_stdin_fd(standard_input)
    try:
        child = launcher.spawnv([program(), *words])
    except GLib.Error as problem:
        GLib.idle_add(lambda: done(-1, "", problem.message))
        return
    timer = GLib.timeout_add_seconds(seconds, child.force_exit) if seconds else None

    def ended(child, result):
        if timer:
            source = GLib.MainContext.default().find_source_by_id(timer)
            if source:
                source.destroy()
        _, output, complaints = child.communicate_finish(result)
        code = child.get_exit_status() if child.get_if_exited() else -1
        texts = [part.get_data().decode("utf-8", "replace") if part.get_size() else "" for part in (output, complaints)]
        done(code, *texts)

    child.communicate_async(None, None, ended)


def path_of(answer, member):
    """A path of the program's JSON, byte for byte."""
    digits = answer.get(member + "Hex")
    return os.fsdecode(bytes.fromhex(digits)) if digits else answer[member]


def shown(path):
    """A path as text for people."""
    home = os.path.expanduser("~")
    short = "~" + path[len(home):] if path.startswith(home + "/") else path
    return short.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def notify(title, text):
    """Tells the user through the desktop's notifications; a desktop without them shows nothing."""
    def connected(_, result):
        try:
            bus = Gio.bus_get_finish(result)
        except GLib.Error:
            return
        body = GLib.markup_escape_text(text)
        bus.call("org.freedesktop.Notifications", "/org/freedesktop/Notifications", "org.freedesktop.Notifications",
                 "Notify", GLib.Variant("(susssasa{sv}i)", ("protectfs", 0, "protectfs-locked", title, body, [], {}, -1)),
                 None, Gio.DBusCallFlags.NONE, -1, None, None)

    Gio.bus_get(Gio.BusType.SESSION, None, connected)


def message(complaints):
    """What the program complained of, without its name at the start of each line."""
    return "\n".join(line.removeprefix("protectfs: ") for line in complaints.strip().split("\n"))[:500]


def read_table():
    """The device number of each mount of this user, by its mount point."""
    found = {}
    with open(TABLE, "rb") as table:
        for line in table:
            left, _, right = line.rstrip(b"\n").partition(b" - ")
            fields, tail = left.split(b" "), right.split(b" ")
            path = re.sub(rb"\\([0-7]{3})", lambda match: bytes([int(match.group(1), 8)]), fields[4])
            # A mount on top of another one hides it.
            found.pop(os.fsdecode(path), None)
            if tail[0] == b"fuse.protectfs" and b"user_id=%d" % os.getuid() in tail[2].split(b","):
                found[os.fsdecode(path)] = fields[2].decode()
    return found


class Mount:
    """One mount; `state` is None until its daemon has answered."""

    def __init__(self, path, device, changed):
        self.path, self.device, self.state = path, device, None
        self._changed, self._child, self._ended, self._retry = changed, None, False, FIRST_RETRY

    @property
    def name(self):
        return shown(self.path)

    @property
    def is_locked(self):
        return self.state in ("before-first-unlock", "sweeping", "locked")

    def follow(self):
        """Keeps `state` right from now on."""
        if self._child or self._ended:
            return
        # If this process is killed, the child must not stay. setpriv(1) is a part of util-linux.
        words = ["setpriv", "--pdeathsig", "TERM", program(), "watch", "--json", self.path]
        try:
            self._child = Gio.Subprocess.new(words, Gio.SubprocessFlags.STDOUT_PIPE | Gio.SubprocessFlags.STDERR_SILENCE)
        except GLib.Error:
            self._lost()
            return
        lines = Gio.DataInputStream.new(self._child.get_stdout_pipe())
        lines.read_line_async(GLib.PRIORITY_DEFAULT, None, self._line)

    def end(self):
        """The mount is gone."""
        self._ended = True
        if self._child:
            self._child.send_signal(15)

    def _line(self, lines, result):
        try:
            line = lines.read_line_finish(result)[0]
        except GLib.Error:
            line = None
        if not line:
            self._child.wait_async(None, lambda child, end: child.wait_finish(end))
            self._lost()
            return
        try:
            answer = json.loads(bytes(line))
        except ValueError:
            # It is not the program that this was written for. It is asked again later.
            self._child.send_signal(15)
            self._child.wait_async(None, lambda child, end: child.wait_finish(end))
            self._lost()
            return
        self._retry = FIRST_RETRY
        self._set(answer.get("state") or EVENTS.get(answer.get("event"), self.state))
        lines.read_line_async(GLib.PRIORITY_DEFAULT, None, self._line)

    def _lost(self):
        self._child = None
        if self._ended:
            return
        self._set(None)
        GLib.timeout_add_seconds(self._retry, lambda: self.follow() and False)
        self._retry = min(2 * self._retry, LAST_RETRY)

    def _set(self, state):
        if state != self.state and not self._ended:
            self.state = state
            self._changed(self)


class Mounts:
    """The user's mounts, by mount point. `changed(mount)` follows a change of a state, `changed(None)` one of the table."""

    def __init__(self, changed):
        self.by_path, self._changed = {}, changed
        self._table = open(TABLE, "rb")  # The kernel tells of a change of the table on this descriptor.
        GLib.io_add_watch(self._table.fileno(), GLib.PRIORITY_DEFAULT, GLib.IOCondition.ERR | GLib.IOCondition.PRI,
                          self._read)
        self._read()

    def holding(self, path):
        """The mount that a path is in, or None. It looks at the path's text only, never at the file."""
        if not self.by_path:
            return None
        found = [mount for place, mount in self.by_path.items() if path == place or path.startswith(place + "/")]
        return max(found, key=lambda mount: len(mount.path), default=None)

    def _read(self, *_):
        now = read_table()
        before = {path: mount.device for path, mount in self.by_path.items()}
        if now != before:
            for path, device in before.items():
                if now.get(path) != device:
                    self.by_path.pop(path).end()
            for path in now.keys() - self.by_path.keys():
                self.by_path[path] = Mount(path, now[path], self._changed)
            self._changed(None)
        return True


class Unlocking:
    """Asks for passphrases in a window and hands them to `protectfs unlock`; this process never has one."""

    def __init__(self):
        self._asking = set()

    def begin(self, mount, complaint="", done=lambda: None):
        """Asks until the mount is unlocked or the user cancels. A mount has one window at a time."""
        if mount.path in self._asking:
            return
        self._asking.add(mount.path)
        output, entry = os.pipe()
        launcher = Gio.SubprocessLauncher.new(Gio.SubprocessFlags.NONE)
        launcher.take_stdout_fd(entry)
        ask = os.path.join(HERE, "ask_passphrase.py")
        try:
            window = launcher.spawnv(["/usr/bin/python3", "-I", ask, shown(mount.path), complaint])
        except GLib.Error as problem:
            os.close(output)
            notify(f"{mount.name} is not unlocked", problem.message)
            self._asking.discard(mount.path)
            return
        finally:
            launcher.close()

        def tried(code, _, complaints):
            window.wait_async(None, lambda child, result: closed(child.wait_finish(result), code, complaints))

        def closed(_, code, complaints):
            self._asking.discard(mount.path)
            given = window.get_if_exited() and window.get_exit_status() == 0
            if given and code == 3:
                self.begin(mount, message(complaints), done)
                return
            if code != 0 and (given or window.get_exit_status() != 1):
                notify(f"{mount.name} is not unlocked", message(complaints))
            done()

        call(["unlock", "--passphrase-file", "-", mount.path], tried, standard_input=output)


def lock(mount):
    """Locks a mount, and tells the user if that fails or has cut off open files."""
    def done(code, output, complaints):
        if code not in (0, 10):
            said = [json.loads(line) for line in complaints.split("\n") if line.startswith("{")]
            texts = [line["error"]["message"] for line in said if "error" in line]
            notify(f"{mount.name} is not locked", texts[0] if texts else message(complaints))
        elif output and json.loads(output)["cutOff"]:
            notify(f"{mount.name} is locked", f"Open files that were cut off: {json.loads(output)['cutOff']}")

    call(["lock", "--json", mount.path], done)
