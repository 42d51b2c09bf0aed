"""Sections 5 and 6: headers, blocks, sizes, and the rules for what a crash left."""

from .keybag import CLASS_NAMES
from .primitives import Newer, Refused, block_open, equal, mac, u16, u32, le

PAGE = 4096
HOLES, KEY_EXPOSED, EXPLICIT = 1, 2, 4
#: Unknown flags of which each makes a file readable only.
READ_ONLY = 0x0F00

#: Where the header's fields stand: name -> (offset, length).
HEADER_FIELDS = {
    "magic": (0, 3), "version": (3, 1), "class": (4, 1), "suite": (5, 1), "block_log2": (6, 1), "compression": (7, 1),
    "flags": (8, 2), "generation": (10, 2), "freshness": (12, 4), "file ID": (16, 16), "wrapped key": (32, 80),
    "MAC": (112, 16),
}


def block_fields(suite, index):
    """Where a block's parts stand in its page: name -> (offset, length)."""
    start, nonce = (128 if index == 0 else 0), (12 if suite == 1 else 24)
    field = start + nonce
    return {
        "nonce": (start, nonce), "payload length": (field, 2), "flags": (field + 2, 1), "reserved": (field + 3, 1),
        "epoch": (field + 4, 4), "ciphertext": (field + 8, PAGE - 16 - field - 8), "tag": (PAGE - 16, 16),
    }


def capacity(suite, index):
    return block_fields(suite, index)["ciphertext"][1]


def size_of_length(suite, length):
    """What stat shows for a backing file of this length."""
    pages, tail = divmod(length, PAGE)
    if pages == 0 or length == PAGE:
        return 0
    last = capacity(suite, pages - 1)
    before = 0 if pages == 1 else capacity(suite, 0) + (pages - 2) * capacity(suite, 1)
    return before + (last if tail == 0 or tail > last else tail)


def length_of_size(suite, size):
    first, later = capacity(suite, 0), capacity(suite, 1)
    if size <= first:
        return PAGE + size
    blocks, tail = divmod(size - first - 1, later)
    return (blocks + 2) * PAGE + tail + 1


def parse_header(keys, page):
    """The header's 128 bytes, verified with M alone."""
    if len(page) < 128 or not equal(mac(keys.header, page[:112], 16), page[112:128]):
        raise Refused("header: MAC")
    header = page[:128]
    for known, what in (
            (header[:4] == b"PFS\x02", "version"), (header[4] in CLASS_NAMES, "class"), (header[5] == keys.suite, "suite"),
            (header[6] == 12, "block_log2"), (not header[7], "compression"), (not u16(header, 8) & 0xF8, "flags"),
            (not any(header[12:16]), "freshness"), (header[4] == 2 or not any(header[104:112]), "bytes after the wrap")):
        if not known:
            raise Newer("header: " + what)
    return header


def refuse_short_newer(keys, data):
    """Rule R0 is for files of this version: a header that verifies may say that a shorter file is as it should be."""
    try:
        header = parse_header(keys, data)
        keys.class_key(header[4], u16(header, 10))
    except (Refused, KeyError):
        return
    if u16(header, 8) & READ_ONLY:
        raise Newer("header: flags, in a file that is shorter than a page")


def sign_header(keys, header):
    """The header with its MAC made anew, as an attacker with M would."""
    return header[:112] + mac(keys.header, header[:112], 16)


