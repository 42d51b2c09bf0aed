"""What a service manager needs: to be told when the mount is ready, and a stop that ends in time."""

import os
import socket
import subprocess
import time

from harness import PATIENCE, binary, get_class, mount_table, protectfs, read_file, set_class, wait_until, write_file


def is_mounted(path):
    return any(row[1] == path for row in mount_table())


def test_ready(environment):
    """The datagram comes when the mount answers, and not from a mount that failed."""
    volume = environment.volume()
    path = environment.new_path("mount")
    os.mkdir(path, mode=0o500)
    for kind, address in (("path", environment.new_path("notify")), ("abstract", f"\0protectfs-{os.getpid()}")):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as server:
            server.bind(address)
            server.settimeout(PATIENCE)
            variables = {**volume.environment, "NOTIFY_SOCKET": address.replace("\0", "@")}
            words = [binary(), "mount", "--foreground", "--recovery-file", volume.code_file, volume.path]
            failed = subprocess.run([*words, path + "/missing"], env=variables, stderr=subprocess.DEVNULL)
            environment.cell(f"{kind}: failed", 9, failed.returncode)
            with subprocess.Popen([*words, path], env=variables, stderr=subprocess.DEVNULL) as daemon:
                environment.cell(f"{kind}: ready", b"READY=1", server.recv(4096))
                write_file(path + "/file", b"x")
                protectfs("unmount", path)
                environment.cell(f"{kind}: stopping", b"STOPPING=1", server.recv(4096))
                environment.cell(f"{kind}: exit code", 0, daemon.wait(PATIENCE))
    # Nobody listens: nothing waits for that.
    variables = {**volume.environment, "NOTIFY_SOCKET": environment.new_path("nobody")}
    with subprocess.Popen([*words, path], env=variables, stderr=subprocess.DEVNULL):
        wait_until(lambda: is_mounted(path), what="the mount without a listener")
        protectfs("unmount", path)


def test_background(environment):
    """A unit that mounts in the background is not told that it is ready, or stopping, by the mount."""
    address = environment.new_path("notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as server:
        server.bind(address)
        server.setblocking(False)
        os.environ["NOTIFY_SOCKET"] = address
        environment.mount().unmount()
        del os.environ["NOTIFY_SOCKET"]
        try:
            said = server.recv(4096)
        except BlockingIOError:
            said = None
        environment.cell("nothing is said", None, said)


def test_grace(environment):
    """A stop locks at once, waits for programs that close their files, and ends a mount that stays in use."""
    mount = environment.mount()
    mount_path = mount.path
    write_file(mount / "file", b"before\n")
    set_class(mount / "file", "complete")
    with open(mount / "file", "ab", buffering=0) as file:
        file.write(b"after\n")
        with subprocess.Popen([binary(), "unmount", "--grace", "600", mount_path]) as command:
            wait_until(lambda: mount.state() in ("locked", "sweeping"), what="the lock")
            environment.cell("in use: mounted", True, is_mounted(mount_path))
            environment.cell("in use: the command waits", None, command.poll())
            file.close()
            environment.cell("closed: exit code", 0, command.wait(PATIENCE))
    environment.cell("closed: mounted", False, is_mounted(mount_path))
    mount = environment.mount(mount.volume)
    environment.cell("closed: content", b"before\nafter\n", read_file(mount / "file"))
    with open(mount / "file", "ab", buffering=0) as file:
        file.write(b"more\n")
        started = time.monotonic()
        environment.cell("held: exit code", 0, protectfs("unmount", "--grace", "1", mount.path).returncode)
        environment.cell("held: waited", True, time.monotonic() - started >= 1)
        environment.cell("held: mounted", False, is_mounted(mount.path))
    mount = environment.mount(mount.volume)
    environment.cell("held: content", b"before\nafter\nmore\n", read_file(mount / "file"))
    environment.cell("held: class", "complete", get_class(mount / "file"))
    done = protectfs("unmount", "--force", "--grace", "1", mount.path, ok=False)
    environment.cell("both options", 2, done.returncode)
