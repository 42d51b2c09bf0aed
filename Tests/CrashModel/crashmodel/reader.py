"""The reader: rules R0 to R4 of section 6.4."""

from collections import namedtuple

from . import pages as p
from .rules import wrong

# `content` is what programs read. `departures` names what an uninterrupted writer never leaves. `tolerant` says that the
# epoch of page 0 or of P ended badly. `missing` says that the header was never written.
Reading = namedtuple("Reading", "content tag key flags tolerant departures missing")


class Refused(Exception):
    """The reader reports an error."""


class Epochs(namedtuple("Epochs", "bad any_bad")):
    """What a mount knows of epochs: `bad` tells for closed, bad and own ones whether they count as ended badly."""


# A mount that tolerates by the list; the same with nothing on the list; and one that tolerates everything.
LISTED = Epochs((False, True, False), True)
UNLISTED = Epochs((False, True, False), False)
EVERYTHING = Epochs((True, True, False), True)


def epochs(any_bad, everything):
    """What is tolerated."""
    return EVERYTHING if everything else LISTED if any_bad else UNLISTED


def _verified(page, key):
    if type(page) is int or page[p.KEY] != key:
        raise Refused("a block does not verify")
    return page


def _read(image, tolerance):
    length, pages = image
    count = length // p.UNIT
    first = p.page_at(image, 0)
    # R0
    if count == 0 or first == p.ZERO:
        if not tolerance.any_bad:
            raise Refused("R0: no header")
        return Reading((), p.WEAK, 0, 0, False, ("missing header",), True)
    if first == p.DAMAGED:
        raise Refused("block 0 does not verify")
    key, flags = first[p.KEY], first[p.FLAGS]
    last_page = count - 1
    departures = []
    # R2
    end = min(last_page, len(pages) - 1)
    while p.page_at(image, end) == p.ZERO:
        end -= 1
    is_bad = tolerance.bad[first[p.EPOCH]]
    if first[p.LAST]:
        # R1
        if end > 0:
            if not is_bad or wrong("R1 without page 0's epoch"):
                other = p.page_at(image, end)
                if other == p.DAMAGED and tolerance.any_bad and wrong("R1 believes a page that does not verify"):
                    other = (p.BAD, 0, (), key)
                other = _verified(other, key)
                if wrong("R1 without the last page's epoch") or not tolerance.bad[other[p.EPOCH]]:
                    raise Refused("R1: pages behind the end")
            departures.append("dropped pages")
        elif last_page > 0:
            departures.append("dropped zero pages")
        end, size = 0, len(first[p.PAYLOAD])
        tolerant = is_bad
    else:
        final = _verified(p.page_at(image, end), key)
        tolerant = is_bad or tolerance.bad[final[p.EPOCH]]
        if wrong("tolerance by page 0 alone"):
            tolerant = is_bad
        if wrong("tolerance by the last page alone"):
            tolerant = tolerance.bad[final[p.EPOCH]]
        if wrong("tolerance without an epoch"):
            tolerant = True
        # R3
        if final[p.LAST]:
            size = end * p.CAPACITY + len(final[p.PAYLOAD])
            if wrong("R3 believes B though P says LAST"):
                size = p.size_by_length(length)
            if end < last_page:
                departures.append("dropped zero pages")
                if wrong("R3 asks for an epoch") and not tolerant:
                    raise Refused("R3: zero pages behind the end")
        else:
            if not tolerant:
                raise Refused("R3: the end does not say LAST")
            by_length = end == last_page or flags & p.HOLES
            if wrong("R3 with HOLES ends with P"):
                by_length = end == last_page
            if wrong("R3 without HOLES asks B"):
                by_length = True
            size = p.size_by_length(length) if by_length else (end + 1) * p.CAPACITY
            departures.append("unfinished end")
            if wrong("R2 stops at a zero page") and end < last_page:
                raise Refused("R2: the last page is zero")
    if not departures and p.backing_length(size) != length:
        departures.append("length")
        if wrong("another length asks for an epoch") and not tolerant:
            raise Refused("B does not fit the size")
    # R4
    content = list(first[p.PAYLOAD])
    last = p.last_block(size)
    for index in range(1, last + 1):
        page = p.page_at(image, index)
        if page == p.ZERO:
            if not (flags & p.HOLES and index < last):
                if not tolerant:
                    raise Refused("R4: a page of zeros")
                departures.append("zero page")
            content += (0,) * p.CAPACITY
            continue
        block = _verified(page, key)
        if index < last and block[p.LAST]:
            if not tolerant:
                raise Refused("R4: LAST in the middle")
            departures.append("LAST in the middle")
        content += p.padded(block[p.PAYLOAD])
    content = (tuple(content) + (0,) * p.CAPACITY)[:size]
    return Reading(content, first[p.CLASS], key, flags, tolerant, tuple(departures), False)


_memory = {}


def forget():
    """For other rules."""
    _memory.clear()


def read_files():
    """How many different files were read."""
    return len(_memory)


def read(image, tolerance):
    """The `Reading` of a file, or the text of the error."""
    place = (image, tolerance)
    found = _memory.get(place)
    if found is None:
        try:
            found = _read(image, tolerance)
        except Refused as refusal:
            found = str(refusal)
        _memory[place] = found
    return found
