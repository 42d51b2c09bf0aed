"""The daemon's memory: idle after unlock, and per file that the kernel knows."""

import os
import time

import handles
import reader
from harness import Skip, binary, run

KIBIBYTE = 1024


def resident(pid):
    """Resident memory of a process, in KiB."""
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS:"))


def fill(top, count, each=1000):
    for number in range(count):
        if number % each == 0:
            directory = os.path.join(top, f"directory-{number // each}")
            os.makedirs(directory)
        os.mknod(os.path.join(directory, f"a file with an ordinary name {number}"), 0o100644)


def test_idle(environment):
    """Less than 48 MiB resident after mounting and unlocking with a passphrase: Argon2's buffer has been given back."""
    volume = environment.volume()
    mount = environment.mount(volume, unlock=False)
    run(binary(), "unlock", "--passphrase-file", volume.passphrase_file, mount.path, env=volume.environment)
    environment.cell(f"[{resident(mount.pid)} KiB]", True, resident(mount.pid) < 48 * KIBIBYTE)


def test_walk(environment):
    """A walk that shows every file to the kernel adds less than 1 KiB for each."""
    count = 100_000 if environment.mode == "full" else 10_000
    mount = environment.mount()
    os.makedirs(mount / "tree")
    fill(mount / "tree", count)
    mount = environment.remount(mount)
    before = resident(mount.pid)
    seen = 0
    for directory, names, files in os.walk(mount / "tree"):
        for name in files:
            seen += os.stat(os.path.join(directory, name)).st_size == 0
    after = resident(mount.pid)
    environment.cell("[files]", count, seen)
    environment.cell(f"[{(after - before) * 1024 // count} bytes each]", True, after - before < count)


test_walk.time_limit = 3600


def test_forgotten(environment):
    """The memory of what the kernel forgets is given back to the system, as far as no page has a node that is still known."""
    if os.geteuid() != 0:
        raise Skip("only root makes the kernel forget")
    count = 80_000
    mount = environment.mount()
    os.makedirs(mount / "tree")
    below = reader.unlock(mount.volume).backing_path("tree")
    mount.unmount()
    for number in range(count):
        os.mknod(os.path.join(os.fsencode(below), b"%d" % number), 0o100644)
    mount = environment.mount(mount.volume)
    before = resident(mount.pid)
    with os.scandir(mount / "tree") as entries:
        seen = sum(entry.stat().st_size == 0 for entry in entries)
    most = resident(mount.pid)
    environment.cell("[files]", count, seen)
    # A quarter at least: most of it, if the threads' arenas are not in pieces. On a busy machine the kernel leaves some objects.
    for _ in range(60):
        handles.forget()
        time.sleep(1.5)
        if is_given_back := resident(mount.pid) < most - (most - before) // 4:
            break
    environment.cell(f"[{before}, {most}, {resident(mount.pid)} KiB]", True, is_given_back)
