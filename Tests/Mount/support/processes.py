"""Commands and child processes of a test. The error of one that fails has the command, its exit code and all its output."""

import contextlib
import errno
import os
import select
import signal
import subprocess
import time

# Seconds for what comes by itself: however slow the machine is, only what hangs takes so long.
PATIENCE = 200
# Of a condition that is asked again and again: so many times what asking takes, or asking would keep a processor busy.
PAUSES = 10


class CommandFailed(AssertionError):
    """A command that ended with another exit code than 0, or did not end in time."""

    def __init__(self, words, outcome, output, error):
        text = [f"{' '.join(words)}: {outcome}"]
        for title, said in (("standard output", output), ("standard error", error)):
            said = said.decode(errors="replace") if isinstance(said, bytes) else said or ""
            text.append(f"{title}: {said.strip() or '(empty)'}")
        super().__init__("\n".join(text))


def run(*words, ok=True, timeout=PATIENCE, **more):
    """Runs a command to its end and returns the finished process; raises CommandFailed.

    With ok=False every exit code is accepted. More arguments are those of subprocess.run: text=False gives bytes.
    """
    words = [os.fsdecode(word) if isinstance(word, bytes) else str(word) for word in words]
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **more}
    if "input" not in options:
        options.setdefault("stdin", subprocess.DEVNULL)
    try:
        done = subprocess.run(words, timeout=timeout, check=False, **options)
    except subprocess.TimeoutExpired as late:
        raise CommandFailed(words, f"not ended after {timeout} s", late.stdout, late.stderr) from None
    if ok and done.returncode != 0:
        raise CommandFailed(words, f"exit code {done.returncode}", done.stdout, done.stderr)
    return done


def sync(path, ok=True):
    """Has the file system of a path written to its disk, however long that takes."""
    run("sync", "-f", path, ok=ok, timeout=None)


def detach(path):
    """Takes a mount out of the tree, where there still is one."""
    run("umount", "-l", path, ok=False)


def outcome(action, *arguments):
    """'works', or the name of the errno that the call failed with."""
    try:
        action(*arguments)
        return "works"
    except OSError as error:
        return "EOPNOTSUPP" if error.errno == errno.EOPNOTSUPP else errno.errorcode.get(error.errno, str(error.errno))


def in_child(action, seconds=0):
    """Runs action in a forked child: 'works', an errno's name, 'SIGBUS' or another signal's name, or 'wrong: …'.

    SIGALRM is what ends it after that many seconds, if any are given.
    """
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read_end)
        status = 1
        try:
            signal.signal(signal.SIGBUS, signal.SIG_DFL)
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(seconds)
            message = outcome(action)
            os.write(write_end, message.encode())
            status = 0
        except BaseException as error:  # noqa: the child must not go on into the parent's code
            os.write(write_end, f"wrong: {error!r}".encode())
        finally:
            os._exit(status)
    os.close(write_end)
    text = b""
    while True:
        part = os.read(read_end, 4096)
        if not part:
            break
        text += part
    os.close(read_end)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return signal.Signals(os.WTERMSIG(status)).name
    return text.decode()


def as_user(user, action):
    """in_child, with the user's identity and no privileges."""
    def act():
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
        action()
    return in_child(act)


def wait_until(condition, seconds=PATIENCE, what="the condition"):
    """Polls until condition() is true; with pauses much longer than it takes to see that."""
    start = time.monotonic()
    end = start + seconds
    while not condition():
        now = time.monotonic()
        if now > end:
            raise AssertionError(f"{what} did not come true within {seconds} s")
        time.sleep(max(0.01, min(PAUSES * (now - start), 0.5)))
        start = time.monotonic()


def come_first():
    """Has this process and those that it starts from now on run before others of the machine, where root runs it."""
    with contextlib.suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, -10)


def is_running(process):
    """Whether a process runs; one that has ended and is not waited for does not."""
    try:
        with open(f"/proc/{process}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


class Lines:
    """A running program whose lines are read as they come."""

    def __init__(self, words, **more):
        self.process = subprocess.Popen([str(word) for word in words], stdout=subprocess.PIPE, **more)
        self.buffer = b""

    def line(self, seconds):
        """The next line; None when none comes in time or the program has ended."""
        end = time.monotonic() + seconds
        while b"\n" not in self.buffer:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.process.stdout], [], [], left)[0]:
                return None
            part = os.read(self.process.stdout.fileno(), 65536)
            if not part:
                return None
            self.buffer += part
        line, self.buffer = self.buffer.split(b"\n", 1)
        return line.decode()
