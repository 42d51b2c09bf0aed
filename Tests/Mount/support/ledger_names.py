"""Loads on names and classes: directories made, moved and removed with an fsync after each step; class changes."""

import os
import random
import stat

import harness
from ledger import Load, fsync_directory

CLASSES = ["none", "completeUntilFirstUserAuthentication", "completeUnlessOpen", "complete"]


class Classes(Load):
    """Files whose class changes, with what is in them; tightening is durable at once, the rest after an fsync."""

    files = 4
    slots = 2 * files

    def content(self, number):
        return harness.pattern([0, 100, 5000, 40_000][number], seed=self.seed % 1000 + number + 1)

    def wanted(self, number, step):
        count = 2 if self.may_lock else 4
        return CLASSES[random.Random(f"{self.seed} {number} {step}").randrange(count)]

    def change(self, number, step):
        path = self.path(f"file {number}")
        harness.set_class(path, self.wanted(number, step))
        handle = os.open(path, os.O_RDONLY)
        os.fsync(handle)
        os.close(handle)

    def prepare(self):
        for number in range(self.files):
            harness.write_file(self.path(f"file {number}"), self.content(number))
            self.change(number, 0)
        fsync_directory(self.place)

    def run(self):
        while not self.ledger.is_over:
            number = self.choice.randrange(self.files)
            step = self.ledger.get(self.base + 2 * number) + 1
            self.ledger.put(self.base + 2 * number, step)
            self.change(number, step)
            if not self.ledger.is_over:
                self.ledger.put(self.base + 2 * number + 1, step)
                self.promised()

    def check(self):
        problems = []
        for number in range(self.files):
            path = self.path(f"file {number}")
            tried, safe = self.ledger.get(self.base + 2 * number), self.ledger.get(self.base + 2 * number + 1)
            allowed = {self.wanted(number, step) for step in range(safe, tried + 1)}
            if harness.get_class(path) not in allowed:
                problems.append(f"file {number}: class {harness.get_class(path)}, expected one of {allowed}")
            if harness.read_file(path) != self.content(number):
                problems.append(f"file {number}: content changed with the class")
        return problems


class Directories(Load):
    """A tree with short and long names; every step is synced in all directories it touches."""

    def name(self, choice):
        return "".join(choice.choice("abcde ä") for _ in range(choice.choice([2, 8, 100]))).strip() + "x"

    def step(self, choice, tree, number):
        """The next tree (path → None for a directory, content, or target in a tuple), and what brings it about."""
        directories = sorted([""] + [path for path, value in tree.items() if value is None])
        others = sorted(path for path, value in tree.items() if value is not None)
        parent, new = choice.choice(directories), dict(tree)
        path = os.path.join(parent, self.name(choice) + str(number))
        kind = choice.choice(["mkdir", "mkdir", "file", "file", "link", "symlink", "rename", "over", "unlink", "rmdir",
                              "move"])
        if kind == "mkdir":
            new[path] = None
            return new, lambda: self.make_directory(path)
        if kind == "symlink":
            new[path] = (f"target {number}",)
            return new, lambda: self.with_sync([path], os.symlink, f"target {number}", self.path(path))
        empty = [one for one in directories if one and not any(other.startswith(one + "/") for other in tree)]
        if kind == "rmdir" and empty:
            victim = choice.choice(empty)
            del new[victim]
            return new, lambda: self.with_sync([victim], os.rmdir, self.path(victim))
        movable = [one for one in directories if one and not (parent + "/").startswith(one + "/")]
        if kind == "move" and movable:
            victim = choice.choice(movable)
            for old in [one for one in tree if (one + "/").startswith(victim + "/")]:
                new[path + old[len(victim):]] = new.pop(old)
            return new, lambda: self.with_sync([victim, path], os.rename, self.path(victim), self.path(path))
        if others and kind in ("link", "rename", "over", "unlink"):
            victim = choice.choice(others)
            if kind == "link":
                new[path] = tree[victim]
                return new, lambda: self.with_sync([path], self.link, victim, path)
            if kind == "unlink":
                del new[victim]
                return new, lambda: self.with_sync([victim], os.unlink, self.path(victim))
            target = choice.choice(others) if kind == "over" else path
            if target != victim and tree.get(target) != tree[victim]:
                new[target] = new.pop(victim)
                return new, lambda: self.with_sync([victim, target], os.rename, self.path(victim), self.path(target))
        new[path] = harness.pattern(choice.choice([0, 10, 9000]), seed=number + 1)
        return new, lambda: self.make_file(path, new[path])

    def make_directory(self, path):
        """Made and synced; every second one with a default class, which is synced as well."""
        os.mkdir(self.path(path))
        if len(path) % 2:
            os.setxattr(self.path(path), "user.protection", b"completeUntilFirstUserAuthentication")
            fsync_directory(self.path(path))
        fsync_directory(os.path.dirname(self.path(path)))

    def make_file(self, path, content):
        harness.write_file(self.path(path), content)
        handle = os.open(self.path(path), os.O_RDONLY)
        os.fsync(handle)
        os.close(handle)
        fsync_directory(os.path.dirname(self.path(path)))

    def link(self, old, new):
        os.link(self.path(old), self.path(new), follow_symlinks=False)

    def with_sync(self, paths, act, *words):
        act(*words)
        for parent in {os.path.dirname(self.path(path)) for path in paths}:
            fsync_directory(parent)

    def run(self):
        choice, tree, number = random.Random(self.seed), {}, 0
        while not self.ledger.is_over:
            number += 1
            tree, act = self.step(choice, tree, number)
            self.attempt(number)
            act()
            self.succeed(number)

    def found(self):
        """The tree as it is; raises where something cannot be read."""
        tree = {}
        for place, directories, files in os.walk(self.place, onerror=self.fail):
            for name in directories + files:
                full = os.path.join(place, name)
                mode = os.lstat(full).st_mode
                path = os.path.relpath(full, self.place)
                tree[path] = (None if stat.S_ISDIR(mode) else (os.readlink(full),) if stat.S_ISLNK(mode)
                              else harness.read_file(full))
        return tree

    @staticmethod
    def fail(error):
        raise error

    def check(self):
        found = self.found()
        choice, tree, states = random.Random(self.seed), {}, []
        safe, tried = self.ledger.get(self.safe), self.ledger.get(self.tried)
        for number in range(tried + 1):
            if number > 0:
                tree, _ = self.step(choice, tree, number)
            if number >= safe:
                states.append(tree)
        was = states[0]
        if any(self.is_like(found, state, states[0]) for state in states):
            return []
        wanted = tree
        missing = sorted(set(wanted) - set(found))[:3]
        more = sorted(set(found) - set(wanted))[:3]
        differ = [path for path in sorted(set(wanted) & set(found)) if wanted[path] != found[path]][:3]
        return [f"tree: not as after step {safe} or {tried}: missing {missing}, more {more}, different {differ}; "
                f"the step took {sorted(set(was) - set(wanted))[:3]}, gave {sorted(set(wanted) - set(was))[:3]}"]

    @staticmethod
    def is_like(found, state, before):
        """The same, but for a file that was just being made: its name may be there before its content is."""
        if set(found) != set(state):
            return False
        for path, value in state.items():
            if found[path] != value and not (path not in before and isinstance(value, bytes)
                                             and isinstance(found[path], bytes) and len(found[path]) <= len(value)
                                             and all(a in (b, 0) for a, b in zip(found[path], value))):
                return False
        return True
