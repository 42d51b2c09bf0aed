"""Files without a name (O_TMPFILE): as on ext4, never left behind, and of the right class once they have a name."""

import os
import re
import shutil
import stat
import subprocess
import sys

from checks import errors
from harness import CLASSES, PAGE, Skip, get_class, make_file, outcome, pattern, read_file, run, set_class, wait_until, write_file

CONTENT = pattern(3 * PAGE + 17)


def nameless(directory, flags=0, mode=0o640):
    return os.open(directory, os.O_TMPFILE | os.O_RDWR | flags, mode)


def link(handle, path):
    # With a directory Python calls linkat(2) with AT_SYMLINK_FOLLOW.
    os.link(f"/proc/self/fd/{handle}", path, src_dir_fd=handle, follow_symlinks=True)


def store_files(volume):
    """Every object of the store."""
    return sorted(os.path.join(directory, name) for directory, _, names in os.walk(volume.path) for name in names)


def found(handle):
    status = os.fstat(handle)
    return stat.filemode(status.st_mode), status.st_nlink, status.st_size


def used(directory):
    """What a program finds that makes a file without a name, uses it, names it, and names it again."""
    seen = []
    handle = nameless(directory)
    seen.append(("made", found(handle), sorted(os.listdir(directory))))
    os.write(handle, CONTENT)
    os.fchmod(handle, 0o604)
    os.setxattr(handle, "user.one", b"value")
    os.fsync(handle)
    seen.append(("written", found(handle), os.pread(handle, 100, PAGE) == CONTENT[PAGE:PAGE + 100]))
    again = os.open(f"/proc/self/fd/{handle}", os.O_RDONLY)
    seen.append(("opened again", os.pread(again, 1 << 20, 0) == CONTENT))
    os.close(again)
    write_file(os.path.join(directory, "taken"), b"")
    seen.append(("a name that is taken", outcome(link, handle, os.path.join(directory, "taken"))))
    link(handle, os.path.join(directory, "named"))
    seen.append(("named", found(handle), os.fstat(handle).st_ino == os.stat(os.path.join(directory, "named")).st_ino))
    os.pwrite(handle, b"after", 0)
    link(handle, os.path.join(directory, "second"))
    os.close(handle)
    seen.append(("read", read_file(os.path.join(directory, "named")) == b"after" + CONTENT[5:],
                 os.getxattr(os.path.join(directory, "second"), "user.one"),
                 os.stat(os.path.join(directory, "second")).st_nlink))
    os.unlink(os.path.join(directory, "named"))
    seen.append(("after unlink", read_file(os.path.join(directory, "second"))[:5]))
    exclusive = nameless(directory, os.O_EXCL)
    seen.append(("O_EXCL", outcome(link, exclusive, os.path.join(directory, "never"))))
    os.close(exclusive)
    writer = os.open(directory, os.O_TMPFILE | os.O_WRONLY, 0o600)
    os.write(writer, CONTENT)
    os.ftruncate(writer, 10)
    seen.append(("O_WRONLY", found(writer), outcome(os.read, writer, 1)))
    os.close(writer)
    seen.append(("read only", outcome(os.open, directory, os.O_TMPFILE | os.O_RDONLY)))
    seen.append(("names", sorted(os.listdir(directory))))
    return seen


def test_as_below(environment):
    """The same results as on the file system below, with each class and with the mount's sharing."""
    below = environment.new_path("below")
    os.mkdir(below)
    if outcome(lambda: os.close(nameless(below))) != "works":
        raise Skip("the file system of the tests makes no files without a name")
    expected = used(below)
    for options in ([], ["shared"]):
        mount = environment.mount(options=options)
        for letter in "CABD":
            place = mount / letter
            os.mkdir(place)
            set_class(place, letter)
            for one, other in zip(expected, used(place)):
                environment.cell(f"[{letter} {options}: {one[0]}]", one, other)
        mount = environment.remount(mount)
        for letter in "CABD":
            environment.cell(f"[{letter} {options}: after a remount]", b"after" + CONTENT[5:], read_file(mount / f"{letter}/second"))
        mount.unmount()
        environment.cell(f"[{options}: errors]", [], errors(mount.volume))


def test_nothing_is_left(environment):
    """Closed, or killed with it, nothing of the file is in the store; what had a name and was synced is."""
    mount = environment.mount()
    before = store_files(mount.volume)
    handle = nameless(mount.path)
    os.write(handle, CONTENT)
    os.fsync(handle)
    environment.cell("[open: no name below]", before, store_files(mount.volume))
    os.close(handle)
    environment.cell("[closed]", before, store_files(mount.volume))
    lost, kept = nameless(mount.path), nameless(mount.path)
    for handle in (lost, kept):
        os.write(handle, CONTENT)
        os.fsync(handle)
    link(kept, mount / "kept")
    os.fsync(kept)
    mount.crash()
    for handle in (lost, kept):
        outcome(os.close, handle)
    environment.cell("[crashed: one more]", len(before) + 1, len(store_files(mount.volume)))
    environment.cell("[crashed: errors]", [], errors(mount.volume))
    mount = environment.mount(mount.volume, path=mount.path)
    environment.cell("[crashed: names]", ["kept"], os.listdir(mount.path))
    environment.cell("[crashed: content]", True, read_file(mount / "kept") == CONTENT)


