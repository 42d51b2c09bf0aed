"""Passphrases typed at a terminal: not echoed, asked for twice when new; ^C restores the terminal."""

import os
import signal

import harness
from terminal import at_terminal


def test_mount_asks(environment):
    volume = environment.volume()
    here = environment.new_path("point")
    os.mkdir(here, mode=0o500)
    answers = [("Passphrase of", harness.PASSPHRASE + "\n")]
    code, shown, _ = at_terminal(["mount", volume.path, here], volume.environment, [("Passphrase of", "wrong\n"), *answers])
    environment.cell("mounts, at the second attempt", (0, 1), (code, shown.count("wrong passphrase")))
    environment.cell("is not echoed", False, harness.PASSPHRASE in shown)
    environment.cell("answers", "unlocked", os.getxattr(here, "user.protectfs.state").decode())
    harness.protectfs("lock", here, env=volume.environment)
    code, shown, _ = at_terminal(["unlock", here], volume.environment, [("Passphrase for", "wrong\n")] * 3)
    environment.cell("three wrong ones", (3, 3), (code, shown.count("wrong passphrase")))
    answers = [("Passphrase for", "wrong\n"), ("Passphrase for", harness.PASSPHRASE + "\n")]
    code, shown, _ = at_terminal(["unlock", here], volume.environment, answers)
    environment.cell("a wrong one and the right one", (0, 1), (code, shown.count("wrong passphrase")))
    harness.protectfs("unmount", here, env=volume.environment)


def test_other_commands_ask_again(environment):
    """What is mistyped is typed again, three times at most, and while a person types, no other command waits."""
    volume = environment.volume()
    copy, code = environment.new_path("copy"), harness.read_file(volume.code_file).decode().strip()
    new = ["--new-passphrase-file", volume.passphrase_file]
    answers = [("Recovery code of", code[:-1] + ("0" if code[-1] != "0" else "1") + "\n"), ("Recovery code of", code + "\n")]
    found, shown, _ = at_terminal(["recovery", "use", *new, volume.path], volume.environment, answers)
    environment.cell("recovery use", (0, 1), (found, shown.count("recovery code; ")))
    answers = [("assphrase of", "wrong\n"), ("assphrase of", harness.PASSPHRASE + "\n")]
    harness.protectfs("keybag", "export", volume.path, copy, env=volume.environment)
    for words in (["slot", "add", "--portable", "--weak-passphrase", *new], ["passphrase", "change", *new],
                  ["slot", "add", "--recovery"], ["keybag", "import", "--accept-keybag"]):
        found, shown, _ = at_terminal([*words, volume.path, *[copy][:words[0] == "keybag"]], volume.environment, answers)
        environment.cell(f"{' '.join(words[:2])}: at the second attempt", (0, 1, 1),
                         (found, shown.count("wrong passphrase"), shown.count("try again")))
    found, shown, _ = at_terminal(["slot", "add", *new, volume.path], volume.environment,
                                  [("Passphrase of", "wrong\n")] * 3)
    environment.cell("three wrong ones", (3, 3), (found, shown.count("wrong passphrase")))
    portable = environment.new_path("portable")
    harness.protectfs("init", "--device-key", "none", "--weak-passphrase", "--passphrase-file", volume.passphrase_file, portable,
                      env=volume.environment)
    found, shown, _ = at_terminal(["inspect", portable], volume.environment, answers)
    environment.cell("inspect: at the second attempt", (0, 1), (found, shown.count("wrong passphrase")))


def test_init_asks_twice(environment):
    new = environment.new_path("new")
    variables = {**os.environ, "XDG_STATE_HOME": environment.new_path("data")}
    different = [("New passphrase", "one\n"), ("Once more", "another\n")]
    code, shown, _ = at_terminal(["init", new], variables, different * 3)
    environment.cell("two different ones, three times", (3, 3), (code, shown.count("differ")))
    environment.cell("nothing is left", False, os.path.exists(new))
    answers = [("New passphrase", "one and the same\n"), ("Once more", "one and the same\n")]
    code, shown, _ = at_terminal(["init", new], variables, different + answers)
    environment.cell("the same twice", (0, False, True),
                     (code, "one and the same" in shown, os.path.exists(new + "/.protectfs.keybag")))


