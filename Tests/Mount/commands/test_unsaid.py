"""Standard output that cannot be written: the command still reports its result, and no recovery code is lost."""

import json
import os

import harness
import reader
from harness import binary

FAILED, UNSAID = 1, 11
SINKS = ("full", "closed", "broken pipe")
# A file of a file system with this much free space takes a part of what is written, and then nothing.
LITTLE = 40


def into(sink, volume, *words):
    """Runs a command whose standard output takes nothing, or is the file at `sink`: its exit code and what it says as errors."""
    said, saying = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
            os.dup2(saying, 2)
            if sink == "closed":
                os.close(1)
            elif sink == "full":
                os.dup2(os.open("/dev/full", os.O_WRONLY), 1)
            elif sink == "read-only":
                os.dup2(os.open("/dev/null", os.O_RDONLY), 1)
            elif sink.startswith("/"):
                os.dup2(os.open(sink, os.O_WRONLY | os.O_APPEND), 1)
            else:
                reading, writing = os.pipe()
                os.dup2(writing, 1)
                os.close(reading)
            os.closerange(3, 4096)
            os.execve(binary(), [binary(), *map(str, words)], volume.environment)
        finally:
            os._exit(127)
    os.close(saying)
    with open(said, "rb") as stream:
        text = stream.read().decode()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), text


def slots(volume):
    return json.loads(harness.protectfs("slot", "list", "--json", volume.path, env=volume.environment).stdout)


def numbers(volume):
    return [slot["slot"] for slot in slots(volume) if slot["kind"] == "passphrase"]


def keybag(volume):
    return harness.read_file(reader.keybag_file(volume))


def test_recovery_new(environment):
    for sink in SINKS:
        for json_words in ([], ["--json"]):
            volume = environment.volume()
            before = keybag(volume)
            code, said = into(sink, volume, "slot", "add", "--recovery", *json_words, "--recovery-file", volume.code_file, volume.path)
            label = " ".join([sink, *json_words])
            environment.cell(f"{label}: refused", (FAILED, True), (code, "standard output" in said))
            environment.cell(f"{label}: the old code is the one", True, before == keybag(volume))
            if not json_words and sink != "closed":
                environment.cell(f"{label}: says so", True, "the old one still works" in said)


def test_recovery_new_that_fails(environment):
    """The code was shown, and the keybag cannot be replaced."""
    if os.geteuid() != 0:
        raise harness.Skip("making a directory immutable needs root")
    volume = environment.volume()
    if os.system(f"chattr +i {volume.path} 2>/dev/null") != 0:
        raise harness.Skip("no immutable directories here")
    try:
        done = harness.protectfs("slot", "add", "--recovery", "--recovery-file", volume.code_file, volume.path,
                                 env=volume.environment, ok=False)
    finally:
        os.system(f"chattr -i {volume.path}")
    environment.cell("fails, and says which code is valid", (FAILED, True, True), (
        done.returncode, "New recovery code" in done.stdout, "is not valid; the old one still works" in done.stderr))
    environment.cell("it does not say that it is valid", False, "from now on" in done.stdout)
    environment.mount(volume)


def test_recovery_new_that_works(environment):
    volume = environment.volume()
    done = harness.protectfs("slot", "add", "--recovery", "--recovery-file", volume.code_file, volume.path, env=volume.environment)
    code = next(line.strip() for line in done.stdout.splitlines() if line.startswith("    "))
    environment.cell("says that it is valid", True, done.stdout.rstrip().endswith("the old one no longer works."))
    harness.write_file(volume.code_file, code.encode() + b"\n", os.O_TRUNC)
    environment.mount(volume)


def test_init(environment):
    secret = environment.volume().passphrase_file
    for sink in (*SINKS, "read-only"):
        for json_words in ([], ["--json"]):
            init_into(environment, sink, secret, *json_words)


def init_into(environment, sink, secret, *json_words):
    place, data = environment.new_path("new"), environment.new_path("data")
    volume = harness.Volume(place, data, None, secret)
    words = ["--cipher", "xchacha20-poly1305", "--passphrase-file", secret]
    code, said = into(sink, volume, "init", *json_words, *words, place)
    label = " ".join([os.path.basename(sink), *json_words])
    message = "nothing was changed" if sink in ("closed", "read-only") else "no volume was made"
    environment.cell(f"{label}: refused", (FAILED, True), (code, message in said))
    keys = os.listdir(data + "/protectfs") if os.path.exists(data + "/protectfs") else []
    environment.cell(f"{label}: nothing was made", (False, []), (os.path.exists(place), keys))


