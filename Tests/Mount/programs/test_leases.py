"""Leases (fcntl(2), F_SETLEASE): the kernel's, as on the file system below."""

import fcntl
import os
import signal

from harness import outcome, write_file
from processes import in_child


def leased(path):
    """What a holder of each kind of lease finds when another process opens the file."""
    seen = []
    for kind, flags, other in ((fcntl.F_RDLCK, os.O_RDONLY, os.O_RDWR), (fcntl.F_WRLCK, os.O_RDWR, os.O_RDONLY),
                               (fcntl.F_RDLCK, os.O_RDONLY, os.O_RDONLY), (fcntl.F_RDLCK, os.O_RDWR, os.O_RDONLY)):
        handle, broken = os.open(path, flags), []

        def give_back(*_):
            broken.append(True)
            fcntl.fcntl(handle, fcntl.F_SETLEASE, fcntl.F_UNLCK)
        signal.signal(signal.SIGIO, give_back)
        taken = outcome(fcntl.fcntl, handle, fcntl.F_SETLEASE, kind)
        seen.append((taken, in_child(lambda: os.close(os.open(path, other))), len(broken)))
        os.close(handle)
    signal.signal(signal.SIGIO, signal.SIG_DFL)
    return seen


def test_leases(environment):
    """An open that the lease does not allow waits until its holder has given it back."""
    mount = environment.mount()
    below = environment.new_path("below")
    os.mkdir(below)
    for place in (below, mount.path):
        write_file(os.path.join(place, "file"), b"content")
    environment.cell("[as below]", leased(os.path.join(below, "file")), leased(mount / "file"))