def test_classes(environment):
    """It has its directory's class, takes the class of its new name's family, and obeys a lock."""
    mount = environment.mount()
    make_file(mount / "diary.txt", "A", CONTENT)
    handle = nameless(mount.path)
    os.write(handle, CONTENT)
    environment.cell("[without a name]", CLASSES["C"], os.getxattr(handle, "user.protection").decode())
    link(handle, mount / "diary.txt~")
    os.close(handle)
    environment.cell("[a name of the family]", CLASSES["A"], get_class(mount / "diary.txt~"))
    chosen = nameless(mount.path)
    os.setxattr(chosen, "user.protection", b"none")
    os.write(chosen, CONTENT)
    link(chosen, mount / "#diary.txt#")
    os.close(chosen)
    environment.cell("[chosen]", CLASSES["D"], get_class(mount / "#diary.txt#"))
    os.mkdir(mount / "closed")
    set_class(mount / "closed", "A")
    private, plain = nameless(mount / "closed"), nameless(mount.path)
    for handle in (private, plain):
        os.write(handle, CONTENT)
    mount.lock()
    environment.cell("[class A, locked]", "EACCES", outcome(os.pread, private, 10, 0))
    environment.cell("[class C, locked]", "works", outcome(os.pread, plain, 10, 0))
    environment.cell("[made in a closed class]", "EACCES", outcome(nameless, mount / "closed"))
    environment.cell("[named in a closed family]", "EACCES", outcome(link, plain, mount / ".diary.txt.swp"))
    link(private, mount / "closed/named while locked")
    mount.unlock()
    environment.cell("[class A, unlocked]", True, os.pread(private, 1 << 20, 0) == CONTENT)
    for handle in (private, plain):
        os.close(handle)
    environment.cell("[named while locked]", (CLASSES["A"], True),
                     (get_class(mount / "closed/named while locked"), read_file(mount / "closed/named while locked") == CONTENT))
    mount.unmount()
    environment.cell("[errors]", [], errors(mount.volume))


def test_ownership(environment):
    """Owner, group and mode are those that ext4 gives, also with a setgid directory, a umask and a default ACL."""
    if os.geteuid() != 0:
        raise Skip("needs root, to act as another user")
    mount = environment.mount(options=["allow_other"])
    below = environment.new_path("below")
    os.mkdir(below)
    code = ("import os, sys; os.umask(0o027); handle = os.open(sys.argv[1], os.O_TMPFILE | os.O_RDWR, 0o2777);"
            "status = os.fstat(handle); os.link(f'/proc/self/fd/{handle}', sys.argv[1] + '/named', src_dir_fd=handle, follow_symlinks=True);"
            "print([status.st_uid, status.st_gid, oct(status.st_mode)])")
    results = {}
    for place in (mount.path, below):
        for kind, mode in (("plain", 0o777), ("setgid", 0o2777), ("acl", 0o2777)):
            directory = os.path.join(place, kind)
            os.mkdir(directory)
            os.chown(directory, 0, 4321)
            os.chmod(directory, mode)
            if kind == "acl":
                # u::rwx, g::r-x, o::---
                entries = b"".join(tag.to_bytes(2, "little") + bits.to_bytes(2, "little") + b"\xff" * 4
                                   for tag, bits in ((1, 7), (4, 5), (32, 0)))
                os.setxattr(directory, "system.posix_acl_default", b"\x02\0\0\0" + entries)
            os.chmod(place, 0o755)
            done = run("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", sys.executable, "-c", code, directory, ok=False)
            results[place, kind] = done.stdout.strip() or done.stderr
    for kind in ("plain", "setgid", "acl"):
        environment.cell(f"[{kind}]", (True, results[below, kind]), (results[below, kind].startswith("[65534"), results[mount.path, kind]))


def test_class_is_durable_before_the_name(environment):
    """A stronger class is not synced while the file has no name, because nothing of it outlives a crash; it is before the link."""
    if not shutil.which("strace"):
        raise Skip("strace is not installed")
    mount = environment.mount()
    log = environment.new_path("strace")
    tracer = subprocess.Popen(["strace", "-f", "-q", "-e", "trace=fdatasync,fsync,linkat,setxattr,fsetxattr,pwrite64", "-o", log,
                               "-p", str(mount.pid)], stderr=subprocess.DEVNULL)

    def calls():
        return re.findall(r"(?:^|\n)\d+ +(fdatasync|fsync|linkat)\(", read_file(log).decode())

    try:
        wait_until(lambda: os.path.exists(log), what="the tracer has begun")
        probe = nameless(mount.path)
        wait_until(lambda: (os.pwrite(probe, b"x", 0), os.fsync(probe), calls())[2], what="the tracer sees a sync")
        os.close(probe)
        before = len(calls())
        handle = nameless(mount.path)
        os.setxattr(handle, "user.protection", b"complete")
        environment.cell("[set]", (CLASSES["A"], []), (os.getxattr(handle, "user.protection").decode(), calls()[before:]))
        link(handle, mount / "unsynced")
        made = calls()[before:]
        environment.cell("[named: a sync, then the name]", True, "linkat" in made and made.index("linkat") > 0)
        os.close(handle)
        synced = nameless(mount.path)
        os.setxattr(synced, "user.protection", b"complete")
        os.write(synced, CONTENT)
        os.fsync(synced)
        before = len(calls())
        link(synced, mount / "synced")
        environment.cell("[synced by its program: only the name]", ["linkat"], calls()[before:])
        os.close(synced)
    finally:
        tracer.terminate()
        tracer.wait()
    mount.unmount()
    environment.cell("[errors]", [], errors(mount.volume))
