"""Incremental backups of a store, by the programs that people use: after each change that the daemon makes by itself, and that
keeps the length of a file, the backup has the right content in the right class on a machine that has never seen the volume."""

import os

import harness
from backups import EVERYWHERE, TOOLS, WITHOUT_ATTRIBUTES, on_a_fresh_machine, tools
from frozen import Case, LoopStore
from harness import CLASSES, get_class, make_file, pattern, protectfs, read_file, set_class, sync, write_file
from late import late_files, lock_late
from rotation import rotate, take_code

OLD = 1_500_000_000_123_456_789
LONG = "long " * 40


class Story:
    """A volume, and what happens to it. Each step leaves it in the store as a backup may find it."""

    def __init__(self, environment):
        self.environment, self.store = environment, LoopStore(environment, size=256 << 20)
        self.volume = self.store.volume
        self.contents, self.classes, self.notes = {}, {}, {}
        self.mount = environment.mount(self.volume)
        for first in CLASSES:
            for last in CLASSES:
                self.write(f"{first} to {last}", first)
        for name in ("exposed", "replaced", "noted", "mended", LONG):
            self.write(name, "C")
        os.mkdir(self.mount / "directory")
        os.symlink("target", self.mount / "link")
        set_class(self.mount / "exposed", "A")
        self.classes["exposed"] = CLASSES["A"]
        self.note(b"before")
        self.age()

    def write(self, name, letter):
        self.contents[name] = pattern(5000 + len(self.contents), seed=len(self.contents))
        make_file(self.mount / name, letter, self.contents[name])
        self.classes[name] = CLASSES[letter]

    def note(self, value):
        self.notes["noted"] = value
        os.setxattr(self.mount / "noted", "user.note", value)

    def age(self):
        """All files are old for programs, and nearly all in the store: no tool copies one because it is new."""
        for name in self.contents:
            os.utime(self.mount / name, ns=(OLD, OLD))
        self.mount.sync()

    def end(self):
        if self.mount.is_mounted:
            self.mount.unmount()
        self.store.close()

    # The steps.

    def change_classes(self):
        for first in CLASSES:
            for last in CLASSES:
                set_class(self.mount / f"{first} to {last}", last)
                self.classes[f"{first} to {last}"] = CLASSES[last]
        set_class(self.mount / "directory", "A")
        self.classes["directory"] = CLASSES["A"]

    def encrypt_anew(self):
        self.mount.command("class", "set", "--reencrypt", "A", self.mount / "exposed")

    def replace(self):
        """By a file of the same length and time: a copy that keeps times, moved from a directory of another class."""
        os.mkdir(self.mount / "strong")
        set_class(self.mount / "strong", "A")
        length = len(self.contents["replaced"])
        write_file(self.mount / "strong/new", bytes(length))
        os.utime(self.mount / "strong/new", ns=(OLD, OLD))
        os.rename(self.mount / "strong/new", self.mount / "replaced")
        self.contents["replaced"], self.classes["replaced"] = bytes(length), CLASSES["A"]

    def set_attribute(self):
        self.note(b"afterwards")

    def crash(self):
        with open(self.mount / "mended", "r+b", buffering=0) as file:
            file.write(b"changed")
            os.fsync(file.fileno())
            self.mount.crash()
        self.contents["mended"] = b"changed" + self.contents["mended"][7:]
        sync(self.store.backing)

    def repair(self):
        protectfs("fsck", "--repair", "--recovery-file", self.volume.code_file, self.volume.path, env=self.volume.environment)

    def use_recovery(self):
        protectfs("recovery", "use", "--recovery-file", self.volume.code_file, "--new-passphrase-file",
                  self.volume.passphrase_file, self.volume.path, env=self.volume.environment)

    def rotate(self):
        take_code(self.environment, self.volume, rotate(self.volume))

    def rotate_mounted(self):
        self.mount = self.environment.mount(self.volume, path=self.mount.path)
        self.rotate()

    def write_late(self):
        case = self.case = Case(self.mount, self.store.backing, "class", 1)
        self.contents["class file"], self.classes["class file"] = pattern(case.LENGTH, 1), CLASSES["A"]
        lock_late(self.environment, case, "late records")
        self.environment.cell("a late file waits", 1, len(late_files(self.volume)))

    def apply_late(self):
        self.mount.unlock()
        self.environment.cell("late records: pages after the unlock", self.case.PAGES, self.case.count())
        self.case.holder.close()


STEPS = {
    "class changes": Story.change_classes,
    "re-encryption": Story.encrypt_anew,
    "replaced file": Story.replace,
    "crash": Story.crash,
    "repair": Story.repair,
    "recovery use": Story.use_recovery,
    "rotation": Story.rotate,
    "rotation, mounted": Story.rotate_mounted,
    "late records wait": Story.write_late,
    "late records applied": Story.apply_late,
    "attributes": Story.set_attribute,
}

# The reasons are in docs/use/restore.md.
NOT_SEEN = {("attributes", "cp -au"): ["noted: attribute: b'before'"]}
# These take longest. They look at the change time, which nothing can keep: only --full has them back up after each step.
AFTER_ALL = ("restic", "borg")


def differences(story, mount, has_attributes):
    """What is wrong in a restored backup."""
    wanted = {(name, "content"): content for name, content in story.contents.items()}
    wanted.update(((name, "class"), one) for name, one in story.classes.items())
    if has_attributes:
        wanted.update(((name, "attribute"), one) for name, one in story.notes.items())
    look = {"content": read_file, "class": get_class, "attribute": lambda path: os.getxattr(path, "user.note")}
    wrong = []
    for (name, kind), value in wanted.items():
        try:
            found = look[kind](mount / name)
        except OSError as error:
            found = error.strerror
        if found != value:
            wrong.append(f"{name}: {kind}" + ("" if kind == "content" and isinstance(found, bytes) else f": {found}"))
    return sorted(wrong)


def tell(environment, names):
    found, story = tools(environment, names), Story(environment)
    try:
        for tool in found.values():
            tool.back_up(story.volume.path)
        for step, act in STEPS.items():
            act(story)
            if story.mount.is_mounted and story.mount.state() == "unlocked":
                story.mount.sync()
            for name, tool in found.items():
                if name in AFTER_ALL and environment.mode != "full" and act != Story.set_attribute:
                    continue
                tool.back_up(story.volume.path)
                mount = on_a_fresh_machine(environment, tool, story.volume.code_file)
                environment.cell(f"{step}, {name}", NOT_SEEN.get((step, name), []),
                                 differences(story, mount, name not in WITHOUT_ATTRIBUTES))
                mount.unmount()
    finally:
        story.end()


def test_always_there(environment):
    tell(environment, EVERYWHERE)


def test_others(environment):
    tell(environment, [name for name in TOOLS if name not in EVERYWHERE])
