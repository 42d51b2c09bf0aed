"""Every command as a person or a script uses it: output, --json, exit codes."""

import contextlib
import json
import os
import re
import select
import signal
import subprocess
import time

from harness import (PASSPHRASE, PATIENCE, Skip, Watch, abort_connection, binary, daemons, get_class, make_file, mount_table,
                     outcome, pattern, protectfs, read_file, run, set_class, wait_until, write_file)
from refusals import code_of

NAMES = ["complete", "completeUnlessOpen", "completeUntilFirstUserAuthentication", "none"]


def spawn(mount, *words):
    return subprocess.Popen([binary(), *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, env=mount.volume.environment, text=True)


def test_help_and_usage(environment):
    overview = protectfs("--help").stdout
    commands = re.findall(r"^  ([a-z]+(?: [a-z]+)?)  +\S", overview, re.MULTILINE)
    assert {"init", "mount", "lock", "unlock", "status", "watch", "wait", "unmount", "class get", "class set",
            "class list", "passphrase change", "slot add", "slot remove", "slot list", "recovery use", "fsck", "info", "speed", "erase"} <= set(commands), commands
    for command in commands:
        text = protectfs(*command.split(), "--help").stdout
        environment.cell(f"{command} --help", True, text.startswith(f"Usage: protectfs {command}"))
        usage = 16 if command == "fsck" else 2
        code_of(environment, f"{command} with an unknown option", usage, *command.split(), "--no-such-option")
    code_of(environment, "an unknown command", 2, "no-such-command")
    code_of(environment, "no volume", 2, "mount")
    code_of(environment, "a passphrase among the arguments", 2, "mount", "--passphrase=secret", "a", "b")


def closed_by_now(mount):
    """The daemon hears of a close after close(2) has returned."""
    wait_until(lambda: not any(mount.status()["openHandles"].values()), what="closed handles")


def test_status(environment):
    begun = time.time()
    mount = environment.mount()
    write_file(mount / "a", b"x")
    set_class(mount / "a", "A")
    write_file(mount / "d", b"x")
    set_class(mount / "d", "D")
    closed_by_now(mount)
    with open(mount / "a", "rb"), open(mount / "d", "rb"), open(mount / "d", "rb"):
        status = mount.status()
        assert status["state"] == "unlocked" and not status["readOnly"], status
        assert status["mountPoint"] == mount.path and status["volume"] == mount.volume.path, status
        assert status["openHandles"]["complete"] == 1 and status["openHandles"]["none"] == 2, status
        assert status["defaultClass"] == NAMES[2] and status["idleLimit"] is None, status
        assert status["pid"] == mount.pid and begun - 2 < status["since"] < time.time() + 2, status
        text = mount.command("status", mount.path).stdout
        for word in (mount.path, mount.volume.path, "unlocked since", NAMES[2], "1 complete"):
            assert word in text, text
    # Mounts of others may be among them, dead ones even.
    table = json.loads(mount.command("status", "--json", ok=False).stdout)
    assert mount.path in [entry["mountPoint"] for entry in table], table
    closed_by_now(mount)
    mount.lock()
    assert mount.status()["state"] == "locked"
    elsewhere = environment.new_path("plain")
    os.makedirs(elsewhere)
    code_of(environment, "not a mount", 7, "status", elsewhere)
    code_of(environment, "lock of what is no mount", 7, "lock", elsewhere)
    code_of(environment, "unmount of what is no mount", 7, "unmount", elsewhere)
    code_of(environment, "class of what is no mount", 7, "class", "get", elsewhere)


def test_lock_and_unlock(environment):
    mount = environment.mount(unlock=False)
    assert mount.state() == "before-first-unlock"
    # Locking what is locked, and unlocking what is unlocked, succeeds.
    mount.lock()
    assert mount.state() == "before-first-unlock"
    mount.unlock()
    mount.unlock()
    write_file(mount / "a", b"secret")
    set_class(mount / "a", "A")
    closed_by_now(mount)
    with open(mount / "a", "rb") as file:
        report = json.loads(mount.command("lock", "--json", mount.path).stdout)
        assert report["cutOff"] == 1 and report["state"] == "locked" and report["files"] == 0 and not report["wasLocked"], report
        assert outcome(file.read) == "EACCES"
        assert json.loads(mount.command("lock", "--json", mount.path).stdout)["wasLocked"]
        mount.command("unlock", "--passphrase-command", f"echo '{PASSPHRASE}'", mount.path)
        assert file.read() == b"secret"
        assert "1 open file" in mount.command("lock", mount.path).stdout
    # Any path that leads to the mount point names it.
    link = environment.new_path("link")
    os.symlink(mount.path, link)
    mount.command("unlock", "--recovery-file", mount.volume.code_file, link + "/")
    assert mount.state() == "unlocked"


def test_wait(environment):
    mount = environment.mount(unlock=False)
    started = time.monotonic()
    done = code_of(environment, "a timeout", 124, "wait", "--unlocked", "--timeout", "1", mount.path)
    assert time.monotonic() - started > 0.9, done
    code_of(environment, "no state named", 2, "wait", mount.path)
    mount.command("wait", "--locked", "--timeout", str(PATIENCE), mount.path)
    first = spawn(mount, "wait", "--first-unlock", mount.path)
    unlocked = spawn(mount, "wait", "--unlocked", mount.path)
    time.sleep(0.3)
    assert first.poll() is None and unlocked.poll() is None
    mount.unlock()
    assert first.wait(PATIENCE) == 0 and unlocked.wait(PATIENCE) == 0
    locked = spawn(mount, "wait", "--locked", mount.path)
    time.sleep(0.3)
    mount.lock()
    assert locked.wait(PATIENCE) == 0
    mount.command("wait", "--first-unlock", "--timeout", str(PATIENCE), mount.path)
    # The mount ends while somebody waits.
    ended = spawn(mount, "wait", "--unlocked", mount.path)
    time.sleep(0.3)
    mount.unmount()
    assert ended.wait(PATIENCE) == 7, ended.stderr.read()


def test_watch(environment):
    mount = environment.mount(unlock=False)
    watch = Watch(mount)
    assert watch.next() == {"state": "before-first-unlock"}
    mount.unlock()
    assert [watch.next()["event"] for _ in range(2)] == ["willUnlock", "firstUnlock"]
    mount.lock()
    events = [watch.next(), watch.next()]
    assert [event["event"] for event in events] == ["willLock", "locked"] and events[0]["grace"] > 0, events
    mount.unlock()
    assert [watch.next()["event"] for _ in range(2)] == ["willUnlock", "unlocked"]
    text = spawn(mount, "watch", mount.path)
    assert "unlocked" in text.stdout.readline()
    mount.lock()
    assert "will lock" in text.stdout.readline()
    mount.unmount()
    # Both end with the mount.
    assert text.wait(PATIENCE) == 0
    assert watch.process.wait(PATIENCE) == 0
    watch.close()


def test_mount_options(environment):
    mount = environment.mount(options=("default_class=complete,noatime", "nodev"))
    write_file(mount / "file", b"content")
    assert get_class(mount / "file") == "complete"
    assert mount.status()["defaultClass"] == "complete"
    with open("/proc/self/mountinfo", encoding="utf-8") as table:
        line = next(line for line in table if f" {mount.path} " in line)
    assert " - fuse.protectfs " in line and f" {mount.volume.path} " in line, line
    for word in ("noatime", "nodev", "nosuid"):
        assert word in line, line
    read_only = environment.remount(mount, options=("ro",))
    assert read_file(read_only / "file") == b"content"
    environment.cell("write to ro", "EROFS", outcome(write_file, read_only / "new", b"x"))
    environment.cell("unlink from ro", "EROFS", outcome(os.unlink, read_only / "file"))
    environment.cell("class in ro", "EROFS", outcome(set_class, read_only / "file", "A"))
    assert read_only.status()["readOnly"]
    for option in ("default_class=secret", "idle=soon", "no_such_option", "default_class"):
        code_of(environment, f"-o {option}", 2, "mount", "-o", option, "--no-unlock", mount.volume.path,
                environment.base, env=mount.volume.environment)


def test_one_mount_at_a_time(environment):
    mount = environment.mount()
    second = environment.mount(mount.volume, ok=False)
    assert second.result.returncode == 6 and mount.path in second.result.stderr, second.result.stderr
    reader = environment.mount(mount.volume, options=("ro",), ok=False)
    assert reader.result.returncode == 6, reader.result.stderr
    mount.unmount()
    # Readers only: any number.
    one = environment.mount(mount.volume, options=("ro",))
    two = environment.mount(mount.volume, options=("ro",))
    assert one.state() == two.state() == "unlocked"
    one.lock()
    assert (one.state(), two.state()) == ("locked", "unlocked")
    assert environment.mount(mount.volume, ok=False).result.returncode == 6
    one.unmount()
    two.unmount()
    # And writers that say that they share it.
    three = environment.mount(mount.volume, options=("shared",))
    four = environment.mount(mount.volume, options=("shared",))
    write_file(three / "file", b"from one")
    wait_until(lambda: os.path.exists(four / "file"), what="the other mount's file")
    assert read_file(four / "file") == b"from one"


def unlocked(mount, action):
    """What an action gives on the unlocked mount, however often it is idle before: this process may be held up."""
    while True:
        mount.unlock()
        with contextlib.suppress(PermissionError):
            return action()


def test_idle(environment):
    mount = environment.mount(options=("idle=2s",))
    began = last = time.monotonic()
    write_file(mount / "a", b"content")
    unlocked(mount, lambda: set_class(mount / "a", "A"))
    # In use it never locks, for twice the limit at a stretch; that begins anew where this process itself was held up.
    while time.monotonic() - began < 4:
        time.sleep(0.5)
        before, last = last, time.monotonic()  # the last use but one, and the last one, come after these
        seen = outcome(read_file, mount / "a")
        held_up = time.monotonic() - before >= 2
        assert seen == "works" or held_up, (seen, time.monotonic() - before)
        if held_up:
            began = last = time.monotonic()
            mount.unlock()
    status = mount.status()
    assert status["idleLimit"] == 2 and status["idleFor"] <= time.monotonic() - last, status
    # A request for the status does not count as use.
    wait_until(lambda: mount.status()["state"] == "locked", what="the idle lock")
    assert outcome(read_file, mount / "a") == "EACCES"

    def opens():
        mount.unlock()
        return outcome(read_file, mount / "a") == "works"
    wait_until(opens, what="a look before it is idle again")
    # A copy within the mount makes no reads and writes, and an allocation neither.
    size = 8 << 20
    unlocked(mount, lambda: write_file(mount / "a", bytes(size)))
    unlocked(mount, lambda: make_file(mount / "b", "A", b""))
    for name, use in (("copies", lambda a, b: os.copy_file_range(a, b, size, 0, 0)),
                      ("allocations", lambda a, b: os.posix_fallocate(b, 0, size))):
        began = last = time.monotonic()
        with unlocked(mount, lambda: open(mount / "a", "rb")) as source, \
                unlocked(mount, lambda: open(mount / "b", "r+b")) as target:
            while time.monotonic() - began < 4:
                time.sleep(0.3)
                before, last = last, time.monotonic()
                seen = outcome(use, source.fileno(), target.fileno())
                if time.monotonic() - before >= 2:  # held up
                    began = last = time.monotonic()
                    mount.unlock()
                else:
                    environment.cell(f"{name} are use", "works", seen)


def test_daemon_keeps_nothing_of_its_starter(environment):
    volume, place = environment.volume(), environment.new_path("mount")
    os.mkdir(place, mode=0o500)
    reading, writing = os.pipe()
    protectfs("mount", "--recovery-file", volume.code_file, volume.path, place, env=volume.environment, pass_fds=[writing])
    os.close(writing)
    try:
        # The end comes although the daemon lives.
        assert select.select([reading], [], [], PATIENCE)[0], "the daemon holds what its starter had open"
        assert os.read(reading, 1) == b""
    finally:
        os.close(reading)
        protectfs("unmount", place, env=volume.environment)


def test_foreground_and_signals(environment):
    volume = environment.volume()
    path = environment.new_path("mount")
    os.makedirs(path, mode=0o500)
    process = subprocess.Popen([binary(), "mount", "-f", "--recovery-file", volume.code_file, volume.path, path],
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               env=volume.environment)
    wait_until(lambda: any(row[1] == path for row in mount_table()), what="the mount")
    wait_until(lambda: outcome(os.getxattr, path, "user.protectfs.state") == "works", what="an answer")
    write_file(os.path.join(path, "file"), b"content")
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE) == 0, process.stderr.read()
    assert not any(row[1] == path for row in mount_table())
    mount = environment.mount(volume)
    assert read_file(mount / "file") == b"content"


