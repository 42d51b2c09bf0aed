"""erase destroys the keys: nothing opens the volume any more, and a second run completes an interrupted one."""

import contextlib
import json
import os
import shutil
import signal
import subprocess

import harness
import reader
from erasing import erase, keybags, left, overwrites_in_place
from refusals import code_of
from terminal import at_terminal


def made(environment):
    """A volume with a file in it, and its keys' files."""
    mount = environment.mount()
    harness.write_file(mount / "file", b"secret contents")
    mount.unmount()
    volume = mount.volume
    harness.protectfs("slot", "add", "--portable", "--recovery-file", volume.code_file, "--new-passphrase-file",
                      volume.passphrase_file, volume.path, env=volume.environment)
    # Leaves the record of a copy.
    harness.protectfs("keybag", "export", volume.path, "-", env=volume.environment, text=False)
    leave_previous(volume)
    return mount, volume, [reader.device_key_file(volume), reader.state_file(volume), reader.keybag_file(volume),
                           reader.keybag_file(volume) + ".old"]


def leave_previous(volume):
    """A keybag from before a change that was cut off; the next unlock would destroy it."""
    shutil.copyfile(reader.keybag_file(volume), reader.keybag_file(volume) + ".old")


def opens(environment, volume):
    """Whether anything a person has opens the volume."""
    found = []
    for words in (["--previous-keybag", "--recovery-file", volume.code_file], ["--recovery-file", volume.code_file],
                  ["--passphrase-file", volume.passphrase_file], ["--no-unlock"]):
        point = environment.new_path("point")
        os.mkdir(point)
        done = harness.protectfs("mount", *words, volume.path, point, env=volume.environment, ok=False)
        if done.returncode == 0:
            found.append(words[0])
            harness.protectfs("unmount", point, env=volume.environment)
    return found


def test_erase(environment):
    mount, volume, files = made(environment)
    environment.cell("before", ["--previous-keybag", "--recovery-file", "--passphrase-file", "--no-unlock"],
                     opens(environment, volume))
    leave_previous(volume)
    # The files with the keys, kept open: the same blocks that an undelete would find.
    handles = [(path, open(path, "rb"), harness.read_file(path)) for path in files]
    done = harness.protectfs("erase", "--yes", "--json", volume.path, env=volume.environment)
    answer = json.loads(done.stdout)
    environment.cell("report", (sorted(files), overwrites_in_place(volume.path), files[0]),
                     (sorted(answer["destroyed"]), answer["verified"], answer["deviceKey"]))
    for path, handle, before in handles:
        name = os.path.basename(path)
        environment.cell(f"{name[-8:]} is gone", False, os.path.exists(path))
        after = handle.read()
        handle.close()
        same = sum(one == other for one, other in zip(before, after))
        # To the end of the block, in which a former key may have lain.
        environment.cell(f"{name[-8:]} is overwritten", (True, True), (
            len(after) >= len(before) and (len(after) % 512 == 0 or not overwrites_in_place(volume.path)),
            same < len(before) / 4))
    environment.cell("nothing is left beside the key", [], left(volume))
    environment.cell("nothing opens it", [], opens(environment, volume))
    environment.cell("the encrypted files stay", True, len(os.listdir(volume.path)) >= 2)
    code_of(environment, "again: it is no volume", 4, "erase", "--yes", volume.path)


def test_without_device_key(environment):
    """Nothing is said of copies of a device key that there never was."""
    for words, said in ((["--device-key", "none"], False), ([], True)):
        data, path, secret = environment.new_path("data"), environment.new_path("volume"), environment.new_path("secret")
        harness.write_file(secret, b"seven unusual words of a portable kind\n")
        variables = {**os.environ, "XDG_STATE_HOME": data}
        made = json.loads(harness.protectfs("init", "--json", *words, "--passphrase-file", secret, path, env=variables).stdout)
        if made["deviceKey"]:
            os.remove(made["deviceKey"])
        done = harness.protectfs("erase", "--yes", path, env=variables, ok=False)
        environment.cell(f"{words}: a device key elsewhere", said, "No device key was found here" in done.stdout)


