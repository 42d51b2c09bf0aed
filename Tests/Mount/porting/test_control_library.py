"""The library VolumeControl on real mounts: a program of its own finds mounts, locks, unlocks, listens, mounts and unmounts."""

import os
import subprocess

from harness import PASSPHRASE, PATIENCE, binary, make_file, program, run, wait_until
from talk import Program


def control(*words, secret="", environment=None, ok=True):
    """One call of the library; what it says."""
    return run(program("porting-control"), *words, input=secret, ok=ok,
               env={**(environment or os.environ)}).stdout.strip()


def refused(*words, **more):
    return control(*words, ok=False, **more)


def test_finding(environment):
    mount = environment.mount()
    both = f"{mount.path} {mount.volume.path}"
    os.makedirs(mount / "some/where")
    environment.cell("[all mounts of the user]", True, both in control("all").splitlines())
    environment.cell("[at a mount point]", both, control("at", mount.path))
    environment.cell("[not at a directory of it]", f"error {mount / 'some'}: no protectfs volume is mounted there",
                     refused("at", mount / "some"))
    environment.cell("[containing a path]", "unlocked false 0 0", control("status", mount / "some/where"))
    environment.cell("[elsewhere]", f"error {environment.base}: no protectfs volume is mounted there",
                     refused("status", environment.base))
    mount.crash()
    environment.cell("[after the end of its daemon]", True, refused("at", mount.path).startswith("error"))


def test_locking(environment):
    mount = environment.mount(unlock=False)
    code = open(mount.volume.code_file, encoding="ascii").read()
    environment.cell("[before the first unlock]", "before-first-unlock false 0 0", control("status", mount.path))
    environment.cell("[a wrong code]", "error the passphrase is wrong",
                     refused("unlock", mount.path, "recovery", secret="AAAA-" + code))
    environment.cell("[counted]", "before-first-unlock false 0 1", control("status", mount.path))
    environment.cell("[an empty one]", True,
                     refused("unlock", mount.path, "recovery", secret="\n").startswith("error the passphrase is empty"))
    environment.cell("[a long one]", True,
                     refused("unlock", mount.path, "passphrase", secret="x" * 5000).startswith("error the passphrase is empty"))
    environment.cell("[unlocked by the recovery code]", "true", control("unlock", mount.path, "recovery", secret=code))
    environment.cell("[again: nothing to do]", "false", control("unlock", mount.path, "recovery", secret=code))
    make_file(mount / "a", "A", b"content")
    # The kernel tells the daemon of a close after close(2) has returned.
    wait_until(lambda: not any(mount.status()["openHandles"].values()), what="the end of the handles")
    with open(mount / "a", "rb"):
        environment.cell("[an open file]", "unlocked false 1 0", control("status", mount.path))
        environment.cell("[locked, and it is cut off]", "locked false 1", control("lock", mount.path))
    environment.cell("[locked already]", "locked true 0", control("lock", mount.path))
    environment.cell("[the passphrase, from a line]", "true",
                     control("unlock", mount.path, "passphrase", secret=PASSPHRASE + "\nand more"))
    mount.lock()
    environment.cell("[the passphrase, from a field's bytes]", "true", control("copied", mount.path, PASSPHRASE))
    environment.cell("[readable]", b"content", open(mount / "a", "rb").read())


def test_events(environment):
    mount = environment.mount(unlock=False)
    with Program("porting-control", "events", mount.path) as events:
        environment.cell("[the state first]", "began(before-first-unlock)", events.line())
        mount.unlock()
        environment.cell("[unlock]", ["willUnlock", "unlocked"], [events.line(), events.line()])
        # Nobody answers willLock, so a lock that waited for this program would take the whole grace.
        mount.lock("--grace", "0")
        environment.cell("[lock]", [True, "locked"], [events.line().startswith("willLock"), events.line()])
        mount.unmount()
        environment.cell("[the end]", "ended", events.line())


def test_mounting(environment):
    volume = environment.volume()
    place = environment.new_path("mount")
    os.makedirs(place, mode=0o500)
    found = {**volume.environment, "PATH": os.path.dirname(binary()) + ":" + os.environ["PATH"]}

    def mount(*words, **more):
        return control("mount", volume.path, place, *words, environment=found, **more)

    environment.cell("[a wrong passphrase]", "error the passphrase is wrong",
                     mount("passphrase", secret="wrong horse\n", ok=False))
    environment.cell("[mounted and unlocked]", f"{place} unlocked",
                     mount("passphrase", "ro", "idle=10m", secret=PASSPHRASE + "\n"))
    try:
        environment.cell("[with its options]", "unlocked true 0 0", control("status", place))
        environment.cell("[a second time]", True, mount("none", ok=False).startswith("error"))
        with open(f"/proc/self/mountinfo", encoding="utf-8") as table:
            assert any(place in line for line in table)
        held = subprocess.Popen(["sleep", str(PATIENCE)], cwd=place)
        try:
            environment.cell("[in use]", True, refused("unmount", place).startswith("error"))
        finally:
            held.kill()
            held.wait()
    finally:
        environment.cell("[unmounted]", "unmounted", control("unmount", place))
        wait_until(lambda: not os.path.ismount(place), what="the end of the mount")
    environment.cell("[mounted without unlocking]", f"{place} before-first-unlock", mount("none"))
    environment.cell("[unmounted by force]", "unmounted", control("unmount", place, "force"))
    wait_until(lambda: not os.path.ismount(place), what="the end of the mount")
    missing = refused("mount", volume.path, place, "none", environment={**volume.environment, "PATH": "/nowhere"})
    environment.cell("[no command]", True, "protectfs" in missing and missing.startswith("error"))
