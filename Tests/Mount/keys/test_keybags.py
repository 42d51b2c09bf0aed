"""Keybags that were rolled back, swapped or cut, all kinds of passphrases, and a volume on a new machine."""

import json
import os
import shutil
import subprocess
import time

import reader
from harness import PASSPHRASE, PATIENCE, Volume, binary, outcome, protectfs, read_file, set_class, write_file
from keybags import change, mount, refused, secret_file, slots

USAGE, AUTHENTICATION, DAMAGED = 2, 3, 4


def add(volume, text, *words):
    # Words around it, as a portable passphrase must not be easy to guess.
    new = secret_file(volume, "new-" + text, f"cargo plum {text} violet ankle")
    change(volume, "slot", "add", *words, "--recovery-file", volume.code_file, "--new-passphrase-file", new)
    return new


def another_machine(environment, volume, copy_keys=False):
    """The same volume as seen from a machine that knows nothing of it, or has a copy of the key only."""
    data = environment.new_path("data")
    os.makedirs(data)
    if copy_keys:
        os.makedirs(os.path.join(data, "protectfs"))
        for name in os.listdir(os.path.join(volume.data, "protectfs")):
            if name.endswith(".key"):
                shutil.copy2(os.path.join(volume.data, "protectfs", name), os.path.join(data, "protectfs", name))
    return Volume(volume.path, data, volume.code_file, volume.passphrase_file)


def test_rolled_back(environment):
    volume = environment.volume()
    with open(reader.keybag_file(volume), "rb") as file:
        old = file.read()
    add(volume, "second")
    write_file(reader.keybag_file(volume), old, os.O_TRUNC)
    message = refused(environment, volume, DAMAGED, "--recovery-file", volume.code_file)
    assert "--accept-keybag" in message, message
    refused(environment, volume, DAMAGED, "--no-unlock")
    # A machine that has not seen the newer one cannot know.
    mount(environment, another_machine(environment, volume, copy_keys=True), "--no-unlock").unmount()
    accepted = mount(environment, volume, "--accept-keybag", "--recovery-file", volume.code_file)
    write_file(accepted / "file", b"works")
    accepted.unmount()
    # It is the one that is pinned now.
    mount(environment, volume, "--recovery-file", volume.code_file).unmount()


def test_every_field_changed(environment):
    volume = environment.volume()
    with open(reader.keybag_file(volume), "rb") as file:
        whole = file.read()
    step = 1 if environment.mode == "full" else 7
    offsets = sorted({*range(0, 104, 3), *range(104, len(whole), step * 5), len(whole) - 64, len(whole) - 1})
    for offset in offsets:
        changed = bytearray(whole)
        changed[offset] ^= 1
        write_file(reader.keybag_file(volume), bytes(changed), os.O_TRUNC)
        done = mount(environment, volume, "--recovery-file", volume.code_file, ok=False).result
        environment.cell(f"byte {offset}", True, done.returncode in (AUTHENTICATION, DAMAGED, 5))
    write_file(reader.keybag_file(volume), whole, os.O_TRUNC)
    mount(environment, volume, "--recovery-file", volume.code_file).unmount()


def test_another_public_key(environment):
    volume = environment.volume()
    with open(reader.keybag_file(volume), "rb") as file:
        whole = bytearray(file.read())
    whole[64:96] = os.urandom(32)
    write_file(reader.keybag_file(volume), bytes(whole), os.O_TRUNC)
    refused(environment, volume, DAMAGED, "--recovery-file", volume.code_file)
    # A machine that has never seen the right one, or was told to accept, does not believe it either.
    refused(environment, volume, DAMAGED, "--accept-keybag", "--recovery-file", volume.code_file)
    refused(environment, another_machine(environment, volume, copy_keys=True), DAMAGED, "--no-unlock")


