"""The documents' examples as programs, on a mount that is unlocked, locked, or not yet unlocked."""

import os
import shutil
import subprocess

import harness
from harness import CLASSES, PAGE, get_class, outcome, read_file, run, set_class, wait_until, write_file
from porting_table import A, B, BFU, C, D, LCK, ROWS, STATES, UNL, reading, writing


def program():
    """The examples, built beside the program under test."""
    return harness.program("porting-examples")


def said(*words, **more):
    done = run(program(), *words, ok=False, **more)
    assert done.returncode == 0, (words, done.returncode, done.stderr)
    return done.stdout.splitlines()


def in_states(environment, prepare, judge):
    """judge(state, mount) in each state, after prepare(state, mount) while unlocked; gives the mount, unlocked again."""
    mount = environment.mount()
    for state in STATES:
        prepare(state, mount)
    judge(UNL, mount)
    mount.lock()
    judge(LCK, mount)
    mount = environment.remount(mount, unlock=False)
    judge(BFU, mount)
    mount.unlock()
    return mount


def no_debris(environment, mount):
    left = [name for _, folders, _ in os.walk(mount.path) for name in folders if "staging" in name]
    environment.cell("staging directories left", [], left)


def test_table(environment):
    """Every row of the table in every state: what is said, the classes left, and, once unlocked, the contents left."""
    has_database = said("database", environment.base)[0] != "built without SQLite"
    shutil.rmtree(os.path.join(environment.base, "database"), ignore_errors=True)
    if not has_database:
        environment.skip("database", "built without SQLite: install libsqlite3-dev")
    rows = [row for row in ROWS if has_database or row.name != "database"]

    def place(state, row, name=""):
        return os.path.join(state, row.name, name)

    def prepare(state, mount):
        for row in rows:
            os.makedirs(mount / place(state, row))
            for name, letter in row.before.items():
                write_file(mount / place(state, row, name), b"")
                set_class(mount / place(state, row, name), letter)
                write_file(mount / place(state, row, name), name.encode())
            if row.name == "database":
                said(row.name, mount / place(state, row))

    def judge(state, mount):
        for row in rows:
            environment.cell(f"{state} {row.name}", row.says[state],
                             said(row.name, mount / place(state, row), *row.words))
            for name, expected in (row.after or {}).get(state, {}).items():
                path = mount / place(state, row, name)
                found = get_class(path) if os.path.exists(path) else None
                environment.cell(f"{state} {row.name}: class of {name}", expected and CLASSES[expected[0]], found)
        no_debris(environment, mount)

    mount = in_states(environment, prepare, judge)
    for row in rows:
        for state in STATES:
            for name, expected in (row.after or {}).get(state, {}).items():
                if expected and expected[1] is not None:
                    environment.cell(f"{state} {row.name}: content of {name}", expected[1],
                                     read_file(mount / place(state, row, name)))


