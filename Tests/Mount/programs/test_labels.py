"""Labels of SELinux, on a kernel without it: `ls -l` asks each file for one, as long as it may be told of one."""

import errno
import os

import handles
from harness import Skip, binary, mount_table, read_file, wait_until, write_file
from users import OrdinaryUser

LABEL = "security.selinux"
FILES = 50
ASK = ("import os, sys\nfor path in sys.argv[1:]:\n try: print(os.getxattr(path, 'security.selinux').decode())\n"
       " except OSError as error: print(error.errno)")


def asked(user, *paths):
    """What each file answers: its label, or the number of the error."""
    return user.run("/usr/bin/python3", "-c", ASK, *paths).stdout.split()


def require_no_selinux():
    if os.path.exists("/sys/fs/selinux/enforce"):
        raise Skip("the kernel answers for labels itself (SELinux)")


def requests(trace, name):
    with open(trace, encoding="utf-8") as file:
        return sum(f" op={name} " in line for line in file)


def test_of_an_ordinary_user(environment):
    """Nobody can set a label on a mount for this user alone, so it has none: one answer is enough for a program."""
    require_no_selinux()
    user = OrdinaryUser(environment)
    trace = environment.new_path("trace")
    command = (f'"{binary()}" mount --foreground --trace --recovery-file "{user.code_file}" "{user.volume}" "{user.path}" >/dev/null 2>"{trace}" &')
    with open(trace, "w", encoding="utf-8"):
        os.chown(trace, 65534, 65534)
    user.run("sh", "-c", command)
    wait_until(lambda: any(row[1] == user.path for row in mount_table()), what=f"the mount: {read_file(trace)}")
    user.run("sh", "-c", f'cd "{user.path}"; for i in $(seq {FILES}); do echo x >$i; done')
    environment.cell("a file without a label", [str(errno.EOPNOTSUPP)], asked(user, f"{user.path}/1"))
    with handles.nothing_forgotten():
        before = requests(trace, "GETXATTR")
        user.run("ls", "-l", user.path)
        first = requests(trace, "GETXATTR")
        user.run("ls", "-l", user.path)
        again = requests(trace, "GETXATTR")
    # The kernel keeps the ACLs that the first listing has asked for.
    environment.cell("GETXATTR of the first listing", True, first - before <= FILES + 5 or first - before)
    environment.cell("GETXATTR of the second one", True, again - first <= 5 or again - first)
    user.run(binary(), "unmount", user.path)


def test_of_an_administrator(environment):
    """On root's mount a file without a label says ENODATA, as on ext4: setfiles(8) goes on only after that."""
    require_no_selinux()
    if os.geteuid() != 0:
        raise Skip("needs root")
    mount = environment.mount()
    below = environment.new_path("plain")
    for path in (mount / "file", below):
        write_file(path, b"content")
        try:
            answer = os.getxattr(path, LABEL)
        except OSError as error:
            answer = error.errno
        environment.cell(f"{os.path.basename(path)}: without a label", errno.ENODATA, answer)
        os.setxattr(path, LABEL, b"a label")
        environment.cell(f"{os.path.basename(path)}: with one", b"a label", os.getxattr(path, LABEL))
