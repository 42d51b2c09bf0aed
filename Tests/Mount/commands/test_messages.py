"""What commands say when something fails: that it names what helps."""

import json
import os
import signal
import stat
import subprocess
import time

import harness
from namespaces import own_namespace
from processes import outcome, wait_until
from users import OrdinaryUser


def test_mounting_is_refused(environment):
    """Each thing that keeps an ordinary user from mounting is named, with the command that changes it."""
    user = OrdinaryUser(environment)
    own_namespace()
    device, helper, hidden, work, limit = (environment.new_path(name) for name in ("device", "helper", "hidden", "work", "fuse.conf"))
    os.mknod(device, stat.S_IFCHR, os.makedev(10, 229))
    harness.write_file(helper, b"#!/bin/false\n")
    harness.write_file(limit, b"mount_max = 0\n")
    for directory in (hidden, work):
        os.mkdir(directory)
    # Hides the program in an overlay.
    os.mknod(os.path.join(hidden, "fusermount3"), stat.S_IFCHR, 0)
    overlay = f"lowerdir=/usr/bin,upperdir={hidden},workdir={work}"
    program, configuration = "/usr/bin/fusermount3", "/etc/fuse.conf"
    for name, source, target, mode, group, helps in (
            ("the device's mode", device, "/dev/fuse", 0o600, 0, "sudo chmod 666 /dev/fuse"),
            ("the device's group", device, "/dev/fuse", 0o660, 4, "sudo usermod -aG adm "),
            ("the limit", limit, configuration, 0o644, 0, "sudo tee -a /etc/fuse.conf"),
            ("allow_other", "/dev/null", configuration, None, 0, "echo user_allow_other | sudo tee"),
            ("the program's group", helper, program, 0o4750, 4, "sudo usermod -aG adm "),
            ("no set-user-ID", helper, program, 0o755, 0, f"sudo chmod 4755 {program}"),
            ("no program", None, "/usr/bin", None, 0, "sudo apt install fuse3")):
        if mode:
            os.chown(source, 0, group)
            os.chmod(source, mode)
        how = ["--bind", source] if source else ["-t", "overlay", "-o", overlay, "none"]
        if harness.run("mount", *how, target, ok=False).returncode:
            environment.skip(name, "cannot be prepared here")
            continue
        options = ("-o", "allow_other") if name == "allow_other" else ()
        done = user.run(harness.binary(), "mount", *options, "--recovery-file", user.code_file, user.volume, user.path, ok=False)
        environment.cell(name, (1, True, 1), (done.returncode, helps in done.stderr, done.stderr.count("\n")))
        harness.run("umount", "-l", target)


def test_an_import_that_never_succeeds_so(environment):
    """It names what helps: a mode, or --replace. The same command alone does not."""
    user = OrdinaryUser(environment)
    source = os.path.join(os.path.dirname(user.path), "source")
    os.mkdir(source)
    harness.write_file(f"{source}/one", b"first")
    harness.write_file(f"{source}/closed", b"closed")
    for name in (source, f"{source}/one", f"{source}/closed"):
        os.chown(name, 65534, 65534)
    words = [harness.binary(), "import", "--recovery-file", user.code_file, source, user.volume]
    os.chmod(f"{source}/closed", 0)
    done = user.run(*words, ok=False)
    environment.cell("a mode", (1, True, True), (done.returncode, "chmod u+r allows it" in done.stderr,
                                                 "Mend what they name, then give the same command again" in done.stdout))
    os.chmod(f"{source}/closed", 0o600)
    harness.write_file(f"{source}/one", b"second")
    done = user.run(*words, ok=False)
    environment.cell("a file that differs", (1, True, False), (
        done.returncode, "--replace replaces the files that differ" in done.stdout, "same command" in done.stdout))
    environment.cell("--replace", 0, user.run(*words, "--replace", ok=False).returncode)


def test_swapped_operands(environment):
    mount = environment.mount()
    harness.write_file(mount / "file", b"x")
    done = mount.command("class", "set", mount / "file", "complete", ok=False)
    environment.cell("class set", (2, True), (done.returncode, f"protectfs class set complete {mount / 'file'}" in done.stderr))


