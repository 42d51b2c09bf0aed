"""Attacks on slots of a TPM: changed and exchanged parts, a bus that is listened to, and memory after the helper's end."""

import os

import harness
import tpms
from test_newer_keybags import Bag
from test_tpm2 import AUTHENTICATION, added, opening, tried
from tpms import FLAGS, NAME, PCRS, PUBLIC, SALT, Sealed

VOLUME = 4


def test_changed_slots(environment):
    """What is changed opens nothing, even for an attacker who can sign the keybag; what was not changed still opens."""
    tpms.installed(environment)
    tpm, bag = tpms.TPM(environment), Bag(environment)
    volume, key = bag.volume, opening(tpm.device)
    added(volume, tpm.device)
    one = Sealed(bag)
    added(volume, tpm.device, "--pcrs", "16")
    two, untouched, before = Sealed(bag), bag.slots(), bag.data
    environment.cell("both open", 0, tried(volume, *key)[0])
    at = before.index(one.value)
    for label, place in (("flags", FLAGS), ("PCRs", PCRS), ("name", NAME + 10), ("public part", PUBLIC + 30), ("private part", one.middle + 40)):
        damaged = bytearray(before)
        damaged[at + place] ^= 1
        harness.write_file(bag.path, bytes(damaged), os.O_TRUNC)
        code, said = tried(volume, *key)
        environment.cell(f"{label} changed, not signed: refused", True, code in (AUTHENTICATION, VOLUME))
        harness.write_file(bag.path, before, os.O_TRUNC)
    parts = len(one.value)
    changes = [("the flag of the PIN set", one.flipped(FLAGS)), ("PCR 7 taken away", one.flipped(PCRS, 0x80)),
               ("another PCR", one.flipped(PCRS + 1)), ("another salt", one.flipped(SALT)), ("another name", one.flipped(NAME + 10)),
               ("the other slot's parts", one.with_value(one.value[:PUBLIC - 2] + two.value[PUBLIC - 2:])),
               ("the other slot's public part", one.with_value(one.value[:PUBLIC] + two.value[PUBLIC:one.middle] + one.value[one.middle:])),
               ("the other slot's value", one.with_value(two.value)),
               ("zeros for a private part", one.with_value(one.value[:one.middle + 4] + bytes(parts - one.middle - 4))),
               ("a public part that says a longer one", one.flipped(PUBLIC, 0x40)),
               ("a private part that says a longer one", one.flipped(one.middle + 2, 0x40))]
    # All of them take minutes.
    step = {"full": 1, "usual": 31}.get(environment.mode, 61)
    changes += [(f"byte {place} of the parts", one.flipped(place, 1 << place % 8)) for place in range(PUBLIC, parts, step)
                if place not in (one.middle, one.middle + 1)]
    pin = os.path.join(os.path.dirname(volume.path), "pin")
    harness.write_file(pin, b"2580\n")
    for label, slot in changes:
        bag.remake(slots=untouched[:-2] + [slot])
        code, said = tried(volume, *key, "--tpm2-pin-file", pin)
        environment.cell(f"{label}: refused", True, code in (AUTHENTICATION, VOLUME))
        environment.cell(f"{label}: not taken for a failure of the TPM", False, "0x" in said)
    bag.remake(slots=untouched[:-2] + [changes[5][1], two.slot])
    environment.cell("a slot beside a changed one opens", 0, tried(volume, *key)[0])
    environment.cell("the passphrase opens", 0, tried(volume, "--passphrase-file", volume.passphrase_file)[0])
    bag.remake(slots=untouched)
    environment.cell("unchanged, it opens again", 0, tried(volume, *key)[0])


def test_many_slots(environment):
    """A keybag with thousands of slots for TPMs asks a TPM a few times only."""
    tpms.installed(environment)
    tpm, bag = tpms.TPM(environment), Bag(environment)
    added(bag.volume, tpm.device)
    own = Sealed(bag)
    others = []
    for number in range(1000, 2000):
        slot = bytearray(own.flipped(NAME + 10))
        slot[4:8] = bag.primitives.le(number, 4)
        others.append(bytes(slot))
    tap = tpms.Tap(environment, tpm)
    bag.remake(slots=bag.slots()[:-1] + others)
    code, said = tried(bag.volume, *opening(tap.device))
    environment.cell("refused", (AUTHENTICATION, True), (code, "no slot is for this TPM" in said))
    # TPM2_CreatePrimary, once for each slot that is tried.
    environment.cell("tried", 8, bytes(tap.heard).count(b"\0\0\1\x31"))


def test_bus(environment):
    """Neither the secret nor the PIN's hash crosses the bus of the TPM; what is public does."""
    helper = tpms.installed(environment)
    tpm = tpms.TPM(environment)
    tap = tpms.Tap(environment, tpm)
    secret, auth = os.urandom(32), os.urandom(31) + b"\1"
    for label, own in (("without a PIN", None), ("with a PIN", auth)):
        status, sealed = tpms.ask(helper, tap.device, tpms.seal_request(secret, 1 << 7, own))
        environment.cell(f"{label}: sealed", 0, status)
        found = tpms.ask(helper, tap.device, tpms.unseal_request(sealed, 1 << 7, own))
        environment.cell(f"{label}: unsealed", (0, secret), found)
        heard = bytes(tap.heard)
        environment.cell(f"{label}: the sealed object was heard", True, sealed[38:100] in heard)
        environment.cell(f"{label}: secrets were not", (False, False), (secret in heard, auth in heard))
    environment.cell("another PIN's hash", 3, tpms.ask(helper, tap.device, tpms.unseal_request(sealed, 1 << 7, bytes(31) + b"\1"))[0])


