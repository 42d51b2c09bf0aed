"""Each kind of slot that no passphrase opens, through its life: it opens the volume wherever a passphrase does, until it is removed."""

import contextlib
import json
import os

import harness
import reader
import test_security_keys
import test_slots
import test_tpm2
import tpms
from keybags import change, mount, secret_file, slots

USAGE, AUTHENTICATION = 2, 3
TEXT = b"for the heirs"
#: A slot's label.
LABEL = "spare"


class Kind:
    """What is true of one kind of slot, and what opens it."""

    def __init__(self, fields, added, way, other, gone, second=None, asked=lambda: 0, is_bound=False, is_dropped=True):
        #: What the slot says of itself.
        self.fields = fields
        #: Adds one, by a label.
        self.added = added
        #: The words that open it; those of a stranger, with what is said of them; what is said when there is no such slot.
        self.way, self.other, self.gone = way, other, gone
        #: The words by which the second reader opens the slot, if it can without hardware.
        self.second = second
        #: How many requests the hardware was sent.
        self.asked = asked
        #: Whether it needs the device key; whether a rotation removes it.
        self.is_bound, self.is_dropped = is_bound, is_dropped


@contextlib.contextmanager
def recipient(environment, volume):
    file, public = test_slots.new_recipient(environment)
    key = ["--recipient-key", file]
    yield Kind(
        {"kind": "recipient", "kindNumber": 6, "boundToDeviceKey": False, "recipient": public},
        lambda: json.loads(test_slots.add_recipient(volume, public, "--label", LABEL).stdout), key,
        (["--recipient-key", test_slots.new_recipient(environment)[0]], "for this recipient"), "for this recipient",
        second=lambda slot: key, is_dropped=False)


@contextlib.contextmanager
def security_key(environment, volume):
    with (test_security_keys.key(environment, pin=test_security_keys.PIN) as made,
          test_security_keys.key(environment, pin=test_security_keys.PIN) as other):
        def second(slot):
            raw = environment.new_path("raw")
            harness.write_file(raw, made.secret_for(test_security_keys.slot_of(volume, slot["slot"])[0].fido2, with_pin=True))
            return ["--fido2-secret", raw]

        yield Kind(
            {"kind": "security key", "kindNumber": 5, "boundToDeviceKey": False, "usesPIN": True},
            lambda: json.loads(test_security_keys.add(volume, made.device, "--label", LABEL).stdout),
            test_security_keys.opening(volume, made.device),
            (test_security_keys.opening(volume, other.device), "has a slot of this volume"), "no slot for a security key",
            second=second, asked=lambda: len(made.asked))


@contextlib.contextmanager
def tpm(environment, volume):
    tpms.installed(environment)
    own, other = tpms.TPM(environment), tpms.TPM(environment)
    yield Kind(
        {"kind": "TPM", "kindNumber": 4, "boundToDeviceKey": True, "tpm2": {"pin": False, "pcrs": [7]}},
        lambda: test_tpm2.added(volume, own.device, "--label", LABEL), test_tpm2.opening(own.device),
        (test_tpm2.opening(other.device), "no slot is for this TPM"), "no slot of the volume is for a TPM", is_bound=True)


def is_part(wanted, found):
    """Whether a JSON value has everything that is wanted."""
    return all(name in found and is_part(value, found[name]) for name, value in wanted.items()) if isinstance(
        wanted, dict) else wanted == found


def refused(environment, label, volume, code, says, *words, command=("slot", "test")):
    done = change(volume, *command, *words, ok=False)
    environment.cell(label, (code, True), (done.returncode, says in done.stderr or done.stderr))