class File:
    """A backing file's header and contents."""

    def __init__(self, keys, data, bad_epochs=(), tolerates_all=False):
        self.keys, self.data = keys, data
        self.bad_epochs, self.tolerates_all = set(bad_epochs), tolerates_all
        self.departures = []
        if len(data) < PAGE or not any(data[:PAGE]):
            if len(data) < PAGE:
                refuse_short_newer(keys, data)
            if not (self.bad_epochs or tolerates_all):
                raise Refused("file: no header")
            self.departures.append("R0")
            self.header, self.protection_class, self.flags, self.id = None, None, 0, None
            return
        self.header = parse_header(keys, data[:PAGE])
        self.protection_class, self.flags, self.id = data[4], u16(data, 8), data[16:32]

    @property
    def read_only(self):
        """Whether a newer version made it so that this one may read it, and not write it."""
        return bool(self.flags & READ_ONLY)

    def page(self, index):
        return self.data[index * PAGE:(index + 1) * PAGE]

    def is_bad(self, epoch):
        return self.tolerates_all or epoch in self.bad_epochs

    def field(self, index):
        """Payload length, LAST, epoch: true once the block is verified."""
        at = block_fields(self.keys.suite, index)["payload length"][0]
        field = self.page(index)[at:at + 8]
        return u16(field), field[2] == 1, u32(field, 4)

    def check_field(self, index):
        """Raises if a block that verified has something in its field that only a newer version can have written."""
        at = block_fields(self.keys.suite, index)["payload length"][0]
        field, full = self.page(index)[at:at + 8], capacity(self.keys.suite, index)
        length = u16(field)
        if field[2] > 1 or field[3] or length > full or (length < full and field[2] != 1):
            raise Newer("block %d: field" % index)

    def associated_data(self, index):
        at = block_fields(self.keys.suite, index)["payload length"][0]
        data = self.id + le(index, 8) + self.page(index)[at:at + 8] + bytes([self.keys.suite, 12, 0, 0])
        return data + self.header[:32] if index == 0 else data

    def block(self, index, file_key):
        """The payload of a block that is not a zero page."""
        places = block_fields(self.keys.suite, index)
        page = self.page(index)
        length, _, epoch = self.field(index)
        nonce, text = places["nonce"], places["ciphertext"]
        plain = block_open(
            self.keys.suite, self.keys.extent_key(file_key, epoch, index), page[nonce[0]:nonce[0] + nonce[1]],
            self.associated_data(index), page[text[0]:])
        self.check_field(index)
        if any(plain[length:]):
            raise Refused("block %d: padding" % index)
        return plain[:length]

    def contents(self):
        """The whole plaintext, by the rules of 6.4."""
        if self.header is None:
            return b""
        file_key = self.keys.file_key(self.header)
        pages = len(self.data) // PAGE
        first = self.block(0, file_key)
        _, first_last, first_epoch = self.field(0)
        zero = [not any(self.page(index)) for index in range(pages)]
        if first_last:
            if pages > 1:
                rest = [index for index in range(1, pages) if not zero[index]]
                if rest and not (self.is_bad(first_epoch) or self.is_bad(self.field(rest[-1])[2])):
                    raise Refused("pages behind the end")
                self.departures.append("R1" if rest else "R3")
            return first
        final = max(index for index in range(pages) if not zero[index])
        if final:
            self.block(final, file_key)
        _, final_last, final_epoch = self.field(final)
        bad = self.is_bad(first_epoch) or self.is_bad(final_epoch)

        def departure(rule):
            if not bad:
                raise Refused("departure " + rule)
            self.departures.append(rule)

        suite = self.keys.suite
        blocks = [first]
        for index in range(1, final + 1):
            full = capacity(suite, index)
            if zero[index]:
                if not self.flags & HOLES:
                    departure("R4 zero page")
                blocks.append(bytes(full))
                continue
            payload = self.block(index, file_key)
            if index < final and self.field(index)[1]:
                departure("R4 LAST")
                payload = payload.ljust(full, b"\0")
            blocks.append(payload)
        result = b"".join(blocks)
        if final_last:
            if final < pages - 1:
                self.departures.append("R3")
            return result
        departure("R3 end")
        if final == pages - 1 or self.flags & HOLES:
            size = size_of_length(suite, len(self.data)) if len(self.data) > PAGE else capacity(suite, 0)
            result = result[:size].ljust(size, b"\0")
        return result

    def hole_pages(self):
        return [index for index in range(1, len(self.data) // PAGE) if not any(self.page(index))]
