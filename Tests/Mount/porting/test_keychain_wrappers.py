"""Keychain wrappers in the manner of those that programs use, with their tests: unlocked, locked, before the first unlock."""

import harness

# The checks of each state, so that a program that ends early is not taken for one that passes.
CHECKS = {"unlocked": 258, "locked": 115, "before": 115, "after": 29}


def judge(environment, mount, state, title):
    done = harness.run(harness.program("porting-wrapper"), mount.path, state)
    lines = done.stdout.splitlines()
    for line in lines:
        word, _, name = line.partition(" ")
        environment.cell(f"{title} {name}", "ok", word)
    environment.cell(f"{title}: checks", CHECKS[state], len(lines))


def test_spellings(environment):
    """The spellings of applications' keychain classes: each stores an item and finds it."""
    lines = harness.run(harness.program("porting-spellings"), environment.mount().path).stdout.splitlines()
    for line in lines:
        word, _, name = line.partition(" ")
        environment.cell(name, "ok", word)
    environment.cell("spellings", 8, len(lines))


def test_states(environment):
    """The wrappers' tests; what was stored in one mount is read in the next."""
    mount = environment.mount()
    judge(environment, mount, "unlocked", "UNL")
    mount.lock()
    judge(environment, mount, "locked", "LCK")
    mount = environment.remount(mount, unlock=False)
    judge(environment, mount, "before", "BFU")
    mount.unlock()
    judge(environment, mount, "after", "after")
