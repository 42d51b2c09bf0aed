"""A mount that another user makes and that names somebody's volume: it gets no secret, decides nothing and blocks nothing."""

import contextlib
import ctypes
import json
import os
import pwd
import signal
import subprocess
import sys
import time

import erasing
import harness
from fake_mount import STRANGER, FakeMount
from control_socket import socket_path
from harness import Skip, mount_table, protectfs, read_file, run, write_file
from namespaces import only_own_mounts, open_fuse_to_everyone, own_etc
from reader import keybag_file
from rotation import rotate, take_code
from users import OrdinaryUser

MODES = ("fake", "older", "mute")
FAILURE, USAGE, NOT_MOUNTED = 1, 2, 7
TIME_IS_UP = 124
LONGEST_STATUS = 10
LONGEST_LOCK = 12
# Not in these tables, because they ask only mounts of the caller: `agent`, the tray, `doctor` without a mount point; because they speak to
# no daemon: `init`, `slot`, `recipient`, `secret` but `service`, `speed`, `config`, `help`, `version`; because a person names the mount
# and they send no secret: `watch`, `wait`, `status MOUNTPOINT`, `lock MOUNTPOINT`, `class`, `path FILE`, `unmount`, remounting.
CLONE3 = 435


def prepare(environment, allows_other=False):
    """The machine has no other mounts, and users have directories for sockets."""
    if allows_other:
        etc = os.path.dirname(own_etc(environment))
        write_file(os.path.join(os.path.dirname(etc), "fuse.conf"), b"user_allow_other\n", os.O_TRUNC)
    open_fuse_to_everyone(environment)
    only_own_mounts()
    os.makedirs("/run/user", exist_ok=True)
    run("mount", "-t", "tmpfs", "-o", "mode=755", "none", "/run/user")
    for user in (STRANGER, 1234, 1):
        os.mkdir(f"/run/user/{user}", 0o700)
        os.chown(f"/run/user/{user}", user, user)


def test_rotation(environment):
    """Root's `keys rotate` neither asks nor tells a stranger's daemon, mounted or not."""
    prepare(environment)
    for mode in MODES:
        volume = environment.volume()
        with FakeMount(environment, volume.path, mode) as fake:
            done = rotate(volume, ok=False)
            environment.cell(f"{mode}, not mounted", (0, []), (done.returncode, fake.log()))
            take_code(environment, volume, done)
            # The stranger's mount is the older one in the table.
            mount = environment.mount(volume)
            write_file(mount / "before", b"1")
            done = rotate(volume, ok=False)
            environment.cell(f"{mode}, mounted", (0, []), (done.returncode, fake.log()))
            take_code(environment, volume, done)
            write_file(mount / "after", b"2")
            mount.unmount()
            mount = environment.mount(volume)
            environment.cell(f"{mode}: files", (b"1", b"2"), (read_file(mount / "before"), read_file(mount / "after")))
            mount.unmount()


def test_rotation_of_trusted_users(environment):
    """A daemon of root, or of the store's owner, that has the claim must have the keys, too; without the claim it does not count."""
    prepare(environment)
    for user, place in ((0, "root"), (STRANGER, "the store's owner")):
        for mode, told in (("fake", "does not have the keys"), ("older", "older version")):
            volume = environment.volume()
            os.chown(volume.path, user, user)
            before = read_file(keybag_file(volume))
            with FakeMount(environment, volume.path, mode, "claim", user=user) as fake:
                done = rotate(volume, ok=False)
                log = fake.log()
                environment.cell(f"{mode} of {place}: refused", True, done.returncode != 0 and told in done.stderr)
                environment.cell(f"{mode} of {place}: no secret", [], [line for line in log if "secret" in line or line == "unlock"])
                environment.cell(f"{mode} of {place}: the keybag", before, read_file(keybag_file(volume)))
    volume = environment.volume()
    os.chown(volume.path, STRANGER, STRANGER)
    with FakeMount(environment, volume.path, "fake") as fake:
        environment.cell("the owner's without a claim", (0, []), (rotate(volume, ok=False).returncode, fake.log()))


