"""Modification times of class A, whose writes bypass the page cache: later calls do not undo them."""

import os
import time

from harness import outcome, set_class, wait_until, write_file

OLD = 10 ** 12


def rename(path, _):
    os.rename(path, path + " renamed")


def link(path, _):
    os.link(path, path + " linked")


def set_attribute(path, _):
    os.setxattr(path, "user.kept", b"1")


def remove_attribute(path, _):
    outcome(os.removexattr, path, "user.none")


def change_class(path, _):
    set_class(path, "C")


def change_mode(path, handle):
    os.fchmod(handle, 0o600)
    os.setxattr(path, "user.kept", b"1")


def close(path, handle):
    """The handle behind the number is another file's then."""
    with open("/dev/null", "rb") as other:
        os.dup2(other.fileno(), handle)
    os.rename(path, path + " renamed")


def reopen(path, handle):
    with open(path, "rb") as other:
        os.dup2(other.fileno(), handle)


ACTIONS = (rename, link, set_attribute, remove_attribute, change_class, change_mode, close, reopen)


def written(path):
    """A file of class A with an old time, then written to; an open handle."""
    write_file(path, b"old")
    set_class(path, "A")
    os.utime(path, ns=(OLD, OLD))
    handle = os.open(path, os.O_RDWR)
    os.pwrite(handle, b"new", 0)
    return handle


def place(path):
    return path if os.path.exists(path) else path + " renamed"


def test_time_of_write_stays(environment):
    """The kernel sends the time that it kept before the write, as after any change of the file: it is not the file's."""
    mount = environment.mount()
    paths = {(action.__name__, number): mount / f"{action.__name__}{number}"
             for action in ACTIONS for number in range(5)}
    handles = []
    for action in ACTIONS:
        for number in range(5):
            path = paths[action.__name__, number]
            handle = written(path)
            action(path, handle)
            handles.append(handle)

    def old():
        return sorted(key for key, path in paths.items() if os.stat(place(path)).st_mtime_ns <= OLD)
    try:
        wait_until(lambda: not old(), seconds=30)
    except AssertionError:
        pass
    environment.cell("files with the old time", [], old())
    for handle in handles:
        os.close(handle)
    mount = environment.remount(mount)
    environment.cell("files with the old time after mounting again", [], old())


def test_own_time_stays(environment):
    """A time that a program sets after the write and the rename is the program's, and stays."""
    mount = environment.mount()
    paths = []
    for number in range(20):
        path = mount / f"file{number}"
        handle = written(path)
        os.rename(path, path + " renamed")
        os.utime(handle, ns=(2 * OLD, 2 * OLD))
        os.close(handle)
        paths.append(path + " renamed")
    times = lambda: {os.stat(path).st_mtime_ns for path in paths}
    environment.cell("times set", {2 * OLD}, times())
    environment.remount(mount)
    environment.cell("times set, after mounting again", {2 * OLD}, times())


def test_untold_time_is_asked_for(environment):
    """What looks at attributes with the inode's lock held does not make them count as known: later looks ask again."""
    mount = environment.mount()
    in_a_row = 0
    for number in range(100):
        path = mount / f"file{number}"
        handle = written(path)
        change_mode(path, handle)
        in_a_row = in_a_row + 1 if os.fstat(handle).st_mtime_ns > OLD else 0
        os.close(handle)
        # A slow machine may be late now and then; an answer that is kept is the old one nearly every time.
        if in_a_row == 3:
            break
    environment.cell("new times seen at once, in a row", 3, in_a_row)


def test_write_after_truncation(environment):
    """The kernel keeps the time of a truncation for a while, and sends it before the time of the write, or at the close."""
    mount = environment.mount()
    for number, closes in enumerate((False, True)):
        path = mount / f"file{number}"
        write_file(path, b"old")
        set_class(path, "A")
        handle = os.open(path, os.O_WRONLY | os.O_TRUNC)
        time.sleep(0.05)
        start = time.time_ns()
        time.sleep(0.05)
        os.write(handle, b"new")
        if closes:
            os.close(handle)
        environment.cell(f"new time{', closed' * closes}", True, os.stat(path).st_mtime_ns > start)
        if not closes:
            os.close(handle)


def test_truncation_to_the_same_size(environment):
    """truncate(2) to the size that a file has moves its time, as on other file systems, and that time stays."""
    mount = environment.mount()
    for name in ("A", "B", "C", "D"):
        for size in (0, 5000):
            for is_open in (False, True):
                path = mount / f"{name}{size}{is_open}"
                write_file(path, b"x" * size)
                set_class(path, name)
                handle = os.open(path, os.O_RDWR) if is_open else None
                # The kernel may hold pages that it has not written.
                if is_open and size:
                    os.pwrite(handle, b"y", 7)
                os.utime(path, ns=(OLD, OLD))
                before = time.time_ns()
                os.truncate(path, size)
                told = os.stat(path)
                cell = f"{name}, {size} bytes, {'open' if is_open else 'closed'}"
                environment.cell(f"{cell}: moved", True, abs(told.st_mtime_ns - before) < 2 * 10 ** 9)
                environment.cell(f"{cell}: change time", True, told.st_ctime_ns >= told.st_mtime_ns - 10 ** 7)
                os.truncate(path, size)
                environment.cell(f"{cell}: moved again", True, os.stat(path).st_mtime_ns >= told.st_mtime_ns)
                if handle is not None:
                    os.close(handle)
                last = os.stat(path).st_mtime_ns
                environment.cell(f"{cell}: after the close", last, os.stat(path).st_mtime_ns)
                os.utime(path, ns=(OLD, OLD))
                environment.cell(f"{cell}: a program's own", OLD, os.stat(path).st_mtime_ns)
                os.truncate(path, size)
    times = {name: os.stat(mount / name).st_mtime_ns for name in os.listdir(mount.path)}
    environment.cell("none is old", [], [name for name, one in times.items() if one == OLD])
    mount = environment.remount(mount)
    environment.cell("in the store", times, {name: os.stat(mount / name).st_mtime_ns for name in times})
    os.truncate(mount / "C0False", 0)
    mount.lock()
    environment.cell("while locked", True, os.stat(mount / "C0False").st_mtime_ns > times["C0False"])
    os.utime(mount / "C0False", ns=(OLD, OLD))
    os.truncate(mount / "C0False", 0)
    environment.cell("truncated while locked", True, os.stat(mount / "C0False").st_mtime_ns > times["C0False"])
    environment.cell("a closed class", "EACCES", outcome(os.truncate, mount / "A0False", 0))
