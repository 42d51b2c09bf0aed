"""Bad input: one clear line, the documented exit code, no change, no mount."""

import os
import signal

import harness
from refusals import (FAILURE, USAGE, AUTHENTICATION, VOLUME, UNSUPPORTED, BUSY, NOT_MOUNTED, MOUNT_POINT, point,
                      recovery, refused)


def test_mount_points(environment):
    volume = environment.volume()
    start = recovery(volume) + [volume.path]
    refused(environment, "mount point missing", MOUNT_POINT, start + [environment.base + "/none"], volume, mentions=["mkdir"])
    file = environment.new_path("file")
    harness.write_file(file, b"x")
    refused(environment, "mount point is a file", MOUNT_POINT, start + [file], volume, mentions=["not a directory"])
    full = point(environment)
    harness.write_file(full + "/x", b"x")
    refused(environment, "mount point not empty", MOUNT_POINT, start + [full], volume, mentions=["not empty"])
    refused(environment, "the volume as mount point", MOUNT_POINT, start + [volume.path], volume)
    inside = os.path.join(volume.path, "inside")
    os.mkdir(inside)
    refused(environment, "mount point inside the volume", MOUNT_POINT, start + [inside], volume)
    os.rmdir(inside)
    refused(environment, "volume inside its own mount", MOUNT_POINT, start + [os.path.dirname(volume.path)], volume)
    link = environment.new_path("link")
    os.symlink(point(environment), link)
    mount = environment.mount(volume, path=link)
    environment.cell("a link as mount point", 0, mount.result.returncode)
    harness.protectfs("unmount", link, env=volume.environment)


