"""New class keys of a mounted volume: programs use it meanwhile, locks and kills stop nothing for good, the attack fails."""

import contextlib
import os
import random
import shutil
import signal
import subprocess
import threading

import harness
import reader
from harness import Skip, protectfs, read_file, write_file
from rotation import (DAMAGED, FAILURE, attack, check_the_end, check_what_stays, fill, generations, mount_accepting,
                      opened_by, rotate, shown, take_code)

UNSUPPORTED, LOCKED = 5, 8
KEY_TYPES = (1, 2, 3, 4, 7)


def kept(volume):
    """The generations of class keys in the keybag."""
    return {number for (kind, number) in reader.unlock(volume, with_passphrase=True).keys.every
            if kind in KEY_TYPES}


@contextlib.contextmanager
def rotating(volume, *words):
    """A rotation that runs. It is killed if the test has not ended it."""
    words = ["keys", "rotate", "--retire", *words, "--passphrase-file", volume.passphrase_file, volume.path]
    with subprocess.Popen([harness.binary(), *words], env=volume.environment, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True) as running:
        try:
            yield running
        finally:
            if running.poll() is None:
                running.kill()


def unlock(mount):
    """By the passphrase, which stays the same."""
    mount.command("unlock", "--passphrase-file", mount.volume.passphrase_file, mount.path)


def unlock_or_accept(environment, mount):
    """The mount, unlocked. It is made again if the kill came between the new keybag and this machine's record of it."""
    done = mount.command("unlock", "--passphrase-file", mount.volume.passphrase_file, mount.path, ok=False)
    if done.returncode == 0:
        return mount
    environment.cell("asks to accept the keybag", (DAMAGED, True), (done.returncode, "--accept-keybag" in done.stderr))
    mount.unmount()
    return mount_accepting(environment, mount.volume)


def last_code(environment, volume, output):
    """Keeps the recovery code that was shown last."""
    lines = [line for line in output.splitlines() if line.startswith("    ")]
    take_code(environment, volume, subprocess.CompletedProcess([], 0, lines[-1] + "\n", ""))
    return len(lines)


def test_attack(environment):
    """As for a volume that is not mounted: afterwards an old keybag opens no file, and the mount goes on with the new keys."""
    volume = environment.volume()
    mount = environment.mount(volume)
    contents = fill(mount)
    keybag, code = read_file(reader.keybag_file(volume)), volume.code_file

    def attempt(label, opens):
        mount.sync()
        stolen = attack(environment, volume, keybag)
        stolen.code_file = code
        found = environment.mount(stolen)
        nothing = {path: os.strerror(95) for path in contents}
        environment.cell(f"{label}: the program", contents if opens else nothing, shown(found, contents))
        found.unmount()
        second = reader.unlock(stolen, with_passphrase=True)
        environment.cell(f"{label}: the second reader", len(contents) if opens else 0,
                         opened_by(second.keys, stolen.path))

    attempt("before", True)
    take_code(environment, volume, rotate(volume))
    environment.cell("the mount", contents, shown(mount, contents))
    contents["new"] = b"written afterwards"
    write_file(mount / "new", contents["new"])
    attempt("after", False)
    check_what_stays(environment, mount)
    environment.cell("generations", ([1], {1}), (generations(volume.path), kept(volume)))
    mount.lock()
    environment.cell("locked", True, shown(mount, contents)["complete"] != contents["complete"])
    mount.unlock()
    environment.cell("unlocked again", contents, shown(mount, contents))
    mount.unmount()
    mount = environment.mount(volume)
    environment.cell("mounted again", contents, shown(mount, contents))
    mount.unmount()
    check_the_end(environment, volume, code)


def test_locked_meanwhile(environment):
    """A lock stops it and loses nothing, an unlock lets it go on, and then it asks for the passphrase once more."""
    volume = environment.volume()
    mount = environment.mount(volume)
    contents = fill(mount, 1_000_000)
    with rotating(volume, "--rate", "1") as running:
        harness.wait_until(lambda: 1 in generations(volume.path), what="the first file")
        mount.lock()
        environment.cell("locked", os.strerror(13), shown(mount, ["complete"])["complete"])
        said = running.stderr.readline()
        environment.cell("waits", (True, None), ("locked" in said, running.poll()))
        environment.cell("both generations in the keybag", {0, 1}, kept(volume))
        unlock(mount)
        output, said = running.communicate()
    environment.cell("ends", (0, ""), (running.returncode, said))
    environment.cell("another recovery code", 2, last_code(environment, volume, output))
    environment.cell("generations", ([1], {1}), (generations(volume.path), kept(volume)))
    environment.cell("contents", contents, shown(mount, contents))
    mount.lock()
    mount.unlock()
    environment.cell("after a lock", contents, shown(mount, contents))
    mount.unmount()
    mount = environment.mount(volume)
    environment.cell("mounted again", contents, shown(mount, contents))


