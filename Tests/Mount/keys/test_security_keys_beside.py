"""Security keys beside other parts: mount(8), the daemon's memory, imported and forged keybags."""

import json
import os

import harness
import reader
import scan
from authenticator import ASSERT, CLIENT_PIN
from test_newer_keybags import Bag
from test_security_keys import AUTHENTICATION, DAMAGED, PIN, add, key, opening, pin_words, slot_of, tested


def test_mount8_and_memory(environment):
    """mount(8) opens with a key by words of -o, and the daemon has neither the PIN nor what the key gave."""
    volume = environment.volume()
    with key(environment, pin="73519024") as made:
        slot = json.loads(add(volume, made.device, pin="73519024").stdout)
        path = environment.new_path("mount")
        os.mkdir(path, mode=0o500)
        helper = os.path.join(harness.REPOSITORY, "mount-scripts/packaging/mount.fuse.protectfs")
        where = {**volume.environment, "PATH": os.path.dirname(harness.binary()) + ":" + os.environ["PATH"]}
        words = f"nodev,fido2_key={made.device},fido2_pin_file={pin_words(volume, '73519024')[1]}"
        harness.run("/bin/sh", helper, volume.path, path, "-o", words, env=where)
        mount = harness.Mount(volume, path)
        environment.mounts.append(mount)
        environment.cell("unlocked", "unlocked", mount.state())
        if os.geteuid() != 0:
            raise harness.Skip("only root may read the memory of a process that is not dumpable")
        found, _ = slot_of(volume, slot["slot"])
        secrets = {"PIN": b"73519024", "secret": made.secret_for(found.fido2, with_pin=True)}
        environment.cell("in the daemon's memory", {}, scan.found(mount.pid, secrets))
        mount.lock()
        mount.command("unlock", *opening(volume, made.device, "73519024"), path)
        environment.cell("after an unlock", {}, scan.found(mount.pid, secrets))


def test_import_of_a_keybag(environment):
    """A keybag from elsewhere is proven by its own security key."""
    volume = environment.volume()
    with key(environment, pin=PIN) as made:
        add(volume, made.device)
        copy = environment.new_path("copy")
        harness.protectfs("keybag", "export", volume.path, copy, env=volume.environment)
        os.unlink(reader.keybag_file(volume))
        harness.protectfs("keybag", "import", *opening(volume, made.device), volume.path, copy, env=volume.environment)
        tested(volume, *opening(volume, made.device))


def test_forged_slots(environment):
    """Slots that someone with the store has added: too many are refused at once, and a few of a stranger's change nothing."""
    bag = Bag(environment)
    volume = bag.volume
    with key(environment, pin=PIN) as made, key(environment, pin=PIN) as stranger:
        slot = json.loads(add(volume, made.device).stdout)
        uuid = bag.modules.Keybag(bag.data).uuid
        full = next(one for one in bag.modules.Keybag(bag.data).slots if one.kind == 3).open(uuid, bag.materials[3])

        def forged(count, owner):
            """Slots with credentials of a key, and secrets that it does not give."""
            result = []
            for number in range(count):
                field = b"\1" + bytes(32) + owner.identity("protectfs")
                result.append(bag.signing.make_slot(
                    uuid, 1000 + number, 5, 0, b"another secret", full,
                    ext=bag.primitives.make_tlvs([(5, field)]), seed=f"forged {number}"))
            return result

        old = bag.slots()
        bag.remake(slots=forged(3, stranger) + old)
        environment.cell("a stranger's before it", slot, json.loads(tested(volume, *opening(volume, made.device)).stdout))
        done = tested(volume, *opening(volume, stranger.device), ok=False)
        environment.cell("the stranger's key opens nothing", (AUTHENTICATION, True), (
            done.returncode, "opens no slot" in done.stderr))
        bag.remake(slots=forged(64, stranger) + old)
        asked = made.asked.count(ASSERT)
        done = tested(volume, *opening(volume, made.device), ok=False)
        environment.cell("too many", (DAMAGED, True, asked), (
            done.returncode, "65 slots" in done.stderr, made.asked.count(ASSERT)))
        environment.cell("the passphrase opens it", 0, tested(
            volume, "--passphrase-file", volume.passphrase_file).returncode)


def test_the_key_that_knows_is_chosen(environment):
    """Of several keys only the one with a slot is touched, wherever it is in the row; one that does not answer stops nothing."""
    volume = environment.volume()
    with key(environment, pin=PIN) as first, key(environment, pin=PIN) as second, key(environment, pin=PIN) as third:
        slot = json.loads(add(volume, second.device).stdout)
        touched = second.touched
        gone = "socket:" + environment.new_path("gone")
        pin = pin_words(volume)
        for row in ([first, second, third], [second, first], [third, first, second]):
            words = [word for one in row for word in ("--fido2-key", one.device)]
            found = json.loads(tested(volume, "--fido2-key", gone, *words, *pin).stdout)
            environment.cell(f"in place {row.index(second) + 1} of {len(row)}", slot, found)
        environment.cell("touches", (0, 3, 0), (first.touched, second.touched - touched, third.touched))
        done = tested(volume, "--fido2-key", first.device, "--fido2-key", third.device, *pin, ok=False)
        environment.cell("none knows", (AUTHENTICATION, True), (done.returncode, "has a slot of this volume" in done.stderr))
        done = tested(volume, "--fido2-key", first.device, "--fido2-key", gone, *pin, ok=False)
        environment.cell("none knows, one is gone", (AUTHENTICATION, True), (
            done.returncode, "one could not be asked: nothing answers" in done.stderr))
        wrong = tested(volume, *words, *pin_words(volume, "0000"), ok=False)
        environment.cell("a wrong PIN is told, and not tried elsewhere", (AUTHENTICATION, True), (
            wrong.returncode, "7 attempts are left" in wrong.stderr))
        environment.cell("no PIN was sent to others", False, any(CLIENT_PIN in one.asked for one in (first, third)))


def test_left_socket(environment):
    """A socket that a key has left behind ends with a message."""
    volume = environment.volume()
    with key(environment, pin=PIN) as made:
        add(volume, made.device)
        way = opening(volume, made.device)
    done = tested(volume, *way, ok=False)
    environment.cell("nobody serves it", (AUTHENTICATION, True), (done.returncode, "nothing answers" in done.stderr))
