"""What tests compile, once in a run: each test gets a copy, which it may change."""

import fcntl
import os

import harness

PLACE = "PROTECTFS_TEST_BUILT"


def place(environment):
    """The directory that all tests of a run have in common."""
    found = os.environ.get(PLACE) or os.path.join(os.path.dirname(environment.template), "built")
    os.makedirs(found, exist_ok=True)
    return found


def built(environment, name, make):
    """A path with what make(path) makes there. Tests beside this one wait for it, and those after it find it made."""
    kept, copy = os.path.join(place(environment), name), environment.new_path(name)
    with open(kept + ".lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.exists(kept):
            harness.run("rm", "-rf", kept + ".new")
            make(kept + ".new")
            os.rename(kept + ".new", kept)
    harness.run("cp", "-a", kept, copy)
    return copy
