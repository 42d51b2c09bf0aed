"""Which calls modes and groups refuse on an ordinary user's mount, compared with the file system of the store.

The kernel judges (`default_permissions`). A daemon could not: it is not asked for `d/.`, nor with the caller's groups.
"""

import json
import os

from harness import binary, run
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
