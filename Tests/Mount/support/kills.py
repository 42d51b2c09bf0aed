"""Runs a program up to one of its system calls and kills it there, to see the state between two calls."""

import ctypes
import os
import signal
import struct
import subprocess

import harness

TRACEME, CONTINUE, SYSCALL, SETOPTIONS, SYSCALL_INFO = 0, 7, 24, 0x4200, 0x420E
SYSGOOD, EXITKILL = 0x1, 0x100000
SYSCALL_STOP = signal.SIGTRAP | 0x80
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
libc.ptrace.restype = ctypes.c_long


def ptrace(request, process, data=0, address=None):
    if libc.ptrace(request, process, address, data) == -1:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))


class Traced:
    """A program that stops at its system calls, from its own SIGSTOP on where it says so that way, else from its start."""

    def __init__(self, words, secret=b"", waits=False, **more):
        try:
            self.process = subprocess.Popen([str(word) for word in words], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                                            stderr=subprocess.PIPE, preexec_fn=lambda: ptrace(TRACEME, 0), **more)
        except subprocess.SubprocessError as error:
            raise harness.Skip(f"a program cannot be traced here: {error}") from error
        self.process.stdin.write(secret)
        self.process.stdin.close()
        assert self.wait() == signal.SIGTRAP, "stopped by its execve"
        ptrace(SETOPTIONS, self.process.pid, SYSGOOD | EXITKILL)
        while waits:
            ptrace(CONTINUE, self.process.pid, 0)
            if self.wait() == signal.SIGSTOP:
                break

    def wait(self):
        """The signal that it has stopped with; None when it has ended."""
        _, status = os.waitpid(self.process.pid, 0)
        if os.WIFSTOPPED(status):
            return os.WSTOPSIG(status)
        self.process.returncode = os.waitstatus_to_exitcode(status)
        return None

    def kill_at(self, number):
        """Goes on to the beginning of a system call, the number-th from here, and kills it there.

        Gives the call's number in the kernel's table; None when it ended before, which it must have done well.
        """
        pid, count, entering, passed = self.process.pid, 0, True, 0
        try:
            while True:
                ptrace(SYSCALL, pid, passed)
                stopped = self.wait()
                if stopped is None:
                    said = self.process.stderr.read().decode()
                    assert self.process.returncode == 0, (self.process.returncode, said)
                    return None
                passed = 0 if stopped == SYSCALL_STOP else stopped
                if stopped != SYSCALL_STOP:
                    continue
                count += entering
                if entering and count == number:
                    # Only one thread is traced: another could be in the middle of anything.
                    assert len(os.listdir(f"/proc/{pid}/task")) == 1, "more than one thread"
                    info = ctypes.create_string_buffer(88)
                    ptrace(SYSCALL_INFO, pid, ctypes.addressof(info), len(info))
                    return struct.unpack_from("<Q", info, 24)[0]
                entering = not entering
        finally:
            self.process.kill()
            while self.process.returncode is None:
                self.wait()
            self.process.stderr.close()
