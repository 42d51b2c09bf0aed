"""Random operations on a mount and on an ordinary file system: the same answers, the same tree."""

import errno
import os
import random
import shutil
import stat

from harness import Skip

NAMES = ["a", "b", "c", "with space", "ü" * 20, "n" * 175, "n" * 176, "l" * 255]
CHANGES = 3000


class Player:
    """Plays operations in one tree and notes what each answered."""

    def __init__(self, top):
        self.top = top
        self.handles = {}

    def path(self, parts):
        return os.path.join(self.top, *parts)

    def play(self, operation, *words):
        try:
            return getattr(self, operation)(*words)
        except OSError as error:
            return errno.errorcode[error.errno]

    def create(self, parts, data, mode):
        handle = os.open(self.path(parts), os.O_CREAT | os.O_EXCL | os.O_RDWR, mode)
        os.write(handle, data)
        os.close(handle)

    def write(self, parts, data, offset, flags):
        handle = os.open(self.path(parts), os.O_RDWR | flags)
        try:
            return os.pwrite(handle, data, offset)
        finally:
            os.close(handle)

    def read(self, parts):
        handle = os.open(self.path(parts), os.O_RDONLY)
        try:
            return os.pread(handle, 1 << 20, 0)
        finally:
            os.close(handle)

    def keep(self, parts, slot):
        handle = os.open(self.path(parts), os.O_RDWR)
        if slot in self.handles:
            os.close(self.handles.pop(slot))
        self.handles[slot] = handle

    def through(self, slot, data, offset):
        if slot not in self.handles:
            return None
        os.pwrite(self.handles[slot], data, offset)
        return os.pread(self.handles[slot], 1 << 20, 0), os.fstat(self.handles[slot]).st_nlink

    def truncate(self, parts, size):
        os.truncate(self.path(parts), size)

    def mkdir(self, parts, mode):
        os.mkdir(self.path(parts), mode)

    def rmdir(self, parts):
        os.rmdir(self.path(parts))

    def unlink(self, parts):
        os.unlink(self.path(parts))

    def rename(self, old, new):
        os.rename(self.path(old), self.path(new))

    def link(self, old, new):
        os.link(self.path(old), self.path(new), follow_symlinks=False)

    def symlink(self, parts, target):
        os.symlink(target, self.path(parts))

    def fifo(self, parts):
        os.mkfifo(self.path(parts))

    def chmod(self, parts, mode):
        if os.path.islink(self.path(parts)):
            return None
        os.chmod(self.path(parts), mode)

    def utime(self, parts, seconds):
        os.utime(self.path(parts), (seconds, seconds + 5), follow_symlinks=False)

    def setxattr(self, parts, name, value):
        os.setxattr(self.path(parts), name, value, follow_symlinks=False)

    def removexattr(self, parts, name):
        os.removexattr(self.path(parts), name, follow_symlinks=False)

    def getxattr(self, parts, name):
        return os.getxattr(self.path(parts), name, follow_symlinks=False)

    def listing(self, parts):
        return sorted(os.listdir(self.path(parts)))

    def status(self, parts):
        status = os.lstat(self.path(parts))
        size = status.st_size if not stat.S_ISDIR(status.st_mode) else None
        links = status.st_nlink if not stat.S_ISDIR(status.st_mode) else None
        return status.st_mode, size, links, status.st_uid, status.st_gid

    def tree(self):
        """Everything that can be compared, by path."""
        found = {}
        for directory, directories, files in os.walk(self.top):
            for name in directories + files:
                path = os.path.join(directory, name)
                parts = os.path.relpath(path, self.top).split("/")
                status = os.lstat(path)
                entry = [self.status(parts)]
                if stat.S_ISREG(status.st_mode):
                    entry.append(self.read(parts))
                if stat.S_ISLNK(status.st_mode):
                    entry.append(os.readlink(path))
                else:
                    entry.append(sorted(
                        (word, os.getxattr(path, word)) for word in os.listxattr(path)
                        if word != "user.protection"))
                found["/".join(parts)] = entry
        return found

    def close(self):
        for handle in self.handles.values():
            os.close(handle)
        self.handles = {}


