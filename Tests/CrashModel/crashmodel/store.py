"""The store, and all that a crash can leave of it: section 6's assumptions.

Changes of length and punched pages are metadata: a crash leaves a prefix of them. Page writes since the last sync
arrive in any subset. `maybe` holds each file that a crash can leave now, so no list of pending changes is needed. Beside
each file is the metadata that it has lost: 0 for none, else (the first page of the longest range that a lost cut has
dropped, the pages of lost punches). A page that is written into such a range later needs space that the store gives only
after that metadata; so the write is lost with it, unless the store keeps no such order.
"""

from . import pages as p

NONE_DROPPED = 1 << 20


class Store:
    """One file of the store."""

    def __init__(self, current, maybe, ordered, watch):
        self.current = current
        self.maybe = maybe
        self.ordered = ordered
        # Called after each step with its name and the files that a crash can leave since this step.
        self.watch = watch

    def _metadata(self, name, change, dropped):
        self.current = change(self.current)
        fresh, all_of_them = set(), set()
        for image, lost in self.maybe:
            if lost == 0:
                changed = change(image)
                all_of_them.add((changed, 0))
                if changed != image:
                    fresh.add(changed)
            first, punched = (NONE_DROPPED, ()) if lost == 0 else lost
            index = dropped if dropped >= 0 else NONE_DROPPED
            if dropped < 0 and ~dropped not in punched:
                punched = tuple(sorted(punched + (~dropped,)))
            all_of_them.add((image, (min(first, index), punched)))
        self.maybe = all_of_them
        self.watch(name, fresh)

    def resize(self, length):
        """ftruncate."""
        self._metadata(("ftruncate", length), lambda image: p.resized(image, length), -(-length // p.UNIT))

    def create(self):
        """The file appears, empty."""
        self._metadata(("create",), lambda _: (0, ()), NONE_DROPPED)

    def punch(self, index):
        """A page becomes a hole."""
        def change(image):
            return p.with_page(image, index, p.ZERO) if index < len(image[1]) else image
        self._metadata(("punch", index), change, ~index)

    def write(self, index, page):
        """One whole page. Behind the end it makes the file longer first, as pwrite does."""
        if self.current[0] < (index + 1) * p.UNIT:
            self.resize((index + 1) * p.UNIT)
        self.current = p.with_page(self.current, index, page)
        fresh, more = set(), set()
        for image, lost in self.maybe:
            if image[0] < (index + 1) * p.UNIT:
                continue
            if lost != 0 and self.ordered and (index >= lost[0] or index in lost[1]):
                continue
            changed = p.with_page(image, index, page)
            if changed != image:
                more.add((changed, lost))
                fresh.add(changed)
        self.maybe = self.maybe | more
        self.watch(("write", index, page), fresh)

    def sync(self):
        """fsync, or fdatasync."""
        self.maybe = {(self.current, 0)}
        self.watch(("sync",), ())
