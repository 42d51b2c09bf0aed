"""A limit of processes and threads: a mount is refused, or it can be locked, unlocked and unmounted."""

import os

import cgroups
import harness

# The last one has room for a daemon of the limit before, whose threads can still be counted after its end.
LIMITS = [*range(1, 41), 128]


def within(group, words, environment):
    """Runs the command in the control group; gives its exit code and the last line that it says."""
    def enter():
        group.write("cgroup.procs", os.getpid())

    done = harness.run(*words, env=environment, ok=False, preexec_fn=enter)
    return done.returncode, (done.stderr.strip().splitlines() or [""])[-1]


def test_limits(environment):
    """Every limit from 1 on: the command itself needs one."""
    volume, path = environment.volume(), environment.new_path("mount")
    os.makedirs(path)
    outcomes = []
    with cgroups.group("pids", "pids.max") as group:
        for limit in LIMITS:
            group.write("pids.max", limit)
            secret = ["--recovery-file", volume.code_file]
            mount = harness.Mount(volume, path)
            code, said = within(group, [harness.binary(), "mount", *secret, volume.path, path], volume.environment)
            if code != 0:
                outcomes.append("refused")
                environment.cell(f"{limit}: the refusal", (1, True, False), (code, bool(said), mount.is_mounted))
                harness.wait_until(lambda: not harness.daemons(path), what="the daemon's end")
                continue
            outcomes.append("works")
            harness.write_file(mount / "file", harness.pattern(100_000))
            steps = {
                "lock": within(group, [harness.binary(), "lock", path], volume.environment)[0],
                "state": mount.state(),
                "unlock": within(group, [harness.binary(), "unlock", *secret, path], volume.environment)[0],
                "content": harness.read_file(mount / "file") == harness.pattern(100_000),
                "unmount": within(group, [harness.binary(), "unmount", path], volume.environment)[0],
                "mounted": mount.is_mounted,
            }
            wanted = {"lock": 0, "state": "locked", "unlock": 0, "content": True, "unmount": 0, "mounted": False}
            environment.cell(f"{limit}: a mount", wanted, steps)
            if mount.is_mounted:
                mount.crash()
    environment.cell("the least limits are refused, the most is enough", ("refused", "works"), (outcomes[0], outcomes[-1]))
    print(f"        refused up to {outcomes.count('refused')}", flush=True)


def test_late_limit(environment):
    """The limit is reached after mounting: lock, unlock and unmount need no further thread of the daemon."""
    mount = environment.mount()
    harness.write_file(mount / "file", harness.pattern(100_000))
    with cgroups.group("pids", "pids.max") as group:
        group.write("cgroup.procs", mount.pid)
        group.write("pids.max", 1)
        mount.lock()
        environment.cell("state", "locked", mount.state())
        mount.unlock()
        environment.cell("content", harness.pattern(100_000), harness.read_file(mount / "file"))
        mount.unmount()
        environment.cell("mounted", False, mount.is_mounted)
