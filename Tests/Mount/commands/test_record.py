"""The record in the journal: who unlocked, failed, locked, changed keys or lowered a class, and what was tampered with."""

import json
import os
import shutil
import signal
import subprocess
import time

import harness
from journal import Journal, facts
from users import OrdinaryUser

SECRET_NAME = "diary-of-nobody"
LIMIT = 20


def as_user_lowers(path, user):
    """Sets the weakest class, as a user of the whole machine."""
    harness.run("setpriv", f"--reuid={user}", "--clear-groups", "setfattr", "-n", "user.protection", "-v", "none", path)


def test_session(environment):
    journal = Journal()
    volume = environment.volume()
    secret = ["--passphrase-file", volume.passphrase_file]
    wrong = environment.new_path("wrong")
    harness.write_file(wrong, b"not the passphrase at all\n")
    new = environment.new_path("volume-with-a-name")
    made = json.loads(harness.protectfs("init", "--json", *secret, new, env=volume.environment).stdout)
    entry = journal.next(1)[0]
    environment.cell("init says that a volume was made", True, dict(entry)["MESSAGE"].endswith(": made"))
    name, details = facts(entry)
    environment.cell("init", ("keys-changed", {"uid": "0", "reason": "init", "result": "success"}),
                     (name, {key: details[key] for key in ("uid", "reason", "result")}))
    point = environment.new_path("mount")
    os.mkdir(point, mode=0o500)

    def cell(title, *expected):
        found = [facts(entry) for entry in journal.next(len(expected))]
        environment.cell(title, list(expected), found)

    def command(*words, ok=True):
        return harness.protectfs(*words, env=volume.environment, ok=ok)

    slots = {one["kind"]: f"{one['slot']} {one['kind'].split()[0]}"
             for one in json.loads(command("slot", "list", "--json", new).stdout)}
    opened = {"slot": slots["passphrase"], "credential": "passphrase", "result": "success"}
    refused = {"credential": "passphrase", "result": "authentication"}
    command("mount", "--passphrase-file", wrong, new, point, ok=False)
    cell("a mount with a wrong passphrase", ("unlock-failed", {"uid": "0", **refused}))
    command("mount", "-o", "allow_other", *secret, new, point)
    cell("mount", ("mounted", {"uid": "0", "result": "success"}), ("unlocked", {"uid": "0", **opened}))
    command("lock", point)
    cell("lock", ("locked", {"uid": "0", "reason": "command", "result": "success"}))
    command("lock", point)
    command("unlock", "--passphrase-file", wrong, point, ok=False)
    cell("locked already, and a wrong passphrase", ("unlock-failed", {"uid": "0", **refused}))
    command("unlock", *secret, point)
    cell("unlock", ("unlocked", {"uid": "0", **opened}))
    command("unlock", *secret, point)
    command("lock", "--reason", "sleep", "--grace", "0", point)
    cell("unlocked already, and a lock before sleep", ("locked", {"uid": "0", "reason": "sleep", "result": "success"}))
    environment.cell("an unknown reason", 2, command("lock", "--reason", "lunch", point, ok=False).returncode)
    code = environment.new_path("code")
    harness.write_file(code, made["recoveryCode"].encode())
    command("unlock", "--recovery-file", code, point)
    cell("unlock with the recovery code", ("unlocked", {"uid": "0", "slot": slots["recovery code"], "credential": "recovery",
                                                        "result": "success"}))

    os.chmod(point, 0o777)
    os.mkdir(os.path.join(point, "folder"))
    file = os.path.join(point, SECRET_NAME)
    harness.write_file(file, b"dear diary")
    os.chmod(file, 0o666)
    inode = str(os.stat(file).st_ino)
    weaker = {"class_before": "complete", "class": "none"}
    harness.set_class(file, "A")
    as_user_lowers(file, 1234)
    cell("setfattr by another user", ("class-lowered", {"uid": "1234", "inode": inode, **weaker}))
    harness.set_class(file, "A")
    command("class", "set", "--wrap-only", "none", file)
    cell("class set --wrap-only", ("class-lowered", {"uid": "0", "inode": inode, **weaker}))
    harness.set_class(file, "A")
    command("class", "set", "--reencrypt", "none", file)
    cell("class set --reencrypt", ("class-lowered", {"uid": "0", "inode": str(os.stat(file).st_ino), **weaker}))
    folder = os.path.join(point, "folder")
    harness.set_class(folder, "A")
    os.setxattr(folder, "user.protection", b"inherit")
    cell("a directory's default", ("class-lowered", {
        "uid": "0", "inode": str(os.stat(folder).st_ino), "class_before": "complete",
        "class": "completeUntilFirstUserAuthentication"}))
    harness.outcome(lambda: harness.set_class(file, "nonsense"))

    fresh = ["--new-passphrase-file", volume.passphrase_file]
    command("slot", "add", *secret, *fresh, new)
    _, details = facts(journal.next(1)[0])
    added = details.pop("slot")
    environment.cell("slot add", ({"uid": "0", "reason": "slot-add", "result": "success"}, "passphrase"),
                     (details, added.split()[1]))
    command("slot", "remove", "--slot", added.split()[0], *secret, new)
    cell("slot remove", ("keys-changed", {"uid": "0", "reason": "slot-remove", "result": "success",
                                                "slot_removed": added}))
    command("slot", "add", "--recovery", *secret, new)
    _, details = facts(journal.next(1)[0])
    environment.cell("slot add --recovery", ("slot-add", slots["recovery code"], "recovery"),
                     (details["reason"], details["slot_removed"], details["slot"].split()[1]))
    command("unmount", point)
    cell("unmount", ("unmounted", {"uid": "0", "result": "success"}))
    command("erase", "--yes", new)
    cell("erase", ("keys-changed", {"uid": "0", "reason": "erase", "result": "success"}))
    environment.cell("nothing else", [], journal.rest())
    everything = b"".join(journal.datagrams)
    told = [text for text in (SECRET_NAME, "folder", "dear diary", harness.PASSPHRASE, "not the passphrase", "volume-with-a-name",
                              made["recoveryCode"], environment.base) if text.encode() in everything]
    environment.cell("no name, path, content or secret", [], told)
    environment.cell("the volume", {made["uuid"]}, {dict(one)["PROTECTFS_VOLUME"] for one in journal.all()})
    numbers = {(dict(one)["PROTECTFS_EVENT"], dict(one)["MESSAGE_ID"], dict(one)["PRIORITY"]) for one in journal.all()}
    with open(os.path.join(harness.REPOSITORY, "docs/use/administration.md"), encoding="utf-8") as file:
        page = file.read()
    environment.cell("each MESSAGE_ID and PRIORITY is documented", [], [
        one for one in numbers if f"| `{one[0]}` | `{one[1]}` | {one[2]} |" not in page])


