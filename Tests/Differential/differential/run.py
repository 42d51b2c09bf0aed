"""Plays a sequence on ext4 and on the mount, step by step, and gives the differences."""

import os
import stat
import time

from . import names, operations
from .compare import Difference, compare_answers, compare_trees, snapshot
from .tree import Tree, become, checked, libc, play

FUNCTIONS = {name: value for module in (operations, names) for name, value in vars(module).items()
             if callable(value) and getattr(value, "__module__", "") == module.__name__}
TICK = 0.012  # more than a tick of the kernel's clock, which times are rounded to
IMMUTABLE = 0x10  # FS_IMMUTABLE_FL
# What opens a file anew, which class B refuses while locked: how its path follows from the arguments and the open files.
OPENERS = {
    "open_file": lambda arguments, files: arguments[1], "truncate": lambda arguments, files: arguments[0],
    "lock_seen": lambda arguments, files: arguments[0],
    "reopen": lambda arguments, files: f"/proc/self/fd/{files.get(arguments[1])}",
}


class Run:
    """Two fresh directories, the steps played in them, and what differed."""

    def __init__(self, ground, table, counts, stops=True):
        self.stops = stops  # at the first difference that the table does not explain
        self.ground, self.table, self.counts = ground, table, counts
        self.differences = []
        self.is_locked = False
        self.has_immutable = False  # whether a file of these trees was made immutable
        self.mapped = "no store"  # then "a store", "a close", "a store again", of all mappings together
        self.is_together = True  # until a difference after which nothing can be compared

    def play(self, steps):
        """Plays steps in new directories until something differs, then compares the trees; gives the differences."""
        paths = self.ground.fresh()
        try:
            if self.play_in(paths, steps):
                become(0)
                self.set_locked(False)
                for difference in compare_trees(*map(snapshot, self.trees)):
                    self.judge(difference)
            return self.differences
        finally:
            self.leave()
            self.ground.clear()

    def play_in(self, paths, steps):
        """Plays steps until something differs that the tables do not explain, or that ends a comparison; whether all were."""
        self.trees = [Tree(path) for path in paths]
        os.umask(0o22)
        self.is_together = all(self.goes_on(step, self.answers(step)) for step in steps)
        return self.is_together

    def leave(self):
        """Closes everything, as root."""
        become(0)
        os.umask(0o22)
        os.fchdir(self.ground.outside)
        self.set_locked(False)
        self.close()

    def answers(self, step):
        """What both sides answer; None if the step is not one that is compared."""
        actor, name, arguments = step
        there, here = self.trees
        if name in SPECIAL:
            become(0)
            os.fchdir(self.ground.outside)
            return SPECIAL[name](self)
        stay_inside(arguments)
        become(actor)
        function = FUNCTIONS[name]
        self.counts["calls"] += 2
        if self.is_locked and name in OPENERS and self.is_closed(OPENERS[name](arguments, there.files)):
            become(actor)
            answer = play(here, function, arguments)
            if answer in ("EACCES", "13"):
                self.counts["refused while locked"] += 1
                return None
            # It is not played again: an empty file is opened once.
            become(actor)
            return play(there, function, arguments), answer
        return play(there, function, arguments), play(here, function, arguments)

    def goes_on(self, step, answers):
        """Whether the sides are the same still."""
        if step.name == "add_flags" and step.arguments[1] & IMMUTABLE and answers and answers[0] is None:
            self.has_immutable = True
        self.mapped = {("no store", "map_put"): "a store", ("a store", "close"): "a close", ("a store", "open_file"): "a close",
                       ("a store", "reopen"): "a close", ("a close", "map_put"): "a store again"}.get((self.mapped, step.name), self.mapped)
        if reason := self.fork(step, answers):
            self.counts["explained: " + reason] += 1
            return False
        if answers is None or answers[0] == answers[1]:
            return True
        verdicts = [self.judge(difference) for difference in compare_answers(step, *answers)]
        return all(verdicts)

    def fork(self, step, answers):
        """Why the sides differ from here on, although they answer the same; None if they do not."""
        if self.has_immutable and answers == ("EPERM", "EPERM") and step.name.startswith("write"):
            return "a write that the store of an immutable file refuses at its sync stays in the page cache"
        if step.name == "rename" and any(flag & 4 for flag in step.arguments[2:]) and answers == ("ENOTEMPTY", "ENOTEMPTY"):
            return "ext4 has put the whiteout already, and takes it away, which moves the directory's time"
        if step.name == "send_file" and answers and isinstance(answers[0], int):
            files = [self.trees[0].files.get(slot) for slot in step.arguments[:2]]
            if None not in files and os.path.samestat(*map(os.fstat, files)):
                return "sendfile within a file: ext4's pipe holds pages of the cache, and so may read what it has just written"
        return None

    def judge(self, difference):
        """Counts a difference that the tables explain; whether the sequence may go on."""
        difference = difference._replace(is_after_flags=self.has_immutable, is_after_close=self.mapped == "a store again")
        for entry in self.table:
            if entry.explains(difference):
                self.counts["explained: " + entry.name] += 1
                return not entry.forks
        self.differences.append(difference)
        return not self.stops

    # Steps that are no calls.

    def tick(self):
        """Lets times taken before differ from times taken after, by more than the kernel's clock rounds."""
        time.sleep(TICK)
        for tree in self.trees:
            tree.mark = time.time_ns()
        time.sleep(TICK)

    def remount(self):
        """Closes everything, unmounts and mounts again."""
        self.set_locked(False)
        self.close()
        self.ground.remount()
        for tree in self.trees:
            tree.top = os.open(tree.path, os.O_RDONLY | os.O_DIRECTORY)

    def close(self):
        """Closes what is open, on both sides; what close(2) says is compared."""
        there, here = [tree.close() for tree in self.trees]
        if there != here and self.is_together:
            self.judge(Difference(None, "close at the end", there, here))

    def sync_all(self):
        """Writes both sides to their disks."""
        for tree in self.trees:
            checked(libc.syncfs(tree.top))

    def crash(self):
        """Syncs, closes everything, and kills the daemon: what was synced is there after it."""
        self.sync_all()
        self.close()
        self.ground.crash()
        for tree in self.trees:
            tree.top = os.open(tree.path, os.O_RDONLY | os.O_DIRECTORY)

    def lock(self):
        self.set_locked(True)

    def unlock(self):
        self.set_locked(False)

    def relock(self):
        """Locks and unlocks at once."""
        self.set_locked(not self.is_locked)
        self.set_locked(not self.is_locked)

    def set_locked(self, locked):
        if locked != self.is_locked:
            (self.ground.lock if locked else self.ground.unlock)()
            self.is_locked = locked

    def is_closed(self, path):
        """Whether a path is a regular file that is there, as root sees it."""
        become(0)
        try:
            os.fchdir(self.trees[0].top)
            return stat.S_ISREG(os.stat(path).st_mode)
        except (OSError, ValueError):
            return False


def stay_inside(arguments):
    """No path and no target of a link may lead out of the directories that are compared: this runs as root."""
    for word in arguments:
        if isinstance(word, bytes) and (word.startswith(b"/") or b".." in word.split(b"/")):
            raise ValueError(f"this path leads out: {word!r}")


SPECIAL = {name: getattr(Run, name) for name in ("tick", "remount", "crash", "sync_all", "lock", "unlock", "relock")}
__all__ = ["Difference", "FUNCTIONS", "Run", "SPECIAL"]
