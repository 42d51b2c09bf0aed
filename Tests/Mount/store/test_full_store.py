"""A store without space: a program that writes learns it from write(2), and nothing reported as written is missing."""

import contextlib
import errno
import os
import shutil
import time

import harness
from checks import errors
from stores import Store

APPEND = 26_901
BLOCK = 64 << 10
# More than any store here has, and than the kernel keeps dirty.
TOO_MUCH = 4 << 30


@contextlib.contextmanager
def small(environment, size):
    """A volume on a tmpfs of that size."""
    store, host = environment.new_path("store"), environment.volume()
    os.makedirs(store)
    done = harness.run("mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", store, ok=False)
    if done.returncode != 0:
        raise harness.Skip("tmpfs cannot be mounted here")
    try:
        shutil.copytree(host.path, store + "/volume", symlinks=True)
        yield store, harness.Volume(store + "/volume", host.data, host.code_file, host.passphrase_file)
    finally:
        harness.run("umount", "-l", store)


def write_on(handle, block, most):
    """Writes until an error or `most` bytes; gives the bytes that were accepted and the error's name."""
    done = 0
    while done < most:
        try:
            done += os.write(handle, block)
        except OSError as error:
            return done, errno.errorcode[error.errno]
    return done, None


def keep_few_dirty_pages(path):
    """Has the kernel hold a program up when more than this waits to be written."""
    device = os.stat(path).st_dev
    with contextlib.suppress(OSError), open(f"/sys/class/bdi/{os.major(device)}:{os.minor(device)}/max_bytes", "w",
                                            encoding="ascii") as file:
        file.write(str(64 << 20))


def is_part(page, written):
    """Whether a page is what was written, zeros, or one of them up to some byte and then the other."""
    if page in (written, bytes(len(page))):
        return True
    data = page.rstrip(b"\0")
    hole = len(page) - len(page.lstrip(b"\0"))
    return written.startswith(data) or written[hole:] == page[hole:]


def test_endless_writer(environment):
    """A file that was opened while there was space: write(2) fails soon after the store is full. With --mode full the kernel
    may have gigabytes of it in memory by then, and with each class."""
    for letter in {"quick": "C", "usual": "AC", "full": "ABCD"}[environment.mode]:
        with small(environment, "192m") as (_, volume):
            mount = environment.mount(volume)
            if environment.mode != "full":
                keep_few_dirty_pages(mount.path)
            harness.write_file(mount / "file", b"")
            harness.set_class(mount / "file", letter)
            handle = os.open(mount / "file", os.O_WRONLY)
            block = harness.pattern(1 << 20)
            done, error = write_on(handle, block, TOO_MUCH)
            environment.cell(f"{letter}: what write says", "ENOSPC", error)
            # It may be told then, or was by write(2).
            harness.outcome(os.close, handle)
            print(f"        class {letter}: {done >> 20} MiB accepted of a store of 192 MiB", flush=True)
            again = environment.remount(mount)
            content = harness.read_file(again / "file")
            # Pages that the store has refused may be holes, as on ext4; of a page in two blocks of the store, a part.
            wrong = [at for at in range(0, len(content) - harness.PAGE, harness.PAGE)
                     if not is_part(content[at:at + harness.PAGE], block[at % len(block):][:harness.PAGE])]
            environment.cell(f"{letter}: what is there is what was written", [], wrong[:3])
            again.unmount()


