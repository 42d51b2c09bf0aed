"""fsck on a damaged volume: its report, --repair, --quarantine, and interruptions."""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import time

import harness
import reader
from checks import everything, fsck, kinds, report
from terminal import at_terminal

# The second too long to decrypt to text by chance once its encoding is damaged.
WHOLE = "whole, and a name with many characters"
NAMES = ["damaged", WHOLE, "header", "cut", "weak"]


def damaged(environment, size=60_000):
    """An unmounted volume with damage of many kinds, and what its files held."""
    reader.load()
    mount = environment.mount()
    contents = {}
    os.mkdir(mount / "d")
    for number, name in enumerate(NAMES):
        contents[name] = harness.pattern(size, seed=number + 1)
        harness.write_file(mount / name, contents[name])
        harness.write_file(os.path.join(mount / "d", name), contents[name])
    harness.set_class(mount / "weak", "D")
    harness.set_class(mount / "damaged", "A")
    os.mkdir(mount / "gone")
    harness.write_file(os.path.join(mount / "gone", "file"), b"in a directory without record")
    harness.write_file(os.path.join(mount / "gone", "l" * 200), b"with a long name")
    os.symlink("target", mount / "link")
    mount.unmount()
    volume = reader.unlock(mount.volume)
    for name in ("damaged", "d/damaged"):
        reader.flip(volume.backing_path(name), 5 * 4096 + 100)
        reader.flip(volume.backing_path(name), 9 * 4096 + 100)
    reader.flip(volume.backing_path("header"), 100)
    os.truncate(volume.backing_path("cut"), 4 * 4096)
    os.unlink(os.path.join(volume.backing_path("gone"), b".protectfs.dir"))
    backing = volume.backing_path(f"d/{WHOLE}")
    os.rename(backing, os.path.join(os.path.dirname(backing), b"ABCDEF" + os.path.basename(backing)[6:]))
    root = os.fsencode(mount.volume.path)
    with open(os.path.join(root, b"conflict copy of something"), "wb") as file:
        file.write(b"stray")
    os.symlink("A" * 30, os.path.join(root, b".protectfs.tmp.left"))
    os.unlink(volume.backing_path("link"))
    os.symlink("A" * 80, volume.backing_path("link"))
    return mount, contents


def test_repair(environment):
    mount, contents = damaged(environment)
    volume = mount.volume
    before = everything(volume.path)
    code, answer = report(volume)
    environment.cell("found", (4, ["block"] * 4 + ["foreign", "header", "key-exposed", "length", "missing-header",
                                                   "missing-record", "name", "symlink", "temporary"]
                               + ["unverified-name"] * 2, []),
                     (code, kinds(answer), answer["repairs"]))
    environment.cell("a check changes nothing", sorted(before), sorted(everything(volume.path)))
    backing = reader.unlock(volume).backing_path("damaged")
    block = next(finding for finding in answer["findings"] if (finding["path"], finding["kind"]) == ("damaged", "block"))
    environment.cell("virtual and backing path", (5, os.fsdecode(os.path.relpath(backing, os.fsencode(volume.path)))),
                     (block["page"], block["backingPath"]))

    code, answer = report(volume, "--repair", "--accept-name", "gone/file", "--accept-name", "gone/" + "l" * 200)
    actions = sorted(repair["action"] for repair in answer["repairs"])
    environment.cell("repaired", (5, ["moved", "rebuilt"] + ["renamed"] * 3 + ["salvaged"] * 3, 3, 2),
                     (code, actions, answer["salvaged"], answer["repaired"]))
    after = everything(volume.path)
    environment.cell("no byte is lost", [], [item[:20] for item in before if item not in after])
    lost = {repair["path"]: repair["unreadable"] for repair in answer["repairs"] if repair["action"] == "salvaged"}
    first, rest = 3932, 4060
    blocks = [[first + 4 * rest, first + 5 * rest], [first + 8 * rest, first + 9 * rest]]
    environment.cell("unreadable", {"damaged": blocks, "d/damaged": blocks, "cut": []}, lost)
    mount = environment.mount(volume, path=mount.path)
    expected = bytearray(contents["damaged"])
    for start, end in blocks:
        expected[start:end] = bytes(end - start)
    for name in ("damaged.salvaged", "d/damaged.salvaged"):
        environment.cell(name, True, harness.read_file(mount / name) == bytes(expected))
    environment.cell("class of a copy", "complete", harness.get_class(mount / "damaged.salvaged"))
    environment.cell("cut.salvaged", True, harness.read_file(mount / "cut.salvaged") == contents["cut"][:first + 3 * rest])
    label = os.getxattr(mount / "damaged.salvaged", "user.salvaged").decode()
    environment.cell("a copy says what it is", True, f"{blocks[0][0]}-{blocks[0][1] - 1}" in label)
    environment.cell("the original is as it was", "EIO", harness.outcome(harness.read_file, mount / "damaged"))
    environment.cell("a directory without record", [b"in a directory without record", b"with a long name"],
                     [harness.read_file(os.path.join(mount / "gone", name)) for name in ("file", "l" * 200)])
    harness.write_file(os.path.join(mount / "gone", "new"), b"new")
    recovered = [name for name in os.listdir(mount / "d") if name.startswith("recovered-")]
    environment.cell("a name is given", [contents[WHOLE] == harness.read_file(os.path.join(mount / "d", name))
                                         for name in recovered], [True])
    mount.unmount()

    code, answer = report(volume, "--repair")
    environment.cell("a second run does nothing again", (4, 0, 0), (code, answer["salvaged"], answer["repaired"]))
    code, answer = report(volume, "--repair", "--quarantine")
    environment.cell("with quarantine", (1, 0, True), (code, answer["remaining"], answer["closedEpochs"]))
    code, answer = report(volume)
    environment.cell("clean", (0, []), (code, answer["findings"]))
    after = everything(volume.path)
    environment.cell("still no byte is lost", [], [item[:20] for item in before if item not in after])
    with open(os.path.join(volume.path, ".protectfs.lost+found", "log"), encoding="ascii") as file:
        log = file.read()
    environment.cell("the log tells where from", True, "moved\tconflict copy of something\t.protectfs.lost+found/" in log)
    mount = environment.mount(volume, path=mount.path)
    environment.cell("quarantine is not shown", [], [name for name in os.listdir(mount.path) if name.startswith(".")])
    walked = [entry.path for entry in reader.unlock(volume).walk() if entry.error]
    environment.cell("the second reader agrees", [], walked)


