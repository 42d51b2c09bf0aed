"""Each reason why a volume does not open: what is said names what is there and the next command, and that command works."""

import json
import os
import re
import shlex
import shutil

import keybags
import reader
import states
from harness import binary, protectfs, read_file, write_file

SYSTEM, AUTHENTICATION, VOLUME, UNSUPPORTED = 1, 3, 4, 5
NEWER_KEYBAG = {8: b"\3\0"}


class Case:
    """A volume with a file, a copy of its keybag elsewhere, and everything of the time before a change of the keys."""

    def __init__(self, environment):
        self.environment, self.volume = environment, environment.volume()
        mount = environment.mount(self.volume)
        write_file(mount / "kept", b"kept")
        mount.unmount()
        self.keybag = reader.keybag_file(self.volume)
        self.previous = self.keybag + ".old"
        self.unfinished = os.path.join(self.volume.path, ".protectfs.tmp.keybag")
        self.key = reader.device_key_file(self.volume)
        self.state = states.path(self.volume)
        self.backup = environment.new_path("backup of the keybag")
        shutil.copyfile(self.keybag, self.backup)
        self.point = environment.new_path("mount")
        os.mkdir(self.point, mode=0o500)

    def change(self, words):
        """Another keybag; the old one's bytes."""
        old = read_file(self.keybag)
        protectfs(*words, self.volume.path, env=self.volume.environment)
        return old

    def new_passphrase(self):
        new = keybags.secret_file(self.volume, "new", "cargo plum another violet ankle")
        return self.change(["slot", "add", "--recovery-file", self.volume.code_file, "--new-passphrase-file", new])

    def new_keys(self):
        """What `recovery use` leaves, with the old keybag put back: its device key is set aside, and then lost."""
        new = keybags.secret_file(self.volume, "new", "cargo plum another violet ankle")
        old = self.change(["recovery", "use", "--recovery-file", self.volume.code_file, "--new-passphrase-file", new])
        os.unlink(self.key + ".old")
        states.put(self.keybag, old)
        os.unlink(self.state)

    def new_code(self):
        """A keybag whose recovery code is another one than the person has."""
        made = protectfs("slot", "add", "--recovery", "--json", "--recovery-file", self.volume.code_file, self.volume.path,
                         env=self.volume.environment)
        self.code = keybags.secret_file(self.volume, "new code", json.loads(made.stdout)["recoveryCode"])

    def other_volume(self):
        """The keybag of another volume of this machine."""
        data = self.environment.new_path("data")
        path = self.environment.new_path("volume")
        protectfs("init", "--passphrase-file", self.volume.passphrase_file, path, env={**os.environ, "XDG_STATE_HOME": data})
        shutil.copyfile(os.path.join(path, ".protectfs.keybag"), self.keybag)


def lost(case):
    os.unlink(case.keybag)


def only_previous(case):
    os.rename(case.keybag, case.previous)


def only_unfinished(case):
    os.rename(case.keybag, case.unfinished)


def cut(case):
    os.truncate(case.keybag, 300)


def cut_beside_previous(case):
    shutil.copyfile(case.keybag, case.previous)
    cut(case)


def empty(case):
    os.truncate(case.keybag, 0)


def flipped(case):
    data = read_file(case.keybag)
    states.put(case.keybag, data[:200] + bytes([data[200] ^ 1]) + data[201:])


def link(case):
    os.unlink(case.keybag)
    os.symlink("elsewhere", case.keybag)


def newer(case):
    data = read_file(case.keybag)
    states.put(case.keybag, data[:8] + b"\3\0" + data[10:])


def older(case):
    states.put(case.keybag, case.new_passphrase())


def older_beside_copy(case):
    old = case.new_passphrase()
    shutil.copyfile(case.keybag, case.backup)
    states.put(case.keybag, old)


def same_serial(case):
    """Two copies of a store, each with one change."""
    case.new_passphrase()
    after = read_file(case.keybag)
    states.put(case.keybag, read_file(case.backup))
    os.unlink(case.state)
    other = keybags.secret_file(case.volume, "other", "lemon brick other violet ankle")
    case.change(["slot", "add", "--recovery-file", case.volume.code_file, "--new-passphrase-file", other])
    states.put(case.keybag, after)


