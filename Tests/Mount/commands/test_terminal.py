"""Passphrases typed at a terminal: not echoed, asked for twice when new; ^C restores the terminal."""

import os

import harness
from terminal import at_terminal


def test_mount_asks(environment):
    volume = environment.volume()
    here = environment.new_path("point")
    os.mkdir(here)
    answers = [("Passphrase of", harness.PASSPHRASE + "\n")]
    code, shown, _ = at_terminal(["mount", volume.path, here], volume.environment, answers)
    environment.cell("mounts", 0, code)
    environment.cell("is not echoed", False, harness.PASSPHRASE in shown)
    environment.cell("answers", "unlocked", os.getxattr(here, "user.protectfs.state").decode())
    harness.protectfs("lock", here, env=volume.environment)
    code, shown, _ = at_terminal(["unlock", here], volume.environment, [("Passphrase for", "wrong\n")])
    environment.cell("a wrong one", (3, True), (code, "wrong passphrase" in shown))
    harness.protectfs("unmount", here, env=volume.environment)


def test_init_asks_twice(environment):
    new = environment.new_path("new")
    variables = {**os.environ, "XDG_DATA_HOME": environment.new_path("data")}
    answers = [("New passphrase", "one\n"), ("Once more", "another\n")]
    code, shown, _ = at_terminal(["init", new], variables, answers)
    environment.cell("two different ones", (3, True), (code, "differ" in shown))
    environment.cell("nothing is left", False, os.path.exists(new))
    answers = [("New passphrase", "one and the same\n"), ("Once more", "one and the same\n")]
    code, shown, _ = at_terminal(["init", new], variables, answers)
    environment.cell("the same twice", (0, False, True),
                     (code, "one and the same" in shown, os.path.exists(new + "/.protectfs.keybag")))


def test_interrupt(environment):
    volume = environment.volume()
    here = environment.new_path("point")
    os.mkdir(here)
    code, shown, echoes = at_terminal(["mount", volume.path, here], volume.environment, [("Passphrase of", "abc\x03")])
    environment.cell("^C ends it", 3, code)
    environment.cell("echo is back", True, echoes in (True, None))
    assert "abc" not in shown
