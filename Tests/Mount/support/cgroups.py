"""A control group with a limit, for the daemon alone."""

import contextlib
import os

import harness
import lanes


class Group:
    """A directory of the cgroup file system (version 1)."""

    def __init__(self, path):
        self.path = path

    def read(self, name):
        with open(os.path.join(self.path, name), encoding="ascii") as file:
            return file.read()

    def write(self, name, value):
        with open(os.path.join(self.path, name), "w", encoding="ascii") as file:
            file.write(str(value))


@contextlib.contextmanager
def group(controller, limit):
    """A new group of a controller that has the file `limit`; it is removed at the end."""
    made = Group(f"/sys/fs/cgroup/{controller}/protectfs-test-{lanes.unique()}")
    try:
        os.mkdir(made.path)
        with open(os.path.join(made.path, limit), "r+", encoding="ascii"):
            pass
    except OSError as error:
        with contextlib.suppress(OSError):
            os.rmdir(made.path)
        raise harness.Skip(f"no cgroup for {controller} here: {error}") from error
    try:
        yield made
    finally:
        # Where the test has failed its daemon is still there.
        for process in made.read("cgroup.procs").split():
            with contextlib.suppress(OSError):
                Group(os.path.dirname(made.path)).write("cgroup.procs", process)
        harness.wait_until(lambda: harness.outcome(os.rmdir, made.path) == "works", what="the end of the cgroup")
