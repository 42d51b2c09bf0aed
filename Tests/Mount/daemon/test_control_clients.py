"""Clients of the control socket that are slow, disconnect in the middle of a request, or never read."""

import contextlib
import os
import socket
import threading
import time

from harness import GRACE, PATIENCE, get_class, pattern, read_file, set_class, wait_until, write_file
from control_socket import answers, ask, connect, ends, frame, receive, works


def test_slow_writers(environment):
    """Byte by byte: the connection ends, and honest ones are answered meanwhile."""
    mount = environment.mount()
    whole = frame({"request": "lock"}) * 20
    ended = []

    def drip():
        with connect(mount) as client:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                for byte in whole:
                    client.sendall(bytes([byte]))
                    time.sleep(0.4)
            ended.append(ends(client))

    writers = [threading.Thread(target=drip) for _ in range(20)]
    for writer in writers:
        writer.start()
    for _ in range(5):
        answers(mount)
        time.sleep(0.2)
    for writer in writers:
        writer.join()
    # A request takes 12 s so: none was ever whole.
    environment.cell("all were ended", [True] * 20, ended)
    environment.cell("none was obeyed", "unlocked", mount.state())
    works(mount)


def test_gone_in_a_stream(environment):
    """One that vanishes while it is told of progress: the work is done, or nothing of it, and the file is whole."""
    mount = environment.mount()
    content = pattern(48 << 20)
    write_file(mount / "film", content)
    handle = os.open(mount / "film", os.O_RDONLY)
    os.fsync(handle)
    os.close(handle)
    for number, letter in enumerate("AC"):
        client = connect(mount)
        client.sendall(frame({"request": "class", "path": b"film".hex(), "class": letter, "mode": "reencrypt"}))
        if number == 0:
            receive(client)
        client.close()
        wait_until(lambda: not any(name.startswith(".protectfs.tmp") for name in os.listdir(mount.volume.path)),
                   what="the end of the re-encryption")
        environment.cell(f"{letter}: contents", True, read_file(mount / "film") == content)
        environment.cell(f"{letter}: class", True, get_class(mount / "film") in (
            "complete", "completeUntilFirstUserAuthentication"))
    for _ in range(30):
        client = connect(mount)
        client.sendall(frame({"request": "subscribe", "wait": True}))
        client.close()
    done = mount.lock("--grace", GRACE)
    environment.cell("subscribers that are gone are not waited for", 0, done.returncode)
    mount.unlock()
    works(mount)
    answers(mount)


def test_greedy_subscriber(environment):
    """A subscriber that asks on and on and never reads holds up neither others' events nor a lock."""
    mount = environment.mount()
    set_class_of = mount / "file"
    write_file(set_class_of, b"x")
    set_class(set_class_of, "A")
    with connect(mount) as watching, connect(mount, timeout=0.5) as greedy:
        assert ask(watching, {"request": "subscribe"})["ok"]
        greedy.sendall(frame({"request": "subscribe", "wait": False}))
        with contextlib.suppress(TimeoutError, BrokenPipeError, ConnectionResetError):
            for _ in range(100_000):
                greedy.sendall(frame({"request": "status"}))
        mount.lock("--grace", "0")
        environment.cell("the other one's events", ["willLock", "locked"], [receive(watching)["event"] for _ in range(2)])
        greedy.settimeout(PATIENCE)
        with contextlib.suppress(OSError):
            greedy.shutdown(socket.SHUT_WR)
        environment.cell("it is dropped", True, ends(greedy))
    mount.unlock()
    works(mount)


def test_unmount_while_one_waits_to_unlock(environment):
    """An attempt that waits out the delay after wrong passphrases is told that the mount ends."""
    mount = environment.mount(unlock=False)
    secret = b"wrong"
    with connect(mount) as client:
        for _ in range(3):
            answer = ask(client, {"request": "unlock", "kind": "passphrase", "length": len(secret)}, secret)
            assert not answer["ok"], answer
        # 4 s to wait now.
        client.sendall(frame({"request": "unlock", "kind": "passphrase", "length": len(secret)}) + secret)
        time.sleep(0.2)
        mount.unmount()
        answer = receive(client)
        environment.cell("the one that waits", True, answer is None or answer["error"] in ("busy", "authentication"))
    wait_until(lambda: not mount.is_mounted, what="the end of the mount")
