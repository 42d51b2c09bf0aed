"""Runs the mount tests: python3 Tests/Mount/run.py [--mode quick|usual|full] [--lanes N] [--except NAME] [OPTION]… [NAME…]

Every function test_* in a file FOLDER/test_*.py is a test. It gets an Environment, a process and a directory of its own.
NAME is any part of "file.function", without the folder: "locking" runs all tests of lock/test_locking.py, "late.many_locks"
one of them. --except leaves out tests in the same way. --lanes runs tests beside each other, where root may make
namespaces (support/lanes.py); 0 has the machine's processors and memory decide how many. --again runs tests that have failed once more, with nothing beside them, and names those that pass
then. --times adds what each test took to a file, and --refresh makes Tests/Mount/times of such a file: lanes take the longest
tests first. A name that ends with ".io_uring" is a test of support/rings.py's table once more, over io_uring: those run if the
kernel has it, this is root, and the mode is not quick or such a name is given. The last line is "N passed, N failed, N skipped".
"""

import argparse
import contextlib
import glob
import importlib.util
import json
import os
import resource
import select
import signal
import sys
import tempfile
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
# Every folder, so that a module imports another one by its name alone, wherever both are.
sys.path += sorted(glob.glob(os.path.join(HERE, "*", "")))

import built  # noqa: E402
import harness  # noqa: E402
import lanes  # noqa: E402
import rings  # noqa: E402
import times  # noqa: E402
from workplace import workplace  # noqa: E402

TIME_LIMIT = 900
SHORT = 20  # bytes of a directory for temporary files
LEAVING = 60  # seconds in which a test's daemons are to end after it

# With --again. More failures than this are no accident.
UNSTEADY = 3
# These look for what happens rarely, such as a lost byte, and do something else each time: one failure is a finding.
BY_CHANCE = ("churn.", "crash.", "differential.", "killed.", "late.many", "lock_stress.", "locking.hammer", "losing_store.",
             "model.", "races.", "real_crashes.", "soak.")


class Totals:
    def __init__(self):
        self.passed, self.failed, self.skipped, self.unsteady, self.records = 0, [], [], [], []

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
                names = [name, name + rings.SUFFIX] if name.startswith(rings.BOTH) and rings.allowed() else [name]
                for name in names:
                    if (not wanted or any(word in name for word in wanted)) and not any(word in name for word in unwanted):
                        yield name, function, getattr(function, "time_limit", TIME_LIMIT)


def is_over_ring(test):
    return test[0].endswith(rings.SUFFIX)


def child(function, base, template, control, mode, pipe):
    """The test's own process; it reports cells through the pipe. The last report has no name: a cell's may be empty."""
    def report(name, problem=None, skipped=False):
        os.write(pipe, (json.dumps([name, problem, skipped]) + "\n").encode())

    # By this a daemon that the test leaves behind is known for its own, whatever its arguments are.
    os.environ["PROTECTFS_TEST"] = base
    if base.endswith(rings.SUFFIX):
        os.environ[rings.VARIABLE] = "1"
    # Servers of tests are on this machine.
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        os.environ.pop(name, None)
        os.environ.pop(name.upper(), None)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    environment = harness.Environment(base, template, control, report, mode)
    waits = times.Waits()
    waits.watch()
    try:
        try:
            function(environment)
        finally:
            environment.close()
            os.write(pipe, (json.dumps(waits.longest()) + "\n").encode())
        report(None)
    except harness.Skip as reason:
        report(None, str(reason), skipped=True)
    except BaseException:  # noqa: also SystemExit and KeyboardInterrupt are this test's failure
        report(None, "\n" + traceback.format_exc())
    finally:
        # Also if nobody reads any more: the caller's cleaning up is not for this process.
        os._exit(0)


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
    started, busy, waits = time.monotonic(), times.of_children() + lanes.of_orphans(), {}
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
            said = json.loads(line)
            if isinstance(said, dict):
                waits = said
                continue
            cell, problem, skipped = said
            finished = finished or cell is None
            totals.add(f"{name} {cell or ''}".strip(), problem, skipped)
    os.close(read_end)
    os.waitpid(pid, 0)
    kill_group(pid)
    if not finished:
        totals.add(name, "ended without a result")
    clean(totals, name, base, control)
    # Not shutil: it takes a call for each level of a tree.
    harness.run("rm", "-rf", base, ok=False, timeout=None)
    verdict, wall = "ok" if len(totals.failed) == before else "FAILED", time.monotonic() - started
    totals.records.append({"kind": "test", "name": name, "wall": round(wall, 2), "waits": waits,
                           "cpu": round(times.of_children() + lanes.of_orphans() - busy, 2)})
    print(f"{verdict:7} {name} ({wall:.1f} s)", flush=True)


def run_tests(chosen, mode, totals):
    """Runs tests, one after the other, with a directory of their own."""
    with workplace("pfs.") as place:
        for name, function, limit in chosen:
            run_test(name, function, limit, totals, place.path, place.template, place.control, mode)
        before = len(totals.failed)
        clean(totals, "no mount is left", place.path, place.control)
        if len(totals.failed) == before:
            totals.add("no mount is left")


