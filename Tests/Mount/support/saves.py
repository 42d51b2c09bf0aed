"""Everyday saves by real programs: the files that each leaves, their classes, and the steps of the save.

Run alone, it prints the table of docs/use/saves.md:  python3 Tests/Mount/support/saves.py
"""

import ctypes
import os
import pty
import re
import select
import shutil
import signal
import sqlite3
import struct
import subprocess
import sys
import termios
import time

import harness
from harness import Skip, get_class, read_file, set_class, wait_until, write_file
from workplace import workplace

FILE = "diary.txt"
BEFORE = b"dear diary\n"
LETTERS = {name: letter for letter, name in harness.CLASSES.items()}
EVENTS = {0x100: "create", 0x40: "away", 0x80: "to", 0x200: "delete", 0x8: "written"}
# Without settings and a history of anybody. emacs and vim make no backups below /tmp, where the mounts are, unless told.
SURROUNDINGS = {"HOME": "/nonexistent", "TMPDIR": "/nonexistent"}
BACKUPS = "(setq backup-enable-predicate (lambda (name) t))"
EMACS = ["emacs", "-Q", "--batch", "--eval"]
VISIT = f'(find-file "{FILE}") (goto-char (point-max)) (insert "more")'


def letter(path):
    """The class as its letter; None without a file."""
    try:
        return LETTERS[get_class(path)] if os.path.isfile(path) and not os.path.islink(path) else None
    except OSError:
        return None


class Watch:
    """What happens to the names in a directory, as inotify tells it."""

    def __init__(self, directory):
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.handle = self.libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self.libc.inotify_add_watch(self.handle, os.fsencode(directory), sum(EVENTS)) < 0:
            raise OSError(ctypes.get_errno(), "inotify_add_watch")

    def events(self):
        """(what, name) since the last call, with what is random in names left out."""
        found = []
        while select.select([self.handle], [], [], 0)[0]:
            data = os.read(self.handle, 1 << 16)
            while data:
                _, mask, _, length = struct.unpack_from("iIII", data)
                name = data[16:16 + length].rstrip(b"\0").decode("utf-8", "replace")
                for bit, word in EVENTS.items():
                    if mask & bit:
                        found.append((word, re.sub(r"^sed\w{6}$|(?<=txt\.)\w{6}$", "…", name)))
                data = data[16 + length:]
        return found

    def close(self):
        os.close(self.handle)


