"""`keybag export` and `keybag import`: a copy of the keybag, and the way back into the volume."""

import os
import re
import shutil
import signal
import subprocess

import keybags
import reader
import rotation
import states
from harness import Volume, binary, protectfs, read_file, write_file

USAGE, AUTHENTICATION, VOLUME = 2, 3, 4


def export(bags, *words, ok=True):
    return protectfs("keybag", "export", *words, env=bags.volume.environment, ok=ok)


def import_(bags, file, *words, code=None, ok=True, **more):
    secret = [] if code == "" else ["--recovery-file", code or bags.volume.code_file]
    return protectfs("keybag", "import", *secret, *words, bags.volume.path, file, env=bags.volume.environment, ok=ok, **more)


def opens(bags, *words):
    mount = keybags.mount(bags.environment, bags.volume, *(words or ("--recovery-file", bags.volume.code_file)))
    mount.unmount()


def test_export(environment):
    """Byte for byte, private, and never over something else."""
    bags = keybags.Keybags(environment)
    file = environment.new_path("a copy")
    done = export(bags, bags.volume.path, file)
    environment.cell("the same bytes", True, read_file(file) == bags.versions[0][0])
    environment.cell("private", 0o600, os.stat(file).st_mode & 0o777)
    environment.cell("says what it is", (True, True), (", authentic)" in done.stdout, "recovery code" in done.stdout))
    out = subprocess.run([binary(), "keybag", "export", bags.volume.path, "-"], env=bags.volume.environment, capture_output=True, check=True)
    environment.cell("standard output", bags.versions[0][0], out.stdout)
    bags.renew()
    done = export(bags, bags.volume.path, file)
    environment.cell("an older copy is replaced", (True, True),
                     (read_file(file) == bags.versions[1][0], "in place of an older copy (serial " in done.stdout))
    environment.cell("nothing is left beside it", [], [name for name in os.listdir(os.path.dirname(file)) if ".part-" in name])
    for name, content in (("foreign", b"something else"), ("empty", b""), ("newer", None)):
        place = environment.new_path(name)
        write_file(place, content if content is not None else read_file(file))
        if content is None:
            bags.put(bags.current, 0)
            os.unlink(reader.state_file(bags.volume))
        before = read_file(place)
        done = export(bags, bags.volume.path, place, ok=False)
        environment.cell(f"{name}: refused", (USAGE, True, True),
                         (done.returncode, "not an older copy" in done.stderr, read_file(place) == before))
    inside = os.path.join(bags.volume.path, "copy")
    done = export(bags, bags.volume.path, inside, ok=False)
    environment.cell("not in the volume", (USAGE, False), (done.returncode, os.path.exists(inside)))
    # Never the device key.
    key = read_file(reader.device_key_file(bags.volume))
    environment.cell("without the device key", False, key in read_file(file))


def test_export_of_what_is_refused(environment):
    """A rolled back keybag is not exported as if it were the volume's, and a damaged one not at all."""
    bags = keybags.Keybags(environment)
    bags.renew()
    bags.put(bags.current, 0)
    file = environment.new_path("copy")
    done = export(bags, bags.volume.path, file, ok=False)
    environment.cell("older", (VOLUME, False, True), (done.returncode, os.path.exists(file), "--accept-keybag" in done.stderr))
    data = bytearray(bags.versions[1][0])
    data[200] ^= 1
    states.put(bags.current, bytes(data))
    done = export(bags, bags.volume.path, file, ok=False)
    environment.cell("damaged", (AUTHENTICATION, False, True), (done.returncode, os.path.exists(file), "keybag is damaged" in done.stderr))
    states.put(bags.current, bytes(data[:-20]))
    environment.cell("cut off", (VOLUME, False), (export(bags, bags.volume.path, file, ok=False).returncode, os.path.exists(file)))


def test_import(environment):
    """Back in place of one that is lost, cut off, or another volume's; the one that was there is kept."""
    for name, damage in (("lost", None), ("cut off", lambda data: data[:300]), ("empty", lambda data: b""),
                         ("noise", lambda data: os.urandom(len(data)))):
        bags = keybags.Keybags(environment)
        file = environment.new_path("copy")
        export(bags, bags.volume.path, file)
        if damage is None:
            os.unlink(bags.current)
        else:
            states.put(bags.current, damage(read_file(bags.current)))
        was = None if damage is None else read_file(bags.current)
        done = import_(bags, file)
        environment.cell(f"{name}: in place", True, read_file(bags.current) == bags.versions[0][0])
        environment.cell(f"{name}: kept", was, read_file(bags.previous) if os.path.exists(bags.previous) else None)
        environment.cell(f"{name}: said", was is not None, ".protectfs.keybag.old" in done.stdout)
        opens(bags)
        environment.cell(f"{name}: the unlock has tidied", [".protectfs.keybag"], bags.names())
    bags = keybags.Keybags(environment)
    with open(bags.current, "rb") as stream:
        data = stream.read()
    os.unlink(bags.current)
    import_(bags, "-", input=data.decode("latin-1"), encoding="latin-1")
    environment.cell("standard input", data, read_file(bags.current))
    done = import_(bags, bags.current)
    environment.cell("the same again", (True, [".protectfs.keybag"]), ("nothing was changed" in done.stdout, bags.names()))
    file = environment.new_path("link")
    os.symlink(bags.current, file)
    environment.cell("with passphrase and device key", 0,
                     import_(bags, file, "--passphrase-file", bags.volume.passphrase_file, code="").returncode)


