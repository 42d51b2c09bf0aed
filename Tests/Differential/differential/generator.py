"""Chooses random steps: a seed gives the same steps each time."""

import fcntl
import os
import random
import stat

from .tree import Step

ODD_NAMES = (
    b"with space", "ü".encode() * 20, b"\xff\xfe\x80", b"-", b"...", b"..x", b"\x01\n\t\\", b"*?[", b".hidden", b"CON", b"a~",
    b".a.swp", b"#a#", b"a.tmp", b"n" * 143, b"n" * 144, b"n" * 175, b"n" * 176, b"n" * 254, b"l" * 255, b".protectfs",
    "e\u0301".encode(), "\u00e9".encode(), b"%00", b"a:b", b"e.", b"\xe2\x80\xae")
BAD_PATHS = (b"", b".", b"l" * 256, b"a/", b"a/.", b"d/", b"d/.", b"none/a", b"a/b", b"./a", b"d//a",
             b"./" * 2040 + b"a", b"./" * 2047 + b"a", b"./" * 2048 + b"a", b"d/" * 2047 + b"a")
EDGES = (0, 1, 2, 511, 512, 3931, 3932, 3933, 4060, 4095, 4096, 4097, 7992, 8191, 8192, 12288, 20000, 65536, 131072, 262144,
         1048576)
FAR = ((1 << 31) - 1, 1 << 32, (1 << 40) - 1, 1 << 40, 3 << 40, 5 << 40, -1)  # below ext4's largest offset
TIMES = ("now", "now", "omit", 0, 1, 10 ** 9, 10 ** 18 + 123456789, -1, -10 ** 18, (1 << 31) * 10 ** 9, (1 << 32) * 10 ** 9)
MODES = (0o644, 0o600, 0o666, 0o777, 0o755, 0o700, 0o444, 0o000, 0o4755, 0o2755, 0o2770, 0o6711, 0o1777, 0o2644)
ATTRIBUTES = (b"user.a", b"user.b", b"user.a b", b"user." + b"x" * 100, b"user.\xff", b"trusted.t", b"security.s", b"user.mime_type")
ODD_ATTRIBUTES = (b"user.", b"user", b"", b"other.a", b"system.a", b"system.posix_acl_access", b"system.posix_acl_default",
                  b"security.capability", b"user." + b"x" * 250, b"user." + b"x" * 251, b"trusted.overlay.x", b"user.protection.x")
ACL_NAMES = (b"system.posix_acl_access", b"system.posix_acl_default")
USERS = (0, 20001, 20002)
GROUPS = (0, 20001, 20002, 20010, 20011)
SPECIAL = (stat.S_IFREG, stat.S_IFIFO, stat.S_IFSOCK, stat.S_IFCHR, stat.S_IFBLK, 0)
DIRECT = os.O_DIRECT
SLOTS = 4


