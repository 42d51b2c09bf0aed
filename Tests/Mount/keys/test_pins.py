"""The pins of this machine: only values that an unlock has verified, and never lower than before."""

import json
import os
import random

import reader
from foreground import Foreground
from harness import outcome, read_file, set_class, write_file
from keybags import REFUSED, Keybags


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
        done = bags.run("slot", "list", bags.volume.path)
        bags.cell(f"{state}: slot list says so", True, "older" in done.stderr)
        bags.cell(f"{state}: nothing is pinned", True, bags.everything() == before)
        bags.put(bags.current, 1)
        mount.unlock()
        mount.lock()
    # Rolled back between the first look and the lock on changes.
    old = environment.new_path("old")
    write_file(old, bags.versions[0][0])
    passphrase = f"cp '{old}' '{bags.current}'; cat '{bags.volume.passphrase_file}'"
    before = bags.pinned()
    done = bags.run("slot", "add", "--recovery", "--passphrase-command", passphrase, bags.volume.path, ok=False)
    bags.cell("a command: refused", (REFUSED, before), (done.returncode, bags.pinned()))
    bags.cell("a command: the keybag is as the store has put it", bags.versions[0][0], read_file(bags.current))
    bags.put(bags.current, 1)
    mount.unlock()
    mount.unmount()


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
            with Foreground(environment, bags.volume, "--no-unlock") as mount:
                bags.cell("nothing is pinned", (True, None), (bags.state() is not None, bags.pinned()))
                bags.cell("a file of class D", "works", make(mount, "none"))
                bags.cell("a new file of class B", "EACCES", make(mount, "completeUnlessOpen"))
                bags.cell("a file moved into class B", "EACCES", outcome(set_class, mount / "none.dir/file", "B"))
                bags.cell("the log says why", 1, mount.said().count("has not verified the volume's public key"))
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
        shown = json.loads(bags.run("status", "--json", mount.path).stdout)
        bags.cell(f"known: {known}: damage", 0, shown["damage"])
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


def test_only_rise(environment):
    """Whatever the store offers, and whichever command takes it: what is pinned goes down for --accept-keybag only."""
    seed = random.randrange(1 << 32)
    print(f"        seed {seed}", flush=True)
    chance = random.Random(seed)
    bags = Keybags(environment)
    for _ in range(3):
        bags.renew()
    mount = environment.new_path("mount")
    os.makedirs(mount, mode=0o500)
    steps = 400 if environment.mode == "full" else 120
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
            bags.run("slot", "remove", "--slot", 99, *flags, *code, bags.volume.path, ok=False)
        else:
            made = bags.run("slot", "add", "--recovery", "--json", *flags, *code, bags.volume.path, ok=False)
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
