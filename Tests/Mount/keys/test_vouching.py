"""Whose keybag a machine believes: the right one, also beside a change of the keys, and none made of an old one."""

import contextlib
import fcntl
import os
import subprocess
import time

import harness
import reader
from harness import protectfs, read_file, write_file
from keybags import Keybags
from keybags import mount as try_mount
from rotation import DAMAGED, fill, generations, rotate, shown, take_code


@contextlib.contextmanager
def changing(volume):
    """The lock that a command has while it changes the keybag."""
    path = reader.state_file(volume).removesuffix(".state") + ".keybag.lock"
    with open(path, "a", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def put(path, content):
    """In one step, as a command does."""
    write_file(path + ".new", content)
    os.rename(path + ".new", path)


def test_unlock_beside_a_change(environment):
    """A keybag of one moment and a state file of another are no exchanged keybag: they are read again."""
    volume = environment.volume()
    keybag, state = reader.keybag_file(volume), reader.state_file(volume)
    mount = environment.mount(volume)
    mount.unmount()
    before = read_file(keybag), read_file(state)
    take_code(environment, volume, rotate(volume))
    after = read_file(keybag), read_file(state)
    words = [harness.binary(), "slot", "test", "--passphrase-file", volume.passphrase_file, volume.path]
    for label, index in (("the old keybag is seen beside the new record", 0), ("the new keybag beside the old record", 1)):
        path = (keybag, state)[index]
        put(path, before[index])
        with changing(volume):
            with subprocess.Popen(words, env=volume.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  text=True) as running:
                time.sleep(1)
                # The device key has vouched for the new keybag, which needs no second look.
                if index == 0:
                    environment.cell(f"{label}: waits", None, running.poll())
                put(path, after[index])
                said = running.communicate()[1]
        environment.cell(label, (0, ""), (running.returncode, said))
    # Without a command that changes it, it is refused.
    put(keybag, before[0])
    done = harness.run(*words, env=volume.environment, ok=False)
    environment.cell("stays so", (DAMAGED, True), (done.returncode, "--accept-keybag" in done.stderr))
    put(keybag, after[0])


def test_mount_beside_a_change(environment):
    """A mount that comes while a rotation has the volume waits for its end, and opens with the new keys."""
    volume = environment.volume()
    mount = environment.mount(volume)
    contents = fill(mount, 300_000)
    mount.unmount()
    words = ["keys", "rotate", "--rate", "1", "--passphrase-file", volume.passphrase_file, volume.path]
    with subprocess.Popen([harness.binary(), *words], env=volume.environment, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True) as running:
        harness.wait_until(lambda: 1 in generations(volume.path), what="the first file")
        # The place of before, so that the mount has nothing to say of it.
        path = mount.path
        # More than the five seconds that a mount waits for others.
        begun = time.monotonic()
        done = protectfs("mount", "--passphrase-file", volume.passphrase_file, volume.path, path, env=volume.environment,
                         ok=False)
        waited = time.monotonic() - begun
        output, said = running.communicate()
    environment.cell("the rotation", (0, ""), (running.returncode, said))
    environment.cell("the mount", (0, ""), (done.returncode, done.stderr))
    environment.cell("it has waited", True, waited > 1)
    mount = harness.Mount(volume, path)
    environment.mounts.append(mount)
    take_code(environment, volume, subprocess.CompletedProcess([], 0, output, said))
    environment.cell("contents", contents, shown(mount, contents))
    write_file(mount / "new", b"written afterwards")
    mount.unmount()
    environment.cell("generations", [1], generations(volume.path))


def tested(volume, *words):
    """The exit code of a look at what opens, and what it says. The keybag is remembered by a mount."""
    done = protectfs("slot", "test", *words, volume.path, env=volume.environment, ok=False)
    return done.returncode, done.stderr


def test_another_machine_takes_a_rotation_over(environment):
    """What the device key has signed needs no question; without a device key, a person compares fingerprints."""
    for words in ((), ("--class", "complete")):
        bags = Keybags(environment)
        volume, other = bags.volume, bags.new_machine()
        mount = environment.mount(other)
        harness.write_file(mount / "file", b"content")
        mount.unmount()
        take_code(environment, volume, rotate(volume, *words))
        other.code_file = volume.code_file
        mount = environment.mount(other)
        environment.cell(f"{words}: the other machine", b"content", read_file(mount / "file"))
        mount.unmount()
    known = environment.volume()
    volume = harness.Volume(environment.new_path("new"), environment.new_path("data"), None, known.passphrase_file)
    protectfs("init", "--device-key", "none", "--weak-passphrase", "--passphrase-file", volume.passphrase_file, volume.path,
              env=volume.environment)
    other = harness.Volume(volume.path, environment.new_path("data"), None, volume.passphrase_file)
    try_mount(environment, other, "--passphrase-file", other.passphrase_file).unmount()
    take_code(environment, volume, rotate(volume))
    code, said = tested(other, "--passphrase-file", volume.passphrase_file)
    shown_here = protectfs("info", "--json", volume.path, env=volume.environment).stdout
    fingerprint = shown_here.split('"fingerprint":"')[1].split('"')[0]
    environment.cell("nothing vouches", (DAMAGED, True), (code, fingerprint in said))


def test_keybag_made_of_an_old_one(environment):
    """Somebody with an old keybag and its passphrase makes a newer one, with their own class key, for a recipient or a device."""
    modules = reader.load()
    signing, keybags = __import__("secondreader.signing", fromlist=["x"]), modules.keybag
    bags = Keybags(environment)
    volume = bags.volume
    key, victim = environment.new_path("key"), harness.Volume(volume.path, environment.new_path("data"), None, None)
    os.makedirs(victim.data)
    protectfs("recipient", "new", key, env=volume.environment)
    protectfs("slot", "add", "--recipient", key, "--passphrase-file", volume.passphrase_file, volume.path,
              env=volume.environment)
    words = ("--device-key", "none", "--recipient-key", key)
    try_mount(environment, victim, *words).unmount()
    stolen, old = reader.unlock(volume, with_passphrase=True).keys, read_file(bags.current)
    public, = (slot.recipient[:32] for slot in keybags.Keybag(old).slots if slot.kind == 6)
    take_code(environment, volume, rotate(volume, "--class", "complete"))
    try_mount(environment, victim, *words).unmount()
    right = read_file(bags.current)
    own = [entry if entry.kind != 1 else keybags.BundleEntry.make(1, entry.generation, os.urandom(32))
           for entry in stolen.entries]
    slot = signing.make_recipient_slot(old[16:32], 900, public, own, "attack")
    raised = {32: (1000).to_bytes(8, "little")}
    put(bags.current, signing.remake_keybag(old, stolen, raised, slots=[slot]))
    done = try_mount(environment, victim, *words, ok=False).result
    environment.cell("a recipient", (DAMAGED, True), (done.returncode, "vouches" in done.stderr))
    put(bags.current, right)
    take_code(environment, volume, rotate(volume))
    right = read_file(bags.current)
    # The device's slot of then, with the numbers of then, under the public key of now.
    old_slot = [slot.data for slot in keybags.Keybag(old).slots if slot.kind == 1]
    put(bags.current, signing.remake_keybag(right, stolen, {**raised, 48: old[48:64]}, slots=old_slot))
    done = try_mount(environment, volume, "--no-unlock", ok=False).result
    environment.cell("a device", (DAMAGED, True), (done.returncode, "same public key" in done.stderr))
    put(bags.current, right)
    mount = environment.mount(volume)
    environment.cell("the right one", [], os.listdir(mount.path))
