"""Files that are damaged below the mount, and the results of reading them."""

import errno
import os

import harness

SIZE = 40_000


def inspect(path, original):
    """What reading the whole file piece by piece gives: the set of 'right', 'EIO', 'wrong', 'short' and other errnos."""
    seen = set()
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError as error:
        return {errno.errorcode[error.errno]}
    try:
        size = os.fstat(handle).st_size
        for at in range(0, max(size, len(original)), harness.PAGE):
            wanted = original[at:at + harness.PAGE]
            try:
                got = os.pread(handle, harness.PAGE, at)
            except OSError as error:
                seen.add(errno.errorcode[error.errno])
                continue
            seen.add("right" if got == wanted else "short" if wanted.startswith(got) else "wrong")
    finally:
        os.close(handle)
    return seen


def is_detected(path, original):
    """'detected' when some access is EIO and every other one gives the right bytes; else what was seen."""
    seen = inspect(path, original)
    return "detected" if "EIO" in seen and seen <= {"EIO", "right"} else sorted(seen)


class Tree:
    """Files made through a mount and damaged below it after a clean unmount."""

    def __init__(self, environment, mount):
        self.environment, self.mount = environment, mount
        self.contents, self.damage = {}, {}

    def make(self, name, size=SIZE, seed=None, protection="C"):
        contents = harness.pattern(size, seed=seed or len(self.contents) + 1)
        harness.write_file(self.mount / name, contents)
        harness.set_class(self.mount / name, protection)
        self.contents[name] = contents

    def check(self, label="", expected="detected"):
        for name in self.damage:
            self.environment.cell(f"{label}{name}", expected, is_detected(self.mount / name, self.contents[name]))
