"""New class keys: an old keybag opens no file of the store as it is then; interrupted anywhere, the rotation goes on."""

import contextlib
import os
import random
import signal
import subprocess

import harness
import reader
from harness import protectfs, read_file, write_file
from rotation import (AUTHENTICATION, CLASSES, DAMAGED, FAILURE, USAGE, attack, check_the_end, check_what_stays, fill,
                      generations, headers, mount_accepting, opened_by, rotate, shown, take_code)
from terminal import at_terminal


def test_attack(environment):
    """Before, an old keybag with its passphrase opens every file. Afterwards it opens none, and reads the names."""
    volume = environment.volume()
    mount = environment.mount(volume)
    contents = fill(mount)
    mount.unmount()
    keybag, code = read_file(reader.keybag_file(volume)), volume.code_file

    def attempt(label, opens):
        stolen = attack(environment, volume, keybag)
        stolen.code_file = code
        found = environment.mount(stolen)
        environment.cell(f"{label}: names", {"a", "empty", *CLASSES}, set(os.listdir(found.path)))
        nothing = {path: os.strerror(95) for path in contents}
        environment.cell(f"{label}: the program", contents if opens else nothing, shown(found, contents))
        found.unmount()
        second = reader.unlock(stolen, with_passphrase=True)
        environment.cell(f"{label}: the second reader", len(contents) if opens else 0, opened_by(second.keys, stolen.path))
        environment.cell(f"{label}: names by the second reader", sorted(contents),
                         sorted(e.path if isinstance(e.path, str) else e.path.decode() for e in second.walk()
                                if e.kind == "file"))

    attempt("before", True)
    done = rotate(volume)
    take_code(environment, volume, done)
    attempt("after", False)
    mount = environment.mount(volume)
    environment.cell("the owner", contents, shown(mount, contents))
    check_what_stays(environment, mount)
    mount.unmount()
    environment.cell("generations in the store", [1], generations(volume.path))
    keys = reader.unlock(volume).keys
    environment.cell("generations in the keybag", {1}, {number for (kind, number) in keys.every if kind in (1, 2, 3, 4, 7)})
    check_the_end(environment, volume, code)


def test_deep_with_few_descriptors(environment):
    """Directories one in another, more than the program may have open."""
    volume = environment.volume()
    mount = environment.mount(volume)
    place = str(mount.path)
    for _ in range(300):
        place += "/d"
        os.mkdir(place)
    write_file(place + "/file", b"text")
    mount.unmount()
    done = harness.run("prlimit", "--nofile=160:160", harness.binary(), "keys", "rotate", "--retire", "--passphrase-file",
                       volume.passphrase_file, volume.path, env=volume.environment, ok=False)
    environment.cell("exit code", (0, ""), (done.returncode, done.stderr if done.returncode else ""))
    take_code(environment, volume, done)
    again = environment.mount(volume)
    environment.cell("the file", b"text", read_file(str(again.path) + place[len(str(mount.path)):] + "/file"))
    again.unmount()


def test_one_class(environment):
    """--class changes the keys of one class and of class B, and U; the others keep theirs."""
    volume = environment.volume()
    mount = environment.mount(volume)
    contents = fill(mount, 10)
    mount.unmount()
    before = {header[16:32]: header for header in headers(volume.path).values()}
    take_code(environment, volume, rotate(volume, "--class", "complete"))
    changed = {header[4] for header in headers(volume.path).values() if header != before[header[16:32]]}
    environment.cell("classes written", {1, 2}, changed)
    mount = environment.mount(volume)
    environment.cell("contents", contents, shown(mount, contents))


def test_interrupted(environment):
    """Killed, and used in between: every file reads, new files have the new key, and another run ends it."""
    for name in (signal.SIGKILL, signal.SIGINT):
        volume = environment.volume()
        mount = environment.mount(volume)
        contents = fill(mount, 1_000_000)
        mount.unmount()
        words = ["keys", "rotate", "--rate", "1", "--passphrase-file", volume.passphrase_file, volume.path]
        with subprocess.Popen([harness.binary(), *words], env=volume.environment, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True) as running:
            harness.wait_until(lambda: 1 in generations(volume.path), what="the first file")
            running.send_signal(name)
            output, said = running.communicate()
        code = -name if name == signal.SIGKILL else FAILURE
        environment.cell(f"{name.name}: ends", code, running.returncode)
        environment.cell(f"{name.name}: both generations", [0, 1], generations(volume.path))
        take_code(environment, volume, subprocess.CompletedProcess([], 0, output, said))
        mount = environment.mount(volume)
        environment.cell(f"{name.name}: in between", contents, shown(mount, contents))
        contents["new"] = b"written in between"
        write_file(mount / "new", contents["new"])
        mount.unmount()
        done = rotate(volume)
        take_code(environment, volume, done)
        environment.cell(f"{name.name}: in the end", [1], generations(volume.path))
        mount = environment.mount(volume)
        environment.cell(f"{name.name}: contents", contents, shown(mount, contents))
        mount.unmount()