def test_without_a_command(environment):
    """Idle time, a signal, and a user of their own."""
    journal = Journal()
    mount = environment.mount(options=("idle=1",))
    journal.next(2)
    environment.cell("idle", [("locked", {"reason": "idle", "result": "success"})], [facts(one) for one in journal.next(1)])
    mount.unlock()
    journal.next(1)
    os.kill(mount.pid, signal.SIGTERM)
    environment.cell("SIGTERM", [("locked", {"reason": "signal", "result": "success"}), ("unmounted", {"result": "success"})],
                     [facts(one) for one in journal.next(2)])
    # Where root finds the sockets of a user.
    os.makedirs("/run/user/65534", mode=0o700)
    os.chown("/run/user/65534", 65534, 65534)
    user = OrdinaryUser(environment)
    user.run(harness.binary(), "mount", "--recovery-file", user.code_file, user.volume, user.path)
    try:
        environment.cell("an ordinary user's mount", ["65534", "65534"], [facts(one)[1]["uid"] for one in journal.next(2)])
        user.run(harness.binary(), "lock", user.path)
        environment.cell("locked by the user", "65534", facts(journal.next(1)[0])[1]["uid"])
        user.run(harness.binary(), "unlock", "--recovery-file", user.code_file, user.path)
        journal.next(1)
        harness.protectfs("lock", user.path, env=user.variables)
        environment.cell("locked by root", "0", facts(journal.next(1)[0])[1]["uid"])
    finally:
        user.run(harness.binary(), "unmount", user.path)
    environment.cell("unmounted by the user", ("unmounted", {"uid": "65534", "result": "success"}), facts(journal.next(1)[0]))


def test_failed_unmount(environment):
    """Whoever could not unmount is not named when somebody else does."""
    journal = Journal()
    mount = environment.mount()
    journal.next(2)
    with open(mount.path + "/held", "wb"):
        environment.cell("busy", 6, mount.command("unmount", mount.path, ok=False).returncode)
    harness.run("umount", "-i", mount.path)
    environment.cell("unmounted", ("unmounted", {"result": "success"}), facts(journal.next(1)[0]))


