"""Rounds of power cuts over a store that is a FUSE file system and loses what was not synced."""

import os
import shutil

import crashes
import harness
from losing import LosingStore


class Losing(crashes.Rounds):
    """The store below is gone from one moment to the next, in every third round just after a clean unmount."""

    def __init__(self, environment, seed):
        super().__init__(environment, seed)
        self.host = environment.volume()
        self.store = LosingStore(environment)
        self.point = environment.new_path("mount")
        shutil.copytree(self.host.path, self.store.path + "/volume", symlinks=True)
        self.volume = harness.Volume(self.store.path + "/volume", self.host.data, self.host.code_file,
                                     self.host.passphrase_file)
        for directory, _, files in os.walk(self.store.path):
            for path in [directory, *(os.path.join(directory, name) for name in files)]:
                if not os.path.islink(path):
                    sync(path)

    def run(self):
        """One round; gives its problems."""
        self.begin()
        mount = self.environment.mount(self.volume, path=self.point)
        name, programs = self.start(mount, False)
        self.let_work(programs, self.choice.uniform(0.1, 1.0))
        programs.ledger.end()
        is_clean = self.number % 3 == 0
        if is_clean:
            self.problems += programs.finish()
            promised = crashes.digest(mount / name)
            mount.unmount()
        self.store.stop()
        if not is_clean:
            self.problems += programs.finish()
            if self.choice.random() < 0.3:
                mount.command("unmount", mount.path, ok=False)
            mount.crash()
        unsynced = self.store.cut(self.choice)
        self.figures["unflushed"] += unsynced
        damage = self.figures["damage"]
        if is_clean or self.choice.random() < 0.5:
            self.check_volume(self.volume, "fsck before mounting")
        if is_clean:
            self.expect("what a clean unmount has left unsynced", 0, unsynced)
            self.expect("damage after a clean unmount", 0, self.figures["damage"] - damage)
        again = self.environment.mount(self.volume, path=self.point, ok=False)
        self.expect("mounting again", (0, ""), (again.result.returncode, again.result.stderr))
        if again.result.returncode == 0:
            self.compare(again, name, programs)
            if is_clean:
                self.expect("the tree after a clean unmount", promised, self.earlier.get(name))
            again.unmount()
            self.check_volume(self.volume)
        return self.end(programs)

    def close(self):
        harness.detach(self.point)
        self.store.close()


def sync(path):
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