class Talk:
    """An example that is talked to: a line in, lines out."""

    def __init__(self, *words, **more):
        self.process = subprocess.Popen([program(), *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **more)

    def ask(self, text, lines=1):
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()
        return self.hear(lines)

    def hear(self, lines=1):
        return [self.process.stdout.readline().rstrip("\n") for _ in range(lines)]

    def end(self):
        """Closes its input; gives the rest of what it says."""
        rest, _ = self.process.communicate(timeout=harness.PATIENCE)
        return rest.splitlines(), self.process.returncode

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


def test_download(environment):
    """Example 4, class B: written on through a lock, closed, not opened again until unlock; begun in every state."""
    mount = environment.mount()
    with Talk("download", mount.path) as download:
        environment.cell("UNL", ["open", "write: ok"], download.hear() + download.ask("first "))
        environment.cell("UNL class", CLASSES["B"], get_class(mount / "download"))
        environment.cell("UNL whole", ["close: ok", "reopen: first "], download.ask("end", 2))
    with Talk("download", mount.path) as download:
        environment.cell("UNL again", ["open", "write: ok"], download.hear() + download.ask("first "))
        mount.lock()
        environment.cell("LCK", ["write: ok"], download.ask("second"))
        environment.cell("LCK end", ["close: ok", f"reopen: {reading(B)}"], download.ask("end", 2))
        mount.unlock()
        environment.cell("unlocked again", ["reopen: first second"], download.ask(""))
    # Begun in every state: createFile gives no handle, and the empty file is opened again.
    for state in (LCK, BFU):
        if state == LCK:
            mount.lock()
        else:
            mount = environment.remount(mount, unlock=False)
        with Talk("download", mount.path) as download:
            environment.cell(f"{state} begun", ["open", "write: ok"], download.hear() + download.ask(f"begun at {state}"))
            environment.cell(f"{state} ended", ["close: ok", f"reopen: {reading(B)}"], download.ask("end", 2))
            mount.unlock()
            environment.cell(f"{state} then unlocked", [f"reopen: begun at {state}"], download.ask(""))


def test_standard_directories(environment):
    """Example 11: at launch, with a home on the mount and one off it."""
    def judge(state, mount):
        lines = said("launch", mount.path, env=harness.at_home(mount / state))
        expected = []
        for number in range(3):
            expected += [f"protect {number}: ok", "new file: ok" if state == UNL else f"new file: {writing(A)}"]
            expected.append(f"class: {A}" if state == UNL else "class: CocoaError 260 errno 2")
        environment.cell(state, expected, lines)

    in_states(environment, lambda state, mount: os.mkdir(mount / state), judge)
    away = environment.new_path("home")
    os.makedirs(away)
    lines = said("launch", away, env=harness.at_home(away))
    environment.cell("off a mount", [f"protect {number}: notProtected" for number in range(3)], lines[::3])


def test_entitlement(environment):
    """Example 18: the root's default is the class of every file that names none; for each class, in each state."""
    closed = {UNL: "", LCK: "A", BFU: "AC"}

    def judge(state, mount):
        for letter, kind in zip("ABCD", (A, B, C, D)):
            mount.command("class", "set", kind, mount.path)
            name = f"{state} {letter}"
            if letter in closed[state]:
                environment.cell(name, [f"in place: {writing(kind)}", f"atomic: {writing(kind)}"],
                                 said("default", mount.path, name))
                environment.cell(f"{name} left", [], [found for found in os.listdir(mount.path) if found.startswith(name)])
            else:
                environment.cell(name, ["in place: ok", "atomic: ok"], said("default", mount.path, name))
                environment.cell(f"{name} classes", [CLASSES[letter]] * 2,
                                 [get_class(mount / name), get_class(mount / f"{name}.atomic")])
        no_debris(environment, mount)

    in_states(environment, lambda state, mount: None, judge)


def application(environment, form):
    """Example 16: the journal is closed before each lock and open after each unlock, and no entry is lost."""
    mount = environment.mount()
    path = mount / "journal"
    with Talk("application", mount.path, form) as journal:
        def settles(word):
            wait_until(lambda: journal.ask("?") == [word], what=f"the journal is {word}")

        environment.cell("UNL", ["entry: ok", "open"], journal.ask("one", 2))
        for number in range(2):
            # A minute's grace: the lock ends because the application has answered, and cuts nothing off.
            done = mount.command("lock", "--json", "--grace", "60", mount.path).stdout.replace(" ", "")
            environment.cell(f"LCK {number}: no handle is cut off", True, '"cutOff":0' in done)
            environment.cell(f"LCK {number}", ["entry: ok", "closed"], journal.ask(f"locked {number}", 2))
            environment.cell(f"LCK {number}: the file", "EACCES", outcome(read_file, path))
            mount.unlock()
            settles("open")
        environment.cell("UNL again", ["entry: ok", "open"], journal.ask("two", 2))
        environment.cell("its end", ([], 0), journal.end())
    environment.cell("class", CLASSES["A"], get_class(path))
    environment.cell("whole", b"one\nlocked 0\nlocked 1\ntwo\n", read_file(path))
    mount = environment.remount(mount, unlock=False)
    with Talk("application", mount.path, form) as journal:
        environment.cell("BFU", ["entry: ok", "closed"], journal.ask("before the first unlock", 2))
        environment.cell("BFU: the file", "EACCES", outcome(read_file, path))
        mount.unlock()
        wait_until(lambda: journal.ask("?") == ["open"], what="the journal is open")
        environment.cell("its end after BFU", ([], 0), journal.end())
    environment.cell("whole after BFU", b"one\nlocked 0\nlocked 1\ntwo\nbefore the first unlock\n", read_file(path))


def test_application_with_delegate(environment):
    application(environment, "delegate")


def test_application_with_delegate_elsewhere(environment):
    """Delegate methods come on the main queue, also where notifications come on another."""
    application(environment, "elsewhere")


def test_application_with_notifications(environment):
    application(environment, "notifications")


def test_application_with_notifications_and_dispatch_main(environment):
    """Observers on the main queue are told also where it is not on the main thread."""
    application(environment, "dispatchMain")


def test_application_that_asks_first(environment):
    """What changes between its question and the first event it is told all the same."""
    mount = environment.mount(unlock=False)
    with Talk("application", mount.path, "late", env=harness.at_home(mount.path)) as journal:
        environment.cell("BFU", ["false"], journal.hear())
        mount.unlock()
        journal.ask("", 0)
        wait_until(lambda: journal.ask("?") == ["open"], what="the journal is open")
        environment.cell("its end", ([], 0), journal.end())


def test_permissions(environment):
    """Missing permission is told apart from a lock; root becomes an ordinary user for this."""
    mount = environment.mount(options=["allow_other"] if os.geteuid() == 0 else [])
    os.chmod(mount.path, 0o755)
    examples, identity = program(), {}
    if os.geteuid() == 0:
        # The other user cannot read the repository.
        examples = shutil.copy(examples, os.path.join(environment.base, "examples"))
        identity = {"user": 1234, "group": 1234, "extra_groups": []}
    for folder in ("open", "denied"):
        os.mkdir(mount / folder)
        os.chmod(mount / folder, 0o755)
        write_file(mount / f"{folder}/existing", b"x" * PAGE)
        set_class(mount / f"{folder}/existing", "A")
        os.chmod(mount / f"{folder}/existing", 0o444 if folder == "open" else 0)

    def says(name, folder):
        return run(examples, name, mount / folder, **identity).stdout.splitlines()

    denied = "CocoaError 257 EACCES"
    refused = ["try?: nil", "not readable now, error 257", "catch: nil", f"data: {denied}", f"handle: {denied}",
               f"string: {denied}", "contents: nil"]
    environment.cell("UNL permitted", "data: ok", says("read", "open")[2])
    environment.cell("UNL denied", refused, says("read", "denied"))
    environment.cell("UNL denied to set", ["set: CocoaError 513 EACCES"], says("set", "open"))
    mount.lock()
    environment.cell("LCK closed", f"data: {reading(A)}", says("read", "open")[3])
    environment.cell("LCK denied", refused, says("read", "denied"))
    environment.cell("LCK denied to set", ["set: CocoaError 513 EACCES"], says("set", "open"))
