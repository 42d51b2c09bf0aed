"""The work of a lock in the kernel's cache, measured by counts, never by times."""

import json
import mmap
import os
import shutil
import signal
import subprocess
import threading

import harness
from copying import seek
from harness import PAGE, PATIENCE, in_child, outcome, pattern, read_file, set_class, wait_until, write_file
from subscriber import Subscriber

MIB = 1 << 20


class Other:
    """Another process that holds a file: a command that is started here would close what it inherits, which flushes."""

    def __init__(self, act):
        self.ready, self.end = os.pipe(), os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.close(self.end[1])
                act()
                os.write(self.ready[1], b"x")
                os.read(self.end[0], 1)
            finally:
                os._exit(0)
        os.close(self.ready[1])
        assert os.read(self.ready[0], 1) == b"x", "the other process failed"
        os.close(self.ready[0])

    def finish(self):
        os.close(self.end[1])
        os.waitpid(self.pid, 0)


def written(path, size):
    """Writes a file through the cache and holds it."""
    def act():
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        for place in range(0, size, MIB):
            os.pwrite(handle, pattern(MIB, seed=place // MIB), place)
    return Other(act)


def holders(mount):
    """Inodes of classes A and B that may have pages, as the daemon counts them."""
    client = Subscriber(mount, False)
    try:
        client.send({"request": "info"})
        return client.receive()["pageHolders"]
    finally:
        client.close()


def test_list_of_holders(environment):
    """Inodes that are known, or open without pages, are not gone through; those that have pages are, whatever their class was."""
    mount = environment.mount()
    os.mkdir(mount / "many")
    set_class(mount / "many", "A")
    for number in range(300):
        write_file(mount / f"many/{number}", b"%d" % number)
    environment.cell("[written]", 300, holders(mount))
    mount = environment.remount(mount)
    environment.cell("[known]", (300, 0), (len([os.stat(mount / f"many/{number}") for number in range(300)]), holders(mount)))
    handles = [os.open(mount / f"many/{number}", os.O_RDONLY) for number in range(300)]
    environment.cell("[open]", 0, holders(mount))
    memory = mmap.mmap(handles[7], 1, prot=mmap.PROT_READ)
    memory[0]
    environment.cell("[mapped]", 1, holders(mount))
    write_file(mount / "c", pattern(10 * PAGE))
    read_file(mount / "c")
    environment.cell("[another class]", 1, holders(mount))
    set_class(mount / "c", "A")
    environment.cell("[that becomes class A]", 2, holders(mount))
    write_file(mount / "d", pattern(PAGE))
    write_file(mount / "d.new", pattern(PAGE, seed=2))
    set_class(mount / "d", "A")
    environment.cell("[before a save by rename]", 3, holders(mount))
    os.rename(mount / "d.new", mount / "d")
    environment.cell("[whose new file has pages]", True, holders(mount) >= 3)
    mount.lock()
    environment.cell("[locked: those that are open still]", 1, holders(mount))
    environment.cell("[and have none]", "SIGBUS", in_child(lambda: memory[0]))
    mount.unlock()
    memory.close()
    for handle in handles:
        os.close(handle)
    mount.lock()
    wait_until(lambda: holders(mount) == 0, what="an empty list")
    mount.unlock()


def test_without_cache(environment):
    """With no_complete_cache the kernel keeps no page of class A, unless a program maps the file."""
    for options, kept in ([], 1), (["no_complete_cache"], 0):
        mount = environment.mount(options=options)
        os.mkdir(mount / "d")
        set_class(mount / "d", "A")
        write_file(mount / "d/a", pattern(10 * PAGE))
        environment.cell(f"{options}: kept after writing", kept, holders(mount))
        mount = environment.remount(mount, options=options)
        with open(mount / "d/a", "rb") as file:
            environment.cell(f"{options}: read", True, file.read() == pattern(10 * PAGE))
            environment.cell(f"{options}: kept after reading", kept, holders(mount))
            mount.lock()
            environment.cell(f"{options}: locked", "EACCES", outcome(os.pread, file.fileno(), 10, 0))
        mount.unmount()


def test_large_requests(environment):
    """A lock writes dirty data back in requests as large as an fsync's, and not page by page."""
    if not shutil.which("strace"):
        raise harness.Skip("strace is not installed")
    size = 64 * MIB
    mount = environment.mount()
    other = written(mount / "file", size)
    log = environment.new_path("strace")
    tracer = subprocess.Popen(["strace", "-f", "-q", "-e", "trace=pwrite64", "-o", log, "-p", str(mount.pid)],
                              stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        wait_until(lambda: os.path.exists(log), what="the trace")
        # Not before every thread is traced.
        wait_until(lambda: all(traced(mount.pid, task) for task in os.listdir(f"/proc/{mount.pid}/task")), what="all threads")
        set_class(mount / "file", "A")
        environment.cell("[lock]", 0, mount.lock().returncode)
    finally:
        tracer.send_signal(signal.SIGINT)
        tracer.wait(PATIENCE)
    with open(log, encoding="utf-8", errors="replace") as file:
        count = sum("pwrite64(" in line for line in file)
    print(f"        64 MiB: {count} writes", flush=True)
    # Linux may have written some of it back before.
    environment.cell("[written]", True, count > 0)
    environment.cell("[in large requests]", True, count < size // PAGE // 16)
    mount.unlock()
    environment.cell("[all of it]", True, all(
        read_at(mount / "file", place) == pattern(MIB, seed=place // MIB) for place in range(0, size, MIB)))
    other.finish()


def traced(process, task):
    try:
        with open(f"/proc/{process}/task/{task}/status", encoding="ascii", errors="replace") as file:
            return not any(line.split() == ["TracerPid:", "0"] for line in file)
    except OSError:
        return True


def read_at(path, place):
    handle = os.open(path, os.O_RDONLY)
    try:
        return os.pread(handle, MIB, place)
    finally:
        os.close(handle)


def test_beside_a_seek(environment):
    """Somebody's seek in a file with much dirty data, which has it written back, holds up no lock of other files."""
    mount = environment.mount()
    write_file(mount / "private", pattern(16 * PAGE))
    set_class(mount / "private", "A")
    handle = os.open(mount / "private", os.O_RDWR)
    memory = mmap.mmap(handle, 16 * PAGE)
    memory[:]
    other = written(mount / "big", 512 * MIB)
    seeker = os.open(mount / "big", os.O_RDONLY)
    answers = []
    thread = threading.Thread(target=lambda: answers.append(seek(seeker, 0, os.SEEK_HOLE)))
    thread.start()
    done = json.loads(mount.command("lock", "--json", mount.path).stdout)
    environment.cell("[locked]", ("locked", 0), (done["state"], done["files"]))
    environment.cell("[no mapped page is left]", "SIGBUS", in_child(lambda: memory[3 * PAGE]))
    environment.cell("[no read]", "EACCES", outcome(os.pread, handle, 10, 0))
    thread.join(PATIENCE)
    environment.cell("[the seek's answer]", [512 * MIB], answers)
    mount.unlock()
    environment.cell("[unlocked]", pattern(16 * PAGE), memory[:])
    memory.close()
    os.close(handle)
    os.close(seeker)
    other.finish()