def test_shell_appends(environment):
    """A shell ignores what close(2) says: each append that it reports as done is there."""
    for size in ("4m", "100m"):
        with small(environment, size) as (store, volume):
            mount = environment.mount(volume)
            text = environment.new_path("text")
            harness.write_file(text, harness.pattern(APPEND - 1).replace(b"\n", b".") + b"\n")
            if size == "100m":
                free = os.statvfs(store)
                filler = os.open(store + "/filler", os.O_WRONLY | os.O_CREAT)
                os.posix_fallocate(filler, 0, free.f_bavail * free.f_frsize - (5 << 20))
                os.close(filler)
            script = f'text=$(cat {text}); n=0; while [ $n -lt 1000 ] && echo "$text" >> "$1"; do n=$((n + 1)); done; echo $n'
            done = harness.run("sh", "-c", script, "sh", mount / "log", ok=False)
            count = int(done.stdout)
            environment.cell(f"{size}: the shell is told", True, 0 < count < 1000)
            again = environment.remount(mount)
            content = harness.read_file(again / "log")
            wanted = harness.read_file(text)
            environment.cell(f"{size}: appends that were reported and are there", (count, True),
                             (len(content) // APPEND, content.startswith(wanted * count)))
            again.unmount()
            environment.cell(f"{size}: errors that fsck finds", [], errors(volume))


def appender(path, number, report):
    """Appends blocks until an error; reports the length that close(2) or fsync(2) has promised."""
    promised = 0
    for turn in range(2000):
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        length = os.fstat(handle).st_size
        try:
            for _ in range(4):
                length += os.write(handle, bytes([number]) * BLOCK)
            if turn % 2:
                os.fsync(handle)
        except OSError:
            with contextlib.suppress(OSError):
                os.close(handle)
            break
        try:
            os.close(handle)
        except OSError:
            break
        promised = length
    os.write(report, b"%d %d\n" % (number, promised))


def fill(environment, mount, label):
    """Programs that append until they are told; gives the promised lengths."""
    read_end, write_end = os.pipe()
    children = []
    for number in range(1, 5):
        child = os.fork()
        if child == 0:
            try:
                appender(mount / f"file{number}", number, write_end)
            finally:
                os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)
    os.close(write_end)
    with os.fdopen(read_end) as lines:
        promised = dict(tuple(map(int, line.split())) for line in lines)
    environment.cell(f"{label}: every program was told", 4, len(promised))
    return promised


def compare(environment, mount, promised, label):
    for number, length in promised.items():
        content = harness.read_file(mount / f"file{number}")
        environment.cell(f"{label}: what program {number} was promised", (True, True),
                         (len(content) >= length, content[:length] == bytes([number]) * length))


def test_promises(environment):
    """Programs that close or sync what they write: everything promised is there after a remount, and space comes back."""
    with small(environment, "160m") as (_, volume):
        mount = environment.mount(volume)
        kept = os.open(mount / "kept", os.O_RDWR | os.O_CREAT, 0o644)
        os.write(kept, b"before")
        os.fsync(kept)  # Each program of `fill` flushes it when it ends; the store may be full then.
        promised = fill(environment, mount, "ENOSPC")
        print(f"        {sum(promised.values()) >> 20} MiB promised of 160", flush=True)
        freed = min(promised)
        os.remove(mount / f"file{freed}")
        del promised[freed]
        time.sleep(1.2)  # StoreSpace.retry
        environment.cell("a handle from before, with space again", "works", harness.outcome(os.write, kept, b" and after"))
        environment.cell("its fsync", "works", harness.outcome(os.fsync, kept))
        os.close(kept)
        again = environment.remount(mount, may_stay_open=True)
        compare(environment, again, promised, "ENOSPC")
        environment.cell("the handle from before", b"before and after", harness.read_file(again / "kept"))
        again.unmount()
        environment.cell("errors that fsck finds", [], errors(volume))


def test_quota(environment):
    """The same with EDQUOT, by a Btrfs quota group, which statfs(2) does not show."""
    if os.geteuid() != 0:
        raise harness.Skip("loop devices need root")
    below = Store(environment, "btrfs")
    try:
        for words in (["quota", "enable", below.backing], ["qgroup", "limit", "48M", "0/5", below.backing]):
            done = harness.run("btrfs", *words, ok=False)
            if done.returncode != 0:
                raise harness.Skip(f"no Btrfs quota here: {done.stderr.strip()}")
        mount = below.mount()
        handle = os.open(mount / "more", os.O_WRONLY | os.O_CREAT, 0o644)
        promised = fill(environment, mount, "EDQUOT")
        print(f"        {sum(promised.values()) >> 20} MiB promised of 48", flush=True)
        _, error = write_on(handle, harness.pattern(1 << 20), TOO_MUCH)
        environment.cell("what write says", "EDQUOT", error)
        harness.outcome(os.close, handle)
        mount.unmount(may_stay_open=True)
        harness.run("btrfs", "qgroup", "limit", "none", "0/5", below.backing)
        again = below.mount()
        compare(environment, again, promised, "EDQUOT")
        again.unmount()
        below.check("EDQUOT")
    finally:
        below.close()
