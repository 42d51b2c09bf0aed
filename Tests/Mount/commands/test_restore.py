"""The examples of docs/use/restore.md, word for word: whole volumes, a keybag, and one file from a snapshot of before a passphrase change."""

import os
import re
import subprocess

from harness import PASSPHRASE, PATIENCE, REPOSITORY, binary, outcome, pattern, protectfs, read_file, run, sync, write_file

NEW = "another horse battery staple"
LONG = "long " * 40
# What a person types at each prompt: the old passphrase for the snapshot's own keybag, else the new one.
SHELL = """
set -eu
protectfs() {
    case $1 in
    mount|inspect|fsck) ;;
    *) command "$BINARY" "$@"; return ;;
    esac
    local secret=$HOME/new word
    for word; do [ "$word" != --accept-keybag ] || secret=$HOME/old; done
    command "$BINARY" "$1" --passphrase-file "$secret" "${@:2}"
}
"""


def blocks(begin, end, count):
    """The blocks of commands between two headings of the document, in order."""
    with open(os.path.join(REPOSITORY, "docs/use/restore.md"), encoding="utf-8") as file:
        text = file.read()
    text = text[text.index(f"\n## {begin}\n"):text.index(f"\n## {end}\n") if end else None]
    found = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    assert len(found) == count, found
    return found


def examples():
    """Those for one file."""
    return blocks("One file", None, 3)


class Home:
    """A person's home with a volume, its snapshot of yesterday, and what happened since."""

    def __init__(self, environment):
        self.path = environment.new_path("home")
        self.data = os.path.join(self.path, ".local/state")
        for name in ("documents", "snapshots", ".local/state"):
            os.makedirs(os.path.join(self.path, name))
        for name, text in (("old", PASSPHRASE), ("new", NEW)):
            write_file(os.path.join(self.path, name), text.encode() + b"\n")
        self.variables = {**os.environ, "HOME": self.path, "BINARY": binary(), "XDG_STATE_HOME": self.data}
        self.run("init", "--passphrase-file", self / "old", self / ".documents")
        self.mount("old")
        self.yesterday()
        sync(self / "documents")
        run("cp", "-a", self / ".documents", self / "snapshots/yesterday")
        self.run("passphrase", "change", "--passphrase-file", self / "old", "--new-passphrase-file", self / "new", self / ".documents")
        self.today()

    def __truediv__(self, name):
        return os.path.join(self.path, name)

    def run(self, *words, ok=True):
        return protectfs(*words, env=self.variables, ok=ok)

    def mount(self, secret):
        self.run("mount", "--passphrase-file", self / secret, self / ".documents", self / "documents")

    def yesterday(self):
        for name in ("letters", "old"):
            os.mkdir(self / f"documents/{name}")
        diary = self / "documents/letters/diary.txt"
        write_file(diary, pattern(50_000, seed=1))
        os.setxattr(diary, "user.note", b"of yesterday")
        os.chmod(diary, 0o640)
        os.utime(diary, (1_600_000_000, 1_600_000_000))
        os.link(diary, self / "documents/letters/second name")
        write_file(self / "documents/letters/draft.txt", b"draft")
        write_file(self / f"documents/letters/{LONG}", b"long")
        write_file(self / "documents/old/list.txt", b"list")
        self.status = os.stat(diary)

    def today(self):
        """An editor saves by a rename, with another attribute; files and a directory are deleted."""
        saved = self / "documents/letters/saved"
        write_file(saved, b"of today")
        os.setxattr(saved, "user.other", b"of today")
        os.rename(saved, self / "documents/letters/diary.txt")
        os.unlink(self / "documents/letters/second name")
        for name in ("letters/draft.txt", f"letters/{LONG}", "old/list.txt"):
            os.unlink(self / f"documents/{name}")
        os.rmdir(self / "documents/old")
        os.mkdir(self / "documents/old")

    def follow(self, commands):
        """Types the commands; returns what they print."""
        done = subprocess.run(["bash", "-c", SHELL + commands], env=self.variables, stdin=subprocess.DEVNULL, timeout=PATIENCE,
                              capture_output=True, check=False)
        assert done.returncode == 0, (commands, done.stdout, done.stderr)
        return done.stdout

    def checked(self):
        """Unmounts, checks, and mounts again. Returns the exit code of fsck and its findings."""
        self.run("unmount", self / "documents")
        done = self.run("fsck", "--passphrase-file", self / "new", self / ".documents", ok=False)
        self.mount("new")
        return (done.returncode, re.findall(r"^(?:error|crash|note): .*", done.stdout, re.MULTILINE))

    def end(self):
        for name in ("documents", "yesterday"):
            if os.path.ismount(self / name):
                self.run("unmount", self / name)


