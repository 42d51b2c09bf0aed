"""The examples of docs/use/programs.md, word for word but for the places: Samba, containers, restic, borg, metrics. NFS: test_nfs.
And what docs/use/desktop.md says of a desktop's trash."""

import contextlib
import os
import re
import shutil
import subprocess

import harness
from harness import Skip, get_class, pattern, read_file, set_class, wait_until, write_file
from served import answers, free_port
from users import OrdinaryUser

CONFIGURATION = """
[global]
    server role = standalone server
    map to guest = Bad User
    interfaces = lo
    bind interfaces only = yes
    disable netbios = yes
    smb ports = {port}
    log file = {place}/log
    {directories}
{share}
    guest ok = yes
"""
DIRECTORIES = ("private dir", "lock directory", "state directory", "cache directory", "pid directory", "ncalrpc dir")


def example(heading, kind):
    """The block of commands, or of a file, below a heading of the document."""
    text = read_file(os.path.join(harness.REPOSITORY, "docs/use/programs.md")).decode()
    section = re.split(r"\n#+ ", text[re.search(rf"\n#+ {heading}\n", text).end():])[0]
    return re.search(rf"```{kind}\n(.*?)```", section, re.DOTALL)[1]


def needs(*programs):
    for program in programs:
        if not shutil.which(program):
            raise Skip(f"{program} is not installed: mount-scripts/packages servers")


@contextlib.contextmanager
def shared(environment, path, port):
    """The document's share behind smbd."""
    place = environment.new_path("samba")
    os.makedirs(place)
    share = example("Samba", "ini").replace("/srv/documents", path)
    directories = "\n    ".join(f"{name} = {place}" for name in DIRECTORIES)
    write_file(place + "/smb.conf", CONFIGURATION.format(
        port=port, place=place, directories=directories, share=share).encode())
    with subprocess.Popen(["smbd", "--foreground", "--no-process-group", "--configfile", place + "/smb.conf"],
                          stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                          start_new_session=True) as server:  # At its end it kills its process group.
        try:
            wait_until(lambda: answers(port) or server.poll() is not None, what="smbd")
            yield
        finally:
            server.terminate()


def test_samba(environment):
    """Clients read and write; a lock closes what its class says, for them too, and an unlock opens it again."""
    needs("smbd", "smbclient")
    if os.geteuid() != 0:
        raise Skip("needs root")
    mount = environment.mount(options=["allow_other"])
    os.chmod(mount.path, 0o755)
    os.mkdir(mount / "upload")
    os.chmod(mount / "upload", 0o777)
    content = pattern(300_000)
    write_file(mount / "secret", content)
    set_class(mount / "secret", "complete")
    write_file(mount / "plain", content)
    source, port = environment.new_path("source"), free_port()
    write_file(source, content)

    def client(command, taken=None):
        done = harness.run("smbclient", "--no-pass", "--port", str(port), "--configfile", os.devnull, "//127.0.0.1/documents",
                           "--command", command, ok=False)
        if done.returncode != 0:
            return re.search(r"NT_STATUS_\w+", done.stdout + done.stderr)[0]
        return read_file(taken) == content if taken else True

    def get(name):
        target = environment.new_path("got")
        return client(f"get {name} {target}", target)

    with shared(environment, mount.path, port):
        environment.cell("unlocked: read", True, get("secret"))
        environment.cell("unlocked: write", True, client(f"put {source} upload/new"))
        environment.cell("unlocked: what was written", True, read_file(mount / "upload/new") == content)
        mount.lock()
        environment.cell("locked: class complete", "NT_STATUS_ACCESS_DENIED", get("secret"))
        environment.cell("locked: the default class", True, get("plain"))
        mount.unlock()
        environment.cell("unlocked again", True, get("secret"))