def nothing_there(case):
    for name in os.listdir(case.volume.path):
        path = os.path.join(case.volume.path, name)
        shutil.rmtree(path) if os.path.isdir(path) and not os.path.islink(path) else os.unlink(path)


def no_key(case):
    os.unlink(case.key)


def wrong_key(case):
    states.put(case.key, os.urandom(32))


def cut_key(case):
    os.truncate(case.key, 31)


def key_is_directory(case):
    os.unlink(case.key)
    os.mkdir(case.key)


PASSPHRASE, CODE, LOCKED = "passphrase", "recovery code", "no unlock"
# What a person does when the next command needs something that the message cannot know.
FILE = {"FILE": "backup"}
# name -> what was done, what the person gives, exit code, words of the message, the next command in it (None: none is run), and
# what has to be given to mount after that.
CASES = {
    "keybag missing": (lost, CODE, VOLUME, [".protectfs.keybag is missing", ".protectfs.dir"], "keybag import", CODE),
    "keybag missing, previous there": (only_previous, CODE, VOLUME, [".protectfs.keybag.old", "--previous-keybag"], "keybag import", CODE),
    "keybag missing, unfinished there": (only_unfinished, CODE, VOLUME, [".protectfs.tmp.keybag"], "keybag import", CODE),
    "keybag cut": (cut, CODE, VOLUME, ["damaged", "wrong length"], "keybag import", CODE),
    "keybag cut, previous there": (cut_beside_previous, CODE, VOLUME, ["damaged", ".protectfs.keybag.old"], "keybag import", CODE),
    "keybag empty": (empty, CODE, VOLUME, ["damaged"], "keybag import", CODE),
    "keybag with a flipped bit": (flipped, CODE, VOLUME, ["damaged", "changed"], "keybag import", CODE),
    "keybag is a link": (link, CODE, VOLUME, ["not a regular file", "Remove it"], "keybag import", CODE),
    "keybag newer": (newer, CODE, UNSUPPORTED, ["newer version", "use that version"], None, None),
    "keybag older": (older, CODE, VOLUME, ["is older than the one last seen", "of that time"], "--accept-keybag", CODE),
    "keybag older, newer one kept": (older_beside_copy, CODE, VOLUME, ["put the newer one back"], "keybag import", CODE),
    "keybag of the same serial": (same_serial, CODE, VOLUME, ["same serial"], "--accept-keybag", CODE),
    "keybag of another volume": (
        Case.other_volume, PASSPHRASE, AUTHENTICATION, ["this machine knows", "exchanged", "device key"], "keybag import", CODE),
    "nothing of a volume": (nothing_there, CODE, VOLUME, ["not a protectfs volume", "check the path", "protectfs init"], None, None),
    "device key missing": (no_key, PASSPHRASE, AUTHENTICATION, [".key is missing", "--device-key FILE"], "--recovery-file", CODE),
    "device key missing, no unlock": (no_key, LOCKED, AUTHENTICATION, ["--device-key FILE"], None, CODE),
    "device key of another volume": (wrong_key, PASSPHRASE, AUTHENTICATION, [".key", "does not open this keybag"], "--recovery-file", CODE),
    "device key of another volume, and the code": (wrong_key, CODE, 0, [], None, None),
    "restored backup, newer device key": (Case.new_keys, PASSPHRASE, AUTHENTICATION, ["does not open this keybag", "recovery use"],
                                          "--recovery-file", CODE),
    "restored backup, newer device key, and the code": (Case.new_keys, CODE, 0, [], None, None),
    "device key cut": (cut_key, PASSPHRASE, AUTHENTICATION, ["exactly 32 bytes"], "--recovery-file", CODE),
    "device key is a directory": (key_is_directory, PASSPHRASE, AUTHENTICATION, [".key"], "--recovery-file", CODE),
    "recovery code of another time": (Case.new_code, CODE, AUTHENTICATION, ["wrong recovery code", "slot list"], None, None),
}


