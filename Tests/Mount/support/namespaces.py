"""Mount namespaces: a test changes directories that the whole machine uses, and no other process sees it."""

import ctypes
import os
import stat

import harness

CLONE_NEWNS = 0x20000
# What programs need of /dev.
DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "fuse")


def own_namespace():
    """From now on this process and its children have mounts of their own."""
    if os.geteuid() != 0 or ctypes.CDLL(None).unshare(CLONE_NEWNS) != 0:
        raise harness.Skip("needs root and mount namespaces")
    harness.run("mount", "--make-rprivate", "/")


def only_own_mounts():
    """The same, and mounts of other tests cannot be seen."""
    own_namespace()
    for row in harness.mount_table():
        if row[2] == "fuse.protectfs":
            harness.detach(row[1])


def own_sockets(environment):
    """Control sockets and the mark of the lock's note are in a directory of this test's own."""
    if os.geteuid() != 0:
        os.environ["XDG_RUNTIME_DIR"] = environment.new_path("run")
        os.mkdir(os.environ["XDG_RUNTIME_DIR"], 0o700)
        return
    own_namespace()
    harness.run("mount", "-t", "tmpfs", "-o", f"mode={stat.S_IMODE(os.stat('/run/protectfs').st_mode):o}", "none", "/run/protectfs")


def own_etc(environment):
    """An /etc that only this test sees, with a directory for the system's configuration file; gives the file's path."""
    own_namespace()
    place = environment.new_path("etc")
    os.mkdir(place)
    harness.run("mount", "-t", "tmpfs", "-o", "mode=755", "none", place)
    for name in ("upper", "work"):
        os.mkdir(os.path.join(place, name))
    layers = f"lowerdir=/etc,upperdir={place}/upper,workdir={place}/work"
    if harness.run("mount", "-t", "overlay", "-o", layers, "none", "/etc", ok=False).returncode != 0:
        raise harness.Skip("needs overlayfs on /etc")
    # The overlay keeps its layers.
    harness.detach(place)
    os.makedirs("/etc/protectfs", mode=0o755, exist_ok=True)
    return "/etc/protectfs/config"


def own_run():
    """A /run of this test's own, with a directory for the sockets of the journal; gives that directory."""
    own_namespace()
    harness.run("mount", "-t", "tmpfs", "-o", "mode=755", "none", "/run")
    os.makedirs("/run/systemd/journal")
    return "/run/systemd/journal"


def own_devices(environment):
    """A /dev with the devices that programs need and nothing else."""
    own_namespace()
    place = environment.new_path("dev")
    os.mkdir(place)
    harness.run("mount", "-t", "tmpfs", "-o", "mode=755", "none", place)
    for name in DEVICES:
        open(os.path.join(place, name), "w", encoding="ascii").close()
        harness.run("mount", "--bind", "/dev/" + name, os.path.join(place, name))
    for name, target in {"fd": "fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"}.items():
        os.symlink("/proc/self/" + target, os.path.join(place, name))
    harness.run("mount", "--move", place, "/dev")


def open_fuse_to_everyone(environment, mode=0o666):
    """Has /dev/fuse as udev makes it, or with another mode, in a mount namespace of this test's own."""
    if os.stat("/dev/fuse").st_mode & 0o006 == mode & 0o006:
        return
    own_namespace()
    device = environment.new_path("fuse")
    os.mknod(device, stat.S_IFCHR | 0o600, os.makedev(10, 229))
    os.chmod(device, mode)
    harness.run("mount", "--bind", device, "/dev/fuse")
