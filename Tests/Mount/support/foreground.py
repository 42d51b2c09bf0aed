"""A mount whose daemon runs in the foreground, with its log in a file."""

import os
import signal
import subprocess

import harness


class Foreground(harness.Mount):
    """Starts at once. In a with statement it is waited for, and the daemon gets SIGTERM at the end."""

    def __init__(self, environment, volume, *words, path=None):
        super().__init__(volume, path or environment.new_path("mount"))
        os.makedirs(self.path, exist_ok=True)
        self.log = environment.new_path("log")
        self.words = [harness.binary(), "mount", "--foreground", *words, volume.path, self.path]
        with open(self.log, "wb") as file:
            self.process = subprocess.Popen(self.words, stdin=subprocess.DEVNULL, stdout=file, stderr=file,
                                            env=volume.environment)

    def said(self):
        """The log so far."""
        return harness.read_file(self.log).decode(errors="replace")

    def wait(self):
        """Until the daemon answers."""
        harness.wait_until(lambda: self.process.poll() is not None or self.is_mounted, what="the mount")
        if self.process.poll() is not None:
            raise harness.CommandFailed(self.words, f"exit code {self.process.returncode}", "", self.said())
        harness.wait_until(lambda: self.command("status", self.path, ok=False).returncode == 0, what="an answer")

    def __enter__(self):
        try:
            self.wait()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self.process.wait(harness.PATIENCE)
