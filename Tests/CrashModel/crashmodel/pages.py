"""Pages, files and sizes of the model: a block holds two bytes, a page is four units long, and a file has a few pages.

A page is ZERO, DAMAGED (bytes that do not verify) or a block. Block k is the tuple (epoch, last, payload, key); block 0
has (flags, class) of the header behind that. The payload is a tuple of small numbers, one for each byte; 0 is a zero.
A file is (length, pages); trailing zero pages are not in the tuple. Everything is made of integers, so that a state has
the same hash in every run.

The rules ask only one thing of an epoch: whether it was closed, ended badly, or belongs to the living mount. So a page
carries that and not a number. epochs.py shows that the numbers keep these three apart.
"""

CAPACITY = 2
UNIT = 4
MAX_PAGES = 4
MAX_SIZE = CAPACITY * MAX_PAGES

ZERO = 0
DAMAGED = 1

CLOSED, BAD, OWN = 0, 1, 2

HOLES = 1
EXPOSED = 2

WEAK, STRONG = 0, 1

# A file whose creation has not reached the disk.
ABSENT = (-1, ())

# Fields of a block.
EPOCH, LAST, PAYLOAD, KEY, FLAGS, CLASS = range(6)


def last_block(size):
    """The index of the block with the last byte; 0 for an empty file."""
    return (size - 1) // CAPACITY if size else 0


def backing_length(size):
    """B = n pages and t: section 5.3."""
    last = last_block(size)
    return (last + 1) * UNIT + size - last * CAPACITY


def size_by_length(length):
    """The size by B alone; a tail of 0 means the whole block, with one page too."""
    count, tail = divmod(length, UNIT)
    if count == 0:
        return 0
    return (count - 1) * CAPACITY + (CAPACITY if tail == 0 or tail > CAPACITY else tail)


def padded(payload):
    """A payload with zeros up to the capacity."""
    return payload + (0,) * (CAPACITY - len(payload))


def page_of(content, index):
    """The bytes that a content has in a page, with zeros behind its end."""
    return padded(content[index * CAPACITY:(index + 1) * CAPACITY])


def page_at(image, index):
    """A page of a file; pages behind the stored ones are zero."""
    pages = image[1]
    return pages[index] if index < len(pages) else ZERO


def stripped(pages):
    """The pages without zeros at the end."""
    count = len(pages)
    while count and pages[count - 1] == ZERO:
        count -= 1
    return tuple(pages[:count])


def resized(image, length):
    """The file after ftruncate. A part of a page that is left behind the last whole page does not verify."""
    count, tail = divmod(length, UNIT)
    pages = image[1]
    if len(pages) <= count:
        return (length, pages)
    kept = list(pages[:count])
    if tail:
        kept.append(DAMAGED)
    return (length, stripped(kept))


def with_page(image, index, page):
    """The file after a write of a whole page that its length covers."""
    pages = list(image[1])
    pages += [ZERO] * (index + 1 - len(pages))
    pages[index] = page
    return (image[0], stripped(pages))


def with_epochs(image, change):
    """The file with other epochs: `change` has one for each of closed, bad and own."""
    return (image[0], tuple(
        page if type(page) is int else (change[page[EPOCH]],) + page[1:] for page in image[1]))


def end_epochs(image):
    """The epochs of page 0 and of P (6.4); nothing without a header, when no version is compared."""
    first = page_at(image, 0)
    if type(first) is int:
        return ()
    end = 0 if first[LAST] else min(image[0] // UNIT, len(image[1])) - 1
    while page_at(image, end) == ZERO:
        end -= 1
    last = page_at(image, end)
    return (first[EPOCH],) if type(last) is int else (first[EPOCH], last[EPOCH])


def numbers_of(image):
    """All numbers in the payloads of a file, and all keys."""
    values, keys = set(), set()
    for page in image[1]:
        if type(page) is not int:
            values.update(page[PAYLOAD])
            keys.add(page[KEY])
    return values, keys


def describe_page(page):
    """A page as text."""
    if page == ZERO:
        return "zeros"
    if page == DAMAGED:
        return "does not verify"
    words = ["".join(str(value) for value in page[PAYLOAD]) or "empty"]
    if page[LAST]:
        words.append("LAST")
    words.append(("closed", "bad", "own")[page[EPOCH]])
    if len(page) > FLAGS:
        words += [name for bit, name in ((HOLES, "HOLES"), (EXPOSED, "EXPOSED")) if page[FLAGS] & bit]
        words.append("class strong" if page[CLASS] else "class weak")
    if page[KEY]:
        words.append("key %d" % page[KEY])
    return " ".join(words)


def describe(image):
    """A file as text."""
    if image == ABSENT:
        return "no file"
    count, tail = divmod(image[0], UNIT)
    pages = [describe_page(page_at(image, index)) for index in range(max(count, len(image[1])))]
    return "B = %d pages + %d: %s" % (count, tail, " | ".join(pages) or "nothing")
