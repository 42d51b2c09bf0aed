"""Runs a mixed load for hours on two mounts, and the same steps in plain directories.

Memory, descriptors and latency must stay flat, and the contents equal. One volume stays mounted from the beginning to the
end, and is locked and unlocked under the load; it is the one that is measured. The other is locked too, and unmounted and
mounted again and again. Every row of the table is a minute. The last line is "flat and equal" or the list of problems; the
exit code is 0 or 1. The same seed gives the same steps.
"""

import argparse
import json
import os
import random
import resource
import shutil
import sys
import time

import hammer
import harness
import soak_compare
import soak_load
import soak_measure
from workplace import workplace


class Side:
    """A volume, its mount, its plain directory, and the workers in both."""

    def __init__(self, title, environment, place, seed, duty):
        self.title, self.environment = title, environment
        self.mount = environment.mount()
        self.shadow = os.path.join(place, title)
        os.makedirs(self.shadow)
        self.gang = hammer.Gang()
        self.gate = soak_load.Gate(len(soak_load.LOADS))
        for index, kind in enumerate(soak_load.LOADS):
            self.gang.start(lambda: soak_load.work(
                self.gang, self.gate, index, kind, self.mount.path, self.shadow, f"{seed}:{title}", duty))
        self.locks = self.remounts = self.compared = 0

    def lock_and_unlock(self, seconds):
        self.mount.lock("--grace", "0")
        time.sleep(seconds)
        self.locks += 1
        if self.locks % 10:
            self.mount.unlock()
        else:
            self.mount.command("unlock", "--passphrase-file", self.mount.volume.passphrase_file, self.mount.path)

    def compare(self, remount=False):
        """Everything, while nobody works; gives what is not equal."""
        if not self.gate.stop():
            return [f"{self.title}: somebody did not stop within {soak_load.PATIENCE} s"]
        found = soak_compare.differences(self.mount.path, self.shadow)
        if remount and not found:
            self.mount.unmount()
            self.mount = self.environment.mount(self.mount.volume, path=self.mount.path)
            self.remounts += 1
            found = soak_compare.differences(self.mount.path, self.shadow)
        self.compared += 1
        self.gate.go_on()
        return found

    def finish(self):
        """Ends the work; compares before and after a last mount, and lets fsck look."""
        found = self.gang.finish(soak_load.PATIENCE)
        shutil.rmtree(os.path.join(self.mount.path, soak_compare.SAMPLES), ignore_errors=True)
        shutil.rmtree(os.path.join(self.shadow, soak_compare.SAMPLES), ignore_errors=True)
        found += soak_compare.differences(self.mount.path, self.shadow)
        self.mount.unmount()
        self.mount = self.environment.mount(self.mount.volume, path=self.mount.path)
        found += soak_compare.differences(self.mount.path, self.shadow)
        self.mount.unmount()
        volume = self.mount.volume
        done = harness.protectfs("fsck", "--recovery-file", volume.code_file, volume.path, env=volume.environment, ok=False)
        if done.returncode != 0:
            found.append(f"{self.title}: fsck {done.returncode}: {(done.stdout + done.stderr)[-500:]}")
        if harness.daemons(self.mount.path):
            found.append(f"{self.title}: a daemon is left")
        return found