def given(case, what):
    return {PASSPHRASE: ["--passphrase-file", case.volume.passphrase_file],
            CODE: ["--recovery-file", case.volume.code_file], LOCKED: ["--no-unlock"]}[what]


def follow(case, message, command):
    """Does what the message says, as a shell would, and returns the words that mount needs from now on."""
    if command is None or command.startswith("--"):
        return [command] if command == "--accept-keybag" else []
    found = re.findall(r"protectfs (keybag import (?:'[^']*'|\S+) (?:'[^']*'|[^\s;,:]+))", message)
    assert found, message
    words = [{"FILE": case.backup}.get(word, word) for word in shlex.split(found[0])]
    if "Remove it" in message:
        os.unlink(case.keybag)
    protectfs(*words[:2], "--recovery-file", case.volume.code_file, *words[2:], env=case.volume.environment)
    return []


def test_every_reason(environment):
    for name, (action, what, code, words, command, after) in CASES.items():
        case = Case(environment)
        action(case)
        done = protectfs("mount", *given(case, what), case.volume.path, case.point, env=case.volume.environment, ok=False)
        if done.returncode == 0:
            protectfs("unmount", case.point, env=case.volume.environment)
        environment.cell(f"{name}: exit code", code, done.returncode)
        wanted = words + ([command] if command else [])
        environment.cell(f"{name}: words", [], [word for word in wanted if word not in done.stderr] and done.stderr)
        environment.cell(f"{name}: one line", 0 if code == 0 else 1, len(done.stderr.strip().splitlines()))
        if after is None:
            continue
        more = follow(case, done.stderr, command)
        mount = keybags.mount(environment, case.volume, *more, *given(case, after))
        environment.cell(f"{name}: afterwards it opens", b"kept", read_file(mount / "kept"))
        mount.unmount()


def test_every_command_says_the_same(environment):
    """A volume that has only `.protectfs.keybag.old` is not told to be made anew, by any command."""
    case = Case(environment)
    only_previous(case)
    secret, path = given(case, CODE), case.volume.path
    for words in (["info"], ["fsck", *secret], ["slot", "list"], ["slot", "add", "--recovery", *secret],
                  ["keybag", "export"], ["mount", *secret]):
        more = {"mount": [case.point], "keybag": [environment.new_path("file")]}.get(words[0], [])
        done = protectfs(*words, path, *more, env=case.volume.environment, ok=False)
        environment.cell(f"{' '.join(words[:2])}", (False, True, True),
                         (done.returncode == 0, "keybag import" in done.stderr, "protectfs init" not in done.stderr))


def test_the_mount_in_place_of_the_volume(environment):
    """A person gives the mount point for the volume."""
    case = Case(environment)
    mount = environment.mount(case.volume)
    done = protectfs("info", mount.path, env=case.volume.environment, ok=False)
    environment.cell("it says which the volume is", (VOLUME, True), (done.returncode, f"the volume is {case.volume.path}" in done.stderr))


def test_a_device_key_given_by_name(environment):
    """--device-key with a wrong key, and the recovery code: it says what is wrong, and what opens."""
    case = Case(environment)
    other = environment.new_path("other.key")
    write_file(other, os.urandom(32))
    words = ["mount", "--recovery-file", case.volume.code_file, "--device-key", other, case.volume.path, case.point]
    done = protectfs(*words, env=case.volume.environment, ok=False)
    environment.cell("refused", (AUTHENTICATION, True, True), (done.returncode, other in done.stderr, "--recovery-file" in done.stderr))


def test_unreadable(environment):
    """A keybag and a device key that another user owns are named, each as itself."""
    from users import OrdinaryUser
    user = OrdinaryUser(environment)
    for path, words in ((os.path.join(user.volume, ".protectfs.keybag"), ["keybag cannot be read", "Permission denied"]),):
        before = os.stat(path)
        os.chown(path, 0, 0)
        os.chmod(path, 0o600)
        done = user.run(binary(), "mount", "--recovery-file", user.code_file, user.volume, user.path, ok=False)
        os.chown(path, before.st_uid, before.st_gid)
        os.chmod(path, before.st_mode)
        environment.cell(os.path.basename(path), [], [word for word in [path, *words] if word not in done.stderr] and done.stderr)