def test_false_parent(environment):
    """A storage key under another name gets no session, so a TPM in between learns no secret."""
    helper = tpms.installed(environment)
    tpm, false = tpms.TPM(environment), tpms.TPM(environment)
    _, sealed = tpms.ask(helper, tpm.device, tpms.seal_request(os.urandom(32)))
    tap = tpms.Tap(environment, false)
    environment.cell("another TPM", 5, tpms.ask(helper, tap.device, tpms.unseal_request(sealed))[0])
    # TPM2_StartAuthSession and TPM2_Load.
    environment.cell("it was told nothing", (0, 0), tuple(bytes(tap.heard).count(b"\0\0\1" + code) for code in (b"\x76", b"\x57")))


def test_false_key_with_true_name(environment):
    """A storage key that comes with the name of the slot's key, and is another one, gets no session either."""
    helper = tpms.installed(environment)
    tpm, false = tpms.TPM(environment), tpms.TPM(environment)
    tpm.persist()
    false.persist()
    secret = os.urandom(32)
    _, sealed = tpms.ask(helper, tpm.device, tpms.seal_request(secret))
    # With a password of the owner, the key at the handle is the only one.
    tpm.set_owner_password()
    true, other = tpm.read_public(), false.read_public()
    end = 12 + int.from_bytes(true[10:12], "big")
    environment.cell("the same form, another key, another name", (True, True, True), (
        len(true) == len(other), true[:end] != other[:end], true[end:] != other[end:]))
    # TPM2_ReadPublic: a public part, and two names.
    falsified = []

    def change(command, answer):
        if command[6:10] != b"\0\0\1\x73":
            return answer
        falsified.append(answer)
        return other[:end] + answer[end:]

    def read(tap):
        return tpms.ask(helper, tap.device, tpms.unseal_request(sealed))

    environment.cell("without a change it opens", (0, secret), read(tpms.Tap(environment, tpm, lambda _, answer: answer)))
    tap = tpms.Tap(environment, tpm, change)
    environment.cell("the owner's password is needed to make the key", 7, read(tap)[0])
    environment.cell("the answer was changed", True, true in falsified)
    # TPM2_StartAuthSession and TPM2_Load.
    environment.cell("the false key got nothing", (0, 0), tuple(bytes(tap.heard).count(b"\0\0\1" + code) for code in (b"\x76", b"\x57")))


def test_hostile_requests(environment):
    """What is not a request is refused before a TPM is asked."""
    helper = tpms.installed(environment)
    tpm = tpms.TPM(environment)
    _, sealed = tpms.ask(helper, tpm.device, tpms.seal_request(os.urandom(32)))
    good = tpms.unseal_request(sealed)
    for label, request in (("empty", b""), ("an unknown action", b"\7" + good[1:]), ("an unknown flag", good[:1] + b"\2" + good[2:]),
                           ("PCR 24", good[:5] + b"\1" + good[6:]), ("cut off", good[:-1]),
                           ("a part of no bytes", good[:72] + bytes(2)), ("a part of 513 bytes", good[:72] + b"\1\2" + bytes(513))):
        environment.cell(f"{label}: refused", 10, tpms.ask(helper, tpm.device, request)[0])
    environment.cell("the request itself", 0, tpms.ask(helper, tpm.device, good)[0])


def test_memory(environment):
    """The helper's memory has no secret at its end, wherever the TPM's libraries have put copies."""
    helper = tpms.installed(environment)
    tpm = tpms.TPM(environment)
    library = environment.new_path("scan")
    harness.run("cc", "-shared", "-fPIC", "-O1", "-o", library,
                os.path.join(harness.REPOSITORY, "Tests/Mount/support/scan_at_exit.c"))
    secret, auth = os.urandom(32), os.urandom(31) + b"\1"

    def left(request, wanted=(secret, auth)):
        """The answer, and how many copies of the secrets are in memory at the end."""
        found = environment.new_path("found")
        harness.write_file(found, bytes(255 - byte for byte in b"".join(wanted)))
        answer = tpms.ask(helper, tpm.device, request, env={**os.environ, "LD_PRELOAD": library, "SCANNED": found})
        return answer, int(harness.read_file(found)[32 * len(wanted):])

    (status, sealed), copies = left(tpms.seal_request(secret, 0, auth))
    environment.cell("after sealing", (0, 0), (status, copies))
    (status, got), copies = left(tpms.unseal_request(sealed, 0, auth))
    environment.cell("after unsealing", (0, secret, 0), (status, got, copies))
    (status, _), copies = left(tpms.unseal_request(sealed, 0, os.urandom(31) + b"\1"))
    environment.cell("after a wrong PIN", 3, status)
    # What stays for certain: a text of the program.
    text = b"swtpm:path=" + tpm.socket.encode()
    _, copies = left(tpms.unseal_request(sealed, 0, auth), (text[:32],))
    environment.cell("the search finds what is there", True, copies > 0)
