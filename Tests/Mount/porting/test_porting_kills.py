"""A program killed at every system call of a write through FileProtection: no partial file, and no weaker class.

Each case has the files before the call and after it. At whichever call the program is killed, every path must be as before
or as after, with its class. Only where Foundation writes in place may the content be the beginning of the new one. A file
in staging has its class before its first byte, and is gone after the next write beside it.
"""

import os
import shutil

import harness
import kills
from checks import everything, report
from harness import get_class, read_file, set_class, write_file
from talk import Program

OLD, NEW = b"old" * 3000, b"new" * 3000
STRENGTH = "DCBA"
CLASSES = {letter: harness.CLASSES[letter] for letter in "ABCD"}
LETTERS = {name: letter for letter, name in CLASSES.items()}


class Directory:
    """Stands where a file has its content."""


class Begun:
    """The new content or its beginning, as a write in place leaves it."""


class Case:
    """One call: its words with {} for the folder, what is there before and after, what else may be there between."""

    def __init__(self, words, before, after, between=(), default="D", links=(), one_of=()):
        self.words, self.before, self.after, self.between = words, before, after, between
        self.default, self.links, self.one_of = default, links, one_of
        # What is staged becomes one of these: by how the content begins, the weakest class that it may have.
        self.floors = {}
        for letter, content in after.values():
            if content not in (Directory, Begun):
                self.floors[content[:3]] = min(letter, self.floors.get(content[:3], letter), key=STRENGTH.index)

    def __str__(self):
        had = ", ".join(f"{name} {letter}" for name, (letter, _) in self.before.items())
        return f"{' '.join(self.words)} ({had or 'nothing'} before)"

    def make(self, folder):
        os.mkdir(folder)
        set_class(folder, self.default)
        for name, (letter, content) in self.before.items():
            path = os.path.join(folder, name)
            if content is Directory:
                os.mkdir(path)
            else:
                write_file(path, b"")
            set_class(path, letter)
            if content is not Directory:
                write_file(path, content)
        for name, link in self.links:
            os.unlink(os.path.join(folder, link))
            os.link(os.path.join(folder, name), os.path.join(folder, link))

    def allows(self, name, found):
        """Whether a path may be so: None, or class and content."""
        for entry in (self.before.get(name), self.after.get(name), *(entry for at, entry in self.between if at == name)):
            if entry == found:
                return True
            if entry and found and entry[0] == found[0]:
                if found[1] is None or entry[1] is Begun and found[1] is not Directory and NEW.startswith(found[1]):
                    return True
        return False


def look(folder):
    """(objects in the folder by path, objects in staging directories)."""
    found, staged = {}, []
    for place, directories, files in os.walk(folder):
        for name in directories + files:
            path = os.path.join(place, name)
            relative = os.path.relpath(path, folder)
            content = Directory
            if name in files:
                try:
                    content = read_file(path)
                except PermissionError:
                    content = None
            letter = LETTERS[get_class(path)] if "staging" not in name or name in files else None
            if "staging" in relative:
                staged.append((relative, letter, content))
            else:
                found[relative] = (letter, content)
    return found, staged


class Run:
    def __init__(self, environment, mount, name):
        self.environment, self.mount, self.folder = environment, mount, mount / name
        self.program = harness.program("porting-kills")
        self.server = Program("porting-kills", "serve")
        self.killed = self.left = 0
        self.step = 1 if environment.mode == "full" else 13

    def ask(self, *words):
        answers = self.server.ask("\t".join(words))
        assert answers == ["done"], answers

    def clear(self):
        shutil.rmtree(self.folder)

    def run(self, case, offset=0):
        """Kills it at every call, from the first one until it comes to its end."""
        words = [word.format(self.folder) for word in case.words]
        number, wrong = 1 + offset % self.step, set()
        while True:
            case.make(self.folder)
            call = kills.Traced([self.program, *words], waits=True).kill_at(number)
            wrong |= {f"call {number} ({call}): {line}" for line in self.judge(case, ended=call is None)}
            self.clear()
            if call is None:
                break
            self.killed += 1
            number += self.step
        self.environment.cell(str(case), set(), wrong)

    def judge(self, case, ended):
        found, staged = look(self.folder)
        for name in {*found, *case.before, *case.after}:
            if ended and not same(found.get(name), case.after.get(name)):
                yield f"{name} is {brief(found.get(name))} at the end"
            elif not case.allows(name, found.get(name)):
                yield f"{name} is {brief(found.get(name))}"
        if case.one_of and not any(name in found for name in case.one_of):
            yield "nothing is left"
        for name, letter, content in staged:
            # A staging directory may be seen before its default is set: nothing is made in it until then.
            if content is not Directory:
                floor = case.floors.get((content or b"")[:3], min(case.floors.values(), key=STRENGTH.index))
                if STRENGTH.index(letter) < STRENGTH.index(floor):
                    yield f"{name} is {brief((letter, content))} in staging"
        places = {os.path.dirname(name[:name.index(".protectfs-staging")]) for name, _, _ in staged}
        self.left += bool(places)
        if ended and places:
            yield "something is left in staging"
        for place in places:
            next_file = os.path.join(self.folder, place, "next")
            self.ask("atomic", "-", next_file)
            os.unlink(next_file)
        if places and look(self.folder)[1]:
            yield "debris after the next write"

    def close(self):
        with self.server:
            self.server.end()
        print(f"        killed at {self.killed} calls, {self.left} times with something in staging")
        self.environment.cell("some were killed with something staged", True, self.left > 0)