def test_the_only_mount(environment):
    """Commands that need one mount take the only one; with none or two they say what to do."""
    mount = environment.mount()

    def run(*words):
        done = harness.protectfs(*words, env=mount.volume.environment, ok=False)
        return done.returncode, done.stdout + done.stderr

    if len(json.loads(run("status", "--json")[1])) > 1:
        raise harness.Skip("something else is mounted here")
    secret = ("--recovery-file", mount.volume.code_file)
    environment.cell("lock", (0, "locked"), (run("lock")[0], mount.state()))
    environment.cell("unlock", (0, "unlocked"), (run("unlock", *secret)[0], mount.state()))
    other = environment.mount()
    for words in (["lock"], ["unlock", *secret], ["unmount"]):
        code, said = run(*words)
        environment.cell(f"{words[0]}: two", (2, True), (code, mount.path in said and other.path in said))
    other.unmount()
    environment.cell("unmount", (0, False), (run("unmount")[0], mount.is_mounted))
    code, said = run("lock")
    environment.cell("none", (7, True), (code, "no volume is mounted" in said))


def test_a_busy_unmount(environment):
    """It names the programs that use the mount, and one's own shell."""
    mount = environment.mount()
    harness.write_file(mount / "file", b"x")
    with open(mount / "file", "rb"):
        done = mount.command("unmount", mount.path, ok=False)
        environment.cell("a file", (6, True, True), (done.returncode, f"({os.getpid()})" in done.stderr, "shell" not in done.stderr))
        environment.cell("nothing else", True, "by protectfs" not in done.stderr and " and protectfs" not in done.stderr)
    words = [harness.binary(), "unmount", mount.path]
    shell = ["/bin/sh", "-c", 'cd "$1"; shift; "$@"; exit $?', "sh", mount.path, *words]
    done = harness.run(*shell, env=mount.volume.environment, ok=False)
    environment.cell("a shell", (6, True), (done.returncode, "in use by your own shell, whose directory is in it (cd out of it);" in done.stderr))
    mount.unmount()


def test_names_of_users(environment):
    """A message has a user's name, not the number."""
    mount = environment.mount()
    if os.geteuid() != 0:
        raise harness.Skip("needs root")
    place = environment.new_path("config")
    os.makedirs(f"{place}/protectfs")
    harness.write_file(f"{place}/protectfs/config", b"")
    os.chown(f"{place}/protectfs/config", 65534, 65534)
    done = harness.protectfs("config", env={**mount.volume.environment, "XDG_CONFIG_HOME": place}, ok=False)
    environment.cell("a configuration", (2, True), (done.returncode, "belongs to nobody, " in done.stderr))


def test_no_terminal(environment):
    volume = environment.volume()
    done = harness.run("setsid", "-w", harness.binary(), "recovery", "use", volume.path, env=volume.environment, ok=False)
    environment.cell("recovery use", (3, True), (
        done.returncode, "cannot ask for the recovery code without a terminal; use --recovery-file" in done.stderr))


def test_numbers_and_nouns(environment):
    mount = environment.mount()
    harness.write_file(mount / "file", b"x")
    mount.unmount()
    done = harness.protectfs("fsck", "--recovery-file", mount.volume.code_file, mount.volume.path, env=mount.volume.environment)
    environment.cell("fsck", True, "1 directory, 1 file, 0 symbolic links" in done.stdout)
    source, volume = environment.new_path("source"), environment.volume()
    os.mkdir(source)
    harness.write_file(f"{source}/one", b"1")
    done = harness.protectfs("import", "--recovery-file", volume.code_file, source, volume.path, env=volume.environment)
    environment.cell("import", True, "1 object copied, 0 were there already; " in done.stdout)


