"""The files that mount-scripts/install puts into a system: modes, mount(8) helper, systemd units."""

import filecmp
import os
import re
import shutil
import stat

from harness import CLASSES, REPOSITORY, Skip, binary, get_class, mount_table, run, wait_until, write_file

INSTALL = os.path.join(REPOSITORY, "mount-scripts", "install")
# The manual pages, below the prefix.
MANUALS = {f"share/man/man{name[-1]}/{name}": 0o644
           for name in ("protectfs.1", "protectfs-mount.1", "protectfs-fsck.1", "protectfs-credentials.7")}
# The window for desktops, below the prefix.
WINDOW = {
    "bin/protectfs-tray": 0o755,
    "share/man/man1/protectfs-tray.1": 0o644,
    "share/applications/protectfs-tray.desktop": 0o644,
    "share/nautilus-python/extensions/protectfs_nautilus.py": 0o644,
    **{f"share/protectfs/desktop/{name}.py": 0o644 for name in ("ask_passphrase", "protectfs_desktop", "tray_menu")},
    **{f"share/icons/hicolor/scalable/apps/protectfs-{name}.svg": 0o644 for name in ("locked", "unlocked")},
    **{f"share/icons/hicolor/scalable/emblems/emblem-protectfs-{name}.svg": 0o644
       for name in ("locked", "unlocked", "other", *CLASSES.values())},
}
# The documents, below the prefix.
DOCUMENTS = {f"share/doc/protectfs/{name}": 0o644 for name in ["README.md", "LICENSE"] + [
    os.path.relpath(os.path.join(directory, name), REPOSITORY)
    for directory, _, names in os.walk(os.path.join(REPOSITORY, "docs")) for name in names
    if not name.endswith(".json") and os.path.basename(directory) != "man"]}
INSTALLED = {
    **{f"usr/local/{path}": mode for path, mode in {**MANUALS, **WINDOW, **DOCUMENTS}.items()},
    "usr/local/bin/protectfs": 0o755,
    "usr/local/share/bash-completion/completions/protectfs": 0o644,
    "usr/local/share/zsh/site-functions/_protectfs": 0o644,
    "etc/fish/completions/protectfs.fish": 0o644,
    "usr/local/share/SiriKali/backends/protectfs.json": 0o644,
    "sbin/mount.fuse.protectfs": 0o755,
    "sbin/umount.fuse.protectfs": 0o755,
    "usr/local/lib/systemd/user/protectfs@.service": 0o644,
    "usr/local/lib/systemd/user/protectfs-agent.service": 0o644,
    "usr/local/lib/systemd/user/protectfs-mounts.service": 0o644,
    "usr/local/lib/systemd/user/protectfs-secrets@.service": 0o644,
    "usr/local/lib/systemd/system/protectfs-lock.service": 0o644,
}


def script(*words, **more):
    """mount-scripts/install with the program under test."""
    return run(INSTALL, *words, env={**os.environ, "PROTECTFS_PROGRAM": binary()}, **more)


def script_of_user(home, *words):
    """The same as an ordinary user with this home."""
    return run("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", INSTALL, *words,
               env={**os.environ, "PROTECTFS_PROGRAM": binary(), "HOME": home})


def install(environment):
    """mount-scripts/install into a directory."""
    destination = environment.new_path("installed here")
    script("--no-build", "--destdir", destination)
    return destination


def files(place):
    """The files below a directory, and their modes."""
    paths = [os.path.join(directory, name) for directory, _, names in os.walk(place) for name in names]
    return {os.path.relpath(path, place): stat.S_IMODE(os.stat(path).st_mode) for path in paths}


def test_install(environment):
    destination = install(environment)
    environment.cell("[files and modes]", INSTALLED, files(destination))
    for name, source in (("usr/local/bin/protectfs", binary()),
                         ("usr/local/share/man/man1/protectfs-fsck.1", os.path.join(REPOSITORY, "docs", "man", "protectfs-fsck.1"))):
        environment.cell(f"[{name}]", True, filecmp.cmp(os.path.join(destination, name), source, shallow=False))
    for name in ("sbin/mount.fuse.protectfs", "sbin/umount.fuse.protectfs", "usr/local/lib/systemd/user/protectfs@.service",
                 "usr/local/lib/systemd/user/protectfs-agent.service", "usr/local/lib/systemd/user/protectfs-mounts.service",
                 "usr/local/lib/systemd/user/protectfs-secrets@.service",
                 "usr/local/lib/systemd/system/protectfs-lock.service"):
        with open(os.path.join(destination, name), encoding="utf-8") as file:
            environment.cell(f"[{name} names the program]", True, "/usr/local/bin/protectfs" in file.read())
    with open(os.path.join(destination, "usr/local/share/man/man1/protectfs.1"), encoding="utf-8") as file:
        named = set(re.findall(r"\S*docs/[\w/\\-]+\.md", file.read()))
    environment.cell("[the manual names documents]", True, len(named) >= 3)
    for name in sorted(named):
        environment.cell(f"[the manual's {name}]", True, os.path.isfile(destination + name.replace("\\", "")))
    if shutil.which("systemd-analyze"):
        for unit in ("user/protectfs@.service", "user/protectfs-agent.service", "user/protectfs-mounts.service", "user/protectfs-secrets@.service",
                     "system/protectfs-lock.service"):
            path = os.path.join(destination, "usr/local/lib/systemd", unit)
            done = run("systemd-analyze", "verify", "--man=no", path, ok=False)
            # The program is not installed on this machine.
            environment.cell(f"[{unit}]", [], [
                line for line in done.stderr.splitlines() if "protectfs" in line and "not executable" not in line])
    else:
        environment.skip("[systemd units]", "systemd-analyze is not installed")


