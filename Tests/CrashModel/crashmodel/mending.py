"""Recovery: R0's new header and R5's mending of the ends and of the middle, at once or later."""

from . import pages as p
from .rules import wrong
from .world import MISSING, PENDING, REPAIR_ALL, REPAIR_END, REPAIR_NONE, WRITTEN
from .writer import Writer


class Mending(Writer):
    """What comes before the first modification after a crash, and what may wait."""

    def prepare(self, waits):
        """Before each modification. With `waits`, the middle is mended later."""
        if self.page_zero == MISSING:
            self.start_anew()
        elif self.repair == REPAIR_END:
            if not wrong("a wrong length is not mended"):
                self.cut(self.size)
                if not wrong("a mended length is not synced"):
                    self.sync()
            self.repair = REPAIR_NONE
        elif self.repair == REPAIR_ALL:
            self.mend_ends(waits)

    def start_anew(self):
        """R0: the header was never written."""
        self.begin_epoch()
        if not wrong("R0 keeps the old pages"):
            self.store.resize(0)
            if not wrong("R0 does not sync"):
                self.store.sync()
        self.store.resize(p.UNIT)
        self.page_zero = PENDING
        self.marked = True

    def mend_ends(self, waits):
        """R5: the length, page 0 and the last page; the middle before that, unless it waits."""
        last = p.last_block(self.size)
        if waits and last > 1 and not wrong("the middle is never mended"):
            self.list_a_bad_epoch()
            self.waits_from, self.waits_end = 1, last
        else:
            self.waits_from = -1
            for index in range(1, last):
                if not wrong("the middle is never mended") and not wrong("the middle after the ends"):
                    self.mend_block(index)
        length = p.backing_length(self.size)
        if self.store.current[0] // p.UNIT > last + 1:
            self.cut(self.size)
        elif self.store.current[0] != length:
            self.store.resize(length)
        if not wrong("the ends are not rewritten"):
            if last > 0:
                self.rewrite_page(0, self.size, tolerating=True)
            self.rewrite_page(last, self.size, tolerating=True)
        if not wrong("the mended ends are not synced"):
            self.sync()
        elif self.page_zero_is_ours():
            self.marked = True
        self.repair = REPAIR_NONE
        if wrong("the middle after the ends") and self.waits_from < 0:
            for index in range(1, last):
                self.mend_block(index)
        self.tolerant = self.waits_from >= 0
        if self.tolerant:
            self.log = 1

    def mend_block(self, index, seal_holes=False):
        """Rewrites a block of the middle whose stored form differs from what it reads as."""
        page = p.page_at(self.store.current, index)
        if page == p.ZERO:
            if self.flags & p.HOLES and not seal_holes:
                return
        elif page == p.DAMAGED or not page[p.LAST]:
            return
        payload = p.padded(self.old(index, tolerating=True))
        self.write(index, self.sealed(index, payload, self.size, whole=True))

    # The middle, later.

    def mend_some(self, by_holes=False):
        """One step: one block, or the end of it all. With `by_holes` the file gets HOLES first."""
        if by_holes:
            if not self.flags & p.HOLES:
                self.rewrite_header(flags=self.flags | p.HOLES)
            return
        end = min(self.waits_end, p.last_block(self.size))
        if self.waits_from < end:
            self.mend_block(self.waits_from)
            self.waits_from += 1
            self.log = self.waits_from
            return
        if not wrong("no sync before a mended middle's page 0"):
            self.sync()
        self.waits_from = -1
        self.rewrite_header()
        self.tolerant = False
        self.log = -1

    def mend_all(self):
        """What a complete check does with a file."""
        if wrong("a check does not mend the middle"):
            self.prepare(waits=True)
        else:
            self.prepare(waits=False)
            while self.waits_from >= 0:
                self.mend_some()
        self.flush_header()
        if not wrong("a check does not sync"):
            self.sync()

    def recover(self):
        """What the opening of a written file finds (R0 to R3)."""
        found = self.reading()
        self.size = len(found.content)
        self.expected = found.content
        self.waits_from = self.waits_end = -1
        self.grew = True
        if found.missing:
            self.page_zero, self.flags, self.tag, self.marked = MISSING, 0, p.WEAK, False
            self.key = self.fresh_key()
            self.repair, self.tolerant, self.holes_may_be_lost = REPAIR_NONE, False, False
            return
        self.page_zero, self.flags, self.tag, self.key = WRITTEN, found.flags, found.tag, found.key
        self.marked = False
        first = p.page_at(self.store.current, 0)
        self.holes_may_be_lost = first[p.EPOCH] == p.OWN and bool(self.flags & p.HOLES)
        self.tolerant = found.tolerant
        ends = [name for name in found.departures if name not in ("zero page", "LAST in the middle")]
        needs_all = found.tolerant or "dropped pages" in ends
        self.repair = REPAIR_ALL if needs_all else REPAIR_END if ends else REPAIR_NONE
        if needs_all and not ends and self.log >= 0 and first[p.EPOCH] == p.BAD and self.any_bad:
            # This mount has mended the ends already.
            self.waits_from, self.waits_end = self.log, p.last_block(self.size)
            self.repair, self.marked = REPAIR_NONE, True
            self.holes_may_be_lost = bool(self.flags & p.HOLES)