def test_device_key_alone(environment):
    mount, _ = damaged(environment)
    volume = mount.volume
    done = fsck(volume, "--no-unlock")
    environment.cell("exit code", 4, done.returncode)
    environment.cell("says what it could not check", [], [
        name for name in ("completeUntilFirstUserAuthentication", "complete")
        if not re.search(f"of class {name} (was|were) not checked", done.stdout)])
    answer = json.loads(fsck(volume, "--no-unlock", "--json").stdout)
    environment.cell("without contents", (["foreign", "header", "key-exposed", "missing-header", "missing-record", "name",
                                           "symlink", "temporary"] + ["unverified-name"] * 2, False), (kinds(answer), answer["complete"]))
    environment.cell("class none is checked", True, answer["bytes"] >= 60_000)


def test_read_only_judges_as_a_mount_does(environment):
    mount, _ = damaged(environment)
    before = sorted(everything(mount.volume.path))
    code, answer = report(mount.volume, "--read-only")
    environment.cell("a cut file is an error", (4, True, 0), (code, "length" in kinds(answer), answer["crashes"]))
    environment.cell("nothing is changed", before, sorted(everything(mount.volume.path)))


def test_refusals(environment):
    mount = environment.mount()
    volume = mount.volume
    code, shown, _ = at_terminal(["fsck", volume.path], volume.environment, [("Passphrase of", "x\n")])
    environment.cell("mounted: before a passphrase is asked for", (8, True, False),
                     (code, f"mounted at {mount.path}" in shown, "Passphrase" in shown))
    mount.unmount()
    for words in (["--quarantine"], ["--repair", "--read-only"], ["--no-such"]):
        environment.cell(" ".join(words), 16, fsck(volume, *words).returncode)
    environment.cell("clean", 0, fsck(volume, "--recovery-file", volume.code_file).returncode)


