"""The operations of a sequence: what programs, mounts and checks do with the file."""

from . import pages as p
from .mending import Mending
from .world import MISSING, PENDING, REPAIR_ALL, REPAIR_NONE, Broken
from .rules import wrong

# Operations that change the file, so that recovery comes first.
MODIFYING = ("write", "append", "truncate", "punch", "zero", "reserve", "class", "full")


def name(operation):
    """An operation as text."""
    kind, *rest = operation
    texts = {
        "write": "write %d at %d", "append": "append %d", "truncate": "truncate to %d", "punch": "punch %d to %d",
        "zero": "zero %d to %d", "reserve": "reserve to %d", "full": "write %d %s, no space at its write %d",
    }
    if kind == "write":
        return texts[kind] % (rest[1], rest[0])
    if kind == "full":
        place = "at the end" if rest[0] < 0 else "at %d" % rest[0]
        return texts[kind] % (rest[1], place, rest[2]) + (", nor for undoing it" if rest[3] else "")
    if kind == "class":
        return "class strong" if rest[0] else "class weak"
    return texts.get(kind, kind) % tuple(rest)


def result(operation, content, value):
    """The content after an operation, or None if the file would be too long. New bytes have the number `value`."""
    kind, *rest = operation
    if kind == "append":
        kind, rest = "write", [len(content), rest[0]]
    elif kind == "full":
        # Only growth can find no space.
        if 0 <= rest[0] < len(content):
            return None
        kind, rest = "write", [max(rest[0], len(content)), rest[1]]
    new = list(content)
    end = {"write": lambda: rest[0] + rest[1], "truncate": lambda: rest[0],
           "zero": lambda: rest[1], "reserve": lambda: rest[0]}.get(kind, lambda: len(new))()
    if end > p.MAX_SIZE:
        return None
    new += [0] * (end - len(new))
    if kind == "write":
        new[rest[0]:end] = [value] * rest[1]
    elif kind == "truncate":
        del new[rest[0]:]
    elif kind in ("punch", "zero"):
        for place in range(rest[0], min(rest[1], len(new))):
            new[place] = 0
    return tuple(new)


class Session(Mending):
    """One state on which one operation is carried out."""

    # The promise.

    def promise(self, content):
        """From now on a crash may leave this content, or a mixture with those before."""
        self.versions = tuple(
            versions | {p.page_of(content, index)} for index, versions in enumerate(self.versions))
        low, high = sorted((len(self.expected), len(content)))
        between = range(low + 1, high)
        self.sizes = self.sizes | {len(content)} | {size for size in between if size % p.CAPACITY == 0}

    def promise_only(self, content):
        """This content is durable."""
        self.versions = tuple(frozenset([p.page_of(content, index)]) for index in range(p.MAX_PAGES))
        self.sizes = frozenset([len(content)])
        self.tags = frozenset([self.tag]) if self.page_zero != MISSING else frozenset([p.WEAK, p.STRONG])
        self.must_exist = True

    def objection(self, found):
        """What is wrong with a `Reading`; None if every promise is kept."""
        content = found.content
        if len(content) not in self.sizes:
            return "size %d, of %s" % (len(content), sorted(self.sizes))
        for index in range(p.last_block(len(content)) + 1 if content else 0):
            part = content[index * p.CAPACITY:(index + 1) * p.CAPACITY]
            if not any(version[:len(part)] == part for version in self.versions[index]):
                return "page %d reads %s, of %s" % (index, part, sorted(self.versions[index]))
        if not found.missing and found.tag not in self.tags:
            return "class %s" % ("strong" if found.tag else "weak")
        return None

    # Operations.

    def perform(self, operation, waits):
        """Carries it out. False if it does not apply."""
        kind, *rest = operation
        if kind in MODIFYING:
            return self._modify(operation, kind, rest, waits)
        if kind in ("mend", "mend by holes"):
            if self.waits_from < 0 or self.repair != REPAIR_NONE:
                return False
            self.mend_some(by_holes=kind == "mend by holes")
        elif kind == "fsync":
            self.synchronize()
            if self.repair != REPAIR_ALL or self.page_zero == MISSING:
                self.promise_only(self.expected)
        elif kind in ("reopen", "reopen without space"):
            has_space = kind == "reopen"
            if not has_space and not self.has_no_header():
                return False
            self.flush_header(may_fail=not has_space)
            self.recover()
        elif kind == "check":
            self.mend_all()
            self.promise_only(self.expected)
            self._close((p.CLOSED, p.CLOSED, p.OWN))
            self.any_bad = self.everything = False
        else:
            raise ValueError(kind)
        return True

    def _modify(self, operation, kind, rest, waits):
        new = result(operation, self.expected, self.fresh_value())
        if new is None or (kind == "truncate" and len(new) == len(self.expected)):
            return False
        if kind == "class" and rest[0] == self.tag and self.page_zero != MISSING:
            return False
        self.prepare(waits)
        if kind == "class":
            self.tags = self.tags | {rest[0]}
            self.change_class(rest[0])
            if rest[0] == p.STRONG:
                self.tags = frozenset(rest)
            return True
        self.promise(new)
        old = len(self.expected)
        if kind == "write":
            self.put(rest[0], new[rest[0]:rest[0] + rest[1]], len(new))
        elif kind == "append":
            self.put(old, new[old:], len(new))
        elif kind == "full":
            start = max(old, rest[0])
            self.put(start, new[start:], len(new), full_at=rest[2], undo_fails=rest[3])
            if self.size == old:
                new = self.expected
        else:
            getattr(self, kind)(*rest)
        self.expected = new
        return True

    def _close(self, change):
        """Epochs leave the state file."""
        self.store.current = p.with_epochs(self.store.current, change)
        self.store.maybe = {(p.with_epochs(image, change), lost) for image, lost in self.store.maybe}

    def has_no_header(self):
        """Page 0 waits, and the store has no space for it yet."""
        return self.page_zero == PENDING and p.page_at(self.store.current, 0) == p.ZERO

    def unmount(self, has_space=True):
        """A clean unmount. Without space, a header that waits cannot be written."""
        self.flush_header(may_fail=not has_space)
        if not wrong("epochs are closed before the sync"):
            self.sync()
        if self.repair != REPAIR_ALL or self.page_zero == MISSING:
            self.promise_only(self.expected)
            if self.page_zero == PENDING:
                self.tags = frozenset([p.WEAK, p.STRONG])
        if self.kept_open:
            self._close((p.CLOSED, p.BAD, p.BAD))
            self.any_bad = True
        elif wrong("an unmount closes all epochs"):
            self._close((p.CLOSED, p.CLOSED, p.CLOSED))
            self.any_bad = False
        else:
            self._close((p.CLOSED, p.BAD, p.CLOSED))
        self.listed = self.kept_open = self.seen = False

    def finish(self):
        """After an operation: the living mount reads what programs expect."""
        if self.page_zero != 0:
            return
        found = self.reading()
        if self.repair == REPAIR_ALL:
            objection = self.objection(found)
        else:
            objection = None if found.content == self.expected else "reads %s, expected %s" % (
                found.content, self.expected)
        if objection:
            raise Broken("in the living mount: " + objection)