def test_full_disk(environment):
    """Standard output is a file that can grow by a few bytes only: a part of the code is shown, and it is not valid."""
    if os.geteuid() != 0:
        raise harness.Skip("mounting a small file system needs root")
    place = environment.new_path("small")
    os.makedirs(place)
    harness.run("mount", "-t", "tmpfs", "-o", "size=64k", "small", place)
    try:
        target = os.path.join(place, "target")
        size = os.statvfs(place).f_bavail * os.statvfs(place).f_bsize - LITTLE
        secret = environment.volume().passphrase_file
        for json_words in ([], ["--json"]):
            harness.write_file(target, bytes(size), os.O_TRUNC)
            init_into(environment, target, secret, *json_words)
            environment.cell("a part was shown", True, size < os.path.getsize(target) <= size + LITTLE)
            volume = environment.volume()
            before = keybag(volume)
            harness.write_file(target, bytes(size), os.O_TRUNC)
            code, said = into(target, volume, "slot", "add", "--recovery", *json_words, "--recovery-file", volume.code_file, volume.path)
            environment.cell("slot add --recovery: the old code is the one", (FAILED, True, True), (
                code, "the old one still works" in said, before == keybag(volume)))
    finally:
        harness.run("umount", place)


def test_passphrases(environment):
    volume = environment.volume()
    credential = ["--recovery-file", volume.code_file]
    new = ["--new-passphrase-file", volume.passphrase_file]
    code, said = into("closed", volume, "slot", "add", *credential, *new, volume.path)
    environment.cell("add", (UNSAID, True, 2), (code, "the passphrase is added" in said, len(numbers(volume))))
    code, said = into("full", volume, "slot", "add", *credential, *new, volume.path)
    environment.cell("add, full", (UNSAID, True, 3), (code, "the passphrase is added" in said, len(numbers(volume))))
    for sink, slot in zip(("full", "broken pipe"), numbers(volume)[1:]):
        code, said = into(sink, volume, "slot", "remove", *credential, "--slot", slot, volume.path)
        environment.cell(f"remove, {sink}", (UNSAID, True, False), (
            code, "the slot is removed" in said, slot in numbers(volume)))
    before = keybag(volume)
    code, said = into("broken pipe", volume, "passphrase", "change", *credential, *new, volume.path)
    environment.cell("change", (UNSAID, True, False), (
        code, "the passphrase is changed" in said, before == keybag(volume)))
    for sink, words in (("closed", []), ("full", ["--json"])):
        before = keybag(volume)
        code, said = into(sink, volume, "recovery", "use", *words, *credential, *new, volume.path)
        environment.cell(f"recovery use, {sink}", (UNSAID, True, True, False), (
            code, "the new passphrase is set" in said, ".key" in said, before == keybag(volume)))
    environment.mount(volume)


def test_erase(environment):
    for sink in SINKS:
        for json_words in ([], ["--json"]):
            volume = environment.volume()
            code, said = into(sink, volume, "erase", "--yes", *json_words, volume.path)
            environment.cell(" ".join([sink, *json_words]), (UNSAID, True, False), (
                code, ".protectfs.keybag destroyed" in said, os.path.exists(reader.keybag_file(volume))))


def test_lock(environment):
    mount = environment.mount()
    harness.write_file(mount / "a", b"secret")
    harness.set_class(mount / "a", "A")
    for sink in SINKS:
        for json_words in ([], ["--json"]):
            with open(mount / "a", "rb") as file:
                file.read(1)
                code, said = into(sink, mount.volume, "lock", *json_words, mount.path)
                environment.cell(" ".join([sink, *json_words]), (UNSAID, True, "locked"), (
                    code, f"{mount.path} is locked" in said, mount.state()))
            mount.unlock()


def test_what_says_nothing(environment):
    """Commands that change something and have nothing to say need no standard output."""
    mount = environment.mount()
    harness.write_file(mount / "file", b"secret")
    # Else there would be something to say: a default that is weaker than the file.
    mount.command("class", "set", "complete", mount.path)
    for sink in SINKS:
        for words in (["class", "set", "complete", mount / "file"],
                      ["secret", "set", "--file", mount / "file", "-a", f"service={sink}", mount.path, "me"],
                      ["secret", "delete", "-a", f"service={sink}", mount.path, "me"]):
            environment.cell(f"{sink}: {' '.join(words[:2])}", (0, ""), into(sink, mount.volume, *words))


def test_fsck_repair(environment):
    """The repair goes on where nobody listens, and its exit code says that not all was told."""
    for sink in SINKS:
        for json_words in ([], ["--json"]):
            mount = environment.mount()
            for number in range(3):
                os.mkdir(mount / f"directory {number}")
                harness.write_file(mount / f"directory {number}/file", b"content")
            mount.unmount()
            volume = mount.volume
            for directory, _, names in list(os.walk(volume.path))[1:]:
                if ".protectfs.dir" in names:
                    os.unlink(os.path.join(directory, ".protectfs.dir"))
            words = ["--recovery-file", volume.code_file, volume.path]
            code, said = into(sink, volume, "fsck", "--repair", *json_words, *words)
            label = " ".join([sink, *json_words])
            environment.cell(f"{label}: repaired, and not said", (9, True), (code, "3 repaired" in said))
            done = harness.protectfs("fsck", *words, env=volume.environment, ok=False)
            environment.cell(f"{label}: all of it", 0, done.returncode)
