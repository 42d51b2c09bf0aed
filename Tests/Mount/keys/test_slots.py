"""The family slot: adding, removing, listing and testing what opens a volume."""

import json

import harness
import reader
from keybags import change, mount, refused, secret_file, slots

USAGE, AUTHENTICATION = 2, 3


def tested(volume, *words):
    """The slot that a credential opens, as slot test says it."""
    return json.loads(change(volume, "slot", "test", "--json", *words).stdout)


def add(volume, name, *words):
    """Adds a passphrase; gives its slot and its file."""
    file = secret_file(volume, name, f"cargo plum violet {name}")
    made = change(volume, "slot", "add", "--json", "--label", name, *words, "--recovery-file", volume.code_file,
                  "--new-passphrase-file", file)
    return json.loads(made.stdout), file


def removed(volume, slot, ok=True):
    return change(volume, "slot", "remove", "--slot", slot, "--passphrase-file", volume.passphrase_file, ok=ok)


def by_kind(volume):
    return {slot["kind"]: slot for slot in slots(volume)}


def test_family(environment):
    volume = environment.volume()
    listed = json.loads(change(volume, "slot", "list", "--json").stdout)
    environment.cell("it lists what passphrase list does", slots(volume), listed)
    office, file = add(volume, "office")
    away, portable = add(volume, "away", "--portable")
    environment.cell("added", ("passphrase", "office", True, "away", False), (
        office["kind"], office["label"], office["boundToDeviceKey"], away["label"], away["boundToDeviceKey"]))
    environment.cell("labels are listed", True, "office" in change(volume, "slot", "list").stdout)
    before = harness.read_file(reader.keybag_file(volume))
    for label, slot, words in (
            ("the new passphrase", office, ["--passphrase-file", file]),
            ("a portable one without the device key", away, ["--device-key", "none", "--passphrase-file", portable]),
            ("the first passphrase", listed[1], ["--passphrase-file", volume.passphrase_file]),
            ("the recovery code", by_kind(volume)["recovery code"], ["--recovery-file", volume.code_file])):
        environment.cell(f"tested: {label}", slot, tested(volume, *words))
    said = change(volume, "slot", "test", "--passphrase-file", file).stdout
    environment.cell("in words", f'It opens slot {office["slot"]}, passphrase "office".\n', said)
    wrong = change(volume, "slot", "test", "--passphrase-file", secret_file(volume, "wrong", "not it"), ok=False)
    environment.cell("tested: a wrong one", (AUTHENTICATION, ""), (wrong.returncode, wrong.stdout))
    environment.cell("a test changes nothing", True, before == harness.read_file(reader.keybag_file(volume)))
    mount(environment, volume, "--passphrase-file", file).unmount()
    removed(volume, office["slot"])
    refused(environment, volume, AUTHENTICATION, "--passphrase-file", file)
    mount(environment, volume, "--passphrase-file", portable).unmount()


def test_recovery(environment):
    volume = environment.volume()
    old = by_kind(volume)["recovery code"]
    made = change(volume, "slot", "add", "--recovery", "--json", "--passphrase-file", volume.passphrase_file)
    code = secret_file(volume, "code-2", json.loads(made.stdout)["recoveryCode"])
    now = by_kind(volume)["recovery code"]
    environment.cell("it replaces the old one", (True, "slot add", now), (
        now["slot"] > old["slot"], now["label"], tested(volume, "--recovery-file", code)))
    refused(environment, volume, AUTHENTICATION, "--recovery-file", volume.code_file)
    both = change(volume, "slot", "add", "--recovery", "--portable", "--passphrase-file", volume.passphrase_file, ok=False)
    environment.cell("not a passphrase too", (USAGE, True), (both.returncode, "cannot be used together" in both.stderr))


def test_last_slots_stay(environment):
    """What would make the volume unusable without the device key is refused, and nothing is changed."""
    volume = environment.volume()
    before = harness.read_file(reader.keybag_file(volume))
    kinds = by_kind(volume)
    for label, kind, says in (("the device key", "device key", "erase destroys it"),
                              ("the only passphrase", "passphrase", "only passphrase"),
                              ("the only portable slot", "recovery code", "without the device key")):
        done = removed(volume, kinds[kind]["slot"], ok=False)
        environment.cell(f"{label}: refused", (USAGE, True), (done.returncode, says in done.stderr))
    unknown = removed(volume, 4_000_000, ok=False)
    environment.cell("no such slot", (USAGE, True), (unknown.returncode, "no such slot" in unknown.stderr))
    environment.cell("unchanged", True, before == harness.read_file(reader.keybag_file(volume)))
    portable, file = add(volume, "away", "--portable")
    removed(volume, kinds["recovery code"]["slot"])
    refused(environment, volume, AUTHENTICATION, "--recovery-file", volume.code_file)
    for command in ("slot", "passphrase"):
        done = change(volume, command, "remove", "--slot", portable["slot"], "--passphrase-file", file, ok=False)
        environment.cell(f"{command} remove of the portable passphrase: refused", (USAGE, True), (
            done.returncode, "without the device key" in done.stderr))
    mount(environment, volume, "--device-key", "none", "--passphrase-file", file).unmount()