class Terminal:
    """A program with a terminal of its own, and keys pressed in it."""

    def __init__(self, words, directory):
        self.pid, self.handle = pty.fork()
        if self.pid == 0:
            os.chdir(directory)
            os.environ.update(TERM="xterm", **SURROUNDINGS)
            os.execvp(words[0], words)
        termios.tcsetwinsize(self.handle, (24, 80))
        self.shown = b""
        self.ended = False

    def show(self):
        """Takes in what the program shows, so that it never waits for us."""
        while not self.ended and select.select([self.handle], [], [], 0)[0]:
            try:
                self.shown += os.read(self.handle, 1 << 16)
            except OSError:
                self.ended = True

    def press(self, keys):
        os.write(self.handle, keys)

    def until(self, condition, what):
        def check():
            self.show()
            return condition()
        wait_until(check, what=what)

    def close(self):
        if self.pid:
            try:
                os.kill(self.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            os.waitpid(self.pid, 0)
            os.close(self.handle)
            self.pid = 0


class Place:
    """A directory with a diary of class A in a mount whose default is C, and what is noticed there."""

    def __init__(self, mount, name, outside):
        self.directory = os.path.join(mount.path, name)
        os.makedirs(self.directory)
        self.path = os.path.join(self.directory, FILE)
        self.outside = outside
        write_file(self.path, BEFORE)
        set_class(self.path, "A")
        self.seen = {}
        self.watch = Watch(self.directory)

    def look(self, *names):
        """Notes the classes of files that are there for a while only."""
        for name in names:
            found = letter(os.path.join(self.directory, name))
            if found:
                self.seen[name] = found

    def run(self, *words, ok=True, **more):
        return harness.run(*words, cwd=self.directory, ok=ok, env={**os.environ, **SURROUNDINGS}, **more)

    def is_saved(self):
        """Whether the diary is there with something new in it; it may be gone for a moment."""
        try:
            return read_file(self.path) not in (b"", BEFORE)
        except OSError:
            return False

    def classes(self):
        """Letter by name, of all files left and of those looked at."""
        return {**self.seen, **{name: letter(os.path.join(self.directory, name))
                                for name in sorted(os.listdir(self.directory))
                                if letter(os.path.join(self.directory, name))}}


def emacs(place):
    place.run(*EMACS, f"(progn {BACKUPS} {VISIT} (save-buffer))")


def emacs_auto_save(place):
    terminal = Terminal(["emacs", "-Q", "-nw", FILE], place.directory)
    try:
        terminal.until(lambda: b"diary" in terminal.shown, "emacs shows the file")
        terminal.press(b"more")
        terminal.press(b"\x1bxdo-auto-save\r")
        terminal.until(lambda: os.path.exists(os.path.join(place.directory, f"#{FILE}#")), "emacs saves by itself")
        place.look(f"#{FILE}#")
    finally:
        terminal.close()


def vim(*settings):
    def save(place):
        words = [word for setting in settings for word in ("--cmd", f"set {setting}")]
        terminal = Terminal(["vi", "-N", "-u", "NONE", "--cmd", "set backupskip=", "-i", "NONE", *words, FILE], place.directory)
        try:
            swap = os.path.join(place.directory, f".{FILE}.swp")
            terminal.until(lambda: os.path.exists(swap), "vim has its swap file")
            terminal.press(b"Gomore\x1b")
            place.look(f".{FILE}.swp")
            terminal.press(b":w\r")
            terminal.until(place.is_saved, "vim saves")
            place.look(f".{FILE}.swp")
            terminal.press(b":q!\r")
            terminal.until(lambda: terminal.ended, "vim ends")
        finally:
            terminal.close()
    return save


def nano(*words):
    def save(place):
        terminal = Terminal(["nano", "-I", *words, FILE], place.directory)
        try:
            terminal.until(lambda: b"dear diary" in terminal.shown, "nano shows the file")
            place.look(f".{FILE}.swp")
            terminal.press(b"more \x0f")
            terminal.until(lambda: b"File Name" in terminal.shown, "nano asks for the name")
            terminal.press(b"\r")
            terminal.until(place.is_saved, "nano saves")
            terminal.press(b"\x18")
            terminal.until(lambda: terminal.ended, "nano ends")
        finally:
            terminal.close()
    return save


def source(place, content=b"from elsewhere\n"):
    path = os.path.join(place.outside, FILE)
    os.makedirs(place.outside, exist_ok=True)
    write_file(path, content)
    return path


def install(place):
    place.run("install", "-m", "600", source(place), FILE)


def install_backup(place):
    place.run("install", "-b", "-m", "600", source(place), FILE)


def move(place):
    place.run("mv", source(place), FILE)


def sed(*words):
    return lambda place: place.run("sed", *words, "s/dear/my/", FILE)


def perl(place):
    place.run("perl", "-i", "-pe", "s/dear/my/", FILE)


def patch(place):
    text = f"--- a/{FILE}\n+++ b/{FILE}\n@@ -1 +1 @@\n-dear diary\n+my diary\n"
    path = source(place, text.encode())
    place.run("patch", "-b", "-p1", "-i", path)


def rsync(*words):
    def save(place):
        path = source(place, os.urandom(200_000))
        # Slow, so that what it writes first can be looked at.
        process = subprocess.Popen(["rsync", "-a", "--bwlimit=300", *words, path, place.directory + "/"])
        while process.poll() is None:
            for name in os.listdir(place.directory):
                if re.fullmatch(re.escape(f".{FILE}.") + r"\w{6}", name):
                    found = letter(os.path.join(place.directory, name))
                    if found:
                        place.seen[f".{FILE}.…"] = found
            time.sleep(0.01)
        assert process.returncode == 0, process.returncode
    return save


def database(mode, *copies):
    def save(place):
        path = os.path.join(place.directory, FILE)
        write_file(path, b"", os.O_TRUNC)
        connection = sqlite3.connect(path, isolation_level=None)
        connection.execute(f"PRAGMA journal_mode={mode}")
        connection.execute("CREATE TABLE t (x)")
        connection.execute("BEGIN")
        connection.execute("INSERT INTO t VALUES (1)")
        place.look(*(FILE + copy for copy in copies))
        connection.execute("COMMIT")
        connection.close()
    return save


class Row:
    """A program, what it needs, how it saves, and the classes of what it leaves in a mount that knows no families.

    Otherwise all of them are A. In names X is the diary; those ending in … are looked at while the program runs.
    """

    def __init__(self, name, needs, act, how, without):
        self.name, self.needs, self.act, self.how = name, needs, act, how
        self.without = dict(pair.split(":") for pair in without.split())

    @property
    def after(self):
        return dict.fromkeys(self.without, "A")

    @property
    def line(self):
        """The row of docs/use/saves.md."""
        def cell(classes):
            return ", ".join(f"`{name}` {letter}" for name, letter in classes.items())
        return f"| {self.name} | {self.how} | {cell(self.without)} | {cell(self.after)} |"

    def run(self, mount, outside):
        """{name: letter} and the events; Skip where the program is not there."""
        if not shutil.which(self.needs):
            raise Skip(f"{self.needs} is not installed")
        place = Place(mount, re.sub(r"\W+", "-", self.name), os.path.join(outside, re.sub(r"\W+", "-", self.name)))
        try:
            self.act(place)
            return {name.replace(FILE, "X"): found for name, found in place.classes().items()}, place.watch.events()
        finally:
            place.watch.close()


ROWS = [
    Row("emacs", "emacs", emacs, "renames X to X~, creates X", "X:C X~:A"),
    Row("emacs, auto-save", "emacs", emacs_auto_save, "creates #X#", "X:A #X#:C"),
    Row("vim", "vi", vim("backupcopy=no", "writebackup"), "creates .X.swp; renames X to X~, creates X, removes X~",
        "X:C .X.swp:C"),
    Row("vim, `backup`", "vi", vim("backup"), "creates .X.swp; renames X to X~, creates X", "X:C X~:A .X.swp:C"),
    Row("vim, `backupcopy=yes`", "vi", vim("backup", "backupcopy=yes"),
        "creates .X.swp; creates X~, writes into X", "X:A X~:C .X.swp:C"),
    Row("nano", "nano", nano(), "writes into X", "X:A"),
    Row("nano -B -G", "nano", nano("-B", "-G"), "creates .X.swp; creates X~, writes into X", "X:A X~:C .X.swp:C"),
    Row("install", "install", install, "removes X, creates X", "X:C"),
    Row("install -b", "install", install_backup, "renames X to X~, creates X", "X:C X~:A"),
    Row("mv from another file system", "mv", move, "removes X, creates X", "X:C"),
    Row("sed -i", "sed", sed("-i"), "creates sed…, renames it over X", "X:A"),
    Row("sed -i.bak", "sed", sed("-i.bak"), "creates sed…, renames X to X.bak, renames sed… to X", "X:C X.bak:A"),
    Row("perl -i", "perl", perl, "creates XX…, renames it over X", "X:A"),
    Row("patch -b", "patch", patch, "creates X.o…, renames X to X.orig, renames X.o… to X", "X:C X.orig:A"),
    Row("rsync -a", "rsync", rsync(), "creates .X.…, renames it over X", "X:A .X.…:C"),
    Row("rsync -a -b", "rsync", rsync("-b"), "creates .X.…, links X~ to X, renames .X.… over X", "X:A X~:A .X.…:C"),
    Row("rsync -a --inplace", "rsync", rsync("--inplace"), "writes into X", "X:A"),
    Row("SQLite, journal", "python3", database("DELETE", "-journal"),
        "creates X-journal, writes into X, removes X-journal", "X:A X-journal:C"),
    Row("SQLite, WAL", "python3", database("WAL", "-wal", "-shm"),
        "creates X-wal and X-shm, writes into X, removes them", "X:A X-wal:C X-shm:C"),
]


def main():
    """Prints the table, and below each row what inotify told."""
    with workplace("protectfs-saves.") as place:
        environment = place.environment()
        mounts = [environment.mount(options=options) for options in (("no_family_class",), ())]
        for row in ROWS:
            try:
                (without, _), (after, events) = [
                    row.run(mount, environment.new_path("outside")) for mount in mounts]
            except Skip as reason:
                print(f"{row.name}: {reason}")
                continue
            print(row.line if (without, after) == (row.without, row.after) else f"{row.name}: {without}, {after}")
            print("      " + ", ".join(f"{what} {name}" for what, name in events))
        environment.close()


if __name__ == "__main__":
    sys.exit(main())
