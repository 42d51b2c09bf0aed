"""A run of many sequences: draws them, plays them, shrinks those that differ, and counts."""

import collections
import os
import time

from .compare import short
from .generator import Generator
from .ground import Ground
from .known import KNOWN, OPEN
from .program import write_program
from .run import Run
from .shrink import shrink

TRIES = 5
MOST = 20  # differences of one run that are shrunk


class Session:
    def __init__(self, environment, options):
        self.options = options
        self.counts = collections.Counter()
        self.found = {}
        self.ground = Ground(environment, options.letter)

    def run(self):
        """Whether nothing differed that the tables do not explain."""
        if self.options.tables:
            try:
                return self.check_tables()
            finally:
                self.ground.close()
        begin = time.monotonic()
        end = begin + 60 * self.options.minutes
        seed = self.options.seed or self.options.first
        try:
            while True:
                self.sequence(seed)
                seed += 1
                if self.options.seed or time.monotonic() > end or len(self.found) >= MOST:
                    break
        finally:
            self.ground.close()
        self.report(time.monotonic() - begin)
        return not self.found

    def check_tables(self):
        """Whether each known difference is there still, and its entry explains it."""
        good = True
        for entry in KNOWN + OPEN:
            all_of = Run(self.ground, (), self.counts).play(entry.steps)
            left = Run(self.ground, (entry,) + KNOWN + OPEN, self.counts).play(entry.steps)
            if entry.always and not any(entry.explains(difference) for difference in all_of):
                print(f"{entry.name}: differs no more: take its entry out of differential/known.py", flush=True)
                good = False
            for difference in left:
                print(f"{entry.name}: not explained: {difference}", flush=True)
                good = False
        return good

    def steps_of(self, seed):
        generator = Generator(seed, os.geteuid() == 0, self.options.letter)
        return generator.steps(self.options.steps)

    def play(self, steps):
        return Run(self.ground, KNOWN + OPEN, self.counts).play(steps)

    def sequence(self, seed):
        steps = self.steps_of(seed)
        self.counts["sequences"] += 1
        differences = self.play(steps)
        for difference in differences:
            if difference.what not in self.found:
                self.tell(seed, steps, difference)

    def tell(self, seed, steps, difference):
        """Shrinks and shows a difference, and notes its name: later ones of the same name are only counted."""
        def shows(tried):
            return any(one.what == difference.what for one in self.play(tried))
        print(f"seed {seed}: {difference}", flush=True)
        if not any(shows(steps) for _ in range(TRIES)):
            print(f"  not seen again in {TRIES} tries; the step: {short(difference.step)}", flush=True)
            # A slow machine can be late to show a time.
            if not difference.what.endswith("time"):
                self.found[f"{difference.what}, seed {seed}"] = steps
            return
        small = shrink(steps, shows)
        last = next((one for one in self.play(small) if one.what == difference.what), difference)
        self.found[difference.what] = small
        for step in small:
            print("   ", step.actor, step.name, short(step.arguments))
        print(f"  {last}", flush=True)
        if self.options.keep:
            name = f"differs-{self.options.letter}-{seed}-{len(self.found)}.py"
            write_program(small, last, os.path.join(self.options.keep, name))

    def report(self, seconds):
        for name, count in sorted(self.counts.items()):
            print(f"{name}: {count}")
        print(f"{self.counts['calls'] / seconds:.0f} calls a second, {len(self.found)} differences", flush=True)
