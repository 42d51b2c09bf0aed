"""A run of many sequences: draws them, plays them, shrinks those that differ, and counts."""

import collections
import os
import signal
import time

from . import systematic
from .compare import short
from .crowd import Crowd
from .generator import Generator
from .ground import Ground
from .known import AFTER_CRASH, KNOWN, MENDED, OPEN
from .program import write_program
from .run import Run
from .shrink import shrink

TRIES = 5
MOST = 20  # differences of one run that are shrunk


class Session:
    """Each of its ways to run takes the ground away at its end, and gives what differed, as lines."""

    def __init__(self, environment, options):
        # A broken lease, or a pipe with O_ASYNC, sends it.
        signal.signal(signal.SIGIO, signal.SIG_IGN)
        self.options = options
        self.counts = collections.Counter()
        self.found = []
        self.names = set()
        self.ground = Ground(environment, options.letter)

    def run(self):
        """Random sequences, until the time is over."""
        begin = time.monotonic()
        end = begin + 60 * self.options.minutes
        seed = self.options.seed or self.options.first
        try:
            while True:
                self.crowd(seed) if self.options.processes > 1 else self.sequence(seed)
                seed += 1
                is_last = self.options.seed or self.options.last and seed > self.options.last
                if is_last or time.monotonic() > end or len(self.found) >= MOST:
                    break
        finally:
            self.ground.close()
        for name, count in sorted(self.counts.items()):
            print(f"{name}: {count}")
        print(f"{self.counts['calls'] / (time.monotonic() - begin):.0f} calls a second, {len(self.found)} differences",
              flush=True)
        return self.found

    def check_tables(self):
        """Whether each known difference is there still and its entry explains it, and those that were mended are gone."""
        try:
            for entry in KNOWN + OPEN:
                seen = Run(self.ground, (), self.counts).play(entry.steps)
                if entry.always and not any(entry.explains(difference) for difference in seen):
                    self.say(f"{entry.name}: differs no more: take its entry out of differential/known.py")
                for difference in Run(self.ground, KNOWN + OPEN, self.counts).play(entry.steps):
                    self.say(f"{entry.name}: not explained: {difference}")
            for name, steps in MENDED.items():
                for difference in self.play(steps):
                    self.say(f"{name}: differs again: {difference}")
        finally:
            self.ground.close()
        return self.found

    def play_systematically(self, moments=systematic.MOMENTS):
        """All pairs of changes of a file, at each moment."""
        try:
            for moment in moments:
                run = Run(self.ground, KNOWN + OPEN, self.counts, stops=False)
                for difference in run.play(systematic.steps(moment)):
                    if moment == "crash" and AFTER_CRASH.explains(difference):
                        print(f"explained: {AFTER_CRASH.name}: {' + '.join(systematic.pair_of(difference))}", flush=True)
                        continue
                    self.say(f"{moment}: {' + '.join(systematic.pair_of(difference))}: {difference}")
                assert run.is_together, f"{moment}: an entry of the tables has ended the comparison"
        finally:
            self.ground.close()
        return self.found

    def say(self, line):
        print(line, flush=True)
        self.found.append(line)

    def play(self, steps):
        return Run(self.ground, KNOWN + OPEN, self.counts).play(steps)

    def sequence(self, seed):
        """One sequence. A difference of a name that was shrunk already is not shrunk again."""
        steps = Generator(seed, os.geteuid() == 0, self.options.letter).steps(self.options.steps)
        self.counts["sequences"] += 1
        for difference in self.play(steps):
            if difference.what not in self.names:
                self.tell(seed, steps, difference)

    def crowd(self, seed):
        """Sequences of several processes at once in the same directories, each with names of its own."""
        self.counts["sequences"] += self.options.processes
        for difference in Crowd(self.ground, self.options, self.counts).play(seed):
            self.say(f"seed {seed}, {self.options.processes} processes: {difference}")

    def tell(self, seed, steps, difference):
        """Shrinks and shows a difference."""
        def shows(tried):
            return any(one.what == difference.what for one in self.play(tried))
        if not any(shows(steps) for _ in range(TRIES)):
            line = f"seed {seed}: {difference}; not seen again in {TRIES} tries; the step: {short(difference.step)}"
            # A slow machine can be late to show a time.
            print(line, flush=True) if difference.what.endswith("time") else self.say(line)
            return
        small = shrink(steps, shows)
        last = next((one for one in self.play(small) if one.what == difference.what), difference)
        self.names.add(difference.what)
        self.say(f"seed {seed}: {last}")
        for step in small:
            print("   ", step.actor, step.name, short(step.arguments), flush=True)
        if self.options.keep:
            name = f"differs-{self.options.letter}-{seed}-{len(self.names)}.py"
            write_program(small, last, os.path.join(self.options.keep, name))
