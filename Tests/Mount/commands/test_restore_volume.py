"""The examples of docs/use/restore.md for a whole volume and for its keybag, word for word, on machines that know the volume or not."""

import os
import shutil
import subprocess

from harness import PASSPHRASE, PATIENCE, binary, pattern, protectfs, read_file, set_class, write_file
from test_restore import blocks

NEW = "another horse battery staple"
# What a person types at each prompt: the passphrase of this time, or the recovery code and a new passphrase.
SHELL = """
set -eu
protectfs() {
    case "$1 ${2-}" in
    "recovery use") command "$BINARY" recovery use --recovery-file "$HOME/code" --new-passphrase-file "$HOME/new" "${@:3}" ;;
    "keybag import") command "$BINARY" keybag import --recovery-file "$HOME/code" "${@:3}" ;;
    "mount "*|"fsck "*) command "$BINARY" "$1" --passphrase-file "$HOME/now" "${@:2}" ;;
    *) command "$BINARY" "$@" ;;
    esac
}
"""


class Machine:
    """A home without anything but the places of the document: a mount point, and media that other machines have, too."""

    def __init__(self, environment, media=None):
        self.path = environment.new_path("home")
        self.media = media or environment.new_path("media")
        self.variables = {**os.environ, "HOME": self.path, "BINARY": binary(), "XDG_STATE_HOME": os.path.join(self.path, ".local/state")}
        for name in (self / "documents", self.media + "/stick", self.media + "/backup"):
            os.makedirs(name, exist_ok=True)
        for name, text in (("now", PASSPHRASE), ("new", NEW)):
            write_file(self / name, text.encode() + b"\n")

    def __truediv__(self, name):
        return os.path.join(self.path, name)

    def run(self, *words, ok=True):
        return protectfs(*words, env=self.variables, ok=ok)

    def follow(self, commands, ok=True):
        """Types the commands, as on a machine whose media are at the document's places."""
        commands = commands.replace("/media/", self.media + "/")
        done = subprocess.run(["bash", "-c", SHELL + commands], env=self.variables, stdin=subprocess.DEVNULL, timeout=PATIENCE,
                              capture_output=True, check=False)
        assert not ok or done.returncode == 0, (commands, done.stdout, done.stderr)
        return done

    def use(self, name):
        """From now on this secret is the one that is typed."""
        shutil.copyfile(self / name, self / "now")

    def has(self, environment, name):
        environment.cell(f"{name}: the files", (pattern(50_000, seed=1), b"complete"),
                         (read_file(self / "documents/letters/diary.txt"), os.getxattr(self / "documents/letters/diary.txt", "user.protection")))
        self.run("unmount", self / "documents")
        done = self.run("fsck", "--passphrase-file", self / "now", self / ".documents", ok=False)
        environment.cell(f"{name}: sound", (0, True), (done.returncode, "0 errors" in done.stdout))


def backed_up(environment):
    """A machine with a volume, and the media after the document's backup."""
    machine = Machine(environment)
    made = machine.run("init", "--json", "--passphrase-file", machine / "now", machine / ".documents")
    code = made.stdout.split('"recoveryCode":"')[1].split('"')[0]
    write_file(machine / "code", code.encode() + b"\n")
    machine.run("mount", "--passphrase-file", machine / "now", machine / ".documents", machine / "documents")
    os.mkdir(machine / "documents/letters")
    write_file(machine / "documents/letters/diary.txt", b"")
    set_class(machine / "documents/letters/diary.txt", "A")
    write_file(machine / "documents/letters/diary.txt", pattern(50_000, seed=1))
    backup, = blocks("What to back up", "A whole volume", 1)
    machine.follow(backup)
    machine.run("unmount", machine / "documents")
    return machine


def elsewhere(environment, machine):
    """A new machine with the person's media, and what the person knows."""
    other = Machine(environment, machine.media)
    shutil.copyfile(machine / "code", other / "code")
    return other


def test_a_new_machine(environment):
    machine = backed_up(environment)
    by_code, by_key, _ = blocks("A whole volume", "The keybag alone", 3)
    other = elsewhere(environment, machine)
    # The new passphrase is typed from the second command on.
    first, second, rest = by_code.split("\n", 2)
    other.follow(first + "\n" + second)
    other.use("new")
    other.follow(rest)
    other.has(environment, "recovery code")
    other = elsewhere(environment, machine)
    other.follow(by_key)
    other.has(environment, "device key")
    # The document says that the key is not needed with the code, and the passphrase alone is not enough.
    other = elsewhere(environment, machine)
    done = other.follow(by_key.replace("cp /media/stick/*.key", ": "), ok=False)
    environment.cell("without the key", (True, True), (done.returncode != 0, b"recovery use" in done.stderr))


def test_in_place(environment):
    """An older backup in place of today's store: after a changed passphrase, and after `recovery use` on this machine."""
    *_, in_place = blocks("A whole volume", "The keybag alone", 3)
    for name in ("passphrase change", "recovery use"):
        machine = backed_up(environment)
        if name == "recovery use":
            machine.follow("protectfs recovery use ~/.documents")
        else:
            machine.run("passphrase", "change", "--passphrase-file", machine / "now", "--new-passphrase-file", machine / "new", machine / ".documents")
        done = machine.follow(in_place.replace("--accept-keybag ", ""), ok=False)
        environment.cell(f"{name}: refused without the word", (True, True), (done.returncode != 0, b"--accept-keybag" in done.stderr))
        shutil.rmtree(machine / ".documents")
        os.rename(machine / ".documents.broken", machine / ".documents")
        machine.follow(in_place)
        machine.has(environment, name)


def test_the_keybag_alone(environment):
    machine = backed_up(environment)
    commands, = blocks("The keybag alone", "One file", 1)
    for name, damage in (("lost", os.unlink), ("cut off", lambda path: os.truncate(path, 100))):
        damage(machine / ".documents/.protectfs.keybag")
        machine.follow(commands)
        machine.has(environment, name)
    # What the document says of a store that has only the one from before the last change.
    os.rename(machine / ".documents/.protectfs.keybag", machine / ".documents/.protectfs.keybag.old")
    machine.follow("protectfs keybag import ~/.documents ~/.documents/.protectfs.keybag.old")
    machine.follow(commands.split("\n", 1)[1])
    machine.has(environment, "only the previous one")


def test_a_backup_at_another_path(environment):
    """It is a copy, and mounted for the first time only if somebody says so."""
    machine = backed_up(environment)
    machine.follow("protectfs mount ~/.documents ~/documents")
    os.mkdir(machine / "other")
    done = machine.follow("cp -a /media/backup/documents ~/restored; protectfs mount ~/restored ~/other", ok=False)
    environment.cell("refused", (6, True), (done.returncode, b"--accept-copy" in done.stderr))
    machine.follow("protectfs mount -o ro ~/restored ~/other")
    machine.run("unmount", machine / "other")
    machine.follow("protectfs mount --accept-copy ~/restored ~/other")
    machine.run("unmount", machine / "other")
    machine.has(environment, "the volume")