def test_interrupted_mount(environment):
    volume, place = environment.volume(), environment.new_path("mount")
    os.mkdir(place, mode=0o500)
    # The password hash takes its time in the daemon; where it was faster than this process, once more.
    for _ in range(20):
        starter = subprocess.Popen([binary(), "mount", "--passphrase-file", volume.passphrase_file, volume.path, place],
                                   env=volume.environment)
        wait_until(lambda: [number for number in daemons(place) if number != starter.pid], what="the daemon")
        starter.send_signal(signal.SIGINT)
        if starter.wait(PATIENCE) != 0:
            break
        protectfs("unmount", place, env=volume.environment)
    assert starter.returncode == -signal.SIGINT
    wait_until(lambda: not daemons(place), what="the end of the daemon")
    assert not any(row[1] == place for row in mount_table())


def test_aborted_connection(environment):
    mount = environment.mount()
    device = next(row[0] for row in mount_table() if row[1] == mount.path)
    abort_connection(device, environment.control)
    wait_until(lambda: not mount.is_mounted, what="the end of the mount")
    wait_until(lambda: not daemons(mount.path), what="the end of the daemon")
    assert os.listdir(mount.path) == [] and os.stat(mount.path).st_mode & 0o222 == 0


def test_dead_daemon(environment):
    mount = environment.mount()
    write_file(mount / "file", b"synced")
    mount.sync()
    os.kill(mount.pid, signal.SIGKILL)
    wait_until(lambda: outcome(os.listdir, mount.path) == "ENOTCONN", what="the death of the daemon")
    code_of(environment, "status of a dead mount", 7, "status", mount.path)
    code_of(environment, "lock of a dead mount", 7, "lock", mount.path)
    mount.unmount()
    assert not mount.is_mounted
    # The bare mount point is as it was.
    write_file(os.path.join(mount.path, "bare"), b"x")
    os.unlink(os.path.join(mount.path, "bare"))
    again = environment.mount(mount.volume)
    assert read_file(again / "file") == b"synced"


