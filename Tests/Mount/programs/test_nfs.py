"""A mount that an NFS server exports: nfs-ganesha with its VFS back end, and libnfs' programs as clients."""

import contextlib
import os
import re
import shutil
import subprocess

import harness
from handles import forget
from harness import Skip, read_file, write_file
from served import answers, free_port

CONFIGURATION = """
NFS_Core_Param {{
    Protocols = 4;
    Bind_addr = 127.0.0.1;
    NFS_Port = {port};
    Enable_NLM = false;
    Enable_RQUOTA = false;
    Plugins_Dir = {plugins};
}}
NFSv4 {{ Graceless = true; RecoveryRoot = {scratch}; }}
{export}
LOG {{ Default_Log_Level = WARN; }}
"""


@contextlib.contextmanager
def exported(environment, path, port):
    """A directory behind a server; gives what makes the URL of a name below it."""
    scratch = environment.new_path("ganesha")
    os.mkdir(scratch)
    plugins = "/usr/lib/x86_64-linux-gnu/ganesha"
    if not os.path.isdir(plugins):
        plugins = "/usr/lib/ganesha"
    # The document's, word for word but for the path.
    document = read_file(os.path.join(harness.REPOSITORY, "docs/use/programs.md")).decode()
    export = re.search(r"^EXPORT {.*?^}", document, re.DOTALL | re.MULTILINE)[0].replace("/srv/documents", path)
    configuration = os.path.join(scratch, "configuration")
    with open(configuration, "w", encoding="utf-8") as file:
        file.write(CONFIGURATION.format(port=port, scratch=scratch, plugins=plugins, export=export))
    log = os.path.join(scratch, "log")
    server = subprocess.Popen(
        ["ganesha.nfsd", "-F", "-f", configuration, "-L", log, "-p", os.path.join(scratch, "pid")],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        harness.wait_until(lambda: answers(port) or server.poll() is not None, what=f"the server ({log})")
        if server.poll() is not None:
            with open(log, encoding="utf-8", errors="replace") as file:
                raise AssertionError(f"ganesha.nfsd ended with {server.returncode}: {file.read()[-2000:]}")
        yield lambda name: f"nfs://127.0.0.1/export/{name}?version=4&nfsport={port}"
    finally:
        server.terminate()
        try:
            server.wait(timeout=20)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def test_exported(environment):
    """Files are listed, written and read over NFS as on the file system of the store, also after the kernel has forgotten
    what the server knows by its handles."""
    for program in ("ganesha.nfsd", "nfs-ls", "nfs-cat", "nfs-cp"):
        if not shutil.which(program):
            raise Skip(f"{program} is not installed: mount-scripts/packages servers")
    mount = environment.mount()
    plain = environment.new_path("plain")
    os.mkdir(plain)
    seen = {}
    for name, root in (("the store's file system", plain), ("the mount", mount.path)):
        seen[name] = exchange(environment, root)
    environment.cell("as on the store's file system", seen["the store's file system"], seen["the mount"])
    environment.cell("everything worked", [], [words for words, (code, _) in seen["the mount"].items() if code])


def exchange(environment, root):
    """What a client sees of a directory that it reads and writes: command -> (exit code, output)."""
    port, content, seen = free_port(), bytes(range(256)) * 12_000, {}
    os.makedirs(os.path.join(root, "directory/below"))
    write_file(os.path.join(root, "directory/below/file"), content)
    write_file(os.path.join(root, "directory/empty"), b"")
    source = environment.new_path("source")
    # From 4,000 bytes on nfs-cp fails with this server, whatever the file system.
    write_file(source, content[:1_000])

    def client(name, *words):
        done = harness.run(*words, ok=False, text=False)
        output = done.stdout if words[0] != "nfs-ls" else sorted(line.split()[-1] for line in done.stdout.splitlines())
        seen[name] = (done.returncode, output)

    with exported(environment, root, port) as url:
        for when in ("first", "forgotten"):
            client(f"{when}: list", "nfs-ls", url("directory"))
            client(f"{when}: read", "nfs-cat", url("directory/below/file"))
            client(f"{when}: write", "nfs-cp", source, url(f"directory/below/{when}"))
            forget()
            client(f"{when}: read what was written", "nfs-cat", url(f"directory/below/{when}"))
            forget()
        seen["written"] = (0, read_file(os.path.join(root, "directory/below/forgotten")) == content[:1_000])
    return seen
