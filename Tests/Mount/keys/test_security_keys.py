"""Slots of security keys (FIDO2), with a key in software on a socket: every way in, PINs, touches, and keys that misbehave."""

import contextlib
import json
import os
import shutil
import zlib

import authenticator
import harness
import reader
from authenticator import ASSERT, CLIENT_PIN, INFO, MAKE, Authenticator
from keybags import change, secret_file
from terminal import at_terminal

FAILURE, USAGE, AUTHENTICATION, DAMAGED, UNSUPPORTED = 1, 2, 3, 4, 5
PIN = "1379"
LIBRARY = "libfido2.so.1"


@contextlib.contextmanager
def key(environment, **more):
    """A security key that is connected until the end."""
    if authenticator.ec is None:
        raise harness.Skip("python3-cryptography is not installed")
    if not any(os.path.exists(os.path.join(place, LIBRARY)) for place in libraries()):
        raise harness.Skip("libfido2-1 is not installed")
    made = Authenticator(environment.new_path("k"), **more)
    try:
        yield made
    finally:
        made.close()


def libraries():
    """The places of the system's libraries."""
    places = ["/lib64", "/usr/lib64", "/lib", "/usr/lib"]
    return places + [f"/usr/lib/{machine}-linux-gnu" for machine in ("x86_64", "aarch64")]


def pin_words(volume, pin=PIN, new=False):
    return [f"--{'new-' if new else ''}fido2-pin-file", secret_file(volume, f"pin-{zlib.crc32(pin.encode())}", pin)]


def add(volume, device, *words, ok=True, pin=PIN):
    """Adds the key, opened by the passphrase; without `pin`, by a touch alone."""
    given = pin_words(volume, pin, new=True) if pin else ["--no-pin"]
    return change(volume, "slot", "add", "--fido2", "--fido2-device", device, "--json", *given, *words,
                  "--passphrase-file", volume.passphrase_file, ok=ok)


def opening(volume, device, pin=PIN):
    return ["--fido2-key", device, *(pin_words(volume, pin) if pin else [])]


def tested(volume, *words, ok=True):
    return change(volume, "slot", "test", "--json", *words, ok=ok)


def slot_of(volume, number):
    """The bytes of the slot, and its place in the keybag."""
    data = harness.read_file(reader.keybag_file(volume))
    slot = next(one for one in reader.load().keybag.Keybag(data).slots if one.id == number)
    return slot, data


def test_one_key_adds_another(environment):
    """Each key is opened by itself; both protocols of PINs work, and so does a key that tells nothing without its PIN."""
    volume = environment.volume()
    with key(environment, pin=PIN, protocol=1) as first, key(environment, pin="2468", always_pin=True) as second:
        one = json.loads(add(volume, first.device).stdout)
        made = change(volume, "slot", "add", "--fido2", "--fido2-device", second.device, *pin_words(volume, "2468", new=True),
                      "--json", *opening(volume, first.device))
        two = json.loads(made.stdout)
        environment.cell("the first", one, json.loads(tested(volume, *opening(volume, first.device)).stdout))
        # It does not say which of both slots it knows, so the first one is tried, whose credential is not its own.
        change(volume, "slot", "remove", "--slot", one["slot"], "--passphrase-file", volume.passphrase_file)
        environment.cell("the second", two, json.loads(tested(volume, *opening(volume, second.device, "2468")).stdout))
        done = tested(volume, *opening(volume, first.device), ok=False)
        environment.cell("the first is another key now", (AUTHENTICATION, True), (
            done.returncode, "has a slot of this volume" in done.stderr))


