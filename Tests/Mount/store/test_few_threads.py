"""A limit of processes and threads: a mount is refused, or it can be locked, unlocked and unmounted."""

import ctypes
import os
import resource
import signal

import cgroups
import harness
from checks import errors

PR_CAPBSET_DROP, CAP_SYS_RESOURCE = 24, 24
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
    os.makedirs(path, mode=0o500)
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


def test_late_limit_and_signal(environment):
    """The same with SIGTERM: the daemon unmounts and ends, and its session is closed."""
    mount = environment.mount()
    harness.write_file(mount / "file", harness.pattern(100_000))
    daemon = mount.pid
    with cgroups.group("pids", "pids.max") as group:
        group.write("cgroup.procs", daemon)
        group.write("pids.max", 1)
        os.kill(daemon, signal.SIGTERM)
        harness.wait_until(lambda: not harness.daemons(mount.path), what="the daemon's end")
    environment.cell("mounted", False, mount.is_mounted)
    info = harness.protectfs("info", "--json", mount.volume.path, env=mount.volume.environment)
    environment.cell("open epochs", [], harness.json.loads(info.stdout)["openEpochs"])
    environment.cell("errors that fsck finds", [], errors(mount.volume))


def test_limits_of_a_session(environment):
    """Limits of file sizes and processor time are for the programs of who mounts, and not for the mount."""
    volume, path = environment.volume(), environment.new_path("mount")
    os.makedirs(path, mode=0o500)

    def limit():
        for kind, most in ((resource.RLIMIT_FSIZE, 1 << 20), (resource.RLIMIT_CPU, 1)):
            resource.setrlimit(kind, (most, resource.RLIM_INFINITY))

    done = harness.run(harness.binary(), "mount", "--recovery-file", volume.code_file, volume.path, path, env=volume.environment,
                       preexec_fn=limit)
    environment.cell("said", "", done.stderr)
    mount = harness.Mount(volume, path)
    environment.mounts.append(mount)
    content = harness.pattern(4 << 20)
    handle = os.open(mount / "file", os.O_WRONLY | os.O_CREAT)
    os.write(handle, content)
    environment.cell("fsync", "works", harness.outcome(os.fsync, handle))
    os.close(handle)
    limits = harness.read_file(f"/proc/{mount.pid}/limits").decode().splitlines()
    environment.cell("processor time", ["Max", "cpu", "time", "unlimited"], limits[1].split()[:4])
    again = environment.remount(mount)
    environment.cell("content", True, harness.read_file(again / "file") == content)


def test_hard_limit_of_a_session(environment):
    """A hard limit stays for one who may not lift it, and is named."""
    volume, path = environment.volume(), environment.new_path("mount")
    os.makedirs(path, mode=0o500)

    def limit():
        if os.geteuid() == 0:
            ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_SYS_RESOURCE, 0, 0, 0)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 30, 1 << 30))

    done = harness.run(harness.binary(), "mount", "--recovery-file", volume.code_file, volume.path, path, env=volume.environment,
                       preexec_fn=limit)
    environment.mounts.append(harness.Mount(volume, path))
    environment.cell("said", True, "ulimit -Hf" in done.stderr)
