"""The two sides of a comparison: a plain directory, and a mount. An item gets one of them, and gives what it saw."""

import contextlib
import os
import shutil

from checks import errors
from harness import Skip, run, set_class


class Side:
    """A directory that an item may fill, and one for what is not to be compared (logs, sockets)."""

    def __init__(self, environment, path):
        self.path = path
        self.scratch = environment.new_path("scratch")
        os.mkdir(self.scratch)
        # An item may run its programs as other users.
        os.chmod(self.scratch, 0o777)

    def __truediv__(self, name):
        return os.path.join(self.path, name)

    def directory(self, name, user=None):
        made = self / name
        os.makedirs(made)
        if user is not None:
            os.chown(made, user, user)
        return made


class Plain(Side):
    """A directory of the machine's file system."""

    def __init__(self, environment):
        super().__init__(environment, environment.new_path("plain"))
        os.mkdir(self.path)

    @contextlib.contextmanager
    def stored(self):
        """The directory that a backup of everything takes."""
        yield self.path

    @contextlib.contextmanager
    def restored(self, directory):
        """The directory in which such a backup's files are, after a restore."""
        yield directory

    def end(self):
        """What is wrong after an item."""
        return []


class Mounted(Side):
    """A mount of a fresh volume."""

    def __init__(self, environment, letter):
        self.environment = environment
        # Items run programs of other users too.
        self.options = ("allow_other",) if os.geteuid() == 0 else ()
        self.mount = environment.mount(options=self.options)
        super().__init__(environment, self.mount.path)
        os.chmod(self.path, 0o755)
        # The root's class is that of what is made below it.
        set_class(self.path, letter)

    @contextlib.contextmanager
    def stored(self):
        self.mount.unmount()
        try:
            yield self.mount.volume.path
        finally:
            self.mount = self.environment.mount(self.mount.volume, path=self.path, options=self.options)

    @contextlib.contextmanager
    def restored(self, directory):
        # In the original's place: the copy is the same volume, and a state file belongs to one directory.
        self.mount.unmount()
        original = self.mount.volume.path
        os.rename(original, original + ".original")
        os.rename(directory, original)
        self.mount = self.environment.mount(self.mount.volume, path=self.path, options=self.options)
        yield self.path

    def end(self):
        if self.mount.is_mounted:
            self.mount.unmount()
        return errors(self.mount.volume)


def need(*programs):
    for program, package in programs:
        if not shutil.which(program):
            raise Skip(f"{program} is missing: install {package}")


def observe(item, side):
    """What an item saw: name → value, without the side's own paths. An error is an observation too."""
    try:
        found = {}
        for name, value in item(side):
            found[name] = plain(value, side)
    except Skip:
        raise
    except Exception as error:  # noqa: an item that fails on both sides in the same way is no difference
        found["ended with"] = plain(f"{type(error).__name__}: {error}", side)
    return found


def plain(value, side):
    """A value without the names of the side's directories."""
    if isinstance(value, str):
        return value.replace(side.path, "PLACE").replace(side.scratch, "SCRATCH")
    if isinstance(value, (list, tuple)):
        return [plain(one, side) for one in value]
    if isinstance(value, dict):
        return {plain(key, side): plain(one, side) for key, one in value.items()}
    return value


def compare(environment, item, letter="C"):
    """Runs an item on both sides, with all files of one class: what differs as (name, plain, mount), how much was compared,
    and how the item failed on the plain side."""
    sides = Plain(environment), Mounted(environment, letter)
    seen = []
    for side in sides:
        found = observe(item, side)
        found["errors that fsck finds"] = side.end()
        seen.append(found)
    left, right = seen
    differing = []
    for name in [*left, *(name for name in right if name not in left)]:
        one, other = left.get(name, "nothing"), right.get(name, "nothing")
        if isinstance(one, dict) and isinstance(other, dict):
            differing += [(f"{name}: {key}", one.get(key, "nothing"), other.get(key, "nothing"))
                          for key in sorted({*one, *other}) if one.get(key, "nothing") != other.get(key, "nothing")]
        elif one != other:
            differing.append((name, one, other))
    count = sum(len(value) if isinstance(value, dict) else 1 for value in left.values())
    failed = [f"{name}: {value}" for name, value in left.items() if name == "ended with"]
    return differing, count, failed


def said(*words, **more):
    """Exit code and output of a command, which may fail."""
    done = run(*words, ok=False, **more)
    return [done.returncode, done.stdout, done.stderr]