def choose(chance):
    """One random operation with its arguments."""
    def parts():
        return [chance.choice(NAMES) for _ in range(chance.choice([1, 1, 2, 2, 3]))]
    data = bytes([chance.randrange(256)]) * chance.choice([0, 1, 100, 3932, 4060, 5000, 20000])
    offset = chance.choice([0, 0, 1, 3931, 4000, 9000, 30000])
    attribute = chance.choice(["user.a", "user.b", "trusted.t", "user." + "x" * 150])
    return chance.choice([
        ("create", parts(), data, chance.choice([0o644, 0o600, 0o755])), ("create", parts(), data, 0o644),
        ("write", parts(), data, offset, 0), ("write", parts(), data, 0, os.O_TRUNC),
        ("write", parts(), data, 0, os.O_APPEND), ("read", parts()), ("keep", parts(), chance.randrange(3)),
        ("through", chance.randrange(3), data, offset), ("truncate", parts(), chance.choice([0, 10, 3932, 8000, 25000])),
        ("mkdir", parts(), 0o755), ("mkdir", parts(), 0o700), ("rmdir", parts()), ("unlink", parts()),
        ("rename", parts(), parts()), ("rename", parts(), parts()), ("link", parts(), parts()),
        ("symlink", parts(), "target" * chance.randrange(1, 50)), ("fifo", parts()),
        ("chmod", parts(), chance.choice([0o644, 0o444, 0o4755, 0o1777])), ("utime", parts(), chance.randrange(1 << 30)),
        ("setxattr", parts(), attribute, data[:200]), ("removexattr", parts(), attribute),
        ("getxattr", parts(), attribute), ("listing", parts()[:-1]), ("status", parts()),
    ])


def is_left_out(player, words):
    """Opening a FIFO would wait for the other end; a volume keeps no attributes of symlinks and special files."""
    try:
        if words[0] in ("read", "write", "keep", "truncate"):
            return stat.S_ISFIFO(os.stat(player.path(words[1])).st_mode)
        if words[0] in ("getxattr", "setxattr", "removexattr"):
            mode = os.lstat(player.path(words[1])).st_mode
            return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))
    except OSError:
        pass
    return False


def differences(one, other):
    """Paths whose entries differ, with the first difference of each."""
    return [(path[:80], str(one.get(path))[:200], str(other.get(path))[:200])
            for path in sorted(one.keys() | other.keys()) if one.get(path) != other.get(path)][:5]


def test_random_operations(environment):
    beside = environment.new_path("beside")
    os.makedirs(beside)
    try:
        os.setxattr(beside, "trusted.t", b"1")
        os.removexattr(beside, "trusted.t")
    except OSError as error:
        raise Skip("the file system beside the mount has no trusted attributes, or this is not root") from error
    for seed in range(1 if environment.mode == "quick" else 4):
        chance = random.Random(seed)
        mount = environment.mount()
        os.makedirs(mount / "top")
        top = os.path.join(beside, str(seed))
        os.makedirs(top)
        ours, theirs = Player(mount / "top"), Player(top)
        different = []
        for step in range(CHANGES):
            words = choose(chance)
            if is_left_out(theirs, words):
                continue
            answers = ours.play(*words), theirs.play(*words)
            if answers[0] != answers[1]:
                different.append((step, words[0], [str(word)[:60] for word in words[1:]],
                                  [str(answer)[:60] for answer in answers]))
            if len(different) > 3:
                break
        environment.cell(f"[answers, seed {seed}]", [], different)
        environment.cell(f"[tree, seed {seed}]", [], differences(theirs.tree(), ours.tree()))
        ours.close()
        theirs.close()
        mount = environment.remount(mount)
        ours = Player(mount / "top")
        environment.cell(f"[tree mounted again, seed {seed}]", [], differences(theirs.tree(), ours.tree()))
        shutil.rmtree(mount / "top")
        environment.cell(f"[empty, seed {seed}]", [], os.listdir(mount.path))
        below = [name for name in os.listdir(mount.volume.path) if not name.startswith(".protectfs.")]
        environment.cell(f"[empty below, seed {seed}]", [], below)


