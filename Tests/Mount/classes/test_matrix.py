"""The class × state table: every cell, through system calls on a mount."""

import os

import ciphers
import operations_on_names  # noqa: its rows come with it
from harness import wait_until
from operations import ROWS, Subject

# The table of the semantics: what happens before first unlock (BFU) and while locked (LCK). Unlocked, and for class D
# always, everything works; class C is closed at BFU only. Class 7 obeys the column of C until its time after a lock has run
# out (OUT), and that of A from then on and at BFU. "-": such a handle cannot exist.
TABLE = """
row                        C at BFU   B at BFU/LCK   A at BFU/LCK
open                       EACCES     EACCES         EACCES
open an empty file to write EACCES    works          EACCES
open an empty file to read EACCES     EACCES         EACCES
create                     EACCES     works          EACCES
handle                     -          works          EACCES
mapped                     -          works          SIGBUS
truncate                   EACCES     EACCES         EACCES
size of an open handle     -          works          EACCES
stat                       works      works          works
names                      works      works          works
attributes                 works      works          works
handles without content    -          works          works
"""


def parse(table):
    rows = {}
    for line in table.strip().splitlines()[1:]:
        words = line.split()
        rows[" ".join(words[:-3])] = dict(zip("CBA", words[-3:]))
    return rows


EXPECTED = parse(TABLE)


def expected(row, letter, state, shared=False):
    if state == "UNL" or letter == "D" or (letter == "C" and state != "BFU") or (letter == "7" and state == "LCK"):
        return "works"
    # Another machine may have an empty file open, under the key that it has.
    if shared and row == "open an empty file to write":
        row = "open"
    return EXPECTED[row]["A" if letter == "7" else letter]


def closed(mount):
    """Waits until the time of class 7 after a lock has run out."""
    wait_until(lambda: os.getxattr(mount.path, "user.protectfs.state.inactive") == b"locked", what="class 7 to be closed")


def advance(generator):
    """The generator's next outcome; its failed check as text."""
    try:
        return next(generator, None)
    except AssertionError as error:
        return f"wrong: {error}"
    except OSError as error:
        return f"wrong: {error}"


def cells(mount, state, letters, handle):
    """A started generator for every cell of these classes; handle: only those with (without) handles from before."""
    for letter in letters:
        for row, operations in ROWS.items():
            for name, function, needs_handle in operations:
                if handle is None or needs_handle == handle:
                    subject = Subject(mount, letter, f"{state}-{row}-{name}".replace("/", "_"))
                    generator = function(subject)
                    problem = advance(generator)
                    yield row, letter, name, subject, generator, problem


def judge(environment, state, started, then=lambda: None, shared=False):
    """Acts in every cell, compares, goes back to unlocked by `then`, and checks what the files hold."""
    acted = []
    for row, letter, name, subject, generator, problem in started:
        result = problem or advance(generator)
        environment.cell(f"[{state} {letter} {row}: {name}]", expected(row, letter, state, shared), result)
        acted.append((row, letter, name, subject, generator, result))
    then()
    for row, letter, name, subject, generator, result in acted:
        if result and not result.startswith("wrong"):
            environment.cell(f"[{state} {letter} {row}: {name}, afterwards]", None, advance(generator))
        subject.close()


def test_every_operation_has_a_row(environment):
    assert set(ROWS) == set(EXPECTED), set(ROWS) ^ set(EXPECTED)


def test_unlocked(environment):
    mount = environment.mount()
    judge(environment, "UNL", list(cells(mount, "UNL", "ABC7D", None)))


def test_locked(environment):
    mount = environment.mount()
    started = list(cells(mount, "LCK", "ABC7D", None))
    mount.lock()
    assert mount.state() == "locked"
    judge(environment, "LCK", started, mount.unlock)


def test_time_has_run_out(environment):
    """Class 7 some seconds after a lock: closed like A; the others as the lock has left them."""
    mount = environment.mount(options=["inactive=1"])
    started = list(cells(mount, "OUT", "ABC7D", None))
    mount.lock()
    closed(mount)
    assert mount.state() == "locked"
    judge(environment, "OUT", started, mount.unlock)


def test_no_time(environment):
    """With inactive=0 class 7 is closed when the lock is."""
    mount = environment.mount(options=["inactive=0"])
    started = list(cells(mount, "OUT", "7", None))
    mount.lock()
    judge(environment, "OUT", started, mount.unlock)


def test_time_has_run_out_twice(environment):
    """Closed, opened by an unlock, and closed again: handles from before both."""
    mount = environment.mount(options=["inactive=0"])
    started = list(cells(mount, "OUT", "7", True))
    for _ in range(2):
        mount.lock()
        mount.unlock()
    mount.lock()
    judge(environment, "OUT", started, mount.unlock)


def test_locked_twice(environment):
    """Locked, unlocked and locked again: handles from before both locks."""
    mount = environment.mount()
    started = list(cells(mount, "LCK", "AB", True))
    for _ in range(2):
        mount.lock()
        mount.unlock()
    mount.lock()
    judge(environment, "LCK", started, mount.unlock)


def test_before_first_unlock(environment):
    """Files from an earlier mount; handles only where a class lets them be made now."""
    mount = environment.mount()
    started = list(cells(mount, "BFU", "ABC7D", False))
    mount = environment.remount(mount, unlock=False)
    assert mount.state() == "before-first-unlock"
    started += cells(mount, "BFU", "BD", True)
    judge(environment, "BFU", started, mount.unlock)


def test_locked_with_xchacha(environment):
    mount = ciphers.xchacha(environment)
    started = list(cells(mount, "LCK", "ABC7D", None))
    mount.lock()
    judge(environment, "LCK", started, mount.unlock)


def test_before_first_unlock_with_xchacha(environment):
    mount = ciphers.xchacha(environment)
    started = list(cells(mount, "BFU", "ABC7D", False))
    mount = environment.remount(mount, unlock=False)
    started += cells(mount, "BFU", "BD", True)
    judge(environment, "BFU", started, mount.unlock)


def test_locked_shared(environment):
    """The same on a mount that other machines write too: no write-back, short lifetimes."""
    mount = environment.mount(options=["shared"])
    started = list(cells(mount, "LCK", "ABCD", None))
    mount.lock()
    judge(environment, "LCK", started, mount.unlock, shared=True)


def test_time_has_run_out_shared(environment):
    mount = environment.mount(options=["shared", "inactive=0"])
    started = list(cells(mount, "OUT", "7", None))
    mount.lock()
    judge(environment, "OUT", started, mount.unlock)


def test_before_first_unlock_shared(environment):
    mount = environment.mount(options=["shared"])
    started = list(cells(mount, "BFU", "ABC7D", False))
    mount = environment.remount(mount, unlock=False, options=["shared"])
    started += cells(mount, "BFU", "BD", True)
    judge(environment, "BFU", started, mount.unlock, shared=True)
