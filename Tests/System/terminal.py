"""A person at a terminal of the bed: reads what a program says, and types."""

import re
import select
import subprocess
import time

# Seconds for an answer; only what hangs takes so long.
PATIENCE = 120


class Terminal:
    """A program of the bed on a terminal of its own. Use it in a `with` statement, whose end ends the terminal."""

    def __init__(self, bed, command, user=None):
        inner = "exec script --quiet --flush --command \"" + command + "\" /dev/null"
        words = ["nsenter", "--target", bed.leader(), "--all", "--"]
        words += ["su", "-", user, "-c", inner] if user else ["sh", "-c", inner]
        # The same terminal for every program: no colours, and no keys for pasting.
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd="/",
                                        env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", "TERM": "dumb"})
        self.text = ""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()

    def read_until(self, pattern):
        """Waits until a regular expression is in the output, and gives the output up to its end."""
        end = time.monotonic() + PATIENCE
        while True:
            found = re.search(pattern, self.text)
            if found:
                said, self.text = self.text[:found.end()], self.text[found.end():]
                return said
            left = end - time.monotonic()
            ready = left > 0 and select.select([self.process.stdout], [], [], left)[0]
            part = self.process.stdout.read1(65536) if ready else b""
            if not part:
                raise AssertionError(f"{pattern!r} did not come; the terminal says: {self.text}")
            self.text += part.decode(errors="replace")

    def type(self, text, after=None):
        """Types a line, when the terminal has said something."""
        if after is not None:
            self.read_until(after)
        self.process.stdin.write(text.encode() + b"\n")
        self.process.stdin.flush()

    def run(self, script):
        """Runs a command of the shell, and waits for its end. Gives its exit code."""
        # What is typed is echoed, so the mark of the end is not in it.
        self.type(f"{script}; echo code-$?-''end")
        return int(re.search(r"code-(\d+)-end", self.read_until(r"code-\d+-end")).group(1))

    def leave(self):
        """Logs out, and waits until the program has ended."""
        self.type("exit")
        self.process.wait(PATIENCE)


def log_in(bed, command, password, user=None):
    """A login on a terminal, with a shell that works."""
    terminal = Terminal(bed, command, user)
    terminal.type(password, after=r"assword: ")
    # What is typed before the shell reads may be thrown away.
    terminal.read_until(r"\$ $")
    assert terminal.run("true") == 0
    return terminal
