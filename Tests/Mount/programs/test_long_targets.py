"""Targets of symbolic links up to the longest that Linux allows: those that the store's link has no room for."""

import os

from checks import errors, kinds, report
from harness import outcome, read_file, run, write_file
from reader import flip
from stores import store

LENGTHS = (1, 491, 509, 3030, 3031, 4000, 4095)


def target(length):
    """A path of so many bytes, other ones for each length."""
    return (f"{length}/" + "directory/" * 410)[:length]


def overflow(volume):
    """The names in the volume's directory of overflow objects."""
    place = os.path.join(volume.path, ".protectfs.overflow")
    return sorted(os.listdir(place)) if os.path.isdir(place) else []


def use(environment, mount, below):
    """Makes links on both sides, and compares them after each change."""
    results = {}
    for place in (below, mount.path):
        def at(name, place=place):
            return os.path.join(place, name)

        seen = results[place] = []
        os.mkdir(at("directory"))
        for length in (*LENGTHS, 4096):
            seen.append(outcome(lambda: os.symlink("x" * length if length == 4096 else target(length), at(f"link {length}"))))
        os.link(at("link 4095"), at("directory/second"), follow_symlinks=False)
        os.unlink(at("link 4095"))
        os.rename(at("link 4000"), at("directory/" + "n" * 250))
        os.symlink(target(4001), at("replaced"))
        os.symlink("short", at("replacing"))
        os.rename(at("replacing"), at("replaced"))
        os.symlink(target(4002), at("second replaced"))
        os.link(at("second replaced"), at("its other name"), follow_symlinks=False)
        os.symlink(target(4003), at("replacing"))
        os.rename(at("replacing"), at("second replaced"))
        os.symlink(target(4004), at("removed"))
        os.unlink(at("removed"))
    for one, other in zip(*results.values()):
        environment.cell("[made]", one, other)
    return compare(environment, "now", mount, below)


def compare(environment, label, mount, below):
    def links(place):
        found = {}
        for directory, names, files in os.walk(place):
            for path in (os.path.join(directory, name) for name in names + files):
                if os.path.islink(path):
                    found[os.path.relpath(path, place)] = (os.readlink(path), os.lstat(path).st_size, os.lstat(path).st_nlink)
        return found

    expected, seen = links(below), links(mount.path)
    environment.cell(f"[{label}] links", expected, seen)
    return seen


def test_every_length(environment):
    mount = environment.mount()
    below = environment.new_path("below")
    os.mkdir(below)
    seen = use(environment, mount, below)
    long = {os.lstat(mount / path).st_ino for path, (words, _, _) in seen.items() if len(words) > 3030}
    environment.cell("overflow objects: one for each long link", len(long), len(overflow(mount.volume)))
    environment.cell("the root shows none of them", [], [name for name in os.listdir(mount.path) if "overflow" in name])
    run("cp", "-a", mount.path + "/.", environment.new_path("copy"))
    mount.lock()
    compare(environment, "locked", mount, below)
    mount.unlock()
    mount = environment.remount(mount)
    compare(environment, "after a remount", mount, below)
    environment.cell("lstat before readlink", 3031, os.lstat(mount / "link 3031").st_size)
    mount.unmount()
    environment.cell("fsck", (0, []), (lambda found: (found[0], kinds(found[1])))(report(mount.volume)))
    mount = environment.mount(mount.volume)
    run("find", mount.path, "-type", "l", "-delete")
    environment.cell("what is left when all links are removed", [], overflow(mount.volume))


def test_other_stores(environment):
    """XFS has room for 1,023 bytes in a link, Btrfs for less than a page."""
    for kind in ("ext4", "xfs", "btrfs"):
        with store(environment, kind) as disk:
            mount = disk.mount()
            for length in (*LENGTHS, 700, 767, 768, 1023, 1024):
                os.symlink(target(length), mount / f"link {length}")
            environment.cell(f"[{kind}] links", [], [length for length in LENGTHS if os.readlink(mount / f"link {length}") != target(length)
                                                     or os.lstat(mount / f"link {length}").st_size != length])


def test_damage_and_orphans(environment):
    mount = environment.mount()
    write_file(mount / "file", b"file")
    os.symlink(target(4000), mount / "link")
    mount.unmount()
    place = os.path.join(mount.volume.path, ".protectfs.overflow")
    environment.cell("mode of the directory", (0o40700, 0o100600),
                     (os.stat(place).st_mode, os.stat(os.path.join(place, overflow(mount.volume)[0])).st_mode))
    orphan = "A" * 22
    write_file(os.path.join(place, orphan), b"left by a crash")
    code, answer = report(mount.volume)
    environment.cell("an orphan", (0, ["orphan-overflow"], [f".protectfs.overflow/{orphan}"]),
                     (code, kinds(answer), [one["backingPath"] for one in answer["findings"]]))
    # What refers to it may be where a check of the file system below has put it.
    elsewhere = os.path.join(mount.volume.path, "lost+found")
    os.mkdir(elsewhere)
    write_file(os.path.join(elsewhere, "#12"), b"")
    environment.cell("not an orphan beside what was found", ["foreign"], kinds(report(mount.volume, "--repair")[1]))
    os.unlink(os.path.join(elsewhere, "#12"))
    code, answer = report(mount.volume)
    environment.cell("nothing was found", ["foreign", "orphan-overflow"], sorted(kinds(answer)))
    os.rmdir(elsewhere)
    code, answer = report(mount.volume, "--repair")
    environment.cell("repaired", (1, ["orphan-overflow"], 1), (code, kinds(answer), len(overflow(mount.volume))))
    environment.cell("the orphan is kept", b"left by a crash", read_file(os.path.join(mount.volume.path, ".protectfs.lost+found/1")))
    mount = environment.mount(mount.volume)
    environment.cell("the link", target(4000), os.readlink(mount / "link"))
    mount.unmount()
    flip(os.path.join(place, overflow(mount.volume)[0]), 100)
    environment.cell("damage", ["symlink"], [one["kind"] for one in errors(mount.volume)])
    mount = environment.mount(mount.volume)
    environment.cell("readlink", "EIO", outcome(os.readlink, mount / "link"))
    environment.cell("its length", 4000, os.lstat(mount / "link").st_size)
    os.symlink("other", mount / "other")
    environment.cell("unlink", "works", outcome(os.unlink, mount / "link"))
    mount.unmount()
    environment.cell("nothing is left", ([], 0), (overflow(mount.volume), report(mount.volume)[0]))
