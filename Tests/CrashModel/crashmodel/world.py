"""The state of the model: a store, a state file, a mount with one open file, and what was promised of it."""

from . import pages as p
from .reader import Epochs, Refused, epochs, read
from .rules import wrong
from .store import Store

# Page 0 of the open file: on disk, waiting since the file was made, or never written by a mount that crashed.
WRITTEN, PENDING, MISSING = 0, 1, 2
# What must come before the first modification.
REPAIR_NONE, REPAIR_END, REPAIR_ALL = 0, 1, 2


class Broken(Exception):
    """A promise is broken, or the writer meets an error that it must not meet."""


# The fields of a state, in the order of its tuple. `maybe` is made a frozenset; the rest are integers and tuples.
FIELDS = (
    # The state file: epochs that ended badly are listed; TOLERATE_ALL; the mount's own epoch is listed.
    "any_bad", "everything", "listed",
    # The mount: it keeps its epoch open; its record of a file whose middle waits (the next block, or -1).
    "kept_open", "log",
    # The open file.
    "size", "flags", "tag", "key", "page_zero", "marked", "grew", "holes_may_be_lost", "repair", "tolerant", "waits_from",
    "waits_end", "expected",
    # The table of seen versions knows that the file has the mount's own epoch (4.3).
    "seen",
    # The promise: versions of each page, sizes, classes, and keys that a weaker class has wrapped.
    "versions", "sizes", "tags", "weak_keys", "must_exist",
)


class World:
    """A state that an operation changes."""

    def __init__(self, state, ordered, watch):
        current, maybe, fields = state
        self.__dict__.update(zip(FIELDS, fields))
        self.watch = watch
        self.store = Store(current, set(maybe), ordered, self._step)

    def _step(self, name, fresh):
        self.watch(self, name, fresh)

    def state(self):
        """The state as a value."""
        return (self.store.current, frozenset(self.store.maybe),
                tuple([int(value) if isinstance(value, bool) else value
                       for value in (getattr(self, name) for name in FIELDS)]))

    # Epochs.

    def begin_epoch(self):
        """Enters the mount's epoch into the state file, before anything is encrypted under it."""
        if not self.listed and not wrong("the epoch is not listed"):
            self.listed = True

    def list_a_bad_epoch(self):
        """A waiting middle needs a listed epoch that ended badly; without one, a new one is listed and never removed."""
        self.any_bad = True

    def end_badly(self):
        """The end of the file could not be restored: the mount's epoch has ended badly, and it draws another one."""
        if not wrong("an end that failed is forgotten"):
            change = (p.CLOSED, p.BAD, p.BAD)
            self.store.current = p.with_epochs(self.store.current, change)
            self.store.maybe = {(p.with_epochs(image, change), lost) for image, lost in self.store.maybe}
            self.any_bad = True
            self.listed = False
            self.repair, self.tolerant, self.log = REPAIR_ALL, True, -1
            self.seen = False

    def living(self):
        """What this mount tolerates itself."""
        own = self.kept_open and not wrong("the mount forgets that its epoch stays open")
        return epochs(self.any_bad or own, self.everything)

    def bad_after_a_crash(self):
        """What the next mount tolerates, and what the epochs of today are then."""
        own = p.BAD if self.listed else p.CLOSED
        return bool(self.any_bad or self.listed), (p.CLOSED, p.BAD, own)

    # Pages.

    def page_zero_is_ours(self):
        """Page 0 has an epoch of this mount or, while the middle waits, one that ended badly."""
        first = p.page_at(self.store.current, 0)
        return self.page_zero != WRITTEN or self.waits_from >= 0 or first[p.EPOCH] == p.OWN

    def old(self, index, tolerating=False):
        """The payload of a page of the open file, judged as a read of it judges it."""
        page = p.page_at(self.store.current, index)
        last = p.last_block(self.size)
        tolerating = tolerating or self.tolerant
        if page == p.ZERO:
            if not tolerating and not (self.flags & p.HOLES and 0 < index < last):
                raise Broken("the writer refuses page %d: zeros" % index)
            return (0,) * p.CAPACITY
        if page == p.DAMAGED or page[p.KEY] != self.key:
            raise Broken("the writer refuses page %d: it does not verify" % index)
        length = min(p.CAPACITY, self.size - index * p.CAPACITY)
        if not tolerating and (bool(page[p.LAST]) != (index == last) or len(page[p.PAYLOAD]) != length):
            raise Broken("the writer refuses page %d: LAST or length" % index)
        return page[p.PAYLOAD]

    def sealed(self, index, payload, size, whole=False):
        """A block of a file of `size` bytes."""
        self.begin_epoch()
        epoch = p.OWN
        if index == 0 and self.waits_from >= 0 and not wrong("page 0 of a waiting file has the mount's epoch"):
            epoch = p.BAD
        if index == 0 and self.tag == p.WEAK:
            self.weak_keys = self.weak_keys | {self.key}
        if index == 0 and self.tag == p.STRONG and self.key in self.weak_keys and not self.flags & p.EXPOSED:
            raise Broken("a weaker class has wrapped the key, and the header does not say KEY_EXPOSED")
        is_last = not whole and index == p.last_block(size)
        block = (epoch, int(is_last), tuple(payload), self.key)
        return block + (self.flags, self.tag) if index == 0 else block

    def write(self, index, page):
        """One page of the file."""
        self.store.write(index, page)
        if wrong("the table knows what is not durable"):
            self.note_version()

    def sync(self):
        """Syncs the file, and remembers what that has made durable."""
        self.store.sync()
        self.note_version()
        self.grew = False
        if self.page_zero == WRITTEN:
            self.holes_may_be_lost = False
            if self.page_zero_is_ours():
                self.marked = True

    # The table of seen versions.

    def note_version(self):
        """The table learns the version of the file: that of this mount is the highest one."""
        self.seen = self.seen or p.OWN in p.end_epochs(self.store.current)

    def is_older(self, image):
        """Whether a file that a crash has left is taken for an older one: no end has an epoch that ended badly."""
        ends = p.end_epochs(image)
        return bool(self.seen and ends) and all(epoch == p.CLOSED for epoch in ends)

    # Reading by the living mount.

    def reading(self):
        """What this mount reads if it opens the file again now."""
        found = read(self.store.current, self.living())
        if isinstance(found, str):
            raise Broken("the living mount refuses the file: " + found)
        return found

    # Numbers that nothing in the store has.

    def fresh_value(self):
        """A byte that no page has."""
        used = set()
        for image, _ in self.store.maybe:
            used |= p.numbers_of(image)[0]
        used |= p.numbers_of(self.store.current)[0]
        return next(value for value in range(1, 1000) if value not in used)

    def fresh_key(self):
        """A key that no page has."""
        used = set(self.weak_keys)
        for image, _ in self.store.maybe:
            used |= p.numbers_of(image)[1]
        used |= p.numbers_of(self.store.current)[1]
        return next(key for key in range(1000) if key not in used)
