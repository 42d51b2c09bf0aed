"""GlusterFS with two replicas on one machine, mounted once or several times, as by several machines."""

import contextlib
import os
import subprocess

import harness
import lanes

# What a volume needs that several machines write (docs/use/scaling.md): its caches do not know of other machines' changes, and a
# machine would keep a file to itself for a second after each write.
SHARED = ("performance.quick-read", "performance.io-cache", "performance.read-ahead", "performance.stat-prefetch",
          "performance.open-behind", "performance.write-behind", "performance.readdir-ahead", "cluster.eager-lock")
UNCACHED = "attribute-timeout=0,entry-timeout=0"


def directory(environment, name):
    path = environment.new_path(name)
    os.makedirs(path)
    return path


@contextlib.contextmanager
def gluster_daemon(environment):
    """GlusterFS's own daemon, where none runs yet; it ends with its processes."""
    started = None
    if harness.run("gluster", "peer", "status", ok=False).returncode != 0:
        where = directory(environment, "glusterd")
        words = ["glusterd", "--no-daemon", "--log-file", where + "/log", "--pid-file", where + "/pid"]
        started = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        harness.wait_until(lambda: harness.run("gluster", "peer", "status", ok=False).returncode == 0, what="glusterd")
    try:
        yield
    finally:
        if started:
            started.terminate()
            started.wait()


@contextlib.contextmanager
def glusterfs(environment, *paths, off=(), options=None):
    """Two replicas, mounted at each path. Settings in `off` are switched off."""
    host = harness.run("hostname", "-I").stdout.split()
    if not host:
        raise harness.Skip("GlusterFS needs an address other than 127.0.0.1")
    below, name = directory(environment, "bricks"), f"protectfs-test-{lanes.unique()}"
    harness.run("mount", "-t", "tmpfs", "-o", "size=512m", "tmpfs", below)
    gluster = ["gluster", "--mode=script", "volume"]
    with gluster_daemon(environment):
        try:
            bricks = [f"{host[0]}:{below}/{number}" for number in (1, 2)]
            harness.run(*gluster, "create", name, "replica", "2", *bricks, "force")
            for setting in off:
                harness.run(*gluster, "set", name, setting, "off")
            harness.run(*gluster, "start", name)
            for path in paths:
                words = ["-o", options] if options else []
                harness.run("mount", "-t", "glusterfs", *words, f"{host[0]}:/{name}", path)
            yield
        finally:
            for path in paths:
                harness.run("umount", "-l", path, ok=False)
            harness.run(*gluster, "stop", name, "force", ok=False)
            harness.run(*gluster, "delete", name, ok=False)
            harness.run("umount", "-l", below, ok=False)