def test_killed(environment):
    """Killed again and again at random moments: every file reads each time, and the last run ends it."""
    volume = environment.volume()
    mount = environment.mount(volume)
    contents = fill(mount, 60_000)
    mount.unmount()
    chance = random.Random(environment.mode)
    for number in range(100 if environment.mode == "full" else 4):
        words = ["keys", "rotate", "--rate", "1", "--accept-keybag", "--passphrase-file", volume.passphrase_file,
                 volume.path]
        with subprocess.Popen([harness.binary(), *words], env=volume.environment, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True) as running:
            with contextlib.suppress(subprocess.TimeoutExpired):
                running.wait(chance.uniform(0.05, 1.5))
            running.kill()
            running.communicate()
        mount = mount_accepting(environment, volume)
        environment.cell(f"{number}: contents", contents, shown(mount, contents))
        mount.unmount()
    take_code(environment, volume, rotate(volume))
    found = {number for (kind, number) in reader.unlock(volume).keys.every if kind in (1, 2, 3, 4, 7)}
    environment.cell("one generation", (1, sorted(found)), (len(found), generations(volume.path)))
    mount = environment.mount(volume)
    environment.cell("contents", contents, shown(mount, contents))


def test_an_older_keybag_put_back_by_hand(environment):
    """It does not know the keys of the files, so it makes none of the same generation, and the right keybag can come back."""
    volume = environment.volume()
    mount = environment.mount(volume)
    write_file(mount / "file", b"content")
    mount.unmount()
    keybag = reader.keybag_file(volume)
    old = read_file(keybag)
    take_code(environment, volume, rotate(volume))
    right = read_file(keybag)
    write_file(keybag, old, os.O_TRUNC)
    done = rotate(volume, "--accept-keybag", ok=False)
    environment.cell("refused", (DAMAGED, True), (done.returncode, "needs generation 1" in done.stderr))
    environment.cell("nothing was changed", True, old == read_file(keybag))
    copy = environment.new_path("right")
    write_file(copy, right)
    protectfs("keybag", "import", "--accept-keybag", "--passphrase-file", volume.passphrase_file, volume.path, copy,
              env=volume.environment)
    mount = environment.mount(volume)
    environment.cell("the right keybag", b"content", read_file(mount / "file"))


def test_what_stays(environment):
    """A file with two names keeps the former key, is named, and lets go of it when it has one name."""
    volume = environment.volume()
    mount = environment.mount(volume)
    write_file(mount / "one", b"two names")
    os.link(mount / "one", mount / "two")
    mount.unmount()
    done = rotate(volume, ok=False)
    take_code(environment, volume, done)
    environment.cell("said", (FAILURE, True, True), (done.returncode, "several names" in done.stderr,
                                                     "former keys stay" in done.stderr))
    mount = environment.mount(volume)
    environment.cell("reads", b"two names", read_file(mount / "two"))
    os.unlink(mount / "one")
    mount.unmount()
    take_code(environment, volume, rotate(volume))
    environment.cell("in the end", [1], generations(volume.path))


def test_damaged_header(environment):
    """Nothing is known of the key of a file whose header is damaged, so no key is thrown away until the file is whole or gone."""
    volume = environment.volume()
    mount = environment.mount(volume)
    write_file(mount / "file", b"content" * 1000)
    write_file(mount / "other", b"other")
    store = mount.stored("file")
    mount.unmount()
    whole = read_file(store)
    write_file(store, whole[:20] + bytes([whole[20] ^ 1]) + whole[21:], os.O_TRUNC)
    done = rotate(volume, ok=False)
    take_code(environment, volume, done)
    environment.cell("said", (FAILURE, True), (done.returncode, "damaged header" in done.stderr))
    # As from a backup of the store.
    write_file(store, whole, os.O_TRUNC)
    take_code(environment, volume, rotate(volume))
    environment.cell("in the end", [1], generations(volume.path))
    mount = environment.mount(volume)
    environment.cell("reads", b"content" * 1000, read_file(mount / "file"))
    mount.unmount()


