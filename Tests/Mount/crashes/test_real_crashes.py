"""Real crashes, some rounds of mount-scripts/measure/crash-test: kill -9 of the daemon, and a disk cut off."""

import os

import crashes
import harness

SEED = 7


def rounds(environment, made, label, count):
    if environment.mode == "full":
        count = 100
    try:
        for _ in range(count):
            environment.cell(f"{label}, round {made.number + 1}", [], made.run())
    finally:
        made.close()
    environment.cell(f"{label}: fsyncs compared", True, made.figures["promises"] > 20 * count)  # by `let_work`
    print(f"        {label}: " + ", ".join(f"{value} {name}" for name, value in made.figures.items()), flush=True)


def test_killed(environment):
    """kill -9 under load and in the middle of a lock: programs get an error, unmount cleans up, nothing synced is lost."""
    rounds(environment, crashes.Killed(environment, SEED), "kill -9", 4)


def test_disk_cut(environment):
    """The disk is gone from one moment to the next."""
    if os.geteuid() != 0:
        raise harness.Skip("loop devices need root")
    for kind in ("ext4", "xfs", "btrfs"):
        try:
            rounds(environment, crashes.Cut(environment, SEED, kind), kind, 2)
        except harness.Skip as reason:
            environment.skip(kind, str(reason))


test_disk_cut.time_limit = test_killed.time_limit = 1800
