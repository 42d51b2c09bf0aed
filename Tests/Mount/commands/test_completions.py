"""Completions, in the real shells: values, words of -o, mount points, and names that need quoting."""

import json
import os
import shutil

import harness
from harness import CLASSES
from shells import Shell

SHELLS = ("bash", "zsh", "fish")
NAMES = ("with a space", "it's \"quoted\"", "two\nlines", "$HOME `x` \\040 #")
CLASS_NAMES = list(CLASSES.values())


def shells(environment, directory=None, home=None):
    """The shells that are installed."""
    home = home or environment.new_path("home")
    os.makedirs(home, exist_ok=True)
    for name in SHELLS:
        if not shutil.which(name):
            environment.skip(name, f"{name} is not installed")
            continue
        shell = Shell(name, environment.new_path("shell"), directory or home, home)
        yield shell
        shell.close()


def last_parts(words):
    """Only what follows the last = of a word: bash inserts all completions behind the first one's."""
    return sorted(word.rpartition("=")[2] for word in words)


def test_options(environment):
    """Each command's options."""
    table = json.loads(harness.protectfs("help", "--json").stdout)
    commands = [command for group in table["groups"] for command in group["commands"]]
    for shell in shells(environment):
        for command in commands:
            found = {word.rstrip("=") for word in shell.complete(f"protectfs {command['name']} --")}
            environment.cell(f"{shell.name}: {command['name']}", {f"--{option['name']}" for option in command["options"]}, found)


def test_values(environment):
    """Words that an option or operand can have."""
    ciphers = ["aes-256-gcm", "xchacha20-poly1305"]
    for shell in shells(environment):
        for line, wanted in (
                ("protectfs init --cipher ", ciphers), ("protectfs init --cipher=", ciphers), ("protectfs init --cipher=a", ciphers[:1]),
                ("protectfs secret set --class ", CLASS_NAMES), ("protectfs class ", ["get", "set", "list"]),
                ("protectfs recovery ", ["use"]), ("protectfs help slot ", ["add", "remove", "list", "test"]),
                ("protectfs help cred", ["credentials"]), ("protectfs help mount-", ["mount-options"]),
                ("protectfs mount -o default_class=", CLASS_NAMES), ("protectfs mount -o ro,default_class=n", ["none"])):
            environment.cell(f"{shell.name}: {line}", sorted(wanted), last_parts(shell.complete(line)))
        found = shell.complete("protectfs class set ")
        environment.cell(f"{shell.name}: class set", True, {*CLASS_NAMES, "inherit"} <= set(found))
        environment.cell(f"{shell.name}: commands", True, {"init", "mount", "class", "unlock"} <= set(shell.complete("protectfs ")))
        found = set(shell.complete("protectfs fsck --re"))
        environment.cell(f"{shell.name}: options", {"--repair", "--resume", "--recovery-file", "--recipient-key", "--read-only"},
                         {word.rstrip("=") for word in found})


def test_mount_options(environment):
    """The words of -o, also behind a comma."""
    for shell in shells(environment):
        found = {word.rpartition(",")[2].rstrip("=") for word in shell.complete("protectfs mount -o ")}
        environment.cell(f"{shell.name}: first", True, {"ro", "allow_other", "idle", "noatime", "nodev"} <= found)
        for line in ("protectfs mount -o ro,allow_", "protectfs mount -o nodev,ro,allow_"):
            found = {word.rpartition(",")[2] for word in shell.complete(line)}
            environment.cell(f"{shell.name}: {line}", {"allow_other", "allow_dev", "allow_suid"}, found)
        found = {word.rpartition(",")[2].rstrip("=") for word in shell.complete("protectfs mount -o ro,")}
        environment.cell(f"{shell.name}: behind a comma", True, {"shared", "strict", "idle"} <= found)
        if shell.name != "fish":
            environment.cell(f"{shell.name}: none twice", False, "ro" in found)


def test_files(environment):
    """Files and directories, with names that need quoting."""
    place = environment.new_path("files")
    os.mkdir(place)
    for name in NAMES:
        os.mkdir(os.path.join(place, "d" + name))
        harness.write_file(os.path.join(place, "f" + name), b"")
    for shell in shells(environment, place):
        for name in NAMES[:3]:
            if shell.name == "fish" and "\n" in name:
                # fish offers them, but its list has one name a line.
                continue
            # The first letters, unquoted.
            for line, kind in (("protectfs init ", "d"), ("protectfs init --device-key ", "f"), ("protectfs mount --passphrase-file=", "f"),
                               ("protectfs class set none ", "f"), ("protectfs erase ", "d")):
                found = shell.complete(line + kind + name[:2])
                last = [word.partition("=")[2] if "=" in word else word for word in found]
                environment.cell(f"{shell.name}: {line}{kind}{name[:2]}", [kind + name], [word.rstrip("/ ") if kind == "d" else word for word in last])
        found = [word.rstrip("/") for word in shell.complete("protectfs info ")]
        environment.cell(f"{shell.name}: no files for a volume", False, any(word.startswith("f") for word in found))


def test_mount_points(environment):
    """Where a mount point is wanted, only mounted volumes of protectfs are offered."""
    home = environment.new_path("home")
    os.makedirs(os.path.join(home, "no mount"))
    mounts = {name: environment.mount(unlock=False, path=os.path.join(home, name)).path for name in NAMES}
    for shell in shells(environment, directory=home, home=home):
        for command in ("lock", "unlock", "status", "unmount", "watch", "secret list"):
            found = {word.rstrip("/") for word in shell.complete(f"protectfs {command} {home}/")}
            environment.cell(f"{shell.name}: {command}", set(mounts.values()), found)
        found = {word.rstrip("/") for word in shell.complete("protectfs lock ")}
        environment.cell(f"{shell.name}: nothing typed", True, set(mounts.values()) <= found and "no mount" not in found)
        for typed, name in ((f"{home}/with\\ a", NAMES[0]), (f"'{home}/with a", NAMES[0]), (f'"{home}/with a', NAMES[0]),
                            (f"{home}/it\\'s", NAMES[1]), (f'"{home}/it\'s', NAMES[1]), (f"{home}/tw", NAMES[2])):
            found = [word.rstrip("/") for word in shell.complete(f"protectfs lock --grace 0 {typed}")]
            environment.cell(f"{shell.name}: {typed}", [mounts[name]], found)
        for typed, shown in (("~/wi", (mounts[NAMES[0]],)), ("wi", (NAMES[0], mounts[NAMES[0]]))):
            found = [word.rstrip("/") for word in shell.complete(f"protectfs lock {typed}")]
            environment.cell(f"{shell.name}: {typed}", True, len(found) == 1 and found[0] in shown)
