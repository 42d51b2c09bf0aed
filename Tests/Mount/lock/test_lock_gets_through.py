"""A lock gets through although other programs crowd the control socket or no thread is left."""

import os
import resource
import signal
import socket
import time

import cgroups
import harness
from control_socket import ask, connect, frame, receive, socket_path

# A lock takes a tenth of a second; this leaves room for a busy machine, and none for the 10 s of an idle connection. How busy the
# rest of the machine is has no part in it.
SOON = 8


def timed(mount, *words, ok=False):
    started = time.monotonic()
    done = mount.command(*words, mount.path, ok=ok)
    return done.returncode, time.monotonic() - started


def gets_through(environment, mount, label, unlocks=True):
    """Lock and status are answered, soon; gives the times."""
    code, seconds = timed(mount, "lock")
    environment.cell(f"{label}: lock", 0, code)
    environment.cell(f"{label}: lock comes soon", True, seconds < SOON)
    code, looking = timed(mount, "status")
    environment.cell(f"{label}: status", 0, code)
    environment.cell(f"{label}: state", "locked", mount.state())
    if unlocks:
        code, _ = timed(mount, "unlock", "--recovery-file", mount.volume.code_file)
        environment.cell(f"{label}: unlock", 0, code)
        environment.cell(f"{label}: state after unlock", "unlocked", mount.state())
    print(f"{label}: lock {seconds:.3f} s, status {looking:.3f} s", flush=True)


def test_idle_connections(environment):
    """As many as there may be: they have asked something, they are silent, or they have sent half of a request."""
    harness.come_first()
    mount = environment.mount()
    status = frame({"request": "status"})
    for label, beginning in (("silent", b""), ("half a request", status[:-3]), ("half a length", status[:2])):
        clients = [connect(mount) for _ in range(64)]
        for client in clients:
            client.sendall(beginning)
        gets_through(environment, mount, label)
        for client in clients:
            client.close()
    clients = [connect(mount) for _ in range(64)]
    for client in clients:
        assert ask(client, {"request": "status"})["ok"]
    gets_through(environment, mount, "after a request", unlocks=False)
    # What has been idle for a second makes room for those in earnest.
    time.sleep(1.1)
    code, _ = timed(mount, "unlock", "--recovery-file", mount.volume.code_file)
    environment.cell("after a request: unlock", 0, code)
    for client in clients:
        client.close()


def test_busy_connections(environment):
    """Subscribers that never answer, and locks that wait for them: nobody is idle, and a lock does not wait for its turn."""
    harness.come_first()
    mount = environment.mount()
    listening = [connect(mount) for _ in range(32)]
    for client in listening:
        assert ask(client, {"request": "subscribe", "wait": True})["ok"]
    locking = [connect(mount) for _ in range(32)]
    for client in locking:
        client.sendall(frame({"request": "lock", "grace": 240}))
    for client in listening:
        assert receive(client)["event"] == "willLock"
    environment.cell("the grace runs", "unlocked", mount.state())
    # After the lock the connections that wait for it are idle, and make room when a second has passed.
    environment.cell("all else is told to come again", 6,
                     timed(mount, "unlock", "--recovery-file", mount.volume.code_file)[0])
    code, seconds = timed(mount, "lock", "--grace", "0")
    environment.cell("lock", 0, code)
    environment.cell("lock comes soon", True, seconds < SOON)
    environment.cell("state", "locked", mount.state())
    environment.cell("status", 0, timed(mount, "status")[0])
    for client in listening + locking:
        client.close()
    harness.wait_until(lambda: timed(mount, "unlock", "--recovery-file", mount.volume.code_file)[0] == 0,
                       what="unlock when they are gone")


def crowd(path, connections, beginning, started):
    """A process that keeps so many connections, and comes again as soon as one is ended."""
    import select
    poll, clients = select.poll(), {}
    told = False
    while True:
        while len(clients) < connections:
            client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            client.setblocking(False)
            try:
                client.connect(path)
                client.send(beginning)
            except OSError:
                client.close()
                break
            clients[client.fileno()] = client
            poll.register(client, select.POLLIN)
        if not told:
            os.write(started, b"!")
            told = True
        for number, _ in poll.poll(5):
            poll.unregister(number)
            clients.pop(number).close()


def test_thousand_that_come_again(environment):
    """A thousand connections that are silent or send half a request, and connect anew whenever they are closed."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    harness.come_first()
    mount = environment.mount()
    status = frame({"request": "status"})
    for label, processes, beginning in (("one process, silent", 1, b""), ("one process, half a request", 1, status[:-1]),
                                        ("four processes, whole requests", 4, status),
                                        ("forty processes, half a request", 40, status[:9])):
        read_end, write_end = os.pipe()
        children = []
        for _ in range(processes):
            child = os.fork()
            if child == 0:
                os.setpriority(os.PRIO_PROCESS, 0, max(5, os.getpriority(os.PRIO_PROCESS, 0)))
                crowd(socket_path(mount), 1000 // processes, beginning, write_end)
                os._exit(0)
            children.append(child)
        try:
            got = b""
            while len(got) < processes:
                got += os.read(read_end, processes)
            locking, looking = [], []
            for _ in range(3):
                for command, took in (("lock", locking), ("status", looking)):
                    code, seconds = timed(mount, command)
                    environment.cell(f"{label}: {command}", 0, code)
                    took.append(seconds)
                environment.cell(f"{label}: state", "locked", mount.state())
                print(f"{label}: lock {locking[-1]:.3f} s, status {looking[-1]:.3f} s", flush=True)
                harness.wait_until(lambda: timed(mount, "unlock", "--recovery-file", mount.volume.code_file)[0] == 0,
                                   what="unlock")
            # A busy machine may take its time now and then.
            environment.cell(f"{label}: soon", (True, True), (min(locking) < SOON, min(looking) < SOON))
        finally:
            for child in children:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
            os.close(read_end)
            os.close(write_end)


def test_no_threads(environment):
    """The system gives the daemon no thread more: lock, status and one connection have theirs already."""
    with cgroups.group("pids", "pids.max") as group:
        mount = environment.mount()
        group.write("cgroup.procs", mount.pid)
        group.write("pids.max", int(group.read("pids.current")))
        gets_through(environment, mount, "no threads", unlocks=False)
        code, _ = timed(mount, "unlock", "--recovery-file", mount.volume.code_file)
        environment.cell("unlock has one too", 0, code)
        mount.unmount()
