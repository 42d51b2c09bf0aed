"""The control socket against hostile clients: the mount continues to work whatever they send."""

import contextlib
import os
import random
import resource
import socket
import struct
import time

from control_socket import answers, ask, connect, ends, frame, receive, socket_path, works
from harness import PATIENCE, Skip, as_user, get_class, outcome, read_file, write_file


def resident(mount):
    with open(f"/proc/{mount.pid}/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS:"))


def test_requests(environment):
    mount = environment.mount()
    path = socket_path(mount)
    assert os.stat(path).st_mode & 0o777 == 0o600
    assert os.stat(os.path.dirname(path)).st_mode & 0o777 == 0o700
    with connect(mount) as client:
        status = ask(client, {"request": "status"})
        assert status["ok"] and status["state"] == "unlocked", status
        assert status["volume"] == mount.volume.path and status["mountPoint"] == mount.path, status
        assert ask(client, {"request": "lock"})["ok"]
        assert mount.state() == "locked"
        assert ask(client, {"request": "status"})["state"] == "locked"
        with open(mount.volume.code_file, "rb") as file:
            code = file.read().strip()
        answer = ask(client, {"request": "unlock", "kind": "recoveryCode", "length": len(code)}, code)
        assert answer == {"ok": True, "outcome": "again"}, answer
        assert ask(client, {"request": "info"})["ok"]
        write_file(mount / "file", b"x")
        os.link(mount / "file", mount / "other")
        change = {"request": "class", "path": b"file".hex(), "class": "complete"}
        answer = ask(client, {**change, "mode": "reencrypt"})
        assert not answer["ok"] and answer["error"] == "failed", answer
        assert ask(client, {**change, "mode": "wrapOnly"})["ok"]
        assert get_class(mount / "other") == "complete" and read_file(mount / "file") == b"x"
        answer = ask(client, {"request": "make coffee"})
        assert not answer["ok"] and answer["error"] == "unknownRequest", answer
    works(mount)


def test_events(environment):
    mount = environment.mount()
    with connect(mount) as waiting, connect(mount) as watching, connect(mount) as locking:
        assert ask(waiting, {"request": "subscribe", "wait": True})["state"] == "unlocked"
        assert ask(watching, {"request": "subscribe"})["state"] == "unlocked"
        locking.sendall(frame({"request": "lock", "grace": 240}))
        event = receive(waiting)
        assert event["event"] == "willLock" and event["grace"] == 240, event
        time.sleep(0.3)
        # Until it has answered everything stays open.
        assert mount.state() == "unlocked"
        works(mount)
        waiting.sendall(frame({"request": "done", "id": event["id"]}))
        # Each answer comes within PATIENCE, which is less than the grace.
        assert receive(locking)["ok"]
        assert receive(waiting)["event"] == "locked"
        assert [receive(watching)["event"] for _ in range(2)] == ["willLock", "locked"]
        mount.unlock()
        assert [receive(watching)["event"] for _ in range(2)] == ["willUnlock", "unlocked"]
        # A client that never answers delays a lock for the grace and no longer.
        started = time.monotonic()
        with connect(mount) as another:
            assert ask(another, {"request": "lock", "grace": 1})["ok"]
        assert time.monotonic() - started > 0.9
    mount.unlock()
    # One that vanishes is not waited for.
    with connect(mount) as locking:
        gone = connect(mount)
        ask(gone, {"request": "subscribe", "wait": True})
        locking.sendall(frame({"request": "lock", "grace": 240}))
        receive(gone)
        gone.close()
        assert receive(locking)["ok"]


def test_rubbish(environment):
    mount = environment.mount()
    chance = random.Random(3)
    samples = [
        b"", b"\0" * 4, b"\xff" * 4, b"GET / HTTP/1.1\r\n\r\n", frame(b""), frame(b"{"), frame(b"[" * 60_000),
        frame(b"\xff\xfe"), frame({"request": None}), frame({"request": "class"}), frame([1, 2]),
        frame({"request": "class", "path": "2e2e2f61", "class": "complete", "mode": "wrapOnly"}),
        frame({"request": "lock", "grace": -1e300}), frame({"request": "lock", "grace": "soon"}),
        frame({"request": "unlock", "kind": "passphrase", "length": -1}),
        frame({"request": "unlock", "kind": "passphrase", "length": 1 << 62}),
        frame({"request": "unlock", "kind": "x", "length": 3}) + b"abc",
        frame({"request": "done", "id": 12}), frame({"request": "subscribe", "wait": 7}),
        frame(b'{"request":"status","request":"unmount"}'),
    ]
    samples += [bytes(chance.randrange(256) for _ in range(chance.randrange(1, 400))) for _ in range(200)]
    for sample in samples:
        with connect(mount) as client:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                client.sendall(sample)
                client.shutdown(socket.SHUT_WR)
            assert ends(client), sample
    if mount.state() == "locked":
        mount.unlock()
    works(mount)
    answers(mount)


