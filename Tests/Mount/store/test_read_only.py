"""Read-only mounts and read-only stores: all that reads works, and nothing at all is written to the store."""

import hashlib
import mmap
import os
import stat
import subprocess

import harness
from harness import PAGE, Skip, outcome, pattern, read_file, run, set_class
from namespaces import own_namespace

LONG = "a name that is longer than its encoding may be " * 5


def fill(mount):
    """Objects of every kind; gives what a program sees of them."""
    for letter in "ABCD":
        os.makedirs(mount / f"{letter}/below")
        set_class(mount / letter, letter)
        for name, content in (("file", pattern(70_000)), ("empty", b""), (f"below/{LONG}", b"long")):
            harness.write_file(mount / f"{letter}/{name}", content)
        os.setxattr(mount / f"{letter}/file", "user.one", b"value" * 10)
        with open(mount / f"{letter}/sparse", "wb") as file:
            file.truncate(100 * PAGE)
            file.seek(50 * PAGE)
            file.write(b"middle")
        os.link(mount / f"{letter}/file", mount / f"{letter}/linked")
        os.symlink("file", mount / f"{letter}/symlink")
        os.mkfifo(mount / f"{letter}/fifo")
    return seen(mount.path)


def seen(place):
    """All that reading calls tell of a mount."""
    found = {}
    for directory, directories, files in os.walk(place):
        for name in directories + files:
            path = os.path.join(directory, name)
            status = os.lstat(path)
            facts = [stat.filemode(status.st_mode), status.st_nlink, status.st_mtime_ns // 10 ** 9]
            # A directory's size is that of the store's file system.
            facts += [] if stat.S_ISDIR(status.st_mode) else [status.st_size]
            if stat.S_ISLNK(status.st_mode):
                facts.append(os.readlink(path))
            elif stat.S_ISREG(status.st_mode):
                facts += [read_file(path), mapped(path), {key: os.getxattr(path, key) for key in os.listxattr(path)}]
            found[os.path.relpath(path, place)] = facts
    return found


def mapped(path):
    with open(path, "rb") as file:
        if os.fstat(file.fileno()).st_size == 0:
            return b""
        with mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as memory:
            return bytes(memory[:PAGE])


def refusals(mount):
    """Every call that would change something; none may succeed."""
    path, directory = mount / "C/file", mount / "C"
    calls = {
        "open for writing": lambda: os.open(path, os.O_RDWR), "create": lambda: os.open(mount / "new", os.O_CREAT | os.O_WRONLY),
        "O_TRUNC": lambda: os.open(path, os.O_RDONLY | os.O_TRUNC), "O_TMPFILE": lambda: os.open(directory, os.O_TMPFILE | os.O_RDWR),
        "truncate": lambda: os.truncate(path, 0), "mkdir": lambda: os.mkdir(mount / "new"), "rmdir": lambda: os.rmdir(mount / "C/below"),
        "unlink": lambda: os.unlink(path), "rename": lambda: os.rename(path, mount / "new"), "link": lambda: os.link(path, mount / "new"),
        "symlink": lambda: os.symlink("x", mount / "new"), "mknod": lambda: os.mkfifo(mount / "new"),
        "chmod": lambda: os.chmod(path, 0o600), "chown": lambda: os.chown(path, 1, 1), "utimens": lambda: os.utime(path, (1, 1)),
        "setxattr": lambda: os.setxattr(path, "user.new", b""), "removexattr": lambda: os.removexattr(path, "user.one"),
        "class": lambda: set_class(path, "A"), "default": lambda: set_class(directory, "A"),
    }
    return {name: result for name, call in calls.items() if (result := outcome(call)) != "EROFS"}


def snapshot(place):
    """Every object of a store with its content, attributes and times. Access times are the store's own: a symlink has no way to
    be read without."""
    found = {}
    for directory, directories, files in os.walk(place):
        for name in [""] + directories + files:
            path = os.path.join(directory, name)
            status = os.lstat(path)
            content = None
            if stat.S_ISREG(status.st_mode):
                content = hashlib.sha256(read_file(path)).hexdigest()
            elif stat.S_ISLNK(status.st_mode):
                content = os.readlink(path)
            attributes = [] if stat.S_ISLNK(status.st_mode) else sorted((key, os.getxattr(path, key)) for key in os.listxattr(path))
            found[os.path.relpath(path, place)] = (content, attributes, tuple(status)[:7], status.st_mtime_ns, status.st_ctime_ns,
                                                   status.st_blocks)
    return found


def used(environment, name, mount, expected):
    """All reads in every state, and every refusal."""
    for time in ("reads", "again, from the cache"):
        now = seen(mount.path)
        environment.cell(f"[{name}: {time}]", [], [path for path in expected if now.get(path) != expected[path]])
    environment.cell(f"[{name}: what was not refused]", {}, refusals(mount))
    mount.command("class", "list", "-R", mount.path)
    mount.command("status", mount.path)
    handle = os.open(mount / "A/file", os.O_RDONLY)
    os.fsync(handle)
    mount.lock()
    environment.cell(f"[{name}: locked]", ("EACCES", "works"),
                     (outcome(os.pread, handle, 10, 0), outcome(lambda: read_file(mount / "C/file"))))
    mount.unlock()
    environment.cell(f"[{name}: unlocked]", True, os.pread(handle, 100, 0) == pattern(70_000)[:100])
    os.close(handle)
    environment.cell(f"[{name}: df]", True, os.statvfs(mount.path).f_blocks > 0)


def test_nothing_is_written(environment):
    """The store is the same after a read-only mount and a check: contents, attributes, times of change."""
    own_namespace()
    mount = environment.mount()
    expected = fill(mount)
    mount.unmount()
    before = snapshot(mount.volume.path)
    mount = environment.mount(mount.volume, options=["ro"], path=mount.path)
    used(environment, "ro", mount, expected)
    mount.unmount()
    run(harness.binary(), "fsck", "--read-only", "--recovery-file", mount.volume.code_file, mount.volume.path,
        env=mount.volume.environment)
    after = snapshot(mount.volume.path)
    environment.cell("[ro: objects]", sorted(before), sorted(after))
    changed = {path: [index for index, (one, other) in enumerate(zip(before[path], after[path])) if one != other]
               for path in before if before[path] != after.get(path)}
    environment.cell("[ro: what changed]", {}, changed)


def test_read_only_store(environment):
    """A store on a read-only mount serves all reads, and refuses to be mounted for writing in one sentence."""
    own_namespace()
    mount = environment.mount()
    expected = fill(mount)
    mount.unmount()
    run("mount", "--bind", mount.volume.path, mount.volume.path)
    run("mount", "-o", "remount,bind,ro", mount.volume.path)
    refused = environment.mount(mount.volume, path=mount.path, ok=False)
    if refused.result.returncode == 0:
        environment.cell("[mounted without ro: what was not refused]", {}, refusals(refused))
        refused.unmount()
    else:
        environment.cell("[mounted without ro]", True, "ead-only" in refused.result.stderr)
    mount = environment.mount(mount.volume, options=["ro"], path=mount.path)
    used(environment, "read-only store", mount, expected)
    mount.unmount()
    run("umount", mount.volume.path)


def test_read_only_image(environment):
    """A store in a read-only image of a disk: not one byte of the image changes."""
    own_namespace()
    mount = environment.mount()
    expected = fill(mount)
    mount.unmount()
    image, place = environment.new_path("image"), environment.new_path("disk")
    made = run("mkfs.ext4", "-q", "-O", "^has_journal", image, "64M", ok=False)
    os.mkdir(place)
    if made.returncode != 0 or run("mount", "-o", "loop", image, place, ok=False).returncode != 0:
        raise Skip(f"no image can be made or mounted: {made.stderr.strip()}")
    # mkfs's own copy has times of whole seconds only.
    run("cp", "-a", mount.volume.path, os.path.join(place, "volume"))
    run("umount", place)
    run("mount", "-o", "loop,ro", image, place)
    digest = subprocess.run(["sha256sum", image], capture_output=True, check=True, text=True).stdout
    volume = harness.Volume(os.path.join(place, "volume"), mount.volume.data, mount.volume.code_file, mount.volume.passphrase_file)
    reader = environment.mount(volume, options=["ro"], path=mount.path)
    used(environment, "image", reader, expected)
    reader.unmount()
    run("umount", place)
    environment.cell("[image: its bytes]", digest, subprocess.run(["sha256sum", image], capture_output=True, check=True, text=True).stdout)