def test_says_what_it_cannot_reach(environment):
    _, volume, _ = made(environment)
    done = harness.protectfs("erase", "--yes", volume.path, env=volume.environment)
    words = ["overwritten", "Solid-state", "snapshots", "backups"]
    words += ["read back from the disk, removed", "Verified"] if overwrites_in_place(volume.path) else ["Not verified"]
    for word in words:
        environment.cell(word, True, word in done.stdout)


def test_asks_on_a_terminal(environment):
    _, volume, files = made(environment)
    before = [harness.read_file(path) for path in files]
    words = ["erase", volume.path]
    for label, typed in (("another name", "something else\n"), ("nothing", "\n"), ("yes", "yes\n"), ("^C", "\x03")):
        code, shown, _ = at_terminal(words, volume.environment, [("To continue", typed)])
        environment.cell(f"{label}: refused", True, code != 0)
        environment.cell(f"{label}: names the device key", True, os.path.basename(files[0]) in shown)
        environment.cell(f"{label}: nothing was destroyed", before, [harness.read_file(path) for path in files])
    done = harness.protectfs(*words, env=volume.environment, start_new_session=True, ok=False)
    environment.cell("without a terminal", (2, True), (done.returncode, "--yes" in done.stderr))
    environment.cell("without a terminal: nothing was destroyed", before, [harness.read_file(path) for path in files])
    code, shown, _ = at_terminal(words, volume.environment, [("To continue", "volume\n")])
    environment.cell("the name", (0, True), (code, "erified: no" in shown))
    environment.cell("then they are gone", [], [path for path in files if os.path.exists(path)])


def test_refuses_what_is_in_use(environment):
    mount, volume, files = made(environment)
    copy = environment.new_path("copy")
    shutil.copytree(volume.path, copy, symlinks=True)
    environment.mount(volume, path=mount.path)
    leave_previous(volume)
    done = harness.protectfs("erase", "--yes", volume.path, env=volume.environment, ok=False)
    environment.cell("mounted", (6, True), (done.returncode, mount.path in done.stderr))
    done = harness.protectfs("erase", "--yes", copy, env=volume.environment, ok=False)
    environment.cell("a copy is mounted", (6, True), (done.returncode, mount.path in done.stderr))
    code, shown, _ = at_terminal(["erase", volume.path], volume.environment, [])
    environment.cell("before it asks", (6, False), (code, "To continue" in shown))
    environment.cell("all is there", [], [path for path in files if not os.path.exists(path)])
    environment.cell("and works", b"secret contents", harness.read_file(mount / "file"))


def test_keys_of_others_are_left_alone(environment):
    _, volume, files = made(environment)
    other = environment.new_path("other.key")
    harness.write_file(other, os.urandom(32))
    code_of(environment, "another device key", 3, "erase", "--yes", "--device-key", other, volume.path,
            env=volume.environment)
    environment.cell("it is left", 32, os.path.getsize(other))
    environment.cell("all is there", [], [path for path in files if not os.path.exists(path)])
    # A keybag that names this volume, with a key in its place that opens it not.
    harness.write_file(files[0], os.urandom(32))
    done = harness.protectfs("erase", "--yes", volume.path, env=volume.environment)
    environment.cell("a key that opens nothing", (True, True), ("left alone" in done.stdout, os.path.exists(files[0])))
    environment.cell("nothing opens it", [], opens(environment, volume))


