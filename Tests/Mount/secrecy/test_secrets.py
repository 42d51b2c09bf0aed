"""Secrets are in locked memory while needed and nowhere else: no log, argument, core file or answer has them."""

import functools
import os
import resource
import shutil
import signal
import subprocess
import time

import harness
import reader
import scan
from foreground import Foreground
from harness import Skip, wait_until, write_file
from subscriber import Subscriber
from users import OrdinaryUser

WRONG = b"an utterly wrong passphrase"
NEW = b"quite another passphrase"


def prepare(environment):
    if os.geteuid() != 0:
        raise Skip("only root may read the memory of a process that is not dumpable")
    reader.load()


def everything(view, volume, files=()):
    """Every key of the volume, of the files named, and what the passphrase becomes."""
    keys = view.keys
    with open(reader.device_key_file(volume), "rb") as file:
        device_key = file.read()
    with open(volume.code_file, encoding="ascii") as file:
        code = file.read().strip()
    secrets = {**scan.class_secrets(view), "class key C": keys.keys[3], "wrap key of C": keys.wrap_key(3),
               "class key D": keys.keys[4], "wrap key of D": keys.wrap_key(4), "metadata key": keys.keys[16],
               "header key": keys.header, "device key": device_key, "recovery code": code.encode(),
               "recovery code's bytes": reader.load().primitives.recovery_secret(code),
               **scan.credential_secrets(view.keys.bag, harness.PASSPHRASE.encode(), device_key)}
    for name in files:
        secrets |= scan.file_secrets(view, name, name)
    return secrets


def fill(mount):
    """A file of each class, open, read and written; what keeps them open."""
    handles = []
    for letter in "ABCD":
        write_file(mount / letter, harness.pattern(10_000, seed=ord(letter)))
        harness.set_class(mount / letter, letter)
        handles.append(os.open(mount / letter, os.O_RDWR))
        os.pread(handles[-1], 9000, 0)
        os.pwrite(handles[-1], b"x", 5)
        os.fsync(handles[-1])
    return handles


def test_in_locked_memory_only(environment):
    """Unlocked and at work: each copy of each key is in locked memory that no core file and no fork gets."""
    prepare(environment)
    mount = environment.mount(unlock=False)
    mount.command("unlock", "--passphrase-file", mount.volume.passphrase_file, mount.path)
    handles = fill(mount)
    view = reader.unlock(mount.volume)
    secrets = everything(view, mount.volume, "ABCD")
    seen = scan.found(mount.pid, secrets)
    for name in ("header key", "A: file key", "C: file key"):
        environment.cell(f"{name} is seen", True, name in seen)
    environment.cell("unprotected copies", {}, scan.unprotected(mount.pid, secrets))
    for child in scan.guards(mount.pid):
        environment.cell("in the guard process", {}, scan.found(child, secrets))
    environment.cell("there is a guard process", True, bool(scan.guards(mount.pid)))
    for handle in handles:
        os.close(handle)


