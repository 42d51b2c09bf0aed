"""The state file of this machine: each way in which it cannot be used, at each command, and the way out."""

import contextlib
import json
import os

import harness
import reader
import states
from harness import protectfs, read_file, write_file
from state_refusals import WAY_OUT, fill, named, seen, small_directory
from users import OrdinaryUser

FAILURE, DAMAGED, UNSUPPORTED = 1, 4, 5
CHECK_FAILED, CHECK_USAGE = 8, 16


def newer(data, *fields):
    """What a newer program wrote, with its name."""
    return states.changed(data, *fields, tlvs={1: b"protectfs 9.9.9"})


def kinds(data):
    """What is wrong -> the bytes, the exit code, and words of the message."""
    other = states.changed(data, {16: bytes(range(16))})
    return {
        "empty": (b"", DAMAGED, ["is empty"]),
        "cut off": (data[:-1], DAMAGED, ["is cut off", f"{len(data) - 1} of at least {len(data)} bytes"]),
        "a flipped bit": (data[:40] + bytes([data[40] ^ 1]) + data[41:], DAMAGED, ["is damaged"]),
        "zeros": (bytes(len(data)), DAMAGED, ["is damaged"]),
        "longer than 1 MiB": (data + bytes(1 << 20), DAMAGED, ["is damaged"]),
        "another volume's": (other, DAMAGED, ["belongs to another volume", "00010203-0405-0607-0809-0a0b0c0d0e0f"]),
        "version 1": (b"PFSSTAT1\1\0" + bytes(94), UNSUPPORTED, ["test version", "never released"]),
        "version 3": (newer(data, {8: b"\3"}), UNSUPPORTED, ["newer version", "protectfs 9.9.9", "version 3"]),
        "an incompatible feature": (newer(data, {104: b"\4"}), UNSUPPORTED, ["newer version", "protectfs 9.9.9"]),
        "a reserved byte": (newer(data, {127: b"\1"}), UNSUPPORTED, ["newer version", "protectfs 9.9.9"]),
        "a TLV that must be understood": (
            states.changed(data, tlvs={0x8009: b"?"}), UNSUPPORTED, ["newer version", "protectfs "]),
    }


def commands(volume, point):
    """Each command that looks at the state file."""
    secret = ["--passphrase-file", volume.passphrase_file]
    new = ["--new-passphrase-file", volume.passphrase_file]
    return {
        "mount": ["mount", *secret, volume.path, point],
        "mount -o ro": ["mount", "-o", "ro", *secret, volume.path, point],
        "mount -o recover": ["mount", "-o", "recover", *secret, volume.path, point],
        "mount --no-unlock": ["mount", "--no-unlock", volume.path, point],
        "fsck": ["fsck", *secret, volume.path],
        "fsck -n": ["fsck", "-n", *secret, volume.path],
        "fsck --repair": ["fsck", "--repair", *secret, volume.path],
        "info": ["info", volume.path],
        "info --json": ["info", "--json", volume.path],
        "passphrase change": ["passphrase", "change", *secret, *new, volume.path],
        "slot add": ["slot", "add", *secret, *new, volume.path],
        "slot add --recovery": ["slot", "add", "--recovery", *secret, volume.path],
    }


def snapshot(volume):
    """Everything that a refused command must leave as it is."""
    places = [os.path.join(place, name) for place in (volume.path, states.directory(volume)) for name in os.listdir(place)]
    return {place: read_file(place) for place in places if os.path.isfile(place) and not place.endswith(".lock")}


def test_every_kind_at_every_command(environment):
    """Refused with one sentence that names the file, what made it, and the way out; nothing is changed."""
    volume, point = seen(environment), environment.new_path("mount")
    os.mkdir(point, mode=0o500)
    place = states.path(volume)
    whole = states.read(place)
    for kind, (data, code, words) in kinds(whole).items():
        states.put(place, data)
        before = snapshot(volume)
        for name, command in commands(volume, point).items():
            done = protectfs(*command, env=volume.environment, ok=False)
            wanted = CHECK_FAILED if name.startswith("fsck") else code
            environment.cell(f"{kind}: {name}", (wanted, []),
                             (done.returncode, named(done.stderr, place, WAY_OUT, *words)))
        environment.cell(f"{kind}: nothing is changed", True, before == snapshot(volume))
        shown = json.loads(protectfs("info", "--json", volume.path, env=volume.environment, ok=False).stdout)
        environment.cell(f"{kind}: info shows the rest", (True, True, False, None),
                         (place in shown["stateFileProblem"], shown["deviceKeyFound"], shown["knownHere"], shown["stateFile"]))
    states.put(place, whole)
    opens(environment, volume, "whole again")


