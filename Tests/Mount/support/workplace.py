"""The directory with all volumes and mounts of one run of tests or measurements."""

import contextlib
import os
import tempfile

import harness


class Workplace:
    """A directory with the volume that every other one is a copy of."""

    def __init__(self, path, control):
        self.path, self.control = path, control
        self.template = os.path.join(path, "template")
        self.is_kept = False

    def environment(self, name="work", report=print, mode="usual"):
        """An environment below it, as a test gets one."""
        base = os.path.join(self.path, name)
        os.makedirs(base)
        return harness.Environment(base, self.template, self.control, report, mode)


@contextlib.contextmanager
def workplace(prefix, parent=None):
    """Makes the directory. At the end what is mounted below it is unmounted, and it is removed unless it is to be kept."""
    place = Workplace(tempfile.mkdtemp(prefix=prefix, dir=parent), "/sys/fs/fuse/connections")
    # Other users reach their volumes through it.
    os.chmod(place.path, 0o755)
    try:
        if os.geteuid() == 0 and not os.listdir(place.control):
            place.control = os.path.join(place.path, "connections")
            os.makedirs(place.control)
            harness.run("mount", "-t", "fusectl", "fusectl", place.control, ok=False)
        harness.configure(os.path.join(place.path, "config"))
        os.makedirs(place.template)
        harness.make_template(place.template)
        yield place
    finally:
        harness.clean_mounts(place.path, place.control)
        # File systems that a volume was on, and the one that aborts connections.
        for _, point, _, _ in reversed(harness.mount_table()):
            if point.startswith(place.path + "/"):
                harness.detach(point)
        if not place.is_kept:
            # Not shutil: it takes a call for each level of a tree.
            harness.run("rm", "-rf", place.path, ok=False, timeout=None)
