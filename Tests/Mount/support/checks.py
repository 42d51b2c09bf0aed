"""fsck's report of a volume, and every byte of its store."""

import json
import os

import harness


def fsck(volume, *words, ok=False):
    return harness.protectfs("fsck", *words, volume.path, env=volume.environment, ok=ok)


def report(volume, *words):
    """Exit code and report of a check of everything."""
    done = fsck(volume, "--json", "--recovery-file", volume.code_file, *words)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def errors(volume, *words):
    """The errors that a check of everything finds; what the command says where it makes no report."""
    done = fsck(volume, "--json", *(words or ("--recovery-file", volume.code_file)))
    if not done.stdout:
        return f"exit code {done.returncode}: {done.stderr.strip()}"
    return [one for one in json.loads(done.stdout)["findings"] if one["severity"] == "error"]


def kinds(answer):
    return sorted(finding["kind"] for finding in answer["findings"])


def everything(path):
    """Contents and targets of everything below the volume's directory."""
    found = []
    for place, directories, files in os.walk(path):
        for name in directories + files:
            full = os.path.join(place, name)
            if os.path.islink(full):
                found.append(os.readlink(full).encode())
            elif os.path.isfile(full):
                found.append(harness.read_file(full))
    return found
