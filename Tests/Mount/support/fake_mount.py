"""A mount that another user makes, and that names somebody's volume as its source; with the daemon behind it.

As a program, run as that user: fake_mount.py STORE POINT LOG MODE. The daemon writes each request, and each secret that it is sent, to
LOG. MODE is `fake` (agrees to everything), `older` (knows no request `prove`) or `mute` (answers nothing). WORDS after it: `claim`
holds the claim on the store as a daemon does, `leave` goes on in a child with the socket of a process that has ended, `hang` lets
everybody use the mount and answers no request of the kernel, `deaf` has no socket, `full` takes no connection."""

import array
import contextlib
import fcntl
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

STRANGER = 65534
FUSE_INIT = 26


def mount(store, point, *options):
    """Mounts a FUSE file system that nobody serves; gives its device numbers. It lives as long as this process."""
    ours, theirs = socket.socketpair()
    child = subprocess.run(
        ["fusermount3", "-o", ",".join((f"fsname={store},subtype=protectfs", *options)), "--", point], pass_fds=[theirs.fileno()], check=True,
        env={**os.environ, "_FUSE_COMMFD": str(theirs.fileno())})
    _, parts, _, _ = ours.recvmsg(1, socket.CMSG_LEN(4))
    assert child.returncode == 0
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as table:
        device = [line.split()[2] for line in table if line.split()[4] == point][-1]
    return array.array("i", parts[0][2])[0], device


def hang(kernel):
    """Answers the kernel's first request, so that it sends more, and takes those."""
    while True:
        _, operation, unique = struct.unpack_from("<IIQ", os.read(kernel, 1 << 20))
        if operation == FUSE_INIT:
            body = struct.pack("<IIIIHHIIHHIIIIII", 7, 31, 65536, 0, 0, 0, 65536, 1, 0, 0, 0, 0, 0, 0, 0, 0)
            os.write(kernel, struct.pack("<IiQ", 16 + len(body), 0, unique) + body)


def answer(request, store, point, mode):
    """What a daemon would say, as well as one can without keys."""
    name = request.get("request")
    if mode == "older" and name == "prove":
        return {"ok": False, "error": "unknownRequest", "message": "no such request", "details": None}
    more = {
        "prove": {"proof": "00" * 32},
        "unlock": {"outcome": "alreadyUnlocked"},
        "status": {"volume": store, "mountPoint": point, "uuid": "0", "state": "unlocked", "since": 1, "defaultClass": "none",
                   "openHandles": {}, "pid": int(os.environ.get("LISTENER", os.getpid()))},
        "formerKeys": {"moves": 1, "keys": [], "lateRecords": False},
        "renewKey": {"renewed": False, "bytes": 0},
        "subscribe": {"state": "unlocked"},
        "path": {"visible": b"told/by/a/fake".hex(), "backing": b"x".hex(), "name": "verified"},
        "lock": {"cutOff": 0, "processes": [], "milliseconds": 1, "state": "locked", "files": 0, "wasLocked": False, "number": 1},
        "info": {"uuid": "0", "ownEpochs": [], "epochsEndedBadly": []},
    }
    return {"ok": True, **more.get(name, {})}


def take(client, count):
    data = b""
    while len(data) < count:
        part = client.recv(count - len(data))
        if not part:
            raise EOFError
        data += part
    return data


def serve(client, log, store, point, mode):
    with contextlib.suppress(EOFError, OSError):
        while True:
            request = json.loads(take(client, struct.unpack("<I", take(client, 4))[0]))
            log.write("request " + request["request"] + "\n")
            if mode == "mute":
                time.sleep(3600)
            if request["request"] == "unlock":
                log.write(f"secret {take(client, request['length'])}\n")
            text = json.dumps(answer(request, store, point, mode)).encode()
            client.sendall(struct.pack("<I", len(text)) + text)


def main(store, point, path, mode, *words):
    descriptor, device = mount(store, point, *(["allow_other"] if "hang" in words else []))
    if "hang" in words:
        threading.Thread(target=hang, args=(descriptor,), daemon=True).start()
    if "claim" in words:
        fcntl.flock(os.open(store, os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)
    directory = f"/run/user/{os.getuid()}/protectfs" if os.getuid() else "/run/protectfs"
    os.makedirs(directory, 0o700, exist_ok=True)
    if "deaf" in words:
        print(os.getpid(), flush=True)
        threading.Event().wait()
    # One of a mount before, which had this number.
    with contextlib.suppress(FileNotFoundError):
        os.unlink(f"{directory}/{device}")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"{directory}/{device}")
    listener.listen(0 if "full" in words else 50)
    if "leave" in words:
        os.environ["LISTENER"] = str(os.getpid())
        if os.fork():
            os._exit(0)
    with open(path, "a", buffering=1, encoding="utf-8") as log:
        waiting = []
        if "full" in words:
            # One connection more than may wait is not taken: connect(2) of the next one waits.
            for _ in range(2):
                waiting.append(socket.socket(socket.AF_UNIX))
                waiting[-1].setblocking(False)
                with contextlib.suppress(BlockingIOError):
                    waiting[-1].connect(f"{directory}/{device}")
        print(os.getpid(), descriptor, device, flush=True)
        if waiting:
            threading.Event().wait()
        while True:
            client, _ = listener.accept()
            threading.Thread(target=serve, args=(client, log, store, point, mode), daemon=True).start()


class FakeMount:
    """A running fake of a user, STRANGER unless another is given; `log()` is what it was sent. Without a store it names one on itself."""

    def __init__(self, environment, store, mode, *words, user=STRANGER):
        self.place = environment.new_path("fake")
        self.path, self.file = os.path.join(self.place, "mount"), os.path.join(self.place, "log")
        store = store or os.path.join(self.path, "store")
        os.makedirs(self.path)
        for path in (self.place, self.path):
            os.chown(path, user, user)
        self.process = subprocess.Popen(
            ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups",
             sys.executable, __file__, store, self.path, self.file, mode, *words],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        self.server = int(self.process.stdout.readline().split()[0])

    def log(self):
        """What it was sent since the last time."""
        with open(self.file, "r+", encoding="utf-8") as file:
            text = file.read()
            file.truncate(0)
        return [line.removeprefix("request ") for line in text.splitlines()]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.server, signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()
        subprocess.run(["umount", "-l", self.path], check=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