def test_an_older_keybag_is_not_put_back(environment):
    """An export from before a rotation does not replace the keybag, which alone has the keys of what was written since."""
    volume = environment.volume()
    old = environment.new_path("old")
    protectfs("keybag", "export", volume.path, old, env=volume.environment)
    mount = environment.mount(volume)
    write_file(mount / "file", b"content")
    mount.unmount()
    take_code(environment, volume, rotate(volume))
    for words in ([], ["--accept-keybag"]):
        done = protectfs("keybag", "import", *words, "--passphrase-file", volume.passphrase_file, volume.path, old,
                         env=volume.environment, ok=False)
        environment.cell(f"import {words}", (4, True), (done.returncode, bool(done.stderr)))
    mount = environment.mount(volume)
    environment.cell("reads", b"content", read_file(mount / "file"))
    mount.unmount()


def test_recipients(environment):
    """A recipient keeps the volume: their public half is enough for the new keys."""
    volume = environment.volume()
    key = environment.new_path("key")
    protectfs("recipient", "new", key, env=volume.environment)
    protectfs("slot", "add", "--recipient", key, "--label", "escrow", "--passphrase-file", volume.passphrase_file, volume.path,
              env=volume.environment)
    take_code(environment, volume, rotate(volume))
    done = protectfs("slot", "test", "--recipient-key", key, volume.path, env=volume.environment, ok=False)
    environment.cell("opens", 0, done.returncode)
    listed = protectfs("slot", "list", "--json", volume.path, env=volume.environment).stdout
    environment.cell("its label", 1, listed.count('"escrow"'))


def test_slots(environment):
    """A slot whose secret is not given is dropped only if that is said."""
    volume = environment.volume()
    other = environment.new_path("secret")
    write_file(other, b"another passphrase, long enough\n")
    protectfs("slot", "add", "--recovery-file", volume.code_file, "--new-passphrase-file", other, "--label", "spare one",
              volume.path, env=volume.environment)
    before = read_file(reader.keybag_file(volume))
    done = rotate(volume, ok=False)
    environment.cell("refused", (USAGE, True), (done.returncode, "spare one" in done.stderr))
    environment.cell("nothing was changed", True, before == read_file(reader.keybag_file(volume)))
    done = rotate(volume, "--drop-slots")
    take_code(environment, volume, done)
    said = "These slots were removed; add them again if they are needed: " in done.stdout and "(spare one)" in done.stdout
    environment.cell("said", True, said)
    mount = environment.mount(volume)
    done = protectfs("slot", "list", "--json", volume.path, env=volume.environment)
    environment.cell("dropped", False, "spare one" in done.stdout)
    mount.unmount()


def test_other_passphrases(environment):
    """With --ask-others a slot keeps the volume if its passphrase is typed. Enter alone removes it."""
    for is_mounted in (False, True):
        volume = environment.volume()
        secrets = {"kept": "a second passphrase, long enough", "given up": "a third passphrase, long enough"}
        for label, text in secrets.items():
            place = environment.new_path("secret")
            write_file(place, text.encode() + b"\n")
            protectfs("slot", "add", "--recovery-file", volume.code_file, "--new-passphrase-file", place, "--label",
                      label, volume.path, env=volume.environment)
        mount = environment.mount(volume)
        write_file(mount / "file", b"content")
        if not is_mounted:
            mount.unmount()
        own = read_file(volume.passphrase_file).decode()
        code, said, _ = at_terminal(
            ["keys", "rotate", "--ask-others", volume.path], volume.environment,
            [("Passphrase of", own), ("(kept)", own), ("(kept)", secrets["kept"] + "\n"), ("(given up)", "\n")])
        environment.cell(f"{is_mounted}: ends", (0, True), (code, "opens another slot" in said))
        if is_mounted:
            environment.cell("the mount", b"content", read_file(mount / "file"))
            mount.unmount()
        place = environment.new_path("secret")
        for label, expected in (("kept", 0), ("given up", AUTHENTICATION)):
            write_file(place, secrets[label].encode() + b"\n", os.O_TRUNC)
            done = protectfs("slot", "test", "--passphrase-file", place, volume.path, env=volume.environment, ok=False)
            environment.cell(f"{is_mounted}: {label}", expected, done.returncode)
        listed = protectfs("slot", "list", "--json", volume.path, env=volume.environment).stdout
        environment.cell(f"{is_mounted}: labels", (1, 0), (listed.count('"kept"'), listed.count('"given up"')))
        mount = environment.mount(volume, unlock=False)
        mount.command("unlock", "--passphrase-file", volume.passphrase_file, mount.path)
        environment.cell(f"{is_mounted}: content", b"content", read_file(mount / "file"))
        mount.unmount()
