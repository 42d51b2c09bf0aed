"""Whose keybag a machine believes: beside a change of the keys nothing is refused that is right."""

import contextlib
import fcntl
import os
import subprocess
import time

import harness
import reader
from harness import protectfs, read_file, write_file
from rotation import DAMAGED, fill, generations, rotate, shown, take_code


@contextlib.contextmanager
def changing(volume):
    """The lock that a command has while it changes the keybag."""
    path = reader.state_file(volume).removesuffix(".state") + ".keybag.lock"
    with open(path, "a", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def put(path, content):
    """In one step, as a command does."""
    write_file(path + ".new", content)
    os.rename(path + ".new", path)


def test_unlock_beside_a_change(environment):
    """A keybag of one moment and a state file of another are no exchanged keybag: they are read again."""
    volume = environment.volume()
    keybag, state = reader.keybag_file(volume), reader.state_file(volume)
    mount = environment.mount(volume)
    mount.unmount()
    before = read_file(keybag), read_file(state)
    take_code(environment, volume, rotate(volume))
    after = read_file(keybag), read_file(state)
    words = [harness.binary(), "slot", "test", "--passphrase-file", volume.passphrase_file, volume.path]
    for label, index in (("the old keybag is seen beside the new record", 0), ("the new keybag beside the old record", 1)):
        path = (keybag, state)[index]
        put(path, before[index])
        with changing(volume):
            with subprocess.Popen(words, env=volume.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  text=True) as running:
                time.sleep(1)
                environment.cell(f"{label}: waits", None, running.poll())
                put(path, after[index])
                said = running.communicate()[1]
        environment.cell(label, (0, ""), (running.returncode, said))
        # Without a command that changes it, it is refused.
        put(path, before[index])
        done = harness.run(*words, env=volume.environment, ok=False)
        environment.cell(f"{label}: stays so", (DAMAGED, True), (done.returncode, "--accept-keybag" in done.stderr))
        put(path, after[index])


def test_mount_beside_a_change(environment):
    """A mount that comes while a rotation has the volume waits for its end, and opens with the new keys."""
    volume = environment.volume()
    mount = environment.mount(volume)
    contents = fill(mount, 300_000)
    mount.unmount()
    words = ["keys", "rotate", "--rate", "1", "--passphrase-file", volume.passphrase_file, volume.path]
    with subprocess.Popen([harness.binary(), *words], env=volume.environment, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True) as running:
        harness.wait_until(lambda: 1 in generations(volume.path), what="the first file")
        path = environment.new_path("mount")
        os.makedirs(path)
        # More than the five seconds that a mount waits for others.
        begun = time.monotonic()
        done = protectfs("mount", "--passphrase-file", volume.passphrase_file, volume.path, path, env=volume.environment,
                         ok=False)
        waited = time.monotonic() - begun
        output, said = running.communicate()
    environment.cell("the rotation", (0, ""), (running.returncode, said))
    environment.cell("the mount", (0, ""), (done.returncode, done.stderr))
    environment.cell("it has waited", True, waited > 1)
    mount = harness.Mount(volume, path)
    environment.mounts.append(mount)
    take_code(environment, volume, subprocess.CompletedProcess([], 0, output, said))
    environment.cell("contents", contents, shown(mount, contents))
    write_file(mount / "new", b"written afterwards")
    mount.unmount()
    environment.cell("generations", [1], generations(volume.path))
