"""Python's own tests of files, case by case, with their directory on each side."""

import json
import os
import sys

from harness import Skip, run

MODULES = ("test_os", "test_shutil", "test_posix", "test_mmap", "test_mailbox", "test_dbm", "test_tempfile", "test_zipfile",
           "test_io")
OUTCOMES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "outcomes.py")


def python(side):
    """Each module as root and as an ordinary user: outcome of each test."""
    if run(sys.executable, "-c", "import test.test_os", ok=False).returncode != 0:
        version = "%d.%d" % sys.version_info[:2]
        raise Skip(f"Python's tests are missing: install libpython{version}-testsuite")
    users = [("root", 0, []), ("a user", 65534, ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"])]
    for name, user, become in users if os.geteuid() == 0 else [("this user", os.geteuid(), [])]:
        for module in MODULES:
            place, answer = side.directory(f"{name} {module}".replace(" ", "-"), user), f"{side.scratch}/{user}-{module}"
            run(*become, sys.executable, OUTCOMES, module, answer, cwd=place, timeout=1800,
                env={**os.environ, "TMPDIR": place, "HOME": place})
            with open(answer, encoding="utf-8") as file:
                yield f"{module} as {name}", json.load(file)
            yield f"{module} as {name}: left", sorted(os.listdir(place))
