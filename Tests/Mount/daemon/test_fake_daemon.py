"""A program that answers in the daemon's place: what it says reaches a terminal without control characters."""

import contextlib
import json
import os
import socket
import subprocess
import threading

from harness import binary, mount_table, protectfs
from control_socket import ask, connect, frame, receive, socket_path
from namespaces import only_own_mounts

# The first begins a sequence of a terminal, and so does the second; the third turns the direction of text.
CONTROLS = "\x1b\x9b\u202e\n"


@contextlib.contextmanager
def in_place_of(mount, answer):
    """The mount's socket is a program's that sends `answer(request)` to each request."""
    place = socket_path(mount)
    os.rename(place, place + ".real")
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    clients = []

    def serve():
        with contextlib.suppress(OSError):
            while True:
                client, _ = listener.accept()
                clients.append(client)
                request = receive(client)
                said = request and answer(request)
                # The client may have ended meanwhile.
                with contextlib.suppress(BrokenPipeError):
                    if said is not None:
                        client.sendall(frame(said))
    try:
        listener.bind(place)
        listener.listen()
        thread = threading.Thread(target=serve)
        thread.start()
        yield
    finally:
        # Ends the accept(2) of the thread, which close(2) would not.
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()
        for client in clients:
            client.close()
        os.rename(place + ".real", place)


def shown(text):
    return [sign for sign in CONTROLS[:-1] if sign in text]


def test_what_is_shown(environment):
    mount = environment.mount()
    with connect(mount) as client:
        honest = ask(client, {"request": "status"})
    refusal = {"ok": False, "error": "busy", "message": f"a{CONTROLS}b"}
    with in_place_of(mount, lambda request: refusal):
        for words in (["status"], ["status", mount.path], ["watch", mount.path], ["lock", mount.path]):
            done = protectfs(*words, ok=False)
            environment.cell(f"{words[0]} {len(words)}: controls", [], shown(done.stdout + done.stderr))
            environment.cell(f"{words[0]} {len(words)}: message", True, "a????b" in done.stdout + done.stderr)
    lie = {**honest, "volume": f"/a{CONTROLS}b", "unlockFailures": 1, "retryAfter": 1e300}
    with in_place_of(mount, lambda request: lie):
        done, told = protectfs("status", mount.path, ok=False), protectfs("status", "--json", mount.path, ok=False)
    # JSON keeps the text. A program that shows it has to do what status does.
    environment.cell("a lie in JSON", (f"/a{CONTROLS}b", []),
                     (json.loads(told.stdout)["volume"], [sign for sign in "\x1b\x9b" if sign in told.stdout]))
    environment.cell("a lie", (0, []), (done.returncode, shown(done.stdout)))
    environment.cell("its delay", True, "next attempt possible in 1000000 s" in done.stdout)
    environment.cell("still mounted", True, any(row[1] == mount.path for row in mount_table()))


def test_no_answer(environment):
    """A daemon that takes the request and never answers keeps lock --all from neither the others nor its end."""
    only_own_mounts()
    silent, honest = environment.mount(), environment.mount()
    with in_place_of(silent, lambda request: None):
        with open("/dev/full", "w", encoding="ascii") as full, subprocess.Popen(
                [binary(), "lock", "--all", "--json", "--grace", "0"], stdout=full, stderr=subprocess.PIPE, text=True) as beside:
            done = protectfs("lock", "--all", "--json", "--grace", "0", ok=False)
            unsaid = beside.stderr.read()
        status = protectfs("status", ok=False).returncode
    told = {one["mountPoint"]: one for one in json.loads(done.stdout)}
    environment.cell("exit code", 1, done.returncode)
    environment.cell("exit code of status", 1, status)
    environment.cell("a report that cannot be written", (1, True), (beside.returncode, "1 of 2 mounts are locked" in unsaid))
    environment.cell("the silent one", True, "did not answer in time" in told[silent.path]["error"])
    environment.cell("the other", ("locked", True), (honest.state(), "locked" in told[honest.path]))


def test_asked_again(environment):
    """A daemon that has no room ends a connection which has asked nothing for a second: commands come again, once."""
    mount = environment.mount()
    for command in ("status", "lock", "unmount"):
        done = interrupted(mount, command)
        environment.cell(command, (0, ""), (done.returncode, done.stderr))
    environment.cell("is mounted", False, mount.is_mounted)


def interrupted(mount, command):
    """Runs a command whose first connection ends without an answer."""
    place = socket_path(mount)
    os.rename(place, place + ".real")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(place)
        listener.listen()

        def end_one():
            with listener.accept()[0] as client:
                receive(client)
                os.rename(place + ".real", place)

        thread = threading.Thread(target=end_one)
        thread.start()
        done = protectfs(command, mount.path, ok=False)
        thread.join()
    return done