def test_containers(environment):
    """What a rootless container does: a user namespace in which the user is root, and a bind mount of the volume."""
    user = OrdinaryUser(environment)
    done = user.run("unshare", "--user", "--map-root-user", "--mount", "true", ok=False)
    if done.returncode != 0:
        raise Skip("user namespaces are not permitted here")
    point, program = user.path, harness.binary()
    user.run(program, "mount", "--recovery-file", user.code_file, user.volume, point)
    try:
        script = (f"mount --rbind --make-rslave {point} /mnt && echo content >/mnt/file && "
                  "setfattr -n user.protection -v complete /mnt/file && id -u && cat /mnt/file && read line && cat /mnt/file")
        with subprocess.Popen([*user.become, "unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script],
                              env=user.variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True) as container:
            said = container.stdout.readline() + container.stdout.readline()
            environment.cell("in the container", "0\ncontent\n", said)
            user.run(program, "lock", point)
            environment.cell("in the container: locked", True, "Permission denied" in container.communicate("go on\n")[1])
        user.run(program, "unlock", "--recovery-file", user.code_file, point)
        environment.cell("outside", "content\n", user.run("cat", point + "/file").stdout)
    finally:
        user.run(program, "unmount", "--force", point, ok=False)


class Home:
    """A person's home with a mounted volume, and the program in PATH."""

    def __init__(self, environment):
        self.volume = environment.volume()
        self.path, tools = environment.new_path("home"), environment.new_path("tools")
        for place in (self.path + "/media/backup", tools):
            os.makedirs(place)
        os.symlink(harness.binary(), tools + "/protectfs")
        os.rename(self.volume.path, self.path + "/.documents")
        self.volume.path = self.path + "/.documents"
        self.mount = environment.mount(self.volume, path=self.path + "/documents")
        self.variables = {**self.volume.environment, "HOME": self.path, "PATH": tools + ":" + os.environ["PATH"],
                          "RESTIC_PASSWORD": "secret", "BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK": "yes"}

    def type(self, script):
        return harness.run("bash", "-euc", script.replace("/media", self.path + "/media"), env=self.variables, cwd=self.path)


def test_backups(environment):
    """The commands for restic and borg bring back a store that opens and has everything."""
    for program, start, place in (
            ("restic", "restic --repo /media/backup/restic init", "restored"),
            ("borg", "borg init --encryption none /media/backup/borg", "again")):
        if not shutil.which(program):
            environment.skip(program, f"{program} is not installed: mount-scripts/packages software")
            continue
        home = Home(environment)
        write_file(home.mount / "file", pattern(100_000))
        set_class(home.mount / "file", "complete")
        home.mount.lock()
        home.type(start + "\n" + example(program, "sh"))
        home.mount.unmount()
        home.volume.path = f"{home.path}/{place}{home.path}/.documents"
        again = environment.mount(home.volume, options=["ro"])
        environment.cell(program, True, read_file(again / "file") == pattern(100_000))
        again.unmount()


def test_metrics(environment):
    needs("jq")
    home = Home(environment)
    with open(home.mount / "file", "wb"):
        home.type(example("Metrics", "sh"))
    lines = read_file(home.path + "/protectfs.prom").decode().splitlines()
    label = f'{{mount="{home.mount.path}"}}'
    values = dict(line.rsplit(" ", 1) for line in lines if label in line)
    environment.cell("values", {
        f"protectfs_{name}{label}": value for name, value in (
            ("up", "1"), ("unlocked", "1"), ("sweeping_files", "0"), ("unlock_failures", "0"), ("damage", "0"),
            ("open_handles", "1"))}, values)
    home.mount.lock()
    home.type(example("Metrics", "sh"))
    environment.cell("locked", True, f"protectfs_unlocked{label} 0" in read_file(home.path + "/protectfs.prom").decode())


def test_trash(environment):
    """A desktop's trash of a mount is in the volume, and a file in it keeps its class."""
    needs("gio")
    home = Home(environment)
    write_file(home.mount / "letter", b"content")
    set_class(home.mount / "letter", "complete")
    home.type("gio trash documents/letter")
    trashed = home.mount / f".Trash-{os.geteuid()}/files/letter"
    environment.cell("in the volume", (b"content", "complete"), (read_file(trashed), get_class(trashed)))
    environment.cell("not in the home", False, os.path.exists(home.path + "/.local/share/Trash/files/letter"))
    home.mount.lock()
    environment.cell("closed by a lock", True, isinstance(refusal(trashed), PermissionError))


def refusal(path):
    """The error of reading a file, or nothing."""
    try:
        read_file(path)
    except OSError as error:
        return error
    return None
