"""Passphrases that are easy to guess, and keybags that demand too much work."""

import json
import os
import struct
import time

import harness
import reader
from terminal import at_terminal

AUTHENTICATION, VOLUME = 3, 4
WEAK, MIDDLING, STRONG = "a", "tr0ub4dor&3", "cargo plum violet ankle"
QUICK = ["--cipher", "xchacha20-poly1305"]


def secret(environment, text):
    path = environment.new_path("secret")
    harness.write_file(path, text.encode() + b"\n")
    return path


def init(environment, text, *words):
    """What init makes of a passphrase: its exit code, what it says, and whether there is a volume."""
    place = environment.new_path("new")
    where = {**os.environ, "XDG_STATE_HOME": environment.new_path("data")}
    done = harness.protectfs("init", *QUICK, *words, "--passphrase-file", secret(environment, text), place, env=where, ok=False)
    return done.returncode, done.stderr, os.path.exists(place)


def test_init(environment):
    for words in (["--device-key", "none"], ["--portable"]):
        label = words[0]
        code, said, made = init(environment, WEAK, *words)
        environment.cell(f"{label}: refused", (AUTHENTICATION, True, False), (code, "--weak-passphrase" in said, made))
    for label, text, words, warns in (
            ("told so", WEAK, ["--device-key", "none", "--weak-passphrase"], True),
            ("middling", MIDDLING, ["--portable"], True), ("strong", STRONG, ["--portable"], False),
            ("bound to the device key", WEAK, [], True), ("bound and strong", STRONG, [], False)):
        code, said, made = init(environment, text, *words)
        environment.cell(label, (0, warns, True), (code, "warning: the passphrase" in said, made))
        environment.cell(f"{label}: it is not shown", False, "ankle" in said or "tr0ub" in said)


def test_changes(environment):
    volume = environment.volume()
    credential, weak = ["--recovery-file", volume.code_file], ["--new-passphrase-file", secret(environment, WEAK)]

    def ask(*words):
        before = harness.read_file(reader.keybag_file(volume))
        done = harness.protectfs(*words, *credential, *weak, volume.path, env=volume.environment, ok=False)
        return done.returncode, done.stderr, before == harness.read_file(reader.keybag_file(volume))

    for words in (["slot", "add", "--portable"], ["recovery", "use", "--portable"]):
        code, said, is_same = ask(*words)
        environment.cell(f"{words[1]}: refused", (AUTHENTICATION, True, True), (code, "--weak-passphrase" in said, is_same))
    code, said, is_same = ask("slot", "add", "--portable", "--weak-passphrase")
    environment.cell("add: told so", (0, True, False), (code, "warning" in said, is_same))
    listed = json.loads(harness.protectfs("slot", "list", "--json", volume.path, env=volume.environment).stdout)
    bound, portable = [[slot["slot"] for slot in listed if slot["kind"] == "passphrase" and slot["boundToDeviceKey"] == is_bound][0]
                       for is_bound in (True, False)]
    code, said, is_same = ask("passphrase", "change", "--slot", portable)
    environment.cell("change of a portable one: refused", (AUTHENTICATION, True), (code, is_same))
    code, said, is_same = ask("passphrase", "change", "--slot", bound)
    environment.cell("change of a bound one: warned", (0, True, False), (code, "warning" in said, is_same))


def test_terminal(environment):
    """A person may try again."""
    place = environment.new_path("new")
    where = {**os.environ, "XDG_STATE_HOME": environment.new_path("data")}
    answers = [("New passphrase", "aaa\n"), ("Once more", "aaa\n"), ("New passphrase", STRONG + "\n"),
               ("Once more", STRONG + "\n")]
    code, shown, _ = at_terminal(["init", *QUICK, "--portable", place], where, answers)
    environment.cell("the second one is taken", (0, True, True, False), (
        code, "too easy" in shown, os.path.exists(place), STRONG in shown))
    place = environment.new_path("new")
    answers = [("New passphrase", "aaa\n"), ("Once more", "aaa\n")] * 3
    code, shown, _ = at_terminal(["init", *QUICK, "--portable", place], where, answers)
    environment.cell("not for ever", (AUTHENTICATION, False), (code, os.path.exists(place)))


def swollen(keybag, count):
    """The keybag with slots of the highest cost before the others, as an attacker with the store can add them."""
    slots, extensions = struct.unpack_from("<HH", keybag, 100)
    added = b""
    for number in range(count):
        slot = bytearray(104 + 40 + 16)
        struct.pack_into("<HBBIBBHIQ", slot, 0, len(slot), 2, 0, 1 << 20 | number, 1, 1, 0, 16, 4 << 30)
        slot[32:48] = os.urandom(16)
        added += bytes(slot)
    whole = bytearray(keybag[:128] + added + keybag[128:])
    struct.pack_into("<I", whole, 96, len(whole))
    struct.pack_into("<HH", whole, 100, slots + count, extensions)
    return bytes(whole)


def test_work_without_a_device_key(environment):
    place, data = environment.new_path("new"), environment.new_path("data")
    os.mkdir(data)
    good, wrong = secret(environment, STRONG), secret(environment, "something else")
    where = {**os.environ, "XDG_STATE_HOME": data}
    made = harness.protectfs("init", *QUICK, "--json", "--device-key", "none", "--passphrase-file", good, place, env=where)
    volume = harness.Volume(place, data, secret(environment, json.loads(made.stdout)["recoveryCode"]), good)
    mount = environment.mount(volume)
    mount.lock()
    keybag = reader.keybag_file(volume)
    honest = harness.read_file(keybag)
    harness.write_file(keybag, swollen(honest, 300), os.O_TRUNC)
    point = environment.new_path("point")
    os.mkdir(point)
    for label, words in (("a running mount", ["unlock", "--passphrase-file", wrong, mount.path]),
                         ("slot add", ["slot", "add", "--accept-keybag", "--passphrase-file", wrong,
                                             "--new-passphrase-file", good, place]),
                         ("fsck", ["fsck", "--accept-keybag", "--passphrase-file", good, place])):
        if label == "slot add":
            mount.unmount()
        started = time.monotonic()
        done = harness.protectfs(*words, env=volume.environment, ok=False)
        environment.cell(f"{label}: refused", (8 if label == "fsck" else VOLUME, True, True), (
            done.returncode, "301 portable passphrases" in done.stderr, "--recovery-file" in done.stderr))
        # One slot of this cost takes longer.
        environment.cell(f"{label}: at once", True, time.monotonic() - started < 10)
    # The recovery code costs nothing, and says what is wrong.
    done = harness.protectfs("mount", "--accept-keybag", "--recovery-file", volume.code_file, place, point,
                             env=volume.environment, ok=False)
    environment.cell("the recovery code", (VOLUME, True), (done.returncode, "has been changed" in done.stderr))
    harness.write_file(keybag, honest, os.O_TRUNC)
    environment.mount(volume)
