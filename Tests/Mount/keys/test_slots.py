"""The family slot: adding, removing, listing and testing what opens a volume."""

import json
import os
import re

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


def test_former_names(environment):
    """Former names do what the commands of slot do, and nothing lists them."""
    volume = environment.volume()
    code, new = ["--recovery-file", volume.code_file], environment.new_path("new")
    harness.write_file(new, b"another long passphrase of a test")
    change(volume, "passphrase", "add", *code, "--new-passphrase-file", new)
    listed = json.loads(change(volume, "passphrase", "list", "--json").stdout)
    environment.cell("list", slots(volume), listed)
    environment.cell("add", ["passphrase", "passphrase"], [slot["kind"] for slot in listed if slot["kind"] == "passphrase"])
    change(volume, "passphrase", "remove", "--slot", listed[-1]["slot"], *code)
    environment.cell("remove", listed[:-1], slots(volume))
    made = json.loads(change(volume, "recovery", "new", "--json", *code).stdout)
    environment.cell("a new recovery code", {"recoveryCode"}, set(made))
    environment.cell("the former one", 3, change(volume, "slot", "test", *code, ok=False).returncode)
    overview = harness.protectfs("--help").stdout
    for word, subcommands in (("passphrase", "change"), ("recovery", "use")):
        done = harness.protectfs(word, ok=False)
        environment.cell(f"{word} without a subcommand", (2, True), (
            done.returncode, f'"{word}" needs a subcommand: {subcommands}\n' in done.stderr))
        environment.cell(f"{word} in the overview", [f"{word} {subcommands}"], re.findall(rf"^  ({word} \w+)", overview, re.M))


def test_family(environment):
    volume = environment.volume()
    first = by_kind(volume)["passphrase"]
    office, file = add(volume, "office")
    away, portable = add(volume, "away", "--portable")
    environment.cell("added", ("passphrase", "office", True, "away", False), (
        office["kind"], office["label"], office["boundToDeviceKey"], away["label"], away["boundToDeviceKey"]))
    environment.cell("labels are listed", True, "office" in change(volume, "slot", "list").stdout)
    before = harness.read_file(reader.keybag_file(volume))
    for label, slot, words in (
            ("the new passphrase", office, ["--passphrase-file", file]),
            ("a portable one without the device key", away, ["--device-key", "none", "--passphrase-file", portable]),
            ("the first passphrase", first, ["--passphrase-file", volume.passphrase_file]),
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


def new_recipient(environment):
    """A private key's file, and the text of its public key."""
    file = environment.new_path("recipient")
    return file, harness.protectfs("recipient", "new", file).stdout.strip()


def add_recipient(volume, public, *words, ok=True):
    return change(volume, "slot", "add", "--json", "--recipient", public, *words, "--passphrase-file",
                  volume.passphrase_file, ok=ok)


def text_of(public):
    """The text of any public key, with a right checksum."""
    primitives = reader.load().primitives
    return primitives.recipient_text(public, primitives.PUBLIC_TEXT)


def test_recipient_files(environment):
    file, public = new_recipient(environment)
    text = harness.read_file(file).decode()
    environment.cell("the private key is in the file's first line", (0o600, True, True), (
        os.stat(file).st_mode & 0o7777, text.startswith("protectfs-private-1-"), public.startswith("protectfs-public-1-")))
    environment.cell("shown again", public, harness.protectfs("recipient", "show", file).stdout.strip())
    shown = json.loads(harness.protectfs("recipient", "show", "--json", file).stdout)
    environment.cell("as JSON", {"publicKey": public}, shown)
    again = harness.protectfs("recipient", "new", file, ok=False)
    environment.cell("never overwritten", (1, True, text), (
        again.returncode, "exists" in again.stderr, harness.read_file(file).decode()))
    # A directory that only takes.
    box = environment.new_path("box")
    os.mkdir(box, 0o300)
    place = ["setpriv", "--reuid", "65534", "--clear-groups"] if os.geteuid() == 0 else []
    if place:
        os.chown(box, 65534, -1)
    done = harness.run(*place, harness.binary(), "recipient", "new", box + "/key", ok=False)
    environment.cell("in a directory that cannot be read", (0, "", True), (done.returncode, done.stderr, "protectfs-public-1-" in done.stdout))
    middle = len("protectfs-private-1-") + 20
    for label, bad in (("one character changed", text[:middle] + ("A" if text[middle] != "A" else "B") + text[middle + 1:]),
                       ("cut off", text[:40] + "\n"), ("another file", "hello\n"), ("empty", "")):
        wrong = environment.new_path("wrong")
        harness.write_file(wrong, bad.encode())
        done = harness.protectfs("recipient", "show", wrong, ok=False)
        environment.cell(f"{label}: refused", (AUTHENTICATION, True, False), (
            done.returncode, wrong in done.stderr, text[middle:middle + 8] in done.stderr))


def test_recipients_are_refused(environment):
    volume = environment.volume()
    file, public = new_recipient(environment)
    before = harness.read_file(reader.keybag_file(volume))
    low = text_of(b"\0" * 32)
    for label, given, code in (("a damaged public key", public[:-1] + ("A" if public[-1] != "A" else "B"), AUTHENTICATION),
                               ("no such file", environment.new_path("none"), AUTHENTICATION),
                               ("a key of low order", low, USAGE)):
        done = add_recipient(volume, given, ok=False)
        environment.cell(f"{label}: refused", (code, ""), (done.returncode, done.stdout))
    done = add_recipient(volume, public, "--portable", ok=False)
    environment.cell("not a passphrase too", USAGE, done.returncode)
    environment.cell("unchanged", True, before == harness.read_file(reader.keybag_file(volume)))
    handed = secret_file(volume, "escrow.pub", public)
    for label, given in (("the file of a public key", handed), ("the file of a private key", file)):
        added = json.loads(add_recipient(volume, given).stdout)
        environment.cell(label, public, added["recipient"])