def test_without_pin(environment):
    """A slot that was made without the PIN asks for a touch alone, with the other secret of the key."""
    volume = environment.volume()
    with key(environment) as made:
        refused = add(volume, made.device, ok=False)
        environment.cell("a key without a PIN", (AUTHENTICATION, True), (
            refused.returncode, "has no PIN" in refused.stderr and "--no-pin" in refused.stderr))
        slot = json.loads(add(volume, made.device, pin=None).stdout)
        environment.cell("made", False, slot["usesPIN"])
        environment.cell("opened", slot, json.loads(tested(volume, *opening(volume, made.device, None)).stdout))
        made.pin = PIN
        environment.cell("also when the key has got a PIN", slot,
                         json.loads(tested(volume, *opening(volume, made.device, None)).stdout))
        found, data = slot_of(volume, slot["slot"])
        at = data.index(found.fido2)
        reader.flip(reader.keybag_file(volume), at)
        done = tested(volume, *opening(volume, made.device), ok=False)
        environment.cell("the flag PIN was changed, and the device key notices", DAMAGED, done.returncode)
        done = tested(volume, "--device-key", "none", *opening(volume, made.device), ok=False)
        environment.cell("without it the secret is another one", (AUTHENTICATION, True), (
            done.returncode, "opens no slot" in done.stderr))


def test_pins(environment):
    """Wrong PINs are told with what is left, and no PIN is sent twice or for nothing."""
    volume = environment.volume()
    with key(environment, pin=PIN) as made:
        slot = json.loads(add(volume, made.device).stdout)
        wrong, right = opening(volume, made.device, "0000"), opening(volume, made.device)

        def says(label, words, text, code=AUTHENTICATION):
            done = tested(volume, *words, ok=False)
            environment.cell(label, (code, True), (done.returncode, text in done.stderr))
            return done.stderr

        shown = says("wrong", wrong, "7 attempts are left")
        environment.cell("the PIN is not shown", False, "0000" in shown)
        says("wrong again", wrong, "6 attempts are left")
        says("three in a row", wrong, "unplug it")
        says("the right one now", right, "unplug it")
        made.plug_in_again()
        environment.cell("plugged in again", slot, json.loads(tested(volume, *right).stdout))
        environment.cell("the attempts are back", 8, made.attempts)
        made.attempts = 2
        says("one is left", wrong, "after one more wrong one")
        says("the last", wrong, "takes no PIN any more")
        made.plug_in_again()
        says("blocked for good", right, "open the volume in another way")
        made.attempts = 8
        for label, words in (("too long", opening(volume, made.device, "1" * 64)),
                             ("a zero byte", ["--fido2-key", made.device, "--fido2-pin-command", "printf '12\\00034\\n'"])):
            says(label, words, "1 to 63 bytes")
            environment.cell(f"{label}: no attempt is used", 8, made.attempts)
        says("no terminal, no file", ["--fido2-key", made.device], "--fido2-pin-file")
        both = says("a file and a command", [*right, "--fido2-pin-command", "echo 1"], "cannot be used together", USAGE)
        environment.cell("named", True, "--fido2-pin-command" in both)
        done = tested(volume, "--fido2-key", made.device, "--fido2-pin-command", f"echo {PIN}")
        environment.cell("by a command", slot, json.loads(done.stdout))
        for words in (["--fido2-pin-file", right[3]], ["--fido2-pin-command", "echo 1"]):
            says(f"{words[0]} alone", words, "--fido2-key", USAGE)
        code, text, echoes = at_terminal(
            ["slot", "test", "--fido2-key", made.device, volume.path], volume.environment, [("PIN of the", PIN + "\n")])
        environment.cell("typed", (0, True, False, True), (code, "touch the security key" in text, PIN in text, echoes in (True, None)))


def test_touches(environment):
    volume = environment.volume()
    before = harness.read_file(reader.keybag_file(volume))
    with key(environment, pin=PIN, touches=False) as made:
        done = add(volume, made.device, ok=False)
        environment.cell("nobody touches the new key", (AUTHENTICATION, True, True), (
            done.returncode, "not touched in time" in done.stderr, before == harness.read_file(reader.keybag_file(volume))))
        made.touches, before = True, made.touched
        add(volume, made.device)
        tested(volume, *opening(volume, made.device))
        environment.cell("two touches to add it, one to open", 3, made.touched - before)
        for label, touches, says in (("nobody touches it", False, "not touched in time"), ("refused at the key", "denied", "refused")):
            made.touches = touches
            done = tested(volume, *opening(volume, made.device), ok=False)
            environment.cell(label, (AUTHENTICATION, True), (done.returncode, says in done.stderr))