def test_half_way(environment):
    """What an interruption leaves either opens, or is finished by running it again."""
    for step in range(1, 6):
        _, volume, files = made(environment)
        # As erase goes: the device key, the state file, the old keybag, the keybag; all but the old keybag get a name of
        # their own before they are overwritten.
        order = [files[0], files[1], files[3], files[2]]
        for path in order[:step - 1]:
            os.unlink(path)
        if step < 5:
            half = order[step - 1] + ("" if step == 3 else ".erasing")
            os.rename(order[step - 1], half)
            with open(half, "r+b") as file:
                file.write(os.urandom(os.path.getsize(half)))
        if step in (1, 3):
            environment.cell(f"step {step}: opens with the recovery code", True,
                             "--recovery-file" in opens(environment, volume))
        done = harness.protectfs("erase", "--yes", volume.path, env=volume.environment, ok=False)
        environment.cell(f"step {step}: finished", (0 if step < 5 else 4, []), (done.returncode, [
            path for one in order for path in (one, one + ".erasing") if os.path.exists(path)]))
        environment.cell(f"step {step}: nothing opens it", [], opens(environment, volume))


def test_killed(environment):
    for number in range(12 if environment.mode == "full" else 3):
        _, volume, files = made(environment)
        process = subprocess.Popen([harness.binary(), "erase", "--yes", volume.path], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=volume.environment)
        try:
            process.wait(0.004 * (number % 6 + 1))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
        process.communicate()
        if keybags(volume):
            harness.protectfs("erase", "--yes", volume.path, env=volume.environment)
        # A kill after the keys are gone can leave the lock files, which are empty.
        names = [name for name in left(volume) if not name.endswith(".lock")]
        environment.cell(f"{number}: finished", ([], []), (names, keybags(volume)))


def test_replaced_device_key(environment):
    """The key that recovery use has replaced opens copies from before: it goes too."""
    volume = environment.volume()
    harness.protectfs("recovery", "use", "--recovery-file", volume.code_file, "--new-passphrase-file",
                      volume.passphrase_file, volume.path, env=volume.environment)
    environment.cell("it is there", True, any(name.endswith(".key.old") for name in left(volume)))
    _, answer = erase(volume)
    environment.cell("nothing is left", ([], []), (left(volume), keybags(volume)))
    environment.cell("and nothing is said to be", ([], True), (
        answer["left"], any(name.endswith(".key.old") for name in answer["destroyed"])))


