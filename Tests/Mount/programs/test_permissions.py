"""Which calls modes and groups refuse on an ordinary user's mount, compared with the file system of the store.

The kernel judges (`default_permissions`). A daemon could not: it is not asked for `d/.`, nor with the caller's groups.
"""

import json
import os
import stat
import tempfile

from harness import Skip, binary, in_child, outcome, run, write_file
from namespaces import own_namespace
from users import OrdinaryUser

GROUP = 4242

# One new directory for each mode and call. All of its names are known to the kernel when its mode, or a file's, changes.
TABLE = """
import errno, json, os, subprocess, sys
os.mkdir(sys.argv[1])
os.chdir(sys.argv[1])
found, number = {}, 0
def opening(path, flags):
    return lambda: os.close(os.open(path, flags, 0o600))
def inside(call):
    def run():
        os.fchdir(directory)
        try:
            call()
        finally:
            os.fchdir(top)
    return run
def entering():
    os.chdir('d')
    os.fchdir(top)
directories = {
    'stat': lambda: os.stat('d/f'), 'open': opening('d/f', os.O_RDONLY), 'open to write': opening('d/f', os.O_RDWR),
    'truncate': lambda: os.truncate('d/f', 0), 'readlink': lambda: os.readlink('d/l'), 'missing': lambda: os.stat('d/none'),
    'list': lambda: os.listdir('d'), 'list an open one': lambda: os.listdir(directory), 'create': opening('d/new', os.O_CREAT),
    'nameless': opening('d', os.O_TMPFILE | os.O_RDWR), 'mkdir': lambda: os.mkdir('d/new'), 'mkfifo': lambda: os.mkfifo('d/new'),
    'symlink': lambda: os.symlink('t', 'd/new'), 'link': lambda: os.link('g', 'd/new'), 'link from': lambda: os.link('d/f', 'new'),
    'unlink': lambda: os.unlink('d/f'), 'rmdir': lambda: os.rmdir('d/s'), 'rename': lambda: os.rename('d/f', 'd/new'),
    'rename to': lambda: os.rename('g', 'd/new'), 'rename from': lambda: os.rename('d/f', 'new'), 'below': lambda: os.stat('d/s/f'),
    'chdir': entering, 'dot': lambda: os.stat('d/.'), 'dot dot': lambda: os.stat('d/../g'), 'beside': lambda: os.stat('f', dir_fd=directory),
    'dot from inside': inside(lambda: os.stat('.')), 'up from inside': inside(lambda: os.stat('..')),
    'name from inside': inside(lambda: os.stat('f')), 'remove it': lambda: os.rename('d', 'e'), 'chmod below': lambda: os.chmod('d/f', 0o644),
}
both = {
    'get an attribute': lambda path: os.getxattr(path, 'user.a'), 'set one': lambda path: os.setxattr(path, 'user.b', b'2'),
    'remove one': lambda path: os.removexattr(path, 'user.a'), 'times': lambda path: os.utime(path),
    'set times': lambda path: os.utime(path, (1, 1)), 'chmod': lambda path: os.chmod(path, 0o755),
    **{f'access {bits}': lambda path, bits=bits: print(end='' if os.access(path, bits) else 1 // 0) for bits in range(8)},
}
files = {
    'open': opening('d/f', os.O_RDONLY), 'open to write': opening('d/f', os.O_WRONLY), 'open for both': opening('d/f', os.O_RDWR),
    'open and cut': opening('d/f', os.O_RDONLY | os.O_TRUNC), 'append': opening('d/f', os.O_WRONLY | os.O_APPEND),
    'truncate': lambda: os.truncate('d/f', 1), 'unlink': lambda: os.unlink('d/f'), 'link': lambda: os.link('d/f', 'new'),
    'read the open file': lambda: os.pread(file, 9, 0), 'write the open file': lambda: os.pwrite(file, b'y', 0),
    'cut the open file': lambda: os.ftruncate(file, 0), 'open it again': lambda: os.close(os.open(f'/proc/self/fd/{file}', os.O_RDWR)),
    'run': lambda: subprocess.run(['./d/f'], check=True),
}
directories.update({name: lambda call=call: call('d') for name, call in both.items()})
files.update({name: lambda call=call: call('d/f') for name, call in both.items()})
begin = os.open('.', os.O_RDONLY)
for changed, calls in ('d', directories), ('d/f', files):
    for mode in (0o700, 0o600, 0o500, 0o400, 0o300, 0o200, 0o100, 0, 0o077):
        for name, call in calls.items():
            number += 1
            os.mkdir(str(number))
            os.chdir(str(number))
            os.makedirs('d/s')
            for path, text in ('d/f', '#!/bin/true\\n'), ('d/s/f', 'x'), ('g', 'x'):
                with open(path, 'w') as out:
                    out.write(text)
            os.symlink('target', 'd/l')
            for path in 'd', 'd/f':
                os.setxattr(path, 'user.a', b'1')
                os.stat(path)
                os.access(path, 7)
            os.listdir('d')
            top, directory, file = os.open('.', os.O_RDONLY), os.open('d', os.O_RDONLY), os.open('d/f', os.O_RDWR)
            os.chmod(changed, mode)
            try:
                call()
                answer = 'works'
            except OSError as error:
                answer = errno.errorcode[error.errno]
            except ZeroDivisionError:
                answer = 'no'
            found[f'[{changed} {mode:o}] {name}'] = answer
            for one in top, directory, file:
                os.close(one)
            os.fchdir(begin)
print(json.dumps(found))
"""


