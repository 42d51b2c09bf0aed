"""Keys in the daemon's memory: before a lock those that it needs, after it none that must be gone."""

import os
import resource
import subprocess

import ciphers
import harness
import reader
import scan
from users import OrdinaryUser


def test_keys_leave_memory(environment):
    """Finds the keys before a lock, and none of them after it, for files that are open all the time."""
    example = "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4"  # FIPS 197, A.3
    assert scan.expanded_schedule(bytes.fromhex(example))[-4:].hex() == "706c631e"
    if os.geteuid() != 0:
        raise harness.Skip("only root may read the memory of a process that is not dumpable")
    reader.load()
    keys_leave_memory(environment)
    if ciphers.aes_library() == "IPsec-MB":
        with ciphers.openssl():
            keys_leave_memory(environment)


def keys_leave_memory(environment):
    library = ciphers.aes_library()
    mount = environment.mount()
    handles = []
    for letter in "ABCD":
        path = mount / f"file {letter}"
        harness.write_file(path, harness.pattern(10_000, seed=ord(letter)))
        harness.set_class(path, letter)
        handles.append(os.open(path, os.O_RDWR))
        os.pread(handles[-1], 9000, 0)
        os.pwrite(handles[-1], b"written before the lock", 5)
        os.fsync(handles[-1])
    harness.write_file(mount / "closed", harness.pattern(10_000, seed=1))
    harness.set_class(mount / "closed", "A")
    assert harness.read_file(mount / "closed") == harness.pattern(10_000, seed=1)

    view = reader.unlock(mount.volume)
    gone = scan.class_secrets(view)
    gone.update(scan.file_secrets(view, "file A", "open file of class A"))
    gone.update(scan.file_secrets(view, "closed", "closed file of class A"))
    stays = scan.file_secrets(view, "file C", "open file of class C")
    before = scan.found(mount.pid, {**gone, **stays})
    for name in ("private key of B", "open file of class A: file key", "open file of class A: extent key"):
        environment.cell(f"{library}, before the lock: {name} is seen", True, name in before)
    # The wrap key is all that is needed of class key A.
    environment.cell(f"{library}, before the lock: class key A is seen", True,
                     "class key A" in before or "wrap key of A" in before)
    # OpenSSL expands a key for one block at a time.
    environment.cell(f"{library}, before the lock: expanded keys are seen", library == "IPsec-MB",
                     any("expanded key" in name for name in before))

    mount.lock()
    after = scan.found(mount.pid, {**gone, **stays})
    for name in gone:
        environment.cell(f"{library}, after the lock: {name} is gone", [], after.get(name, []))
    environment.cell(f"{library}, after the lock: a key of class C is still seen", True,
                     any(name in after for name in stays))

    mount.unlock()
    os.pread(handles[0], 9000, 0)
    again = scan.found(mount.pid, gone)
    environment.cell(f"{library}, after unlocking: the file key of class A is seen again", True,
                     "open file of class A: file key" in again)
    for handle in handles:
        os.close(handle)
    mount.lock()
    last = scan.found(mount.pid, gone)
    environment.cell(f"{library}, after the second lock: nothing", {}, last)


def test_class_b_file_closed_while_locked(environment):
    """A file of class B that is open keeps its key through a lock, until its last handle is closed."""
    if os.geteuid() != 0:
        raise harness.Skip("only root may read the memory of a process that is not dumpable")
    reader.load()
    mount = environment.mount()
    for name in ("open", "closed"):
        harness.write_file(mount / name, harness.pattern(10_000))
        harness.set_class(mount / name, "B")
        harness.read_file(mount / name)
    handle = os.open(mount / "open", os.O_RDWR)
    os.pwrite(handle, b"x", 5)
    os.fsync(handle)
    view = reader.unlock(mount.volume)
    kept, gone = scan.file_secrets(view, "open", "open file"), scan.file_secrets(view, "closed", "closed file")
    mount.lock()
    seen = scan.found(mount.pid, {**kept, **gone})
    environment.cell("locked: keys of the open file", True, any(name in seen for name in kept))
    environment.cell("locked: keys of the closed file", [], [name for name in gone if name in seen])
    os.pwrite(handle, b"y", 9000)
    os.close(handle)
    harness.wait_until(lambda: not scan.found(mount.pid, kept), what="the end of the closed file's keys")


