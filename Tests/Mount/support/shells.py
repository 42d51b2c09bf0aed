"""The real completion of bash, zsh and fish: what a shell inserts for a line that is typed."""

import os
import pty
import select
import termios
import time

import harness

COMPLETIONS = os.path.join(harness.REPOSITORY, "mount-scripts", "packaging", "completions")
# Keys that no completion needs: insert all completions, and write the line to a file.
ALL, DUMP = "\x18a", "\x18d"
START = {
    "bash": r"""
bind 'set bell-style none'; bind 'set enable-bracketed-paste off'; bind 'set completion-query-items 0'
bind '"\C-xa": insert-completions'
dump() { printf '%s\0' "$READLINE_LINE" >"$DUMPED"; READLINE_LINE= READLINE_POINT=0; }
bind -x '"\C-xd": dump'
source "$COMPLETIONS/protectfs.bash"
""",
    "zsh": r"""
fpath=("$COMPLETIONS" $fpath)
autoload -Uz compinit; compinit -u -D
zstyle ':completion:*' completer _all_matches _complete
zstyle ':completion:*' insert true
unset zle_bracketed_paste; COLUMNS=500; unsetopt beep; setopt no_auto_remove_slash
dump() { print -rN -- "$BUFFER" >"$DUMPED"; BUFFER= }
zle -N dump; bindkey '^Xd' dump; bindkey '^Xa' complete-word
""",
}
WORDS = {"bash": ["bash", "--norc", "--noprofile", "-i"], "zsh": ["zsh", "-f", "-i"]}


class Shell:
    """A shell with the completions loaded, in a directory and with a home directory."""

    def __init__(self, name, place, directory, home):
        self.name, self.place, self.directory, self.home = name, place, directory, home
        self.dumped = os.path.join(place, f"{name}.line")
        tools = os.path.join(place, "tools")
        if not os.path.exists(tools):
            os.makedirs(tools)
            os.symlink(harness.binary(), os.path.join(tools, "protectfs"))
        self.environment = {**os.environ, "HOME": home, "TERM": "dumb", "COMPLETIONS": COMPLETIONS, "DUMPED": self.dumped,
                            "LC_ALL": "C.UTF-8", "XDG_CONFIG_HOME": place, "XDG_STATE_HOME": place, "XDG_DATA_HOME": place,
                            "PATH": tools + ":" + os.environ["PATH"]}
        self.child = None
        if name == "fish":
            return
        start = os.path.join(place, f"{name}.start")
        harness.write_file(start, START[name].encode(), os.O_TRUNC)
        self.child, self.terminal = pty.fork()
        if self.child == 0:
            os.chdir(directory)
            os.execvpe(WORDS[name][0], WORDS[name], self.environment)
        settings = termios.tcgetattr(self.terminal)
        settings[3] &= ~termios.ECHO
        termios.tcsetattr(self.terminal, termios.TCSANOW, settings)
        self.type(f". '{start}'; PS1=; echo started-$((40 + 2))\n", until="started-42")

    def type(self, text, until=None):
        """Types, and reads what is shown until a text, or until the line is in its file."""
        os.write(self.terminal, text.encode())
        shown, end = "", time.monotonic() + 20
        while time.monotonic() < end:
            if select.select([self.terminal], [], [], 0.05)[0]:
                shown += os.read(self.terminal, 65536).decode(errors="replace")
            if until and until in shown:
                return
            if not until and os.path.exists(self.dumped) and harness.read_file(self.dumped).endswith(b"\0"):
                return
        raise AssertionError(f"{self.name}: {shown}")

    def complete(self, line):
        """The words that the shell would pass in place of the last one of the line."""
        if self.name == "fish":
            return self.fish(line)
        if os.path.exists(self.dumped):
            os.unlink(self.dumped)
        self.type(line + ALL + DUMP)
        words = self.evaluate(harness.read_file(self.dumped)[:-1].decode(errors="surrogateescape"))
        words = words[len(self.evaluate(line + "x")) - 1:]
        # zsh puts a comma behind a word of a list, and takes it away if none follows.
        return [word.removesuffix(",") for word in words] if self.name == "zsh" else words

    def evaluate(self, line):
        """The words of a line."""
        # A quote that is open is closed.
        for end in ("", "'", '"'):
            done = harness.run(self.name, "-c", f"eval \"set -- $1\"; printf '%s\\0' \"$@\"", self.name, line + end,
                               env=self.environment, ok=False)
            if done.returncode == 0 and not done.stderr:
                return done.stdout.split("\0")[:-1]
        raise AssertionError(f"{self.name} cannot read {line!r}")

    def fish(self, line):
        script = ("source $COMPLETIONS/protectfs.fish; for word in (complete --escape -C $argv[1]); "
                  "eval \"printf '%s\\\\0' \"(string split -m 1 \\t -- $word)[1]; end")
        done = harness.run("fish", "--no-config", "-c", script, line, env=self.environment, cwd=self.directory)
        return done.stdout.split("\0")[:-1]

    def close(self):
        if self.child:
            os.close(self.terminal)
            os.waitpid(self.child, 0)
