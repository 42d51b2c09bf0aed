"""A client of the control socket: frames, requests, and whether the socket still answers."""

import contextlib
import json
import os
import socket
import struct

from harness import PATIENCE, mount_table, pattern, read_file, runtime_directory, wait_until, write_file


def socket_path(mount):
    device = next(row[0] for row in mount_table() if row[1] == mount.path)
    return f"{runtime_directory()}/{device}"


def connect(mount, timeout=PATIENCE):
    client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    client.settimeout(timeout)
    client.connect(socket_path(mount))
    return client


def frame(value):
    text = value if isinstance(value, bytes) else json.dumps(value).encode()
    return struct.pack("<I", len(text)) + text


def receive(client):
    """The next message, None when the connection has ended."""
    data = b""
    wanted = 4
    while len(data) < wanted:
        try:
            part = client.recv(wanted - len(data))
        except ConnectionResetError:
            return None
        if not part:
            return None
        data += part
        if len(data) == 4:
            wanted = 4 + struct.unpack("<I", data)[0]
            assert wanted <= 4 + 65536
    return json.loads(data[4:])


def ask(client, value, secret=b""):
    client.sendall(frame(value) + secret)
    return receive(client)


def ends(client):
    """True when the other end closes the connection."""
    try:
        while client.recv(65536):
            pass
        return True
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False


def works(mount, content=pattern(20_000)):
    """The mount and its socket still do what they are for."""
    write_file(mount / "still", content, os.O_TRUNC)
    assert read_file(mount / "still") == content
    assert mount.state() == "unlocked"


def answers(mount):
    """The socket answers an honest client, at the latest when idle connections have been closed."""
    def status():
        with contextlib.suppress(OSError, TimeoutError):
            with connect(mount, 15) as client:
                answer = ask(client, {"request": "status"})
                return answer is not None and answer["ok"]
        return False
    wait_until(status, what="an answer of the control socket")