def test_root(environment):
    """The other commands of root, with a stranger's mount of a volume of root's."""
    prepare(environment)
    for mode in MODES:
        volume = environment.volume()
        mount = environment.mount(volume)
        write_file(mount / "file", b"x")
        backing = mount.stored("file")
        mount.unmount()
        with FakeMount(environment, volume.path, mode) as fake:
            def cell(name, code, *words, told="", asked=()):
                done = protectfs(*words, env=volume.environment, ok=False)
                environment.cell(f"{mode}: {name}", (code, list(asked), True),
                                 (done.returncode, fake.log(), told in done.stdout + done.stderr))
            cell("unlock", NOT_MOUNTED, "unlock", "--passphrase-file", volume.passphrase_file, fake.path, told="nothing was sent")
            cell("path", NOT_MOUNTED, "path", "--reverse", backing)
            cell("info", 0, "info", volume.path)
            cell("inspect", 0, "inspect", "--passphrase-file", volume.passphrase_file, backing)
            cell("fsck", 0, "fsck", "--passphrase-file", volume.passphrase_file, volume.path)
            mounts = json.loads(protectfs("info", "--json", volume.path, env=volume.environment).stdout)["mounts"]
            environment.cell(f"{mode}: no mount is shown", [], mounts)
            # The true mount is found behind the older one of the stranger.
            mount = environment.mount(volume)
            cell("path, mounted", 0, "path", "--reverse", backing, told=str(mount / "file"))
            mount.unmount()
            done, _ = erasing.erase(volume, ok=False)
            environment.cell(f"{mode}: erase", (0, [], []), (done.returncode, fake.log(), erasing.keybags(volume)))


def test_user(environment):
    """The commands of a user, with a stranger's mount of the user's volume, and with a stranger's lock of its directory."""
    prepare(environment)
    for mode in MODES:
        user = OrdinaryUser(environment, 1234)
        secret = os.path.join(os.path.dirname(user.volume), "passphrase")
        os.chmod(os.path.dirname(user.volume), 0o755)
        with FakeMount(environment, user.volume, mode) as fake:
            for words in (["unlock", "--passphrase-file", secret, fake.path], ["path", "--reverse", user.volume], ["lock", fake.path]):
                done = user.run(harness.binary(), *words, ok=False)
                environment.cell(f"{mode}: {words[0]}", (True, []), (done.returncode != 0, fake.log()))
            for words in (["status"], ["info", user.volume], ["keys", "rotate", "--passphrase-file", secret, user.volume],
                          ["erase", "--yes", user.volume]):
                done = user.run(harness.binary(), *words, ok=False)
                environment.cell(f"{mode}: {words[0]}", (0, []), (done.returncode, fake.log()))


def test_root_keys(environment):
    """Root's commands that change a keybag or look at one, and those that look for mounts: with a stranger's mount of the volume."""
    prepare(environment)
    for mode in MODES:
        volume = environment.volume()
        secret, new = ("--passphrase-file", volume.passphrase_file), environment.new_path("passphrase")
        write_file(new, b"another passphrase of many words\n")
        source = environment.new_path("source")
        os.mkdir(source)
        write_file(os.path.join(source, "file"), b"x")
        copy = environment.new_path("keybag")
        with FakeMount(environment, volume.path, mode) as fake:
            def cell(code, *words, asked=(), name=None, told=""):
                done = protectfs(*words, env=volume.environment, ok=False, timeout=60)
                environment.cell(f"{mode}: {name or ' '.join(map(str, words[:2]))}", (code, list(asked), True),
                                 (done.returncode, fake.log(), told in done.stderr))
            cell(0, "keybag", "export", volume.path, copy)
            cell(0, "slot", "list", volume.path)
            cell(0, "slot", "test", *secret, volume.path)
            cell(USAGE, "keys", "retire", *secret, volume.path, told="no former keys")
            cell(0, "slot", "add", *secret, "--new-passphrase-file", new, volume.path)
            cell(0, "keybag", "import", "--accept-keybag", *secret, volume.path, copy)
            cell(0, "import", *secret, source, volume.path, name="import")
            cell(FAILURE, "doctor", fake.path, told="belongs to another user", name="doctor of the mount")
            cell(0, "doctor", name="doctor")
            cell(NOT_MOUNTED, "secret", "service", fake.path, told="nothing was sent")
            mount = environment.mount(volume)
            write_file(mount / "file", b"y")
            cell(0, "class", "list", mount.path)
            cell(0, "class", "set", "--reencrypt", "complete", mount / "file")
            cell(0, "unmount", "--grace", "1", mount.path, name="unmount")
            cell(FAILURE if mode == "mute" else 0, "lock", "--all", "--grace", "0", told=fake.path if mode == "mute" else "",
                 asked=["lock", "status"] if mode == "mute" else ["lock"])