def test_install_elsewhere(environment):
    """A prefix with spaces, a home without root, and the way back."""
    prefix, other = environment.new_path("a prefix with spaces"), environment.new_path("other")
    os.makedirs(other)
    done = script("--no-build", "--prefix", prefix, "--destdir", other)
    environment.cell("[a prefix: nothing is outside of it]", [], [
        path for path in files(other) if not path.startswith(prefix[1:] + "/")])
    environment.cell("[a prefix: what is left out, and the way to have it]", (True, True), (
        "mount.fuse.protectfs" in done.stderr, "--system" in done.stderr))
    script("uninstall", "--prefix", prefix, "--destdir", other)
    script("--no-build", "--prefix=" + prefix, "--system", "--destdir", other)
    # systemd does not look below this prefix.
    unit = os.path.join(other, "usr/local/lib/systemd/user/protectfs@.service")
    with open(unit, encoding="utf-8") as file:
        environment.cell("[the unit]", True, f'ExecStart="{prefix}/bin/protectfs" mount' in file.read())
    helper = os.path.join(other, "sbin/mount.fuse.protectfs")
    done = run("sh", helper, "/no volume", "/no point", ok=False)
    # The program is not there: the script has named it by its path.
    environment.cell("[the helper]", True, f"{prefix}/bin/protectfs" in done.stderr)
    before = files(other)
    done = script("--no-build", "--destdir", other)
    with open(helper, encoding="utf-8") as file:
        environment.cell("[another installation: the helper stays]", (True, True), (
            f"{prefix}/bin/protectfs" in file.read(), "belongs to another installation" in done.stderr))
    script("uninstall", "--destdir", other)
    environment.cell("[another installation: removed]", before, files(other))
    script("uninstall", "--prefix=" + prefix, "--system", "--destdir", other)
    environment.cell("[uninstalled]", {}, files(other))
    for word in ("it's", 'a"b', "a\nb"):
        done = run(INSTALL, "--no-build", "--prefix", "/tmp/" + word, ok=False)
        environment.cell(f"[prefix {word!r}]", 2, done.returncode)
    trial = environment.new_path("trial")
    with open(trial, "w", encoding="ascii") as file:
        file.write("#!/bin/sh\necho 'protectfs 0.0, volume format 2, a trial build'\n")
    os.chmod(trial, 0o755)
    done = run(INSTALL, "--no-build", "--destdir", other, env={**os.environ, "PROTECTFS_PROGRAM": trial}, ok=False)
    environment.cell("[a trial build is not installed]", (2, {}), (done.returncode, files(other)))
    done = run(INSTALL, "--destdir", other, env={**os.environ, "PATH": "/usr/bin:/bin"}, ok=False)
    environment.cell("[without Swift: where it is]", (2, True), (done.returncode, "swift.org/install" in done.stderr))
    if os.geteuid() != 0:
        raise Skip("needs root to become an ordinary user")
    home = environment.new_path("home")
    os.makedirs(home)
    os.chown(home, 65534, 65534)
    if run("setpriv", "--reuid=65534", "--clear-groups", "test", "-r", INSTALL, "-a", "-r", binary(), ok=False).returncode:
        raise Skip("other users cannot read this repository")
    done = script_of_user(home, "--no-build")
    environment.cell("[home: what is left out]", True, "mount.fuse.protectfs" in done.stderr)
    environment.cell("[home: files]", {
        **{f".local/{path}": mode for path, mode in {**MANUALS, **WINDOW, **DOCUMENTS}.items()},
        ".local/bin/protectfs": 0o755,
        ".local/share/bash-completion/completions/protectfs": 0o644, ".local/share/zsh/site-functions/_protectfs": 0o644,
        ".local/share/fish/vendor_completions.d/protectfs.fish": 0o644, ".local/share/SiriKali/backends/protectfs.json": 0o644,
        ".local/share/systemd/user/protectfs@.service": 0o644,
        ".local/share/systemd/user/protectfs-agent.service": 0o644,
        ".local/share/systemd/user/protectfs-mounts.service": 0o644,
        ".local/share/systemd/user/protectfs-secrets@.service": 0o644}, files(home))
    script_of_user(home, "uninstall")
    environment.cell("[home: uninstalled]", {}, files(home))


