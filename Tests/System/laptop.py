"""What docs/use/desktop.md tells a laptop user to type."""

import os

from sleeping import can_sleep, suspend
from terminal import Terminal

USER = "berta"


def five_commands():
    """The document's commands, without what it says about them."""
    with open(os.path.join(os.path.dirname(__file__), "../../docs/use/desktop.md"), encoding="utf-8") as file:
        block = file.read().partition("\n## Five commands\n")[2].split("```\n")[1]
    return [line.partition(" #")[0].strip() for line in block.splitlines()]


def typed(bed, passphrase):
    """A new user types them."""
    can_sleep(bed)
    commands = five_commands()
    assert len(commands) == 5, commands
    bed.run(f"useradd --create-home --shell /bin/bash {USER} && loginctl enable-linger {USER}")
    bed.wait("systemctl --user is-active default.target", "the user's manager", USER)
    with Terminal(bed, "sh", USER) as terminal:
        terminal.read_until(r"\$ $")
        for command in commands:
            terminal.type(f"{command}; echo code-$?-''end")
            while "-end" not in (said := terminal.read_until(r"code-\d+-end|(assphrase|more)[^\n]*: $")).rpartition("code-")[2]:
                terminal.type(passphrase)
            assert said.endswith("code-0-end"), f"{command}: {said}"
        assert terminal.run("echo secret >~/documents/letter && cat ~/documents/letter") == 0
        said = suspend(bed)
        assert '"state":"locked"' in said and '"state":"unlocked"' not in said, said
        assert terminal.run("! cat ~/documents/letter && ls ~/documents/letter") == 0
        terminal.type("protectfs unlock ~/documents; echo code-$?-''end")
        terminal.type(passphrase, after=r"assphrase[^\n]*: $")
        assert terminal.read_until(r"code-\d+-end").endswith("code-0-end")
        assert terminal.run("grep -q secret ~/documents/letter") == 0
    restarted(bed, passphrase)
    bed.run("systemctl --user disable --now protectfs-agent; protectfs unmount ~/documents", USER)
    bed.run(f"loginctl disable-linger {USER}")


def restarted(bed, passphrase):
    """After a restart the volume is mounted again, locked; before that, and without the agent, nothing can be saved beside it."""
    bed.reboot()
    bed.wait("findmnt -n ~/documents", "the mount after the restart", USER)
    bed.wait("systemctl --user is-active protectfs-agent", "the agent after the restart", USER)
    assert "before-first-unlock" in bed.run("protectfs status --json ~/documents", USER)[1]
    assert bed.run("echo plain >~/documents/new", USER, ok=False)[0] != 0
    with Terminal(bed, "sh", USER) as terminal:
        terminal.read_until(r"\$ $")
        terminal.type("protectfs unlock ~/documents; echo code-$?-''end")
        terminal.type(passphrase, after=r"assphrase[^\n]*: $")
        assert terminal.read_until(r"code-\d+-end").endswith("code-0-end")
        assert terminal.run("grep -q secret ~/documents/letter") == 0
    bed.run("systemctl --user stop protectfs-mounts", USER)
    bed.wait("! findmnt -n ~/documents", "the end of the mount", USER)
    assert bed.run("echo plain >~/documents/new", USER, ok=False)[0] != 0
    said = bed.run("protectfs status; protectfs doctor", USER)[1]
    assert said.count(f"protectfs mount /home/{USER}/.documents /home/{USER}/documents") == 2, said
    bed.run("systemctl --user start protectfs-mounts && findmnt -n ~/documents", USER)