def test_class_7(environment):
    """The keys of class 7, and those of its open files, are there after a lock, and gone when its time has run out."""
    if os.geteuid() != 0:
        raise harness.Skip("only root may read the memory of a process that is not dumpable")
    reader.load()
    volume = None
    for options, is_open in (["inactive=1h"], True), (["inactive=0"], False):
        mount = environment.mount(volume, options=options)
        volume = mount.volume
        handle = os.open(mount / "file", os.O_RDWR | os.O_CREAT, 0o600)
        harness.set_class(mount / "file", "7")
        os.pwrite(handle, harness.pattern(10_000), 0)
        os.fsync(handle)
        view = reader.unlock(volume)
        own = {"class key 7": view.keys.keys[7], "wrap key of 7": view.keys.wrap_key(7)}
        secrets = {**own, **scan.file_secrets(view, "file", "open file")}
        before = scan.found(mount.pid, secrets)
        environment.cell(f"{options}: unlocked", True, any(name in before for name in own) and "open file: file key" in before)
        mount.lock()
        after = scan.found(mount.pid, secrets)
        if is_open:
            environment.cell(f"{options}: locked", True, any(name in after for name in own) and "open file: file key" in after)
        else:
            environment.cell(f"{options}: locked", {}, after)
        mount.unlock()
        os.pread(handle, 9000, 0)
        environment.cell(f"{options}: unlocked again", True, "open file: file key" in scan.found(mount.pid, secrets))
        os.close(handle)
        mount.unmount()


def test_before_first_unlock(environment):
    """Only what the device key opens is there before the first unlock."""
    if os.geteuid() != 0:
        raise harness.Skip("only root may read the memory of a process that is not dumpable")
    reader.load()
    mount = environment.mount(unlock=False)
    view = reader.unlock(mount.volume)
    secrets = {**scan.class_secrets(view), "class key C": view.keys.keys[3], "wrap key of C": view.keys.wrap_key(3),
               "class key 7": view.keys.keys[7], "wrap key of 7": view.keys.wrap_key(7), "header key": view.keys.header}
    environment.cell("before first unlock", ["header key"], sorted(scan.found(mount.pid, secrets)))


def test_plaintext_leaves_memory(environment):
    """After a lock, the contents of class A files are in none of the daemon's buffers."""
    if os.geteuid() != 0:
        raise harness.Skip("only root may read the memory of a process that is not dumpable")
    plaintext_leaves_memory(environment, ciphers.aes_library(), environment.mount())
    plaintext_leaves_memory(environment, "libsodium", ciphers.xchacha(environment))
    if ciphers.aes_library() == "IPsec-MB":
        with ciphers.openssl():
            plaintext_leaves_memory(environment, "OpenSSL", environment.mount())


def plaintext_leaves_memory(environment, library, mount):
    marks = {}
    handles = []
    for number in range(8):
        mark = os.urandom(24)
        marks[f"mark {number}"] = mark
        path = mount / f"secret {number}"
        harness.write_file(path, b"")
        harness.set_class(path, "A")
        harness.write_file(path, mark * 20_000)
        assert harness.read_file(path) == mark * 20_000
        handle = os.open(path, os.O_RDWR)
        handles.append(handle)
        os.pread(handle, 48_000, 4096)
        os.pwrite(handle, mark * 3, 100_000)
    mount.lock()
    places = scan.found(mount.pid, marks)
    for name in marks:
        environment.cell(f"{library}, after the lock: {name} is in no buffer", [], places.get(name, [])[:3])
    for handle in handles:
        os.close(handle)