def test_import_of_the_previous(environment):
    """A store that has only `.protectfs.keybag.old`: it is put in place, and stays until the next unlock."""
    bags = keybags.Keybags(environment)
    os.rename(bags.current, bags.previous)
    import_(bags, bags.previous)
    environment.cell("both", [".protectfs.keybag", ".protectfs.keybag.old"], bags.names())
    opens(bags)
    environment.cell("one", [".protectfs.keybag"], bags.names())


def test_import_keeps_the_whole_one(environment):
    """The keybag is damaged where nothing notices but its MAC; the one from before an interrupted change is whole and stays."""
    bags = keybags.Keybags(environment)
    file = environment.new_path("copy")
    export(bags, bags.volume.path, file)
    bags.renew()
    whole = read_file(bags.current)
    states.put(bags.previous, whole)
    for name, at in (("in the MAC", len(whole) - 40), ("in a slot", len(whole) // 2)):
        damaged = bytearray(whole)
        damaged[at] ^= 1
        states.put(bags.current, bytes(damaged))
        done = import_(bags, file, "--accept-keybag", code=bags.versions[0][1])
        environment.cell(f"{name}: in place", True, read_file(bags.current) == bags.versions[0][0])
        environment.cell(f"{name}: the whole one is kept", True, read_file(bags.previous) == whole)
        environment.cell(f"{name}: said", True, ".protectfs.keybag.old" in done.stdout)


def test_import_refuses(environment):
    """Nothing is changed by a copy that is older, another volume's, damaged, or not opened."""
    bags = keybags.Keybags(environment)
    old = environment.new_path("old")
    export(bags, bags.volume.path, old)
    first = bags.volume.code_file
    bags.renew()
    damaged = environment.new_path("damaged")
    data = bytearray(bags.versions[0][0])
    data[len(data) // 2] ^= 1
    write_file(damaged, bytes(data))
    cut = environment.new_path("cut")
    write_file(cut, bags.versions[0][0][:400])
    other_path, other_data = environment.new_path("other"), environment.new_path("data")
    protectfs("init", "--passphrase-file", bags.volume.passphrase_file, other_path, env={**os.environ, "XDG_STATE_HOME": other_data})
    # The other volume's device key is on this machine, too.
    key, = (name for name in os.listdir(os.path.join(other_data, "protectfs")) if name.endswith(".key"))
    shutil.copyfile(os.path.join(other_data, "protectfs", key), os.path.join(bags.volume.data, "protectfs", key))
    other = os.path.join(other_path, ".protectfs.keybag")
    secret = ["--passphrase-file", bags.volume.passphrase_file]
    before = bags.everything()
    for name, file, code, words, message, more in (
            ("older", old, VOLUME, [], "older", {"code": first}),
            ("older, opened by nobody", old, AUTHENTICATION, ["--accept-keybag"], "wrong recovery code", {}),
            ("damaged", damaged, VOLUME, ["--accept-keybag"], "damaged", {"code": first}),
            ("cut off", cut, VOLUME, ["--accept-keybag"], "no keybag", {"code": first}),
            ("another volume's", other, VOLUME, secret, "another volume", {"code": ""}),
            ("missing", "/nowhere", 1, [], "/nowhere", {}),
            ("a directory", bags.volume.path, 1, [], "cannot be read", {})):
        done = import_(bags, file, *words, ok=False, **more)
        environment.cell(name, (code, True), (done.returncode, message in done.stderr) if message in done.stderr else done.stderr)
        environment.cell(f"{name}: nothing is changed", True, before == bags.everything())
    # With the word, and the code of that time.
    done = import_(bags, old, "--accept-keybag", code=first)
    environment.cell("accepted", (True, True), (read_file(bags.current) == bags.versions[0][0], read_file(bags.previous) == bags.versions[1][0]))
    environment.cell("what is kept opens", 0, keybags.mount(environment, bags.volume, "--previous-keybag", "--accept-keybag", "--recovery-file",
                                                            bags.volume.code_file).result.returncode)
    environment.mounts[-1].unmount()
    opens(bags, "--accept-keybag", "--recovery-file", first)


def test_import_on_another_machine(environment):
    """With the recovery code, and nothing of the old machine: no device key, no state file."""
    bags = keybags.Keybags(environment)
    file = environment.new_path("copy")
    export(bags, bags.volume.path, file)
    os.unlink(bags.current)
    bags.volume = Volume(bags.volume.path, environment.new_path("data"), bags.volume.code_file, bags.volume.passphrase_file)
    done = import_(bags, file, "--passphrase-file", bags.volume.passphrase_file, code="", ok=False)
    environment.cell("the passphrase needs the device key", (AUTHENTICATION, True), (done.returncode, "recovery use" in done.stderr))
    import_(bags, file)
    opens(bags)
    # A store without a keybag that has a newer state: the copy in the volume counts, too.
    bags.renew()
    os.unlink(reader.state_file(bags.volume))
    done = import_(bags, file, code=bags.versions[0][1], ok=False)
    environment.cell("older than the one in the volume", (VOLUME, True), (done.returncode, "the volume has a newer keybag" in done.stderr))


def test_copies_from_before_a_rotation(environment):
    """A new export does not replace such a copy, and an import says what it does not open."""
    bags = keybags.Keybags(environment)
    mount = keybags.mount(bags.environment, bags.volume, "--recovery-file", bags.volume.code_file)
    write_file(mount / "before", b"before")
    mount.unmount()
    old = environment.new_path("old")
    export(bags, bags.volume.path, old)
    first = read_file(old)
    done = rotation.rotate(bags.volume)
    environment.cell("no slot was removed", None, re.search("dropped|slots were removed.*", done.stdout))
    before = rotation.take_code(environment, bags.volume, done)
    done = export(bags, bags.volume.path, old, ok=False)
    environment.cell("not replaced", (USAGE, True, True),
                     (done.returncode, "before the change of keys" in done.stderr, read_file(old) == first))
    new = environment.new_path("new")
    export(bags, bags.volume.path, new)
    os.unlink(bags.current)
    os.unlink(reader.state_file(bags.volume))
    done = import_(bags, old, code=before, ok=False)
    environment.cell("refused", (VOLUME, True, []),
                     (done.returncode, "does not open 1 of 1 file; look for a later copy" in done.stderr, bags.names()))
    import_(bags, new)
    os.unlink(bags.current)
    done = import_(bags, old, "--accept-keybag", code=before)
    environment.cell("accepted, and said", (True, True), ("does not open 1 of 1 file" in done.stderr, read_file(bags.current) == first))


def test_import_with_a_damaged_record(environment):
    """Nothing proves that the keybag is the volume's, so it takes a word."""
    bags = keybags.Keybags(environment)
    file = environment.new_path("copy")
    export(bags, bags.volume.path, file)
    os.unlink(bags.current)
    record = os.path.join(bags.volume.path, ".protectfs.dir")
    target = os.readlink(record)
    os.unlink(record)
    for name, other in (("missing", None), ("damaged", target[:-1] + ("A" if target[-1] != "A" else "B"))):
        if other:
            os.symlink(other, record)
        done = import_(bags, file, ok=False)
        environment.cell(f"{name}: refused", (VOLUME, True, []), (done.returncode, ".protectfs.dir" in done.stderr, bags.names()))
    import_(bags, file, "--accept-keybag")
    environment.cell("accepted", [".protectfs.keybag"], bags.names())


def test_import_is_cut_off(environment):
    """The command is killed before each of its calls: at each moment a keybag opens, and the next import ends it."""
    if not shutil.which("strace"):
        environment.skip("kills", "strace is not installed")
        return
    bags = keybags.Keybags(environment)
    old = environment.new_path("old")
    export(bags, bags.volume.path, old)
    first = bags.volume.code_file
    bags.renew()
    words = [binary(), "keybag", "import", "--accept-keybag", "--recovery-file", first, bags.volume.path, old]
    states_seen = set()
    for call in ("openat", "write,pwrite64", "fsync,fdatasync", "linkat", "renameat2,renameat,rename", "unlinkat"):
        for number in range(1, 60):
            bags.put(bags.current, 1)
            bags.put(bags.previous)
            log = environment.new_path("log")
            done = subprocess.run(["strace", "-f", "-o", log, "-e", f"trace={call}", "-e", f"inject={call}:signal=KILL:when={number}", *words],
                                  env=bags.volume.environment, capture_output=True, check=False)
            if done.returncode == 0:
                break
            if done.returncode != -signal.SIGKILL and done.returncode != 128 + signal.SIGKILL:
                environment.skip(f"kills at {call}", done.stderr.decode()[:200])
                break
            present = bags.names()
            states_seen.add(tuple(present))
            whole = [name for name in present if read_file(os.path.join(bags.volume.path, name)) in (bags.versions[0][0], bags.versions[1][0])]
            current = read_file(bags.current) if os.path.exists(bags.current) else None
            environment.cell(f"{call} {number}", (True, True),
                             (".protectfs.keybag" in whole, current in (bags.versions[0][0], bags.versions[1][0])))
    environment.cell("cut off in the middle, too", True, len(states_seen) >= 2)
    import_(bags, old, "--accept-keybag", code=first)
    opens(bags, "--recovery-file", first)
