"""New class keys: an old keybag opens no file of the store as it is then; interrupted anywhere, the rotation goes on."""

import os
import shutil
import signal
import subprocess

import harness
import reader
from harness import protectfs, read_file, write_file

CLASSES = ("complete", "completeUnlessOpen", "completeUntilFirstUserAuthentication", "none")
FAILURE, USAGE, AUTHENTICATION, BUSY = 1, 2, 3, 6


def rotate(volume, *words, ok=True):
    return protectfs("keys", "rotate", "--passphrase-file", volume.passphrase_file, *words, volume.path,
                     env=volume.environment, ok=ok)


def take_code(environment, volume, done):
    """Keeps the new recovery code, as a person who writes it down would. The old one's file."""
    old, volume.code_file = volume.code_file, environment.new_path("code")
    code, = (line.strip() for line in done.stdout.splitlines() if line.startswith("    "))
    write_file(volume.code_file, code.encode() + b"\n")
    return old


def fill(mount, size=9000):
    """Files of every class, some with attributes and in directories, and an empty one. {path: content}."""
    contents = {}
    os.makedirs(mount / "a/b")
    for index, name in enumerate(CLASSES):
        for place in ("", "a/", "a/b/"):
            path = f"{place}{name}"
            contents[path] = os.urandom(size + index)
            write_file(mount / path, contents[path])
            mount.command("class", "set", name, mount / path)
    os.setxattr(mount / "a/none", "user.note", b"kept")
    os.utime(mount / "a/none", ns=(1_000_000_000, 2_000_000_000))
    contents["empty"] = b""
    write_file(mount / "empty", b"")
    return contents


def shown(mount, contents):
    """What is read of each file; an error's name where it cannot be."""
    found = {}
    for path in contents:
        try:
            found[path] = read_file(mount / path)
        except OSError as error:
            found[path] = error.strerror
    return found


def headers(store):
    """{path: the first 128 bytes} of the files in a store, without what is being made."""
    found = {}
    for place, _, names in os.walk(store):
        for path in (os.path.join(place, name) for name in names if not name.startswith(".protectfs.")):
            # A file may be replaced meanwhile, and is then there under the same name.
            if not os.path.islink(path):
                found[path] = read_file(path)[:128]
    return found


def generations(store):
    return sorted({int.from_bytes(header[10:12], "little") for header in headers(store).values()})


def opened_by(keys, store):
    """How many files have a file key that one of the old keys opens, whatever generation their headers name."""
    primitives = reader.load().primitives
    count = 0
    for header in headers(store).values():
        number, wrapped, data = header[4], header[32:112], keys.wrap_data(header)
        for (kind, _), key in keys.every.items():
            if kind not in (1, 2, 3, 4, 7):
                continue
            for generation in (header[10:12], bytes(2)):
                try:
                    if number == 2:
                        info = b"protectfs1/hpke\0" + keys.uuid + primitives.x25519_public(key)
                        primitives.hpke_open(key, info, data, wrapped)
                    else:
                        wrap = primitives.kdf(key, "wrap", keys.uuid + bytes([number]) + generation)
                        primitives.xchacha_open(wrap, wrapped[:24], data, wrapped[24:72])
                except Exception:  # whatever the library says of a wrong key
                    continue
                count += 1
                break
            else:
                continue
            break
    return count


def attack(environment, volume, keybag):
    """The old keybag beside a copy of the store, on a machine that has the old device key and no memory of the volume."""
    place = environment.new_path("attack")
    shutil.copytree(volume.path, os.path.join(place, "volume"), symlinks=True)
    os.makedirs(os.path.join(place, "data", "protectfs"))
    key = reader.device_key_file(volume)
    shutil.copy(key, os.path.join(place, "data", "protectfs"))
    write_file(os.path.join(place, "volume", ".protectfs.keybag"), keybag)
    return harness.Volume(os.path.join(place, "volume"), os.path.join(place, "data"), volume.code_file,
                          volume.passphrase_file)


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
    environment.cell("classes", list(CLASSES),
                     [os.getxattr(mount / name, "user.protection").decode() for name in CLASSES])
    environment.cell("attributes and times", (b"kept", 2_000_000_000),
                     (os.getxattr(mount / "a/none", "user.note"), os.stat(mount / "a/none").st_mtime_ns))
    mount.unmount()
    environment.cell("generations in the store", [1], generations(volume.path))
    keys = reader.unlock(volume).keys
    environment.cell("generations in the keybag", {1}, {number for (kind, number) in keys.every if kind in (1, 2, 3, 4, 7)})
    path = environment.new_path("mount")
    os.makedirs(path)
    done = protectfs("mount", "--recovery-file", code, volume.path, path, env=volume.environment, ok=False)
    environment.cell("the old recovery code", AUTHENTICATION, done.returncode)
    environment.cell("fsck", 0, protectfs("fsck", "--recovery-file", volume.code_file, volume.path,
                                          env=volume.environment, ok=False).returncode)


def test_one_class(environment):
    """--class changes the key of one class and U; the others keep theirs."""
    volume = environment.volume()
    mount = environment.mount(volume)
    contents = fill(mount, 10)
    mount.unmount()
    before = {header[16:32]: header for header in headers(volume.path).values()}
    take_code(environment, volume, rotate(volume, "--class", "complete"))
    changed = {header[4] for header in headers(volume.path).values() if header != before[header[16:32]]}
    environment.cell("classes written", {1}, changed)
    mount = environment.mount(volume)
    environment.cell("contents", contents, shown(mount, contents))


def test_interrupted(environment):
    """Killed, and used in between: every file reads, new files have the new key, and another run ends it."""
    for name in (signal.SIGKILL, signal.SIGINT):
        volume = environment.volume()
        mount = environment.mount(volume)
        contents = fill(mount, 400_000)
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
        refused = rotate(volume, ok=False)
        environment.cell(f"{name.name}: mounted", BUSY, refused.returncode)
        mount.unmount()
        done = rotate(volume)
        take_code(environment, volume, done)
        environment.cell(f"{name.name}: in the end", [1], generations(volume.path))
        mount = environment.mount(volume)
        environment.cell(f"{name.name}: contents", contents, shown(mount, contents))
        mount.unmount()


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
    store = mount.command("path", mount / "file").stdout.rstrip("\n")
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
    protectfs("passphrase", "add", "--recovery-file", volume.code_file, "--new-passphrase-file", other, "--label", "spare one",
              volume.path, env=volume.environment)
    before = read_file(reader.keybag_file(volume))
    done = rotate(volume, ok=False)
    environment.cell("refused", (USAGE, True), (done.returncode, "spare one" in done.stderr))
    environment.cell("nothing was changed", True, before == read_file(reader.keybag_file(volume)))
    take_code(environment, volume, rotate(volume, "--drop-slots"))
    mount = environment.mount(volume)
    done = protectfs("passphrase", "list", "--json", volume.path, env=volume.environment)
    environment.cell("dropped", False, "spare one" in done.stdout)
    mount.unmount()
