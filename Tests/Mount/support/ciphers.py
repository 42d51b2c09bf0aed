"""Volumes of each cipher, and the libraries that run them."""

import contextlib
import json
import os

import harness

# The program encrypts with OpenSSL also where IPsec-MB is.
OPENSSL = {"PROTECTFS_TEST_AES": "OpenSSL"}


@contextlib.contextmanager
def openssl():
    """Every program that starts meanwhile uses OpenSSL for AES."""
    os.environ.update(OPENSSL)
    try:
        yield
    finally:
        for name in OPENSSL:
            del os.environ[name]


def aes_library():
    """The library that runs AES-256-GCM in programs that start now."""
    rows = json.loads(harness.protectfs("speed", "--json").stdout)["ciphers"]
    return next(row["code"] for row in rows if row["used"] and row["cipher"] == "aes-256-gcm")


def xchacha(environment):
    """A mounted volume of the other cipher."""
    place = environment.new_path("xchacha")
    os.makedirs(os.path.join(place, "data"))
    volume = harness.Volume(os.path.join(place, "volume"), os.path.join(place, "data"), os.path.join(place, "code"),
                            os.path.join(environment.template, "passphrase"))
    made = harness.protectfs("init", "--json", "--cipher", "xchacha20-poly1305", "--passphrase-file",
                             volume.passphrase_file, volume.path, env=volume.environment)
    with open(volume.code_file, "w", encoding="ascii") as file:
        file.write(json.loads(made.stdout)["recoveryCode"] + "\n")
    return environment.mount(volume)
