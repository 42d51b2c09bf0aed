"""The writer: the table of write orders in section 6.3, step for step."""

from . import pages as p
from .rules import wrong
from .world import PENDING, WRITTEN, World


class NoSpace(Exception):
    """The store took the changes before this write, and not this one."""


class Writer(World):
    """The operations of a program on one open file."""

    def cut(self, size):
        """Two calls, so that no bytes of a dropped page stay behind the end."""
        length = p.backing_length(size)
        count, tail = divmod(length, p.UNIT)
        if not wrong("a cut in one call"):
            self.store.resize(count * p.UNIT)
        if tail or wrong("a cut in one call"):
            self.store.resize(length)
        if not self.store.ordered and not wrong("no sync after a cut on a store without order"):
            self.store.sync()

    def rewrite_header(self, flags=None, tag=None, key=None, may_fail=False):
        """Page 0 with another header; a page 0 that waits is written now."""
        old = self.old(0) if self.page_zero == WRITTEN else ()
        if may_fail:
            raise NoSpace
        flags = self.flags if flags is None else flags
        if flags & p.HOLES and (not self.flags & p.HOLES or self.page_zero != WRITTEN):
            self.holes_may_be_lost = True
        self.flags = flags
        self.tag = self.tag if tag is None else tag
        self.key = self.key if key is None else key
        self.write(0, self.sealed(0, old, self.size))
        self.page_zero = WRITTEN

    def flush_header(self, may_fail=False):
        """Writes the page 0 of a new file, if it waits."""
        if self.page_zero == PENDING:
            try:
                self.rewrite_header(may_fail=may_fail)
            except NoSpace:
                if not wrong("a header without space is forgotten"):
                    self.kept_open = True

    def mark(self):
        """Makes a page 0 with an epoch of this mount durable."""
        if self.marked or wrong("nothing is marked"):
            return
        if not self.page_zero_is_ours():
            self.rewrite_header()
        if not wrong("a mark is not synced"):
            self.sync()

    # Write, append, extend.

    def put(self, offset, data, new_size, full_at=None, undo_fails=False):
        """Writes `data` at `offset` into a file that then has `new_size` bytes. The write of page number `full_at` of
        this operation finds no space."""
        end = offset + len(data)
        first = p.last_block(offset + 1)
        final = p.last_block(max(end, offset + 1))
        if not data:
            first = final = p.last_block(new_size)
        last = p.last_block(self.size)
        grows = new_size > self.size
        former = last if grows and last < first else None
        makes_holes = former is not None and first > former + 1 and not self.flags & p.HOLES
        if makes_holes and not wrong("holes behind the end without HOLES") and not wrong("HOLES after the new pages"):
            self.rewrite_header(flags=self.flags | p.HOLES)
        sealed = []
        for index in list(range(first, final + 1)) + ([former] if former is not None else []):
            start = index * p.CAPACITY
            payload = list(self.old(index)) if index <= last and self.page_zero == WRITTEN else []
            size = min(p.CAPACITY, new_size - start)
            payload = (payload + [0] * p.CAPACITY)[:size]
            for place in range(max(start, offset), min(start + size, end)):
                payload[place - start] = data[place - offset]
            sealed.append((index, self.sealed(index, tuple(payload), new_size)))
        was_pending = self.page_zero == PENDING
        try:
            if wrong("new pages before the length"):
                self._write_all(sealed, full_at)
            if new_size != self.size:
                self.store.resize(p.backing_length(new_size))
            if not wrong("new pages before the length"):
                self._write_all(sealed, full_at)
        except NoSpace:
            if grows:
                self._undo(last, sealed, full_at, was_pending, undo_fails)
            return
        self.size = max(self.size, new_size)
        self.grew = self.grew or grows
        if makes_holes and wrong("HOLES after the new pages"):
            self.rewrite_header(flags=self.flags | p.HOLES)

    def _write_all(self, sealed, full_at):
        for number, (index, page) in enumerate(sealed):
            if number == full_at:
                raise NoSpace
            self.write(index, page)
            if index == 0:
                self.page_zero = WRITTEN

    def _undo(self, last, sealed, full_at, was_pending, undo_fails):
        """Space ran out: cut back, the old end, sync."""
        if undo_fails:
            self.end_badly()
            return
        if not wrong("no cut after space ran out"):
            self.cut(self.size)
        if was_pending:
            self.page_zero = PENDING
            if not wrong("a header without space is forgotten"):
                self.kept_open = True
        elif any(index == last for index, _ in sealed[:full_at]) and not wrong("the old end is not restored"):
            self.rewrite_page(last, self.size, tolerating=True)
        if not wrong("no sync after space ran out"):
            self.sync()

    def extend(self, size):
        """Zeros behind the end."""
        self.put(size, (), size)

    # Truncate.

    def rewrite_page(self, index, size, tolerating=False, before=None):
        """One page as it must be in a file of `size` bytes; `before` runs when it is sealed and not yet written."""
        kept = max(0, min(self.size, size) - index * p.CAPACITY)
        old = self.old(index, tolerating)[:kept]
        wanted = min(p.CAPACITY, size - index * p.CAPACITY)
        page = self.sealed(index, (old + (0,) * p.CAPACITY)[:wanted], size)
        if before:
            before()
        self.write(index, page)

    def shrink(self, size):
        """Drops the bytes behind `size`."""
        last, new_last = p.last_block(self.size), p.last_block(size)
        if new_last == last:
            if wrong("the last page before ftruncate"):
                self.rewrite_page(last, size)
                self.store.resize(p.backing_length(size))
            else:
                self.rewrite_page(last, size, before=lambda: self.store.resize(p.backing_length(size)))
            self.size = size
            return
        if new_last == 0:
            if wrong("cut before page 0"):
                self.cut(size)
            self.rewrite_page(0, size)
            self.size = size
            if not self.marked and not wrong("page 0 is not synced before the cut"):
                self.sync()
            if not wrong("cut before page 0"):
                self.cut(size)
            return
        if self.waits_from >= 0 and not wrong("the new end is not made firm while the middle waits"):
            self.mend_block(new_last, seal_holes=True)
            if not wrong("a firm end is not synced"):
                self.sync()
        self.mark()

        def cut_and_sync():
            self.cut(size)
            if not wrong("no sync after a cut"):
                self.sync()
        if wrong("the last page before the cut"):
            self.rewrite_page(new_last, size)
            cut_and_sync()
        else:
            self.rewrite_page(new_last, size, before=cut_and_sync)
        self.size = size

    def truncate(self, size):
        """Sets the size."""
        if size > self.size:
            self.extend(size)
        elif size < self.size:
            self.shrink(size)

    # Punch, zero range, allocation.

    def zero_range(self, start, end):
        """Zeroes bytes inside of the file."""
        if start >= end:
            return
        first, behind = start // p.CAPACITY, p.last_block(end) + 1
        last = p.last_block(self.size)
        whole = [index for index in range(max(first, 1), min(behind, last))
                 if index * p.CAPACITY >= start and (index + 1) * p.CAPACITY <= end]
        if whole and not wrong("a punch without HOLES"):
            if not self.flags & p.HOLES:
                if not wrong("HOLES after the punch"):
                    self.rewrite_header(flags=self.flags | p.HOLES)
                    if not wrong("HOLES is not synced before a punch"):
                        self.sync()
            elif self.holes_may_be_lost and not wrong("HOLES of an earlier write is not synced before a punch"):
                self.sync()
            if self.grew and not wrong("a file that grew is not marked before a punch"):
                self.mark()
        for index in range(first, behind):
            if index not in whole:
                begin = max(start, index * p.CAPACITY)
                self.put(begin, (0,) * (min(end, (index + 1) * p.CAPACITY) - begin), self.size)
        for index in whole:
            self.store.punch(index)
        if whole and wrong("HOLES after the punch") and not self.flags & p.HOLES:
            self.rewrite_header(flags=self.flags | p.HOLES)

    def punch(self, start, end):
        """fallocate: a hole, without another size."""
        self.flush_header()
        self.zero_range(start, min(end, self.size))

    def zero(self, start, end):
        """fallocate: zeros, also behind the end."""
        self.flush_header()
        old = self.size
        if end > old:
            self.extend(end)
        self.zero_range(start, min(end, old))

    def reserve(self, end):
        """fallocate: space, also behind the end."""
        self.flush_header()
        if end > self.size:
            if p.last_block(end) > p.last_block(self.size) + 1 and not self.flags & p.HOLES:
                self.rewrite_header(flags=self.flags | p.HOLES)
            self.extend(end)

    # Class.

    def change_class(self, target):
        """Page 0; durable before it returns if it tightens."""
        if target == self.tag:
            return
        tightens = target > self.tag
        if tightens and self.size == 0:
            self.rewrite_header(tag=target, key=self.fresh_key())
        else:
            exposed = tightens and self.page_zero == WRITTEN and not wrong("a stronger class without KEY_EXPOSED")
            self.rewrite_header(flags=self.flags | (p.EXPOSED if exposed else 0), tag=target)
        if tightens and not wrong("a stronger class is not synced"):
            self.sync()

    # Sync and close.

    def synchronize(self):
        """fsync of a program."""
        self.flush_header()
        self.sync()
