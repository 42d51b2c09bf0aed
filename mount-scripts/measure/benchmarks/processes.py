"""Processes: commands, daemons with their processor time and memory, and children that may hang or die."""

import contextlib
import fcntl
import glob
import json
import os
import pwd
import re
import select
import signal
import subprocess
import time

TICKS = os.sysconf("SC_CLK_TCK")


class Failed(Exception):
    """Something did not work; the text is the reason that the results keep."""


class OrdinaryUser:
    """Whom root measures as. Daemons, commands and rows have this user's rights; root only empties the kernel's caches."""

    def __init__(self, name):
        entry = pwd.getpwnam(name)
        self.user, self.group = entry.pw_uid, entry.pw_gid
        # Started before anything else, so that it holds nothing of the measurement.
        self.caches = subprocess.Popen(
            ["sh", "-c", "while read -r number; do (echo 3 >/proc/sys/vm/drop_caches) && echo $number done || echo $number failed; done"],
            stderr=subprocess.DEVNULL, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, start_new_session=True)

    def own(self, path):
        os.chown(path, self.user, self.group)

    def become(self):
        os.setgroups([])
        os.setresgid(self.group, self.group, self.group)
        os.setresuid(self.user, self.user, self.user)

    def words(self):
        """For subprocess."""
        return {"user": self.user, "group": self.group, "extra_groups": []}

    def drop_caches(self):
        # A row that was killed may have left its answer.
        number = b"%d" % time.monotonic_ns()
        with alone():
            self.caches.stdin.write(number + b"\n")
            while not (line := self.caches.stdout.readline()).startswith(number):
                if not line:
                    break
        if not line.endswith(b" done\n"):
            raise OSError("the kernel's caches cannot be emptied")


class Oneself:
    """Measures as whoever has started the benchmark."""

    def own(self, path):
        pass

    def become(self):
        pass

    def words(self):
        return {}

    def drop_caches(self):
        with alone(), open("/proc/sys/vm/drop_caches", "w", encoding="utf-8") as file:
            file.write("3")


@contextlib.contextmanager
def alone():
    """While the caches of the whole machine are emptied, nobody else has the file CACHES_LOCK locked, if that is set."""
    with contextlib.ExitStack() as stack:
        if "CACHES_LOCK" in os.environ:
            fcntl.flock(stack.enter_context(open(os.environ["CACHES_LOCK"], "rb")), fcntl.LOCK_EX)
        yield


def run(*command, **options):
    """Runs a command and gives its output, which is otherwise shown only when it fails."""
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace", **options)
    except FileNotFoundError:
        raise Failed(f"{command[0]} is not installed") from None
    except subprocess.TimeoutExpired as error:
        raise Failed(f"{command[0]} did not end within {error.timeout:.0f} s") from None
    if done.returncode != 0:
        raise Failed(f"{os.path.basename(command[0])}: exit code {done.returncode}: {done.stdout.strip()[-400:]}")
    return done.stdout


def serving(point, program):
    """The processes of `program` that have the mount point among their arguments."""
    found = []
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            with open(path, "rb") as file:
                words = file.read().split(b"\0")
        except OSError:
            continue
        if point.encode() in words and program.encode() in os.path.basename(words[0]):
            found.append(int(path.split("/")[2]))
    return found


def fields(process):
    """What follows the name in /proc/PID/stat; nothing if the process has ended."""
    try:
        with open(f"/proc/{process}/stat", encoding="utf-8", errors="replace") as file:
            found = file.read().rpartition(")")[2].split()
    except OSError:
        return None
    return None if found[0] in "ZX" else found


def seconds(processes):
    """Processor time of the processes so far."""
    found = [fields(process) for process in processes]
    if not found or None in found:
        raise Failed("the daemon has ended")
    return sum(int(one[11]) + int(one[12]) for one in found) / TICKS


def resident(processes):
    """Resident MiB of the largest of the processes: a daemon's helpers share its pages."""
    sizes = []
    for process in processes:
        try:
            with open(f"/proc/{process}/status", encoding="utf-8") as file:
                sizes += [int(size) for size in re.findall(r"VmRSS:\s+(\d+) kB", file.read())]
        except OSError:
            pass
    return max(sizes) / 1024 if sizes else None


def wait_until(holds, limit, pause=0.05):
    """Whether it holds within `limit` seconds."""
    end = time.monotonic() + limit
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(pause)
    return True


def kill(process, group=False):
    try:
        (os.killpg if group else os.kill)(process, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass


def in_child(act, limit, release, user):
    """What `act` gives, from a child of this user that is killed after `limit` seconds; then `release` ends what it may wait for."""
    receive, send = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            # An interrupt from the terminal goes to the parent alone, which then ends the child with all its programs.
            os.setsid()
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.close(receive)
            try:
                user.become()
                answer = {"value": act()}
            except (Failed, OSError, ValueError) as error:
                answer = {"failed": str(error)}
            except BaseException as error:  # noqa: whatever it is, the parent goes on
                answer = {"failed": f"{type(error).__name__}: {error}"}
            os.write(send, json.dumps(answer).encode())
        finally:
            os._exit(0)
    os.close(send)
    try:
        ready, _, _ = select.select([receive], [], [], limit)
        text = os.read(receive, 1 << 16) if ready else b""
        if not ready:
            kill(child, group=True)
            release()
    except BaseException:
        kill(child, group=True)
        kill(child)
        release()
        raise
    finally:
        os.close(receive)
        # A child inside a request of a dead mount may take a moment; it must not hold up the others.
        wait_until(lambda: os.waitpid(child, os.WNOHANG)[0] != 0, 20, 0.005)
    if not ready:
        raise Failed(f"did not end within {limit:.0f} s")
    answer = json.loads(text) if text else {"failed": "the measuring process died"}
    if "failed" in answer:
        raise Failed(answer["failed"])
    return answer["value"]