def same(found, wanted):
    return found == wanted or bool(found and wanted) and found[0] == wanted[0] and (
        found[1] is None or wanted[1] is Begun and found[1] == NEW)


def brief(entry):
    if entry is None or entry[1] is Directory:
        return entry and f"a directory of {entry[0]}"
    content = entry[1]
    if content is None:
        return f"closed, {entry[0]}"
    return f"{len(content)} bytes of {content[:3]}, {entry[0]}"


def test_left_for_fsck(environment):
    """Where nobody writes again: fsck says so, and --repair takes it out of the tree and destroys nothing. Here it is a file."""
    mount = environment.mount()
    case = Case(["atomic", "A", "{}/file"], {"file": ("A", OLD)}, {"file": ("A", NEW)})
    words = [word.format(mount / "folder") for word in case.words]
    number = 0
    while not any(content == NEW for _, _, content in look(mount / "folder")[1]):
        shutil.rmtree(mount / "folder", ignore_errors=True)
        case.make(mount / "folder")
        number += 1
        call = kills.Traced([harness.program("porting-kills"), *words], waits=True).kill_at(number)
        assert call is not None, "never seen in staging"
    mount.unmount()
    before = everything(mount.volume.path)
    staging = f"folder/.protectfs-staging-{os.geteuid()}"

    def check(*words):
        code, answer = report(mount.volume, *words)
        return code, [(row["severity"], row["kind"], row["path"]) for row in answer["findings"]], [
            (row["action"], row["path"]) for row in answer["repairs"]], answer["tidied"]

    note = [("note", "staging", staging)]
    environment.cell("fsck tells of it", (0, note, [], 0), check())
    environment.cell("and lets it be", sorted(before), sorted(everything(mount.volume.path)))
    environment.cell("--repair moves it", (1, note, [("moved", staging)], 1), check("--repair"))
    after = everything(mount.volume.path)
    environment.cell("no byte is lost", [], [item[:20] for item in before if item not in after])
    environment.cell("nothing is left to say", (0, [], [], 0), check("--repair"))
    mount = environment.mount(mount.volume, path=mount.path)
    environment.cell("what is there", ({"file": ("A", OLD)}, []), look(mount / "folder"))


def write_cases():
    """Data.write with each option, or none, of a new file and over each class."""
    for option in "-ABCD":
        for old in "-ABCD":
            before = {} if old == "-" else {"file": (old, OLD)}
            default = "A" if option == "-" and old == "-" else "D"
            asked = option if option != "-" else default if old == "-" else old
            yield Case(["atomic", option, "{}/file"], before, {"file": (asked, NEW)}, default=default)
            in_place = option == "-" or option == old
            yield Case(["in-place", option, "{}/file"], before, {"file": (asked, Begun if in_place else NEW)},
                       default=default)


def test_writes(environment):
    """Data.write with each of the options and none, atomically and not, of a new file and over one of each class."""
    run = Run(environment, environment.mount(), "folder")
    try:
        for number, case in enumerate(write_cases()):
            run.run(case, number)
        # Both names have to stay one file, so it is written in place, in the class that it is given first.
        run.step = 1
        for option, old in ("AD", "DA"):
            wanted = (option, Begun)
            # The old content must never have the weaker class, so that one is set when the file is empty.
            state = (old, Begun) if option == "D" else (option, OLD)
            run.run(Case(["in-place", option, "{}/file"], dict.fromkeys(["file", "link"], (old, OLD)),
                         dict.fromkeys(["file", "link"], wanted), [(name, state) for name in ("file", "link")],
                         links=[("file", "link")]), 1)
    finally:
        run.close()