def test_damaged_keybag(environment):
    """A keybag that is cut or changed still names the volume, and what is certainly its own goes."""
    whole = harness.read_file(reader.keybag_file(environment.volume()))
    changed = bytearray(whole)
    changed[-1] ^= 1
    first = bytearray(whole)
    first[-64] ^= 1
    for label, content in (("second MAC", bytes(changed)), ("first MAC", bytes(first)), ("cut off", whole[:-1]),
                           ("half", whole[:len(whole) // 2]), ("the header's first part", whole[:100])):
        volume = environment.volume()
        harness.write_file(reader.keybag_file(volume), content, os.O_TRUNC)
        _, answer = erase(volume)
        environment.cell(f"{label}: nothing is left", ([], []), (left(volume), keybags(volume)))
        environment.cell(f"{label}: says so", ([], overwrites_in_place(volume.path)),
                         (answer["left"], answer["verified"]))


def test_keybag_that_tells_too_little(environment):
    """Without a proof nothing is destroyed, and the person says which key file goes."""
    for label, length in (("the UUID", 40), ("nothing", 8)):
        volume = environment.volume()
        key, keybag = reader.device_key_file(volume), reader.keybag_file(volume)
        # Otherwise it proves that this store was used under this UUID.
        os.unlink(reader.state_file(volume))
        harness.write_file(keybag, harness.read_file(keybag)[:length], os.O_TRUNC)
        before = left(volume)
        done, _ = erase(volume, ok=False)
        environment.cell(f"{label}: refused", (4, True, True), (
            done.returncode, "--device-key" in done.stderr, "Nothing was destroyed" in done.stderr))
        environment.cell(f"{label}: all is there", (before, [".protectfs.keybag"]),
                         ([name for name in left(volume) if not name.endswith("keybag.lock")], keybags(volume)))
        copy = environment.new_path("copy")
        shutil.copytree(os.path.dirname(volume.path), copy, symlinks=True)
        other = harness.Volume(copy + "/volume", copy + "/data", volume.code_file, volume.passphrase_file)
        _, answer = erase(other, "--device-key", "none")
        environment.cell(f"{label}: left alone", (False, True, []), (
            answer["verified"], os.path.basename(key) in left(other), keybags(other)))
        _, answer = erase(volume, "--device-key", key)
        environment.cell(f"{label}: the key that was given", (False, True, []), (
            os.path.exists(key), key in answer["destroyed"], keybags(volume)))


def test_a_store_that_names_another_volume(environment):
    """Its keybag has the UUID of a volume of ours: neither that one's device key nor its state file goes."""
    victim, hostile = environment.volume(), environment.new_path("hostile")
    uuid = harness.read_file(reader.keybag_file(victim))[16:32]
    secret = ["--passphrase-file", victim.passphrase_file]
    harness.protectfs("init", *secret, hostile, env={**os.environ, "XDG_STATE_HOME": environment.new_path("data")})
    whole = bytearray(harness.read_file(hostile + "/.protectfs.keybag"))
    whole[16:32] = uuid
    harness.write_file(hostile + "/.protectfs.keybag", bytes(whole), os.O_TRUNC)
    before = left(victim)
    store = harness.Volume(hostile, victim.data, victim.code_file, victim.passphrase_file)
    done, answer = erase(store)
    environment.cell("left alone", (0, before, False), (
        done.returncode, [name for name in left(victim) if not name.endswith("keybag.lock")], answer["verified"]))
    environment.cell("said", reader.device_key_file(victim), answer["spared"])
    environment.mount(victim)


def test_planted_links(environment):
    """A name of the keybag's is another file's: that one is never written to."""
    for label, plant in (("hard link", os.link), ("symbolic link", os.symlink)):
        volume = environment.volume()
        victim = environment.new_path("victim")
        harness.write_file(victim, b"somebody's file" * 100)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(reader.keybag_file(volume) + ".old")
        plant(victim, reader.keybag_file(volume) + ".old")
        done, answer = erase(volume)
        environment.cell(f"{label}: the target is as it was", b"somebody's file" * 100, harness.read_file(victim))
        environment.cell(f"{label}: the name is gone, and said to be", ([], [reader.keybag_file(volume) + ".old"]),
                         (keybags(volume), answer["removed"]))
        environment.cell(f"{label}: it held no key", ([], overwrites_in_place(volume.path)),
                         (answer["left"], answer["verified"]))


def test_keybag_with_a_name_elsewhere(environment):
    volume = environment.volume()
    elsewhere = environment.new_path("elsewhere")
    os.link(reader.keybag_file(volume), elsewhere)
    before = harness.read_file(elsewhere)
    done, answer = erase(volume, ok=False)
    environment.cell("fails, and says what is left", (1, True, False, [reader.keybag_file(volume)]), (
        done.returncode, f"find -inum {os.stat(elsewhere).st_ino}" in done.stderr, answer["verified"], answer["left"]))
    environment.cell("the other name's content", before, harness.read_file(elsewhere))
    environment.cell("the keys' files are gone", ([], []), (left(volume), keybags(volume)))


def test_links_of_a_device_key(environment):
    for label, plant in (("hard link", os.link), ("symbolic link", os.symlink)):
        volume = environment.volume()
        key, elsewhere = reader.device_key_file(volume), environment.new_path("key")
        if plant is os.link:
            plant(key, elsewhere)
        else:
            os.rename(key, elsewhere)
            plant(elsewhere, key)
        before = harness.read_file(elsewhere)
        done, _ = erase(volume, ok=False)
        environment.cell(f"{label}: refused", (1, True), (done.returncode, "Nothing was destroyed" in done.stderr))
        environment.cell(f"{label}: all is there", (before, True, True), (
            harness.read_file(elsewhere), os.path.lexists(key), os.path.exists(reader.keybag_file(volume))))
        if plant is os.link:
            os.unlink(elsewhere)
            erase(volume)
        else:
            erase(volume, "--device-key", elsewhere)
        environment.cell(f"{label}: then it goes", ([], False), (left(volume), os.path.exists(elsewhere)))


def test_two_names_of_one_keybag(environment):
    """What a change leaves that was cut off between its link and its rename: both are the volume's own."""
    volume = environment.volume()
    with contextlib.suppress(FileNotFoundError):
        os.unlink(reader.keybag_file(volume) + ".old")
    os.link(reader.keybag_file(volume), reader.keybag_file(volume) + ".old")
    with open(reader.keybag_file(volume), "rb") as handle:
        before = harness.read_file(reader.keybag_file(volume))
        _, answer = erase(volume)
        environment.cell("overwritten", True, handle.read()[:len(before)] != before)
    environment.cell("nothing is left", ([], [], []), (left(volume), keybags(volume), answer["left"]))


def test_a_copy_with_a_key_of_its_own(environment):
    """What this machine remembers of the original, and the key that opens it, stay."""
    mount = environment.mount()
    harness.write_file(mount / "file", b"content")
    mount.unmount()
    original = mount.volume
    copy = harness.Volume(environment.new_path("copy"), original.data, original.code_file, original.passphrase_file)
    shutil.copytree(original.path, copy.path, symlinks=True)
    harness.protectfs("recovery", "use", "--recovery-file", copy.code_file, "--new-passphrase-file",
                      copy.passphrase_file, copy.path, env=copy.environment)
    uuid = os.path.basename(reader.state_file(original)).split(".")[0]
    environment.cell("the copy has files of its own", True, {f"{uuid}.2.key", f"{uuid}.2.state"} <= set(left(copy)))
    _, answer = erase(copy)
    environment.cell("they go", ([f"{uuid}.2.key", f"{uuid}.2.state"], False), (
        sorted(os.path.basename(path) for path in answer["destroyed"] if uuid in path),
        any(".2." in name for name in left(copy))))
    environment.cell("the original's stay", True, {f"{uuid}.key", f"{uuid}.state"} <= set(left(copy)))
    again = environment.mount(original)
    environment.cell("and open it", b"content", harness.read_file(again / "file"))


def test_a_copy_that_shares_the_key(environment):
    """The key that another store on this machine is opened with goes only if it is named."""
    mount = environment.mount()
    harness.write_file(mount / "file", b"content")
    mount.unmount()
    original = mount.volume
    copy = environment.new_path("copy")
    shutil.copytree(original.path, copy, symlinks=True)
    done = harness.protectfs("erase", "--yes", copy, env=original.environment, ok=False)
    environment.cell("refused", (6, True, True), (
        done.returncode, original.path in done.stderr, os.path.exists(os.path.join(copy, ".protectfs.keybag"))))
    harness.protectfs("erase", "--yes", "--device-key", "none", copy, env=original.environment)
    again = environment.mount(original)
    environment.cell("the original opens", b"content", harness.read_file(again / "file"))
    again.unmount()
    shutil.copytree(original.path, copy + "2", symlinks=True)
    key = os.path.splitext(reader.state_file(original))[0] + ".key"
    harness.protectfs("erase", "--yes", "--device-key", key, copy + "2", env=original.environment)
    environment.cell("gone when named", False, os.path.exists(key))


def test_copies_of_the_key(environment):
    """What opens the keybag is a key of the volume, whatever it is called; what does not stays."""
    volume = environment.volume()
    key = os.path.splitext(reader.state_file(volume))[0] + ".key"
    directory = os.path.dirname(key)
    copies = [key + "~", os.path.join(directory, "usb stick"), key.replace(".key", " copy.key")]
    for copy in copies:
        shutil.copyfile(key, copy)
    foreign = os.path.join(directory, "another program's")
    with open(foreign, "wb") as file:
        file.write(os.urandom(32))
    _, answer = erase(volume)
    environment.cell("destroyed", [], [path for path in copies if os.path.exists(path) or path not in answer["destroyed"]])
    environment.cell("another file of 32 bytes", (True, []), (os.path.exists(foreign), answer["left"]))
