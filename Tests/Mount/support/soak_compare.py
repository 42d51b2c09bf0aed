"""Compares the mount and the plain directory of a soak."""

import contextlib
import os
import sqlite3

SAMPLES = "samples"  # not compared: the process that takes them never pauses


def differences(place, shadow, most=5):
    """What is not the same below the two directories."""
    found = []

    def compare(one, two):
        with contextlib.ExitStack() as stack:
            first, second = (stack.enter_context(open(path, "rb", buffering=0)) for path in (one, two))
            at = 0
            while True:
                parts = first.read(1 << 20), second.read(1 << 20)
                if parts[0] != parts[1]:
                    found.append(f"{one}: other bytes within 1 MiB of {at}, or another end")
                    return
                if not parts[0]:
                    return
                at += len(parts[0])

    def dump(directory):
        with contextlib.closing(sqlite3.connect(os.path.join(directory, "base"))) as base:
            return base.execute("pragma integrity_check").fetchall(), list(base.iterdump())

    def walk(one, two):
        names = sorted(os.listdir(one)), sorted(os.listdir(two))
        if (set(names[0]) ^ set(names[1])) - {SAMPLES}:
            found.append(f"{one}: {sorted(set(names[0]) ^ set(names[1]))[:5]} only on one side")
        for name in sorted((set(names[0]) & set(names[1])) - {SAMPLES}):
            if len(found) >= most:
                return
            pair = os.path.join(one, name), os.path.join(two, name)
            first, second = (os.lstat(path) for path in pair)
            if (first.st_mode, first.st_size if not os.path.isdir(pair[0]) else 0) != (
                    second.st_mode, second.st_size if not os.path.isdir(pair[1]) else 0):
                found.append(f"{pair[0]}: mode {first.st_mode:o}, {first.st_size} bytes, "
                             f"instead of {second.st_mode:o}, {second.st_size}")
            elif os.path.islink(pair[0]):
                if os.readlink(pair[0]) != os.readlink(pair[1]):
                    found.append(f"{pair[0]}: another target")
            elif os.path.exists(os.path.join(pair[0], "base")):
                # After a refused transaction the same rows may be elsewhere in the file.
                if dump(pair[0]) != dump(pair[1]):
                    found.append(f"{pair[0]}: another content of the database")
            elif os.path.isdir(pair[0]):
                walk(*pair)
            else:
                compare(*pair)

    walk(place, shadow)
    return found
