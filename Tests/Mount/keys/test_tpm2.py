"""Slots of a TPM: a volume opens with the TPM of the machine, its PIN and its PCRs, and says plainly why it does not."""

import json
import os
import shutil

import tpms
from keybags import change, mount, refused, secret_file, slots
from terminal import at_terminal
from test_newer_keybags import Bag

FAILURE, USAGE, AUTHENTICATION, UNSUPPORTED = 1, 2, 3, 5
#: The maximum of wrong PINs of swtpm's default is 3.
TRIES = 3


def add(volume, device, *words, ok=True):
    return change(volume, "slot", "add", "--tpm2", "--tpm2-device", device, "--json", *words,
                  "--passphrase-file", volume.passphrase_file, ok=ok)


def added(volume, device, *words):
    return json.loads(add(volume, device, *words).stdout)


def opening(device, *words):
    return ["--tpm2", "--tpm2-device", device, *words]


def tried(volume, *words):
    """The exit code of slot test, and what it says."""
    done = change(volume, "slot", "test", "--json", *words, ok=False)
    return done.returncode, done.stdout + done.stderr


def test_pin(environment):
    tpms.installed(environment)
    tpm, volume = tpms.TPM(environment), environment.volume()
    right, wrong = secret_file(volume, "pin", "2580"), secret_file(volume, "wrong", "2581")
    environment.cell("a slot with a PIN", True, added(volume, tpm.device, "--tpm2-pin-file", right)["tpm2"]["pin"])
    key = opening(tpm.device)
    mount(environment, volume, *key, "--tpm2-pin-file", right).unmount()
    environment.cell("from a command", 0, tried(volume, *key, "--tpm2-pin-command", "cat " + right)[0])
    code, shown, echoes = at_terminal(["slot", "test", *key, volume.path], volume.environment,
                                      [("PIN of the TPM: ", "1111\n"), ("PIN of the TPM: ", "2580\n")])
    environment.cell("typed, the second time right", (0, True, False, True), (
        code, "wrong PIN" in shown and "It opens slot" in shown, "2580" in shown, echoes))
    code, said = tried(volume, *key)
    environment.cell("no terminal", (AUTHENTICATION, True), (code, "--tpm2-pin-file or --tpm2-pin-command" in said))
    for _ in range(TRIES):
        code, said = tried(volume, *key, "--tpm2-pin-file", wrong)
        environment.cell("a wrong PIN", (AUTHENTICATION, False), (code, "2581" in said))
    code, said = tried(volume, *key, "--tpm2-pin-file", right)
    environment.cell("locked out, with the right PIN too", (AUTHENTICATION, True), (code, "too many wrong ones" in said))
    mount(environment, volume, "--passphrase-file", volume.passphrase_file).unmount()
    for label, pin in (("an empty PIN", ""), ("one of 4,097 bytes", "x" * 4097)):
        done = add(volume, tpm.device, "--tpm2-pin-file", secret_file(volume, "bad", pin), ok=False)
        environment.cell(f"{label}: refused", AUTHENTICATION, done.returncode)