def test_thousand_connections(environment):
    mount = environment.mount()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 1200:
        raise Skip("this needs 1,200 open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 1200), hard))
    before = resident(mount)
    clients = []
    for _ in range(1000):
        client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        # Waits its turn: a socket with a time limit would be told EAGAIN when the queue is full.
        client.connect(socket_path(mount))
        client.settimeout(PATIENCE)
        clients.append(client)
    works(mount)
    assert resident(mount) - before < 32 << 10, "connections cost memory"
    # Idle ones are closed, and then others have their turn.
    answers(mount)
    for client in clients:
        client.close()
    answers(mount)
    works(mount)


def test_gigabyte_request(environment):
    mount = environment.mount()
    before = resident(mount)
    with connect(mount) as client:
        client.sendall(struct.pack("<I", 1 << 30))
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            for _ in range(1024):
                client.sendall(b" " * (1 << 20))
        assert ends(client)
    with connect(mount) as client:
        # More behind a request than it announced: none of it is kept.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            client.sendall(frame({"request": "unlock", "kind": "passphrase", "length": 1 << 30}))
            for _ in range(64):
                client.sendall(b"x" * (1 << 20))
        assert ends(client)
    assert resident(mount) - before < 16 << 10, "requests cost memory"
    works(mount)
    answers(mount)


def test_half_requests(environment):
    mount = environment.mount()
    whole = frame({"request": "status"})
    halves = [b"", whole[:2], whole[:4], whole[:-1],
              frame({"request": "unlock", "kind": "passphrase", "length": 20}) + b"half a secret"]
    clients = [connect(mount) for _ in halves]
    for client, half in zip(clients, halves):
        client.sendall(half)
    works(mount)
    answers(mount)
    for client in clients:
        assert ends(client), "half a request is kept for ever"
        client.close()
    # Answers that nobody takes.
    with connect(mount) as client:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError, TimeoutError):
            client.settimeout(2)
            for _ in range(20_000):
                client.sendall(whole)
        works(mount)
    answers(mount)


def test_silent_subscribers(environment):
    mount = environment.mount()
    clients = [connect(mount) for _ in range(20)]
    for client in clients:
        client.sendall(frame({"request": "subscribe", "wait": False}))
    for _ in range(5):
        mount.lock()
        mount.unlock()
    works(mount)
    for client in clients:
        client.close()
    answers(mount)


def test_other_user(environment):
    if os.geteuid() != 0:
        raise Skip("only root can be somebody else")
    mount = environment.mount(options=("allow_other",))
    path = socket_path(mount)
    directory = os.path.dirname(path)

    def attempt():
        client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        client.settimeout(PATIENCE)
        client.connect(path)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            client.sendall(frame({"request": "lock"}))
        if receive(client) is not None:
            raise AssertionError("another user was answered")

    environment.cell("the directory keeps others out", "EACCES", as_user(65534, attempt))
    # The socket's permissions are open here; the kernel still names the user.
    os.chmod(directory, 0o755)
    os.chmod(path, 0o666)
    try:
        environment.cell("others are not answered", "works", as_user(65534, attempt))
    finally:
        os.chmod(path, 0o600)
        os.chmod(directory, 0o700)
    assert mount.state() == "unlocked"
    works(mount)


def test_a_listener_of_another_user_is_told_nothing(environment):
    if os.geteuid() != 0:
        raise Skip("only root can be somebody else")
    mount = environment.mount()
    path = socket_path(mount)
    os.rename(path, path + ".real")
    pipe, told = os.pipe()
    listener = os.fork()
    if listener == 0:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
            server.bind(path)
            os.chmod(path, 0o666)
            os.setresuid(65534, 65534, 65534)
            server.listen()
            os.write(told, b"ready")
            while True:
                with server.accept()[0] as client:
                    os.write(told, client.recv(4096))
    os.close(told)
    try:
        assert os.read(pipe, 5) == b"ready"
        done = mount.command("unlock", "--recovery-file", mount.volume.code_file, mount.path, ok=False)
        environment.cell("it is not taken for the daemon", 7, done.returncode)
    finally:
        os.kill(listener, 9)
        os.waitpid(listener, 0)
        environment.cell("it is told nothing", b"", os.read(pipe, 4096))
        os.close(pipe)
        os.rename(path + ".real", path)
    works(mount)


def test_socket_goes_with_the_mount(environment):
    mount = environment.mount()
    path = socket_path(mount)
    mount.unmount()
    assert outcome(os.stat, path) == "ENOENT"
