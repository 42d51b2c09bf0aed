"""The daemon's start with standard input, output or error closed, as cron, ssh and other daemons do it."""

import itertools
import json
import os
import select
import signal

import harness

CONTENT = harness.pattern(50_000)
COMBINATIONS = [streams for count in (1, 2, 3) for streams in itertools.combinations((0, 1, 2), count)]


def without(streams, *words, environment, timeout=harness.PATIENCE, wait=True):
    """Starts a command with these standard streams closed; gives its exit code and what it said, or the process."""
    said, saying = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            null = os.open("/dev/null", os.O_RDWR)
            os.dup2(null, 0)
            os.dup2(saying, 1)
            os.dup2(saying, 2)
            os.closerange(3, 4096)
            for stream in streams:
                os.close(stream)
            os.execve(words[0], [str(word) for word in words], environment)
        finally:
            os._exit(127)
    os.close(saying)
    if not wait:
        os.close(said)
        return child
    text = b""
    # The daemon keeps none of the streams, so the end of the command is the end of the pipe.
    while select.select([said], [], [], timeout)[0]:
        part = os.read(said, 65536)
        if not part:
            break
        text += part
    os.close(said)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), text.decode()


def second_mount(environment, mount):
    """The exit code of a second writable mount of the volume."""
    path = environment.new_path("second")
    os.mkdir(path, mode=0o500)
    done = harness.protectfs("mount", "--recovery-file", mount.volume.code_file, mount.volume.path, path,
                             env=mount.volume.environment, ok=False)
    if done.returncode == 0:
        environment.mounts.append(harness.Mount(mount.volume, path))
    return done.returncode


def streams_of(pid):
    return [os.path.realpath(f"/proc/{pid}/fd/{stream}") for stream in (0, 1, 2)]


def commands(environment, mount, streams, label):
    """What a mount is asked for by a command without these streams."""
    where = mount.volume.environment
    ask = lambda *words: without(streams, harness.binary(), *words, environment=where)
    # What a command cannot print it must not call done.
    code, text = ask("status", "--json", mount.path)
    environment.cell(f"{label}: status", 1 if 1 in streams else 0, code)
    if 1 not in streams:
        environment.cell(f"{label}: what it says", "unlocked", json.loads(text)["state"])
    elif 2 not in streams:
        environment.cell(f"{label}: why it failed", True, "standard output" in text)
    environment.cell(f"{label}: lock", 0, ask("lock", mount.path)[0])
    environment.cell(f"{label}: locked", "locked", mount.state())
    environment.cell(f"{label}: unlock", 0, ask("unlock", "--recovery-file", mount.volume.code_file, mount.path)[0])
    environment.cell(f"{label}: what was written", True, harness.read_file(mount / "file") == CONTENT)
    environment.cell(f"{label}: class", 0, ask("class", "set", "complete", mount / "file")[0])
    environment.cell(f"{label}: the new class", "complete", harness.get_class(mount / "file"))
    environment.cell(f"{label}: a command's passphrase", 0,
                     ask("unlock", "--passphrase-command", f"cat {mount.volume.passphrase_file}", mount.path)[0])


def test_closed_streams(environment):
    """Every combination: the mount works, keeps its lock on the store, and ends as it should."""
    for streams in COMBINATIONS:
        label = "without " + ",".join(map(str, streams))
        volume = environment.volume()
        path = environment.new_path("mount")
        os.mkdir(path, mode=0o500)
        code, text = without(streams, harness.binary(), "mount", "--recovery-file", volume.code_file, volume.path, path,
                             environment=volume.environment)
        environment.cell(f"{label}: mount", (0, ""), (code, text))
        mount = harness.Mount(volume, path)
        environment.mounts.append(mount)
        environment.cell(f"{label}: writing", "works", harness.outcome(harness.write_file, mount / "file", CONTENT))
        environment.cell(f"{label}: a second mount is refused", 6, second_mount(environment, mount))
        environment.cell(f"{label}: the daemon's streams", ["/dev/null"] * 3, streams_of(mount.pid))
        commands(environment, mount, streams, label)
        environment.cell(f"{label}: unmount", 0,
                         without(streams, harness.binary(), "unmount", path, environment=volume.environment)[0])
        mount = environment.mount(volume, path=path)
        environment.cell(f"{label}: after another mount", True, harness.read_file(mount / "file") == CONTENT)
        mount.unmount()


