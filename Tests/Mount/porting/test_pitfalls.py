"""The pitfalls of docs/program/porting.md, each on a mount that is locked while the program runs."""

import contextlib
import os
import signal
import sqlite3
import subprocess

from harness import CLASSES, PATIENCE, get_class, in_child, program, set_class, write_file


class Pitfall:
    """Tests/Porting/Pitfalls with a file of a class; everything it prints is in `said`."""

    def __init__(self, mount, *words, name="A"):
        path = mount / f"{'-'.join(words)}.{name}"
        write_file(path, b"content" * 1000)
        set_class(path, name)
        self.path, self.mount = path, mount
        # A backtrace of each end on purpose would fill the log.
        self.process = subprocess.Popen([program("porting-pitfalls"), words[0], path, *words[1:]], text=True,
                                        env={**os.environ, "SWIFT_BACKTRACE": "enable=no"}, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert self.process.stdout.readline() == "open\n"
        mount.lock()

    def go_on(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().rstrip()

    def end(self):
        """(how it ended, what it said last)"""
        said, _ = self.process.communicate("\n", timeout=PATIENCE)
        self.mount.unlock()
        code = self.process.returncode
        return (signal.Signals(-code).name if code < 0 else code), said.splitlines()


def test_handles(environment):
    mount = environment.mount()
    for name in ("readData", "write"):
        ended, said = Pitfall(mount, name).end()
        environment.cell(f"[{name} ends the process]", (True, []), (ended in ("SIGILL", "SIGTRAP", "SIGABRT"), said))
    reading = Pitfall(mount, "readUpToCount")
    environment.cell("[read(upToCount:) throws]", "257 true", reading.go_on())
    mount.unlock()
    environment.cell("[the same handle after the unlock]", (0, ["4 bytes"]), reading.end())
    environment.cell("[write(contentsOf:) throws]", (0, ["513 true"]), Pitfall(mount, "writeContents").end())
    environment.cell("[truncate(atOffset:) throws]", (0, ["513 true"]), Pitfall(mount, "truncate").end())


def test_mappings(environment):
    mount = environment.mount()
    environment.cell("[mapped]", ("SIGBUS", []), Pitfall(mount, "mapped").end())
    environment.cell("[mapped, class C]", (0, ["99"]), Pitfall(mount, "mapped", name="C").end())
    environment.cell("[read whole]", (0, ["99"]), Pitfall(mount, "read").end())


def test_questions(environment):
    """Permissions and names are the same in every state."""
    expected = ["exists true, readable true", "writable true, size 7000", "handle nil"]
    environment.cell("[questions]", (0, expected), Pitfall(environment.mount(), "questions").end())


def test_text(environment):
    """Text keeps a file's class, also the weakest, and is refused for a locked file."""
    mount = environment.mount()
    for how in ("atomically", "in place"):
        environment.cell(f"[{how}, class A]", (0, ["513 true"]), Pitfall(mount, "string", how).end())
        for name in "CD":
            pitfall = Pitfall(mount, "string", how, name=name)
            environment.cell(f"[{how}, class {name}]", (0, ["written"]), pitfall.end())
            environment.cell(f"[{how}, class {name} kept]", CLASSES[name], get_class(pitfall.path))


def test_databases(environment):
    """SQLite in class complete: its shared memory is a mapping; a rollback journal is none. In class C both go on."""
    mount = environment.mount()

    def use(mode, name):
        directory = mount / f"{mode}.{name}"
        os.makedirs(directory)
        set_class(directory, name)
        with contextlib.closing(sqlite3.connect(os.path.join(directory, "base"), isolation_level=None)) as base:
            base.execute(f"pragma journal_mode={mode}")
            base.execute("create table entries (number)")
            mount.lock()
            try:
                base.execute("insert into entries values (1)")
            except sqlite3.OperationalError as error:
                assert "disk I/O error" in str(error), error
                mount.unlock()
                base.execute("insert into entries values (1)")
                assert base.execute("select * from entries").fetchall() == [(1,)]
                raise OSError(5, "SQLITE_IOERR")

    for mode, name, expected in (("wal", "A", "SIGBUS"), ("delete", "A", "EIO"), ("wal", "C", "works"), ("delete", "C", "works")):
        environment.cell(f"[{mode} in class {name}]", expected, in_child(lambda: use(mode, name), PATIENCE))
        mount.unlock()
