"""protectfs import: what it says and leaves when its end, or its second pass, meets something unusual."""

import contextlib
import json
import os
import resource
import signal
import subprocess

import harness
from deep_trees import inside
from harness import PATIENCE, wait_until, write_file
from test_import import importing, private_mounts
from users import OrdinaryUser


def import_with_a_program_in_its_mount(volume, source, words):
    """An import that runs, its private mount, and a descriptor in that. One that has ended too soon for it is run again."""
    while True:
        process = subprocess.Popen(
            [harness.binary(), "import", *words, "--recovery-file", volume.code_file, source, volume.path],
            env=volume.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        wait_until(lambda process=process: private_mounts(volume) or process.poll() is not None, what="the private mount")
        process.send_signal(signal.SIGSTOP)
        held = None
        for place in private_mounts(volume):
            with contextlib.suppress(FileNotFoundError):
                held = os.open(place, os.O_RDONLY)
        process.send_signal(signal.SIGCONT)
        # What is a mount also afterwards was one when it was opened.
        if held is not None and private_mounts(volume):
            return process, private_mounts(volume)[0], held
        if held is not None:
            os.close(held)
        said, errors = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, (said, errors)


def test_a_private_mount_that_stays(environment):
    """A program in the private mount keeps it from ending. The report is printed all the same, and names the mount."""
    source, volume = environment.new_path("source"), environment.volume()
    os.mkdir(source)
    for number in range(300):
        write_file(f"{source}/file{number}", b"x" * 50_000)
    try:
        for words in (["--json"], []):
            process, place, held = import_with_a_program_in_its_mount(volume, source, words)
            try:
                said, errors = process.communicate(timeout=PATIENCE)
            finally:
                os.close(held)
            environment.cell(f"{words}: exit code", 1, process.returncode)
            environment.cell(f"{words}: the mount stays", [place], private_mounts(volume))
            if words:
                told = json.loads(said)
                environment.cell("--json", (False, 300, [place]),
                                 (told["complete"], told["verified"], [one["path"] for one in told["failures"]]))
            else:
                environment.cell("the counts", True, "300 compared and equal" in said and "incomplete" in said)
                environment.cell("the place", True, f"{place}: the private mount has not ended" in errors)
        done = json.loads(importing(volume, source, "--json").stdout)
        environment.cell("again", (True, [], []), (done["complete"], done["failures"], private_mounts(volume)))
    finally:
        # All volumes of tests are copies of one, so that their private mounts have one place.
        for place in private_mounts(volume):
            harness.protectfs("unmount", place, ok=False)


def test_a_directory_keeps_its_times(environment):
    """A file that the second pass makes anew does not change the time of its directory."""
    source, volume = environment.new_path("source"), environment.volume()
    os.makedirs(source + "/outer/inner")
    for name in ("outer/file", "outer/inner/file"):
        write_file(f"{source}/{name}", b"content")
    for name in ("outer/inner", "outer"):
        os.utime(f"{source}/{name}", (1_000_000_000, 1_000_000_000))
    importing(volume, source)
    mount = environment.mount(volume)
    # What a power cut leaves: zeros under the old time.
    for name in ("outer/file", "outer/inner/file"):
        times = os.stat(mount / name)
        write_file(mount / name, bytes(7), os.O_TRUNC)
        os.utime(mount / name, ns=(times.st_atime_ns, times.st_mtime_ns))
    done = json.loads(importing(volume, source, "--json", place=mount.path, ok=False).stdout)
    environment.cell("complete", (True, 2, []), (done["complete"], done["copiedAgain"], done["differences"]))
    environment.cell("times", [1_000_000_000] * 2, [int(os.stat(mount / name).st_mtime) for name in ("outer", "outer/inner")])
    # Of a directory that somebody has changed since, the time is theirs.
    os.utime(mount / "outer", (5, 5))
    done = json.loads(importing(volume, source, "--json", place=mount.path, ok=False).stdout)
    environment.cell("another time is named", ["differs in time of change"], [one["reason"] for one in done["differences"]])
    mount.unmount()


def test_attributes_with_similar_names(environment):
    """Only the attributes of protectfs itself are left out, not those whose names begin in the same way."""
    source, volume = environment.new_path("source"), environment.volume()
    os.mkdir(source)
    write_file(source + "/file", b"content")
    names = ["user.protected", "user.protection-level", "user.protection.note", "user.protectfs-imported", "user.protectfsck"]
    for name in names:
        os.setxattr(source + "/file", name, name.encode())
    os.setxattr(source + "/file", "user.protectfs-import", b"")
    importing(volume, source)
    mount = environment.mount(volume)
    kept = {name: os.getxattr(mount / "file", name) for name in os.listxattr(mount / "file") if name != "user.protection"}
    environment.cell("attributes", {name: name.encode() for name in names}, kept)
    mount.unmount()


def test_programs_of_other_users(environment):
    """What runs as its owner does not run as the user who imports it, who cannot give it its owner."""
    user = OrdinaryUser(environment)
    source = environment.new_path("source")
    os.makedirs(source + "/shared")
    number = os.stat(user.volume).st_uid
    modes = {"program": 0o4755, "both": 0o6755, "shared": 0o2755, "plain": 0o640, "own": 0o6755}
    for name, mode in modes.items():
        path = f"{source}/{name}"
        if name != "shared":
            write_file(path, b"#!/bin/sh\n")
        os.chown(path, number if name == "own" else 0, number)
        os.chmod(path, mode)
    done = user.run(harness.binary(), "import", "--json", "--recovery-file", user.code_file, source, user.volume)
    told = json.loads(done.stdout)
    environment.cell("complete", (True, []), (told["complete"], told["differences"]))
    user.run(harness.binary(), "mount", "--recovery-file", user.code_file, user.volume, user.path)
    listed = user.run("sh", "-c", f"cd {user.path} && stat -c '%n %a' {' '.join(modes)}")
    found = {name: int(mode, 8) for name, mode in (line.split() for line in listed.stdout.splitlines())}
    environment.cell("modes", {**modes, "program": 0o755, "both": 0o755}, found)
    user.run(harness.binary(), "unmount", user.path)


def make_deep(depth):
    """Directories one in another below the working directory, and a file in each."""
    for number in range(depth):
        os.mkdir("d")
        os.chdir("d")
        write_file("file", b"%d" % number)


def test_a_tree_deeper_than_descriptors(environment):
    """Directories nested thousands deep are copied and compared with few descriptors and a small stack."""
    depth = 5000 if environment.mode == "full" else 1500
    mount, source = environment.mount(), environment.new_path("source")
    os.mkdir(source)
    inside(source, make_deep, depth)

    def limit():
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
        resource.setrlimit(resource.RLIMIT_STACK, (256 << 10, 256 << 10))
    done = harness.run(harness.binary(), "import", "--json", source, mount.path, env=mount.volume.environment, ok=False,
                       preexec_fn=limit, timeout=None)
    found = json.loads(done.stdout)
    environment.cell("complete", (True, [], 2 * depth, 2 * depth),
                     (found["complete"], found["failures"], found["copied"], found["verified"]))
    mount.unmount()
