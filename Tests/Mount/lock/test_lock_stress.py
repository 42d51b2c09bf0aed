"""33 programs write in eight ways under load, stops, class changes and a frozen store: a lock loses none of their bytes."""

import contextlib
import glob
import os
import random
import time

import frozen
import hammer
import harness
import reader
import stress
import uring
from checks import errors
from harness import PATIENCE, wait_until

SWEEPING = 10  # exit code of a lock after which the kernel still holds pages


class Stress:
    """A mount, its programs, and the figures of the cycles."""

    def __init__(self, environment, store):
        self.environment, self.store = environment, store
        self.mount = environment.mount(store.volume if store else None)
        self.crowd = stress.Crowd()
        self.accounts, number = [], 0
        for kind, (programs, _, _) in stress.KINDS.items():
            if kind == "io_uring" and not uring.is_there():
                environment.skip("[io_uring]", "the kernel refuses io_uring")
                continue
            for _ in range(programs):
                self.accounts.append(stress.Account(self.mount / f"{kind} {number}", kind, number))
                number += 1
        self.figures = {"cycles": 0, "frozen": 0, "sweeping": 0, "late files": 0, "late records": 0, "late bytes": 0}
        self.slowest = self.slowest_frozen = 0
        self.secondreader = self.late_keys = None
        with contextlib.suppress(harness.Skip):
            self.secondreader = reader.load()
            self.late_keys = self.secondreader.LateKeys.of(reader.unlock(self.mount.volume).keys)
        self.problems = []
        self.choice = random.Random(7)

    def start(self):
        for account in self.accounts:
            account.prepare()
            if account.number % 4 == 3:  # its handle is a direct one
                harness.set_class(account.path, "A")
        # Files that lose their name some time.
        self.nameless = {account.name for account in self.accounts if account.number % 5 == 1}
        for account in self.accounts:
            writer = stress.Writer(self.crowd, account, account.path + ".source")
            self.crowd.start(writer.run, nice=self.choice.randrange(20))
        wait_until(lambda: all(account.figure("pid") for account in self.accounts), what="programs that have begun")
        self.changers = [stress.Changer(self.crowd, self.accounts[share::2], self.nameless) for share in range(2)]
        for changer in self.changers:
            self.crowd.start(changer.run)
        for _ in range(2):
            self.crowd.start(lambda: hammer.hog(self.crowd), nice=10)
        self.crowd.start(lambda: stress.stopper(self.crowd, self.accounts))

    def expect(self, what, wanted, found):
        if found not in wanted:
            self.problems.append(f"cycle {self.figures['cycles']}: {what}: {found}")

    def lock(self):
        """One lock; what it says must be true."""
        begun = time.monotonic()
        done = self.mount.command("lock", self.mount.path, ok=False)
        taken = time.monotonic() - begun
        self.expect("exit code of lock", (0, SWEEPING), done.returncode)
        # By the socket: where the store is frozen, every worker may wait for it.
        state = self.mount.status()["state"]
        self.expect("state after lock", ("locked",) if done.returncode == 0 else ("locked", "sweeping"), state)
        self.figures["sweeping"] += done.returncode == SWEEPING
        return taken

    def look_at_the_store(self):
        """What of the late records is durable by now, as the second reader reads it; the others are in memory still."""
        for path in glob.glob(glob.escape(self.mount.volume.path) + "/.protectfs.late.*"):
            with contextlib.suppress(FileNotFoundError), open(path, "rb") as file:
                data = file.read()
                self.figures["late files"] += 1
                if self.late_keys:
                    records = self.secondreader.Late(self.late_keys, data).records
                    self.figures["late records"] += len(records)
                    self.figures["late bytes"] += sum(len(record.data) for record in records)

    def cycle(self):
        self.figures["cycles"] += 1
        time.sleep(self.choice.choice([0.02, 0.1, 0.3]))
        if self.store and self.figures["cycles"] % 10 == 5:
            self.figures["frozen"] += 1
            with frozen.freezing(self.store.backing) as thaw:
                # Long enough for some to write, and for a change of class to wait for the store.
                time.sleep(self.choice.choice([0.05, 0.3]))
                self.slowest_frozen = max(self.slowest_frozen, self.lock())
                thaw()
        else:
            self.slowest = max(self.slowest, self.lock())
        if self.choice.random() < 0.5:
            time.sleep(self.choice.choice([0.01, 0.1, 0.4]))
            wait_until(lambda: self.mount.state() == "locked", what="the state locked")
        self.look_at_the_store()
        self.mount.unlock()
        self.expect("state after unlock", ("unlocked",), self.mount.state())

    def summary(self):
        """Lines of figures."""
        rows = []
        for kind in stress.KINDS:
            own = [account for account in self.accounts if account.kind == kind]
            total = {name: sum(account.figure(name) for account in own) for name in stress.Account.FIGURES}
            if own:
                rows.append(f"{kind}: {len(own)} programs, {total['writes']} writes ({total['bytes']} bytes) acknowledged, "
                            f"{total['checked']} slots compared, {total['refused']} calls refused, {total['synced']} fsyncs, "
                            f"{total['lost']} slots lost ({sum(one.figure('lost') * one.size for one in own)} bytes)")
        changes = {name: sum(changer.counts[place] for changer in self.changers)
                   for place, name in enumerate(stress.Changer.KINDS)}
        rows.append("class and name changes: " + ", ".join(f"{count} {name}" for name, count in changes.items()))
        rows.append(", ".join(f"{name} {count}" for name, count in self.figures.items())
                    + f"; slowest lock {self.slowest:.2f} s, frozen {self.slowest_frozen:.2f} s")
        return rows