def test_info_and_speed(environment):
    volume = environment.volume()
    info = json.loads(protectfs("info", "--json", volume.path, env=volume.environment).stdout)
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", info["uuid"]), info
    assert info["hasDeviceKey"] and info["keybagAuthentic"] is True and info["openEpochs"] == [], info
    assert info["deviceKey"] == os.path.join(volume.data, "protectfs", info["uuid"] + ".key"), info
    text = protectfs("info", volume.path, env=volume.environment).stdout
    assert info["uuid"] in text and "recovery code" in text, text
    mount = environment.mount(volume)
    write_file(mount / "file", b"x")
    during = json.loads(mount.command("info", "--json", volume.path).stdout)
    assert during["mounts"] == [mount.path] and len(during["openEpochs"]) == 1, during
    mount.unmount()
    assert json.loads(protectfs("info", "--json", volume.path, env=volume.environment).stdout)["openEpochs"] == []
    speed = json.loads(protectfs("speed", "--json").stdout)
    assert any(row["used"] and row["encryptMBPerSecond"] > 0 for row in speed["ciphers"]), speed
    assert speed["passwordHash"]["passes"] >= 3 and speed["passwordHash"]["memory"] >= 64 << 20, speed
    assert "Argon2id" in protectfs("speed").stdout


def test_both_ciphers(environment):
    for cipher in ("aes-256-gcm", "xchacha20-poly1305"):
        place = environment.new_path("made")
        os.makedirs(place + "/data")
        write_file(place + "/passphrase", PASSPHRASE.encode() + b"\n")
        variables = {**os.environ, "XDG_STATE_HOME": place + "/data"}
        done = protectfs("init", "--cipher", cipher, "--json", "--passphrase-file", place + "/passphrase",
                         place + "/volume", env=variables)
        made = json.loads(done.stdout)
        assert made["cipher"] == cipher and os.path.getsize(made["deviceKey"]) == 32, made
        assert os.stat(made["deviceKey"]).st_mode & 0o777 == 0o600
        write_file(place + "/code", made["recoveryCode"].encode())
        point = place + "/mount"
        os.makedirs(point)
        protectfs("mount", "--recovery-file", place + "/code", place + "/volume", point, env=variables)
        for size in (0, 1, 3919, 3932, 4048, 100_000):
            write_file(f"{point}/{size}", pattern(size))
        protectfs("unmount", point, env=variables)
        protectfs("mount", "--passphrase-file", place + "/passphrase", place + "/volume", point, env=variables)
        for size in (0, 1, 3919, 3932, 4048, 100_000):
            environment.cell(f"{cipher} {size}", True, read_file(f"{point}/{size}") == pattern(size))
        protectfs("unmount", point, env=variables)
        done = protectfs("fsck", "--json", "--recovery-file", place + "/code", place + "/volume", env=variables)
        assert json.loads(done.stdout.strip().splitlines()[-1]) is not None


def test_unmount_in_use(environment):
    mount = environment.mount()
    write_file(mount / "file", b"x")
    with open(mount / "file", "rb"):
        done = mount.command("unmount", mount.path, ok=False)
        assert done.returncode == 6, (done.returncode, done.stderr)
        assert mount.state() == "unlocked"
    mount.unmount()
    assert not mount.is_mounted


def test_bare_mount_point_is_unwritable(environment):
    place = environment.new_path("writable")
    os.mkdir(place, mode=0o777)
    mount = environment.mount(path=place)
    # Seen beside the mount: a private view of the directory below it.
    if os.geteuid() != 0:
        raise Skip("only root can look below a mount")
    view = environment.new_path("view")
    os.makedirs(view)
    run("mount", "--bind", os.path.dirname(mount.path), view)
    try:
        bare = os.path.join(view, os.path.basename(mount.path))
        assert os.stat(bare).st_mode & 0o222 == 0, oct(os.stat(bare).st_mode)
        mount.unmount()
        assert os.stat(bare).st_mode & 0o222 == 0
    finally:
        run("umount", view)
