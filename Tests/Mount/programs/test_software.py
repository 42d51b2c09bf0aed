"""Real programs on a mount and beside it, by Tests/Software: the items that are quick and whose programs tests have anyway."""

import os
import sys

import harness

sys.path.append(os.path.join(harness.REPOSITORY, "Tests/Software"))

from software import builds, databases, programs  # noqa: E402
from software.sides import compare  # noqa: E402


def check(environment, item):
    differing, count, failed = compare(environment, item)
    environment.cell("[on the plain side]", [], failed)
    environment.cell("[something was compared]", True, count > 3)
    environment.cell("[differences]", [], differing)


def test_make(environment):
    check(environment, builds.make)


def test_git(environment):
    check(environment, builds.git)


def test_sqlite(environment):
    check(environment, lambda side: databases.sqlite(side, rounds=10 if environment.mode == "quick" else 40))


def test_fio(environment):
    check(environment, lambda side: programs.fio(side, size="4m" if environment.mode == "quick" else "32m"))


def test_maildir(environment):
    check(environment, programs.maildir)


def test_differences_are_found(environment):
    """The comparison itself: a program that sees where it is differs, and one that fails on both sides is told."""
    differing, _, failed = compare(environment, lambda side: [("type", os.statvfs(side.path).f_namemax), ("path", side.path),
                                                              ("many", {"one": 1, "two": type(side).__name__})])
    environment.cell("[differences]", ([("many: two", "Plain", "Mounted")], []), (differing, failed))
    differing, _, failed = compare(environment, lambda side: (_ for _ in ()).throw(ValueError("no")))
    environment.cell("[fails on both sides]", ([], ["ended with: ValueError: no"]), (differing, failed))
