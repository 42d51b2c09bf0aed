"""What else of Foundation reads and writes files, on mounts that are unlocked, locked and not unlocked yet.

Files written without the library's own calls are plain files: a new one takes the class of its directory, and one that is there
keeps its class.
"""

import os
import signal

import harness
from harness import CLASSES, get_class, make_file, read_file, run, set_class, write_file
from porting_table import A, B, BFU, C, D, LCK, STATES, UNL, reading, writing
from served import served
from talk import Program

KINDS = dict(zip("abcd", (A, B, C, D)))
# What can neither be opened nor made anew, and what can be made though not opened.
CLOSED = {UNL: "", LCK: "ab", BFU: "abc"}
NOT_MADE = {UNL: "", LCK: "a", BFU: "ac"}
POSIX = "NSPOSIXErrorDomain 13"


def said(directory, name, *words, **more):
    done = run(harness.program("porting-examples"), name, directory, *words, ok=False, **more)
    assert done.returncode == 0, (name, words, done.returncode, done.stderr)
    return done.stdout.splitlines()


def prepared(environment):
    """A mount with a folder for each state: in it a file and a folder of each class, and a bundle of such files."""
    mount = environment.mount()
    for state in STATES:
        os.mkdir(mount / state)
        os.mkdir(mount / f"{state}/Parts.bundle")
        for name in "abcd":
            make_file(mount / f"{state}/{name}", name.upper(), b"old")
            make_file(mount / f"{state}/Parts.bundle/{name}.txt", name.upper(), b"part")
            os.mkdir(mount / f"{state}/in-{name}")
            set_class(mount / f"{state}/in-{name}", name.upper())
    return mount


def in_states(environment, judge):
    """judge(state, mount) in each state; gives the mount, unlocked again."""
    mount = prepared(environment)
    judge(UNL, mount)
    mount.lock()
    judge(LCK, mount)
    mount = environment.remount(mount, unlock=False)
    judge(BFU, mount)
    mount.unlock()
    return mount


def classes(environment, mount, state, pattern, but=""):
    """The class of each file, by its letter."""
    for name in "abcd":
        path = mount / f"{state}/{pattern.format(name)}"
        expected = None if name in but else CLASSES[name.upper()]
        environment.cell(f"{state} class of {pattern.format(name)}", expected, get_class(path) if os.path.exists(path) else None)


def test_streams(environment):
    """A locked file is POSIX error 13 of the stream. New files take the class of their directory, old ones keep theirs."""
    def judge(state, mount):
        closed, unmade = CLOSED[state], NOT_MADE[state]
        expected = []
        for name in "abcd":
            answer = POSIX if name in closed else "ok"
            expected += [f"{name} read: {POSIX if name in closed else 'old'}", f"{name} appended: {answer}",
                         f"{name} written: {answer}", f"{name} new: {POSIX if name in unmade else 'ok'}"]
        environment.cell(f"{state} streams", expected, said(mount / state, "streams", *"abcd"))
        classes(environment, mount, state, "{}")
        classes(environment, mount, state, "in-{}/stream", unmade)

    mount = in_states(environment, judge)
    for state in STATES:
        environment.cell(f"{state} contents", [b"old" if name in CLOSED[state] else b"new" for name in "abcd"],
                         [read_file(mount / f"{state}/{name}") for name in "abcd"])


def test_streams_through_a_lock(environment):
    """Class B and weaker go on. Class A gives errors, and a stream that had an error stays closed after the unlock."""
    mount = prepared(environment)
    programs = {name: Program("porting-examples", "openStreams", mount / UNL, name) for name in "abcd"}
    try:
        for name, program in programs.items():
            environment.cell(f"{name} opened", "open", program.line())
            environment.cell(f"UNL {name}", ["written 1, read 1"], program.ask("1"))
        mount.lock()
        for name, program in programs.items():
            expected = f"written {POSIX}, read {POSIX}" if name == "a" else "written 1, read 1"
            environment.cell(f"LCK {name}", [expected], program.ask("2"))
        mount.unlock()
        for name, program in programs.items():
            expected = f"written {POSIX}, read {POSIX}" if name == "a" else "written 1, read 1"
            environment.cell(f"unlocked {name}", [expected], program.ask("3"))
    finally:
        for program in programs.values():
            program.__exit__()
    environment.cell("contents", [b"old1", b"old123", b"old123", b"old123"], [read_file(mount / f"{UNL}/{name}") for name in "abcd"])


