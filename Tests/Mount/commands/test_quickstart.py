"""mount-scripts/quickstart, twice in a row, as root and as an ordinary user, in a directory with spaces in its path."""

import os
import pwd
import shutil
import subprocess

import harness

SCRIPT = os.path.join(harness.REPOSITORY, "mount-scripts", "quickstart")


def quickstart(directory, variables, prefix=()):
    """Runs the script without a terminal and gives its output."""
    done = subprocess.run([*prefix, SCRIPT, directory], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=1500, env=variables, start_new_session=True,
                          check=False)
    assert done.returncode == 0, done.stdout
    return done.stdout


def judge(output):
    for line in ("cat: private/diary/today.txt: Permission denied", "account 4711, balance 815", "mail goes on arriving",
                 "mount-scripts/install"):
        assert line in output, f"{line!r} is not in:\n{output}"
    assert output.count("account 4711, balance 815") == 1, output
    lines = output[output.index("A volume in"):].splitlines()
    assert len(lines) <= 40 and "warning" not in output, output


def built_already(environment):
    """A directory for PATH in which "swift build" gives the program under test, the program, and a list of the builds: a build
    takes minutes, and the build directory of this checkout may be somebody else's."""
    tools = environment.new_path("tools with spaces")
    os.makedirs(tools)
    binary, optimized, builds = (os.path.join(tools, name) for name in ("protectfs", "optimized", "builds"))
    shutil.copy(harness.binary(), optimized)
    with open(os.path.join(tools, "swift"), "w", encoding="ascii") as script:
        script.write(f'#!/bin/sh\ncase "$*" in\n*--show-bin-path*) echo "{tools}" ;;\n'
                     f'*) [ -e "{binary}" ] || cp "{optimized}" "{binary}"; echo "trial: $PROTECTFS_TRIAL" >>"{builds}" ;;\nesac\n')
    os.chmod(os.path.join(tools, "swift"), 0o755)
    return tools, binary, builds


def test_root(environment):
    if os.geteuid() != 0:
        raise harness.Skip("not root")
    directory = os.path.join(environment.base, "a directory with spaces")
    tools, *_ = built_already(environment)
    variables = {**os.environ, "XDG_STATE_HOME": environment.new_path("data"), "PATH": tools + ":" + os.environ["PATH"]}
    try:
        judge(quickstart(directory, variables))
        judge(quickstart(directory, variables))
    finally:
        harness.protectfs("unmount", directory + "/private", ok=False, env=variables)


def test_user(environment):
    """As an ordinary user, in a copy of the repository with spaces in its path too. The first build is a trial; what is optimised is not
    compiled anew as one."""
    if os.geteuid() != 0:
        raise harness.Skip("needs root to become somebody else")
    if shutil.which("fusermount3") is None:
        raise harness.Skip("fusermount3 is missing")
    user = pwd.getpwnam("nobody")
    os.chmod(environment.base, 0o755)
    home = environment.new_path("home")
    os.mkdir(home)
    os.chown(home, user.pw_uid, user.pw_gid)
    tools, binary, builds = built_already(environment)
    os.chown(tools, user.pw_uid, user.pw_gid)
    place = os.path.join(tools, "repository", "mount-scripts")
    os.makedirs(place)
    for name in ("quickstart", "packages"):
        shutil.copy(os.path.join(harness.REPOSITORY, "mount-scripts", name), place)
    runtime = environment.new_path("run")
    os.mkdir(runtime, 0o700)
    os.chown(runtime, user.pw_uid, user.pw_gid)
    variables = {"HOME": home, "USER": "nobody", "PATH": tools + ":" + os.environ["PATH"], "XDG_RUNTIME_DIR": runtime}
    directory = os.path.join(home, "with spaces")
    # In a mount namespace of its own, where the device is as udev makes it: open for everyone.
    device = environment.new_path("fuse")
    script = (f'mknod "{device}" c 10 229 && chmod 666 "{device}" && mount --bind "{device}" /dev/fuse || exit 77; '
              f'as="setpriv --reuid={user.pw_uid} --regid={user.pw_gid} --clear-groups --"; $as "$1" "$2" && $as "$1" "$2"; code=$?; '
              '$as "$3" unmount "$2/private" || code=78; exit $code')
    words = ["unshare", "--mount", "sh", "-c", script, "sh", os.path.join(place, "quickstart"), directory, binary]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=600, env=variables, start_new_session=True, check=False)
    if done.returncode == 77 or "unshare:" in done.stdout:
        raise harness.Skip("mount namespaces are not permitted here")
    assert done.returncode == 0, done.stdout
    first, second = done.stdout.split("makes a volume, and")[:2]
    judge(first)
    judge(second)
    with open(builds, encoding="ascii") as file:
        assert file.read() == "trial: 1\ntrial: \n"


test_root.time_limit = 1600
