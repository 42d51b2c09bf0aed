"""Random system calls on a mount and on ext4 side by side, by Tests/Differential; hours with --mode soak."""

import os
import sys
import types

import harness

sys.path.append(os.path.join(harness.REPOSITORY, "Tests/Differential"))

from differential.session import Session  # noqa: E402

MINUTES = {"quick": 0.3, "full": 1, "soak": 60}


def differ(environment, letter, **more):
    options = {"minutes": MINUTES[environment.mode], "seed": None, "first": 1, "letter": letter, "processes": 1, "steps": 150,
               "keep": None, "tables": False, **more}
    environment.cell("", True, Session(environment, types.SimpleNamespace(**options)).run())


def test_tables(environment):
    """Each known difference is there still: an entry whose sequence differs no more is to be taken out of known.py."""
    if os.geteuid() != 0:
        raise harness.Skip("some entries need several users")
    differ(environment, "C", tables=True)


def test_class_c(environment):
    differ(environment, "C")


def test_class_a(environment):
    differ(environment, "A")


def test_class_b_across_locks(environment):
    differ(environment, "B")


for test in (test_class_c, test_class_a, test_class_b_across_locks):
    test.time_limit = 5000