def mount(user, become):
    run(*become, binary(), "mount", "--recovery-file", user.code_file, user.volume, user.path, env=user.variables)


def test_each_mode_and_call(environment):
    """Each call that the mode of a file or directory refuses is refused, also if the kernel knows the names below it."""
    user = OrdinaryUser(environment)
    mount(user, user.become)
    places = (os.path.join(os.path.dirname(user.path), "plain"), os.path.join(user.path, "table"))
    below, here = (json.loads(user.run("/usr/bin/python3", "-c", TABLE, place).stdout) for place in places)
    user.run(binary(), "unmount", user.path)
    for name, answer in below.items():
        environment.cell(name, answer, here[name])
    environment.cell("some are refused, some not", True, {"works", "EACCES", "no"} <= set(below.values()))


def test_groups_of_the_caller(environment):
    """A process that has given up a group of the daemon reaches no file through that group."""
    user = OrdinaryUser(environment)
    member = [word if word != "--clear-groups" else f"--groups={GROUP}" for word in user.become]
    mount(user, member)
    path = os.path.join(user.path, "file")
    user.run("sh", "-c", f"echo x >{path}")
    below = user.run(binary(), "path", path).stdout.strip()
    user.run(binary(), "unmount", user.path)
    os.chown(below, 0, GROUP)
    os.chmod(below, 0o660)
    mount(user, member)
    for name, become, code in ("a member", member, 0), ("who is none", user.become, 1):
        for what, command in ("reads", f"cat {path}"), ("writes", f"echo y >>{path}"):
            done = run(*become, "sh", "-c", command, env=user.variables, ok=False)
            environment.cell(f"[{name}] {what}", code, min(done.returncode, 1))
    user.run(binary(), "unmount", user.path)


OWNER, NAMED, STRANGER, OTHER_GROUP = 65534, 4241, 4246, 4243
# User and groups, the first of which is the user's own.
CALLERS = {"the owner": (OWNER, [OWNER]), "the named user": (NAMED, [NAMED]), "the named user in the group": (NAMED, [NAMED, GROUP]),
           "one of the group": (STRANGER, [STRANGER, GROUP]), "one of both groups": (STRANGER, [STRANGER, GROUP, OTHER_GROUP]),
           "one of the file's group": (STRANGER, [OWNER]), "a stranger": (STRANGER, [STRANGER])}
# What setfacl adds to a file of mode 0600 and to a directory of mode 0700.
ENTRIES = (f"u:{NAMED}:r", f"u:{NAMED}:rwx,m::r", f"u:{NAMED}:rwx,m::-", f"u:{NAMED}:-,g::rwx,o::rwx", f"u:{NAMED}:-,g:{GROUP}:rwx",
           f"g:{GROUP}:rwx", f"g:{GROUP}:-,o::rwx", f"g:{GROUP}:rx,g:{OTHER_GROUP}:wx", f"g:{GROUP}:rwx,m::wx", "g::rwx,m::x,o::r",
           f"u::-,u:{NAMED}:rwx")
ACL, DEFAULT_ACL = "system.posix_acl_access", "system.posix_acl_default"


def asked(caller, cases):
    """The outcome of each call, made by one process of this user and these groups."""
    user, groups = caller
    with tempfile.TemporaryFile() as answers:
        def act():
            os.setgroups(groups)
            os.setresgid(groups[0], groups[0], groups[0])
            os.setresuid(user, user, user)
            answers.write(json.dumps({name: outcome(call) for name, call in cases}).encode())
            answers.flush()
        ended = in_child(act)
        assert ended == "works", ended
        answers.seek(0)
        return json.load(answers)


