"""Keybags that were replaced: what was revoked opens nothing, one that opens is always there, and a pin goes up only."""

import contextlib
import glob
import json
import os
import random
import signal
import subprocess

import harness
import reader
from harness import Volume, outcome, protectfs, read_file, set_class, wait_until, write_file

AUTHENTICATION, REFUSED, NOT_DONE = 3, 4, 8
UNPINNED = 4


class Keybags:
    """A volume whose keybag is changed, and every keybag that it had, each with the recovery code that opens it."""

    def __init__(self, environment, volume=None):
        self.environment, self.volume = environment, volume or environment.volume()
        self.current = reader.keybag_file(self.volume)
        self.previous = self.current + ".old"
        self.versions = [(read_file(self.current), self.volume.code_file)]

    def run(self, *words, ok=True, volume=None):
        return protectfs(*words, env=(volume or self.volume).environment, ok=ok)

    def renew(self, *words):
        """A new recovery code, by the one that the current keybag has."""
        made = self.run("recovery", "new", "--json", *words, "--recovery-file", self.versions[-1][1], self.volume.path)
        code = self.environment.new_path("code")
        write_file(code, json.loads(made.stdout)["recoveryCode"].encode() + b"\n")
        self.versions.append((read_file(self.current), code))
        self.volume.code_file = code

    def put(self, path, number=None):
        """A keybag as the store may put one there; none of them for no number."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        if number is not None:
            write_file(path, self.versions[number][0])

    def secret(self, text):
        path = self.environment.new_path("secret")
        write_file(path, text.encode() + b"\n")
        return path

    def state(self):
        found = reader.state_file(self.volume)
        return read_file(found) if found else None

    def pinned(self):
        """The serial that is pinned; nothing for none."""
        state = self.state()
        if state is None or int.from_bytes(state[12:16], "little") & UNPINNED:
            return None
        return int.from_bytes(state[32:40], "little")

    def everything(self):
        """The keybags, the device key, and what this machine remembers, as bytes."""
        places = [*glob.glob(os.path.join(self.volume.path, ".protectfs.*")),
                  *glob.glob(os.path.join(self.volume.data, "protectfs", "*"))]
        return {path: read_file(path) for path in places if os.path.isfile(path) and not path.endswith(".lock")}

    def names(self):
        return sorted(name for name in os.listdir(self.volume.path) if name.startswith((".protectfs.k", ".protectfs.t")))

    def cell(self, name, expected, actual):
        self.environment.cell(name, expected, actual)

    def new_machine(self):
        """The same volume where nobody has seen it, with a copy of the device key."""
        data = self.environment.new_path("data")
        os.makedirs(os.path.join(data, "protectfs"))
        key = reader.device_key_file(self.volume)
        write_file(os.path.join(data, "protectfs", os.path.basename(key)), read_file(key))
        return Volume(self.volume.path, data, self.volume.code_file, self.volume.passphrase_file)


def test_revoked(environment):
    bags = Keybags(environment)
    changed = bags.secret("changed, and long enough")
    old = ["--passphrase-file", bags.volume.passphrase_file]

    def still_opens(label, *words, more=False):
        bags.cell(f"{label}: what is in the store", [".protectfs.keybag"], bags.names())
        for place, volume in (("at home", bags.volume), ("elsewhere", bags.new_machine())):
            for flags in ((), ("--previous-keybag",), ("--previous-keybag", "--accept-keybag"))[not more:]:
                done = bags.run("fsck", "-n", *flags, *words, bags.volume.path, ok=False, volume=volume)
                bags.cell(f"{label}: {place}, {' '.join(flags)}", NOT_DONE, done.returncode)
    bags.run("passphrase", "change", *old, "--new-passphrase-file", changed, bags.volume.path)
    still_opens("passphrase change", *old)
    bags.run("passphrase", "add", "--passphrase-file", changed, "--new-passphrase-file", bags.volume.passphrase_file,
             bags.volume.path)
    slot = json.loads(bags.run("passphrase", "list", "--json", bags.volume.path).stdout)[-1]["slot"]
    bags.run("passphrase", "remove", "--slot", slot, "--recovery-file", bags.volume.code_file, bags.volume.path)
    still_opens("passphrase remove", *old)
    replaced = bags.volume.code_file
    bags.renew()
    still_opens("recovery new", "--recovery-file", replaced, more=True)


def test_old_keybag_put_back(environment):
    """A copy of the old keybag in the place of the previous one: a code or passphrase of its time takes nothing over."""
    bags = Keybags(environment)
    replaced = bags.volume.code_file
    bags.renew()
    changed = bags.secret("changed, and long enough")
    bags.run("passphrase", "change", "--passphrase-file", bags.volume.passphrase_file, "--new-passphrase-file", changed,
             bags.volume.path)
    new = bags.secret("the thief's own, which is long")
    for gone in (False, True):
        bags.put(bags.previous, 0)
        if gone:
            os.unlink(bags.current)
        before = bags.everything()
        for words in (("recovery", "use", "--recovery-file", replaced, "--new-passphrase-file", new),
                      ("recovery", "new", "--recovery-file", replaced),
                      ("passphrase", "add", "--passphrase-file", bags.volume.passphrase_file, "--new-passphrase-file", new),
                      ("passphrase", "add", "--recovery-file", replaced, "--new-passphrase-file", new)):
            done = bags.run(*words, "--previous-keybag", bags.volume.path, ok=False)
            bags.cell(f"{words[:2]}: refused", (REFUSED, True), (done.returncode, "--accept-keybag" in done.stderr))
        mount = environment.new_path("mount")
        os.makedirs(mount)
        for words in (("mount", "--recovery-file", replaced), ("mount", "--no-unlock")):
            done = bags.run(*words, "--previous-keybag", bags.volume.path, mount, ok=False)
            bags.cell(f"{words}: refused", REFUSED, done.returncode)
        done = bags.run("fsck", "--recovery-file", replaced, "--previous-keybag", bags.volume.path, ok=False)
        bags.cell("fsck: refused", NOT_DONE, done.returncode)
        bags.cell("nothing has changed", True, bags.everything() == before)
    # Said on purpose it is taken, and pinned.
    bags.run("recovery", "use", "--recovery-file", replaced, "--new-passphrase-file", new, "--previous-keybag",
             "--accept-keybag", bags.volume.path)
    serial = int.from_bytes(read_file(bags.current)[32:40], "little")
    bags.cell("pinned as told", serial, bags.pinned())
    bags.cell("what is in the store", [".protectfs.keybag"], bags.names())


def test_leftover(environment):
    """What a crash, or a former version, has left goes with the first unlock, overwritten unless it has another name."""
    bags = Keybags(environment)
    replaced = bags.volume.code_file
    bags.renew()

    def leave():
        bags.put(bags.previous, 0)
        return os.open(bags.previous, os.O_RDONLY)

    def is_destroyed(label, handle):
        bags.cell(f"{label}: it is gone", False, os.path.lexists(bags.previous))
        bags.cell(f"{label}: its blocks are overwritten", True,
                  os.pread(handle, 65536, 0)[:8] != bags.versions[0][0][:8])
        os.close(handle)

    code = ["--recovery-file", bags.volume.code_file]
    handle = leave()
    environment.mount(bags.volume).unmount()
    is_destroyed("mount", handle)
    handle = leave()
    mount = environment.mount(bags.volume, unlock=False)
    bags.cell("before first unlock it stays", True, os.path.exists(bags.previous))
    mount.unlock()
    is_destroyed("unlock", handle)
    mount.unmount()
    handle = leave()
    # Refused for what it gives, which is looked at after the volume was opened.
    done = bags.run("passphrase", "remove", "--slot", 99, *code, bags.volume.path, ok=False)
    bags.cell("no such slot", True, done.returncode != 0)
    is_destroyed("a command on keys", handle)
    handle = leave()
    environment.mount(bags.volume, options=("ro",)).unmount()
    bags.run("fsck", "-n", *code, bags.volume.path)
    shown = json.loads(bags.run("fsck", "-n", "--json", *code, bags.volume.path).stdout)
    bags.cell("fsck -n says that it is there", ["previous-keybag"], [one["kind"] for one in shown["findings"]])
    bags.cell("where nothing is written it stays", bags.versions[0][0], read_file(bags.previous))
    done = bags.run("fsck", *code, bags.volume.path)
    bags.cell("fsck finds nothing", 0, done.returncode)
    is_destroyed("fsck", handle)
    # Names of other programs' files.
    letter = environment.new_path("letter")
    write_file(letter, b"a letter")
    os.link(letter, bags.previous)
    environment.mount(bags.volume).unmount()
    bags.cell("another file's name", (False, b"a letter"), (os.path.lexists(bags.previous), read_file(letter)))
    os.symlink(letter, bags.previous)
    bags.renew()
    bags.cell("a symlink", (False, b"a letter"), (os.path.lexists(bags.previous), read_file(letter)))
    # A crash before the rename: two names of one file.
    os.link(bags.current, bags.previous)
    environment.mount(bags.volume).unmount()
    bags.cell("a second name", ([".protectfs.keybag"], True),
              (bags.names(), read_file(bags.current) == bags.versions[-1][0]))
    done = bags.run("fsck", "-n", "--recovery-file", replaced, bags.volume.path, ok=False)
    bags.cell("the code of its time", NOT_DONE, done.returncode)


def test_current_missing(environment):
    """Only the previous keybag is there: commands on keys end the change with it, or leave everything as it was."""
    bags = Keybags(environment)
    wrong = ["--recovery-file", bags.volume.code_file]
    bags.renew()
    new = bags.secret("new, and long enough")

    def lose(damaged=False):
        bags.put(bags.previous, -1)
        bags.put(bags.current)
        if damaged:
            write_file(bags.current, b"not a keybag")

    for damaged in (False, True):
        lose(damaged)
        before = bags.everything()
        code = ["--recovery-file", bags.volume.code_file]
        for words in (("passphrase", "remove", "--slot", 99, *code), ("recovery", "new", *wrong),
                      ("passphrase", "add", "--new-passphrase-file", new, *wrong),
                      ("recovery", "use", "--new-passphrase-file", new, *wrong)):
            done = bags.run(*words, "--previous-keybag", bags.volume.path, ok=False)
            bags.cell(f"{words[:2]} fails", True, done.returncode != 0)
            bags.cell(f"{words[:2]} leaves everything", True, bags.everything() == before)
        mount = environment.new_path("mount")
        os.makedirs(mount)
        bags.run("mount", "--previous-keybag", "--no-unlock", bags.volume.path, mount)
        opened = harness.Mount(bags.volume, mount, None)
        environment.mounts.append(opened)
        opened.unlock()
        opened.lock()
        # What is in place by now is what unlocks from now on.
        bags.renew("--previous-keybag")
        bags.cell("the new code's keybag", [".protectfs.keybag"], bags.names())
        opened.unlock()
        opened.unmount()
        environment.mount(bags.volume).unmount()
    lose()
    bags.run("passphrase", "add", "--recovery-file", bags.volume.code_file, "--new-passphrase-file", new,
             "--previous-keybag", bags.volume.path)
    bags.cell("passphrase add", [".protectfs.keybag"], bags.names())
    bags.run("fsck", "--passphrase-file", new, bags.volume.path)


def test_rolled_back_while_mounted(environment):
    """An old keybag put in place beside a mount is refused by unlock, and by a command that has looked already."""
    bags = Keybags(environment)
    replaced = bags.volume.code_file
    mount = environment.mount(bags.volume, unlock=False)
    bags.renew()
    for state in ("before-first-unlock", "locked"):
        bags.put(bags.current, 0)
        before = bags.everything()
        done = mount.command("unlock", "--recovery-file", replaced, mount.path, ok=False)
        bags.cell(f"{state}: refused", (REFUSED, True), (done.returncode, "--accept-keybag" in done.stderr))
        bags.cell(f"{state}: stays", state, mount.state())
        bags.cell(f"{state}: nothing is pinned", True, bags.everything() == before)
        bags.put(bags.current, 1)
        mount.unlock()
        mount.lock()
    # Rolled back between the first look and the lock on changes.
    old = environment.new_path("old")
    write_file(old, bags.versions[0][0])
    passphrase = f"cp '{old}' '{bags.current}'; cat '{bags.volume.passphrase_file}'"
    before = bags.pinned()
    done = bags.run("recovery", "new", "--passphrase-command", passphrase, bags.volume.path, ok=False)
    bags.cell("a command: refused", (REFUSED, before), (done.returncode, bags.pinned()))
    bags.cell("a command: the keybag is as the store has put it", bags.versions[0][0], read_file(bags.current))
    bags.put(bags.current, 1)
    mount.unlock()
    mount.unmount()


@contextlib.contextmanager
def foreground(environment, volume):
    """A mount before first unlock whose log is in a file."""
    path = environment.new_path("mount")
    os.makedirs(path)
    log = path + ".log"
    with open(log, "wb") as file:
        process = subprocess.Popen([harness.binary(), "mount", "-f", "--no-unlock", volume.path, path],
                                   stdin=subprocess.DEVNULL, stdout=file, stderr=file, env=volume.environment)
    mount = harness.Mount(volume, path, log)
    try:
        wait_until(lambda: process.poll() is not None or mount.is_mounted, what="the mount")
        if process.poll() is not None:
            raise AssertionError(f"mounting failed: {read_file(log).decode()}")
        wait_until(lambda: outcome(mount.state) == "works", what="an answer")
        yield mount
        mount.unmount()
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.wait(harness.PATIENCE)


def test_public_key_of_somebody_else(environment):
    """Store and device key together put a public key of their own there; no file is ever made for it."""
    bags = Keybags(environment)
    modules = reader.load()
    key = read_file(reader.device_key_file(bags.volume))
    whole = bags.versions[0][0]
    metadata = modules.keybag.Keybag(whole).open(key).keys[modules.keybag.M]
    for second in (whole[-32:], bytes(32)):
        forged = whole[:64] + os.urandom(32) + whole[96:-32] + second
        write_file(bags.current, modules.keybag.sign_keybag(forged, metadata), os.O_TRUNC)
        done = bags.run("mount", "--no-unlock", bags.volume.path, bags.volume.data, ok=False)
        bags.cell("where it is known", True, done.returncode == REFUSED and "public key" in done.stderr)
        home, bags.volume = bags.volume, bags.new_machine()
        try:
            with foreground(environment, bags.volume) as mount:
                bags.cell("nothing is pinned", (True, None), (bags.state() is not None, bags.pinned()))
                bags.cell("a file of class D", "works", make(mount, "none"))
                bags.cell("a new file of class B", "EACCES", make(mount, "completeUnlessOpen"))
                bags.cell("a file moved into class B", "EACCES", outcome(set_class, mount / "none.dir/file", "B"))
                bags.cell("the log says why", 1, read_file(mount.log).count(b"has not verified the volume's public key"))
                done = mount.command("unlock", "--recovery-file", bags.volume.code_file, mount.path, ok=False)
                bags.cell("unlock", REFUSED, done.returncode)
                write_file(bags.current, whole, os.O_TRUNC)
                done = mount.command("unlock", "--recovery-file", bags.volume.code_file, mount.path, ok=False)
                bags.cell("unlock with the right one", REFUSED, done.returncode)
                bags.cell("still", (None, "EACCES"), (bags.pinned(), make(mount, "completeUnlessOpen")))
        finally:
            bags.volume = home


def make(mount, name):
    """Makes a file of a class, by the default of a directory."""
    place = mount / f"{name}.dir"
    os.makedirs(place, exist_ok=True)
    set_class(place, name)
    return outcome(write_file, os.path.join(place, "file"), b"content")


def test_public_key_not_seen_before(environment):
    """The volume's own key, on a machine that has not verified it: class B takes files from the first unlock on."""
    bags = Keybags(environment)
    serial = bags.pinned()
    bags.volume = bags.new_machine()
    for known in (False, True):
        mount = environment.mount(bags.volume, unlock=False)
        bags.cell(f"known: {known}", ("works" if known else "EACCES", serial if known else None),
                  (make(mount, "completeUnlessOpen"), bags.pinned()))
        if not known:
            shown = json.loads(bags.run("info", "--json", bags.volume.path).stdout)
            bags.cell("info", (True, False, True),
                      (shown["knownHere"], shown["keybagPinned"], shown["toleratesEverything"]))
            mount.unlock()
            bags.cell("unlocked", ("works", serial), (make(mount, "completeUnlessOpen"), bags.pinned()))
            mount.lock()
            os.unlink(mount / "completeUnlessOpen.dir/file")
            bags.cell("locked", "works", make(mount, "completeUnlessOpen"))
            os.unlink(mount / "completeUnlessOpen.dir/file")
        mount.unmount()
    shown = json.loads(bags.run("info", "--json", bags.volume.path).stdout)
    bags.cell("info afterwards", (True, True), (shown["knownHere"], shown["keybagPinned"]))


