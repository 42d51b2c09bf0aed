"""The measurements of a soak, and the limits within which they count as flat."""

import json
import os
import socket
import statistics
import time

from soak_compare import SAMPLES

OPERATIONS = ["create", "write", "append", "read", "stat", "rename", "unlink"]
LONG = 30  # rows from which on the narrow limits hold: a short run is still filling its caches


def fields(pid):
    """KiB resident, KiB locked, threads, descriptors of a process; without those of directories, which are cached."""
    found = {}
    with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
        for line in file:
            name, value = line.split(":", 1)
            if name in ("VmRSS", "VmLck", "Threads"):
                found[name] = int(value.split()[0])
    found["descriptors"] = sum(not os.path.isdir(f"/proc/{pid}/fd/{name}") for name in os.listdir(f"/proc/{pid}/fd"))
    return found


class Echo:
    """A process that answers a byte: what it costs this machine, now, to wake another process and be woken."""

    def __init__(self):
        self.socket, other = socket.socketpair()
        if os.fork() == 0:
            self.socket.close()
            while (byte := other.recv(1)):
                other.send(byte)
            os._exit(0)
        other.close()

    def time(self):
        started = time.perf_counter_ns()
        self.socket.send(b"x")
        self.socket.recv(1)
        return time.perf_counter_ns() - started


def simple_operations(directory, number, timed):
    """One round on a file; timed(operation, nanoseconds) for each."""
    path, content = os.path.join(directory, f"sample {number}"), b"%04d" % (number % 1000) * 1024

    def measure(name, action):
        started = time.perf_counter_ns()
        action()
        timed(name, time.perf_counter_ns() - started)

    def write(flags, data=content):
        handle = os.open(path, os.O_WRONLY | flags, 0o644)
        os.write(handle, data)
        os.close(handle)

    def read():
        handle = os.open(path, os.O_RDONLY)
        found = os.read(handle, 10_000)
        os.close(handle)
        if found != content + b"appended":
            raise AssertionError(f"{path}: {len(found)} bytes that were not written")

    measure("create", lambda: write(os.O_CREAT | os.O_EXCL))
    measure("write", lambda: write(0))
    measure("append", lambda: write(os.O_APPEND, b"appended"))
    measure("read", read)
    measure("stat", lambda: os.stat(path))
    measure("rename", lambda: os.rename(path, path + ".new"))
    measure("unlink", lambda: os.unlink(path + ".new"))


def sample(gang, pipe, mount, shadow):
    """Until the end: a round in the mount and one beside it, twice a second; each is a line of JSON in the pipe."""
    echo, number = Echo(), 0
    directories = {"mount": os.path.join(mount, SAMPLES), "plain": os.path.join(shadow, SAMPLES)}
    for directory in directories.values():
        os.makedirs(directory)
    while not gang.stopping:
        number += 1
        round = {"mount": {}, "plain": {}}
        for side in ("mount", "plain") if number % 2 else ("plain", "mount"):
            simple_operations(directories[side], number, round[side].__setitem__)
        round["trip"] = echo.time()
        os.write(pipe, (json.dumps(round) + "\n").encode())
        time.sleep(0.5)
    echo.socket.close()


def percentile(values, part):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * part))]


def latency(rounds):
    """Figures of a row: geometric means, over the operations, of the mount's time in units of the plain directory's.

    `p50` and `p99` are against the plain directory alone. `paced` and `paced99` add, to the plain directory's time, a
    round trip to another process, as an operation of FUSE is one: a machine that others keep busy shows in both.
    """
    if len(rounds) < 5:
        return None
    trip = {part: percentile([round["trip"] for round in rounds], part) for part in (0.5, 0.99)}
    ratios = {"p50": [], "p99": [], "paced": [], "paced99": []}
    for name in OPERATIONS:
        for part, plain, paced in ((0.5, "p50", "paced"), (0.99, "p99", "paced99")):
            one, other = (percentile([round[side][name] for round in rounds], part) for side in ("mount", "plain"))
            ratios[plain].append(one / other)
            ratios[paced].append(one / (other + trip[part]))
    means = {name: statistics.geometric_mean(values) for name, values in ratios.items()}
    return {**means, "trip": trip[0.5] / 1000, "trip99": trip[0.99] / 1000}


def third(rows, name, last):
    """The median of a column over the first or the last third of the rows; the very first row is left out."""
    values = [row[name] for row in rows[1:] if row.get(name) is not None]
    count = max(1, len(values) // 3)
    return statistics.median(values[-count:] if last else values[:count]) if values else None


def judge(rows):
    """(sentence, whether it is flat) for each thing that has to be."""
    long = len(rows) >= LONG
    found = []

    def check(title, name, unit, limit, judged=True):
        before, after = third(rows, name, False), third(rows, name, True)
        if before is None:
            found.append((f"{title}: nothing was measured", False))
            return
        most = limit(before)
        text = f"{title}: {before:.4g}{unit} in the first third, {after:.4g}{unit} in the last (at most {most:.4g}{unit})"
        found.append((text if judged else text + ", not judged: a short run, or a busier machine", not judged or after <= most))

    check("memory", "resident", " MiB", lambda before: before + max(6, before / 10) if long else before + 24)
    check("locked memory", "locked", " MiB", lambda before: before + (1 if long else 8))
    check("descriptors", "descriptors", "", lambda before: before + (8 if long else 64))
    check("threads", "threads", "", lambda before: before + (2 if long else 16))
    # Where others keep the machine busier in the end than in the beginning, a round trip alone takes longer: an operation
    # is several of them, and its slowest tells of the others and not of the mount.
    busier = [(third(rows, name, True) or 0) > 2 * (third(rows, name, False) or 0) for name in ("trip", "trip99")]
    check("latency, p50 in plain operations and a round trip", "paced", "", lambda before: before * (
        1.5 if long and not any(busier) else 4), judged=long or not any(busier))
    check("latency, p99 in plain operations and a round trip", "paced99", "", lambda before: before * 3,
          judged=long and not any(busier))
    return found