def test_handles(environment):
    """FileHandle(forWritingTo:) of an existing file."""
    def judge(state, mount):
        expected = [f"{name} appended: {writing(KINDS[name]) if name in CLOSED[state] else 'ok'}" for name in "abcd"]
        environment.cell(f"{state} handles", expected, said(mount / state, "handles", *"abcd"))
        classes(environment, mount, state, "{}")

    in_states(environment, judge)


def test_enumerators(environment):
    """Every way of enumerating gives the classes, in every state."""
    def judge(state, mount):
        found = [f"{name} {KINDS[name]} 3" for name in "abcd"] + [f"{name}.txt {KINDS[name]} 4" for name in "abcd"]
        found += [f"in-{name} {KINDS[name]}" for name in "abcd"] + ["Parts.bundle nil"]
        environment.cell(f"{state} enumerated", [", ".join(sorted(found)), "in all values: 8", "by paths: 12", "errors: []"],
                         said(mount / state, "enumerated"))

    in_states(environment, judge)


def test_archives(environment):
    """NSKeyedArchiver's data through Data.write, and property lists that Foundation writes by itself."""
    def judge(state, mount):
        closed, unmade = CLOSED[state], NOT_MADE[state]
        expected = []
        for name in "abcd":
            missing = "CocoaError 260 errno 2"
            content = reading(KINDS[name]) if name in closed else "new"
            value = missing if name in unmade else reading(KINDS[name]) if name in closed else "value"
            expected += [f"{name} archived: {writing(KINDS[name]) if name in unmade else 'ok'}", f"{name} unarchived: {content}",
                         f"{name} list: {'false' if name in unmade else 'true'}", f"{name} list again: {value}"]
        environment.cell(f"{state} archives", expected, said(mount / state, "archived", *"abcd"))
        classes(environment, mount, state, "{}")
        classes(environment, mount, state, "in-{}/list.plist", unmade)

    in_states(environment, judge)


def test_bundles(environment):
    """A bundle is found in every state; what is in it opens as its class says."""
    def judge(state, mount):
        expected = [f"{name}: {reading(KINDS[name]) if name in CLOSED[state] else 'part'}" for name in "abcd"]
        environment.cell(f"{state} bundle", expected, said(mount / state, "bundled", *"abcd"))

    in_states(environment, judge)


def test_defaults(environment):
    """UserDefaults are in the class of the home's default. While it is closed they are in memory only, and merged later."""
    def judge(state, mount):
        # Not in class B: defaults are written again and again, which that class allows only while unlocked.
        for name in "acd":
            path = mount / f"{state}/in-{name}"
            written = "false" if name in CLOSED[state] else "true"
            environment.cell(f"{state} {name}", [f"one: nil, {written}"],
                             said(mount / state, "defaults", "one", env=harness.at_home(path)))
            lists = [os.path.join(root, file) for root, _, files in os.walk(path) for file in files]
            expected = [] if written == "false" else [CLASSES[name.upper()]]
            environment.cell(f"{state} {name} class", expected, [get_class(file) for file in lists])

    mount = in_states(environment, judge)
    place = mount / f"{UNL}/in-a"
    mount.lock()
    with Program("porting-examples", "defaults", mount.path, "two", "wait", "three", "one", env=harness.at_home(place)) as program:
        environment.cell("locked", ["two: nil, false", "waiting"], [program.line(), program.line()])
        mount.unlock()
        environment.cell("unlocked", ["three: nil, true"], program.ask(""))
        environment.cell("what was there is there", ("one: set, true", 0), (program.line(), program.end()))
    environment.cell("merged", ["one: set, true", "two: set, true", "three: set, true"],
                     said(mount.path, "defaults", "one", "two", "three", env=harness.at_home(place)))


