"""A passphrase change, killed or without power at any of its calls: the old passphrase opens or the new one."""

import json
import os
import shutil
import signal

import harness
from stores import store

# What changes something, and what makes it durable; the others come between two of these. To what is only killed a sync
# is nothing, and without power a write is nothing before its sync.
CHANGES = ("pwrite64", "linkat", "renameat", "unlinkat")
CALLS = ("fsync", "linkat", "renameat")
ALL = (*CALLS, "pwrite64", "unlinkat", "openat2", "flock", "mkdir", "write")
# fsck's exit code for "cannot be done", as of fsck(8).
NOT_DONE = 8


class Changes:
    """A volume whose passphrase is changed to and fro."""

    def __init__(self, environment, volume):
        self.environment, self.volume = environment, volume
        self.other = environment.new_path("other")
        harness.write_file(self.other, b"another one that is long enough\n")
        self.now, self.then = volume.passphrase_file, self.other
        self.seen = {"old": 0, "new": 0}

    def change(self, *tracing):
        """Changes it under strace; its exit code."""
        words = ["strace", "-f", *tracing, harness.binary(), "passphrase", "change", "--passphrase-file", self.now,
                 "--new-passphrase-file", self.then, self.volume.path]
        done = harness.run(*words, env=self.volume.environment, ok=False, timeout=None)
        if done.returncode not in (0, 137, -signal.SIGKILL):
            raise harness.CommandFailed(words, f"exit code {done.returncode}", done.stdout, done.stderr)
        return done.returncode

    def opens(self, passphrase):
        """Whether fsck opens the volume with it; it may find no error."""
        done = harness.protectfs("fsck", "--json", "--passphrase-file", passphrase, self.volume.path,
                                 env=self.volume.environment, ok=False)
        if done.returncode == NOT_DONE and "wrong passphrase" in done.stderr:
            return False
        if not done.stdout:
            self.environment.cell("fsck", "a report", done.stderr.strip())
            return False
        errors = [one for one in json.loads(done.stdout)["findings"] if one["severity"] == "error"]
        self.environment.cell("errors that fsck finds", [], errors)
        return True

    def turn(self):
        self.now, self.then = self.then, self.now

    def at_every_call(self, calls, afterwards=lambda label: None):
        trace = self.environment.new_path("trace")
        self.environment.cell("not killed", 0, self.change("-o", trace, "-e", "trace=" + ",".join(calls)))
        afterwards("whole")
        self.environment.cell("not killed: the new one opens, the old one does not", (True, False),
                              (self.opens(self.then), self.opens(self.now)))
        self.turn()
        with open(trace, encoding="utf-8") as file:
            met = [line.split()[1].partition("(")[0] for line in file]
        for call in calls:
            self.environment.cell(f"{call} is among its calls", True, call in met)
            for number in range(1, met.count(call) + 1):
                label = f"{call} {number}"
                code = self.change("-o", "/dev/null", "-e", f"trace={call}", "-e", f"inject={call}:signal=KILL:when={number}")
                self.environment.cell(f"{label}: killed", True, code != 0)
                afterwards(label)
                if self.opens(self.now):
                    self.seen["old"] += 1
                else:
                    # Also where this fails the rounds go on, with the one that opened last.
                    is_new = self.opens(self.then)
                    self.environment.cell(f"{label}: one opens", True, is_new)
                    self.seen["new"] += is_new
                    if is_new:
                        self.turn()
        self.environment.cell("the old one, and the new one", True, all(self.seen.values()))
        print("        " + ", ".join(f"{count} times the {name} one" for name, count in self.seen.items()), flush=True)


def calls(environment, some):
    if not shutil.which("strace"):
        raise harness.Skip("strace is not installed")
    return ALL if environment.mode == "full" else some


def test_killed(environment):
    volume = environment.volume()
    changes = Changes(environment, volume)
    changes.at_every_call(calls(environment, CHANGES))
    done = harness.protectfs("fsck", "--recovery-file", volume.code_file, volume.path, env=volume.environment, ok=False)
    environment.cell("the recovery code, and fsck", 0, done.returncode)
    environment.cell("no debris", [], [name for name in os.listdir(volume.path) if name.startswith(".protectfs.tmp")])


def test_power_cut(environment):
    """Killed there, and the disk is gone: device key and state file, which are elsewhere, stay as they were."""
    wanted = calls(environment, CALLS)
    for kind in ("ext4", "xfs", "btrfs") if environment.mode == "full" else ("ext4",):
        try:
            with store(environment, kind) as below:
                changes = Changes(environment, below.volume)

                def cut(label):
                    below.disk.order("cut", f"{kind} {label}".replace(" ", "-"))
                    below.detach()
                    below.attach()
                changes.at_every_call(wanted, cut)
                below.check(kind)
        except harness.Skip as reason:
            environment.skip(f"power cut on {kind}", str(reason))


test_killed.time_limit = test_power_cut.time_limit = 1800
