"""Random system calls on a mount and on ext4 side by side, by Tests/Differential; hours with --mode full."""

import os
import sys
import tempfile
import types

import harness
from users import OrdinaryUser

sys.path.append(os.path.join(harness.REPOSITORY, "Tests/Differential"))

from differential.session import Session  # noqa: E402
from differential.systematic import MOMENTS  # noqa: E402

# How many sequences, or how long. A fixed number finds the same on each machine; new ones are looked for in hours.
SEQUENCES, MINUTES = 50, 60


def session(environment, letter, last=SEQUENCES, **more):
    options = {"minutes": MINUTES, "last": None if environment.mode == "full" else last, "seed": None, "first": 1,
               "letter": letter, "processes": 1, "steps": 150, "keep": None, **more}
    return Session(environment, types.SimpleNamespace(**options))


def test_tables(environment):
    """Each known difference is there still: an entry whose sequence differs no more is to be taken out of known.py."""
    if os.geteuid() != 0:
        raise harness.Skip("some entries need several users")
    environment.cell("", [], session(environment, "C").check_tables())


def test_class_c(environment):
    environment.cell("", [], session(environment, "C").run())


def test_class_a(environment):
    environment.cell("", [], session(environment, "A").run())


def test_class_b_across_locks(environment):
    environment.cell("", [], session(environment, "B").run())


def test_as_an_ordinary_user(environment):
    """The daemon has this user's rights only. What it reaches all the same, and what the kernel refuses it, is as on ext4."""
    if harness.run("stat", "-f", "-c", "%T", tempfile.gettempdir()).stdout.strip() != "ext2/ext3":
        raise harness.Skip("the directory for temporary files is not on ext4")
    user = OrdinaryUser(environment)
    last = 1000 if environment.mode == "full" else 25
    for letter in "AC":
        # Modes of files and directories are the point; a lock comes in other tests.
        done = user.run("/usr/bin/python3", os.path.join(harness.REPOSITORY, "Tests/Differential/differ"), "--class", letter,
                        "--minutes", str(MINUTES), "--last", str(last), "--binary", harness.binary(), "--keep",
                        os.path.dirname(user.path), ok=False, timeout=3600)
        environment.cell(f"class {letter}", (0, True), (done.returncode, " 0 differences" in done.stdout) if done.returncode == 0
                         else (done.returncode, done.stdout + done.stderr))


test_as_an_ordinary_user.time_limit = 3600


def test_several_processes(environment):
    environment.cell("", [], session(environment, "C", processes=3, last=30).run())


def test_times_and_sizes(environment):
    """All pairs of changes of a file: what is left of both at once, synced, mounted again, and after a crash. Class A at once
    only; at the other moments with --mode full."""
    for letter, moments in {"quick": {"C": MOMENTS}, "usual": {"C": MOMENTS, "A": ("at once",)},
                            "full": {"C": MOMENTS, "A": MOMENTS}}[environment.mode].items():
        environment.cell(f"[class {letter}]", [], session(environment, letter).play_systematically(moments))


for test in (test_class_c, test_class_a, test_class_b_across_locks, test_several_processes):
    test.time_limit = 5000
