"""What the tests of erase share: running it, and what it leaves."""

import json
import os

import harness


def overwrites_in_place(path):
    """Whether erase can verify anything on the file system of the tests."""
    kind = harness.run("stat", "-f", "-c", "%T", path).stdout.strip()
    return kind in ("ext2/ext3", "xfs")


def erase(volume, *words, ok=True):
    """erase --json: the process, and what it says where it says anything."""
    done = harness.protectfs("erase", "--yes", "--json", *words, volume.path, env=volume.environment, ok=ok)
    return done, json.loads(done.stdout) if done.stdout else None


def left(volume):
    return sorted(os.listdir(os.path.join(volume.data, "protectfs")))


def keybags(volume):
    return [name for name in os.listdir(volume.path) if "keybag" in name]
