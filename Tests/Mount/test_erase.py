"""erase: the keys are destroyed, nothing opens the volume any more, and half of it is finished by a second run."""

import glob
import json
import os
import shutil
import signal
import subprocess

import harness
import reader
from refusals import code_of
from test_terminal import at_terminal


def made(environment):
    """A volume with a file in it, and its keys' files."""
    mount = environment.mount()
    harness.write_file(mount / "file", b"secret contents")
    mount.unmount()
    volume = mount.volume
    harness.protectfs("passphrase", "add", "--portable", "--recovery-file", volume.code_file, "--new-passphrase-file",
                      volume.passphrase_file, volume.path, env=volume.environment)
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
    # What held the keys, held open: the very blocks, as somebody who undeletes finds them.
    handles = [(path, open(path, "rb"), harness.read_file(path)) for path in files]
    done = harness.protectfs("erase", "--yes", "--json", volume.path, env=volume.environment)
    answer = json.loads(done.stdout)
    environment.cell("report", (sorted(files), True, files[0]),
                     (sorted(answer["destroyed"]), answer["verified"], answer["deviceKey"]))
    for path, handle, before in handles:
        name = os.path.basename(path)
        environment.cell(f"{name[-8:]} is gone", False, os.path.exists(path))
        after = handle.read()
        handle.close()
        same = sum(one == other for one, other in zip(before, after))
        environment.cell(f"{name[-8:]} is overwritten", (len(before), True), (len(after), same < len(before) / 4))
    left = glob.glob(os.path.join(volume.data, "protectfs", "*"))
    environment.cell("nothing is left beside the key", [], left)
    environment.cell("nothing opens it", [], opens(environment, volume))
    environment.cell("the encrypted files stay", True, len(os.listdir(volume.path)) >= 2)
    code_of(environment, "again: it is no volume", 4, "erase", "--yes", volume.path)


def test_says_what_it_cannot_reach(environment):
    _, volume, _ = made(environment)
    done = harness.protectfs("erase", "--yes", volume.path, env=volume.environment)
    for word in ("overwritten, read back, removed", "Verified", "Solid-state", "snapshots", "backups"):
        environment.cell(word, True, word in done.stdout)


def test_asks_on_a_terminal(environment):
    _, volume, files = made(environment)
    before = [harness.read_file(path) for path in files]
    words = ["erase", volume.path]
    for label, typed in (("another name", "something else\n"), ("nothing", "\n"), ("yes", "yes\n"), ("^C", "\x03")):
        code, shown, _ = at_terminal(words, volume.environment, [("to go on", typed)])
        environment.cell(f"{label}: refused", True, code != 0)
        environment.cell(f"{label}: names the device key", True, os.path.basename(files[0]) in shown)
        environment.cell(f"{label}: nothing was destroyed", before, [harness.read_file(path) for path in files])
    done = subprocess.run([harness.binary(), *words], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          env=volume.environment, start_new_session=True)
    environment.cell("without a terminal", (2, True), (done.returncode, "--yes" in done.stderr))
    environment.cell("without a terminal: nothing was destroyed", before, [harness.read_file(path) for path in files])
    code, shown, _ = at_terminal(words, volume.environment, [("to go on", "volume\n")])
    environment.cell("the name", (0, True), (code, "Verified" in shown))
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
    environment.cell("before it asks", (6, False), (code, "to go on" in shown))
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
        # As erase goes: the device key under a name of its own, the state file, the old keybag, the keybag.
        os.rename(files[0], files[0] + ".erasing")
        order = [files[0] + ".erasing", files[1], files[3], files[2]]
        for path in order[:step - 1]:
            os.unlink(path)
        if step < 5:
            with open(order[step - 1], "r+b") as file:
                file.write(os.urandom(os.path.getsize(order[step - 1])))
        if step in (1, 3):
            environment.cell(f"step {step}: opens with the recovery code", True,
                             "--recovery-file" in opens(environment, volume))
        done = harness.protectfs("erase", "--yes", volume.path, env=volume.environment, ok=False)
        environment.cell(f"step {step}: finished", (0 if step < 5 else 4, []), (done.returncode, [
            path for path in order if os.path.exists(path)]))
        environment.cell(f"step {step}: nothing opens it", [], opens(environment, volume))


def test_killed(environment):
    for number in range(12 if environment.mode == "soak" else 3):
        _, volume, files = made(environment)
        process = subprocess.Popen([harness.binary(), "erase", "--yes", volume.path], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=volume.environment)
        try:
            process.wait(0.004 * (number % 6 + 1))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
        process.communicate()
        if os.path.exists(files[2]):
            harness.protectfs("erase", "--yes", volume.path, env=volume.environment)
        left = os.listdir(os.path.join(volume.data, "protectfs"))
        environment.cell(f"{number}: finished", ([], []), (left, [path for path in files if os.path.exists(path)]))