def test_attributes_leave_memory(environment):
    """Values of extended attributes are in the daemon's memory for the length of a request, whatever the lock's state."""
    if os.geteuid() != 0:
        raise harness.Skip("only root may read the memory of a process that is not dumpable")
    mount = environment.mount()
    marks = {}
    for number, length in enumerate((24, 24, 400, 1200)):
        path = mount / f"file {number}"
        harness.write_file(path, b"content")
        harness.set_class(path, "A" if number else "B")
        for name in ("user.note", "trusted.note"):
            # A note longer than its mark: what is found is the value, and no trace of a shorter one.
            mark = os.urandom(12).hex().encode()
            marks[f"{name}, {length} bytes"] = mark
            os.setxattr(path, name, (mark * (length // 24)))
            for _ in range(8):
                assert os.getxattr(path, name).startswith(mark)
        # What is refused came as far as the daemon.
        mark = os.urandom(12).hex().encode()
        marks[f"refused, {length} bytes"] = mark
        assert harness.outcome(os.setxattr, path, "user.missing", mark * 4, os.XATTR_REPLACE) == "ENODATA"
    # A buffer is wiped right after its answer has been sent.
    harness.wait_until(lambda: not scan.found(mount.pid, marks), what="the end of the values, unlocked")
    mount.lock()
    places = scan.found(mount.pid, marks)
    for name in marks:
        environment.cell(f"after the lock: {name}", [], places.get(name, [])[:3])


def test_credentials_leave_memory(environment):
    """Passphrase and recovery code stay neither in memory nor in what others can see of the process."""
    if os.geteuid() != 0:
        raise harness.Skip("only root may read the memory of a process that is not dumpable")
    package = reader.load()
    mount = environment.mount(unlock=False)
    secret = harness.read_file(mount.volume.code_file).strip()
    wrong = os.path.join(mount.volume.data, "wrong")
    harness.write_file(wrong, b"an utterly wrong passphrase\n")
    refused = mount.command("unlock", "--passphrase-file", wrong, mount.path, ok=False)
    environment.cell("a wrong passphrase is refused", True, refused.returncode != 0)
    mount.command("unlock", "--passphrase-file", mount.volume.passphrase_file, mount.path)
    secrets = {
        "passphrase": harness.PASSPHRASE.encode(), "wrong passphrase": b"an utterly wrong passphrase",
    }
    environment.cell("after unlocking by passphrase", {}, scan.found(mount.pid, secrets))
    mount.lock()
    mount.unlock()
    secrets["recovery code"] = secret
    secrets["recovery code's bytes"] = package.primitives.recovery_secret(secret.decode())
    environment.cell("after unlocking by recovery code", {}, scan.found(mount.pid, secrets))
    for name in ("cmdline", "environ"):
        with open(f"/proc/{mount.pid}/{name}", "rb") as file:
            seen = file.read()
        for title, value in secrets.items():
            environment.cell(f"{title} is not in {name}", False, value in seen)
    for title, value in secrets.items():
        environment.cell(f"{title} is in no message", False,
                         any(value.decode("latin-1") in text for text in (refused.stdout, refused.stderr)))


def test_daemon_is_not_dumpable(environment):
    """No core file, no ptrace by the same user, and secrets locked in memory."""
    mount = environment.mount()
    pid = mount.pid
    status = os.stat(f"/proc/{pid}/mem")
    environment.cell("/proc/PID belongs to root", (0, 0), (status.st_uid, status.st_gid))
    soft, hard = resource.prlimit(pid, resource.RLIMIT_CORE) if os.geteuid() == 0 else (0, 0)
    environment.cell("the core limit is zero", (0, 0), (soft, hard))
    if os.geteuid() == 0:
        with open(f"/proc/{pid}/status", encoding="utf-8") as file:
            fields = dict(line.split(":", 1) for line in file)
        environment.cell("memory is locked", True, int(fields["VmLck"].split()[0]) > 0)
        # A process that is dumpable has its own user's files in /proc even when that user is not root.
        flags = {}
        with open(f"/proc/{pid}/smaps", encoding="utf-8", errors="replace") as file:
            place = ""
            for line in file:
                if line.startswith("VmFlags:"):
                    flags[place] = set(line.split()[1:])
                elif "-" in line.split()[0]:
                    place = line.split()[0]
        locked = [value for value in flags.values() if "lo" in value]
        environment.cell("some memory is locked", True, bool(locked))
        environment.cell("locked memory stays out of core files", True, all("dd" in value for value in locked))
        environment.cell("locked memory is wiped on fork", True, all("wf" in value for value in locked))


def test_same_user_cannot_look_in(environment):
    """A daemon of an ordinary user is closed to that user's other programs."""
    user = OrdinaryUser(environment)
    path, as_user = user.path, user.run
    as_user(harness.binary(), "mount", "--recovery-file", user.code_file, user.volume, path)
    sleeper = subprocess.Popen([*user.become, "sleep", "600"])
    try:
        daemon = harness.Mount(None, path).pid
        look = ["dd", "of=/dev/null", "count=1"]
        harness.wait_until(
            lambda: as_user(*look, f"if=/proc/{sleeper.pid}/environ", ok=False).returncode == 0,
            what="a look into an ordinary process")
        environment.cell("a look into the daemon", 1,
                         as_user(*look, f"if=/proc/{daemon}/environ", ok=False).returncode)
        environment.cell("its files in /proc belong to root", 0, os.stat(f"/proc/{daemon}/environ").st_uid)
    finally:
        sleeper.kill()
        sleeper.wait()
        as_user(harness.binary(), "unmount", path)
