"""Device keys that can be read only once: from a pipe, a FIFO, or standard input."""

import os
import threading

import harness
from terminal import at_terminal

WRONG, USAGE = 3, 2


def away(environment):
    """A volume whose device key is not in its usual place, and the key."""
    volume = environment.volume()
    directory = os.path.join(volume.data, "protectfs")
    name = next(name for name in os.listdir(directory) if name.endswith(".key"))
    key = environment.new_path("key")
    os.rename(os.path.join(directory, name), key)
    return volume, key


def shell(volume, script, *words):
    """Runs protectfs by a script of bash, as $0."""
    return harness.run("bash", "-c", script, harness.binary(), *words, env=volume.environment, ok=False)


def works(environment, name, done):
    environment.cell(name, (0, ""), (done.returncode, done.stderr))


def test_mount(environment):
    """The daemon keeps such a key, because an unlock needs it, too."""
    volume, key = away(environment)
    here = environment.new_path("point")
    os.mkdir(here, mode=0o500)
    fifo = environment.new_path("fifo")
    os.mkfifo(fifo)
    secret = ["--passphrase-file", volume.passphrase_file]
    for name, script in (
            ("a substituted process", '"$0" mount --device-key <(cat "$1") "${@:3}"'),
            ("standard input, a pipe", 'cat "$1" | "$0" mount --device-key /dev/stdin "${@:3}"'),
            ("standard input, a file", '"$0" mount --device-key /dev/stdin "${@:3}" <"$1"'),
            ("a descriptor", '"$0" mount --device-key /proc/self/fd/9 "${@:3}" 9<"$1"'),
            ("a FIFO", '(sleep 0.5; cat "$1" >"$2") & "$0" mount --device-key "$2" "${@:3}"'),
            ("the key in parts", '(head -c 10 "$1"; sleep 0.5; tail -c 22 "$1") | "$0" mount --device-key /dev/stdin "${@:3}"')):
        works(environment, name, shell(volume, script, key, fifo, *secret, volume.path, here))
        for number in range(2):
            harness.protectfs("lock", here, env=volume.environment)
            works(environment, f"{name}: unlock {number}",
                  harness.protectfs("unlock", *secret, here, env=volume.environment, ok=False))
        harness.protectfs("unmount", here, env=volume.environment)
    done = shell(volume, '"$0" mount --no-unlock --device-key <(cat "$1") "$2" "$3"', key, volume.path, here)
    works(environment, "without unlocking", done)
    works(environment, "its first unlock", harness.protectfs("unlock", *secret, here, env=volume.environment, ok=False))
    harness.protectfs("unmount", here, env=volume.environment)
    # In the foreground.
    done = shell(volume, '"$0" mount -f --device-key <(cat "$1") --passphrase-file "$2" "$3" "$4" & '
                 'for round in $(seq 100); do "$0" wait --unlocked --timeout 1 "$4" 2>/dev/null && break; sleep 0.1; done; '
                 '"$0" lock "$4"; "$0" unlock --passphrase-file "$2" "$4" && "$0" unmount "$4"; code=$?; wait; exit $code',
                 key, volume.passphrase_file, volume.path, here)
    environment.cell("in the foreground", 0, done.returncode)
    # A typed passphrase may be wrong once; the key is not read again.
    answers = [("Passphrase of", "wrong\n"), ("Passphrase of", harness.PASSPHRASE + "\n")]
    code, shown, _ = at_terminal(["-c", '"$0" mount --device-key <(cat "$1") "$2" "$3"', harness.binary(), key, volume.path, here],
                                 volume.environment, answers, program="/bin/bash")
    environment.cell("typed, at the second attempt", (0, 1), (code, shown.count("wrong passphrase")))
    harness.protectfs("unmount", here, env=volume.environment)


def test_other_commands(environment):
    volume, key = away(environment)
    secret = ["--passphrase-file", volume.passphrase_file]
    copy = environment.new_path("copy")
    for words in (["fsck", *secret, volume.path], ["fsck", "--no-unlock", volume.path], ["info", volume.path],
                  ["inspect", "--no-unlock", volume.path], ["inspect", *secret, volume.path],
                  ["keybag", "export", volume.path, copy],
                  ["slot", "add", *secret, "--new-passphrase-file", volume.passphrase_file, volume.path],
                  ["slot", "add", "--recovery", *secret, volume.path]):
        done = shell(volume, '"$0" "${@:2}" --device-key <(cat "$1")', key, *words)
        label = " ".join(word for word in words if word[0] != "/")
        environment.cell(label, 0, done.returncode if done.returncode else 0 if not done.stderr else done.stderr)
    done = shell(volume, '"$0" info --json --device-key <(cat "$1") "$2"', key, volume.path)
    environment.cell("info has used it", True, '"keybagAuthentic":true' in done.stdout)


def test_refused(environment):
    """What is not exactly a key is refused, and nothing waits for more."""
    volume, key = away(environment)
    secret = ["--passphrase-file", volume.passphrase_file]
    for name, script in (("too short", 'head -c 31 "$1"'), ("too long", 'cat "$1"; echo'), ("empty", "true"),
                         ("endless", "cat /dev/zero")):
        done = shell(volume, f'"$0" fsck --device-key <({script}) "${{@:2}}"', key, *secret, volume.path)
        environment.cell(name, (8, True), (done.returncode, "exactly 32 bytes" in done.stderr))
    done = harness.protectfs("info", "--device-key", "/dev/zero", volume.path, env=volume.environment, ok=False)
    environment.cell("a device", (WRONG, True), (done.returncode, "exactly 32 bytes" in done.stderr))
    done = shell(volume, '"$0" info --device-key <(head -c 32 /dev/urandom) "$1"', volume.path)
    environment.cell("another key", True, done.returncode in (3, 4))
    code, shown, _ = at_terminal(["info", "--device-key", "/dev/tty", volume.path], volume.environment, [])
    environment.cell("a terminal", (USAGE, True), (code, "is a terminal" in shown))
    for name, path in (("a directory", volume.data), ("missing", volume.data + "/missing")):
        done = harness.protectfs("info", "--device-key", path, volume.path, env=volume.environment, ok=False)
        environment.cell(name, WRONG, done.returncode)
    # ^C ends a command that waits for a FIFO.
    fifo = environment.new_path("fifo")
    os.mkfifo(fifo)
    waiting = []
    thread = threading.Thread(target=lambda: waiting.append(
        harness.run("timeout", "-s", "INT", "1", harness.binary(), "info", "--device-key", fifo, volume.path,
                    env=volume.environment, ok=False).returncode))
    thread.start()
    thread.join(20)
    environment.cell("a FIFO without a writer", [124], waiting)