def as_owner(make):
    """Runs make() as the owner of what it makes."""
    assert (done := asked((OWNER, [OWNER]), [("made", make)])) == {"made": "works"}, done


def opening(path, flags):
    return lambda: os.close(os.open(path, flags, 0o644))


def access(path, bits):
    """access(2) as an outcome."""
    if not os.access(path, bits):
        raise PermissionError(13, "no")


def calls_with_entries(place):
    """What a caller does, in this order, with a file and a directory that have the same entries."""
    file, directory = f"{place}/f", f"{place}/d"
    yield from ((name, opening(file, flags)) for name, flags in (
        ("read", os.O_RDONLY), ("write", os.O_WRONLY), ("both", os.O_RDWR), ("cut", os.O_WRONLY | os.O_TRUNC)))
    for path in file, directory:
        name = path[-1]
        yield from ((f"{name}: access {bits}", lambda path=path, bits=bits: access(path, bits)) for bits in range(8))
        yield f"{name}: get an attribute", lambda path=path: os.getxattr(path, "user.a")
        yield f"{name}: set one", lambda path=path: os.setxattr(path, "user.b", b"2")
        yield f"{name}: times", lambda path=path: os.utime(path)
        yield f"{name}: get the entries", lambda path=path: os.getxattr(path, ACL)
        yield f"{name}: set the entries", lambda path=path: os.setxattr(path, ACL, os.getxattr(path, ACL))
    yield from {
        "truncate": lambda: os.truncate(file, 1), "list": lambda: os.listdir(directory), "look up": lambda: os.stat(f"{directory}/e"),
        "read below": opening(f"{directory}/e", os.O_RDONLY), "create": opening(f"{directory}/new", os.O_CREAT | os.O_WRONLY),
        "mkdir": lambda: os.mkdir(f"{directory}/s"), "rename": lambda: os.rename(f"{directory}/e", f"{directory}/g"),
        "unlink": lambda: os.unlink(f"{directory}/g"), "chmod": lambda: os.chmod(file, 0o640),
    }.items()


def answers_with_entries(place):
    """What each caller may do at a place, which the owner may write, and what chmod and inheritance make of the entries."""
    trees = {(entries, name): f"{place}/{number}" for number, (entries, name) in enumerate(
        (entries, name) for entries in ENTRIES for name in CALLERS)}
    at_default = f"{place}/default"

    def make():
        os.umask(0o022)
        for path in trees.values():
            os.makedirs(f"{path}/d")
            write_file(f"{path}/d/e", b"x")
            write_file(f"{path}/f", b"x")
            for one, mode in (f"{path}/d", 0o700), (f"{path}/f", 0o600):
                os.chmod(one, mode)
                os.setxattr(one, "user.a", b"1")
        for entries in ENTRIES:
            run("setfacl", "-m", entries, *(f"{path}/{one}" for (each, _), path in trees.items() if each == entries for one in "df"))
        os.mkdir(at_default)
        run("setfacl", "-d", "-m", f"u:{NAMED}:rwx,g:{GROUP}:rx,m::rx,o::x", at_default)
        os.mkdir(f"{at_default}/directory")
        os.close(os.open(f"{at_default}/file", os.O_CREAT | os.O_WRONLY, 0o664))

    as_owner(make)
    found = {}
    for name, caller in CALLERS.items():
        cases = [(f"[{entries}] {name}: {call}", action) for entries in ENTRIES for call, action in calls_with_entries(trees[entries, name])]
        found.update(asked(caller, cases))
    for path in [f"{trees[entries, 'the owner']}/f" for entries in ENTRIES] + [f"{at_default}/file", f"{at_default}/directory"]:
        kept = [os.getxattr(path, name).hex() if name in os.listxattr(path) else None for name in (ACL, DEFAULT_ACL)]
        found[f"the entries of {path.removeprefix(place)}"] = (oct(stat.S_IMODE(os.stat(path).st_mode)), *kept)
    return found


def open_to_others(environment):
    """An ordinary user's mount that is open to other users."""
    user = OrdinaryUser(environment)
    if not os.path.exists("/etc/fuse.conf"):
        raise Skip("there is no /etc/fuse.conf to replace")
    own_namespace()
    settings = environment.new_path("fuse.conf")
    write_file(settings, b"user_allow_other\n")
    os.chmod(settings, 0o644)
    run("mount", "--bind", settings, "/etc/fuse.conf")
    os.chmod(os.path.dirname(user.path), 0o755)
    user.run(binary(), "mount", "-o", "allow_other", "--recovery-file", user.code_file, user.volume, user.path)
    user.run("chmod", "755", user.path)
    return user


