"""The frozen volumes of Tests/Fixtures: every version reads them as the one that made them."""

import os
import sys

import harness
from refusals import UNSUPPORTED, digest

sys.path.insert(0, os.path.join(harness.REPOSITORY, "Tests", "Fixtures"))

import fixtures  # noqa: E402


def unpacked(environment, name):
    top = environment.new_path("frozen")
    fixtures.unpack(name, top)
    volume = harness.Volume(os.path.join(top, "volume"), os.path.join(top, "data"), os.path.join(top, "code"),
                            os.path.join(top, "passphrase"))
    return top, volume


def compare(environment, name, wanted, found):
    """One cell for each object, and one for what is more or less."""
    environment.cell(f"{name}: its objects", sorted(wanted), sorted(found))
    for path in sorted(wanted):
        environment.cell(f"{name}: {path or 'the root'}", wanted[path], found.get(path))


def test_frozen_volumes(environment):
    """Contents, classes, attributes, links, errors and fsck's findings are those that the makers saw."""
    names = fixtures.names()
    environment.cell("there are frozen volumes", True, len(names) >= 7)
    for name in names:
        wanted = fixtures.expected(name)
        top, volume = unpacked(environment, name)
        mount = environment.mount(volume)
        compare(environment, name, wanted["listing"], fixtures.listing(mount.path))
        mount.unmount()
        # In a copy that no mount has mended.
        top, volume = unpacked(environment, name)
        done = harness.protectfs("fsck", "-n", "--json", "--recovery-file", volume.code_file, volume.path,
                                 env=volume.environment, ok=False)
        environment.cell(f"{name}: fsck", wanted["fsck"],
                         {"exit": done.returncode, "findings": fixtures.findings(done.stdout)})


def test_frozen_credentials(environment):
    """Each passphrase and the recovery code open what was frozen; without the device key, what does not need it."""
    for name, words, ok in (
            ("v2-aes", ["--passphrase-file", "passphrase"], True),
            ("v2-xchacha", ["--passphrase-file", "second"], True),
            ("v2-without-device-key", ["--passphrase-file", "passphrase"], True),
            ("v2-aes", ["--device-key", "none", "--passphrase-file", "second"], True),
            ("v2-aes", ["--device-key", "none", "--passphrase-file", "passphrase"], False),
            ("v2-aes", ["--device-key", "none", "--recovery-file", "code"], True)):
        top, volume = unpacked(environment, name)
        words = [os.path.join(top, word) if word in ("passphrase", "second", "code") else word for word in words]
        done = harness.protectfs("fsck", "-n", "--json", *words, volume.path, env=volume.environment, ok=False)
        label = f"{name}: {' '.join(os.path.basename(word) for word in words)}"
        environment.cell(label, 0 if ok else 8, done.returncode)


def test_frozen_volumes_in_use(environment):
    """A frozen volume can be written, its crashes are mended by fsck, and it reads the same afterwards."""
    for name in ("v2-aes-crashed", "v2-xchacha-crashed"):
        top, volume = unpacked(environment, name)
        done = harness.protectfs("fsck", "--json", "--recovery-file", volume.code_file, volume.path,
                                 env=volume.environment, ok=False)
        environment.cell(f"{name}: fsck leaves no error", True, done.returncode in (0, 1))
        mount = environment.mount(volume, options=["strict"])
        harness.write_file(mount / "new", b"new")
        found = fixtures.listing(mount.path)
        environment.cell(f"{name}: a new file", fixtures.hashlib.sha256(b"new").hexdigest(),
                         found.pop("new")["content"]["sha256"])
        wanted = fixtures.expected(name)["listing"]
        for path in wanted:
            environment.cell(f"{name}: {path or 'the root'}, mended", wanted[path].get("content"),
                             found[path].get("content"))
        mount.unmount()


def test_format_1_is_refused(environment):
    """The format that was never released: one sentence from every command, nothing is changed, and erase works."""
    top, volume = unpacked(environment, fixtures.NEVER_RELEASED)
    code = ["--recovery-file", volume.code_file]
    point = environment.new_path("point")
    os.mkdir(point)
    for words, expected in ((["mount", *code, volume.path, point], UNSUPPORTED), (["fsck", *code, volume.path], 8),
                            (["fsck", "--repair", "--quarantine", *code, volume.path], 8), (["info", volume.path], UNSUPPORTED),
                            (["slot", "list", volume.path], UNSUPPORTED),
                            (["slot", "add", "--recovery", *code, volume.path], UNSUPPORTED)):
        before = digest(top)
        done = harness.protectfs(*words, env=volume.environment, ok=False)
        label = f"format 1: {' '.join(words[:2 if words[0] in ('passphrase', 'recovery') else 1])}"
        environment.cell(label, (expected, 1, ""), (done.returncode, len(done.stderr.strip().splitlines()), done.stdout))
        environment.cell(f"{label} says why", (True, False), ("format" in done.stderr, "damaged" in done.stderr))
        environment.cell(f"{label} changes nothing", before, digest(top))
    done = harness.protectfs("erase", "--yes", volume.path, env=volume.environment, ok=False)
    environment.cell("format 1: erase", (0, []), (done.returncode, [name for name in os.listdir(volume.path) if "keybag" in name]))
