"""Mounts over io_uring: when they are, what lives beside them, and how they end."""

import os
import signal
import subprocess
import threading

import harness
import rings
from harness import outcome, pattern, read_file, set_class, write_file

CONTENT = pattern(1_200_000)
ROUNDS = {"quick": 3, "usual": 10, "full": 50}


def needs_switch():
    if not rings.allowed():
        raise harness.Skip("FUSE over io_uring needs Linux 6.14, and root for its switch")


def over_ring(environment, **more):
    mount = environment.mount(options=["io_uring=auto"], **more)
    assert mount.status()["transport"] == "io_uring", mount.status()
    return mount


def test_only_where_asked_for(environment):
    """The kernel's switch and the option together decide; without either the mount works over /dev/fuse."""
    needs_switch()
    with rings.switched_on():
        for options, expected in ((["io_uring=auto"], "io_uring"), ([], "dev_fuse"), (["io_uring=off"], "dev_fuse"),
                                  (["io_uring=auto", "io_uring=off"], "dev_fuse"), (["io_uring=auto", "shared"], "dev_fuse"),
                                  (["io_uring=auto", "no_complete_cache"], "io_uring")):
            mount = environment.mount(options=options)
            environment.cell(" ".join(options), expected, mount.status()["transport"])
            shown = mount.command("status", mount.path).stdout
            assert ("/dev/fuse" if expected == "dev_fuse" else "io_uring") in shown, shown
            write_file(mount / "file", CONTENT)
            assert read_file(mount / "file") == CONTENT
            mount.unmount()
    assert "io_uring" in environment.mount(options=["io_uring=yes"], ok=False).result.stderr
    if rings.value() == "N":
        assert environment.mount(options=["io_uring=auto"]).status()["transport"] == "dev_fuse"


def test_the_switch_may_go_off(environment):
    """A mount keeps its queues when an administrator switches them off for later mounts, and gets more workers."""
    needs_switch()
    with rings.switched_on():
        mount = over_ring(environment)
    write_file(mount / "file", CONTENT)
    failures = []

    def work(number):
        for turn in range(20):
            name = mount / f"{number}-{turn}"
            write_file(name, CONTENT[:50_000 + turn])
            if read_file(name) != CONTENT[:50_000 + turn]:
                failures.append(name)
            os.remove(name)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures


def test_little_locked_memory(environment):
    """With a limit into which no two buffers for each processor fit, a mount uses /dev/fuse."""
    needs_switch()
    # Root's limit counts only without CAP_IPC_LOCK.
    words = ["setpriv", "--bounding-set", "-ipc_lock", "--inh-caps", "-ipc_lock", "prlimit", "--memlock=5500000"]
    volume = environment.volume()
    path = environment.new_path("mount")
    os.makedirs(path, mode=0o500)
    with rings.switched_on():
        done = subprocess.run([*words, harness.binary(), "mount", "-o", "io_uring=auto", "--recovery-file", volume.code_file,
                               volume.path, path], env=volume.environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    mount = harness.Mount(volume, path)
    environment.mounts.append(mount)
    assert mount.status()["transport"] == "dev_fuse"
    write_file(mount / "file", CONTENT)
    assert read_file(mount / "file") == CONTENT


def test_a_lock_closes(environment):
    """While programs read and write: after a lock nobody reads class A, through handles or the page cache; then it opens again."""
    needs_switch()
    with rings.switched_on():
        mount = over_ring(environment)
    write_file(mount / "A", b"")
    set_class(mount / "A", "A")
    write_file(mount / "A", CONTENT)
    handle = os.open(mount / "A", os.O_RDONLY)
    ending = threading.Event()

    def read():
        while not ending.is_set():
            try:
                os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
                os.pread(handle, 4096, 40960)
            except OSError:
                pass

    readers = [threading.Thread(target=read) for _ in range(4)]
    for reader in readers:
        reader.start()
    for _ in range(ROUNDS[environment.mode]):
        mount.lock("--grace", "0")
        for offset in range(0, len(CONTENT), 65536):
            assert outcome(os.pread, handle, 4096, offset) == "EACCES", (offset, mount.status())
        mount.unlock()
        assert os.pread(handle, 4096, 8192) == CONTENT[8192:12288]
    ending.set()
    for reader in readers:
        reader.join()
    os.close(handle)


def test_every_end(environment):
    """Unmounting, signals, kill -9 and an aborted connection, while programs use the mount: the daemon ends, and programs get
    errors and do not hang."""
    needs_switch()
    for end in ("unmount -l", "SIGTERM", "SIGKILL", "abort", "unmount"):
        with rings.switched_on():
            mount = over_ring(environment)
        pid, device = mount.pid, os.stat(mount.path).st_dev
        write_file(mount / "file", CONTENT)
        busy = subprocess.Popen(["sh", "-c", 'while stat "$0/file" && dd if="$0/file" of="$0/copy" bs=64k; do :; done', mount.path],
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        harness.wait_until(lambda: os.path.exists(mount / "copy"), what="the copy")
        if end == "unmount -l":
            harness.run("umount", "-l", mount.path)
        elif end == "abort":
            harness.abort_connection(f"{os.major(device)}:{os.minor(device)}", environment.control)
        elif end == "unmount":
            os.killpg(busy.pid, signal.SIGKILL)
            busy.wait()
            mount.unmount()
        else:
            os.kill(pid, getattr(signal, end))
        if end in ("unmount -l", "SIGTERM"):
            os.killpg(busy.pid, signal.SIGKILL)
        busy.wait(60)
        harness.wait_until(lambda: not os.path.exists(f"/proc/{pid}"), what=f"the end of the daemon after {end}")
        harness.run("umount", "-l", mount.path, ok=False)
        environment.cell(end, False, mount.is_mounted)
