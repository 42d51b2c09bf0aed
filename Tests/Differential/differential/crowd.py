"""Several processes play sequences at once in the same directories; each compares its own answers, and all is compared at the end."""

import collections
import os
import pickle

from .compare import compare_trees, snapshot
from .generator import Generator
from .known import KNOWN, OPEN
from .run import Run
from .tree import Tree

SHARED = (b"d", b"e", b"d/e")


class Crowd:
    def __init__(self, ground, options, counts):
        self.ground, self.options, self.counts = ground, options, counts

    def play(self, seed):
        """The differences of all of them, and of the trees that they leave."""
        paths = self.ground.fresh()
        for path in paths:
            for name in SHARED:
                directory = os.path.join(os.fsencode(path), name)
                os.mkdir(directory)
                os.chmod(directory, 0o777)
        trees = [Tree(path) for path in paths]
        workers = [self.start(number, seed, paths) for number in range(self.options.processes)]
        found, apart, is_after_close = [], [], False
        for number, (pid, away) in enumerate(workers):
            with os.fdopen(away, "rb") as answer:
                content = answer.read()
            os.waitpid(pid, 0)
            is_same, differences, counts, mapped = pickle.loads(content) if content else (
                False, [f"process {number} ended by itself"], {}, None)
            self.counts.update(counts)
            is_after_close = is_after_close or mapped == "a store again"
            found += differences
            if not is_same:
                apart.append(prefix(number))
        there, here = map(snapshot, trees)
        for tree in trees:
            tree.close()
        self.ground.clear()
        left = [one._replace(is_after_close=is_after_close) for one in compare_trees(there, here)]
        # What a known difference has made of one process's names is not compared.
        return found + [one for one in left
                        if not any(entry.explains(one) for entry in KNOWN + OPEN)
                        and not (one.path.split(b"/")[-1].startswith(tuple(apart)) or apart and one.path in (b"records", *SHARED))]

    def start(self, number, seed, paths):
        """A process; it tells through a pipe whether the sides are the same, and what differed."""
        away, back = os.pipe()
        pid = os.fork()
        if pid:
            os.close(back)
            return pid, away
        status = 1
        try:
            generator = Generator(seed * 1000 + number, os.geteuid() == 0, self.options.letter, prefix(number), SHARED)
            steps = generator.steps(self.options.steps)
            run = Run(self.ground, KNOWN + OPEN, collections.Counter())
            is_same = run.play_in(paths, steps)
            run.leave()
            with os.fdopen(back, "wb") as answer:
                pickle.dump((is_same, [str(one) + f" (step {one.step})" for one in run.differences], run.counts, run.mapped), answer)
            status = 0
        finally:
            os._exit(status)


def prefix(number):
    return b"p%d-" % number
