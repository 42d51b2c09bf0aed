"""Tools that copy files, several at once, while a process has the files open."""

import contextlib
import errno
import os
import select
import shutil
import threading
import time

from harness import PATIENCE, CommandFailed, run


@contextlib.contextmanager
def elsewhere(action, goes_on=lambda: None):
    """With `action` done by a process of its own, and then `goes_on` again and again: gives what `action` gave, as text.

    What holds files open must not be the process that starts the tools: each new process closes, before it becomes the tool,
    what it has inherited, and closing flushes.
    """
    given, give = os.pipe()
    stop, ends = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(ends)
            os.write(give, f"{action()} done\n".encode())
            while not select.select([stop], [], [], 0.0005)[0]:
                goes_on()
        finally:
            os._exit(0)
    os.close(give)
    os.close(stop)
    try:
        with open(given, "r", encoding="ascii") as answer:
            said = answer.readline()
            assert said.endswith(" done\n"), "the process that holds the files has failed"
            yield said.removesuffix(" done\n")
    finally:
        os.close(ends)
        os.waitpid(child, 0)


def seek(handle, offset, whence):
    """lseek(2), again where a store beside other tests has not taken what is dirty in the 10 s after which the answer is EINVAL."""
    end = time.monotonic() + PATIENCE
    while True:
        begun = time.monotonic()
        try:
            return os.lseek(handle, offset, whence)
        except OSError as error:
            if error.errno != errno.EINVAL or time.monotonic() - begun < 9.5 or time.monotonic() > end:
                raise


def by_descriptors(copy):
    """A copy by a call that takes two descriptors, until it gives 0."""
    def act(source, target):
        with open(source, "rb") as one, open(target, "wb") as other:
            while copy(one.fileno(), other.fileno()):
                pass
    return act


def splice(source, target):
    ends = os.pipe()
    try:
        def once(one, other):
            count = os.splice(one, ends[1], 1 << 16)
            left = count
            while left:
                left -= os.splice(ends[0], other, left)
            return count
        by_descriptors(once)(source, target)
    finally:
        for end in ends:
            os.close(end)


# Scripts for the shell, with the source and the target; or functions.
TOOLS = {
    "cp": 'cp "$1" "$2"',
    "cp --sparse=always": 'cp --sparse=always "$1" "$2"',
    # 1: the file grew while it was read, which is so where a writer appends.
    "tar -cS": '{ tar -C "${1%/*}" -cSf "$2.tar" "${1##*/}" 2>"$2.said" || [ $? = 1 ]; } && tar -xOf "$2.tar" >"$2"',
    "tar -c": '{ tar -C "${1%/*}" -cf "$2.tar" "${1##*/}" 2>"$2.said" || [ $? = 1 ]; } && tar -xOf "$2.tar" >"$2"',
    "qemu-img convert": 'qemu-img convert -f raw -O raw "$1" "$2"',
    "rsync -S": 'rsync -LS "$1" "$2"',
    "dd": 'dd if="$1" of="$2" bs=64k status=none',
    "shutil.copyfile": shutil.copyfile,
    "sendfile": by_descriptors(lambda one, other: os.sendfile(other, one, None, 1 << 18)),
    "splice": splice,
    "copy_file_range": by_descriptors(lambda one, other: os.copy_file_range(one, other, 1 << 24)),
}
# Those that ask where the holes are.
SEEKING = ("cp", "cp --sparse=always", "tar -cS", "qemu-img convert")


def tools(environment, names=TOOLS):
    for name in names:
        if name.startswith("qemu-img") and not shutil.which("qemu-img"):
            environment.skip(f"[{name}]", "qemu-utils is not installed")
        elif name != "splice" or hasattr(os, "splice"):
            yield name


def copy(name, pairs):
    """Copies each (source, target), all at the same time; what went wrong."""
    tool = TOOLS[name]
    if callable(tool):
        return at_once([lambda pair=pair: tool(*pair) for pair in pairs])
    words = ["xargs", "-P", str(len(pairs)), "-n", "2", "sh", "-c", tool, "sh"]
    try:
        run(*words, input="\n".join(" ".join(pair) for pair in pairs))
        return []
    except CommandFailed as error:
        return [str(error)]


def at_once(actions):
    """Runs all at the same time; what went wrong."""
    problems, ready = [], threading.Barrier(len(actions))

    def act(action):
        ready.wait()
        try:
            action()
        except Exception as error:  # noqa: a thread's failure would be lost
            problems.append(repr(error))
    threads = [threading.Thread(target=act, args=(action,)) for action in actions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return problems