def test_closed_streams_in_the_foreground(environment):
    for streams in COMBINATIONS:
        label = "without " + ",".join(map(str, streams))
        volume = environment.volume()
        path = environment.new_path("mount")
        os.mkdir(path, mode=0o500)
        mount = harness.Mount(volume, path)
        child = without(streams, harness.binary(), "mount", "--foreground", "--recovery-file", volume.code_file,
                        volume.path, path, environment=volume.environment, wait=False)
        harness.wait_until(lambda: mount.is_mounted or os.waitpid(child, os.WNOHANG)[0], what="the mount")
        environment.mounts.append(mount)
        harness.wait_until(lambda: mount.command("status", path, ok=False).returncode == 0, what="the socket")
        environment.cell(f"{label}: writing", "works", harness.outcome(harness.write_file, mount / "file", CONTENT))
        environment.cell(f"{label}: a second mount is refused", 6, second_mount(environment, mount))
        environment.cell(f"{label}: lock", 0, mount.lock().returncode)
        os.kill(child, signal.SIGTERM)
        environment.cell(f"{label}: its end", 0, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        environment.cell(f"{label}: nothing is mounted", False, mount.is_mounted)


def test_closed_streams_while_making_a_volume(environment):
    """A recovery code that cannot be shown is not made: init and slot add --recovery change nothing then."""
    template = environment.volume()
    for streams in COMBINATIONS:
        label = "without " + ",".join(map(str, streams))
        place = environment.new_path("new")
        data = environment.new_path("data")
        where = {**os.environ, "XDG_STATE_HOME": data}
        code, text = without(streams, harness.binary(), "init", "--json", "--passphrase-file",
                             template.passphrase_file, place, environment=where)
        if 1 in streams:
            environment.cell(f"{label}: init", 1, code)
            environment.cell(f"{label}: nothing was made", (False, False), (os.path.exists(place), os.path.exists(data)))
        else:
            environment.cell(f"{label}: init", 0, code)
            environment.cell(f"{label}: a whole volume", 0, harness.protectfs("info", place, env=where).returncode)
            environment.cell(f"{label}: its code is shown", True, "recoveryCode" in json.loads(text))
            environment.cell(f"{label}: fsck", 0, without(
                streams, harness.binary(), "fsck", "--passphrase-file", template.passphrase_file, place,
                environment=where)[0])
    keybag = harness.read_file(os.path.join(template.path, ".protectfs.keybag"))
    code, _ = without((1,), harness.binary(), "slot", "add", "--recovery", "--passphrase-file", template.passphrase_file,
                      template.path, environment=template.environment)
    environment.cell("slot add --recovery without 1", 1, code)
    environment.cell("the keybag is as it was", True,
                     harness.read_file(os.path.join(template.path, ".protectfs.keybag")) == keybag)


def test_closed_streams_of_mount8(environment):
    """The helper of mount(8), without any stream: before first unlock, as it has no secret."""
    volume = environment.volume()
    path = environment.new_path("mount")
    os.mkdir(path, mode=0o500)
    helper = os.path.join(harness.REPOSITORY, "mount-scripts/packaging/mount.fuse.protectfs")
    where = {**volume.environment, "PATH": os.path.dirname(harness.binary()) + ":" + os.environ["PATH"]}
    for streams in COMBINATIONS:
        label = "without " + ",".join(map(str, streams))
        code, _ = without(streams, "/bin/sh", helper, volume.path, path, "-o", "nodev", environment=where)
        environment.cell(f"{label}: mount", 0, code)
        mount = harness.Mount(volume, path)
        environment.mounts.append(mount)
        environment.cell(f"{label}: state", "before-first-unlock", mount.state())
        environment.cell(f"{label}: a second mount is refused", 6, second_mount(environment, mount))
        mount.unlock()
        environment.cell(f"{label}: writing", "works", harness.outcome(harness.write_file, mount / "file", CONTENT))
        mount.unmount()


def test_other_descriptors(environment):
    """Descriptors 3 and 4, through which the command talks with the daemon, taken by the starter or closed."""
    volume = environment.volume()
    path = environment.new_path("mount")
    os.mkdir(path, mode=0o500)
    for label, numbers in (("3 and 4 taken", (3, 4)), ("3 to 40 taken", range(3, 41)), ("none taken", ())):
        def prepare(numbers=numbers):
            null = os.open("/dev/null", os.O_RDWR)
            os.dup2(null, 99)
            for number in numbers:
                os.dup2(99, number)
        mount = environment.mount(volume, path=path, ok=False, close_fds=False, preexec_fn=prepare)
        environment.cell(f"{label}: mount", (0, ""), (mount.result.returncode, mount.result.stderr))
        environment.cell(f"{label}: a second mount is refused", 6, second_mount(environment, mount))
        environment.cell(f"{label}: writing", "works", harness.outcome(harness.write_file, mount / "file", CONTENT))
        mount.unmount()
    # Without the pipes the volume's directory would be taken for one of them.
    code, _ = without((), harness.binary(), "mount", "--started-by-mount", "--no-unlock", volume.path, path,
                      environment=volume.environment)
    environment.cell("a daemon that nobody has started", 2, code)