def opens(environment, volume, name):
    mount = environment.mount(volume)
    environment.cell(f"{name}: the file is there", b"kept", read_file(mount / "kept"))
    mount.unmount()


def test_way_out(environment):
    """`fsck --forget-state` keeps the file under another name, says what is lost, and checks."""
    for kind in ("empty", "a flipped bit", "version 1", "version 3", "another volume's", "longer than 1 MiB"):
        volume = seen(environment)
        place = states.path(volume)
        data = kinds(states.read(place))[kind][0]
        states.put(place, data)
        words = ["fsck", "--passphrase-file", volume.passphrase_file, "--forget-state", volume.path]
        done = protectfs(*words, env=volume.environment, ok=False)
        environment.cell(f"{kind}: fsck", 0, done.returncode)
        kept = place + ".forgotten-1"
        environment.cell(f"{kind}: says where it is", True, f"{place}: set aside as {kept}" in done.stderr)
        environment.cell(f"{kind}: says what is lost", True,
                         "older or exchanged keybag is not noticed" in done.stderr and "crash damage is tolerated" in done.stderr)
        environment.cell(f"{kind}: its bytes are kept", True, states.read(kept) == data)
        made = states.read(place)
        environment.cell(f"{kind}: a complete check has ended the tolerance", 0, states.flags(made))
        opens(environment, volume, kind)
        done = protectfs(*words, env=volume.environment, ok=False)
        environment.cell(f"{kind}: a second time there is nothing to forget", (CHECK_USAGE, made[:120]),
                         (done.returncode, states.read(place)[:120]))
        environment.cell(f"{kind}: which it says", True, "nothing was set aside" in done.stderr)
        # Not over the first one.
        states.put(place, b"")
        protectfs(*words, env=volume.environment)
        environment.cell(f"{kind}: the next one", (data, b""), (states.read(kept), states.read(place + ".forgotten-2")))


def test_way_out_without_a_passphrase(environment):
    """With the device key alone nothing is pinned, and everything is tolerated at the next mount."""
    volume = seen(environment)
    place = states.path(volume)
    states.put(place, b"")
    protectfs("fsck", "--no-unlock", "--forget-state", volume.path, env=volume.environment)
    environment.cell("no state file is made", False, os.path.exists(place))
    environment.mount(volume, unlock=False).unmount()
    environment.cell("the mount's one", states.TOLERATE_ALL | states.UNPINNED, states.flags(states.read(place)))


def test_way_out_is_not_for_mounted_volumes(environment):
    """A mount's epoch is in the file, so it stays."""
    volume = seen(environment)
    mount = environment.mount(volume)
    place = states.path(volume)
    states.put(place, b"")
    done = protectfs("fsck", "--no-unlock", "--forget-state", volume.path, env=volume.environment, ok=False)
    environment.cell("refused", (CHECK_FAILED, True, True),
                     (done.returncode, "is mounted at" in done.stderr, os.path.exists(place)))
    done = protectfs("fsck", "-n", "--forget-state", volume.path, env=volume.environment, ok=False)
    environment.cell("-n changes nothing", CHECK_USAGE, done.returncode)
    mount.lock()
    done = mount.command("unlock", "--recovery-file", volume.code_file, mount.path, ok=False)
    environment.cell("unlock names it", (DAMAGED, []), (done.returncode, named(done.stderr, place, WAY_OUT, "is empty")))
    environment.cell("unlock: still locked", "locked", mount.state())