def test_progress_on_a_terminal(environment):
    """Objects, bytes, and how much is left, on one line that is overwritten; nothing of it without a terminal."""
    mount = environment.mount()
    volume = mount.volume
    words = ["fsck", "--recovery-file", volume.code_file, volume.path]
    # As much as it takes for more than one tenth of a second, after which the line is written again.
    for turn in range(3):
        for number in range(40 << turn):
            harness.write_file(mount / f"file {turn} {number}", harness.pattern(4 << 20, seed=number))
        mount.unmount()
        code, shown, _ = at_terminal(words, volume.environment, [])
        environment.cell("exit code", 0, code)
        percents = [int(found) for found in re.findall(r" MiB, (\d+) %", shown)]
        if percents or turn == 2:
            break
        mount = environment.mount(volume, path=mount.path)
    environment.cell("progress", True, "\r\x1b[K" in shown and " objects, " in shown and " MiB" in shown)
    if percents:
        environment.cell("with an estimate", True, max(percents) <= 100)
    else:
        environment.skip("with an estimate", "a gigabyte is checked within a tenth of a second here")
    environment.cell("the end", True, shown.rstrip().endswith("crash damage from before this check is reported as an error."))
    done = fsck(volume, "--recovery-file", volume.code_file)
    environment.cell("not without a terminal", (0, ""), (done.returncode, done.stderr))


def copied(environment, volume):
    """A copy of an unmounted volume with all that belongs to it."""
    place = environment.new_path("copy")
    old = os.path.dirname(volume.path)
    shutil.copytree(old, place, symlinks=True)
    harness.forget_store(os.path.join(place, "data"))
    return harness.Volume(*(path.replace(old, place) for path in (volume.path, volume.data, volume.code_file,
                                                                  volume.passphrase_file)))


def test_interrupted_and_killed(environment):
    """Ended by a signal at any moment, and run again: nothing is lost, and in the end everything is repaired."""
    mount, contents = damaged(environment, size=1_500_000)
    before = everything(mount.volume.path)
    repair = ["--repair", "--quarantine"]
    started = time.monotonic()
    report(copied(environment, mount.volume), *repair)
    whole = time.monotonic() - started
    choice, endings = random.Random(4), {signal.SIGINT: 0, signal.SIGKILL: 0}
    for number in range({"quick": 3, "usual": 10, "full": 100}[environment.mode]):
        volume = copied(environment, mount.volume)
        words = [harness.binary(), "fsck", *repair, "--json", "--recovery-file", volume.code_file, volume.path]
        for _ in range(8):
            ending = choice.choice([signal.SIGINT, signal.SIGKILL])
            process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                       env=volume.environment)
            try:
                process.wait(choice.random() * whole)
            except subprocess.TimeoutExpired:
                process.send_signal(ending)
            out, error = process.communicate(timeout=harness.PATIENCE)
            code = process.returncode
            if code == -ending or code & 32:
                endings[ending] += 1
                if code > 0 and not json.loads(out)["interrupted"]:
                    environment.cell(f"volume {number}: says that it was interrupted", True, False)
            elif code not in (0, 1):
                environment.cell(f"volume {number}: {error.decode()[:100]}", "0 or 1", code)
        report(volume, *repair)
        code, answer = report(volume, *repair)
        left = [finding for finding in answer["findings"] if finding["severity"] == "error"]
        environment.cell(f"volume {number}: in the end it is clean", (0, []), (code, left))
        after = everything(volume.path)
        environment.cell(f"volume {number}: no byte is lost", [], [item[:20] for item in before if item not in after])
    environment.cell("some were interrupted", True, min(endings.values()) > 0)
    print("interrupted", endings[signal.SIGINT], "times, killed", endings[signal.SIGKILL], "times", flush=True)
    mount = environment.mount(volume, path=mount.path)
    environment.cell("a whole file", True, harness.read_file(mount / "weak") == contents["weak"])
    copies = [name for name in os.listdir(mount.path) if ".salvaged" in name]
    environment.cell("one copy of each", ["cut.salvaged", "damaged.salvaged"], sorted(copies))
    mount.unmount()


def test_a_signal_ends_it_soon(environment):
    mount = environment.mount()
    for number in range(60):
        harness.write_file(mount / f"file {number}", harness.pattern(8 << 20, seed=1))
    mount.unmount()
    volume = mount.volume
    process = subprocess.Popen([harness.binary(), "fsck", "--recovery-file", volume.code_file, volume.path],
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               env=volume.environment, text=True)
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=harness.PATIENCE)
    if process.returncode == 0:
        return environment.skip("interrupted", "this machine was faster than the signal")
    # Before it has begun to check it ends as any program does.
    environment.cell("exit code", True, process.returncode in (32, -signal.SIGINT))
    if process.returncode == 32:
        environment.cell("says so", True, "Interrupted" in out and "From now on" not in out)
    environment.cell("and then", 0, fsck(volume, "--recovery-file", volume.code_file).returncode)
