"""Single manipulations of a file that was closed cleanly: without an epoch that ended badly each departure is an error."""

from . import pages as p
from .reader import LISTED, UNLISTED, read

# Departures that are reported and need no epoch: they change nothing that programs read.
HARMLESS = {"dropped zero pages", "length"}
OLDER = 9


def manipulations(image):
    """(what, file, the page that is an older version or -1, whether holes explain zeros)."""
    length = image[0]
    count = length // p.UNIT
    first = p.page_at(image, 0)
    for index in range(count):
        page = p.page_at(image, index)
        if page != p.ZERO:
            zeroed = p.with_page(image, index, p.ZERO)
            yield "page %d zeroed" % index, zeroed, -1, bool(first[p.FLAGS] & p.HOLES)
        yield "page %d changed, moved or of another file" % index, p.with_page(image, index, p.DAMAGED), -1, False
    for other in range(0, length):
        yield "cut to %d pages + %d" % divmod(other, p.UNIT), p.resized(image, other), -1, False
    for other in range(length + 1, length + 2 * p.UNIT + 1):
        yield "extended to %d pages + %d" % divmod(other, p.UNIT), p.resized(image, other), -1, False
    for index in range(count):
        for last, size in ((0, p.CAPACITY), (1, 1), (1, p.CAPACITY)):
            block = (p.CLOSED, last, (OLDER,) * size, first[p.KEY])
            if index == 0:
                for flags in sorted({first[p.FLAGS], first[p.FLAGS] & ~p.HOLES}):
                    older = block + (flags, first[p.CLASS])
                    yield "page 0 of an older version", p.with_page(image, 0, older), 0, False
            else:
                yield "page %d of an older version" % index, p.with_page(image, index, block), index, False
    for index in range(count, min(count + 2, p.MAX_PAGES + 1)):
        block = (p.CLOSED, 1, (OLDER,), first[p.KEY])
        longer = p.with_page(p.resized(image, (index + 1) * p.UNIT), index, block)
        yield "a dropped page %d put back" % index, longer, index, False
        yield "garbage behind the end, with an epoch that ended badly", p.with_page(longer, index, p.DAMAGED), -1, False


def objection(image, changed, replaced, may_be_holes, tolerance):
    """Why the outcome is wrong; None if it is an error, or harmless, or a rollback that the format does not notice."""
    before, found = read(image, tolerance), read(changed, tolerance)
    if isinstance(found, str):
        return None
    if found.missing:
        # R0 asks for any epoch that ended badly.
        return None if tolerance.any_bad else "an empty file"
    if not set(found.departures) <= HARMLESS:
        return "tolerated: " + ", ".join(found.departures)
    if replaced < 0 and len(found.content) != len(before.content):
        return "size %d, was %d" % (len(found.content), len(before.content))
    for index in range(p.last_block(len(found.content)) + 1):
        was, now = p.page_of(before.content, index), p.page_of(found.content, index)
        if now != was and index != replaced and not (may_be_holes and not any(now)):
            return "page %d reads %s, was %s" % (index, now, was)
    return None


class Attacks:
    """Tries all manipulations of each file that it is given."""

    def __init__(self):
        self.files, self.tried, self.found = set(), 0, []

    def __call__(self, image, path):
        if image in self.files or image[0] < p.UNIT or p.page_at(image, 0) == p.ZERO:
            return
        self.files.add(image)
        for what, changed, replaced, may_be_holes in manipulations(image):
            for tolerance in (UNLISTED, LISTED):
                self.tried += 1
                text = objection(image, changed, replaced, may_be_holes, tolerance)
                if text:
                    self.found.append("%s, %s: %s" % (p.describe(image), what, text))