def test_mount_helper(environment):
    helper = os.path.join(REPOSITORY, "mount-scripts", "packaging", "mount.fuse.protectfs")
    volume = environment.volume()
    path = environment.new_path("mount")
    os.makedirs(path, mode=0o500)
    variables = {**volume.environment, "PATH": os.path.dirname(binary()) + ":" + os.environ["PATH"]}
    done = run(helper, volume.path, path, "-o", f"rw,noatime,recovery_file={volume.code_file},default_class=B",
               env=variables)
    assert done.returncode == 0
    write_file(path + "/file", b"x")
    assert get_class(path + "/file") == "completeUnlessOpen"
    run("umount", path) if os.geteuid() == 0 else run("fusermount3", "-u", path)
    wait_until(lambda: not any(row[1] == path for row in mount_table()), what="the end of the mount")


def test_mount_command(environment):
    """`mount -t fuse.protectfs` finds the helper where install puts it: /sbin, in a mount namespace of its own."""
    if os.geteuid() != 0:
        raise Skip("only root may call mount(8) so")
    destination = install(environment)
    volume = environment.volume()
    path = environment.new_path("a mount point")
    os.makedirs(path)
    script = ('for place in /sbin /usr/local/bin; do '
              'mount -t overlay overlay -o "lowerdir=$1$place:$(realpath $place)" "$(realpath $place)" || exit 77; done; '
              'mount -t fuse.protectfs "$2" "$3" -o "noatime,recovery_file=$4,default_class=B" || exit 1; '
              'echo content >"$3/file" && getfattr --absolute-names --only-values -n user.protection "$3/file" && '
              'findmnt -n -o FSTYPE,OPTIONS "$3"; code=$?; umount "$3" || exit 2; exit $code')
    words = ["unshare", "--mount", "sh", "-c", script, "sh", destination, volume.path, path, volume.code_file]
    done = run(*words, env=volume.environment, ok=False)
    if done.returncode == 77 or "unshare:" in done.stderr:
        raise Skip("mount namespaces or overlays are not permitted here")
    environment.cell("[exit code]", (0, ""), (done.returncode, done.stderr))
    environment.cell("[class]", CLASSES["B"], done.stdout[:len(CLASSES["B"])])
    environment.cell("[type and options]", True, "fuse.protectfs" in done.stdout and "noatime" in done.stdout)
    environment.cell("[nothing outside]", False, any(row[1] == path for row in mount_table()))


# With installed helpers: the place of the installation, the volume, the mount point, the recovery code, options of umount(8).
UMOUNT = """
for place in /sbin /usr/local/bin; do
    mount -t overlay overlay -o "lowerdir=$1$place:$(realpath $place)" "$(realpath $place)" || exit 77
done
mount -t fuse.protectfs "$2" "$3" -o "recovery_file=$4" || exit 1
daemon=$(protectfs status --json "$3" | sed 's/.*"pid":\\([0-9]*\\).*/\\1/')
head -c 20000000 /dev/urandom >"$3/data"
if [ "$5" = busy ]; then
    exec 9<"$3/data"
    umount "$3" && exit 2
    exec 9<&-
    umount "$3" || exit 3
else
    [ "$5" != "-l stopped" ] || kill -STOP "$daemon"
    # Options, and perhaps a word for this script.
    begun=$(date +%s)
    timeout 100 umount ${5% *} "$3" || exit 3
    # With -l it waits for the daemon, but for no more than 10 s.
    while [ "$5" = -l ] && [ $(($(date +%s) - begun)) -ge 9 ] && [ -e "/proc/$daemon/exe" ]; do sleep 0.1; done
    [ "$5" != "-l stopped" ] || kill -KILL "$daemon"
    [ "$5" != "-l stopped" ] || sleep 1
fi
# A process that has ended and was not waited for has no program.
[ -e "/proc/$daemon/exe" ] && exit 4
mountpoint -q "$3" && exit 5
exit 0
"""


def test_umount_command(environment):
    """umount(8) ends when everything is on disk and the daemon has ended."""
    if os.geteuid() != 0:
        raise Skip("only root may call mount(8) so")
    destination = install(environment)
    for option in ("", "-l", "-f", "-l stopped", "busy"):
        volume = environment.volume()
        path = environment.new_path("a mount point")
        os.makedirs(path)
        done = run("unshare", "--mount", "sh", "-c", UMOUNT, "sh", destination, volume.path, path, volume.code_file, option,
                   env=volume.environment, ok=False)
        if done.returncode == 77 or "unshare:" in done.stderr:
            raise Skip("mount namespaces or overlays are not permitted here")
        environment.cell(f"umount {option}", 0, done.returncode)
        environment.cell(f"umount {option}: reason", option == "busy", "in use" in done.stderr)
