"""What tests cost: wall time, processor time, and what they waited for; the record of a run, and the order that follows from it.

The file Tests/Mount/times has the last known times. `Tests/Mount/run.py --refresh FILE` writes it from the record of a run.
"""

import contextlib
import json
import os
import resource
import subprocess
import threading
import time

KNOWN = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "times")
# A test that nobody has measured starts among the long ones.
UNKNOWN = 15
# What a test may take, wall time and processor time, to be called cheap.
CHEAP = 4.0, 0.3
DEAREST = 30
LANES_FOR_EACH_PROCESSOR = 3
MEMORY_OF_A_LANE = 1500 << 20


class Waits:
    """Seconds that this process has waited for each program, and slept. Threads beside the first one do not count."""

    def __init__(self):
        self.seconds, self.depth = {}, 0

    def watch(self):
        """Counts from now on, for the rest of this process."""
        subprocess.Popen.wait = self.counting(subprocess.Popen.wait, lambda process, *_, **__: named(process.args))
        subprocess.Popen.communicate = self.counting(subprocess.Popen.communicate, lambda process, *_, **__: named(process.args))
        time.sleep = self.counting(time.sleep, lambda *_: "a condition")

    def counting(self, function, name):
        def counted(*arguments, **more):
            if self.depth or threading.current_thread() is not threading.main_thread():
                return function(*arguments, **more)
            self.depth, started = 1, time.monotonic()
            try:
                return function(*arguments, **more)
            finally:
                self.depth, key = 0, name(*arguments, **more)
                self.seconds[key] = self.seconds.get(key, 0) + time.monotonic() - started
        return counted

    def longest(self):
        """The three that were waited for longest, each with its seconds."""
        return {name: round(seconds, 2) for name, seconds in sorted(self.seconds.items(), key=lambda item: -item[1])[:3]}


def named(words):
    """A program as the table shows it: with its command, if it is protectfs."""
    words = [words] if isinstance(words, (str, bytes)) else words
    words = [os.path.basename(os.fsdecode(word)) for word in words[:2]]
    return " ".join(words if words[0] == "protectfs" else words[:1])


def of_children():
    """The processor time, in seconds, of all processes that this one has waited for."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def known():
    """Wall time and processor time by the test's name, from the file in the repository."""
    with contextlib.suppress(FileNotFoundError), open(KNOWN, encoding="utf-8") as file:
        return {name: (float(wall), float(cpu)) for name, wall, cpu in (line.split() for line in file if not line.startswith("#"))}
    return {}


def longest_first(tests):
    """Tests in the order in which lanes take them, so that none is busy for long when the others have ended."""
    seconds = known()
    return sorted(tests, key=lambda test: -seconds.get(test[0], [UNKNOWN])[0])


def cheap(tests):
    """Those that cost little and need the program alone, not others that are built of the package. One that nobody has measured
    is among them, as a new test is what its author runs."""
    seconds = known()
    return [(name, function, limit) for name, function, limit in tests
            if os.path.basename(os.path.dirname(function.__globals__["__file__"])) != "porting"
            and all(took <= most for took, most in zip(seconds.get(name, (0, 0)), CHEAP))]


def lanes_here():
    """As many tests at a time as keep the processors busy, for most tests wait most of the time; fewer where memory is short."""
    with open("/proc/meminfo", encoding="ascii") as file:
        free = next(int(line.split()[1]) << 10 for line in file if line.startswith("MemAvailable:"))
    return max(1, min(LANES_FOR_EACH_PROCESSOR * len(os.sched_getaffinity(0)), free // MEMORY_OF_A_LANE))


def write(path, records):
    """Adds a run's records to a file, a line of JSON each."""
    with open(path, "a", encoding="utf-8") as file:
        for record in records:
            file.write(json.dumps(record) + "\n")


def refresh(path):
    """Writes the file of known times from a record; tests that it does not name keep theirs."""
    with open(path, encoding="utf-8") as file:
        records = [json.loads(line) for line in file]
    rows = {}
    with contextlib.suppress(FileNotFoundError), open(KNOWN, encoding="utf-8") as file:
        rows = {line.split()[0]: line.split()[1:] for line in file if not line.startswith("#")}
    rows.update({one["name"]: [f"{one['wall']:.1f}", f"{one['cpu']:.1f}"] for one in records if one.get("kind") == "test"})
    with open(KNOWN, "w", encoding="utf-8") as file:
        file.write("# Each test's wall time and processor time in seconds; written by Tests/Mount/run.py --refresh FILE.\n")
        for name in sorted(rows):
            file.write(" ".join([name] + rows[name]) + "\n")


def show(records):
    """Prints the dearest tests as a table."""
    tests = sorted((one for one in records if one["kind"] == "test"), key=lambda one: -one["wall"])
    print(f"\n{len(tests)} tests, {sum(one['cpu'] for one in tests):.0f} s of processor time. The dearest:")
    print(f"{'wall, s':>8} {'cpu, s':>7}  test; what it waited for")
    for one in tests[:DEAREST]:
        waits = ", ".join(f"{name} {seconds:.1f}" for name, seconds in one["waits"].items())
        print(f"{one['wall']:8.1f} {one['cpu']:7.1f}  {one['name']}; {waits}")
    print(flush=True)