def test_locked_memory_is_accounted(environment):
    """VmLck is what the pools have mapped: every mapping kept out of core files is locked, and the other way round."""
    prepare(environment)
    mount = environment.mount()
    handles = fill(mount)
    areas = scan.areas(mount.pid)
    with open(f"/proc/{mount.pid}/status", encoding="ascii") as file:
        locked = next(int(line.split()[1]) for line in file if line.startswith("VmLck:"))
    environment.cell("locked and kept out of core files are the same", [], [
        (hex(low), sorted(flags)) for low, high, flags, _ in areas if ("lo" in flags) != ("dd" in flags)
        and not {"io", "pf"} & flags])
    environment.cell("VmLck", sum((high - low) // 1024 for low, high, flags, _ in areas if "lo" in flags), locked)
    # Four 32 KiB buffers at least, a slab of keys, and a request buffer for each worker.
    environment.cell("there is as much as the pools need", True, locked > 1500)
    for handle in handles:
        os.close(handle)


def test_after_wrong_passphrases_and_changes(environment):
    """What a passphrase becomes is gone after unlocking with it, failing with it, and changing it beside the mount."""
    prepare(environment)
    mount = environment.mount(unlock=False)
    volume = mount.volume
    files = {name: environment.new_path("secret") for name in ("wrong", "new")}
    write_file(files["wrong"], WRONG + b"\n")
    write_file(files["new"], NEW + b"\n")
    with open(reader.device_key_file(volume), "rb") as file:
        device_key = file.read()
    view = reader.unlock(volume)

    @functools.cache
    def secrets(passphrase):
        return scan.credential_secrets(reader.unlock(volume).keys.bag, passphrase, device_key)

    refused = mount.command("unlock", "--passphrase-file", files["wrong"], mount.path, ok=False)
    environment.cell("a wrong passphrase is refused", True, refused.returncode != 0)
    environment.cell("after a wrong passphrase", {}, scan.found(
        mount.pid, {**secrets(WRONG), **scan.class_secrets(view)}))
    mount.command("unlock", "--passphrase-file", volume.passphrase_file, mount.path)
    right = secrets(harness.PASSPHRASE.encode())
    environment.cell("after unlocking", {}, scan.found(mount.pid, {**right, **secrets(WRONG)}))
    harness.protectfs("passphrase", "change", "--passphrase-file", volume.passphrase_file, "--new-passphrase-file",
                      files["new"], volume.path, env=volume.environment)
    mount.lock()
    refused = mount.command("unlock", "--passphrase-file", volume.passphrase_file, mount.path, ok=False)
    environment.cell("the old passphrase is refused", True, refused.returncode != 0)
    secrets.cache_clear()  # the slots have changed
    environment.cell("after the change, locked", {}, scan.found(mount.pid, {
        **right, **secrets(harness.PASSPHRASE.encode()), **secrets(NEW), **scan.class_secrets(view)}))
    mount.command("unlock", "--passphrase-file", files["new"], mount.path)
    environment.cell("after unlocking with the new one", {}, scan.found(mount.pid, {**right, **secrets(NEW)}))


def test_command_at_work(environment):
    """The command that hashes a passphrase keeps it, too, in locked memory, and out of its arguments and environment."""
    prepare(environment)
    volume = environment.volume()
    new = environment.new_path("secret")
    write_file(new, NEW + b"\n")
    secrets = {"passphrase": harness.PASSPHRASE.encode(), "new passphrase": NEW}
    command = subprocess.Popen(
        [harness.binary(), "passphrase", "change", "--passphrase-file", volume.passphrase_file, "--new-passphrase-file",
         new, volume.path], env=volume.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE)
    seen, outside = set(), {}
    # It takes two hashes, of a tenth of a second each; as it is stopped for a look, a slow machine cannot miss them.
    while command.poll() is None:
        command.send_signal(signal.SIGSTOP)
        try:
            found = scan.found(command.pid, secrets)
            seen |= set(found)
            outside |= scan.unprotected(command.pid, secrets, seen=found)
            for name in ("cmdline", "environ"):
                with open(f"/proc/{command.pid}/{name}", "rb") as file:
                    text = file.read()
                outside |= {f"{title} in {name}": True for title, value in secrets.items() if value in text}
        except (OSError, ValueError):
            pass  # it has just ended
        finally:
            command.send_signal(signal.SIGCONT)
        time.sleep(0.05)
    said = b"".join(command.communicate())
    environment.cell("the change", 0, command.returncode)
    environment.cell("it was seen at work", True, bool(seen))
    environment.cell("unprotected copies", {}, outside)
    environment.cell("what it says", [], [name for name, value in secrets.items() if value in said])


def test_after_unmount(environment):
    """After unmounting, no process that could hold a key is left; an ending that others delay keeps them only so long."""
    prepare(environment)
    mount = environment.mount()
    handles = fill(mount)
    pids = [mount.pid, *scan.guards(mount.pid)]
    places = [os.readlink(f"/proc/{pid}/exe") for pid in pids]
    assert all(place == os.path.realpath(harness.binary()) for place in places), places
    # Detached while in use: it ends with the last handle.
    harness.run("umount", "-l", mount.path)
    for handle in handles:
        os.close(handle)
    wait_until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in pids), what="the end of all its processes")
    mount = environment.mount(mount.volume, path=mount.path)
    pids = [mount.pid, *scan.guards(mount.pid)]
    mount.unmount()
    wait_until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in pids), what="the end of all its processes")


def core_of(pid, environment):
    """A core file of a running process, by gdb; the daemon goes on."""
    if not shutil.which("gcore"):
        return None
    prefix = environment.new_path("core")
    done = harness.run("gcore", "-o", prefix, pid, ok=False, timeout=None)
    path = f"{prefix}.{pid}"
    return path if done.returncode == 0 and os.path.exists(path) else None


