"""Access times as the options of the mount say, compared with ext4 mounted with the same option."""

import itertools
import mmap
import os
import shutil
import time

import harness
from harness import run, set_class, wait_until, write_file
from stores import store

OLD = 10 ** 18
SIZE = 40_000


def read(path, flags=0):
    handle = os.open(path, os.O_RDONLY | flags)
    while os.read(handle, 8192):
        pass
    os.close(handle)


def read_mapped(path):
    handle = os.open(path, os.O_RDONLY)
    with mmap.mmap(handle, SIZE, mmap.MAP_SHARED, mmap.PROT_READ) as view:
        view[SIZE - 1]
    os.close(handle)


def write(path):
    handle = os.open(path, os.O_WRONLY)
    os.pwrite(handle, b"new", 20_000)
    os.fsync(handle)
    os.close(handle)


def look(path):
    os.listxattr(path)
    harness.outcome(os.getxattr, path, "user.none")
    os.chmod(path, 0o644)
    os.rename(path, path + " renamed")
    os.rename(path + " renamed", path)


FILE_STEPS = {
    "read": read,
    "read again": read,
    "read with O_NOATIME": lambda path: read(path, os.O_NOATIME),
    "mapped": read_mapped,
    "write": write,
    "looks and names": look,
    "cut": lambda path: os.truncate(path, SIZE - 1),
}


def old(path):
    os.utime(path, ns=(OLD, OLD))
    # Times of the store advance in steps of some milliseconds.
    time.sleep(0.02)


def accessed(path):
    return os.lstat(path).st_atime_ns


def moved(path, action, expected, prepare=old):
    """Whether the action moves the access time. Where it should, it may come a moment late."""
    prepare(path)
    before = accessed(path)
    action(path)
    time.sleep(0.02)
    if expected:
        try:
            wait_until(lambda: accessed(path) != before, seconds=20)
        except AssertionError:
            pass
    return accessed(path) != before


def no_preparation(path):
    time.sleep(0.02)


def results(place, letter, expected, renew):
    """step → whether it moved the access time; `renew` drops what is cached, once for files of which nothing else is read."""
    found = {}

    def step(name, path, action, prepare=old):
        found[name] = moved(path, action, expected and expected[name], prepare)
    directory = os.path.join(place, f"directory {letter}")
    os.mkdir(directory)
    if letter:
        set_class(directory, letter)
    for cached in (True, False):
        for name in FILE_STEPS:
            if not name.endswith(" again"):
                write_file(os.path.join(directory, f"{name} {cached}"), b"x" * SIZE)
        if not cached:
            renew()
        for name, action in FILE_STEPS.items():
            # "again": the step before has just moved it.
            path = os.path.join(directory, f"{name.removesuffix(' again')} {cached}")
            prepare = no_preparation if name.endswith(" again") else old
            if not cached and name.endswith(" again"):
                renew()
            step(f"{name}, {cached}", path, action, prepare)
    program = os.path.join(directory, "program")
    shutil.copyfile("/bin/true", program)
    os.chmod(program, 0o755)
    renew()
    step("run", program, lambda path: run(path))
    os.symlink("target", os.path.join(directory, "link"))
    time.sleep(0.02)
    step("readlink", os.path.join(directory, "link"), os.readlink, no_preparation)
    os.mkdir(os.path.join(directory, "listed"))
    write_file(os.path.join(directory, "listed", "entry"), b"")
    step("list", os.path.join(directory, "listed"), os.listdir)
    step("list again", os.path.join(directory, "listed"), os.listdir, no_preparation)
    step("look up", os.path.join(directory, "listed"), lambda path: os.stat(os.path.join(path, "entry")))
    step("create", os.path.join(directory, "listed"), lambda path: write_file(os.path.join(path, "other"), b""))
    return found


def weaker(one, other):
    order = ("noatime", "relatime", "strictatime")
    return order[min(order.index(one), order.index(other))]


def remount(disk, option):
    """With this option alone: mount(8) adds it to those that are set, and noatime would stay."""
    run("mount", "--options-mode", "ignore", "-o", f"remount,rw,{option}", disk.backing)


def test_options(environment):
    if os.geteuid() != 0:
        raise harness.Skip("needs root, to mount file systems")
    pairs = [("relatime", "relatime"), ("relatime", "noatime"), ("relatime", None), ("noatime", "relatime"),
             ("strictatime", "relatime"), ("strictatime", "strictatime"), ("strictatime", "noatime"),
             ("relatime", "strictatime")]
    with store(environment, "ext4") as disk:
        for below, above in pairs:
            name = f"store {below}, mount {above or 'without a word'}"
            effective = weaker(below, above or "relatime")
            plain = os.path.join(disk.backing, f"plain {below} {above}")
            os.mkdir(plain)
            remount(disk, effective)
            theirs = results(plain, "", None, lambda: None)
            remount(disk, below)
            mount = disk.mount(options=(above,) if above else ())

            def renew():
                mount.unmount()
                disk.mount(options=(above,) if above else ())
            for letter in ("C", "A") if environment.mode == "full" or effective == "relatime" else ("C",):
                ours = results(mount.path, letter, theirs, renew)
                # The kernel answers it from what it keeps, and asks nobody.
                skipped = {"list again"} if effective == "strictatime" else set()
                if above == "noatime" and below != "noatime":
                    # readlink(2) has no O_NOATIME.
                    skipped.add("readlink")
                differ = {step: (ours[step], theirs[step]) for step in theirs if ours[step] != theirs[step] and step not in skipped}
                environment.cell(f"[{name}, {letter}] steps that differ (here, below)", {}, differ)
                times = {entry: accessed(os.path.join(mount.path, f"directory {letter}", entry))
                         for entry in os.listdir(os.path.join(mount.path, f"directory {letter}"))}
                renew()
                later = {entry: accessed(os.path.join(mount.path, f"directory {letter}", entry)) for entry in times}
                environment.cell(f"[{name}, {letter}] times after a remount", times, later)
                shutil.rmtree(os.path.join(mount.path, f"directory {letter}"))
            mount.unmount()
