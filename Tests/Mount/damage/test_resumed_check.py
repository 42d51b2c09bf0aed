"""fsck --resume: a check that was interrupted anywhere, by any signal, is continued, and finds what a whole one finds."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import time

import harness
from checks import fsck, report
from harness import read_file, write_file
from interrupting import Interrupted, record
from state_refusals import fill, read_only, small_directory
from states import put

DIRECTORIES, FILES = 160, 4
# What differs between a resumed check and a whole one of the same volume.
OWN = {"bytes", "filesRead", "resumed", "restarted", "filesReadBefore", "bytesReadBefore"}


def damage(path, keep_time=True):
    """Turns a byte in the middle of a backing file, as a disk would; its modification time stays."""
    status = os.stat(path)
    with open(path, "r+b") as file:
        file.seek(status.st_size // 2)
        byte = file.read(1)[0]
        file.seek(status.st_size // 2)
        file.write(bytes([byte ^ 1]))
    if keep_time:
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def files_of(volume):
    """The backing files of each directory of the volume, in the order of a check."""
    return [[os.path.join(place, name) for name in sorted(os.listdir(place)) if not name.startswith(".protectfs")]
            for place in (os.path.join(volume.path, name) for name in sorted(os.listdir(volume.path)))
            if os.path.isdir(place) and os.path.basename(place) != ".protectfs.lost+found"]


def settle():
    """Only what was changed a second before a check began counts as unchanged."""
    time.sleep(2.2)


def damaged(environment, step=1):
    """A volume with a damaged file in each directory, or in one of `step`."""
    mount = environment.mount()
    for number in range(DIRECTORIES):
        os.mkdir(mount / f"{number}")
        for index in range(FILES):
            write_file(mount / f"{number}/{index}", harness.pattern(20_000, seed=number * FILES + index))
    with open(mount / "0/long", "wb") as file:
        file.write(harness.pattern(30 << 20))
    os.link(mount / "1/1", mount / "2/second name")
    mount.unmount()
    for files in files_of(mount.volume)[::step]:
        # One with two names may be reported under either.
        damage(next(path for path in files[1:] if os.stat(path).st_nlink == 1))
    settle()
    return mount.volume


def compared(answer):
    """What must be equal; findings as lines, so that a difference is short."""
    code, found = answer
    lines = "\n".join(str(sorted(one.items(), key=str)) for one in found["findings"])
    rest = {key: value for key, value in found.items() if key not in OWN | {"findings"}}
    return code, rest, hashlib.sha256(lines.encode()).hexdigest(), (
        found["filesRead"] + found["filesReadBefore"], found["bytes"] + found["bytesReadBefore"])


def resumed(environment, name, volume, whole, *words):
    """Continues, and compares with a whole check. Returns the report."""
    answer = report(volume, "--resume", *words)
    environment.cell(f"{name}: as a whole check", compared(whole), compared(answer))
    environment.cell(f"{name}: no record is left", [], record(volume))
    return answer[1]


def test_interrupted_anywhere(environment):
    """By every signal, at the beginning, in the middle and near the end; twice in a row, too."""
    volume = damaged(environment)
    whole = report(volume, "-n")
    environment.cell("a whole check", (4, DIRECTORIES), (whole[0], len(whole[1]["findings"])))
    for after in (1, DIRECTORIES // 4, DIRECTORIES // 2):
        for number in (signal.SIGINT, signal.SIGTERM):
            name = f"{number.name} after {after}"
            before = Interrupted(volume, ["-n"], number, after)
            environment.cell(f"{name}: exit code", 36, before.code)
            environment.cell(f"{name}: what continues it", True,
                             f"Continue with: protectfs fsck --resume --read-only {volume.path}\n" in before.text)
            environment.cell(f"{name}: the record", 1, len(record(volume)))
            again = resumed(environment, name, volume, whole, "-n")
            environment.cell(f"{name}: continued", (True, None), (again["resumed"], again["restarted"]))
            if after > 1:
                environment.cell(f"{name}: some files were not read again", True, again["filesReadBefore"] > after)

    Interrupted(volume, ["-n"], signal.SIGINT, 20)
    second = Interrupted(volume, ["-n", "--resume"], signal.SIGTERM, 45)
    environment.cell("twice: the second run", (36, True), (second.code, second.text.startswith("continuing the check of ")))
    again = resumed(environment, "twice", volume, whole, "-n")
    environment.cell("twice: files of both runs", True, again["filesReadBefore"] > 45 * (FILES - 2))


def test_killed(environment):
    """By kill -9, at once and at other places. What an earlier run has recorded is still there. If there is nothing to continue,
    this is said, and everything is read."""
    volume = damaged(environment)
    whole = report(volume, "-n")
    before = Interrupted(volume, ["-n"], signal.SIGKILL, DIRECTORIES // 2)
    environment.cell("early: killed", -signal.SIGKILL, before.code)
    again = resumed(environment, "early", volume, whole, "-n")
    # On a slow machine it may have been recorded.
    environment.cell("early: continued or not", again["resumed"], again["restarted"] is None)
    for after in (1, DIRECTORIES // 4, DIRECTORIES // 2):
        Interrupted(volume, ["-n"], signal.SIGINT, DIRECTORIES // 4)
        before = Interrupted(volume, ["-n", "--resume"], signal.SIGKILL, after)
        environment.cell(f"after {after}: killed", -signal.SIGKILL, before.code)
        again = resumed(environment, f"after {after}", volume, whole, "-n")
        environment.cell(f"after {after}: continued", (True, True), (again["resumed"], again["filesReadBefore"] > DIRECTORIES // 4))


def test_changed_between(environment):
    """Whatever changed before the place of the interruption is read again: a file, and a directory put there."""
    volume = damaged(environment)
    places = files_of(volume)
    copy = os.path.join(os.path.dirname(volume.path), "copy")
    shutil.copytree(os.path.dirname(places[3][0]), copy, symlinks=True)
    damage(os.path.join(copy, os.path.basename(places[3][2])))
    settle()
    for number in (signal.SIGINT, signal.SIGTERM):
        name = number.name
        before = Interrupted(volume, ["-n"], number, DIRECTORIES // 2)
        victim = places[5 if number == signal.SIGINT else 6][2]
        environment.cell(f"{name}: the place is done", True,
                         os.path.relpath(os.path.dirname(victim), volume.path) in {os.path.dirname(one) for one in before.findings})
        damage(victim)
        answer = report(volume, "-n", "--resume")
        environment.cell(f"{name}: continued", True, answer[1]["resumed"] and answer[1]["filesReadBefore"] > DIRECTORIES)
        environment.cell(f"{name}: the damaged file", True,
                         os.path.relpath(victim, volume.path) in {one["backingPath"] for one in answer[1]["findings"]})
        environment.cell(f"{name}: as a whole check", compared(report(volume, "-n")), compared(answer))

    # A directory that was not changed for long itself, with an older and damaged file.
    Interrupted(volume, ["-n"], signal.SIGINT, DIRECTORIES // 2)
    os.rename(os.path.dirname(places[3][0]), copy + ".away")
    os.rename(copy, os.path.dirname(places[3][0]))
    answer = report(volume, "-n", "--resume")
    environment.cell("another directory: continued", True, answer[1]["resumed"] and answer[1]["filesReadBefore"] > DIRECTORIES)
    environment.cell("another directory: as a whole check", compared(report(volume, "-n")), compared(answer))


def begun(volume):
    """Interrupts a check in the middle. Gives its record."""
    for old in record(volume):
        os.unlink(old)
    Interrupted(volume, ["-n"], signal.SIGINT, DIRECTORIES // 2)
    place, = record(volume)
    return place


def refused(environment, name, volume, whole, reason, *words):
    """The record is not used, which is said, and everything is read."""
    place, = record(volume)
    data = read_file(place)
    text = fsck(volume, "--resume", "--recovery-file", volume.code_file, *words).stdout
    environment.cell(f"{name}: one line says why", 1, text.count("everything is read, because "))
    # A check that has ended has removed it.
    put(place, data)
    code, answer = report(volume, "--resume", *words)
    environment.cell(name, (reason, False, 0), (answer["restarted"], answer["resumed"], answer["filesReadBefore"]))
    environment.cell(f"{name}: as a whole check", compared(whole or report(volume, *words)), compared((code, answer)))


def test_not_continued(environment):
    """What a record does not vouch for: other bytes, another time, other options, a volume that was written."""
    volume = damaged(environment)
    whole = report(volume, "-n")
    place = begun(volume)
    good = read_file(place)
    later = (int(time.time()) + 3600).to_bytes(8, "little")
    for name, data, reason in (
            ("empty", b"", "damaged"), ("cut off", good[:-1], "damaged"), ("zeros", bytes(len(good)), "damaged"),
            ("one bit", good[:50] + bytes([good[50] ^ 1]) + good[51:], "damaged"), ("much too long", good + bytes(2 << 20), "damaged"),
            ("the version before", signed(good[:8] + b"\1" + good[9:]), "damaged"),
            ("another version", signed(good[:8] + b"\3" + good[9:]), "damaged"),
            ("another volume's", signed(good[:16] + os.urandom(16) + good[32:]), "damaged"),
            ("a clock that went back", signed(good[:40] + later + good[48:]), "clock"),
            ("another store's", signed(good[:48] + os.urandom(8) + good[56:]), "store"),
            ("fewer classes", signed(good[:88] + bytes([good[88] ^ 3]) + good[89:]), "classes")):
        put(place, data)
        refused(environment, name, volume, whole, reason, "-n")
    put(place, good)
    code, answer = report(volume, "-n", "--resume")
    environment.cell("the right one", (4, True), (code, answer["resumed"]))

    begun(volume)
    mount = environment.mount(volume, options=["ro"])
    os.listdir(mount / "5")
    mount.unmount()
    environment.cell("only read meanwhile", True, report(volume, "-n", "--resume")[1]["resumed"])
    begun(volume)
    mount = environment.mount(volume)
    write_file(mount / "5/new", b"new")
    mount.unmount()
    refused(environment, "written meanwhile", volume, None, "changed", "-n")
    whole = report(volume)
    begun(volume)
    refused(environment, "other options", volume, whole, "options")


def test_repairs_are_continued(environment):
    """A repair that was interrupted is continued as such: nothing is repaired twice, and all of it in the end."""
    volume = damaged(environment, 2)
    before = Interrupted(volume, ["--repair", "--quarantine"], signal.SIGINT, DIRECTORIES // 4)
    # The repair of one file may have been interrupted, so that its error is left.
    environment.cell("interrupted", 32 | 1, before.code & ~4)
    environment.cell("what continues it", True,
                     f"Continue with: protectfs fsck --resume --repair --quarantine {volume.path}\n" in before.text)
    code, answer = report(volume, "--resume", "--repair", "--quarantine")
    environment.cell("continued", (True, True), (answer["resumed"], answer["filesReadBefore"] > 0))
    environment.cell("the rest is repaired", (1, 0, True), (code, answer["remaining"], answer["closedEpochs"]))
    done = {line.rsplit("[", 1)[1][:-1] for line in before.text.splitlines() if line.startswith("repair: ") and ": moved to " in line}
    environment.cell("nothing is repaired twice", (True, set()), (bool(done), done & {one["backingPath"] for one in answer["findings"]}))
    code, answer = report(volume, "-n")
    environment.cell("nothing is left", (0, []), (code, answer["findings"]))


def test_after_a_crash(environment):
    """A mount that ended badly: two runs together end its session, as one does, and no file that verifies is written."""
    mount = environment.mount()
    for number in range(DIRECTORIES):
        os.mkdir(mount / f"{number}")
        write_file(mount / f"{number}/first", b"text")
    mount.unmount()
    volume = mount.volume
    # Each gets a note. They are older than the session, so a check leaves them.
    for files in files_of(volume):
        write_file(os.path.join(os.path.dirname(files[0]), ".protectfs.tmp.AAAAAAAAAAAAAAAAAAAAAA"), b"")
    settle()
    mount = environment.mount(volume)
    for number in range(DIRECTORIES):
        for index in range(FILES):
            write_file(mount / f"{number}/{index}", harness.pattern(20_000, seed=number * FILES + index))
    # The last close of a file cuts its end to the length that it needs. Else the check does so.
    harness.wait_until(lambda: not any(mount.status()["openHandles"].values()), what="closed handles")
    mount.sync()
    mount.crash()
    settle()
    times = {path: os.stat(path).st_mtime_ns for files in files_of(volume) for path in files}
    for number, words in ((signal.SIGINT, []), (signal.SIGKILL, ["--resume"])):
        before = Interrupted(volume, words, number, DIRECTORIES // 2)
        environment.cell(f"{number.name}: no damage", [], [line for line in before.text.splitlines() if line.startswith(("error", "crash:"))])
    code, answer = report(volume, "--resume")
    environment.cell("continued", (0, True, True, DIRECTORIES), (code, answer["resumed"], answer["closedEpochs"], answer["notes"]))
    environment.cell("files were passed over", True, answer["filesReadBefore"] > DIRECTORIES)
    environment.cell("no time was changed", times, {path: os.stat(path).st_mtime_ns for path in times})
    environment.cell("no record is left", [], record(volume))
    mount = environment.mount(volume)
    wrong = [number for number in range(DIRECTORIES * FILES)
             if read_file(mount / f"{number // FILES}/{number % FILES}") != harness.pattern(20_000, seed=number)]
    environment.cell("all files read", [], wrong)


def test_state_directory_that_takes_nothing(environment):
    """The check works, and says that it cannot be continued."""
    volume = damaged(environment)
    whole = report(volume, "-n")
    with small_directory(volume) as place:
        for name, spoil, reason in (("full", fill, "No space left"), ("read-only", read_only, "Read-only file system")):
            spoil(place)
            before = Interrupted(volume, ["-n"], signal.SIGINT, DIRECTORIES // 2)
            environment.cell(f"{name}: interrupted", (36, 1, []),
                             (before.code, before.text.count("This check cannot be continued, because "), record(volume)))
            environment.cell(f"{name}: why", True, reason in before.text)
            code, answer = report(volume, "-n", "--resume")
            environment.cell(f"{name}: a whole check", (compared(whole), "none"), (compared((code, answer)), answer["restarted"]))


def test_unknown_here(environment):
    """A volume that this machine has no state of: -n makes none, and cannot be continued."""
    volume = damaged(environment)
    place = os.path.join(volume.data, "protectfs")
    for name in os.listdir(place):
        if name.endswith(".state"):
            os.unlink(os.path.join(place, name))
    before = Interrupted(volume, ["-n"], signal.SIGINT, DIRECTORIES // 2)
    environment.cell("said", True, "This check cannot be continued, because this machine has no state file" in before.text)
    environment.cell("no file is made", [], [name for name in os.listdir(place) if name.endswith((".state", ".check"))])
    code, answer = report(volume, "-n", "--resume")
    environment.cell("everything is read", (4, "no-state", 0), (code, answer["restarted"], answer["filesReadBefore"]))


def test_report_as_json(environment):
    """An interrupted check with --json says that it can be continued. Its output comes at the end, so a signal comes early."""
    volume = damaged(environment)
    mount = environment.mount(volume)
    with open(mount / "0/longer", "wb") as file:
        for _ in range(16):
            file.write(harness.pattern(16 << 20))
    mount.unmount()
    process = subprocess.Popen([harness.binary(), "fsck", "-n", "--json", "--recovery-file", volume.code_file, volume.path],
                               env=volume.environment, stdout=subprocess.PIPE)
    harness.wait_until(lambda: handles(process.pid, signal.SIGINT), what="the check's beginning")
    process.send_signal(signal.SIGINT)
    answer = json.loads(process.communicate()[0])
    environment.cell("interrupted", (True, True, None), (answer["interrupted"], answer["resumable"], answer["notResumable"]))
    environment.cell("exit code", 32, process.returncode & 32)
    environment.cell("continued", True, report(volume, "-n", "--resume")[1]["resumed"])


def handles(pid, number):
    """Whether a process waits for a signal that it blocks."""
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        blocked = next(line for line in file if line.startswith("SigBlk:"))
    return bool(int(blocked.split()[1], 16) >> (number - 1) & 1)


def test_erase_removes_the_record(environment):
    volume = damaged(environment)
    begun(volume)
    done = harness.protectfs("erase", "--yes", volume.path, env=volume.environment, ok=False)
    environment.cell("erased", (0, []), (done.returncode, [name for name in os.listdir(os.path.join(volume.data, "protectfs"))]))


def signed(data):
    """The bytes with the hash made anew."""
    return data[:-32] + hashlib.blake2b(data[:-32], digest_size=32).digest()