def test_lock_all(environment):
    """Root's `lock --all`: mute mounts of strangers keep no true mount from its lock, and the command from its end for seconds only."""
    prepare(environment, allows_other=True)
    # fusermount3 asks for the user's name.
    user = OrdinaryUser(environment, 1)
    user.variables["XDG_RUNTIME_DIR"] = "/run/user/1"
    secret = os.path.join(os.path.dirname(user.volume), "passphrase")
    user.run(harness.binary(), "mount", "--passphrase-file", secret, user.volume, user.path)
    first = environment.mount()
    with contextlib.ExitStack() as stack:
        fakes = [stack.enter_context(FakeMount(environment, first.volume.path, "mute", *words))
                 for words in ((), ("hang",), ("hang", "deaf"), ("full",)) for _ in range(2)]
        last = environment.mount()
        for words in ([], ["--grace", "0"], ["--grace", "2", "--reason", "sleep"]):
            for mount in (first, last):
                mount.unlock()
            user.run(harness.binary(), "unlock", "--passphrase-file", secret, user.path)
            start = time.monotonic()
            with subprocess.Popen([harness.binary(), "lock", "--all", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as done:
                for path in (first.path, last.path, user.path):
                    protectfs("wait", "--locked", "--timeout", "3", path)
                locked = time.monotonic() - start
                told = done.communicate(timeout=60)[1]
            took = time.monotonic() - start
            environment.cell(f"{words}: locked at once, ends soon", (True, True), (locked < 4, took < LONGEST_LOCK))
            environment.cell(f"{words}: exit code", True, done.returncode in (FAILURE, NOT_MOUNTED))
            environment.cell(f"{words}: each is named", [True] * len(fakes), [fake.path in told for fake in fakes])
        done = protectfs("wait", "--unlocked", "--timeout", "2", fakes[0].path, ok=False, timeout=10)
        environment.cell("wait keeps its time", TIME_IS_UP, done.returncode)
        done = user.run(harness.binary(), "lock", "--all", "--json")
        environment.cell("a user's own alone", [user.path], [one["mountPoint"] for one in json.loads(done.stdout)])
        user.run(harness.binary(), "unmount", user.path)


@contextlib.contextmanager
def locked_by(user, path, leaves):
    """A user's process has a lock of a directory; with `leaves`, a child has it of a process that has ended."""
    program = ("import fcntl, os, sys, time; fcntl.flock(os.open(sys.argv[1], os.O_RDONLY), fcntl.LOCK_EX)\n"
               "child = os.fork() if sys.argv[2] else 0\nif child: os._exit(0)\nprint(os.getpid(), flush=True); time.sleep(3600)")
    with subprocess.Popen(["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", sys.executable, "-c", program, path, leaves],
                          stdout=subprocess.PIPE, text=True) as process:
        holder = int(process.stdout.readline())
        if leaves:
            process.wait()
        try:
            yield holder
        finally:
            os.kill(holder, signal.SIGKILL)


def test_locked_directory(environment):
    """A lock that a stranger has on the directory keeps nobody from destroying keys; one of the user's own processes does."""
    prepare(environment)
    for leaves in ("", "leaves"):
        volume = environment.volume()
        os.chmod(volume.path, 0o755)
        os.chmod(os.path.dirname(volume.path), 0o755)
        with locked_by(0, volume.path, leaves):
            done, _ = erasing.erase(volume, ok=False)
            environment.cell(f"root's own lock {leaves}", (True, True), (done.returncode != 0, bool(erasing.keybags(volume))))
        with locked_by(STRANGER, volume.path, leaves) as holder:
            done, _ = erasing.erase(volume, ok=False)
            told = f"process {holder} of {pwd.getpwuid(STRANGER).pw_name}" in done.stderr
            environment.cell(f"a stranger's lock {leaves}", (0, [], True), (done.returncode, erasing.keybags(volume), told))


def test_status(environment):
    """Mute mounts cost five seconds together, and one line each."""
    prepare(environment)
    honest = environment.mount()
    with contextlib.ExitStack() as stack:
        fakes = [stack.enter_context(FakeMount(environment, honest.volume.path, "mute")) for _ in range(4)]
        start = time.monotonic()
        done = protectfs("status", ok=False)
        took = time.monotonic() - start
        environment.cell("within the time", True, took < LONGEST_STATUS)
        environment.cell("exit code", FAILURE, done.returncode)
        environment.cell("the honest one", True, any(line.split() == ["Mount", "point", honest.path] for line in done.stdout.splitlines()))
        lines = [line for line in done.stdout.splitlines() if "did not answer in time" in line]
        environment.cell("a line each", [True] * len(fakes), [sum(fake.path in line for line in lines) == 1 for fake in fakes])
        told = json.loads(protectfs("status", "--json", ok=False).stdout)
        environment.cell("JSON", (len(fakes) + 1, len(fakes)), (len(told), sum("error" in one for one in told)))


def test_hanging_mount(environment):
    """Commands of root do not even look at a stranger's file system that never answers: waiting for it cannot be interrupted."""
    prepare(environment, allows_other=True)
    mount = environment.mount()
    write_file(mount / "file", b"x")
    backing = mount.stored("file")
    for store in (mount.volume.path, None):
        for word in ("listens", "deaf"):
            with FakeMount(environment, store, "mute", "hang", word) as fake:
                for words in (["status"], ["doctor"], ["info", mount.volume.path], ["path", "--reverse", backing], ["path", mount / "file"],
                              ["keys", "rotate", "--passphrase-file", mount.volume.passphrase_file, mount.volume.path]):
                    start = time.monotonic()
                    protectfs(*words, env=mount.volume.environment, ok=False, timeout=3 * LONGEST_STATUS)
                    name = f"{words[0]}, {word}, {'the volume' if store else 'a hanging store'}"
                    environment.cell(name, True, time.monotonic() - start < LONGEST_STATUS)
                if word == "deaf":
                    for words in (["unmount"], ["unmount", "--grace", "1"], ["unmount", "--force"]):
                        start = time.monotonic()
                        done = protectfs(*words, fake.path, ok=False, timeout=3 * LONGEST_STATUS)
                        environment.cell(f"{words} of it", (NOT_MOUNTED, True), (done.returncode, time.monotonic() - start < LONGEST_STATUS))
    # When its daemon has died, root removes it.
    with FakeMount(environment, mount.volume.path, "mute", "deaf") as fake:
        os.kill(fake.server, signal.SIGSTOP)
        protectfs("unmount", fake.path, ok=False)
        environment.cell("alive", True, any(row[1] == fake.path for row in mount_table()))
        os.kill(fake.server, signal.SIGKILL)
        fake.process.wait()
        environment.cell("dead", (0, False), (protectfs("unmount", fake.path, ok=False).returncode, any(row[1] == fake.path for row in mount_table())))


def test_full_queue(environment):
    """A daemon that takes no connection: a command for its mount gives up, and status does not wait for it."""
    prepare(environment)
    honest = environment.mount()
    with FakeMount(environment, honest.volume.path, "mute", "full") as fake:
        start = time.monotonic()
        done = protectfs("status", ok=False)
        environment.cell("status", (True, True), (time.monotonic() - start < LONGEST_STATUS, honest.path in done.stdout))
        done = protectfs("lock", fake.path, ok=False, timeout=60)
        environment.cell("lock", (NOT_MOUNTED, True), (done.returncode, "cannot connect" in done.stderr))


def test_link_to_another_socket(environment):
    """A stranger's socket is a link to that of root's own mount: what root asks of the stranger's mount does not reach root's."""
    prepare(environment)
    mount = environment.mount()
    with FakeMount(environment, mount.volume.path, "fake") as fake:
        device = next(row[0] for row in mount_table() if row[1] == fake.path)
        place = f"/run/user/{STRANGER}/protectfs/{device}"
        os.unlink(place)
        os.symlink(os.path.realpath(socket_path(mount)), place)
        for words in (["lock"], ["status"], ["watch"], ["wait", "--locked", "--timeout", "1"], ["unmount"], ["unmount", "--grace", "1"],
                      ["unmount", "--force"]):
            done = protectfs(*words, fake.path, ok=False, timeout=60)
            environment.cell(f"{words}: refused, and root's mount", (NOT_MOUNTED, "unlocked", True),
                             (done.returncode, mount.state(), mount.is_mounted))
        done = protectfs("lock", "--all", "--json", ok=False)
        told = {one["mountPoint"]: "error" in one for one in json.loads(done.stdout)}
        environment.cell("all", {mount.path: False, fake.path: True}, told)


def start_as(number, words):
    """Starts a program as the process with this number."""
    wanted = ctypes.c_int32(number)
    # struct clone_args: the signal at the end is the fifth field, set_tid and its length are the ninth and tenth.
    fields = (ctypes.c_uint64 * 11)()
    fields[4], fields[8], fields[9] = signal.SIGCHLD, ctypes.addressof(wanted), 1
    child = ctypes.CDLL(None, use_errno=True).syscall(CLONE3, fields, ctypes.sizeof(fields))
    if child == 0:
        os.execvp(words[0], words)
    if child < 0:
        raise Skip(f"clone3 with a number: {os.strerror(ctypes.get_errno())}")
    return child


def test_number_used_again(environment):
    """A stranger's socket was made by a process that has ended, and root's process has its number now: it is told nothing."""
    prepare(environment)
    volume = environment.volume()
    with FakeMount(environment, volume.path, "fake", "leave") as fake:
        fake.process.wait()
        victim = start_as(fake.process.pid, ["sleep", "3600"])
        done = protectfs("unmount", "--grace", "1", fake.path, ok=False)
        time.sleep(0.2)
        ended, status = os.waitpid(victim, os.WNOHANG)
        environment.cell("the process lives", (0, 0), (ended, status))
        environment.cell("refused", (True, True), (done.returncode != 0, "cannot be told to end" in done.stderr))
        with contextlib.suppress(ProcessLookupError):
            os.kill(victim, signal.SIGKILL)
            os.waitpid(victim, 0)