def test_thirty_three_writers(environment):
    store = None
    if os.geteuid() == 0:
        store = frozen.LoopStore(environment)
    else:
        environment.skip("[frozen store]", "loop devices need root")
    try:
        run(environment, Stress(environment, store))
    finally:
        if store:
            environment.close()
            store.close()


def run(environment, test):
    cycles = 300 if environment.mode == "full" else 6
    test.start()
    try:
        for _ in range(cycles):
            test.cycle()
        # However rarely the niced ones have had a processor until now.
        for kind in {account.kind for account in test.accounts}:
            own = [account for account in test.accounts if account.kind == kind]
            wait_until(lambda: sum(account.figure("writes") for account in own) > cycles, 3 * PATIENCE,
                       f"as many writes by {kind} as locks")
        wait_until(lambda: test.mount.state() == "unlocked", what="the state unlocked")
        late = {name: value for name, value in test.mount.status().items() if "late" in name.lower()}
    except BaseException:
        print("        " + "\n        ".join(test.summary() + test.problems[:10] + test.crowd.finish(PATIENCE)), flush=True)
        raise
    complaints = test.crowd.finish(PATIENCE)
    named = [account for account in test.accounts if os.path.exists(account.path)]
    found = [problem for account in named for problem in account.check_path(account.path)]
    mount = environment.remount(test.mount)
    again = [problem for account in named for problem in account.check_path(account.path)]
    for row in test.summary():
        print("        " + row, flush=True)
    print(f"        {test.crowd.complained.value} complaints; status: {late}", flush=True)
    environment.cell("[every lock and unlock says what is so]", [], test.problems[:10])
    environment.cell("[complaints]", [], complaints[:12])
    environment.cell("[slots lost, as the programs saw it and by name afterwards]", 0, sum(account.figure("lost") for account in test.accounts))
    environment.cell("[contents after unlock]", [], found[:10])
    environment.cell("[contents after mounting again]", [], again[:10])
    left = [name for name in os.listdir(mount.volume.path) if name.startswith(".protectfs.late.")]
    environment.cell("[late files in the end]", [], left)
    mount.unmount()
    environment.cell("[errors that fsck finds]", [], errors(mount.volume))


test_thirty_three_writers.time_limit = 7200
