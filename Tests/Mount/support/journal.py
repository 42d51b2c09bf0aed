"""The journal's socket in place of systemd's, in a /run of the test's own."""

import os
import socket
import threading
import time

from harness import PATIENCE
from namespaces import own_run


class Journal:
    """Collects the entries that are sent, from the moment on in which it listens."""

    def __init__(self, listens=True):
        self.path = os.path.join(own_run(), "socket")
        self.datagrams, self.taken, self.socket = [], 0, None
        if listens:
            self.listen()
            threading.Thread(target=self.read, daemon=True).start()

    def listen(self):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.path)
        os.chmod(self.path, 0o666)

    def read(self):
        while True:
            self.datagrams.append(self.socket.recv(1 << 16))

    def fill(self):
        """Fills the socket's queue with datagrams that nobody reads; gives their number."""
        count = 0
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.setblocking(False)
            while True:
                try:
                    sender.sendto(b"MESSAGE=full\n", self.path)
                except BlockingIOError:
                    return count
                count += 1

    def next(self, count):
        """The next entries, each as its fields in order; fewer if no more come in time."""
        end = time.monotonic() + PATIENCE
        while len(self.datagrams) < self.taken + count and time.monotonic() < end:
            time.sleep(0.01)
        found = self.datagrams[self.taken:self.taken + count]
        self.taken += len(found)
        return [fields(datagram) for datagram in found]

    def all(self):
        """Every entry so far."""
        return [fields(datagram) for datagram in self.datagrams]

    def receive(self):
        """The next entry of a socket that only listens."""
        self.socket.settimeout(PATIENCE)
        return fields(self.socket.recv(1 << 16))

    def rest(self):
        """The entries that have come and were not asked for."""
        return self.next(len(self.datagrams) - self.taken)


def fields(datagram):
    """The (name, value) pairs of a datagram."""
    assert datagram.endswith(b"\n"), datagram
    return [tuple(line.decode("ascii").split("=", 1)) for line in datagram[:-1].split(b"\n")]


def facts(entry):
    """What an entry says beyond the fields that each has."""
    given = dict(entry)
    assert all(name in given for name in ("MESSAGE", "MESSAGE_ID", "PRIORITY", "PROTECTFS_EVENT", "PROTECTFS_VOLUME")), entry
    assert given["SYSLOG_IDENTIFIER"] == "protectfs", entry
    return given["PROTECTFS_EVENT"], {name.removeprefix("PROTECTFS_").lower(): value for name, value in entry
                                      if name.startswith("PROTECTFS_") and name not in ("PROTECTFS_EVENT", "PROTECTFS_VOLUME")}