def test_interrupt(environment):
    volume = environment.volume()
    here = environment.new_path("point")
    os.mkdir(here, mode=0o500)
    code, shown, echoes = at_terminal(["mount", volume.path, here], volume.environment, [("Passphrase of", "abc\x03")])
    environment.cell("^C ends it by its signal", -signal.SIGINT, code)
    environment.cell("echo is back", True, echoes in (True, None))
    assert "abc" not in shown
    new = environment.new_path("new")
    code, _, _ = at_terminal(["init", new], {**os.environ, "XDG_STATE_HOME": here}, [("New passphrase", "abc\n"), ("Once more", "\x03")])
    environment.cell("init: ^C", (-signal.SIGINT, False), (code, os.path.exists(new)))


def test_interrupted_inspect(environment):
    """inspect shows what it can without a passphrase, but nothing after ^C."""
    mount = environment.mount()
    harness.write_file(mount / "file", b"content")
    stored = mount.stored("file")
    mount.unmount()
    code, shown, _ = at_terminal(["inspect", stored], mount.volume.environment, [("Passphrase of", "\x03")])
    environment.cell("ended, and nothing shown", (-signal.SIGINT, False), (code, "Object" in shown))
    code, shown, _ = at_terminal(["inspect", "--no-unlock", stored], mount.volume.environment, [])
    environment.cell("without a prompt", True, "Object" in shown)


def test_keys_of_the_terminal(environment):
    """The keys that stty(1) has set send their signals at a prompt, and no others do."""
    volume = environment.volume()
    here = environment.new_path("point")
    os.mkdir(here, mode=0o500)
    words = [harness.binary(), volume.path, here]
    for name, settings, typed, number in (
            ("^C", "", "wro\x03", signal.SIGINT), ("^\\", "", "wro\x1c", signal.SIGQUIT),
            ("a remapped intr", "intr ^X", "wro\x18", signal.SIGINT), ("a remapped quit", "quit ^G", "\x07", signal.SIGQUIT)):
        code, shown, _ = at_terminal(["-c", KEYS, *words, settings], volume.environment, [("Passphrase of", typed)],
                                     program="/bin/bash")
        environment.cell(f"{name}: ended by it", f"code {128 + number}", next(
            (line.strip() for line in shown.splitlines() if line.startswith("code ")), shown))
        environment.cell(f"{name}: echo is back", True, " echo " in shown and " -echo " not in shown)
        environment.cell(f"{name}: no part is shown", False, "wro" in shown)
    # With another key for intr, ^C is a byte like any other; the remapped susp stops, and from outside, too.
    for name, script, typed in (("a remapped susp", "stty intr ^X susp ^Y\n" + STOPPED, "a\x03b\x19"),
                                ("kill -TSTP", STOPPED_FROM_OUTSIDE, "wro")):
        code, shown, _ = at_terminal(["-c", script, *words], volume.environment,
                                     [("Passphrase of", typed), ("Passphrase of", harness.PASSPHRASE + "\n")], program="/bin/bash")
        environment.cell(f"{name}: echo while it is stopped", True, " echo " in shown and " -echo " not in shown)
        environment.cell(f"{name}: asks again, and mounts", (0, 2), (code, shown.count("Passphrase of")))
        environment.cell(f"{name}: no part is shown", False, "wro" in shown)
        harness.protectfs("unmount", here, env=volume.environment, ok=False)
    code, shown, _ = at_terminal(["-c", IGNORED, *words], volume.environment, [("Passphrase of", harness.PASSPHRASE + "\n")],
                                 program="/bin/bash")
    environment.cell("nohup: a hang-up changes nothing", (0, 1), (code, shown.count("Passphrase of")))
    harness.protectfs("unmount", here, env=volume.environment, ok=False)


