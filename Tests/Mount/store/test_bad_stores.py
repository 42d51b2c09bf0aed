"""Missing resources: permission, space, the FUSE device, a suitable file system."""

import contextlib
import json
import os
import shutil

import harness
from refusals import FAILURE, UNSUPPORTED, digest, point, recovery


def test_backing_read_only(environment):
    volume = environment.volume()
    here = point(environment)
    done = harness.run("mount", "--bind", volume.path, volume.path, ok=False)
    if done.returncode != 0:
        raise harness.Skip("bind mounts are not permitted here")
    try:
        harness.run("mount", "-o", "remount,bind,ro", volume.path)
        done = harness.protectfs(*recovery(volume), volume.path, here, ok=False, env=volume.environment)
        environment.cell("backing store read-only", (FAILURE, 1), (done.returncode, len(done.stderr.strip().split("\n"))))
        assert "read-only" in done.stderr, done.stderr
        mount = environment.mount(volume, options=("ro",), path=here)
        environment.cell("with -o ro", 0, mount.result.returncode)
        mount.unmount()
    finally:
        harness.run("umount", volume.path)


def test_backing_full(environment):
    volume = environment.volume()
    store = point(environment)
    done = harness.run("mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", store, ok=False)
    if done.returncode != 0:
        raise harness.Skip("tmpfs cannot be mounted here")
    try:
        new = store + "/new"
        filler = os.open(store + "/filler", os.O_WRONLY | os.O_CREAT)
        while harness.outcome(os.write, filler, b"x" * 4096) == "works":
            pass
        os.close(filler)
        done = harness.protectfs("init", "--passphrase-file", volume.passphrase_file, new, ok=False, env=volume.environment)
        environment.cell("init on a full store", (FAILURE, 1), (done.returncode, len(done.stderr.strip().split("\n"))))
        environment.cell("nothing is left", False, os.path.exists(new))
        os.remove(store + "/filler")
        shutil.copytree(volume.path, new, symlinks=True)
        mount = environment.mount(harness.Volume(new, volume.data, volume.code_file, volume.passphrase_file))
        problem = harness.outcome(lambda: harness.write_file(mount / "big", b"x" * (1 << 20)))
        fsync = "works"
        if problem == "works":
            def sync():
                handle = os.open(mount / "big", os.O_RDWR)
                try:
                    os.fsync(handle)
                finally:
                    os.close(handle)
            fsync = harness.outcome(sync)
        environment.cell("writing to a full store", True, "ENOSPC" in (problem, fsync) or "EIO" in (problem, fsync))
        with contextlib.suppress(OSError):
            os.remove(mount / "big")
        mount.unmount(may_stay_open=True)
    finally:
        harness.run("umount", "-l", store)


def test_no_permission(environment):
    if os.geteuid() != 0:
        raise harness.Skip("only root can be somebody else")
    volume = environment.volume()
    here = point(environment)
    mine = point(environment)
    os.chown(mine, 65534, 65534)
    mount = environment.mount()
    os.chmod(volume.path, 0o700)
    run = point(environment)
    os.chmod(run, 0o700)
    os.chown(run, 65534, 65534)
    variables = {**volume.environment, "HOME": "/nonexistent", "XDG_STATE_HOME": environment.base + "/none",
                 "XDG_RUNTIME_DIR": run}

    def attempt(name, code, *words):
        def act():
            done = harness.protectfs(*words, ok=False, env=variables)
            lines = done.stderr.splitlines()
            if done.returncode != code or len(lines) != 1 or "permi" not in lines[0].lower():
                raise AssertionError(f"{done.returncode}: {done.stderr}")
        before = digest(volume.path)
        environment.cell(name, "works", harness.as_user(65534, act))
        environment.cell(f"{name}: nothing changed", (True, False), (
            digest(volume.path) == before, any(row[1] in (here, mine) for row in harness.mount_table())))

    attempt("info of a volume of somebody else", FAILURE, "info", volume.path)
    attempt("mount of a volume of somebody else", FAILURE, "mount", "--no-unlock", volume.path, mine)
    attempt("init where one may not write", FAILURE, "init", "--passphrase-file", volume.passphrase_file, here + "/new")
    for directory, directories, files in os.walk(os.path.dirname(volume.path)):
        for name in [directory] + [os.path.join(directory, one) for one in directories + files]:
            os.lchown(name, 65534, 65534)
    variables["XDG_STATE_HOME"] = volume.data
    attempt("mount at a place of somebody else", FAILURE, "mount", "--no-unlock", volume.path, here)
    attempt("lock of a mount of somebody else", FAILURE, "lock", mount.path)
    environment.cell("the other mount goes on", "unlocked", mount.state())


