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
