"""Cryptographic libraries: no command uses one with wrong results, and two with right ones read what the other wrote."""

import os
import shutil

import ciphers
import harness

SOURCE = os.path.join(harness.SUPPORT, "broken_primitive.c")
# What is broken: what the message names.
BROKEN = {"BLAKE": "BLAKE2b", "IPSEC_MB": "AES-256-GCM (IPsec-MB)", "OPENSSL": "AES-256-GCM (OpenSSL)"}


def library(environment, macro):
    """The library that is loaded before the real one."""
    compiler = next(filter(None, map(shutil.which, ("cc", "clang"))), None)
    if not compiler:
        raise harness.Skip("no C compiler")
    path = environment.new_path(macro) + ".so"
    harness.run(compiler, "-shared", "-fPIC", f"-D{macro}", "-o", path, SOURCE, "-ldl")
    return path


def test_broken_primitives(environment):
    volume = environment.volume()
    mount = environment.mount(volume)
    harness.write_file(mount / "file", harness.pattern(20_000))
    mount.unmount()
    keybag = harness.read_file(os.path.join(volume.path, ".protectfs.keybag"))
    speed = harness.protectfs("speed", "--json", env=volume.environment).stdout
    new = environment.new_path("new")
    secret = ["--recovery-file", volume.code_file]
    commands = {
        "mount": ["mount", *secret, volume.path, mount.path],
        "mount in the foreground": ["mount", "--foreground", *secret, volume.path, mount.path],
        "init": ["init", "--passphrase-file", volume.passphrase_file, new],
        "fsck": ["fsck", *secret, volume.path],
        "passphrase change": ["passphrase", "change", *secret, "--new-passphrase-file", volume.passphrase_file, volume.path],
    }
    for macro, name in BROKEN.items():
        if macro == "IPSEC_MB" and "IPsec-MB" not in speed:
            environment.skip(name, "IPsec-MB is not for this machine")
            continue
        where = {**volume.environment, "LD_PRELOAD": library(environment, macro)}
        if macro == "OPENSSL":
            where.update(ciphers.OPENSSL)
        for label, words in commands.items():
            done = harness.protectfs(*words, env=where, ok=False)
            environment.cell(f"{name}, {label}: refused", 8 if label == "fsck" else 5, done.returncode)
            environment.cell(f"{name}, {label}: what is broken is named", True, name in done.stderr)
        environment.cell(f"{name}: nothing was made or mounted", (False, False), (os.path.exists(new), mount.is_mounted))
        environment.cell(f"{name}: the keybag is as it was", True,
                         harness.read_file(os.path.join(volume.path, ".protectfs.keybag")) == keybag)
    # The same library without the wrong bit: that it is there refuses nothing. And a lock needs no primitive.
    where = {**volume.environment, "LD_PRELOAD": library(environment, "NOTHING")}
    harness.protectfs(*commands["mount"], env=where)
    environment.mounts.append(mount)
    environment.cell("with the right result: the content", True,
                     harness.read_file(mount / "file") == harness.pattern(20_000))
    where["LD_PRELOAD"] = library(environment, "BLAKE")
    environment.cell("lock with a broken library", 0, harness.protectfs("lock", mount.path, env=where).returncode)
    mount.unmount()


def test_openssl_reads_what_ipsec_mb_wrote(environment):
    with ciphers.openssl():
        environment.cell("OpenSSL is used on demand", "OpenSSL", ciphers.aes_library())
    if ciphers.aes_library() != "IPsec-MB":
        environment.skip("both libraries", "IPsec-MB is not for this machine")
        return
    mount = environment.mount()
    harness.write_file(mount / "one", harness.pattern(300_000))
    with ciphers.openssl():
        mount = environment.remount(mount)
        environment.cell("OpenSSL reads", True, harness.read_file(mount / "one") == harness.pattern(300_000))
        harness.write_file(mount / "two", harness.pattern(70_001))
        with open(mount / "one", "r+b") as file:
            file.seek(100_000)
            file.write(b"changed")
        mount.unmount()
    mount = environment.mount(mount.volume, path=mount.path)
    expected = bytearray(harness.pattern(300_000))
    expected[100_000:100_007] = b"changed"
    environment.cell("IPsec-MB reads a file of OpenSSL's", True, harness.read_file(mount / "two") == harness.pattern(70_001))
    environment.cell("and one of both", True, harness.read_file(mount / "one") == bytes(expected))