def test_a_copys_state_file(environment):
    """A copy without a pin is compared with all state files, so one that is damaged is named and can be set aside."""
    volume = seen(environment)
    place = states.path(volume)
    copy = harness.Volume(environment.new_path("copy"), volume.data, volume.code_file, volume.passphrase_file)
    harness.run("cp", "-a", volume.path, copy.path)
    environment.mount(copy, unlock=False).unmount()
    second = place.replace(".state", ".2.state")
    environment.cell("the copy has its own", True, os.path.exists(second))
    whole = states.read(second)
    for kind in ("empty", "version 3"):
        data, code, words = kinds(whole)[kind]
        states.put(second, data)
        done = protectfs("info", copy.path, env=copy.environment, ok=False)
        environment.cell(f"{kind}: the copy is refused", (code, []), (done.returncode, named(done.stderr, second, WAY_OUT, *words)))
        opens(environment, volume, f"{kind}: the original")
        protectfs("fsck", "--no-unlock", "--forget-state", copy.path, env=copy.environment)
        environment.cell(f"{kind}: only that is set aside", (True, False), (os.path.exists(place), os.path.exists(second)))
        os.rename(second + ".forgotten-1", second)


def test_what_is_not_known_is_kept(environment):
    """Header bytes, flags, features and TLVs of a newer program outlive mounts, locks, changes and checks."""
    volume = seen(environment)
    place = states.path(volume)
    data = states.changed(
        states.read(place), {112: b"\0\0\0\x80", 119: b"\x40"}, {0x7001: b"kept", 300: b"", 1: b"another program"},
        rest=b"of the future")
    states.put(place, data)

    def check(when):
        now = states.read(place)
        environment.cell(f"{when}: all is kept",
                         (b"of the future", b"\0\0\0\x80", 0x40, b"kept", b""),
                         (now[128:141], now[112:116], now[119], states.value(now, 0x7001), states.value(now, 300)))
        environment.cell(f"{when}: its writer", True, states.value(now, 1).startswith(b"protectfs "))

    mount = environment.mount(volume)
    write_file(mount / "new", b"new")
    check("mounted")
    environment.cell("mounted: an epoch", 1, len(states.open_epochs(states.read(place))))
    mount.lock()
    check("locked")
    mount.unlock()
    mount.unmount()
    check("unmounted")
    protectfs("slot", "add", "--recovery", "--passphrase-file", volume.passphrase_file, volume.path, env=volume.environment)
    check("a new keybag")
    protectfs("fsck", "--passphrase-file", volume.passphrase_file, volume.path, env=volume.environment)
    check("checked")


def test_a_feature_that_forbids_writing(environment):
    """The volume is mounted read-only, which is said, and no command changes it; reading goes on."""
    volume = seen(environment)
    place = states.path(volume)
    data = states.changed(states.read(place), {108: b"\2"}, {1: b"protectfs 9.9.9"})
    states.put(place, data)
    mount = environment.mount(volume)
    environment.cell("the mount says so", [], named(mount.result.stderr, place, "mounted read-only", "newer version"))
    environment.cell("it is read-only", ("EROFS", True, b"kept"),
                     (harness.outcome(write_file, mount / "new", b"new"), mount.status()["readOnly"],
                      read_file(mount / "kept")))
    mount.lock()
    mount.unlock()
    mount.unmount()
    secret = ["--passphrase-file", volume.passphrase_file]
    done = protectfs("fsck", *secret, volume.path, env=volume.environment, ok=False)
    environment.cell("fsck", (0, []), (done.returncode, named(done.stderr, place, "nothing is changed")))
    done = protectfs("fsck", "--repair", *secret, volume.path, env=volume.environment, ok=False)
    environment.cell("fsck --repair", (CHECK_FAILED, []), (done.returncode, named(done.stderr, place, "newer version")))
    keybag = read_file(reader.keybag_file(volume))
    for words in (["slot", "add", "--new-passphrase-file", volume.passphrase_file], ["slot", "add", "--recovery"]):
        done = protectfs(*words, *secret, volume.path, env=volume.environment, ok=False)
        environment.cell(" ".join(words[:2]), (UNSUPPORTED, []), (done.returncode, named(done.stderr, place, "newer version")))
    environment.cell("nothing is changed", (True, True), (keybag == read_file(reader.keybag_file(volume)), data == states.read(place)))