def life(kind):
    def test(environment):
        volume = environment.volume()
        with kind(environment, volume) as one:
            slot = one.added()
            environment.cell("added", True, is_part({**one.fields, "label": LABEL}, slot) or slot)
            listed = change(volume, "slot", "list").stdout
            environment.cell("listed", (slot, True, True), (
                slots(volume)[-1], one.fields["kind"] in listed, LABEL in listed))
            environment.cell("tested", slot, json.loads(change(volume, "slot", "test", "--json", *one.way).stdout))
            opens(environment, volume, one, slot)
            refused(environment, "a stranger", volume, AUTHENTICATION, one.other[1], *one.other[0])
            refused(environment, "not beside a passphrase", volume, USAGE, "cannot be used together", *one.way,
                    "--passphrase-file", volume.passphrase_file)
            change(volume, "slot", "remove", "--slot", slot["slot"], *one.way)
            refused(environment, "removed", volume, AUTHENTICATION, one.gone, *one.way)
            rotated(environment, volume, one)
    return test


def opens(environment, volume, one, slot):
    """Whatever asks for a passphrase takes it."""
    place = environment.mount(volume)
    harness.write_file(place / "secret", TEXT)
    harness.set_class(place / "secret", "A")
    place.lock()
    environment.cell("locked", "EACCES", harness.outcome(harness.read_file, place / "secret"))
    place.command("unlock", *one.way, place.path)
    environment.cell("a running mount is unlocked", TEXT, harness.read_file(place / "secret"))
    place.unmount()
    elsewhere = harness.Volume(volume.path, environment.new_path("elsewhere"), volume.code_file, volume.passphrase_file)
    os.mkdir(elsewhere.data)
    if one.is_bound:
        refused(environment, "not without the device key", volume, AUTHENTICATION, "together with the device key", *one.way,
                "--device-key", "none")
        second = mount(environment, volume, *one.way)
    else:
        second = mount(environment, elsewhere, "--device-key", "none", *one.way)
    environment.cell("mounted", TEXT, harness.read_file(second / "secret"))
    second.unmount()
    stored = next(os.path.join(volume.path, name) for name in os.listdir(volume.path) if not name.startswith("."))
    for command, path in (("fsck", volume.path), ("inspect", stored)):
        done = harness.protectfs(command, *one.way, path, env=volume.environment, ok=False)
        environment.cell(f"{command} opens with it", 0, done.returncode)
    if one.second:
        read = harness.run(os.path.join(harness.REPOSITORY, "Tests/SecondReader/read-volume"), *one.second(slot), volume.path, "secret")
        environment.cell("the second reader opens it too", TEXT.decode(), read.stdout)
    # To slot add, --tpm2 is the new slot.
    for command in ("passphrase",) if "--tpm2" in one.way else ("slot", "passphrase"):
        fresh = secret_file(volume, f"fresh-{command}", f"cargo plum violet ankle {command}")
        change(volume, command, "add", *one.way, "--new-passphrase-file", fresh)
        mount(environment, volume, "--passphrase-file", fresh).unmount()
    for made in slots(volume)[slots(volume).index(slot) + 1:]:
        change(volume, "slot", "remove", "--slot", made["slot"], "--passphrase-file", volume.passphrase_file)


def rotated(environment, volume, one):
    """A rotation cannot give new keys to a slot of hardware: it names the slot, removes it only if told, and it can be added again."""
    slot, asked, before = one.added(), one.asked(), harness.read_file(reader.keybag_file(volume))
    rotate = ["keys", "rotate", "--passphrase-file", volume.passphrase_file]
    if one.is_dropped:
        refused(environment, "a rotation would drop it", volume, USAGE, f'{slot["slot"]} ({LABEL})', command=rotate)
        environment.cell("nothing was changed, and nobody asked", (before, asked), (
            harness.read_file(reader.keybag_file(volume)), one.asked()))
        change(volume, *rotate, "--drop-slots")
        environment.cell("dropped", False, one.fields["kind"] in [each["kind"] for each in slots(volume)])
        refused(environment, "it opens nothing", volume, AUTHENTICATION, one.gone, *one.way)
        slot = one.added()
    else:
        change(volume, *rotate)
    environment.cell("it opens after a rotation", slot["kind"], json.loads(change(
        volume, "slot", "test", "--json", *one.way).stdout)["kind"])


test_recipient, test_security_key, test_tpm = life(recipient), life(security_key), life(tpm)
