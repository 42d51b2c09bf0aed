"""Counts what one operation on a mount costs: requests of the kernel, calls to the store, and heap allocations."""

import collections
import mmap
import os
import shutil
import struct
import subprocess
import tempfile

import handles
import harness
from built import built
from harness import Skip

SOURCE = os.path.join(harness.SUPPORT, "counted_allocations.c")
# What is not a call to the store: reading requests, waiting, memory, random numbers. Each request is answered by a writev.
NOT_BELOW = ("read,readv,write,futex,poll,ppoll,epoll_wait,clock_nanosleep,restart_syscall,rt_sigtimedwait,madvise,mmap,"
             "munmap,mprotect,brk,sched_yield,getpid,getrandom,rt_sigprocmask,mlock2")

Cost = collections.namedtuple("Cost", "requests calls allocations")


def library(environment):
    """The library that counts allocations."""
    compiler = next(filter(None, map(shutil.which, ("cc", "clang"))), None)
    if not compiler or not shutil.which("strace"):
        raise Skip("no C compiler, or no strace")
    words = (compiler, "-shared", "-fPIC", "-O2", SOURCE, "-o")
    return built(environment, "counted.so", lambda path: harness.run(*words, path, timeout=None))


class Counter:
    """A mount whose daemon is counted."""

    def __init__(self, environment, volume, options=()):
        counts = environment.new_path("counts")
        with open(counts, "wb") as file:
            file.write(bytes(4096))
        words = {"LD_PRELOAD": library(environment), "ALLOCATION_COUNT": counts}
        os.environ.update(words)
        # Where an operation takes long, what the daemon does from time to time counts, too. It and what counts inherit this.
        harness.come_first()
        self.mount = environment.mount(volume, options=options)
        for word in words:
            del os.environ[word]
        with open(counts, "r+b") as file:
            self.memory = mmap.mmap(file.fileno(), 4096)

    def allocations(self):
        return struct.unpack_from("<Q", self.memory)[0]

    def cost(self, run, arguments, left_out=NOT_BELOW):
        """What each call of run(argument) costs, and the calls by name."""
        with handles.nothing_forgotten(), tempfile.NamedTemporaryFile() as log:
            tracer = subprocess.Popen(
                ["strace", "-f", "-c", "-U", "calls,name", "-e", "trace=!" + left_out, "-o", log.name, "-p",
                 str(self.mount.status()["pid"])], stderr=subprocess.PIPE, text=True)
            while "attached" not in (line := tracer.stderr.readline()):
                assert line, "strace has ended"
            before = self.allocations()
            for argument in arguments:
                run(argument)
            allocations = self.allocations() - before
            tracer.terminate()
            tracer.communicate()
            with open(log.name, encoding="ascii") as file:
                rows = [line.split() for line in file]
        calls = {row[1]: int(row[0]) for row in rows if len(row) == 2 and row[0].isdigit() and row[1] != "total"}
        requests = calls.pop("writev", 0)
        count = len(arguments)
        return (Cost(requests / count, sum(calls.values()) / count, allocations / count),
                {name: number / count for name, number in sorted(calls.items())})
