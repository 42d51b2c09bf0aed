"""A clock that is wrong, as on a board without a battery, and files whose times are as extreme as the store takes them."""

import os
import shutil

import harness
from harness import Skip, protectfs, read_file, run, write_file

#: Row -> seconds since 1970.
CLOCKS = {"1969": -1_000_000, "1901": -(1 << 31), "1970": 0, "2106": 1 << 32, "2554": 18_446_744_073, "2600": 19_900_000_000}

TIMES = (-(1 << 62), -(1 << 40), -(1 << 31), -1, 0, (1 << 31) - 1, 1 << 32, 1 << 40, 1 << 62)


def compiled(environment):
    if not shutil.which("cc"):
        raise Skip("there is no C compiler")
    library = environment.new_path("other_clock")
    run("cc", "-shared", "-fPIC", "-O1", "-o", library, os.path.join(harness.REPOSITORY, "Tests/Mount/support/other_clock.c"))
    return library


def test_wrong_clocks(environment):
    """A volume is made, mounted, written, locked, unlocked, checked and mounted again by a clock of any year."""
    library = compiled(environment)
    for row, seconds in CLOCKS.items():
        place = environment.new_path("clock")
        os.makedirs(place + "/mount", mode=0o500)
        volume, mount, secret = place + "/volume", place + "/mount", place + "/passphrase"
        write_file(secret, b"correct horse battery staple\n")
        env = {**os.environ, "XDG_STATE_HOME": place + "/data", "LD_PRELOAD": library, "CLOCK_SECONDS": str(seconds)}
        key = ("--passphrase-file", secret)
        codes = {}
        for words in (["init", *key, volume], ["mount", *key, volume, mount], ["status", mount], ["class", "set", "complete", mount],
                      ["write"], ["lock", mount], ["unlock", *key, mount], ["status", "--json", mount],
                      ["slot", "list", volume], ["unmount", mount], ["fsck", *key, volume], ["info", volume],
                      ["mount", *key, volume, mount], ["read"], ["unmount", mount]):
            if words == ["write"]:
                write_file(mount + "/file", b"written")
                continue
            if words == ["read"]:
                environment.cell(f"{row}: read", b"written", read_file(mount + "/file"))
                continue
            done = protectfs(*words, env=env, ok=False)
            if done.returncode != 0:
                codes[words[0]] = (done.returncode, done.stderr[-200:])
        environment.cell(f"{row}: commands", {}, codes)


def test_extreme_times(environment):
    """Files and directories whose times the store has as they are: they are shown, read, checked, listed and imported."""
    store = environment.new_path("store")
    os.makedirs(store)
    if os.geteuid() == 0:
        run("mount", "-t", "tmpfs", "times", store)
    try:
        volume = environment.volume()
        shutil.move(volume.path, store + "/volume")
        volume.path = store + "/volume"
        mount = environment.mount(volume)
        taken = {}
        for number, seconds in enumerate(TIMES):
            for kind in ("file", "directory"):
                path = mount / f"{kind}{number}"
                write_file(path, b"x") if kind == "file" else os.mkdir(path)
                with_time = run("touch", "-d", f"@{seconds}", path, ok=False)
                if with_time.returncode == 0:
                    taken[path] = int(os.stat(path).st_mtime)
        environment.cell("some are extreme", True, len({time for time in taken.values() if abs(time) > 1 << 35}) >= 2)
        mount.lock()
        mount.unlock()
        environment.remount(mount)
        environment.cell("shown after a mount again", taken, {path: int(os.stat(path).st_mtime) for path in taken})
        for path in taken:
            if os.path.isfile(path):
                environment.cell(f"read {os.path.basename(path)}", b"x", read_file(path))
                os.utime(path)
                write_file(path, b"y")
            else:
                os.listdir(path)
        mount.unmount()
        # Below as well: the daemon looks at these times when it decides about access times.
        for name in os.listdir(volume.path):
            if not name.startswith("."):
                run("touch", "-a", "-d", f"@{TIMES[0]}", os.path.join(volume.path, name), ok=False)
        mount = environment.mount(volume, path=mount.path)
        environment.cell("read after that", {b"y"}, {read_file(path) for path in taken if os.path.isfile(path)})
        for path in taken:
            if os.path.isdir(path):
                os.listdir(path)
        mount.unmount()
        done = protectfs("fsck", "--recovery-file", volume.code_file, volume.path, env=volume.environment, ok=False)
        environment.cell("fsck", 0, done.returncode)
    finally:
        for mounted in environment.mounts:
            if mounted.is_mounted:
                mounted.unmount()
        if os.geteuid() == 0:
            run("umount", store)