def test_downloads(environment):
    """A downloaded file that is moved into the mount takes the class of its directory, and none is lost when that is closed."""
    with served(environment.new_path("served"), file=b"served") as address:
        def judge(state, mount):
            for name in "abcd":
                refused = name in NOT_MADE[state]
                expected = ["class before: nil", f"moved: {writing(KINDS[name]) if refused else 'ok'}",
                            f"still there: {'true' if refused else 'false'}"]
                environment.cell(f"{state} {name}", expected,
                                 said(mount / state, "fetched", address + "file", f"in-{name}/fetched"))
                path = mount / f"{state}/in-{name}/fetched"
                environment.cell(f"{state} {name} class", None if refused else CLASSES[name.upper()],
                                 get_class(path) if os.path.exists(path) else None)

        mount = in_states(environment, judge)
        environment.cell("content", b"served", read_file(mount / f"{LCK}/in-b/fetched"))
        # With the temporary directory on the mount the file has that one's class, and a move keeps it.
        environment.cell("from a directory of class A", [f"class before: {A}", "moved: ok", "still there: false"],
                         said(mount.path, "fetched", address + "file", "kept", env={**os.environ, "TMPDIR": mount / f"{UNL}/in-a"}))
        environment.cell("the class is kept", (CLASSES["A"], b"served"), (get_class(mount / "kept"), read_file(mount / "kept")))
        mount.lock()
        ended = run(harness.program("porting-examples"), "fetched", mount.path, address + "file", "lost", ok=False,
                    env={**os.environ, "TMPDIR": mount / f"{UNL}/in-a", "SWIFT_BACKTRACE": "enable=no"})
        environment.cell("a closed temporary directory ends the process", True,
                         ended.returncode in (-signal.SIGILL, -signal.SIGTRAP, -signal.SIGABRT))


def test_mark_for_backups(environment):
    """isExcludedFromBackup, which Foundation on Linux drops, is an attribute that other programs can read."""
    def judge(state, mount):
        # Attributes are not closed with the content.
        expected = [line for name in "abcd" for line in (f"{name} before: false", f"{name} marked: ok", f"{name} after: true")]
        environment.cell(f"{state} marks", expected, said(mount / state, "marking", *"abcd"))

    mount = in_states(environment, judge)
    environment.cell("the attribute", b"false", os.getxattr(mount / f"{UNL}/a", "user.xdg.robots.backup"))
    os.symlink("nowhere", mount / f"{UNL}/link")
    environment.cell("taken back", ["unmarked: ok", "unmarked: ok", "after: false", "capacities: true",
                                    "missing: CocoaError 260 errno 2", "link reachable: true",
                                    "missing reachable: CocoaError 260 errno 2"],
                     said(mount / UNL, "unmarking", "a"))
    environment.cell("no attribute", ["user.protection"], os.listxattr(mount / f"{UNL}/a"))


def test_mark_by_nsurl(environment):
    """NSURL sets and gives the same mark."""
    def judge(state, mount):
        expected = ["before: false false 2", "one: ok", "after one: true true 2", "one back: ok",
                    "after one back: false false 2", "several: ok", "after several: true true 2", "nothing: ok",
                    "after nothing: true true 2"]
        lines = said(mount / state, "marksOfNSURL", "d")
        environment.cell(f"{state} marks", expected, lines[:-1])
        environment.cell(f"{state} the attribute", b"false", os.getxattr(mount / f"{state}/d", "user.xdg.robots.backup"))
        environment.cell(f"{state} a wrong value", True, lines[-1].startswith("wrong: ") and lines[-1] != "wrong: ok")

    in_states(environment, judge)
