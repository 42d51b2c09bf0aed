"""What commands say when something fails: that it names what helps."""

import os
import stat

import harness
from namespaces import own_namespace
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
