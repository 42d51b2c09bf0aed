"""Calls that must fail with one clear line and a documented exit code and without any change."""

import hashlib
import os

import harness

FAILURE, USAGE, AUTHENTICATION, VOLUME, UNSUPPORTED, BUSY, NOT_MOUNTED, LOCKED, MOUNT_POINT = range(1, 10)


def digest(directory):
    """Everything below a directory: names, kinds, modes, contents."""
    found = []
    for place, directories, files in os.walk(directory):
        for name in sorted(directories + files):
            path = os.path.join(place, name)
            status = os.lstat(path)
            content = b""
            if os.path.islink(path):
                content = os.readlink(path).encode()
            elif os.path.isfile(path):
                with open(path, "rb") as file:
                    content = file.read()
            found.append((os.path.relpath(path, directory), status.st_mode, hashlib.sha256(content).hexdigest()))
    return sorted(found)


def refused(environment, name, code, words, volume=None, variables=None, mentions=()):
    """One call that must fail with this code and one line, and change nothing."""
    place = volume.path if volume else None
    before = digest(place) if place else None
    done = harness.protectfs(*words, ok=False, env=variables or (volume.environment if volume else None))
    problems = []
    if done.returncode != code:
        problems.append(f"exit code {done.returncode}, expected {code}")
    lines = done.stderr.strip().split("\n")
    if len(lines) != 1 or not lines[0].startswith("protectfs: ") or len(lines[0]) < 20:
        problems.append(f"not one clear line: {done.stderr!r}")
    if done.stdout:
        problems.append(f"standard output: {done.stdout!r}")
    for word in mentions:
        if word not in done.stderr:
            problems.append(f"{word!r} is not in {done.stderr!r}")
    if place and digest(place) != before:
        problems.append("the volume was changed")
    left = [row for row in harness.mount_table() if row[1].startswith(environment.base)]
    if left:
        problems.append(f"left mounted: {left}")
    environment.cell(name, [], problems)


def point(environment):
    path = environment.new_path("point")
    os.mkdir(path)
    return path


def recovery(volume):
    return ["mount", "--recovery-file", volume.code_file]


def code_of(environment, name, expected, *words, **more):
    done = harness.protectfs(*words, ok=False, **more)
    environment.cell(name, expected, done.returncode)
    lines = done.stderr.strip().splitlines()
    if expected and expected != 124:
        environment.cell(f"{name}: one line", 1, len(lines))
    return done