def test_pin_if_needed(environment):
    """The PIN is asked for only when no slot without one opens."""
    tpms.installed(environment)
    tpm, volume = tpms.TPM(environment), environment.volume()
    pin, key = secret_file(volume, "pin", "2580"), opening(tpm.device)
    with_pin = added(volume, tpm.device, "--tpm2-pin-file", pin, "--pcrs", "none")
    environment.cell("a PIN is needed", AUTHENTICATION, tried(volume, *key)[0])
    without = added(volume, tpm.device)
    code, said = tried(volume, *key)
    environment.cell("a slot without a PIN opens", (0, without["slot"]), (code, code == 0 and json.loads(said)["slot"]))
    code, shown, _ = at_terminal(["slot", "test", *key, volume.path], volume.environment, [("PIN of the TPM: ", "2580\n")])
    environment.cell("nobody is asked at a terminal", (0, False), (code, "PIN of the TPM" in shown))
    called = environment.new_path("called")
    command = ["--tpm2-pin-command", f"touch {called}; cat {pin}"]
    environment.cell("nor is the command run", (0, False), (tried(volume, *key, *command)[0], os.path.exists(called)))
    code, said = tried(volume, *key, *command, "--tpm2-pin-file", pin)
    environment.cell("two sources of the PIN", (USAGE, True), (code, "cannot be used together" in said))
    tpm.extend(7)
    code, said = tried(volume, *key, *command)
    environment.cell("after another start the slot with the PIN opens", (0, with_pin["slot"], True), (
        code, code == 0 and json.loads(said)["slot"], os.path.exists(called)))
    code, shown, _ = at_terminal(["slot", "test", *key, volume.path], volume.environment,
                                 [("PIN of the TPM: ", "1111\n"), ("PIN of the TPM: ", "2580\n")])
    environment.cell("asked at a terminal, the second time right", (0, True), (code, "wrong PIN" in shown))
    wrong = secret_file(volume, "wrong", "2581")
    tap = tpms.Tap(environment, tpm)
    code, said = tried(volume, *opening(tap.device, "--tpm2-pin-file", wrong))
    # TPM2_Unseal, once for each slot.
    environment.cell("a wrong PIN is tried once", (AUTHENTICATION, True, 2), (
        code, "wrong PIN" in said, bytes(tap.heard).count(b"\0\0\1\x5e")))


def test_one_pin(environment):
    """A volume has one slot with a PIN for each TPM, because a wrong PIN is tried once."""
    tpms.installed(environment)
    tpm, other, volume = tpms.TPM(environment), tpms.TPM(environment), environment.volume()
    one, two = secret_file(volume, "one", "2580"), secret_file(volume, "two", "1470")
    first = added(volume, tpm.device, "--tpm2-pin-file", one)
    before = slots(volume)
    done = add(volume, tpm.device, "--tpm2-pin-file", two, "--pcrs", "none", ok=False)
    environment.cell("a second one: refused", (USAGE, True), (
        done.returncode, f"remove it first (slot remove --slot {first['slot']})" in done.stderr))
    environment.cell("nothing was changed", before, slots(volume))
    added(volume, other.device, "--tpm2-pin-file", two)
    for label, device, pin in (("the first TPM", tpm.device, one), ("another TPM", other.device, two)):
        environment.cell(f"{label}: it opens", 0, tried(volume, *opening(device, "--tpm2-pin-file", pin))[0])
    change(volume, "slot", "remove", "--slot", first["slot"], "--passphrase-file", volume.passphrase_file)
    again = added(volume, tpm.device, "--tpm2-pin-file", two)
    code, said = tried(volume, *opening(tpm.device, "--tpm2-pin-file", two))
    environment.cell("after the first was removed", (0, again["slot"]), (code, code == 0 and json.loads(said)["slot"]))


def test_warnings(environment):
    """A new slot comes with a warning of what its conditions do not keep out."""
    tpms.installed(environment)
    tpm, volume = tpms.TPM(environment), environment.volume()
    pin = secret_file(volume, "pin", "2580")
    machine, count = "someone who has the whole machine can open the volume", "its lockout password is not set"

    def warned(*words):
        said = add(volume, tpm.device, *words).stderr
        return machine in said, count in said

    environment.cell("without a PIN", (True, False), warned())
    environment.cell("with one, the TPM has no lockout password", (False, True), warned("--tpm2-pin-file", pin))
    change(volume, "slot", "remove", "--slot", slots(volume)[-1]["slot"], "--passphrase-file", volume.passphrase_file)
    tpm.set_lockout_password()
    environment.cell("with one, the TPM has a lockout password", (False, False), warned("--tpm2-pin-file", pin))


def test_second_reader(environment):
    """The second reader makes the same of the PIN and of what the TPM gives."""
    helper = tpms.installed(environment)
    tpm, bag = tpms.TPM(environment), Bag(environment)
    added(bag.volume, tpm.device, "--tpm2-pin-file", secret_file(bag.volume, "pin", "2580"))
    sealed, p = tpms.Sealed(bag), bag.primitives
    hashed = p.tpm2_pin(b"2580", sealed.value[tpms.SALT:tpms.NAME])
    status, secret = tpms.ask(helper, tpm.device, tpms.unseal_request(sealed.value[tpms.NAME:], 1 << 7, p.tpm2_auth(hashed)))
    environment.cell("the TPM takes its auth value", 0, status)
    keys = bag.modules.Keybag(bag.data).unlock(device_key=bag.device_key, tpm2=p.tpm2_material(secret, hashed))
    environment.cell("its material opens the slot", bag.keys().keys, keys.keys)


