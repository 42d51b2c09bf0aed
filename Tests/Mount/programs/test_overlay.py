"""What overlayfs asks of an upper directory: whiteouts, and all that it keeps in trusted attributes."""

import ctypes
import os
import stat

from checks import errors
from harness import Skip, make_file, outcome, read_file, run, write_file
from namespaces import own_namespace

NOREPLACE, EXCHANGE, WHITEOUT = 1, 2, 4
AT_FDCWD = -100
LONG = "long " * 50


def renameat2(old, new, flags):
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.renameat2(AT_FDCWD, os.fsencode(old), AT_FDCWD, os.fsencode(new), flags) != 0:
        raise OSError(ctypes.get_errno(), "renameat2")


def shown(path):
    """Type, mode, owner and device of a path; None if nothing is there."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return None
    return stat.filemode(status.st_mode), status.st_uid, status.st_gid, status.st_rdev


def renamed(place):
    """What renames with whiteouts leave, step by step."""
    seen = []
    for name in ("file", "other", LONG, "over"):
        write_file(os.path.join(place, name), name.encode())
    os.mkdir(os.path.join(place, "directory"))
    for old, new, flags in (("file", "moved", WHITEOUT), ("other", "over", WHITEOUT), ("directory", "elsewhere", WHITEOUT),
                            (LONG, LONG[:200], WHITEOUT), (LONG[:200], "short", WHITEOUT), ("short", "over", WHITEOUT | NOREPLACE),
                            ("short", "free", WHITEOUT | NOREPLACE), ("missing", "any", WHITEOUT),
                            ("free", "over", WHITEOUT | EXCHANGE)):
        result = outcome(renameat2, os.path.join(place, old), os.path.join(place, new), flags)
        seen.append((old[:20], new[:20], flags, result, shown(os.path.join(place, old)), shown(os.path.join(place, new))))
    os.mknod(os.path.join(place, "made"), stat.S_IFCHR, 0)
    os.link(os.path.join(place, "made"), os.path.join(place, "linked"))
    seen.append((shown(os.path.join(place, "made")), os.stat(os.path.join(place, "linked")).st_nlink))
    os.unlink(os.path.join(place, "file"))
    write_file(os.path.join(place, "file"), b"again")
    seen.append((sorted(os.listdir(place)), [read_file(os.path.join(place, name)) for name in ("over", "moved", "file")]))
    return seen


def test_whiteouts(environment):
    """renameat2 with RENAME_WHITEOUT leaves what it leaves on the file system below."""
    below = environment.new_path("below")
    os.mkdir(below)
    probe = outcome(lambda: (write_file(below + "/probe", b""), renameat2(below + "/probe", below + "/new", WHITEOUT)))
    if probe != "works":
        raise Skip(f"the file system of the tests has no whiteouts: {probe}")
    place = environment.new_path("place")
    os.mkdir(place)
    mount = environment.mount()
    os.mkdir(mount / "place")
    for step, (expected, actual) in enumerate(zip(renamed(place), renamed(mount / "place"))):
        environment.cell(f"[step {step}]", expected, actual)
    mount = environment.remount(mount)
    environment.cell("[after a remount]", sorted(os.listdir(place)), sorted(os.listdir(mount / "place")))
    mount.unmount()
    environment.cell("[errors]", [], errors(mount.volume))


def tree(place):
    """Everything below a directory, without inode numbers and times."""
    found = {}
    for directory, directories, files in os.walk(place):
        for name in directories + files:
            path = os.path.join(directory, name)
            status = os.lstat(path)
            content = os.readlink(path) if os.path.islink(path) else None if os.path.isdir(path) else read_file(path)
            found[os.path.relpath(path, place)] = (stat.filemode(status.st_mode), status.st_uid, status.st_gid, content)
    return found


def worked(base):
    """Work on an overlay, and what is in it step by step."""
    merged, seen = os.path.join(base, "merged"), []
    at = lambda name: os.path.join(merged, name)
    write_file(at("lower"), b"changed")
    os.unlink(at("removed"))
    os.rename(at("moved"), at("new name"))
    os.chmod(at("directory/inner"), 0o600)
    seen.append(tree(merged))
    run("rm", "-r", at("gone"))
    os.mkdir(at("gone"))
    write_file(at("gone/new"), b"new")
    seen.append(tree(merged))
    os.mkdir(at("made"))
    write_file(at("made/file"), b"made")
    os.rename(at("made"), at("renamed"))
    os.link(at("renamed/file"), at("hard link"))
    os.lchown(at("link"), 12, 34)
    seen.append(tree(merged))
    run("rm", "-r", at("again"))
    os.mkdir(at("again"))
    seen.append(outcome(os.rename, at("directory"), at("elsewhere")))
    handle = os.open(merged, os.O_TMPFILE | os.O_RDWR, 0o600)
    os.write(handle, b"nameless")
    # With a directory Python calls linkat(2) with AT_SYMLINK_FOLLOW.
    os.link(f"/proc/self/fd/{handle}", at("named"), src_dir_fd=handle, follow_symlinks=True)
    os.close(handle)
    seen.append(tree(merged))
    return seen


def overlaid(base, lower):
    """Mounts an overlay with its upper and work directories in `base`, works on it, and mounts it again."""
    for name in ("upper", "work", "merged"):
        os.mkdir(os.path.join(base, name))
    options = f"lowerdir={lower},upperdir={base}/upper,workdir={base}/work"
    run("mount", "-t", "overlay", "overlay", "-o", options, base + "/merged")
    try:
        seen = worked(base)
    finally:
        run("umount", base + "/merged")
    run("mount", "-t", "overlay", "overlay", "-o", options, base + "/merged")
    seen.append(tree(base + "/merged"))
    run("umount", base + "/merged")
    return seen


def test_upper_directory(environment):
    """An overlay with its upper directory on the mount does what one on ext4 does."""
    own_namespace()
    with open("/proc/filesystems", encoding="ascii") as known:
        if "overlay" not in known.read().split():
            raise Skip("this kernel has no overlayfs")
    lower = environment.new_path("lower")
    for name in ("directory", "gone/inner", "again/inner"):
        os.makedirs(os.path.join(lower, name))
    for name in ("lower", "removed", "moved", "directory/inner", "gone/inner/file"):
        write_file(os.path.join(lower, name), name.encode())
    os.symlink("target", os.path.join(lower, "link"))
    below = environment.new_path("below")
    os.mkdir(below)
    mount = environment.mount()
    make_file(mount / "private", "A", b"private")
    for step, (expected, actual) in enumerate(zip(overlaid(below, lower), overlaid(mount.path, lower))):
        environment.cell(f"[step {step}]", expected, actual)
    mount.unmount()
    environment.cell("[errors]", [], errors(mount.volume))
