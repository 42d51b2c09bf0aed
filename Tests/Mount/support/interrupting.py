"""Checks that are interrupted at a chosen place: fsck's output goes to a pipe that holds few lines, so fsck waits for its reader."""

import fcntl
import glob
import os
import re
import subprocess
import time

import harness

# F_SETPIPE_SZ, which Python names from 3.10 on.
SET_PIPE_SIZE = 1031
FINDING = re.compile(r"^(?:error|crash|note|newer): /(.*?): .*\[(.*)\]$")


def record(volume):
    """The records of interrupted checks."""
    return glob.glob(os.path.join(volume.data, "protectfs", "*.check"))


class Interrupted:
    """A check that ends by a signal after some findings. It has told `findings` (paths in the store) by then."""

    def __init__(self, volume, words, number, after, command=()):
        read_end, write_end = os.pipe()
        fcntl.fcntl(read_end, SET_PIPE_SIZE, 4096)
        self.process = subprocess.Popen(
            [*command, harness.binary(), "fsck", "--recovery-file", volume.code_file, *words, volume.path],
            env=volume.environment, stdout=write_end, stderr=subprocess.PIPE, text=True)
        os.close(write_end)
        self.text = ""
        with open(read_end, "rb", buffering=0) as stream:
            while len(self.findings) < after:
                assert self.take(stream), f"the check ended after {len(self.findings)} findings"
            self.process.send_signal(number)
            # Another thread than those that wait for the pipe takes it.
            time.sleep(0.3)
            while self.take(stream):
                pass
        self.errors = self.process.stderr.read()
        self.process.stderr.close()
        self.code = self.process.wait()

    def take(self, stream, count=200):
        more = stream.read(count).decode()
        self.text += more
        return more

    @property
    def findings(self):
        return [found.group(2) for found in map(FINDING.match, self.text.splitlines()) if found]
