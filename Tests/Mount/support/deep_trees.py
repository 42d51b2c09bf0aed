"""Work in trees whose paths are longer than a system call takes."""

import os


def inside(path, act, *arguments):
    """Runs act() in a process of its own with this working directory."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.chdir(path)
            act(*arguments)
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(pid, 0)[1] == 0, f"work in {path} failed"