class Soak:
    def __init__(self, arguments, place, environment):
        self.arguments = arguments
        self.chance = random.Random(f"{arguments.seed}:soak")
        share = arguments.duty / (2 * len(soak_load.LOADS))
        self.steady, self.turning = (
            Side(title, environment, place, arguments.seed, share) for title in ("steady", "turning"))
        self.sides = [self.steady, self.turning]
        read_end, write_end = os.pipe()
        os.set_blocking(read_end, False)
        self.samples, self.buffer, self.rounds = read_end, b"", []
        gang = self.steady.gang
        gang.start(lambda: soak_measure.sample(gang, write_end, self.steady.mount.path, self.steady.shadow))
        os.close(write_end)
        self.daemon = self.steady.mount.pid
        self.rows, self.figures, self.problems = [], [], []

    def drain(self):
        try:
            while (part := os.read(self.samples, 1 << 16)):
                self.buffer += part
        except BlockingIOError:
            pass
        *lines, self.buffer = self.buffer.split(b"\n")
        self.rounds += [json.loads(line) for line in lines]

    def complaints(self):
        for side in self.sides:
            try:
                self.problems += os.read(side.gang.problems_read, 1 << 16).decode().splitlines()
            except BlockingIOError:
                pass

    def row(self, started):
        figures, self.figures = [*self.figures, soak_measure.fields(self.daemon)], []
        rounds, self.rounds = self.rounds, []
        least = lambda name: min(entry[name] for entry in figures)
        row = {"minute": (time.monotonic() - started) / 60, "steps": sum(side.gate.steps for side in self.sides),
               "locks": sum(side.locks for side in self.sides), "remounts": self.turning.remounts,
               "compared": sum(side.compared for side in self.sides),
               "resident": least("VmRSS") / 1024, "locked": least("VmLck") / 1024,
               "descriptors": least("descriptors"), "threads": least("Threads"),
               **(soak_measure.latency(rounds) or {})}
        self.rows.append(row)
        if len(self.rows) % 30 == 1:
            print("minute   steps  locks remounts compared  RSS MiB locked fds threads  p50/plain p99/plain  paced p50  p99",
                  flush=True)
        ratio = lambda name: f"{row[name]:.2f}" if name in row else "-"
        print(f"{row['minute']:6.1f} {row['steps']:7d} {row['locks']:6d} {row['remounts']:8d} {row['compared']:8d} "
              f"{row['resident']:8.1f} {row['locked']:6.1f} {row['descriptors']:3d} {row['threads']:7d}  "
              f"{ratio('p50'):>9} {ratio('p99'):>9} {ratio('paced'):>10} {ratio('paced99'):>4}", flush=True)

    def run(self, seconds):
        started = time.monotonic()
        interval = min(60.0, seconds / 12)
        # The next time of: a row, a figure, a lock of each, a comparison, a remount.
        due = {"row": interval, "figure": 2, "lock": 5, "compare": min(300, seconds / 4), "remount": min(120, seconds / 6)}
        every = dict(due)
        while not self.problems and (now := time.monotonic() - started) < seconds:
            name = min(due, key=due.get)
            if due[name] > now:
                time.sleep(min(due[name] - now, 1))
                self.complaints()
                self.drain()
                continue
            if name == "row":
                self.row(started)
            elif name == "figure":
                self.figures.append(soak_measure.fields(self.daemon))
            elif name == "lock":
                self.chance.choice(self.sides).lock_and_unlock(self.chance.random() * 2)
            elif name == "compare":
                self.problems += self.steady.compare()
            else:
                self.problems += self.turning.compare(remount=True)
            after = time.monotonic() - started
            pause = every[name] if name != "lock" else self.chance.uniform(2, min(20, every["remount"] / 4))
            due[name] = max(due[name] + pause, after) if name == "row" else after + pause
        if self.daemon != self.steady.mount.pid:
            self.problems.append("the daemon is not the one of the beginning")
        for side in self.sides:
            self.problems += side.finish()
        return time.monotonic() - started


def arguments():
    parser = argparse.ArgumentParser(prog="soak", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("hours", nargs="?", type=float, default=2.0, metavar="HOURS", help="default: 2")
    parser.add_argument("--minutes", type=float, help="minutes in place of HOURS")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="for the same steps as in an earlier run")
    parser.add_argument("--duty", type=float, default=1.0, metavar="PART", help="load, in processors (default: 1.0)")
    parser.add_argument("--keep", action="store_true", help="keep the volumes and directories")
    return parser.parse_args()


def main():
    chosen = arguments()
    if not os.path.exists("/dev/fuse"):
        raise SystemExit("soak: /dev/fuse is missing")
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 65536), most))
    seconds = (chosen.minutes if chosen.minutes is not None else chosen.hours * 60) * 60
    problems = []
    with workplace("protectfs-soak.") as place:
        print(f"soak: {seconds / 60:g} minutes, seed {chosen.seed}, below {place.path}", flush=True)
        place.is_kept = chosen.keep
        environment = place.environment(mode="full", report=lambda *words, **more: problems.append(
            f"{words}") if words[1:] and words[1] else None)
        soak = Soak(chosen, place.path, environment)
        try:
            took = soak.run(seconds)
        except BaseException:
            soak.complaints()
            print("\n".join(soak.problems), flush=True)
            for side in soak.sides:
                side.gang.finish(5)
            raise
        verdicts = soak_measure.judge(soak.rows)
        problems += soak.problems + [text for text, good in verdicts if not good]
        for text, good in verdicts:
            print(("ok      " if good else "FAILED  ") + text)
        for text in soak.problems:
            print("FAILED  " + text)
        print(f"{took / 60:.1f} minutes, {soak.rows[-1]['steps'] if soak.rows else 0} steps, "
              f"{sum(side.locks for side in soak.sides)} locks, {soak.turning.remounts} remounts, seed {chosen.seed}")
        place.is_kept = place.is_kept or bool(soak.problems)
        environment.close()
        left = harness.clean_mounts(place.path, place.control)
        if left:
            problems.append(f"left mounted: {left}")
        if place.is_kept:
            print(f"soak: kept {place.path}")
    print("flat and equal" if not problems else "NOT flat and equal: " + "; ".join(problems)[:2000])
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
