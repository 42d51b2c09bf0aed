"""Installs the Debian package in a system of its own and uses it there, without a compiler.

Usage: python3 Tests/System/run.py --package FILE [--release trixie] [NAME…]
NAME is a part of a test's name. The last line is "N passed, N failed, N skipped". Where no container can be started, all tests are
skipped, and the reason is printed.
"""

import argparse
import os
import shutil
import sys
import traceback

import tests
from bed import OF_RELEASE, Bed, CannotRun, capable


def main():
    parser = argparse.ArgumentParser(description="Tests the Debian package in a system of its own.")
    parser.add_argument("--package", required=True, help="the .deb, as mount-scripts/release makes it")
    parser.add_argument("--release", choices=OF_RELEASE, default="bookworm", help="the release of Debian of the system (default: %(default)s)")
    parser.add_argument("names", nargs="*", help="parts of the names of the tests to run")
    arguments = parser.parse_args()
    # In the order of the file: the package is installed first and purged last.
    functions = [function for name, function in vars(tests).items() if name.startswith("test_")]
    wanted = [function for function in functions
              if function is tests.test_install or not arguments.names
              or any(name in function.__name__ for name in arguments.names)]
    passed, failed, reason = 0, 0, None
    try:
        capable()
        with Bed(arguments.release) as bed:
            shutil.copy(arguments.package, os.path.join(bed.root, "root", "protectfs.deb"))
            for function in wanted:
                try:
                    function(bed)
                except CannotRun:
                    raise
                except Exception:  # noqa: any error is this test's failure
                    failed += 1
                    print(f"FAILED  system.{function.__name__[5:]}:\n{traceback.format_exc()}", flush=True)
                    if function is tests.test_install:
                        break
                else:
                    passed += 1
                    print(f"ok      system.{function.__name__[5:]}", flush=True)
    except CannotRun as found:
        reason = found
    skipped = 0
    if reason is not None:
        skipped = len(wanted) - passed - failed
        line = "*" * 80
        print(f"{line}\n**  THE TESTS OF THE INSTALLED SYSTEM ARE NOT RUN HERE:\n**  {reason}\n{line}")
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
