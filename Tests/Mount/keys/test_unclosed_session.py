"""An unmount that could not close its session in the state file says so, with an exit code, and in the daemon's log."""

import contextlib
import os

import harness
import states
from foreground import Foreground
from harness import protectfs, read_file, write_file
from state_refusals import fill, read_only, seen, small_directory

FAILURE = 1


def writable(place):
    harness.run("mount", "-o", "remount,rw", place)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(os.path.join(place, "ballast"))


def test_unmount_says_so(environment):
    for name, spoil, reason in (("full", fill, ""), ("read-only", read_only, "Read-only file system")):
        volume = seen(environment)
        with small_directory(volume) as place:
            mount = Foreground(environment, volume, "--recovery-file", volume.code_file)
            mount.wait()
            write_file(mount / "new", b"new")
            spoil(place)
            done = mount.command("unmount", mount.path, ok=False)
            mount.process.wait(harness.PATIENCE)
            file = states.path(volume)
            environment.cell(f"{name}: the command", (FAILURE, []),
                             (done.returncode, [word for word in ("unmounted, but", file, reason, "reads as after a crash", "fsck")
                                                if word not in done.stderr] and done.stderr))
            environment.cell(f"{name}: the log", (True, True),
                             ("the session could not be closed" in mount.said(), file in mount.said()))
            environment.cell(f"{name}: it is unmounted", False, mount.is_mounted)
            environment.cell(f"{name}: the epoch is open", 1, len(states.open_epochs(states.read(file))))
            writable(place)
            again = environment.mount(volume)
            environment.cell(f"{name}: what was written", b"new", read_file(again / "new"))
            again.unmount()
            environment.cell(f"{name}: a check closes it", (0, []), (
                protectfs("fsck", "--recovery-file", volume.code_file, volume.path, env=volume.environment, ok=False).returncode,
                states.open_epochs(states.read(file))))


def test_a_sound_unmount_says_nothing(environment):
    volume = seen(environment)
    mount = environment.mount(volume)
    write_file(mount / "new", b"new")
    done = mount.command("unmount", mount.path)
    environment.cell("nothing", "", done.stderr)
    mount = environment.mount(volume, options=["ro"])
    environment.cell("read-only", "", mount.command("unmount", mount.path).stderr)


def spoiled_places(environment, volume):
    """What can be wrong with the directory of state files: name -> how it is made, and words of the message."""
    place = states.directory(volume)

    def moved(make):
        def act():
            os.rename(place, place + ".real")
            make()
        return act

    def back():
        if os.path.islink(place) or os.path.isfile(place):
            os.unlink(place)
        elif os.path.isdir(place):
            os.rmdir(place)
        os.rename(place + ".real", place)

    return {
        "a dangling link": (moved(lambda: os.symlink("nowhere", place)), back, ["cannot be used", "No such file"]),
        "a file": (moved(lambda: write_file(place, b"")), back, ["cannot be used", "Not a directory"]),
        "a link to itself": (moved(lambda: os.symlink("protectfs", place)), back, ["cannot be used", "symbolic links"]),
    }


def test_directory_that_cannot_be_used(environment):
    """It is never taken for a volume that was not seen before, and the message names it and not the volume."""
    volume = seen(environment)
    place = states.directory(volume)
    point = environment.new_path("mount")
    os.mkdir(point, mode=0o500)
    secret = ["--recovery-file", volume.code_file]
    new = ["--new-passphrase-file", volume.passphrase_file]
    for name, (spoil, back, words) in spoiled_places(environment, volume).items():
        spoil()
        for command in (["mount", *secret, volume.path, point], ["mount", "-o", "ro", *secret, volume.path, point],
                        ["fsck", *secret, volume.path], ["fsck", "-n", *secret, volume.path],
                        ["slot", "add", *secret, *new, volume.path], ["slot", "add", "--recovery", *secret, volume.path],
                        ["keybag", "export", volume.path, environment.new_path("copy")]):
            done = protectfs(*command, env=volume.environment, ok=False)
            environment.cell(f"{name}: {' '.join(command[:3])}", (8 if command[0] == "fsck" else FAILURE, []),
                             (done.returncode, [word for word in (place, *words) if word not in done.stderr] and done.stderr))
        done = protectfs("info", volume.path, env=volume.environment, ok=False)
        environment.cell(f"{name}: info", (FAILURE, True, True), (done.returncode, place in done.stderr, "Cipher" in done.stdout))
        back()
    environment.mount(volume).unmount()


def test_a_dangling_state_file(environment):
    """A link in the place of the state file is not followed, and is not taken for a missing one."""
    volume = seen(environment)
    file = states.path(volume)
    os.rename(file, file + ".real")
    os.symlink("nowhere", file)
    for words in (["mount", "--recovery-file", volume.code_file, volume.path, environment.new_path("none")], ["info", volume.path]):
        done = protectfs(*words, env=volume.environment, ok=False)
        environment.cell(words[0], (FAILURE, True), (done.returncode, file in done.stderr))


def test_read_only_and_full_directories(environment):
    """Each command on a volume whose state files cannot be written: the fault is the directory's."""
    volume = seen(environment)
    point = environment.new_path("mount")
    os.mkdir(point, mode=0o500)
    secret = ["--recovery-file", volume.code_file]
    with small_directory(volume) as place:
        for name, spoil, reason in (("full", fill, "No space left"), ("read-only", read_only, "Read-only file system")):
            spoil(place)
            for command in (["mount", *secret, volume.path, point], ["fsck", *secret, volume.path],
                            ["slot", "add", *secret, "--new-passphrase-file", volume.passphrase_file, volume.path]):
                done = protectfs(*command, env=volume.environment, ok=False)
                faults = [line for line in done.stderr.splitlines() if reason in line]
                environment.cell(f"{name}: {' '.join(command[:2])}", (True, True), (
                    done.returncode != 0 or command[0] == "fsck", done.returncode == 0 or any(place in line for line in faults)) if faults
                    or done.returncode == 0 else done.stderr)
            for command in (["info", volume.path], ["fsck", "-n", *secret, volume.path]):
                environment.cell(f"{name}: {command[0]} reads", 0, protectfs(*command, env=volume.environment, ok=False).returncode)
            writable(place)
    environment.mount(volume).unmount()