def test_directory_that_cannot_be_written(environment):
    """As an ordinary user: each command names the state file, or the lock beside it, and not the volume."""
    user = OrdinaryUser(environment)
    place = os.path.join(user.path.replace("/mount", ""), "data", "protectfs")
    file, = (os.path.join(place, name) for name in os.listdir(place) if name.endswith(".state"))
    mount = [harness.binary(), "mount", "--recovery-file", user.code_file, user.volume, user.path]
    # Another user's: of one of its own the daemon would change the mode for the moment.
    for mode, of, words in ((0o755, place, ["cannot be written", "Permission denied", "write permission for"]),
                            (0o600, file, ["cannot be read", "change its owner or its permissions"])):
        before = os.stat(of)
        os.chown(of, 0, 0)
        os.chmod(of, mode)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(file.replace(".state", ".lock"))
        done = user.run(*mount, ok=False)
        environment.cell(f"{words[0]}: mount", (FAILURE, []), (done.returncode, named(done.stderr, file, *words)))
        done = user.run(harness.binary(), "fsck", "--recovery-file", user.code_file, user.volume, ok=False)
        environment.cell(f"{words[0]}: fsck", (CHECK_FAILED, []), (done.returncode, named(done.stderr, file, *words)))
        if of == place:
            user.run(*mount[:2], "-o", "recover", *mount[2:])
            user.run(harness.binary(), "unmount", user.path)
            user.run(*mount[:2], "-o", "ro", *mount[2:])
            user.run(harness.binary(), "unmount", user.path)
        os.chown(of, before.st_uid, before.st_gid)
        os.chmod(of, before.st_mode)


def test_full_directory(environment):
    """On a full file system the mount is refused, names the state file, and leaves it whole."""
    volume = seen(environment)
    with small_directory(volume) as place:
        file = states.path(volume)
        whole, names = states.read(file), set(os.listdir(place))
        fill(place)
        done = environment.mount(volume, ok=False).result
        environment.cell("refused", (FAILURE, []),
                         (done.returncode, named(done.stderr, file, "cannot be written", "No space left", "make room", "-o recover")))
        environment.cell("whole, and nothing left behind", (whole, names | {"ballast"}),
                         (states.read(file), set(os.listdir(place))))
        mount = environment.mount(volume, options=["ro"])
        environment.cell("reading works", b"kept", read_file(mount / "kept"))
        mount.unmount()
        os.unlink(os.path.join(place, "ballast"))
        opens(environment, volume, "with room again")


def test_unreadable_by_error(environment):
    """What is there and is no file: the message names it, and it can be set aside."""
    volume = seen(environment)
    place = states.path(volume)
    os.rename(place, place + ".real")
    os.mkdir(place)
    done = environment.mount(volume, ok=False).result
    environment.cell("a directory", (FAILURE, []), (done.returncode, named(done.stderr, place, "cannot be read", WAY_OUT)))
    protectfs("fsck", "--forget-state", "--recovery-file", volume.code_file, volume.path, env=volume.environment)
    environment.cell("set aside", True, os.path.isdir(place + ".forgotten-1"))
    opens(environment, volume, "a directory")


def test_recover_without_a_directory(environment):
    """`-o recover` needs no state file, and so no directory for it; without the option the mount says what is missing."""
    volume = seen(environment)
    nowhere = environment.new_path("file")
    write_file(nowhere, b"")
    other = harness.Volume(volume.path, nowhere, volume.code_file, volume.passphrase_file)
    done = environment.mount(other, ok=False).result
    environment.cell("refused", (FAILURE, True), (done.returncode, "-o recover" in done.stderr and nowhere in done.stderr))
    mount = environment.mount(other, options=["recover"])
    write_file(mount / "new", b"new")
    environment.cell("it is written", (b"kept", b"new"), (read_file(mount / "kept"), read_file(mount / "new")))
    mount.lock()
    mount.unlock()
    mount.unmount()
    opens(environment, volume, "afterwards")