def test_half_a_keybag(environment):
    volume = environment.volume()
    with open(reader.keybag_file(volume), "rb") as file:
        whole = file.read()
    for part in (b"", whole[:7], whole[:128], whole[:len(whole) // 2], whole[:-1], whole + b"\0", b"\0" * len(whole)):
        write_file(reader.keybag_file(volume), part, os.O_TRUNC)
        refused(environment, volume, DAMAGED, "--recovery-file", volume.code_file)
        with open(reader.keybag_file(volume), "rb") as file:
            assert file.read() == part, "a damaged keybag is evidence, and is not to be touched"
    os.unlink(reader.keybag_file(volume))
    refused(environment, volume, DAMAGED, "--recovery-file", volume.code_file)


def test_another_volumes_keybag(environment):
    volume = environment.volume()
    data = environment.new_path("data")
    other_path = environment.new_path("volume")
    other_environment = {**os.environ, "XDG_STATE_HOME": data}
    made = json.loads(protectfs("init", "--json", "--passphrase-file", volume.passphrase_file, other_path,
                                env=other_environment).stdout)
    code = secret_file(volume, "other-code", made["recoveryCode"])
    other = Volume(other_path, data, code, volume.passphrase_file)
    one = mount(environment, volume, "--recovery-file", volume.code_file)
    write_file(one / "name", b"content")
    one.unmount()
    shutil.copyfile(reader.keybag_file(other), reader.keybag_file(volume))
    # The device key of this volume does not open it.
    done = mount(environment, volume, "--recovery-file", volume.code_file, ok=False).result
    assert done.returncode in (AUTHENTICATION, DAMAGED), done.stderr
    # Nor do the right keys of the wrong volume show anything.
    wrong = Volume(volume.path, data, code, volume.passphrase_file)
    done = mount(environment, wrong, "--recovery-file", code, ok=False)
    if done.result.returncode == 0:
        assert "name" not in os.listdir(done.path)
        assert outcome(write_file, done / "new", b"x") == "EIO"
        done.unmount()


def test_state_file_missing(environment):
    volume = environment.volume()
    one = mount(environment, volume, "--recovery-file", volume.code_file)
    write_file(one / "file", b"content")
    one.unmount()
    path = reader.state_file(volume)
    os.unlink(path)
    two = mount(environment, volume, "--recovery-file", volume.code_file)
    assert read_file(two / "file") == b"content"
    two.unmount()
    assert reader.state_file(volume) == path
    # Cut short: it says nothing that could be believed, and is not passed over in silence.
    with open(path, "rb") as file:
        whole = file.read()
    write_file(path, whole[:50], os.O_TRUNC)
    refused(environment, volume, DAMAGED, "--recovery-file", volume.code_file)
    write_file(path, whole, os.O_TRUNC)
    mount(environment, volume, "--recovery-file", volume.code_file).unmount()


def test_passphrases(environment):
    volume = environment.volume()
    before = slots(volume)
    assert [slot["kind"] for slot in before] == ["device key", "passphrase", "recovery code"], before
    assert before[1]["boundToDeviceKey"] is True
    second = add(volume, "second")
    portable = add(volume, "portable", "--portable")
    listed = slots(volume)
    assert [slot["boundToDeviceKey"] for slot in listed if slot["kind"] == "passphrase"] == [True, True, False]
    for file in (volume.passphrase_file, second, portable):
        mount(environment, volume, "--passphrase-file", file).unmount()
    wrong = secret_file(volume, "wrong", "not it")
    assert "wrong passphrase" in refused(environment, volume, AUTHENTICATION, "--passphrase-file", wrong)
    # Change the second, giving it.
    changed = secret_file(volume, "changed", "changed")
    change(volume, "passphrase", "change", "--passphrase-file", second, "--new-passphrase-file", changed)
    refused(environment, volume, AUTHENTICATION, "--passphrase-file", second)
    mount(environment, volume, "--passphrase-file", changed).unmount()
    # Remove all but the last.
    numbers = [slot["slot"] for slot in slots(volume) if slot["kind"] == "passphrase"]
    for number in numbers[1:]:
        change(volume, "slot", "remove", "--slot", number, "--recovery-file", volume.code_file)
    refused(environment, volume, AUTHENTICATION, "--passphrase-file", changed)
    refused(environment, volume, AUTHENTICATION, "--passphrase-file", portable)
    done = change(volume, "slot", "remove", "--slot", numbers[0], "--recovery-file", volume.code_file, ok=False)
    assert done.returncode != 0 and "only passphrase" in done.stderr, done.stderr
    mount(environment, volume, "--passphrase-file", volume.passphrase_file).unmount()
    # Nothing half-written is left.
    assert [name for name in os.listdir(volume.path) if name.startswith(".protectfs.tmp")] == []


def test_change_beside_a_mount(environment):
    volume = environment.volume()
    one = mount(environment, volume, "--no-unlock")
    assert one.state() == "before-first-unlock"
    new = add(volume, "added")
    one.command("unlock", "--passphrase-file", new, one.path)
    assert one.state() == "unlocked"
    write_file(one / "file", b"content")
    set_class(one / "file", "A")
    one.lock()
    assert outcome(read_file, one / "file") == "EACCES"
    one.unlock()
    assert read_file(one / "file") == b"content"
    one.unmount()


def test_portable_and_bound(environment):
    volume = environment.volume()
    portable = add(volume, "portable", "--portable")
    one = mount(environment, volume, "--recovery-file", volume.code_file)
    write_file(one / "file", b"content")
    one.unmount()
    elsewhere = another_machine(environment, volume)
    # A copy of the volume without the device key: the bound passphrase is worth nothing.
    message = refused(environment, elsewhere, AUTHENTICATION, "--passphrase-file", volume.passphrase_file)
    assert "device key" in message, message
    done = mount(environment, elsewhere, "--no-unlock", ok=False).result
    assert done.returncode == AUTHENTICATION, done.stderr
    for words in (("--passphrase-file", portable), ("--recovery-file", volume.code_file)):
        two = mount(environment, elsewhere, *words)
        assert read_file(two / "file") == b"content"
        # Lock and unlock work there as well.
        set_class(two / "file", "A")
        two.lock()
        assert outcome(read_file, two / "file") == "EACCES"
        two.command("unlock", *words, two.path)
        assert read_file(two / "file") == b"content"
        two.unmount()
    # With a copy of the key the bound one opens as at home.
    copied = another_machine(environment, volume, copy_keys=True)
    mount(environment, copied, "--passphrase-file", volume.passphrase_file).unmount()


def test_recovery(environment):
    volume = environment.volume()
    one = mount(environment, volume, "--recovery-file", volume.code_file)
    write_file(one / "file", b"content")
    set_class(one / "file", "A")
    one.unmount()
    # A new code: the old one no longer works.
    made = json.loads(change(volume, "slot", "add", "--recovery", "--json", "--recovery-file", volume.code_file).stdout)
    code = secret_file(volume, "new-code", made["recoveryCode"])
    refused(environment, volume, AUTHENTICATION, "--recovery-file", volume.code_file)
    mount(environment, volume, "--recovery-file", code).unmount()
    # Written carelessly it still is the code; with a typing error it is none.
    careless = secret_file(volume, "careless", made["recoveryCode"].lower().replace("-", " "))
    mount(environment, volume, "--recovery-file", careless).unmount()
    last = made["recoveryCode"][-1]
    typo = secret_file(volume, "typo", made["recoveryCode"][:-1] + ("0" if last != "0" else "1"))
    assert "typing error" in refused(environment, volume, AUTHENTICATION, "--recovery-file", typo)
    # A new machine: the code gives it a device key and a passphrase of its own.
    elsewhere = another_machine(environment, volume)
    new = secret_file(volume, "new-machine", "new machine")
    change(elsewhere, "recovery", "use", "--recovery-file", code, "--new-passphrase-file", new)
    two = mount(environment, elsewhere, "--passphrase-file", new)
    assert read_file(two / "file") == b"content"
    two.unmount()
    three = mount(environment, elsewhere, "--no-unlock")
    assert three.state() == "before-first-unlock"
    three.unmount()
    # The old machine's key and its passphrase are out; the code is in.
    done = mount(environment, volume, "--passphrase-file", volume.passphrase_file, ok=False).result
    assert done.returncode == AUTHENTICATION, done.stderr
    refused(environment, volume, AUTHENTICATION, "--no-unlock")


def initialise(environment, *words):
    place = environment.new_path("made")
    os.makedirs(os.path.join(place, "data"))
    passphrase = os.path.join(place, "passphrase")
    with open(passphrase, "w", encoding="ascii") as file:
        file.write(PASSPHRASE + "\n")
    path = os.path.join(place, "volume")
    variables = {**os.environ, "XDG_STATE_HOME": os.path.join(place, "data")}
    made = json.loads(protectfs("init", "--json", "--passphrase-file", passphrase, *words, path, env=variables).stdout)
    code = os.path.join(place, "code")
    with open(code, "w", encoding="ascii") as file:
        file.write(made["recoveryCode"] + "\n")
    return Volume(path, os.path.join(place, "data"), code, passphrase), made


def test_no_device_key(environment):
    volume, made = initialise(environment, "--device-key", "none")
    assert made["deviceKey"] is None, made
    assert [slot["kind"] for slot in slots(volume)] == ["passphrase", "recovery code"]
    # Such a volume has no state before first unlock: mounting asks.
    assert "has no device key" in refused(environment, volume, USAGE, "--no-unlock")
    one = mount(environment, volume, "--passphrase-file", volume.passphrase_file)
    assert one.state() == "unlocked"
    write_file(one / "file", b"content")
    set_class(one / "file", "A")
    one.lock()
    assert one.state() == "locked"
    assert outcome(read_file, one / "file") == "EACCES"
    one.command("unlock", "--passphrase-file", volume.passphrase_file, one.path)
    assert read_file(one / "file") == b"content"
    one.unmount()
    elsewhere = another_machine(environment, volume)
    mount(environment, elsewhere, "--passphrase-file", volume.passphrase_file).unmount()
    # There is no device key to reset, so the passphrases stay, and recovery use says so.
    new, key = secret_file(volume, "new", "seven unusual words of a portable kind"), environment.new_path("key")
    words = ("recovery", "use", "--recovery-file", volume.code_file, "--new-passphrase-file", new)
    done = change(volume, *words, "--device-key", key, ok=False)
    environment.cell("a device key for it", (USAGE, False), (done.returncode, os.path.exists(key)))
    done = change(volume, *words)
    environment.cell("what recovery use says", (True, False), ("the other passphrases still open it" in done.stdout,
                                                               "no longer work" in done.stdout))
    for secret in (new, volume.passphrase_file):
        mount(environment, volume, "--passphrase-file", secret).unmount()


def test_device_key_file(environment):
    key = os.path.join(environment.base, "the key")
    volume, made = initialise(environment, "--device-key", key)
    assert made["deviceKey"] == key, made
    assert os.stat(key).st_mode & 0o777 == 0o600 and os.path.getsize(key) == 32
    mount(environment, volume, "--device-key", key, "--passphrase-file", volume.passphrase_file).unmount()
    one = mount(environment, volume, "--device-key", key, "--no-unlock")
    assert one.state() == "before-first-unlock"
    one.unmount()
    # Not given: it is not guessed.
    refused(environment, volume, AUTHENTICATION, "--passphrase-file", volume.passphrase_file)
    # Not a key, another key, a key that others can read.
    for name, content in (("short", b"x" * 31), ("long", b"x" * 33), ("other", os.urandom(32))):
        wrong = os.path.join(environment.base, name)
        write_file(wrong, content)
        os.chmod(wrong, 0o600)
        done = mount(environment, volume, "--device-key", wrong, "--no-unlock", ok=False).result
        assert done.returncode == AUTHENTICATION, f"{name}: {done.returncode}: {done.stderr}"


def test_delays_grow(environment):
    volume = environment.volume()
    one = mount(environment, volume, "--no-unlock")
    wrong = secret_file(volume, "wrong", "not it")
    started, least = time.monotonic(), 0
    for failure, earned in enumerate((1, 2, 4, 8)):
        done = one.command("unlock", "--passphrase-file", wrong, one.path, ok=False)
        assert done.returncode == AUTHENTICATION, done.stderr
        # Each attempt waits out the delay that the one before has earned; all together, as a delay begins before a command ends.
        environment.cell(f"failure {failure}", True, time.monotonic() - started >= least)
        least += earned
    assert one.state() == "before-first-unlock"
    assert one.status()["unlockFailures"] == 4, one.status()
    one.unlock()
    assert one.status()["unlockFailures"] == 0
    one.unmount()


def test_changed_while_an_attempt_waits(environment):
    """A passphrase that is changed while an unlock by it waits for the delay of wrong ones does not unlock any more."""
    # After so many the next attempt waits for 8, 16 or 30 s: on a busy machine a change may take longer than the first ones.
    for count in (4, 5, 6, 6):
        volume = environment.volume()
        one = mount(environment, volume, "--no-unlock")
        wrong, new = secret_file(volume, "wrong", "not it"), secret_file(volume, "new", "another long passphrase of mine")
        for _ in range(count):
            one.command("unlock", "--passphrase-file", wrong, one.path, ok=False)
        waiting = subprocess.Popen([binary(), "unlock", "--passphrase-file", volume.passphrase_file, one.path],
                                   env=volume.environment, stderr=subprocess.DEVNULL)
        time.sleep(0.5)
        change(volume, "passphrase", "change", "--passphrase-file", volume.passphrase_file, "--new-passphrase-file", new)
        if is_waiting := waiting.poll() is None:
            break
    environment.cell("the attempt waited", True, is_waiting)
    environment.cell("the former passphrase", AUTHENTICATION, waiting.wait(PATIENCE))
    environment.cell("state", "before-first-unlock", one.state())
    one.unmount()


def test_keybag_is_a_link_or_a_fifo(environment):
    volume = environment.volume()
    path = reader.keybag_file(volume)
    os.rename(path, path + ".away")
    os.symlink(path + ".away", path)
    refused(environment, volume, DAMAGED, "--no-unlock")
    os.unlink(path)
    os.mkfifo(path)
    refused(environment, volume, DAMAGED, "--no-unlock")
    os.unlink(path)
    os.rename(path + ".away", path)
    mount(environment, volume, "--no-unlock").unmount()