def run_lanes(count, chosen, mode, totals):
    """Runs tests in lanes, which take the longest first."""
    chosen = times.longest_first(chosen)

    def work(numbers):
        os.environ[built.PLACE] = place
        own = Totals()
        run_tests((chosen[number] for number in numbers), mode, own)
        return [own.passed, own.failed, own.skipped, own.records]

    # Other users run what is built there.
    with tempfile.TemporaryDirectory(prefix="pfs.") as place:
        os.chmod(place, 0o755)
        results = lanes.share(count, len(chosen), work)
    for result in results:
        if result is None:
            totals.add("a lane of tests", "ended without a result")
            continue
        passed, failed, skipped, records = result
        totals.passed += passed
        totals.failed += failed
        totals.skipped += skipped
        totals.records += records


def run_again(chosen, mode, totals):
    """Runs each test that has failed once more. One that passes is unsteady, which is a defect of the test or of the program that
    is to be mended; but what changed last need not be its cause."""
    def of(name):
        return [failure for failure in totals.failed if failure.split(" ")[0] == name]

    failed = [test for test in chosen if of(test[0])]
    if len(failed) > UNSTEADY or any(test[0].startswith(BY_CHANCE) for test in failed):
        return
    for test in failed:
        print(f"once more, alone: {test[0]}", flush=True)
        second = Totals()
        run_tests([test], mode, second)
        if not second.failed and not second.skipped:
            totals.failed = [failure for failure in totals.failed if failure not in of(test[0])]
            totals.unsteady.append(test[0])


def shorten_temporary_paths():
    """A Unix socket's path has at most 107 bytes, and names of tests are long. /tmp is no substitute for another file system."""
    place = tempfile.gettempdir()
    if len(place) > SHORT and os.access("/tmp", os.W_OK | os.X_OK) and os.stat("/tmp").st_dev == os.stat(place).st_dev:
        tempfile.tempdir = "/tmp"


def run_chosen(chosen, arguments, totals):
    count = min(arguments.lanes or times.lanes_here(), len(chosen))
    if count > 1 and lanes.can():
        run_lanes(count, chosen, arguments.mode, totals)
    else:
        if count > 1:
            print("one test at a time: only root runs several, in namespaces that this machine must allow")
        run_tests(chosen, arguments.mode, totals)
    if arguments.again:
        run_again(chosen, arguments.mode, totals)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 2)[2],
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="tests to run (default: all)")
    parser.add_argument("--binary", metavar="FILE", help="the program to test (default: the release build, else the debug build)")
    parser.add_argument("--except", action="append", default=[], metavar="NAME", dest="unwanted", help="tests to leave out")
    parser.add_argument("--mode", choices=["quick", "usual", "full"], default="usual", help="how long the tests take (default: usual)")
    parser.add_argument("--cheap", action="store_true", help="only tests that cost little, by the known times")
    parser.add_argument("--lanes", metavar="N", type=int, default=1, help="how many tests run at a time (default: 1; 0: as many as suit)")
    parser.add_argument("--again", action="store_true", help="run tests that have failed once more, alone")
    parser.add_argument("--times", metavar="FILE", help="add what each test took to this file")
    parser.add_argument("--refresh", metavar="FILE", help="write Tests/Mount/times from such a file, and run nothing")
    arguments = parser.parse_args()
    if arguments.refresh:
        return times.refresh(arguments.refresh)
    # Started in the background or under nohup(1), this process has inherited that signals are ignored; programs would too.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)
    if arguments.binary:
        os.environ["PROTECTFS"] = os.path.abspath(arguments.binary)
    shorten_temporary_paths()
    totals = Totals()
    chosen = list(tests(arguments.names, arguments.unwanted))
    if arguments.cheap:
        chosen = times.cheap(chosen)
    if arguments.mode != "full" and not any(rings.SUFFIX[1:] in name for name in arguments.names):
        ringed = rings.USUAL if arguments.mode == "usual" else ()
        chosen = [test for test in chosen if not is_over_ring(test) or test[0].startswith(ringed)]
    if not os.path.exists("/dev/fuse"):
        print("*" * 70 + "\n*  /dev/fuse IS MISSING: NO MOUNT TEST CAN RUN HERE\n" + "*" * 70)
        for name, _, _ in chosen:
            totals.add(name, "/dev/fuse is missing", skipped=True)
    else:
        with rings.switched_on() if any(map(is_over_ring, chosen)) else contextlib.nullcontext():
            run_chosen(chosen, arguments, totals)
    if arguments.times:
        times.write(arguments.times, totals.records)
        times.show(totals.records)
    for name in totals.unsteady:
        print(f"unsteady: {name} failed, and passed alone")
    for name in totals.skipped:
        print(f"skipped: {name}")
    for name in totals.failed:
        print(f"failed: {name}")
    print(f"{totals.passed} passed, {len(totals.failed)} failed, {len(totals.skipped)} skipped")
    return 1 if totals.failed else 0


if __name__ == "__main__":
    sys.exit(main())