def test_ended_at_a_prompt(environment):
    """A signal ends the command and restores echo; ^Z stops it with echo, and it asks again when it continues."""
    volume = environment.volume()
    here = environment.new_path("point")
    os.mkdir(here, mode=0o500)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        # The shell has the terminal afterwards, and tells whether it echoes.
        code, shown, _ = at_terminal(["-c", SIGNALLED, harness.binary(), volume.path, here, str(int(number))],
                                     volume.environment, [], program="/bin/bash")
        environment.cell(f"{number.name}: ended by it", f"code {128 + number}", next(
            (line.strip() for line in shown.splitlines() if line.startswith("code ")), shown))
        environment.cell(f"{number.name}: echo is back", True, " echo " in shown and " -echo " not in shown)
    code, shown, _ = at_terminal(["-c", STOPPED, harness.binary(), volume.path, here], volume.environment,
                                 [("Passphrase of", "wro\x1a"), ("Passphrase of", harness.PASSPHRASE + "\n")], program="/bin/bash")
    environment.cell("^Z: echo while it is stopped", True, " echo " in shown and " -echo " not in shown)
    environment.cell("^Z: asks again, and mounts", (0, 2), (code, shown.count("Passphrase of")))
    environment.cell("no part is shown", False, "wro" in shown)
    harness.protectfs("unmount", here, env=volume.environment, ok=False)


# The program is in the foreground; a helper sends the signal when it has asked.
SIGNALLED = """
(for round in $(seq 100); do sleep 0.1; stty -a </dev/tty | grep -q '[-]echo ' && break; done
 pkill -"$3" -f "^$0 mount $1 $2") &
"$0" mount "$1" "$2"; echo "code $?"; stty -a
"""
KEYS = """
[ -z "$3" ] || stty $3
trap : INT QUIT
"$0" mount "$1" "$2"; echo "code $?"; stty -a
"""
AT_PROMPT = """
(for round in $(seq 100); do sleep 0.1; stty -a </dev/tty | grep -q '[-]echo ' && break; done
 sleep 0.5; pkill -{} -f "^$0 mount $1 $2") &
"""
STOPPED = """
set -m
"$0" mount "$1" "$2"; stty -a; fg >/dev/null
"""


STOPPED_FROM_OUTSIDE = AT_PROMPT.format("TSTP") + STOPPED
IGNORED = AT_PROMPT.format("HUP") + """
trap '' HUP
"$0" mount "$1" "$2"
"""


def test_sources(environment):
    """Standard input, lines of DOS, and commands that do not end."""
    volume = environment.volume()
    here = environment.new_path("point")
    os.mkdir(here, mode=0o500)
    mount = ["mount", volume.path, here]

    def works(name, *words, **more):
        done = harness.protectfs(*mount, *words, env=volume.environment, ok=False, **more)
        environment.cell(name, (0, ""), (done.returncode, done.stderr))
        harness.protectfs("unmount", here, env=volume.environment, ok=False)

    works("standard input", "--passphrase-file", "-", input=harness.PASSPHRASE + "\n")
    dos = environment.new_path("dos")
    with open(dos, "w", encoding="ascii", newline="") as file:
        file.write(harness.PASSPHRASE + "\r\n")
    works("a line of DOS", "--passphrase-file", dos)
    works("a process stays behind", "--passphrase-command", f"echo '{harness.PASSPHRASE}'; sleep 1000 2>/dev/null &")
    harness.run("pkill", "-f", "^sleep 1000$", ok=False)
    done = harness.protectfs(*mount, "--passphrase-command", f"echo '{harness.PASSPHRASE}'; exec sleep 1001",
                             env=volume.environment, ok=False)
    environment.cell("a command that does not end", (3, True), (done.returncode, "did not end" in done.stderr))
    done = harness.protectfs(*mount, "--passphrase-command", f"echo '{harness.PASSPHRASE}'; echo more; sleep 1002 & exec sleep 1001",
                             env=volume.environment, ok=False)
    environment.cell("after a second line: a command that does not end", (3, True), (done.returncode, "did not end" in done.stderr))
    # What was killed ends a moment later.
    harness.wait_until(lambda: harness.run("pgrep", "-f", "^sleep 100[12]$", ok=False).returncode == 1,
                       what="the end of the command, and of what it has started")