def test_writes_while_locked(environment):
    """Of the classes that can be written while locked, and before the first unlock."""
    mount = environment.mount()
    run = Run(environment, mount, "folder")
    # Few calls leave something in staging.
    run.step = min(run.step, 2)
    try:
        for open_classes in ("CD", "D"):
            if open_classes == "CD":
                mount.lock()
            else:
                environment.remount(mount, unlock=False)
            for case in write_cases():
                option, old = case.words[1], case.before.get("file", "-")[0]
                made = option in open_classes or option == "B" and (case.words[0] == "atomic" or old == "-")
                if made and old in "-" + open_classes:
                    run.run(case, 3)
    finally:
        run.close()


def file_cases():
    for letter in CLASSES:
        for old in ("-", "D", "A"):
            yield Case(["create", letter, "{}/file"], {} if old == "-" else {"file": (old, OLD)}, {"file": (letter, NEW)})
        yield Case(["copy", "{}/from", "{}/to"], {"from": (letter, NEW)}, {"from": (letter, NEW), "to": (letter, NEW)})
        yield Case(["move", "{}/from", "{}/to"], {"from": (letter, NEW)}, {"to": (letter, NEW)}, one_of=("from", "to"))
        yield Case(["directory", letter, "{}/above/made"], {},
                   {"above": (letter, Directory), "above/made": (letter, Directory)})
    yield Case(["directory", "A", "{}/made"], {"made": ("C", Directory)}, {"made": ("A", Directory)})
    for old, letter in ("DC", "DB", "DA", "CB", "CA", "BA"):
        yield Case(["attributes", letter, "{}/file"], {"file": (old, OLD)}, {"file": (letter, OLD)})
    tree = {"": ("A", Directory), "/one": ("A", OLD), "/two": ("D", b"two" * 3000), "/sub": ("B", Directory), "/sub/three": ("B", NEW)}
    there, copied = ({place + name: entry for name, entry in tree.items()} for place in ("from", "to"))
    yield Case(["copy", "{}/from", "{}/to"], there, {**there, **copied})
    yield Case(["move", "{}/from", "{}/to"], there, copied, one_of=("from", "to"))
    for old in CLASSES:
        for new in CLASSES:
            yield Case(["replace", "{}/file", "{}/new"], {"file": (old, OLD), "new": (new, NEW)}, {"file": (old, NEW)})
    yield Case(["replace", "{}/file", "{}/new", "backup"], {"file": ("A", OLD), "new": ("D", NEW)}, {"file": ("A", NEW)},
               [("backup", ("A", OLD))])


def test_files(environment):
    """FileManager: createFile, setAttributes, createDirectory, copyItem, moveItem, replaceItemAt."""
    run = Run(environment, environment.mount(), "folder")
    try:
        for number, case in enumerate(file_cases()):
            run.run(case, number)
    finally:
        run.close()


def test_to_another_mount(environment):
    """A move between two protected mounts is a copy: one of both is whole at any instant."""
    first, second = environment.mount(), environment.mount()
    run = Run(environment, first, "folder")
    try:
        for letter in CLASSES:
            moves(run, second / "folder", letter)
    finally:
        run.close()


def moves(run, other, letter):
    source = Case(["move", "{}/file", os.path.join(other, "file")], {"file": (letter, NEW)}, {})
    target = Case([], {}, {"file": (letter, NEW)})
    number = 1
    while True:
        source.make(run.folder)
        target.make(other)
        call = kills.Traced([run.program, "move", run.folder + "/file", other + "/file"], waits=True).kill_at(number)
        here, _ = look(run.folder)
        there, staged = look(other)
        name = f"move {letter}, call {number} ({call})"
        run.environment.cell(f"{name}: as before or as after", True,
                             source.allows("file", here.get("file")) and target.allows("file", there.get("file")))
        run.environment.cell(f"{name}: one is whole", True, "file" in here or "file" in there)
        run.environment.cell(f"{name}: class in staging", set(),
                             {found for _, found, content in staged if content is not Directory} - {letter})
        if staged:
            run.left += 1
            run.ask("atomic", "-", other + "/next")
            run.environment.cell(f"{name}: no debris", [], look(other)[1])
        shutil.rmtree(run.folder)
        shutil.rmtree(other)
        if call is None:
            run.environment.cell(f"{name}: moved", (True, False), ("file" in there, "file" in here))
            return
        run.killed += 1
        number += run.step


# All of the calls, beside other work.
test_writes.time_limit = test_files.time_limit = test_to_another_mount.time_limit = 1200