def test_the_examples(environment):
    home = Home(environment)
    change, deleted, replaced = examples()
    try:
        said = home.follow(change)
        diary = home / "documents/letters/diary.txt"
        environment.cell("inspect verified it", True, b"/letters/diary.txt (verifies)" in said and b" verified." in said)
        environment.cell("fsck was content", True, b"0 errors" in said)
        environment.cell("it reads as yesterday", (True, True), (said.endswith(pattern(50_000, seed=1)),
                                                                 read_file(diary) == pattern(50_000, seed=1)))
        now = os.stat(diary)
        environment.cell("mode, owner, time", [home.status.st_mode, home.status.st_uid, home.status.st_mtime],
                         [now.st_mode, now.st_uid, now.st_mtime])
        environment.cell("its attributes, and none of today", [b"of yesterday", "ENODATA"],
                         [os.getxattr(diary, "user.note"), outcome(os.getxattr, diary, "user.other")])
        environment.cell("sound after the first", (0, []), home.checked())
        environment.cell("the deleted file", b"draft", home.follow(deleted)[-5:])
        home.follow(deleted.replace("draft.txt", f"'{LONG}'"))
        environment.cell("the deleted file with a long name", b"long", read_file(home / f"documents/letters/{LONG}"))
        environment.cell("sound after the second", (0, []), home.checked())
        # Today's keybag is the one that this machine remembers, before and after.
        home.follow(replaced)
        environment.cell("a file of the replaced directory", b"list", read_file(home / "documents/old/list.txt"))
        environment.cell("sound at the end", (0, []), home.checked())
    finally:
        home.end()


def test_why_the_examples_are_as_they_are(environment):
    """What the document warns of."""
    home = Home(environment)
    try:
        backing = home.run("path", home / "documents/letters/diary.txt").stdout.strip()
        entry = os.path.relpath(backing, os.path.realpath(home / ".documents"))
        old = home / f"snapshots/yesterday/{entry}"
        for name, code, words in (
                ("today's keys", 0, ["--volume", home / ".documents", "--passphrase-file", home / "new"]),
                ("the snapshot's keybag is older", 4, ["--passphrase-file", home / "old"]),
                ("accepted, with today's passphrase", 3, ["--accept-keybag", "--passphrase-file", home / "new"]),
                ("accepted, with the old one", 0, ["--accept-keybag", "--passphrase-file", home / "old"])):
            environment.cell(name, code, home.run("inspect", *words, old, ok=False).returncode)
        # A plain copy leaves today's attribute on yesterday's file.
        home.run("unmount", home / "documents")
        run("cp", "-a", old, backing)
        home.mount("new")
        environment.cell("without --remove-destination", 4, home.checked()[0])
        run("cp", "-a", "--remove-destination", old, backing)
        environment.cell("with it", 0, home.checked()[0])
        # The entry of a replaced directory does not decrypt in the new one.
        directory = home.run("path", home / "documents/old").stdout.strip()
        was = os.path.join(home / "snapshots/yesterday", os.path.relpath(directory, os.path.realpath(home / ".documents")))
        name = next(name for name in os.listdir(was) if not name.startswith("."))
        run("cp", "-a", os.path.join(was, name), directory)
        environment.cell("in a replaced directory", True, os.listdir(home / "documents/old")[0].startswith(".undecryptable-"))
    finally:
        home.end()


def test_a_directory_that_is_gone(environment):
    """A person types the steps for a deleted file, and its directory is deleted too: nothing is copied anywhere."""
    home = Home(environment)
    try:
        run("rm", "-r", home / "documents/letters")
        here = home / "here"
        os.mkdir(here)
        commands = examples()[1]
        subprocess.run(["bash", "--norc", "-i"], input=(SHELL.replace("set -eu", "") + f"cd {here}\n" + commands).encode(),
                       env=home.variables, timeout=PATIENCE, capture_output=True, check=False)
        environment.cell("nothing was copied here", [], os.listdir(here))
        if not os.path.ismount(home / "documents"):
            home.mount("new")
        environment.cell("the volume is as it was", (0, []), home.checked())
    finally:
        home.end()


def test_the_class_is_that_of_yesterday(environment):
    """A stronger class that was set since is lost with the older file, and inspect shows that."""
    home = Home(environment)
    try:
        diary = home / "documents/letters/diary.txt"
        home.run("class", "set", "complete", diary)
        backing = home.run("path", diary).stdout.strip()
        entry = os.path.relpath(backing, os.path.realpath(home / ".documents"))
        said = home.run("inspect", "--volume", home / ".documents", "--passphrase-file", home / "new", home / f"snapshots/yesterday/{entry}")
        environment.cell("inspect shows it", True, "completeUntilFirstUserAuthentication (C)" in said.stdout)
        home.follow(examples()[0])
        environment.cell("the class", b"completeUntilFirstUserAuthentication", os.getxattr(diary, "user.protection"))
        home.run("class", "set", "complete", diary)
        environment.cell("set again", (b"complete", True), (os.getxattr(diary, "user.protection"), read_file(diary) == pattern(50_000, seed=1)))
        environment.cell("sound", 0, home.checked()[0])
    finally:
        home.end()