class Generator:
    """Draws steps. What it believes to exist only makes hits likely; each step may be played in any state.

    With a prefix, all names are the generator's own below directories that nobody changes: others may work beside it.
    """

    def __init__(self, seed, users=True, letter="C", prefix=b"", shared=()):
        self.letter = letter
        self.chance = random.Random(seed)
        self.actors = (0, 0, 0, 1, 1, 2) if users else (0,)
        self.prefix, self.shared = prefix, shared
        self.names = [b"a", b"b", b"c", b"d", b"e"] + self.chance.sample(ODD_NAMES, 2)
        self.directories, self.files = [b""], []
        # Sequences differ in their accent, so that each has depth somewhere.
        self.operations = SHARED if prefix else OPERATIONS
        self.weights = [weight * self.chance.choice((0.2, 1, 1, 3)) for _, weight in self.operations]

    def steps(self, count):
        made = [self.step("make_directory", b"d", 0o777), self.step("make_directory", b"e", 0o2777)] if not self.prefix else []
        self.directories += [b"d", b"e"] if not self.prefix else list(self.shared)
        while len(made) < count:
            choose = self.chance.choices(self.operations, self.weights)[0][0]
            step = choose(self)
            if not (self.prefix and step.name in LONELY):
                made.append(step)
        return self.with_locks(made) if not self.prefix else made

    def with_locks(self, steps):
        """Puts in what happens to the mount: it is locked and unlocked, or unmounted and mounted."""
        places = sorted(self.chance.sample(range(len(steps)), 2 * self.one((1, 2))))
        if self.letter == "B":
            names = ["lock", "unlock"] * (len(places) // 2)
        else:
            names = self.one(([], [], [], ["relock"], ["relock", "relock"]))
        if self.often(0.1):
            names = names[:-1] + ["remount"]
        for place, name in reversed(list(zip(places, names))):
            steps.insert(place, self.step(name))
        return steps

    def step(self, name, *arguments, actor=0):
        return Step(actor, name, arguments)

    def any(self, name, *arguments):
        """A step of some actor."""
        return Step(self.chance.choice(self.actors), name, arguments)

    # What arguments are drawn from.

    def one(self, values):
        return self.chance.choice(values)

    def often(self, part):
        return self.chance.random() < part

    def slot(self):
        """Where a file is open; the last slot is for direct I/O, which needs aligned calls."""
        return self.chance.randrange(SLOTS)

    def direct_slot(self):
        return SLOTS if self.often(0.6) else self.slot()

    def new(self):
        """A path for something that is to be made."""
        if not self.prefix and self.often(0.03):
            return self.one(BAD_PATHS)
        parent = self.one(self.directories[-8:])
        name = self.prefix + self.one(self.names[:5] if self.often(0.8) else self.names)
        return parent + b"/" + name if parent else name

    def remember(self, path, is_directory=False):
        (self.directories if is_directory else self.files).append(path)
        return path

    def path(self, directory=0.15):
        """A path of something that is there, perhaps."""
        if self.often(0.12) or not self.files:
            return self.new()
        if self.often(directory) and not self.prefix:
            return self.one(self.directories) or b"."
        return self.one(self.files[-12:])

    def directory(self):
        return self.one(self.directories) or b"."

    def offset(self):
        if self.often(0.03):
            return self.one(FAR)
        return self.one(EDGES) + (self.chance.randrange(-3, 4) if self.often(0.2) else 0)

    def length(self):
        return self.one((0, 1, 3, 100, 1000, 4096, 5000, 8192)) if self.often(0.8) else self.one((3932, 4060, 65536, 200000, 1 << 20))

    def aligned(self):
        return self.chance.randrange(0, 40) * 4096 if self.often(0.9) else self.chance.randrange(0, 1 << 28) * 4096

    def seed(self):
        return 0 if self.often(0.15) else self.chance.randrange(1, 1000)

    # Steps of several arguments.

    def opened(self):
        flags = self.one((os.O_RDWR, os.O_RDWR, os.O_RDWR, os.O_RDONLY, os.O_WRONLY))
        for flag, part in ((os.O_CREAT, 0.5), (os.O_EXCL, 0.08), (os.O_TRUNC, 0.12), (os.O_APPEND, 0.15),
                           (os.O_NOFOLLOW, 0.05), (os.O_DIRECTORY, 0.03), (os.O_PATH, 0.02), (os.O_SYNC, 0.04),
                           (os.O_NOATIME, 0.03)):
            flags |= flag if self.often(part) else 0
        # For opening a directory O_CREAT is EISDIR or EINVAL by version of the kernel, the same on both sides.
        path = self.remember(self.new()) if flags & os.O_CREAT else self.path(0.08)
        if self.often(0.2):
            return self.any("open_file", SLOTS, path, flags | DIRECT, self.one(MODES))
        return self.any("open_file", self.slot(), path, flags, self.one(MODES))

    def unnamed(self):
        return self.any("open_file", self.slot(), self.directory(), os.O_TMPFILE | os.O_RDWR | (os.O_EXCL if self.often(0.2) else 0), 0o644)

    def opened_directory(self):
        return self.any("open_file", self.slot(), self.directory(), os.O_RDONLY | os.O_DIRECTORY, 0)

    def asynchronous(self):
        at = self.aligned() % (1 << 28)
        requests = []
        for _ in range(self.chance.randrange(1, 6)):
            length = 4096 * self.one((1, 1, 2, 5, 16))
            requests.append((at, self.seed(), length))
            at += length + 4096 * self.one((0, 0, 1, 3))
        return self.any("asynchronous", self.direct_slot(), self.often(0.6), tuple(requests))

    def allocated(self):
        mode = self.one((0, 0, 1, 3, 3, 16, 17, 8, 32, 2, 64))
        length = self.one((0, 1, 4096, 8192, 10000, 65536, 1 << 20)) if mode != 3 else self.one((1, 4096, 10000, 1 << 20, 1 << 40))
        return self.any("allocate", self.slot(), mode, self.offset(), length)

    def acl(self):
        permission = lambda: self.chance.randrange(8)
        named = [(2, permission(), user) for user in (20001, 20002) if self.often(0.5)]
        groups = [(8, permission(), group) for group in (20010, 20011) if self.often(0.4)]
        mask = [(16, permission(), 0xffffffff)] if (named or groups) != self.often(0.05) else []
        entries = [(1, permission(), 0xffffffff), *named, (4, permission(), 0xffffffff), *groups, *mask,
                   (32, permission(), 0xffffffff)]
        which = self.one(ACL_NAMES)
        path = self.directory() if which == ACL_NAMES[1] and self.often(0.9) and not self.prefix else self.path()
        return self.any("set_acl", path, which, tuple(entries))

    def attribute(self):
        return self.one(ATTRIBUTES if self.often(0.93) else ODD_ATTRIBUTES)

    def attribute_set(self):
        value = self.one((b"", b"v", b"value", b"x" * 100, bytes(range(256)), b"y" * 1000))
        return self.any("set_attribute", self.path(), self.attribute(), value, self.one((0, 0, 0, 1, 2)), self.often(0.5))

    def owner(self):
        """A user, a group or both."""
        return self.one(((self.one(USERS), -1), (-1, self.one(GROUPS)), (self.one(USERS), self.one(GROUPS))))

    def node(self):
        kind = self.one(SPECIAL)
        device = self.one((0, os.makedev(1, 3), os.makedev(1, 5), os.makedev(200, 70000))) if kind in SPECIAL[3:5] else 0
        return self.any("make_node", self.remember(self.new()), kind | self.one(MODES), device)

    def renamed(self):
        old, new = self.path(), self.path() if self.often(0.5) else self.new()
        flags = self.one((0, 0, 0, 0, 1, 2, 2, 4, 3, 5, 8))
        self.remember(new)
        return self.any("rename", old, new, flags)

    def linked_target(self):
        if self.often(0.1):
            return self.one((b"x" * 1000, b"x" * 3000, b"x" * 3031, b"x" * 3032, b"x" * 4094, b"x" * 4095, b"x" * 4096, b"", b"none/none",
                             b"\xff"))
        if self.prefix:
            return self.prefix + self.one((b"a", b"b", b"none"))
        return self.one((b"a", b"b", b"d/a", b"d", b"e", b".", b"none", b"./a"))

    def changing(self):
        made = tuple(b"new%d" % number for number in range(self.chance.randrange(0, 20)))
        removed = tuple(b"%d" % self.chance.randrange(1, 60) for _ in range(self.chance.randrange(0, 20)))
        return self.step("names_while_changing", self.directory(), self.one((280, 400, 1000, 32768)), made, removed)

    def locked_range(self):
        command = self.one((37, 37, 36, 6, 5))
        kind = self.one((fcntl.F_RDLCK, fcntl.F_WRLCK) if command in (36, 5) else (fcntl.F_RDLCK, fcntl.F_WRLCK, fcntl.F_UNLCK))
        return self.any("lock_range", self.slot(), kind, self.one((0, 0, 10, 100)), self.one((0, 1, 10, 50)), command)


def table():
    """(function that draws a step, weight) of every operation."""
    g = Generator
    simple = lambda name, *makers: lambda self: self.any(name, *(make(self) for make in makers))
    always = lambda value: lambda self: value
    some = lambda *values: lambda self: self.one(values)
    made_directory = lambda self: self.any("make_directory", self.remember(self.new(), True) if not self.prefix else self.new(),
                                           self.one(MODES))
    fresh = lambda self: self.remember(self.new())
    coin = lambda self: self.often(0.5)
    size = lambda self: max(self.offset(), -1)
    mapping = lambda self: self.chance.randrange(2)
    near = lambda self: self.one((0, 1, 100, 4090, 4096, 8192, 60000))
    small = lambda self: self.one((1, 10, 100, 4096, 5000, 20000))
    return (
        (g.opened, 30), (g.unnamed, 1), (g.opened_directory, 2), (simple("reopen", g.slot, g.slot, some(0, 1, 2)), 2),
        (simple("reopen", always(SLOTS), g.slot, some(DIRECT, 2 | DIRECT)), 2),
        (simple("close", g.slot), 5), (simple("write", g.slot, g.offset, g.seed, g.length, some(0, 0, 0, 0, 16, 2, 4)), 22),
        (simple("read", g.slot, g.offset, g.length), 14), (simple("write_on", g.slot, g.seed, g.length), 6),
        (simple("read_on", g.slot, g.length), 4), (simple("write_aligned", g.direct_slot, g.aligned, g.seed, some(4096, 8192, 65536)), 6),
        (simple("read_aligned", g.direct_slot, g.aligned, some(4096, 8192, 65536)), 5), (g.asynchronous, 4),
        (simple("seek", g.slot, g.offset, some(0, 0, 1, 2)), 3), (simple("seek_data", g.slot, g.offset, some(3, 4)), 3),
        (simple("set_flags", g.slot, some(0, os.O_APPEND, os.O_NOATIME)), 2), (simple("set_flags", always(SLOTS), some(DIRECT, os.O_APPEND | DIRECT)), 1),
       
        (simple("sync", g.slot), 2), (simple("sync_data", g.slot), 1), (simple("forget_pages", g.slot), 3),
        (simple("truncate", g.path, size), 6), (simple("truncate_open", g.slot, size), 8), (g.allocated, 8),
        (simple("copy_range", g.slot, g.offset, g.slot, g.offset, g.length), 5),
        (simple("send_file", g.slot, g.slot, g.offset, g.length), 2), (simple("clone", g.slot, g.slot), 1),
        (simple("map_file", mapping, g.slot, some(0, 0, 4096, 65536), some(1, 4096, 5000, 65536, 1 << 20), coin, coin), 4),
        (simple("map_put", mapping, near, g.seed, small), 8), (simple("map_get", mapping, near, small), 6),
        (simple("map_sync", mapping), 1), (simple("unmap", mapping), 1),
        (simple("lock_file", g.slot, some(fcntl.LOCK_SH, fcntl.LOCK_EX, fcntl.LOCK_UN)), 3), (g.locked_range, 4),
        (simple("lock_seen", g.path, always(0), always(0)), 0.2), (simple("lease", g.slot, some(0, 1, 2)), 0.3),
        (made_directory, 7), (simple("remove_directory", g.path), 2), (simple("unlink", g.path), 8), (g.renamed, 12),
        (simple("link", g.path, fresh, coin), 6), (simple("link_open", g.slot, fresh, coin), 1.5),
        (simple("make_link", g.linked_target, fresh), 5), (simple("read_link", g.path), 2), (g.node, 4),
        (simple("names", g.directory, lambda self: self.prefix), 3), (simple("names_open", g.slot), 1), (simple("types", g.directory), 0.5),
        (simple("seek_in_names", g.directory, some(280, 400, 32768)), 0.5), (g.changing, 0.5),
        (lambda self: self.step("many", self.directory(), self.prefix, 100_000 if not self.often(0.997) else self.one((10, 60, 200))), 0.2),
        (simple("status", g.path, coin), 16), (simple("status_open", g.slot), 10), (simple("is_same", g.path, g.path), 1),
        (simple("may", g.path, some(1, 2, 4, 7)), 3), (simple("limits", g.path), 0.3),
        (simple("change_mode", g.path, some(*MODES)), 6), (simple("change_mode_open", g.slot, some(*MODES)), 2),
        (lambda self: self.any("change_owner", self.path(), *self.owner(), self.often(0.5)), 5),
        (lambda self: self.any("change_owner_open", self.slot(), *self.owner()), 2),
        (simple("set_times", g.path, some(*TIMES), some(*TIMES), coin), 5),
        (simple("set_times_open", g.slot, some(*TIMES), some(*TIMES)), 3), (simple("set_umask", some(0, 0o22, 0o77, 0o27, 0o777)), 1),
        (g.attribute_set, 7), (simple("set_attribute_open", g.slot, g.attribute, some(b"", b"open", b"z" * 500), some(0, 0, 1, 2)), 2),
        (simple("get_attribute", g.path, g.attribute, coin), 3), (simple("attributes", g.path, coin), 3),
        (simple("remove_attribute", g.path, g.attribute, coin), 3), (g.acl, 5),
        (simple("get_flags", g.slot), 0.2), (simple("add_flags", g.slot, some(0, 16, 32, 64, 128)), 0.2),
        (lambda self: self.step("tick"), 2),
    )


def shared_table():
    """The same for processes that share directories: without what depends on the others' names."""
    everything = table()
    lonely = (Generator.changing, Generator.opened_directory)
    record = lambda self: self.step("append_record", b"records", self.prefix + b"%d" % self.chance.randrange(1 << 60))
    return tuple((draw, weight) for draw, weight in everything if draw not in lonely) + ((record, 10),)


LONELY = ("names_open", "types", "seek_in_names")
OPERATIONS = table()
SHARED = shared_table()