def test_a_typed_new_pin(environment):
    tpms.installed(environment)
    tpm, volume = tpms.TPM(environment), environment.volume()
    words = ["slot", "add", "--tpm2", "--pin", "--tpm2-device", tpm.device, "--passphrase-file", volume.passphrase_file, volume.path]
    code, shown, _ = at_terminal(words, volume.environment, [("New PIN", "2580\n"), ("Once more", "2580\n")])
    environment.cell("it is asked twice", (0, False, True), (code, "2580" in shown, "--tpm2 opens the volume with it and the PIN" in shown))
    pin = secret_file(volume, "pin", "2580")
    environment.cell("it opens", 0, tried(volume, *opening(tpm.device, "--tpm2-pin-file", pin))[0])
    code, shown, _ = at_terminal(words, volume.environment, [("New PIN", "2580\n"), ("Once more", "2581\n")] * 3)
    environment.cell("two that differ", (AUTHENTICATION, 1), (code, [slot["kind"] for slot in slots(volume)].count("TPM")))


def test_pcrs(environment):
    """A machine that starts in another way does not open the volume; the passphrase does, and so does the next right start."""
    tpms.installed(environment)
    tpm = tpms.TPM(environment)
    usual, other, none, both = (environment.volume() for _ in range(4))
    added(usual, tpm.device)
    environment.cell("the PCRs of the slot", [8, 14], added(other, tpm.device, "--pcrs", "14,8")["tpm2"]["pcrs"])
    done = add(none, tpm.device, "--pcrs", "none")
    environment.cell("none, and no PIN: a warning", True, "--pin asks for a PIN too" in done.stderr)
    pin = secret_file(both, "pin", "2580")
    added(both, tpm.device, "--pcrs", "7,23", "--tpm2-pin-file", pin)
    key = opening(tpm.device)
    everything = ((usual, []), (other, []), (none, []), (both, ["--tpm2-pin-file", pin]))
    environment.cell("all open", [0] * 4, [tried(volume, *key, *more)[0] for volume, more in everything])
    tpm.extend(7)
    environment.cell("after a change of PCR 7", [AUTHENTICATION, 0, 0, AUTHENTICATION],
                     [tried(volume, *key, *more)[0] for volume, more in everything])
    code, said = tried(both, *key, "--tpm2-pin-file", pin)
    environment.cell("it says what is the matter", (True, True), ("started in another way" in said, "PCR 7 or 23" in said))
    refused(environment, usual, AUTHENTICATION, *key)
    mount(environment, usual, "--passphrase-file", usual.passphrase_file).unmount()
    tpm.restart()
    environment.cell("after a start as before", [0] * 4, [tried(volume, *key, *more)[0] for volume, more in everything])
    for bad in ("24", "-1", "7,", "", "7 8", "x", "99999999999999999999"):
        done = add(usual, tpm.device, f"--pcrs={bad}", ok=False)
        environment.cell(f"--pcrs '{bad}': refused", (USAGE, True), (done.returncode, "is not a list of numbers" in done.stderr))