def test_no_key(environment):
    volume = environment.volume()
    before = harness.read_file(reader.keybag_file(volume))
    with key(environment, pin=PIN) as made:
        for label, device, words in (("no socket", "socket:" + environment.new_path("none"), []),
                                     ("no device", environment.new_path("none"), []),
                                     ("a file", volume.passphrase_file, []), ("a path that is too long", "socket:/" + "x" * 300, [])):
            done = add(volume, device, *words, ok=False)
            environment.cell(f"{label}: not added", (AUTHENTICATION, True), (
                done.returncode, "nothing answers there" in done.stderr))
        environment.cell("unchanged", True, before == harness.read_file(reader.keybag_file(volume)))
        with key(environment, pin=PIN, extensions=["credProtect"]) as poor:
            done = add(volume, poor.device, ok=False)
            environment.cell("without hmac-secret", (UNSUPPORTED, True), (done.returncode, "hmac-secret" in done.stderr))
        done = tested(volume, *opening(volume, made.device), ok=False)
        environment.cell("no slot", (AUTHENTICATION, True), (done.returncode, "slot add --fido2" in done.stderr))
        for words in (["--no-pin"], ["--fido2-device", made.device]):
            done = change(volume, "slot", "add", *words, ok=False)
            environment.cell(f"{words[0]} alone", (USAGE, True), (done.returncode, "--fido2" in done.stderr))
        for words in (["--portable"], ["--recovery"]):
            done = add(volume, made.device, *words, ok=False)
            environment.cell(f"not with {words[0]}", USAGE, done.returncode)
        environment.cell("none of these asked the key", [], [one for one in made.asked if one in (MAKE, ASSERT, CLIENT_PIN)])


def test_library_is_loaded_for_keys_only(environment):
    """A start without a security key does not load libfido2."""
    if shutil.which("strace") is None:
        raise harness.Skip("strace is not installed")
    volume = environment.volume()
    with key(environment, pin=PIN) as made:
        add(volume, made.device)
        traced = environment.new_path("trace")
        harness.run("strace", "-f", "-e", "trace=open,openat", "-o", traced, harness.binary(), "slot", "test", "--passphrase-file",
                    volume.passphrase_file, volume.path, env=volume.environment)
        environment.cell("with a passphrase", False, b"libfido2" in harness.read_file(traced))
        harness.run("strace", "-f", "-e", "trace=open,openat", "-o", traced, harness.binary(), "slot", "test",
                    *opening(volume, made.device), volume.path, env=volume.environment)
        environment.cell("with a key", True, b"libfido2" in harness.read_file(traced))


def test_without_library(environment):
    """Without libfido2 everything else works, and a command with a security key names the package."""
    volume = environment.volume()
    with key(environment, pin=PIN) as made:
        if os.geteuid() != 0 or shutil.which("unshare") is None:
            raise harness.Skip("only root may hide the library, in a mount namespace")
        add(volume, made.device)
        hidden = [os.path.join(place, LIBRARY) for place in libraries() if os.path.exists(os.path.join(place, LIBRARY))]

        def test(*words):
            hide = "".join(f"mount --bind /dev/null {path} && " for path in {os.path.realpath(one) for one in hidden})
            return harness.run("unshare", "-m", "sh", "-c", f'{hide}exec "$@"', "sh", harness.binary(), "slot", "test", *words,
                               volume.path, env={**os.environ, **volume.environment}, ok=False)

        done = test("--passphrase-file", volume.passphrase_file)
        environment.cell("a passphrase", 0, done.returncode)
        done = test(*opening(volume, made.device))
        environment.cell("a security key", (UNSUPPORTED, True), (done.returncode, "libfido2-1" in done.stderr))