def test_used_meanwhile(environment):
    """Files are saved, appended to, moved, and directories moved, while it runs: all of it is there at the end."""
    volume = environment.volume()
    mount = environment.mount(volume)
    contents = fill(mount, 100_000)
    ends = threading.Event()
    expected = dict(contents)

    def use():
        number = 0
        while not ends.is_set():
            number += 1
            text = b"saved %d" % number
            write_file(mount / "saved.tmp", text)
            os.rename(mount / "saved.tmp", mount / "saved")
            expected["saved"] = text
            with open(mount / "log", "ab") as log:
                log.write(b"line\n")
            expected["log"] = expected.get("log", b"") + b"line\n"
            # Not at every turn: a look through the store must find a moment without a move of a directory.
            if number == 3:
                os.rename(mount / "a/b", mount / "moved")
                for name in [path for path in expected if path.startswith("a/b/")]:
                    expected[name.replace("a/b/", "moved/")] = expected.pop(name)
            # On a slow machine every look would find the log open, and the command gives up after five of those.
            ends.wait(0.05 if number < 40 else 1)

    user = threading.Thread(target=use)
    user.start()
    try:
        take_code(environment, volume, rotate(volume, "--rate", "2"))
    finally:
        ends.set()
        user.join()
    environment.cell("contents", expected, shown(mount, expected))
    environment.cell("generations", ([1], {1}), (generations(volume.path), kept(volume)))
    mount.unmount()
    mount = environment.mount(volume)
    environment.cell("mounted again", expected, shown(mount, expected))


def test_open_files(environment):
    """A file that a program has open keeps the former key, with or without a name, and the next run ends it."""
    volume = environment.volume()
    mount = environment.mount(volume)
    contents = fill(mount)
    harness.set_class(mount / "empty", "A")
    written = os.open(mount / "complete", os.O_RDWR)
    removed = os.open(mount / "a/complete", os.O_RDONLY)
    text = contents.pop("a/complete")
    os.unlink(mount / "a/complete")
    done = rotate(volume, ok=False)
    take_code(environment, volume, done)
    environment.cell("said", (FAILURE, True), (done.returncode, "former keys stay" in done.stderr))
    environment.cell("kept", {0, 1}, kept(volume))
    mount.lock()
    unlock(mount)
    os.pwrite(written, b"more", len(contents["complete"]))
    contents["complete"] += b"more"
    environment.cell("without a name", text, os.pread(removed, len(text) + 1, 0))
    os.close(written)
    os.close(removed)
    take_code(environment, volume, rotate(volume))
    environment.cell("generations", ([1], {1}), (generations(volume.path), kept(volume)))
    environment.cell("contents", contents, shown(mount, contents))


def test_killed(environment):
    """Command and daemon are killed at random moments: everything is readable each time, and the last run ends it."""
    volume = environment.volume()
    mount = environment.mount(volume)
    contents = fill(mount, 60_000)
    rounds = 100 if environment.mode == "full" else 4
    chance = random.Random(environment.mode)
    for number in range(rounds):
        with rotating(volume, "--rate", "1", "--accept-keybag") as running:
            with contextlib.suppress(subprocess.TimeoutExpired):
                running.wait(chance.uniform(0.05, 1.5))
            daemon = number % 2 == 1
            if daemon:
                mount.crash()
                running.communicate()
            else:
                running.send_signal(signal.SIGKILL)
                running.communicate()
        if daemon:
            mount = mount_accepting(environment, volume)
        environment.cell(f"{number}: contents", contents, shown(mount, contents))
        mount.lock()
        mount = unlock_or_accept(environment, mount)
        environment.cell(f"{number}: after a lock", contents, shown(mount, contents))
    done = rotate(volume)
    last_code(environment, volume, done.stdout)
    found = kept(volume)
    environment.cell("one generation", (1, sorted(found)), (len(found), generations(volume.path)))
    environment.cell("contents", contents, shown(mount, contents))
    mount.unmount()
    environment.cell("fsck", 0, protectfs("fsck", "--recovery-file", volume.code_file, volume.path,
                                          env=volume.environment, ok=False).returncode)


def test_refused(environment):
    """A mount that is locked, read-only or shared: nothing is changed, and the message says why."""
    volume = environment.volume()
    mount = environment.mount(volume)
    before = read_file(reader.keybag_file(volume))
    mount.lock()
    done = rotate(volume, ok=False)
    environment.cell("locked", (LOCKED, True), (done.returncode, "not unlocked" in done.stderr))
    mount.unmount()
    for options, word in ((("ro",), "read-only"), (("shared",), "shared")):
        mount = environment.mount(volume, options=options)
        done = rotate(volume, ok=False)
        environment.cell(word, (UNSUPPORTED, True), (done.returncode, word in done.stderr))
        mount.unmount()
    environment.cell("nothing was changed", True, before == read_file(reader.keybag_file(volume)))


def test_synced_before_keys_go(environment):
    """A file that came back after a power cut could not be read: so the store is synced before the keybag loses keys."""
    if not shutil.which("strace"):
        raise Skip("no strace")
    volume = environment.volume()
    mount = environment.mount(volume)
    fill(mount)
    log = environment.new_path("calls")
    harness.run("strace", "-f", "-y", "-o", log, "-e", "trace=syncfs,renameat,renameat2,rename", harness.binary(), "keys",
                "rotate", "--retire", "--passphrase-file", volume.passphrase_file, volume.path, env=volume.environment)
    with open(log, encoding="utf-8") as file:
        calls = [line for line in file if "= 0" in line and ("syncfs" in line or ".protectfs.keybag" in line)]
    keybag = [place for place, line in enumerate(calls) if "rename" in line]
    # One comes with the new keys, and the other one without the former ones.
    environment.cell("keybags", 2, len(keybag))
    environment.cell("synced between", True, any("syncfs" in line and f"<{volume.path}>" in line
                                                 for line in calls[keybag[0]:keybag[-1]]))
