"""Replaced keybags: revoked ones open nothing, and one that opens is always there."""

import json
import os
import shutil

import harness
from harness import read_file, write_file
from keybags import NOT_DONE, REFUSED, Keybags


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
    bags.run("slot", "add", "--passphrase-file", changed, "--new-passphrase-file", bags.volume.passphrase_file,
             bags.volume.path)
    slot = json.loads(bags.run("slot", "list", "--json", bags.volume.path).stdout)[-1]["slot"]
    bags.run("slot", "remove", "--slot", slot, "--recovery-file", bags.volume.code_file, bags.volume.path)
    still_opens("slot remove", *old)
    replaced = bags.volume.code_file
    bags.renew()
    still_opens("slot add --recovery", "--recovery-file", replaced, more=True)


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
                      ("slot", "add", "--recovery", "--recovery-file", replaced),
                      ("slot", "add", "--passphrase-file", bags.volume.passphrase_file, "--new-passphrase-file", new),
                      ("slot", "add", "--recovery-file", replaced, "--new-passphrase-file", new)):
            done = bags.run(*words, "--previous-keybag", bags.volume.path, ok=False)
            bags.cell(f"{words[:2]}: refused", (REFUSED, True), (done.returncode, "--accept-keybag" in done.stderr))
        mount = environment.new_path("mount")
        os.makedirs(mount, mode=0o500)
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
    done = bags.run("slot", "remove", "--slot", 99, *code, bags.volume.path, ok=False)
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
    # One that was being made: it is not kept for anybody to find.
    made = os.path.join(bags.volume.path, ".protectfs.tmp.keybag")
    bags.put(made, 0)
    handle = os.open(made, os.O_RDONLY)
    bags.run("fsck", "--no-unlock", "--repair", bags.volume.path)
    bags.cell("a check without a credential leaves it", bags.versions[0][0], read_file(made))
    environment.mount(bags.volume).unmount()
    bags.cell("a temporary one", (False, False), (os.path.exists(made), os.pread(handle, 8, 0) == b"PFSKBAG1"))
    os.close(handle)
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


def test_cannot_be_destroyed(environment):
    """The new keybag is in place and the old one cannot be removed: both are said, and the next unlock tries again."""
    if not shutil.which("strace"):
        raise harness.Skip("strace is not installed")
    bags = Keybags(environment)
    done = harness.run("strace", "-f", "-o", "/dev/null", "-e", "trace=unlinkat", "-e", "inject=unlinkat:error=EIO:when=1",
                       harness.binary(), "slot", "add", "--recovery", "--json", "--recovery-file", bags.volume.code_file,
                       bags.volume.path, env=bags.volume.environment, ok=False)
    bags.cell("it is said", (1, True), (done.returncode, "could not be destroyed" in done.stderr))
    bags.cell("it is there", [".protectfs.keybag", ".protectfs.keybag.old"], bags.names())
    bags.volume.code_file = bags.secret(json.loads(done.stdout)["recoveryCode"])
    bags.cell("the new one is noted", int.from_bytes(read_file(bags.current)[32:40], "little"), bags.pinned())
    environment.mount(bags.volume).unmount()
    bags.cell("then it is gone", [".protectfs.keybag"], bags.names())


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
        for words in (("slot", "remove", "--slot", 99, *code), ("slot", "add", "--recovery", *wrong),
                      ("slot", "add", "--new-passphrase-file", new, *wrong),
                      ("recovery", "use", "--new-passphrase-file", new, *wrong)):
            done = bags.run(*words, "--previous-keybag", bags.volume.path, ok=False)
            bags.cell(f"{words[:2]} fails", True, done.returncode != 0)
            bags.cell(f"{words[:2]} leaves everything", True, bags.everything() == before)
        mount = environment.new_path("mount")
        os.makedirs(mount, mode=0o500)
        bags.run("mount", "--previous-keybag", "--no-unlock", bags.volume.path, mount)
        opened = harness.Mount(bags.volume, mount)
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
    bags.run("slot", "add", "--recovery-file", bags.volume.code_file, "--new-passphrase-file", new,
             "--previous-keybag", bags.volume.path)
    bags.cell("slot add", [".protectfs.keybag"], bags.names())
    bags.run("fsck", "--passphrase-file", new, bags.volume.path)