#: What a key may answer to a command: anything that is not CTAP, cut off, huge, or for another question.
RUBBISH = {
    "nothing": lambda answer: b"", "a status alone": lambda answer: answer[:1], "half": lambda answer: answer[:len(answer) // 2],
    "zeros": lambda answer: bytes(len(answer)), "no CBOR": lambda answer: b"\0" + b"\xff" * 60,
    "2,000 bytes of it": lambda answer: answer + bytes(2000 - len(answer)), "7,000 bytes": lambda answer: b"\0" + b"\xa1" * 7000,
    "a map of 2^32 items": lambda answer: b"\0\xba\xff\xff\xff\xff" + bytes(40), "an unknown status": lambda answer: b"\xee",
    "it hangs up": lambda answer: "hang up", "nested 500 times": lambda answer: b"\0" + b"\x81" * 500,
    "the last byte changed": lambda answer: answer[:-1] + bytes([answer[-1] ^ 1])}


def test_rubbish(environment):
    """Whatever a key answers, the command ends with a message, and the keybag is unchanged or opens."""
    volume = environment.volume()
    with key(environment, pin=PIN) as made:
        add(volume, made.device)
        before = harness.read_file(reader.keybag_file(volume))
        for command, name in ((INFO, "info"), (CLIENT_PIN, "PIN"), (ASSERT, "assertion"), (MAKE, "credential")):
            for label, fault in RUBBISH.items():
                made.plug_in_again()
                made.faults = {command: fault}
                done = (add(volume, made.device, ok=False) if command == MAKE else tested(volume, *opening(volume, made.device), ok=False))
                # A change in a signature, which is not used, or in what libfido2 does not read may go unnoticed.
                right = {FAILURE, AUTHENTICATION, UNSUPPORTED} | ({0} if label.startswith(("the last byte", "2,000")) else set())
                environment.cell(f"{name}: {label}", (True, False), (done.returncode in right, "Fatal" in done.stderr))
                if command != MAKE:
                    environment.cell(f"{name}: {label}: unchanged", True, before == harness.read_file(reader.keybag_file(volume)))
        made.faults = {}
        made.plug_in_again()
        made.attempts = 8
        tested(volume, *opening(volume, made.device))


def test_silence(environment):
    """A key that does not answer at all is given up, by the time that it has for everything but a touch."""
    volume = environment.volume()
    with key(environment, pin=PIN) as made:
        add(volume, made.device)
        for command, name in ((INFO, "info"), (CLIENT_PIN, "PIN")):
            made.faults = {command: lambda answer: None}
            done = tested(volume, *opening(volume, made.device), ok=False)
            environment.cell(f"{name}: silence", (AUTHENTICATION, True), (
                done.returncode, "did not answer" in done.stderr or "nothing answers" in done.stderr))


def test_tampered_slots(environment):
    """What someone with the store changes in the slot is noticed, with the device key and without it."""
    volume = environment.volume()
    with key(environment, pin=PIN) as made:
        first = json.loads(add(volume, made.device).stdout)
        second = json.loads(add(volume, made.device).stdout)
        path = reader.keybag_file(volume)
        one, data = slot_of(volume, first["slot"])
        two, _ = slot_of(volume, second["slot"])
        at, other = data.index(one.fido2), data.index(two.fido2)
        length = len(one.fido2)

        def changed(label, new, code, says, with_device=DAMAGED):
            harness.write_file(path, new)
            done = tested(volume, "--device-key", "none", *opening(volume, made.device), ok=False)
            environment.cell(f"{label}", (code, True), (done.returncode, says in done.stderr))
            done = tested(volume, *opening(volume, made.device), ok=False)
            environment.cell(f"{label}, device key", (with_device, True), (
                done.returncode, ("changed" if with_device == DAMAGED else says) in done.stderr))

        def with_byte(place, bit=1):
            return data[:place] + bytes([data[place] ^ bit]) + data[place + 1:]

        swapped = bytearray(data)
        swapped[at:at + length], swapped[other:other + length] = two.fido2, one.fido2
        # Both credentials are this key's. What it gives is right for a slot whose bytes were changed.
        changed("the fields of two slots exchanged", bytes(swapped), DAMAGED, "changed")
        changed("one bit of the salt", with_byte(at + 1), AUTHENTICATION, "opens no slot")
        changed("the flag PIN taken away", with_byte(at), AUTHENTICATION, "opens no slot")
        gone = bytearray(with_byte(at + length - 1))
        gone[other + length - 1] ^= 1
        changed("both credentials changed", bytes(gone), AUTHENTICATION, "has a slot of this volume",
                with_device=AUTHENTICATION)
        changed("one credential changed", with_byte(at + length - 1), DAMAGED, "changed")
        changed("the label's first byte", with_byte(one.offset + 104 + 6, 0x20), DAMAGED, "changed")
        harness.write_file(path, data)
        environment.cell("put back", first, json.loads(tested(volume, *opening(volume, made.device)).stdout))