def test_volumes(environment):
    volume = environment.volume()
    here = point(environment)
    empty = point(environment)
    refused(environment, "no such volume", VOLUME, recovery(volume) + [environment.base + "/none", here])
    refused(environment, "not a volume", VOLUME, recovery(volume) + [empty, here], mentions=["not a protectfs volume"])
    file = environment.new_path("file")
    harness.write_file(file, b"x")
    refused(environment, "a file as volume", VOLUME, recovery(volume) + [file, here])
    keybag = os.path.join(volume.path, ".protectfs.keybag")
    with open(keybag, "rb") as source:
        good = source.read()

    def with_keybag(content):
        with open(keybag, "wb") as target:
            target.write(content)

    for share in (0, 1, 8, 64, 127, 128, len(good) // 2, len(good) - 1):
        with_keybag(good[:share])
        refused(environment, f"keybag of {share} bytes", VOLUME, recovery(volume) + [volume.path, here], volume)
    with_keybag(good[:8] + b"\x03\x00" + good[10:])
    refused(environment, "a newer version", UNSUPPORTED, recovery(volume) + [volume.path, here], volume, mentions=["newer"])
    with_keybag(good[:-1] + bytes([good[-1] ^ 1]))
    refused(environment, "a changed keybag", VOLUME, recovery(volume) + [volume.path, here], volume)
    with_keybag(good + b"x")
    refused(environment, "a keybag too long", VOLUME, recovery(volume) + [volume.path, here], volume)
    with_keybag(os.urandom(1 << 20))
    refused(environment, "a keybag of 1 MiB", VOLUME, recovery(volume) + [volume.path, here], volume)
    os.remove(keybag)
    os.mkfifo(keybag)
    refused(environment, "a FIFO as keybag", VOLUME, recovery(volume) + [volume.path, here])
    os.remove(keybag)
    with_keybag(good)
    for command in (["info"], ["slot", "list"], ["fsck", "--no-unlock"]):
        code = 8 if command[0] == "fsck" else VOLUME
        refused(environment, f"{command[0]} of no volume", code, command + [empty])


def test_passphrases(environment):
    volume = environment.volume()
    here = point(environment)
    start = ["mount", volume.path, here]

    def file(content):
        path = environment.new_path("secret")
        harness.write_file(path, content)
        return path

    refused(environment, "wrong passphrase", AUTHENTICATION, start + ["--passphrase-file", file(b"wrong\n")], volume,
            mentions=["wrong passphrase"])
    refused(environment, "empty passphrase file", AUTHENTICATION, start + ["--passphrase-file", file(b"")], volume,
            mentions=["empty"])
    refused(environment, "empty first line", AUTHENTICATION, start + ["--passphrase-file", file(b"\nsecret\n")], volume)
    refused(environment, "10 MiB passphrase file", AUTHENTICATION,
            start + ["--passphrase-file", file(b"x" * (10 << 20))], volume)
    refused(environment, "a line above 4 KiB", AUTHENTICATION, start + ["--passphrase-file", file(b"x" * 4097)], volume)
    refused(environment, "passphrase file missing", AUTHENTICATION, start + ["--passphrase-file", "/nonexistent"], volume)
    refused(environment, "passphrase file is a directory", AUTHENTICATION, start + ["--passphrase-file", "/"], volume)
    refused(environment, "endless passphrase file", AUTHENTICATION, start + ["--passphrase-file", "/dev/zero"], volume)
    refused(environment, "passphrase command fails", AUTHENTICATION, start + ["--passphrase-command", "exit 3"], volume)
    refused(environment, "passphrase command says nothing", AUTHENTICATION, start + ["--passphrase-command", "true"], volume)
    refused(environment, "passphrase command's line has no end", AUTHENTICATION,
            start + ["--passphrase-command", "tr '\\0' x </dev/zero"], volume)
    refused(environment, "passphrase command closes its output and goes on", AUTHENTICATION,
            start + ["--passphrase-command", "exec >&-; sleep 600"], volume)
    refused(environment, "recovery code with a slip", AUTHENTICATION,
            start + ["--recovery-file", file(b"AAAAA-AAAAA-AAAAA-AAAAA-AAAAA-AAAAA\n")], volume)
    refused(environment, "recovery code is none", AUTHENTICATION, start + ["--recovery-file", file(b"no code\n")], volume)
    refused(environment, "no terminal to ask on", AUTHENTICATION, ["mount", volume.path, here], volume)
    refused(environment, "two secrets", USAGE,
            start + ["--recovery-file", volume.code_file, "--passphrase-file", volume.passphrase_file], volume)
    refused(environment, "device key of 31 bytes", AUTHENTICATION,
            start + ["--no-unlock", "--device-key", file(b"x" * 31)], volume, mentions=["32 bytes"])
    refused(environment, "another device key", AUTHENTICATION,
            start + ["--no-unlock", "--device-key", file(b"x" * 32)], volume)
    elsewhere = {**volume.environment, "XDG_STATE_HOME": environment.new_path("data")}
    refused(environment, "passphrase without its device key", AUTHENTICATION,
            start + ["--passphrase-file", volume.passphrase_file], volume, variables=elsewhere, mentions=["device key"])


def test_command_lines(environment):
    volume = environment.volume()
    here = point(environment)
    lines = {
        "no command": [], "unknown command": ["frobnicate"], "unknown option": ["mount", "--frob", "a", "b"],
        "unknown letter": ["mount", "-Q", "a", "b"], "value missing": ["mount", "-o"], "operand missing": ["mount", "a"],
        "too many operands": ["mount", "a", "b", "c"], "empty operand": ["mount", "", "b"],
        "value for a flag": ["mount", "--foreground=1", "a", "b"], "half a command": ["class"],
        "no class": ["class", "set", "secret", "x"], "class without path": ["class", "get"],
        "wait without a state": ["wait", here], "bad number": ["lock", "--grace", "soon", here],
        "unknown cipher": ["init", "--cipher", "rot13", environment.base + "/new"],
        "control characters": ["mount", "a\nb", "--\x1b[31m"],
        "unknown mount option": recovery(volume) + ["-o", "frob", volume.path, here],
        "mount option without value": recovery(volume) + ["-o", "idle", volume.path, here],
        "idle is no duration": recovery(volume) + ["-o", "idle=soon", volume.path, here],
        "default class is none": recovery(volume) + ["-o", "default_class=secret", volume.path, here],
        "no unlock and a passphrase": ["inspect", "--no-unlock", "--passphrase-file", "x", volume.path],
        "inherit and a new key": ["class", "set", "--reencrypt", "inherit", here],
        "strict and recover": recovery(volume) + ["-o", "strict,recover", volume.path, here],
    }
    for name, words in lines.items():
        refused(environment, name, USAGE, words)
    meant = {
        "unmount": ["umount", here], "status": ["stauts"], "--passphrase-file": ["mount", "--password-file", "x", "a", "b"],
        "--grace": ["lock", "--grase", "3", here], "allow_other": ["mount", "-o", "allow-other", "a", "b"],
        "idle": ["mount", "-o", "idel=5m", "a", "b"],
    }
    for name, words in meant.items():
        refused(environment, f"near {name}", USAGE, words, mentions=[f"did you mean {name}?"])
    refused(environment, "nothing near", USAGE, ["frobnicate"], mentions=['"frobnicate"; see'])
    refused(environment, "volume and mount point exchanged", USAGE, ["mount", here, volume.path],
            mentions=[f"protectfs mount {volume.path} {here}"])
    refused(environment, "a volume as mount point", 7, ["lock", volume.path], mentions=["not mounted"])
    mount = environment.mount(volume)
    done = mount.command("status", volume.path, ok=False)
    environment.cell("the volume of a mount", (7, True), (done.returncode, f"mounted at {mount.path}" in done.stderr))
    mount.unmount()
    refused(environment, "bytes that are not UTF-8", USAGE, [b"mount".decode(), os.fsdecode(b"--\xff\xfe"), "x"])
    refused(environment, "fsck without a volume", 16, ["fsck"])
    refused(environment, "fsck with a passphrase for nothing", 16,
            ["fsck", "--no-unlock", "--passphrase-file", "x", volume.path], mentions=["cannot be used together"])
    assert not os.path.exists(environment.base + "/new")


def test_init_refuses(environment):
    secret = environment.volume().passphrase_file
    full = point(environment)
    harness.write_file(full + "/x", b"x")
    refused(environment, "init in a full directory", USAGE, ["init", "--passphrase-file", secret, full], mentions=["not empty"])
    volume = environment.volume()
    refused(environment, "init over a volume", USAGE, ["init", "--passphrase-file", secret, volume.path], volume)
    deep = os.path.join(volume.path, "deep")
    os.mkdir(deep)
    for place in (volume.path + "/new", deep, deep + "/new/"):
        refused(environment, f"init in a volume: {place}", USAGE, ["init", "--passphrase-file", secret, place],
                mentions=[f"inside {volume.path}, which is"])
    os.rmdir(deep)
    mount = environment.mount()
    for place in (mount / "new", mount.path):
        done = harness.protectfs("init", "--passphrase-file", secret, place, ok=False)
        environment.cell(f"init in a mount: {place}", (USAGE, True), (done.returncode, f"mounted at {mount.path};" in done.stderr))
    environment.cell("nothing was made", [], os.listdir(mount.path))
    mount.unmount()
    new = environment.base + "/new"
    empty = environment.new_path("empty")
    harness.write_file(empty, b"")
    refused(environment, "init with an empty passphrase", AUTHENTICATION, ["init", "--passphrase-file", empty, new])
    assert not os.path.exists(new), "init left a directory behind"
    refused(environment, "device key inside the volume", USAGE,
            ["init", "--passphrase-file", secret, "--device-key", full + "/../" + os.path.basename(new) + "/key", new])
    assert not os.path.exists(new), "init left a directory behind"
    refused(environment, "device key in a directory to be made inside the volume", USAGE,
            ["init", "--passphrase-file", secret, "--device-key", new + "/sub/key", new])
    assert not os.path.exists(new), "init left a directory behind"
    for name, key in (("inside the volume", volume.path + "/key"), ("none", "none")):
        refused(environment, f"a new device key {name}", USAGE,
                ["recovery", "use", "--recovery-file", volume.code_file, "--device-key", key, volume.path], volume)
    taken = environment.new_path("key")
    harness.write_file(taken, b"precious")
    refused(environment, "device key exists", FAILURE, ["init", "--passphrase-file", secret, "--device-key", taken, new])
    assert harness.read_file(taken) == b"precious" and not os.path.exists(new)


def test_names_of_mount_points(environment):
    volume = environment.volume()
    strange = environment.new_path("tab\tnewline\n\\,")
    mount = environment.mount(volume, path=strange)
    harness.write_file(mount / "x", b"x")
    harness.set_class(mount / "x", "A")
    mount.unmount()
    place = environment.new_path("latin") + "\udce9"
    os.mkdir(place)
    refused(environment, "a mount point that is not UTF-8", USAGE, recovery(volume) + [volume.path, place], volume)
    refused(environment, "a volume that is not UTF-8", USAGE,
            ["init", "--passphrase-file", volume.passphrase_file, place + "\udce9"])
    assert not os.path.exists(place + "\udce9")


def test_mounted_twice(environment):
    mount = environment.mount()
    other = point(environment)
    words = recovery(mount.volume) + [mount.volume.path]
    for name, place in (("a second mount", other), ("over its own mount", mount.path)):
        done = mount.command(*words, place, ok=False)
        environment.cell(name, (BUSY, 1), (done.returncode, len(done.stderr.strip().split("\n"))))
    done = mount.command("fsck", "--recovery-file", mount.volume.code_file, mount.volume.path, ok=False)
    environment.cell("fsck of a mounted volume", 8, done.returncode)
    with open(mount / "open", "w", encoding="ascii"):
        done = mount.command("unmount", mount.path, ok=False)
        environment.cell("unmount while in use", BUSY, done.returncode)
    environment.cell("still mounted", True, mount.is_mounted)


def test_not_mounted(environment):
    here = point(environment)
    for command in ("lock", "unlock", "unmount", "status", "watch"):
        refused(environment, f"{command} of nothing", NOT_MOUNTED, [command, here])
    refused(environment, "wait for nothing", NOT_MOUNTED, ["wait", "--locked", here])
    refused(environment, "class get elsewhere", NOT_MOUNTED, ["class", "get", here])


def test_dead_daemon(environment):
    mount = environment.mount()
    os.kill(mount.pid, signal.SIGKILL)
    harness.wait_until(lambda: harness.outcome(os.statvfs, mount.path) == "ENOTCONN", what="ENOTCONN")
    for command in ("lock", "status"):
        done = mount.command(command, mount.path, ok=False)
        environment.cell(f"{command} of a dead mount", (NOT_MOUNTED, True), (done.returncode, "has died" in done.stderr))
    done = mount.command(*recovery(mount.volume), mount.volume.path, mount.path, ok=False)
    environment.cell("mounting over a dead mount", (MOUNT_POINT, True), (done.returncode, "has died" in done.stderr))
    mount.unmount()
    environment.cell("unmount cleans it", False, mount.is_mounted)
    environment.cell("the mount point is still not writable", 0, os.stat(mount.path).st_mode & 0o222)
    again = environment.mount(mount.volume, path=mount.path)
    assert again.is_mounted


def test_old_keybag(environment):
    volume = environment.volume()
    here = point(environment)
    keybag = os.path.join(volume.path, ".protectfs.keybag")
    with open(keybag, "rb") as file:
        old = file.read()
    harness.protectfs("slot", "add", "--recovery", "--json", "--recovery-file", volume.code_file, volume.path, env=volume.environment)
    with open(keybag, "wb") as file:
        file.write(old)
    refused(environment, "a keybag rolled back", VOLUME, recovery(volume) + [volume.path, here], volume,
            mentions=["--accept-keybag"])
    done = harness.protectfs(*recovery(volume), "--accept-keybag", volume.path, here, env=volume.environment)
    environment.cell("accepted when told to", 0, done.returncode)
    harness.protectfs("unmount", here, env=volume.environment)


def test_keybag_from_a_pipe(environment):
    """A copy of the keybag that another program still decrypts is waited for."""
    volume = environment.volume()
    copy = environment.new_path("keybag")
    harness.protectfs("keybag", "export", volume.path, copy, env=volume.environment)
    words = f"'{harness.binary()}' keybag import --recovery-file '{volume.code_file}' '{volume.path}' <(sleep 1; cat '{copy}')"
    done = harness.run("bash", "-c", words, env=volume.environment, ok=False)
    environment.cell("import", 0, done.returncode)


def test_no_table_of_mounts(environment):
    """A table of mounts that cannot be read is not an empty one."""
    if os.geteuid() != 0:
        raise harness.Skip("needs root")
    words = f"mount --bind /proc/$$/mem /proc/$$/mountinfo || exit 77; exec '{harness.binary()}' lock --all"
    done = harness.run("unshare", "--mount", "sh", "-c", words, ok=False)
    if done.returncode == 77 or "unshare:" in done.stderr:
        raise harness.Skip("nothing can be mounted over the table of mounts here")
    environment.cell("lock --all", FAILURE, done.returncode)
