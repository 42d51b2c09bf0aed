"""The second reader, for tests that look below a mount."""

import glob
import os
import sys

import harness


def load():
    """The reader's package; skips where its libraries are missing."""
    sys.path.insert(0, os.path.join(harness.REPOSITORY, "Tests", "SecondReader"))
    try:
        import secondreader
    except ImportError as error:
        raise harness.Skip(f"python3-nacl and python3-cryptography are needed ({error})") from error
    return secondreader


def _contents(path):
    with open(path, "rb") as file:
        return file.read()


def device_key_file(volume):
    return glob.glob(os.path.join(volume.data, "protectfs", "*.key"))[0]


def state_file(volume):
    found = glob.glob(os.path.join(volume.data, "protectfs", "*.state"))
    return found[0] if found else None


def keybag_file(volume):
    return os.path.join(volume.path, ".protectfs.keybag")


def unlock(volume, with_passphrase=False, device_only=False):
    """The volume as the second reader sees it: by device key and recovery code, unless told otherwise."""
    state = state_file(volume)
    secret = {}
    if with_passphrase:
        secret["passphrase"] = harness.PASSPHRASE.encode()
    elif not device_only:
        secret["recovery_code"] = _contents(volume.code_file).decode()
    return load().Volume.unlock(
        volume.path, device_key=_contents(device_key_file(volume)), state=_contents(state) if state else None, **secret)


def flip(path, offset, value=1):
    """Changes one byte of a file."""
    with open(path, "r+b") as file:
        file.seek(offset)
        old = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([old ^ value]))


def read_page(path, index):
    with open(path, "rb") as file:
        file.seek(index * harness.PAGE)
        return file.read(harness.PAGE)


def write_page(path, index, page):
    with open(path, "r+b") as file:
        file.seek(index * harness.PAGE)
        file.write(page)