def test_names_of_other_programs(environment):
    for word, meant in (("-V", "--version"), ("passwd", "passphrase change"), ("open", "mount or unlock"), ("edit", "mount: files are"),
                        ("verify", "fsck"), ("check", "fsck"), ("export", "keybag export"), ("backup", "keybag export"),
                        ("restore", "keybag import"), ("-r", "mount -r")):
        done = harness.protectfs(word, ok=False)
        environment.cell(word, (2, True), (done.returncode, f"did you mean {meant}" in done.stderr))


def test_letters_of_other_programs(environment):
    for words, meant in ((["class", "set", "-r", "none", "x"], "r (did you mean -R?);"), (["fsck", "-r", "x"], "r;"),
                         (["watch", "-j", "x"], "j (did you mean --json?);")):
        done = harness.protectfs(*words, ok=False)
        environment.cell(words[0], True, f"unknown option -{meant}" in done.stderr)


def test_a_place_that_is_none(environment):
    """What is at a path that is given as a volume or a mount point is named."""
    mount = environment.mount()
    os.mkdir(mount / "directory")
    for words, code, text in (
            (["erase", "--yes", mount.path], 4, f"the mount of a volume, and not the volume; the volume is {mount.volume.path}"),
            (["lock", mount / "directory"], 7, f"inside a volume that is mounted at {mount.path}"),
            (["import", mount / "directory", mount.path + "-none"], 1, f"protectfs init {mount.path}-none makes a volume there")):
        done = mount.command(*words, ok=False)
        environment.cell(words[0], (code, True), (done.returncode, text in done.stderr))


def test_a_dead_mount_among_others(environment):
    """The others are served, and the exit code says that one was not."""
    dead, living = environment.mount(), environment.mount()
    os.kill(dead.pid, signal.SIGKILL)
    wait_until(lambda: outcome(os.listdir, dead.path) == "ENOTCONN", what="the death of the daemon")
    for words in (["status"], ["lock", "--all"]):
        done = harness.protectfs(*words, "--json", ok=False)
        told = {one["mountPoint"]: one.get("code") for one in json.loads(done.stdout)}
        environment.cell(words[0], (7, "notMounted", None), (done.returncode, told[dead.path], told[living.path]))
    environment.cell("it is locked", "locked", living.status()["state"])
    dead.unmount()


def test_a_cheap_hash(environment):
    """slot list and doctor say that a passphrase could be protected better here."""
    mount = environment.mount()
    place = environment.new_path("config")
    os.makedirs(f"{place}/protectfs")
    for cost, expected in (("3 passes 64 MiB", False), ("3 passes 1024 MiB", True)):
        harness.write_file(f"{place}/protectfs/config", f"passphrase.cost = {cost}\n".encode(), os.O_TRUNC)
        variables = {**mount.volume.environment, "XDG_CONFIG_HOME": place}
        text = harness.protectfs("slot", "list", mount.volume.path, env=variables).stderr
        environment.cell(f"slot list, {cost}", expected, "costs less than half of what it would here" in text)
        text = harness.protectfs("doctor", mount.path, env=variables).stdout
        environment.cell(f"doctor, {cost}", expected, "protectfs passphrase change" in text)


def cost_of_a_new_passphrase(is_busy):
    """Passes times MiB, on a machine that gives the process a tenth of its time, or all."""
    with subprocess.Popen([harness.binary(), "speed", "--json"], stdout=subprocess.PIPE, text=True) as process:
        while is_busy and process.poll() is None:
            for number, seconds in ((signal.SIGSTOP, 0.045), (signal.SIGCONT, 0.005)):
                process.send_signal(number)
                time.sleep(seconds)
        made = json.loads(process.communicate()[0])["passwordHash"]
    return made["passes"] * (made["memory"] >> 20)


def test_the_cost_on_a_busy_machine(environment):
    """A passphrase that is set on a busy machine is as hard to guess as one that is set on an idle one."""
    idle = cost_of_a_new_passphrase(False)
    if idle <= 2 * 3 * 64:
        raise harness.Skip("this machine makes passphrases of nearly the least cost")
    busy = cost_of_a_new_passphrase(True)
    environment.cell("less than half", False, busy * 2 < idle)