def test_missing_tpms(environment):
    """Without its TPM a slot does not open, and everything else does."""
    tpms.installed(environment)
    tpm, other, volume = tpms.TPM(environment), tpms.TPM(environment), environment.volume()
    added(volume, tpm.device)
    away = environment.new_path("away")
    for label, device, code, says in (
            ("another machine", other.device, AUTHENTICATION, "no slot is for this TPM"),
            ("no device", "device:" + away, FAILURE, "there is none"),
            ("no software TPM", "swtpm:path=" + away, FAILURE, "cannot be used"),
            ("another library", "/tmp/evil.so", USAGE, "is neither"),
            ("a relative path", "swtpm:path=evil", USAGE, "is neither")):
        found = tried(volume, *opening(device))
        environment.cell(label, (code, True), (found[0], says in found[1]))
    mount(environment, volume, "--passphrase-file", volume.passphrase_file).unmount()
    both = added(volume, other.device)
    for label, device in (("the first machine's TPM", tpm.device), ("the second one's", other.device)):
        environment.cell(label, 0, tried(volume, *opening(device))[0])
    environment.cell("the second slot", both["slot"], json.loads(tried(volume, *opening(other.device))[1])["slot"])
    tpm.clear()
    code, said = tried(volume, *opening(tpm.device))
    environment.cell("a TPM that was cleared", (AUTHENTICATION, True), (code, "replaced or cleared" in said))
    environment.cell("the other one opens still", 0, tried(volume, *opening(other.device))[0])
    other.set_owner_password()
    code, said = tried(volume, *opening(other.device))
    environment.cell("an owner with a password", (FAILURE, True), (code, "has set a password" in said))
    own = os.environ["PROTECTFS"]
    os.unlink(os.path.dirname(os.path.dirname(own)) + "/libexec/protectfs-tpm2")
    code, said = tried(volume, *opening(tpm.device))
    environment.cell("no helper", (UNSUPPORTED, True), (code, "which is not installed" in said))
    mount(environment, volume, "--passphrase-file", volume.passphrase_file).unmount()
    for words in (["--tpm2-pin-file", volume.passphrase_file], ["--tpm2-device", tpm.device]):
        code, said = tried(volume, *words)
        environment.cell(f"{words[0]} alone", (USAGE, True), (code, "no meaning without --tpm2" in said))


def test_storage_keys(environment):
    """A storage key at its usual handle is used if it is the slot's, and ignored otherwise."""
    tpms.installed(environment)
    tpm, other, volume = tpms.TPM(environment), tpms.TPM(environment), environment.volume()
    other.persist(0x00030072)
    added(volume, tpm.device)
    added(volume, other.device)
    tpm.persist()
    for label, one in (("the slot's key is there", tpm), ("another key is there", other)):
        environment.cell(f"{label}: it opens", 0, tried(volume, *opening(one.device))[0])
        one.set_owner_password()
    environment.cell("an owner with a password, and the key is there", 0, tried(volume, *opening(tpm.device))[0])
    code, said = tried(volume, *opening(other.device))
    environment.cell("an owner with a password, and another key is there", (FAILURE, True), (code, "has set a password" in said))
    slot = added(volume, tpm.device)
    environment.cell("a new slot under the key that is there", [slot["tpm2"]["storageKey"]] * 2,
                     [one["tpm2"]["storageKey"] for one in slots(volume) if one["kind"] == "TPM"][::2])


def test_other_changes(environment):
    """Rules for other machines know what a TPM's slot is."""
    tpms.installed(environment)
    tpm, volume = tpms.TPM(environment), environment.volume()
    added(volume, tpm.device)
    recovery = next(one for one in slots(volume) if one["kind"] == "recovery code")
    done = change(volume, "slot", "remove", "--slot", recovery["slot"], *opening(tpm.device), ok=False)
    environment.cell("it does not open on other machines", (USAGE, True), (done.returncode, "without the device key" in done.stderr))
    done = add(volume, tpm.device, "--portable", ok=False)
    environment.cell("not a portable passphrase too", (USAGE, True), (done.returncode, "cannot be used together" in done.stderr))
    done = change(volume, "slot", "add", "--pin", "--passphrase-file", volume.passphrase_file, ok=False)
    environment.cell("--pin alone", (USAGE, True), (done.returncode, "no meaning without --tpm2" in done.stderr))
    elsewhere = environment.volume()
    shutil.rmtree(elsewhere.data)
    os.mkdir(elsewhere.data)
    done = change(elsewhere, "slot", "add", "--tpm2", "--tpm2-device", tpm.device, "--recovery-file", elsewhere.code_file, ok=False)
    environment.cell("no slot without the device key", (AUTHENTICATION, True), (
        done.returncode, "works only together with it" in done.stderr))
