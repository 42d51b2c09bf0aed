"""A client of the control socket that hears of the lock's events, in a few lines of Python."""

import json
import os
import socket
import struct

from harness import PATIENCE, mount_table


class Subscriber:
    """A connection to the control socket that asks for events, and to be waited for before a lock."""

    def __init__(self, mount, wait):
        device = next(row[0] for row in mount_table() if row[1] == mount.path)
        directory = "/run" if os.geteuid() == 0 else os.environ.get("XDG_RUNTIME_DIR")
        place = os.path.join(directory, "protectfs") if directory else f"/tmp/protectfs-{os.geteuid()}"
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(PATIENCE)
        self.socket.connect(os.path.join(place, device))
        self.send({"request": "subscribe", "wait": wait})
        self.state = self.receive()["state"]

    def send(self, value):
        frame = json.dumps(value).encode()
        self.socket.sendall(struct.pack("<I", len(frame)) + frame)

    def exactly(self, count):
        found = b""
        while len(found) < count:
            part = self.socket.recv(count - len(found))
            assert part, "the connection ended"
            found += part
        return found

    def receive(self):
        return json.loads(self.exactly(struct.unpack("<I", self.exactly(4))[0]))

    def close(self):
        self.socket.close()
