"""Programs of this package that a test talks to, a line at a time."""

import contextlib
import os
import subprocess

from harness import PATIENCE, Lines, program


def sockets(process):
    """How many sockets a program has."""
    count = 0
    for number in os.listdir(f"/proc/{process}/fd"):
        # It may have been closed meanwhile.
        with contextlib.suppress(FileNotFoundError):
            count += os.readlink(f"/proc/{process}/fd/{number}").startswith("socket:")
    return count


class Program(Lines):
    """A running program; what it is told and what it says are lines."""

    def __init__(self, name, *words, **more):
        super().__init__([program(name), *words], stdin=subprocess.PIPE, **more)

    def line(self, seconds=PATIENCE):
        return super().line(seconds)

    def say(self, text=""):
        self.process.stdin.write((text + "\n").encode())
        self.process.stdin.flush()

    def ask(self, *lines):
        """Types lines; gives as many answers."""
        for line in lines:
            self.say(line)
        return [self.line() for _ in lines]

    def end(self):
        """Ends its input; gives its exit code."""
        self.process.stdin.close()
        return self.process.wait(PATIENCE)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.stdout.close()