def test_tampering(environment):
    journal = Journal()
    mount = environment.mount()
    names = [f"file{number}" for number in range(3 * LIMIT)]
    for name in names:
        harness.write_file(mount / name, harness.pattern(3 * harness.PAGE))
    inodes = {str(os.stat(mount / name).st_ino) for name in names}
    places = [mount.stored(name) for name in names]
    mount.unmount()
    for place in places:
        with open(place, "r+b") as file:
            file.seek(harness.PAGE + 100)
            byte = file.read(1)
            file.seek(harness.PAGE + 100)
            file.write(bytes([byte[0] ^ 1]))
    mount = environment.mount(mount.volume)
    journal.next(5)
    started = time.monotonic()
    for name in names:
        environment.cell(f"{name} is refused", "EIO", harness.outcome(lambda: harness.read_file(mount / name)))
    found = [facts(entry) for entry in journal.next(LIMIT)]
    environment.cell("each says what and where", ({"tampering"}, {"block"}, True), (
        {event for event, _ in found}, {details["damage"] for _, details in found},
        {details["inode"] for _, details in found} <= inodes))
    if time.monotonic() - started < 10:
        environment.cell("no more in ten seconds", [], journal.rest())
        time.sleep(max(0, 11 - (time.monotonic() - started)))
        harness.outcome(lambda: harness.read_file(mount / names[0]))
        environment.cell("the next one counts the others", True, int(facts(journal.next(1)[0])[1]["suppressed"]) >= 2 * LIMIT)
    mount.unmount()
    journal.next(1)

    bag = os.path.join(mount.volume.path, ".protectfs.keybag")
    old = environment.new_path("old")
    shutil.copy(bag, old)
    harness.protectfs("slot", "add", "--passphrase-file", mount.volume.passphrase_file, "--new-passphrase-file",
                      mount.volume.passphrase_file, mount.volume.path, env=mount.volume.environment)
    journal.next(1)
    shutil.copy(old, bag)
    environment.cell("an older keybag is refused", 4, environment.mount(mount.volume, ok=False).result.returncode)
    environment.cell("and recorded", ("tampering", {"uid": "0", "damage": "keybag-older"}), facts(journal.next(1)[0]))


def test_missing_and_full_journal(environment):
    """What the journal does not take is counted, and nothing waits for it."""
    journal = Journal(listens=False)
    mount = environment.mount()
    for _ in range(3):
        mount.lock()
        mount.unlock()
    journal.listen()
    filled = journal.fill()
    started = time.monotonic()
    for _ in range(2):
        mount.lock()
        mount.unlock()
    environment.cell("nothing waits", True, time.monotonic() - started < harness.PATIENCE / 2)
    for _ in range(filled):
        journal.socket.recv(1 << 16)
    mount.lock()
    # Two events of the mount, and two of each round before.
    environment.cell("the next entry says how many are lost", ("locked", str(2 + 2 * 3 + 2 * 2)), [
        (event, details["lost"]) for event, details in [facts(journal.receive())]][0])
    mount.unlock()
    environment.cell("then none is", None, facts(journal.receive())[1].get("lost"))


def test_journald_accepts_it(environment):
    """The journal of systemd, on this test's own socket, finds an entry by its fields."""
    program = "/lib/systemd/systemd-journald"
    if not os.path.exists(program) or not shutil.which("journalctl") or not os.path.exists("/etc/machine-id"):
        raise harness.Skip("needs systemd-journald and journalctl")
    journal = Journal(listens=False)
    os.makedirs("/run/log/journal")
    daemon = subprocess.Popen([program], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        harness.wait_until(lambda: os.path.exists(journal.path) or daemon.poll() is not None, what="the journal's socket")
        if daemon.poll() is not None:
            raise harness.Skip("systemd-journald does not start here")
        mount = environment.mount(unlock=False)
        wrong = environment.new_path("wrong")
        harness.write_file(wrong, b"wrong\n")
        mount.command("unlock", "--passphrase-file", wrong, mount.path, ok=False)

        def entries():
            done = harness.run("journalctl", "-D", "/run/log/journal", "-o", "json", "PROTECTFS_EVENT=unlock-failed", ok=False)
            return [json.loads(line) for line in done.stdout.splitlines()]

        harness.wait_until(entries, what="the entry")
        entry = entries()[0]
        environment.cell("fields", ("0", "authentication", "4", mount.status()["uuid"], str(mount.pid)), tuple(
            entry[key] for key in ("PROTECTFS_UID", "PROTECTFS_RESULT", "PRIORITY", "PROTECTFS_VOLUME", "_PID")))
    finally:
        daemon.terminate()
        daemon.wait()
