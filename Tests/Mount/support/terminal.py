"""A command at a terminal, with answers typed to its prompts."""

import os
import pty
import select
import termios
import time

import harness


def at_terminal(words, variables, answers, program=None):
    """Runs a command of protectfs, or another program, at a terminal; answers are (prompt, text to type). Gives exit code, everything shown, echo at the end."""
    child, terminal = pty.fork()
    if child == 0:
        os.execve(program or harness.binary(), [program or "protectfs", *words], variables)
    shown, end = "", time.monotonic() + harness.PATIENCE
    rest = list(answers)
    seen = 0
    try:
        while time.monotonic() < end:
            if rest and rest[0][0] in shown[seen:]:
                seen = len(shown)
                os.write(terminal, rest.pop(0)[1].encode())
            if not select.select([terminal], [], [], 0.1)[0]:
                continue
            try:
                part = os.read(terminal, 4096)
            except OSError:
                break
            if not part:
                break
            shown += part.decode()
        echoes = bool(termios.tcgetattr(terminal)[3] & termios.ECHO)
    except termios.error:
        echoes = None
    finally:
        os.close(terminal)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status), shown, echoes