def own_place(directory):
    """A directory of the owner."""
    path = os.path.join(directory, "table")
    os.mkdir(path)
    os.chown(path, OWNER, OWNER)
    return path


def test_entries_of_users_and_groups(environment):
    """ACL entries of named users and groups, and masks, allow and refuse as on the file system of the store: on root's mount
    and on an ordinary user's."""
    user, mount, plain = open_to_others(environment), environment.mount(options=["allow_other"]), environment.new_path("plain")
    os.mkdir(plain)
    for path in plain, mount.path:
        os.chmod(path, 0o755)
    below = answers_with_entries(own_place(plain))
    here = {"root's mount": answers_with_entries(own_place(mount.path)), "a user's mount": answers_with_entries(user.path)}
    user.run(binary(), "unmount", user.path)
    for place, found in here.items():
        environment.cell(place, {}, {name: (answer, found.get(name)) for name, answer in below.items() if found.get(name) != answer})
    environment.cell("some are refused, some not", True, {"works", "EACCES", "EPERM"} <= {one for one in below.values() if isinstance(one, str)})
    environment.cell("calls", True, len(below) > 2000)


def answers_in_sticky_directories(place):
    """What each caller may do with the entries of each owner in directories that all or some users may write."""
    callers = {**{name: CALLERS[name] for name in ("the owner", "the named user", "a stranger")}, "root": (0, [0])}
    calls = {
        "remove": lambda path, isDirectory: (os.rmdir if isDirectory else os.unlink)(f"{path}/e"),
        "rename": lambda path, _: os.rename(f"{path}/e", f"{path}/new"),
        "replace": lambda path, isDirectory: os.rename(f"{path}/{'sub' if isDirectory else 'own'}", f"{path}/e"),
        "move out": lambda path, _: os.rename(f"{path}/e", f"{path}.out/e"),
        "link": lambda path, _: os.link(f"{path}/e", f"{path}/new"),
        "open or create": lambda path, _: opening(f"{path}/e", os.O_CREAT | os.O_RDWR)(),
        "chmod": lambda path, _: os.chmod(f"{path}/e", 0o600),
    }
    number, cases = 0, {name: [] for name in callers}
    with_entry = []
    for mode in (0o1777, 0o1700):
        for name, (caller, _) in callers.items():
            for owner in (OWNER, NAMED, STRANGER):
                for isDirectory in (False, True):
                    for call, action in calls.items():
                        number += 1
                        path = f"{place}/{number}"
                        for directory in (path, f"{path}.out"):
                            os.mkdir(directory)
                        for one, its_owner in (("e", owner), ("sub" if isDirectory else "own", caller)):
                            (os.mkdir if isDirectory else lambda file: write_file(file, b"x"))(f"{path}/{one}")
                            os.chmod(f"{path}/{one}", 0o777)
                            os.chown(f"{path}/{one}", its_owner, its_owner)
                        os.chmod(f"{path}.out", 0o777)
                        os.chown(path, OWNER, OWNER)
                        os.chmod(path, mode)
                        with_entry += [path] if mode == 0o1700 else []
                        said = f"[{mode:o}, {'directory' if isDirectory else 'file'} of {owner}] {name}: {call}"
                        cases[name].append((said, lambda path=path, action=action, kind=isDirectory: action(path, kind)))
    run("setfacl", "-m", f"u:{NAMED}:rwx", *with_entry)
    return {said: answer for name, caller in callers.items() for said, answer in asked(caller, cases[name]).items()}


def test_sticky_directories(environment):
    """In a sticky directory nobody but an entry's owner, the directory's and root removes, renames or replaces it, as on the file
    system of the store; an ACL entry changes nothing in that."""
    if os.geteuid() != 0:
        raise Skip("needs root")
    mount, plain = environment.mount(options=["allow_other"]), environment.new_path("plain")
    os.mkdir(plain)
    for path in plain, mount.path:
        os.chmod(path, 0o755)
    below, here = (answers_in_sticky_directories(own_place(place)) for place in (plain, mount.path))
    environment.cell("differences", {}, {name: (answer, here[name]) for name, answer in below.items() if here[name] != answer})
    environment.cell("some are refused, some not", True, {"works", "EACCES", "EPERM"} <= set(below.values()))
