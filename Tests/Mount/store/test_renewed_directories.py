"""A directory that another machine has removed and made again comes into a mounted store by rsync."""

import os
import shutil

import checks
import harness
from harness import outcome, pattern, read_file, run, wait_until, write_file

OURS, THEIRS = pattern(5000, seed=1), pattern(6000, seed=2)
LONG = "long " * 40
NAMES = ("d", "above/below/deep", LONG)


def elsewhere(environment, volume):
    """The volume on another machine."""
    place = environment.new_path("elsewhere")
    shutil.copytree(os.path.dirname(volume.path), place, symlinks=True)
    return harness.Volume(os.path.join(place, "volume"), os.path.join(place, "data"), volume.code_file,
                          volume.passphrase_file)


def make_again(environment, volume, names):
    """Removes directories and makes them again."""
    mount = environment.mount(volume)
    for name in names:
        shutil.rmtree(mount / name)
        os.mkdir(mount / name)
        write_file(mount / f"{name}/theirs", THEIRS)
        write_file(mount / f"{name}/{LONG}", THEIRS)
    mount.unmount()


def use(mount, name):
    """What the kernel and the daemon know of a directory afterwards: its names, and names that it does not have."""
    os.listdir(mount / name)
    for entry in ("ours", "theirs", "missing", LONG):
        outcome(os.stat, mount / f"{name}/{entry}")


def make_all(mount, name):
    """Every way in which a name is made."""
    write_file(mount / f"{name}/new", OURS)
    os.mkdir(mount / f"{name}/directory")
    write_file(mount / f"{name}/directory/inner", OURS)
    os.symlink("target", mount / f"{name}/symlink")
    os.mkfifo(mount / f"{name}/fifo")
    os.link(mount / "beside", mount / f"{name}/link")
    write_file(mount / "to move", OURS)
    os.rename(mount / "to move", mount / f"{name}/moved")
    write_file(mount / f"{name}/new {LONG}", OURS)


MADE = {"new", "directory", "symlink", "fifo", "link", "moved", f"new {LONG}"}


def test_made_again(environment):
    """What is made in it afterwards is there at once, after a remount and for the other machine, and fsck finds nothing."""
    volume = environment.volume()
    mount = environment.mount(volume)
    write_file(mount / "beside", OURS)
    for name in NAMES:
        os.makedirs(mount / name)
        write_file(mount / f"{name}/ours", OURS)
    os.sync()
    mount = environment.remount(mount)
    other = elsewhere(environment, volume)
    make_again(environment, other, NAMES)
    for name in NAMES:
        use(mount, name)
    # The late files and the state of the mount are no part of it.
    run("rsync", "-aHAX", "--delete", other.path + "/", volume.path + "/")
    for name in NAMES:
        make_all(mount, name)
    expected = MADE | {"theirs", LONG}
    for name in NAMES:
        seen = lambda: set(os.listdir(mount / name))
        wait_until(lambda: seen() == expected, what=f"{name[:10]}: {expected - seen()} are missing, {seen() - expected} are there")
        environment.cell(f"{name[:20]}: theirs", [THEIRS] * 2, [read_file(mount / f"{name}/{entry}") for entry in ("theirs", LONG)])
        environment.cell(f"{name[:20]}: what is gone", "ENOENT", outcome(read_file, mount / f"{name}/ours"))
    mount = environment.remount(mount)
    for name in NAMES:
        environment.cell(f"{name[:20]}: names later", expected, set(os.listdir(mount / name)))
        contents = [read_file(mount / f"{name}/{entry}") for entry in ("new", "directory/inner", "link", "moved", f"new {LONG}")]
        environment.cell(f"{name[:20]}: contents later", True, contents == [OURS] * 5)
    mount.unmount()
    environment.cell("fsck", [], checks.errors(volume))