def test_pins_only_rise(environment):
    """Whatever the store offers, and whichever command takes it: what is pinned goes down for --accept-keybag only."""
    seed = random.randrange(1 << 32)
    print(f"        seed {seed}", flush=True)
    chance = random.Random(seed)
    bags = Keybags(environment)
    for _ in range(3):
        bags.renew()
    mount = environment.new_path("mount")
    os.makedirs(mount)
    steps = 400 if environment.mode == "soak" else 120
    lowered = 0
    for step in range(steps):
        numbers = range(len(bags.versions))
        choice = chance.choice(numbers)
        other = chance.choice([None, *numbers])
        flags = [flag for flag, often in (("--previous-keybag", 0.4), ("--accept-keybag", 0.15)) if chance.random() < often]
        bags.put(bags.current, choice)
        bags.put(bags.previous, other)
        used = other if "--previous-keybag" in flags and other is not None else choice
        code = ["--recovery-file", bags.versions[used][1]]
        before = bags.pinned()
        kind = chance.choice(("mount", "no unlock", "unlock", "fsck", "new", "remove"))
        label = f"step {step}: {kind} {flags}, {choice} {other}"
        if kind in ("mount", "no unlock", "unlock"):
            words = code if kind == "mount" else ["--no-unlock"]
            if bags.run("mount", *words, *flags, bags.volume.path, mount, ok=False).returncode == 0:
                if kind == "unlock":
                    bags.put(bags.current, chance.choice(numbers))
                    bags.run("unlock", "--recovery-file", bags.versions[chance.choice(numbers)][1], mount, ok=False)
                bags.run("unmount", mount)
        elif kind == "fsck":
            bags.run("fsck", *flags, *code, bags.volume.path, ok=False)
        elif kind == "remove":
            bags.run("passphrase", "remove", "--slot", 99, *flags, *code, bags.volume.path, ok=False)
        else:
            made = bags.run("recovery", "new", "--json", *flags, *code, bags.volume.path, ok=False)
            if made.returncode == 0:
                path = bags.secret(json.loads(made.stdout)["recoveryCode"])
                bags.versions.append((read_file(bags.current), path))
        after = bags.pinned()
        lowered += after < before
        if after < before and "--accept-keybag" not in flags:
            bags.cell(label, f"at least {before}", after)
        bags.cell(f"{label}: no debris", [], [name for name in bags.names() if ".tmp." in name])
    bags.cell("the pin at the end is that of a keybag that was there", True,
              bags.pinned() in {int.from_bytes(bag[32:40], "little") for bag, _ in bags.versions})
    print(f"        lowered on purpose {lowered} times", flush=True)