def test_unsuitable_store(environment):
    """A file system that cannot hold a volume: ramfs has no extended attributes."""
    volume = environment.volume()
    here, store = point(environment), point(environment)
    if harness.run("mount", "-t", "ramfs", "none", store, ok=False).returncode != 0:
        raise harness.Skip("ramfs cannot be mounted here")
    try:
        copy = store + "/copy"
        shutil.copytree(volume.path, copy, symlinks=True)
        there = harness.Volume(copy, volume.data, volume.code_file, volume.passphrase_file)
        for name, words in (("init", ["init", "--passphrase-file", volume.passphrase_file, store + "/new"]),
                            ("mount", [*recovery(volume), copy, here])):
            before = digest(copy)
            done = harness.protectfs(*words, ok=False, env=there.environment)
            environment.cell(f"{name} on ramfs", (UNSUPPORTED, 1, True), (
                done.returncode, len(done.stderr.splitlines()), "extended attributes" in done.stderr))
            environment.cell(f"{name}: nothing changed", (True, ["copy"]), (digest(copy) == before, os.listdir(store)))
    finally:
        harness.run("umount", store)


def test_no_device(environment):
    """Without /dev/fuse, in a mount namespace of its own."""
    volume = environment.volume()
    here = point(environment)
    script = 'mount -t tmpfs none /dev && exec "$@"'
    words = ["unshare", "--mount", "sh", "-c", script, "sh", harness.binary(), *recovery(volume), volume.path, here]
    done = harness.run(*words, ok=False, env=volume.environment)
    if "unshare" in done.stderr or "mount:" in done.stderr:
        raise harness.Skip("mount namespaces are not permitted here")
    environment.cell("/dev/fuse missing", (UNSUPPORTED, 1), (done.returncode, len(done.stderr.strip().split("\n"))))
    assert "/dev/fuse" in done.stderr


def test_small_blocks(environment):
    """ext4 with blocks smaller than a page of the volume: init and mount say so, and work."""
    if os.geteuid() != 0:
        raise harness.Skip("loop devices need root")
    for size in (1024, 2048, 4096):
        image, store = environment.new_path("image"), point(environment)
        with open(image, "wb") as file:
            file.truncate(32 << 20)
        try:
            harness.run("mkfs.ext4", "-q", "-F", "-b", str(size), image)
        except FileNotFoundError as error:
            raise harness.Skip("mkfs.ext4 is not installed") from error
        if harness.run("mount", "-t", "ext4", "-o", "loop", image, store, ok=False).returncode:
            raise harness.Skip("a loop device cannot be mounted here")
        mount = None
        try:
            data = environment.new_path("data")
            volume = harness.Volume(store + "/volume", data, environment.new_path("code"), environment.volume().passphrase_file)
            made = harness.protectfs("init", "--json", "--passphrase-file", volume.passphrase_file, volume.path,
                                     env=volume.environment)
            harness.write_file(volume.code_file, (json.loads(made.stdout)["recoveryCode"] + "\n").encode())
            wanted = 1 if size < 4096 else 0
            said = made.stderr.splitlines()
            environment.cell(f"blocks of {size}: init says so", (wanted, wanted),
                             (len(said), sum(f"blocks of {size} bytes" in line for line in said)))
            mount = environment.mount(volume)
            said = mount.result.stderr.splitlines()
            environment.cell(f"blocks of {size}: mount says so", (wanted, wanted),
                             (len(said), sum(f"blocks of {size} bytes" in line for line in said)))
            harness.write_file(mount / "file", harness.pattern(9000))
            environment.cell(f"blocks of {size}: it works", harness.pattern(9000), harness.read_file(mount / "file"))
            mount = environment.remount(mount, options=("ro",))
            environment.cell(f"blocks of {size}: nothing to say of reading", "", mount.result.stderr)
        finally:
            if mount and mount.is_mounted:
                mount.unmount()
            harness.run("umount", store)