def test_core_files(environment):
    """No core file at SIGQUIT, whatever the limit; and where root takes one of the running daemon, no secret is in it."""
    prepare(environment)
    mount = environment.mount()
    handles = fill(mount)
    marks = {"plaintext of class A": b"x" + harness.pattern(10_000, seed=ord("A"))[6:60]}
    view = reader.unlock(mount.volume)
    secrets = {**everything(view, mount.volume, "ABCD"), **marks}
    # The content of a core file, whichever program writes it.
    environment.cell("in memory that core files take", {}, scan.unprotected(mount.pid, secrets, flags=("dd",)))
    core = core_of(mount.pid, environment)
    if core is None:
        environment.skip("gcore", "gdb is not installed")
    else:
        content = scan.without_zeros(core)
        environment.cell("gcore gives a core file", True, content.startswith(b"\x7fELF") and b"protectfs" in content)
        environment.cell("secrets in gcore's file", [], [name for name, value in secrets.items() if value in content])
        environment.cell("the daemon goes on", "unlocked", mount.state())
    for handle in handles:
        os.close(handle)
    mount.unmount()
    # A real one: in the foreground, in a directory that can be written, with the limit lifted.
    here = environment.new_path("here")
    os.mkdir(here)
    volume = mount.volume

    def end(words, number, name, started):
        """(how it ended, whether with a core file, what it said) of a program that is sent a signal."""
        with open(here + "/said", "wb") as said:
            process = subprocess.Popen(words, cwd=here, env=volume.environment, stdin=subprocess.DEVNULL,
                                       stdout=said, stderr=said)
        wait_until(lambda: started(process), what=name)
        try:
            resource.prlimit(process.pid, resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        except PermissionError:
            environment.skip(f"{number.name} of {name} with the limit lifted", "only CAP_SYS_RESOURCE lifts it")
        process.send_signal(number)
        deadline = time.monotonic() + harness.PATIENCE
        while (result := os.waitpid(process.pid, os.WNOHANG))[0] == 0 and time.monotonic() < deadline:
            time.sleep(0.02)
        if result[0] == 0:
            process.kill()
            process.wait()
            return "goes on", False, harness.read_file(here + "/said")
        process.returncode = 0
        return os.WTERMSIG(result[1]), os.WCOREDUMP(result[1]), harness.read_file(here + "/said")

    # By the signal that asks for one, and by one that a fault of the program's own sends.
    for number in (signal.SIGQUIT, signal.SIGSEGV):
        control = end(["sleep", "600"], number, "sleep", lambda process: os.readlink(
            f"/proc/{process.pid}/exe").endswith(("sleep", "coreutils", "busybox")))
        if control[1] is not True:
            environment.skip(number.name, "this machine makes no core files of anything")
        words = [harness.binary(), "mount", "-f", "--recovery-file", volume.code_file, volume.path, mount.path]
        seen = end(words, number, "the mount", lambda process: mount.is_mounted)
        environment.cell(f"{number.name} ends it, without a core file, registers or memory in the log",
                         (number, False, b""), seen)
        harness.detach(mount.path)


def test_nothing_is_told(environment):
    """Logs in the foreground, answers and events of the control socket, arguments, environment: no secret in any form."""
    prepare(environment)
    volume = environment.volume()
    wrong = environment.new_path("secret")
    write_file(wrong, WRONG + b"\n")
    mount = Foreground(environment, volume, "--passphrase-file", volume.passphrase_file)
    mount.wait()
    process = mount.process
    handles = fill(mount)
    view = reader.unlock(volume)
    secrets = scan.texts({**everything(view, volume, "ABCD"), "wrong passphrase": WRONG})
    for child in scan.guards(process.pid):
        # Forked when the passphrase had been read already.
        environment.cell("in the guard process", {}, scan.found(child, secrets))
    told = []
    listener = Subscriber(mount, wait=False)
    reader.flip(volume_path := os.fsdecode(view.backing_path("C")), 4096 + 100)
    mount.lock("--grace", "0")
    for letter in "AB":
        harness.outcome(harness.read_file, mount / letter)
    told.append(mount.command("unlock", "--passphrase-file", wrong, mount.path, ok=False))
    mount.unlock()
    os.posix_fadvise(handles[2], 0, 0, os.POSIX_FADV_DONTNEED)
    harness.outcome(harness.read_file, mount / "C")
    reader.flip(volume_path, 4096 + 100)
    for words in (["status", "--json"], ["status"], ["class", "list", "--json"]):
        told.append(mount.command(*words, mount.path))
    for words in (["info", "--json"], ["info"], ["slot", "list"]):
        told.append(mount.command(*words, volume.path))
    control = Subscriber(mount, wait=False)
    answers = []
    for request in ({"request": "status"}, {"request": "info"}, {"request": "nothing"},
                    {"request": "class", "path": b"A".hex(), "class": "complete", "mode": "wrapOnly"}):
        control.send(request)
        answers.append(control.receive())
    while answers[-1].get("event") != "unlocked":
        answers.append(listener.receive())
    with open(f"/proc/{process.pid}/cmdline", "rb") as file:
        texts = {"arguments": file.read()}
    with open(f"/proc/{process.pid}/environ", "rb") as file:
        texts["environment"] = file.read()
    for handle in handles:
        os.close(handle)
    listener.close()
    control.close()
    mount.unmount()
    environment.cell("the end", 0, process.wait(harness.PATIENCE))
    texts["log"] = harness.read_file(mount.log)
    environment.cell("the log says something", True, b"refused" in texts["log"])
    texts["answers"] = repr(answers).encode()
    texts["commands"] = "".join(done.stdout + done.stderr for done in told).encode()
    for place, text in texts.items():
        environment.cell(place, [], [name for name, value in secrets.items() if value in text])


def test_limit_of_locked_memory(environment):
    """Below what keys need the mount is refused with the reason; above it works; nothing in between is unclear."""
    prepare(environment)
    user = OrdinaryUser(environment)
    path = user.path

    def as_user(limit, *words):
        return user.run("prlimit", f"--memlock={limit * 1024}", *words, ok=False)

    worked = []
    for limit in (0, 64, 1024, 5119, 5120, 8192):
        done = as_user(limit, harness.binary(), "mount", "--recovery-file", user.code_file, user.volume, path)
        if done.returncode != 0:
            environment.cell(f"{limit} KiB: refused with the reason", (True, True, False), (
                "locked memory" in done.stderr, "ulimit -l" in done.stderr,
                any(row[1] == path for row in harness.mount_table())))
            environment.cell(f"{limit} KiB: not where less was enough", [], worked)
            continue
        worked.append(limit)
        # It works: many open files of all classes, large requests, lock and unlock.
        script = ("import os,sys\n"
                  "content=os.urandom(3<<20)\n"
                  "keep=[]\n"
                  "for n in range(1500):\n"
                  " h=os.open(f'{sys.argv[1]}/{n}',os.O_RDWR|os.O_CREAT); keep.append(h)\n"
                  " os.pwrite(h,content if n%300==0 else b'x'*5000,0)\n"
                  " if n%300==0: os.setxattr(f'{sys.argv[1]}/{n}','user.protection',b'A')\n"
                  "for h in keep: os.fsync(h)\n"
                  "assert os.pread(keep[300],4<<20,0)==content\n")
        worker = as_user(limit, "/usr/bin/python3", "-c", script, path)
        environment.cell(f"{limit} KiB: at work", (0, ""), (worker.returncode, worker.stderr[-300:]))
        for words in (["lock", path], ["unlock", "--recovery-file", user.code_file, path]):
            done = as_user(limit, harness.binary(), *words)
            environment.cell(f"{limit} KiB: {words[0]}", (0, ""), (done.returncode, done.stderr[-300:]))
        daemon = harness.Mount(None, path).pid
        outside = {}
        for low, high, flags, _ in scan.areas(daemon):
            if "dd" in flags and "lo" not in flags and not {"io", "pf"} & flags:
                outside[hex(low)] = (high - low) // 1024
        with open(f"/proc/{daemon}/status", encoding="ascii") as file:
            locked = next(int(line.split()[1]) for line in file if line.startswith("VmLck:"))
        print(f"        {limit} KiB: {locked} KiB locked, {len(outside)} request buffers are not", flush=True)
        environment.cell(f"{limit} KiB: within the limit", True, locked <= limit)
        done = as_user(limit, harness.binary(), "unmount", path)
        environment.cell(f"{limit} KiB: unmount", (0, ""), (done.returncode, done.stderr[-300:]))
    environment.cell("the usual limit is enough", [5120, 8192], worked)
