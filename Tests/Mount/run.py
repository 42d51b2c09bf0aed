"""Runs the mount tests: python3 Tests/Mount/run.py [--binary FILE] [--mode quick|full|soak] [--except NAME] [NAME…]

Every function test_* in a file FOLDER/test_*.py is a test. It gets an Environment, a process and a directory of its own.
NAME is any part of "file.function", without the folder: "locking" runs all tests of lock/test_locking.py, "late.many_locks"
one of them. --except leaves out tests in the same way. The last line is "N passed, N failed, N skipped".
"""

import argparse
import glob
import importlib.util
import json
import os
import resource
import select
import shutil
import signal
import sys
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
# Every folder, so that a module imports another one by its name alone, wherever both are.
sys.path += sorted(glob.glob(os.path.join(HERE, "*", "")))

import harness  # noqa: E402
from workplace import workplace  # noqa: E402

TIME_LIMIT = 900
LEAVING = 60  # seconds in which a test's daemons are to end after it


class Totals:
    def __init__(self):
        self.passed, self.failed, self.skipped = 0, [], []

    def add(self, name, problem=None, skipped=False):
        if skipped:
            self.skipped.append(name)
            print(f"SKIPPED {name}: {problem}", flush=True)
        elif problem is None:
            self.passed += 1
        else:
            self.failed.append(name)
            print(f"FAILED  {name}: {problem}", flush=True)


def tests(wanted, unwanted):
    """(name, function, time limit) of every test chosen."""
    for path in sorted(glob.glob(os.path.join(HERE, "*", "test_*.py"))):
        title = os.path.basename(path)[5:-3]
        spec = importlib.util.spec_from_file_location(f"test_{title}", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        for key, function in list(vars(module).items()):
            name = f"{title}.{key[5:]}"
            if key.startswith("test_") and callable(function) and function.__module__ == module.__name__:
                if (not wanted or any(word in name for word in wanted)) and not any(word in name for word in unwanted):
                    yield name, function, getattr(function, "time_limit", TIME_LIMIT)


def child(function, base, template, control, mode, pipe):
    """The test's own process; it reports cells through the pipe."""
    def report(name, problem=None, skipped=False):
        os.write(pipe, (json.dumps([name, problem, skipped]) + "\n").encode())

    # By this a daemon that the test leaves behind is known for its own, whatever its arguments are.
    os.environ["PROTECTFS_TEST"] = base
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    environment = harness.Environment(base, template, control, report, mode)
    status = 0
    try:
        try:
            function(environment)
        finally:
            environment.close()
        report("")
    except harness.Skip as reason:
        report("", str(reason), skipped=True)
    except BaseException:  # noqa: also SystemExit and KeyboardInterrupt are this test's failure
        report("", "\n" + traceback.format_exc())
    os._exit(status)


def kill_group(group):
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        pass


def clean(totals, name, base, control):
    """Takes away the mounts below a directory, and the daemons that its tests have started; each is a failure.

    Mounts and daemons of anybody else are not looked at: they may come and go while this runs.
    """
    left = harness.clean_mounts(base, control)
    if left:
        totals.add(name, f"left mounted: {', '.join(left)}")
    end = time.monotonic() + LEAVING
    while harness.daemons(base, inherited=True) and time.monotonic() < end:
        time.sleep(0.05)
    for daemon in harness.daemons(base, inherited=True):
        totals.add(name, f"left a daemon, process {daemon}")
        os.kill(daemon, signal.SIGKILL)


def run_test(name, function, limit, totals, place, template, control, mode):
    base = os.path.join(place, name)
    os.makedirs(base)
    os.chmod(base, 0o755)
    read_end, write_end = os.pipe()
    started = time.monotonic()
    pid = os.fork()
    if pid == 0:
        os.setpgid(0, 0)
        os.close(read_end)
        child(function, base, template, control, mode, write_end)
    os.close(write_end)
    buffer, before = b"", len(totals.failed)
    finished = False
    while True:
        left = started + limit - time.monotonic()
        if left <= 0:
            totals.add(name, f"not finished after {limit} s; its connections were aborted")
            harness.clean_mounts(base, control)
            kill_group(pid)
            break
        # A process of the test that outlives it may hold the pipe: so the test's own end counts too.
        if not select.select([read_end], [], [], min(left, 1))[0]:
            if finished or os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                break
            continue
        part = os.read(read_end, 65536)
        if not part:
            break
        buffer += part
        *lines, buffer = buffer.split(b"\n")
        for line in lines:
            cell, problem, skipped = json.loads(line)
            finished = finished or cell == ""
            totals.add(f"{name} {cell}".strip(), problem, skipped)
    os.close(read_end)
    os.waitpid(pid, 0)
    kill_group(pid)
    if not finished:
        totals.add(name, "ended without a result")
    clean(totals, name, base, control)
    shutil.rmtree(base, ignore_errors=True)
    verdict = "ok" if len(totals.failed) == before else "FAILED"
    print(f"{verdict:7} {name} ({time.monotonic() - started:.1f} s)", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 2)[2],
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="tests to run (default: all)")
    parser.add_argument("--binary", metavar="FILE", help="the program to test (default: the release build, else the debug build)")
    parser.add_argument("--except", action="append", default=[], metavar="NAME", dest="unwanted", help="tests to leave out")
    parser.add_argument("--mode", choices=["quick", "full", "soak"], default="full", help="how long the tests take (default: full)")
    arguments = parser.parse_args()
    # Started in the background or under nohup(1), this process has inherited that signals are ignored; programs would too.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)
    if arguments.binary:
        os.environ["PROTECTFS"] = arguments.binary
    totals = Totals()
    chosen = list(tests(arguments.names, arguments.unwanted))
    if not os.path.exists("/dev/fuse"):
        print("*" * 70 + "\n*  /dev/fuse IS MISSING: NO MOUNT TEST CAN RUN HERE\n" + "*" * 70)
        for name, _, _ in chosen:
            totals.add(name, "/dev/fuse is missing", skipped=True)
    else:
        with workplace("protectfs-mount-tests.") as place:
            for name, function, limit in chosen:
                run_test(name, function, limit, totals, place.path, place.template, place.control, arguments.mode)
            before = len(totals.failed)
            clean(totals, "no mount is left", place.path, place.control)
            if len(totals.failed) == before:
                totals.add("no mount is left")
    for name in totals.skipped:
        print(f"skipped: {name}")
    for name in totals.failed:
        print(f"failed: {name}")
    print(f"{totals.passed} passed, {len(totals.failed)} failed, {len(totals.skipped)} skipped")
    return 1 if totals.failed else 0


if __name__ == "__main__":
    sys.exit(main())
