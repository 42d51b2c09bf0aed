"""The programs of Sources/Examples that keep a database and a log, through locks and before the first unlock."""

import contextlib
import json
import os
import signal
import sqlite3

from harness import CLASSES, PATIENCE, Skip, get_class, outcome, program, read_file, run, wait_until, write_file
from talk import Program

PROGRAMS = ("database", "document-editor", "downloader", "fitness-log")


def rows(path):
    """What the database holds, read by another program."""
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as base:
        return [text for text, in base.execute("SELECT text FROM notes ORDER BY rowid")]


def test_usage(environment):
    for name in PROGRAMS:
        try:
            done = run(program(name), "--help", ok=False)
        except Skip as reason:
            environment.skip(name, str(reason))
            continue
        environment.cell(name, (2, True), (done.returncode, f"Usage: {name} " in done.stderr))


def database(environment, mode, beside):
    mount = environment.mount()
    folder, path = mount / "notes", mount / "notes/notes.sqlite"

    def classes(state):
        """Of all that SQLite has made, in the middle of a transaction."""
        found = {name: get_class(os.path.join(folder, name)) for name in os.listdir(folder)}
        environment.cell(f"{state} classes", dict.fromkeys(["notes.sqlite", *beside], CLASSES["C"]), found)

    # The volume's default is another class.
    mount.command("class", "set", "A", mount.path)
    with Program("database", *mode, folder) as base:
        environment.cell("UNL opened", "open: 0 notes", base.line(PATIENCE))
        environment.cell("UNL", ["added", "kept: 1 notes"], base.ask("one", ""))
        environment.cell("UNL again", ["added"], base.ask("two"))
        classes("UNL")
        # In the middle of a transaction; the journal files that come later are made while locked.
        mount.lock()
        environment.cell("LCK", ["added", "kept: 3 notes", "added"], base.ask("three", "", "four"))
        classes("LCK")
        environment.cell("LCK kept", ["kept: 4 notes"], base.ask(""))
        environment.cell("LCK end", 0, base.end())
    with Program("database", *mode, folder) as base:
        environment.cell("LCK opened", "open: 4 notes", base.line(PATIENCE))
        environment.cell("LCK written", ["added"], base.ask("five"))
        # All of them made anew while locked.
        classes("LCK anew")
        environment.cell("LCK kept again", ["kept: 5 notes"], base.ask(""))
        environment.cell("LCK read by others", ["one", "two", "three", "four", "five"], rows(path))
        environment.cell("LCK second end", 0, base.end())
    mount = environment.remount(mount, unlock=False)
    with Program("database", *mode, folder) as base:
        environment.cell("BFU", "closed until the first unlock: unable to open database file", base.line(PATIENCE))
        environment.cell("BFU others", "EACCES", outcome(read_file, path))
        environment.cell("BFU waits", None, base.line(0.3))
        mount.unlock()
        environment.cell("unlocked", "open: 5 notes", base.line(PATIENCE))
        environment.cell("its end", 0, base.end())


def test_database_with_wal(environment):
    database(environment, [], ["notes.sqlite-shm", "notes.sqlite-wal"])


def test_database_with_rollback_journal(environment):
    database(environment, ["--rollback"], ["notes.sqlite-journal"])


def test_fitness_log(environment):
    """Recorded in every state, merged when unlocked; nothing lost and nothing doubled, also where the program is killed."""
    mount = environment.mount()
    folder = mount / "fitness"
    log, segments = os.path.join(folder, "log.json"), os.path.join(folder, "segments")

    def kept():
        return json.loads(read_file(log))["samples"]

    def segment_classes():
        return [get_class(os.path.join(segments, name)) for name in os.listdir(segments)]

    def closed(state):
        environment.cell(f"{state}: classes of segments", {CLASSES["B"]}, set(segment_classes()))
        environment.cell(f"{state}: segments are closed to others", {"EACCES"}, {
            outcome(read_file, os.path.join(segments, name)) for name in os.listdir(segments)})

    with Program("fitness-log", folder) as recorder:
        environment.cell("UNL begun", "the volume is unlocked", recorder.line(PATIENCE))
        environment.cell("UNL", ["recorded"] * 2, recorder.ask("1", "2"))
        environment.cell("UNL class", [CLASSES["B"]], segment_classes())
        # A minute's grace: the lock ends because the recorder has merged, and cuts nothing off.
        done = json.loads(mount.command("lock", "--json", "--grace", "60", mount.path).stdout)
        environment.cell("merged before the lock", "merged 2", recorder.line(PATIENCE))
        environment.cell("nothing is cut off", 0, done["cutOff"])
        environment.cell("LCK: the log is closed", (CLASSES["A"], "EACCES"), (get_class(log), outcome(read_file, log)))
        environment.cell("LCK", ["recorded"] * 2, recorder.ask("3", "4"))
        closed("LCK")
        recorder.process.send_signal(signal.SIGKILL)
        recorder.process.wait()
    with Program("fitness-log", folder) as recorder:
        environment.cell("LCK begun", "the volume is locked", recorder.line(PATIENCE))
        environment.cell("LCK again", ["recorded"], recorder.ask("5"))
        environment.cell("LCK: two segments", 2, len(os.listdir(segments)))
        closed("LCK again")
        mount.unlock()
        environment.cell("merged after the unlock", "merged 3", recorder.line(PATIENCE))
        environment.cell("UNL again", ["recorded"], recorder.ask("6"))
        environment.cell("its end", 0, recorder.end())
        environment.cell("merged at the end", "merged 1", recorder.line(PATIENCE))
    environment.cell("all of it, in order", [str(number) for number in range(1, 7)], kept())
    environment.cell("no segments left", [], os.listdir(segments))
    # Killed between the log's replacement and the removal of what is in it.
    left, = json.loads(read_file(log))["merged"]
    write_file(os.path.join(segments, left), b"6\n")
    mount = environment.remount(mount, unlock=False)
    with Program("fitness-log", folder) as recorder:
        environment.cell("BFU begun", "the volume is before-first-unlock", recorder.line(PATIENCE))
        environment.cell("BFU", ["recorded"], recorder.ask("7"))
        closed("BFU")
        environment.cell("BFU: the log is closed", "EACCES", outcome(read_file, log))
        mount.unlock()
        environment.cell("merged after the first unlock", "merged 1", recorder.line(PATIENCE))
        wait_until(lambda: not os.listdir(segments), what="the removal of the segments")
    environment.cell("nothing doubled", [str(number) for number in range(1, 8)], kept())
    environment.cell("class", CLASSES["A"], get_class(log))
