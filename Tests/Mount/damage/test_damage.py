"""Tampering below the mount: every change gives its defined error, never wrong data."""

import os
import random
import shutil

import harness
import reader
from damage import SIZE, Tree, inspect, is_detected


def test_every_field_of_files(environment):
    reader.load()
    from secondreader.files import HEADER_FIELDS, block_fields
    tree = Tree(environment, environment.mount())
    plan = []
    for index, label in ((0, "block 0"), (1, "block 1"), (9, "last block")):
        plan += [(f"{label}, {field}", index, place) for field, place in block_fields(1, index).items()]
    plan += [(f"header, {field}", 0, place) for field, place in HEADER_FIELDS.items()]
    for name, _, _ in plan:
        tree.make(name)
        tree.make(name + ", first bit")
        tree.make(name + ", of a B file", protection="B")
    tree.make("untouched")
    tree.mount.unmount()
    volume = reader.unlock(tree.mount.volume)
    for name, index, (at, length) in plan:
        for suffix, offset, value in (("", at + length - 1, 1), (", first bit", at, 0x80), (", of a B file", at, 1)):
            reader.flip(volume.backing_path(name + suffix), index * harness.PAGE + offset, value)
            tree.damage[name + suffix] = True
    mount = environment.mount(tree.mount.volume, path=tree.mount.path)
    tree.check()
    environment.cell("untouched", {"right"}, inspect(mount / "untouched", tree.contents["untouched"]))
    listed = os.listdir(mount.path)
    environment.cell("every name is listed", sorted(tree.contents), sorted(listed))
    # Damage of a header closes its class too, and a stat goes on.
    name = "header, class"
    environment.cell("stat of a damaged file", SIZE, os.stat(mount / name).st_size)
    environment.cell("class of a damaged file", "EIO", harness.outcome(harness.get_class, mount / name))
    # Nothing is signed again: a write into the damaged block fails as well.
    def overwrite():
        handle = os.open(mount / "block 1, tag", os.O_WRONLY)
        try:
            os.pwrite(handle, b"x", 5000)
            os.fsync(handle)
        finally:
            os.close(handle)
    environment.cell("a partial write into a damaged block", "EIO", harness.outcome(overwrite))
    environment.cell("and the block stays damaged", "detected",
                     is_detected(mount / "block 1, tag", tree.contents["block 1, tag"]))


def test_pages_moved_and_cut(environment):
    reader.load()
    from secondreader.files import parse_header, sign_header
    from secondreader.primitives import le
    tree = Tree(environment, environment.mount())
    names = ["swapped within", "swapped between 1", "swapped between 2", "page zeroed", "page 0 zeroed",
             "last page zeroed", "cut by a page", "cut to one page", "cut below a page", "cut to nothing",
             "header of another class", "header of another file", "header: class, signed with M",
             "header: HOLES, signed with M", "header: EXPLICIT, signed with M", "page behind the end", "first page twice",
             "page 0 of another file", "two pages zeroed at the end"]
    for name in names:
        tree.make(name)
    tree.make("weak", protection="D")
    tree.make("other")
    tree.make("short one", size=100)
    tree.mount.unmount()
    volume = reader.unlock(tree.mount.volume)
    keys = volume.keys

    def path(name):
        tree.damage[name] = True
        return volume.backing_path(name)

    def page(name, index):
        return reader.read_page(volume.backing_path(name), index)

    one, two = page("swapped within", 2), page("swapped within", 5)
    reader.write_page(path("swapped within"), 2, two)
    reader.write_page(path("swapped within"), 5, one)
    one, two = page("swapped between 1", 3), page("swapped between 2", 3)
    reader.write_page(path("swapped between 1"), 3, two)
    reader.write_page(path("swapped between 2"), 3, one)
    reader.write_page(path("page zeroed"), 4, bytes(4096))
    reader.write_page(path("page 0 zeroed"), 0, bytes(4096))
    reader.write_page(path("last page zeroed"), 9, bytes(4096))
    reader.write_page(path("two pages zeroed at the end"), 8, bytes(8192))
    length = os.stat(volume.backing_path("other")).st_size
    os.truncate(path("cut by a page"), length - 4096)
    os.truncate(path("cut to one page"), 4096)
    os.truncate(path("cut below a page"), 4095)
    os.truncate(path("cut to nothing"), 0)
    reader.write_page(path("header of another class"), 0, page("weak", 0)[:128])
    reader.write_page(path("header of another file"), 0, page("other", 0)[:128])
    reader.write_page(path("page 0 of another file"), 0, page("other", 0))
    for name, at, value in (("header: class, signed with M", 4, b"\x04"), ("header: HOLES, signed with M", 8, le(1, 2)),
                            ("header: EXPLICIT, signed with M", 8, le(0, 2))):
        header = parse_header(keys, page(name, 0))
        header = sign_header(keys, header[:at] + value + header[at + len(value):])
        reader.write_page(path(name), 0, header)
    reader.write_page(path("first page twice"), 1, page("first page twice", 0))
    # The last block taken over by one of the same file's that says LAST too cannot be had; a foreign one must not pass.
    reader.write_page(path("page behind the end"), 10, page("other", 9))
    reader.write_page(path("short one"), 1, page("other", 1))
    mount = environment.mount(tree.mount.volume, path=tree.mount.path)
    tree.check()
    environment.cell("untouched", {"right"}, inspect(mount / "other", tree.contents["other"]))


def test_lengths_that_lie(environment):
    """The backing file's length says another size than the last block: what the block says is read."""
    reader.load()
    tree = Tree(environment, environment.mount())
    for name, size in (("tail cut", 5000), ("tail cut to the page", 5000), ("tail grown", 5000), ("small, cut", 900),
                       ("small, cut to the page", 900), ("small, grown", 900), ("empty, grown", 0)):
        tree.make(name, size=size)
    tree.mount.unmount()
    volume = reader.unlock(tree.mount.volume)
    for name, pages, tail in (("tail cut", 2, 500), ("tail cut to the page", 2, 0), ("tail grown", 2, 3000),
                              ("small, cut", 1, 400), ("small, cut to the page", 1, 0), ("small, grown", 1, 3000),
                              ("empty, grown", 1, 50)):
        os.truncate(volume.backing_path(name), pages * 4096 + tail)
    mount = environment.mount(tree.mount.volume, path=tree.mount.path)
    for name, contents in tree.contents.items():
        os.stat(mount / name)
        for turn in ("", ", again"):
            with open(mount / name, "rb") as file:
                environment.cell(f"{name}: contents{turn}", (len(contents), True), (
                    os.fstat(file.fileno()).st_size, file.read() == contents))
        os.truncate(mount / name, len(contents) + 10)
        environment.cell(f"{name}: extended", True, harness.read_file(mount / name) == contents + bytes(10))


def test_random_damage(environment):
    """Random bytes, pages and lengths: an error or the right bytes, never anything else."""
    reader.load()
    choice = random.Random(20_251_121)
    tree = Tree(environment, environment.mount())
    names = [f"file {number}" for number in range(150 if environment.mode == "quick" else 600)]
    for name in names:
        tree.make(name, size=choice.randrange(1, 30_000), protection=choice.choice("ABCD"))
    tree.mount.unmount()
    volume = reader.unlock(tree.mount.volume)
    for name in names:
        path = volume.backing_path(name)
        pages = os.stat(path).st_size // 4096
        kind = choice.choice(["byte", "byte", "bytes", "page of another", "page of its own", "zeros", "cut", "random page"])
        other = volume.backing_path(choice.choice(names))
        page = choice.randrange(pages)
        old = reader.read_page(path, page)
        if kind == "page of another" and (page == 0 or os.stat(other).st_size < 4096):
            # The first page of a file of one page is that whole file: exchanging files is not covered.
            kind = "random page"
        if kind == "byte":
            reader.flip(path, choice.randrange(pages * 4096), choice.randrange(1, 256))
        elif kind == "bytes":
            at = choice.randrange(4000)
            reader.write_page(path, page, old[:at] + choice.randbytes(90) + old[at + 90:])
        elif kind == "page of another":
            reader.write_page(path, page, reader.read_page(other, choice.randrange(os.stat(other).st_size // 4096)))
        elif kind == "page of its own":
            reader.write_page(path, page, reader.read_page(path, choice.randrange(pages)))
        elif kind == "zeros":
            reader.write_page(path, page, bytes(4096))
        elif kind == "cut":
            os.truncate(path, choice.randrange(pages) * 4096 + choice.randrange(4096))
        else:
            reader.write_page(path, page, choice.randbytes(4096))
        # A cut within the last page's part of the length drops nothing that is authenticated.
        if kind == "byte" or reader.read_page(path, page) != old or os.stat(path).st_size // 4096 < pages:
            tree.damage[name] = True
    environment.mount(tree.mount.volume, path=tree.mount.path)
    tree.check()
    for name in set(tree.contents) - set(tree.damage):
        environment.cell(f"{name}, whole", {"right"}, inspect(tree.mount / name, tree.contents[name]))


def test_names_links_attributes_records(environment):
    reader.load()
    from secondreader.primitives import b64, unb64
    from secondreader.volume import RECORD_FIELDS
    mount = environment.mount()
    long_name = "n" * 200
    os.mkdir(mount / "d")
    os.mkdir(mount / "e")
    for name in ("changed", "moved", "sibling", long_name, "m" * 200, "o" * 200):
        harness.write_file(os.path.join(mount / "d", name), b"contents of " + name.encode())
    for name in ("link", "link 2"):
        os.symlink("the target", mount / name)
    for name in ("value", "value 2", "name", "swapped"):
        harness.write_file(mount / name, b"with attributes")
        os.setxattr(mount / name, "user.one", b"first")
        os.setxattr(mount / name, "user.two", b"second")
    for field in RECORD_FIELDS:
        os.mkdir(mount / f"record {field}")
        harness.write_file(os.path.join(mount / f"record {field}", "file"), b"below")
    os.mkdir(mount / "record of another")
    harness.write_file(os.path.join(mount / "record of another", "file"), b"below")
    mount.unmount()

    volume = reader.unlock(mount.volume)
    directory = volume.backing_path("d")
    for name in ("changed", "o" * 200):
        backing = volume.backing_path("d/" + name)
        place, last = os.path.split(backing)
        swapped = last[:10] + (b"A" if last[10:11] != b"A" else b"B") + last[11:]
        os.rename(backing, os.path.join(place, swapped))
    backing = volume.backing_path("d/moved")
    os.rename(backing, os.path.join(volume.backing_path("e"), os.path.basename(backing)))
    companion = volume.backing_path("d/" + long_name) + b".n"
    target = os.readlink(companion)
    os.unlink(companion)
    os.symlink(target[:-3] + (b"A" if target[-3:-2] != b"A" else b"B") + target[-2:], companion)
    os.unlink(volume.backing_path("d/" + "m" * 200) + b".n")

    for name, at in (("link", 0), ("link 2", -5)):
        backing = volume.backing_path(name)
        target = bytearray(os.readlink(backing))
        target[at] = ord("A") if target[at] != ord("A") else ord("B")
        os.unlink(backing)
        os.symlink(bytes(target), backing)

    def stored(name, attribute):
        path = volume.backing_path(name)
        key = volume.encode_xattr(attribute, volume.file(path).id)
        return path, key, os.getxattr(path, key)

    for name, at in (("value", 30), ("value 2", 0)):
        path, key, value = stored(name, b"user.one")
        os.setxattr(path, key, value[:at] + bytes([value[at] ^ 1]) + value[at + 1:])
    path, key, value = stored("name", b"user.one")
    os.removexattr(path, key)
    os.setxattr(path, key[:-4] + (b"A" if key[-4:-3] != b"A" else b"B") + key[-3:], value)
    path, first, one = stored("swapped", b"user.one")
    _, second, two = stored("swapped", b"user.two")
    os.setxattr(path, first, two)
    os.setxattr(path, second, one)

    for field, (at, length) in RECORD_FIELDS.items():
        record = os.path.join(volume.backing_path(f"record {field}"), b".protectfs.dir")
        data = bytearray(unb64(os.readlink(record)))
        data[at + length - 1] ^= 1
        os.unlink(record)
        os.symlink(b64(bytes(data)), record)
    record = os.path.join(volume.backing_path("record of another"), b".protectfs.dir")
    os.unlink(record)
    os.symlink(os.readlink(os.path.join(directory, b".protectfs.dir")), record)

    mount = environment.mount(mount.volume, path=mount.path)
    listed = os.listdir(mount / "d")
    undecryptable = [name for name in listed if name.startswith(".undecryptable-")]
    environment.cell("damaged names are shown, siblings stay", (["sibling"], 4),
                     (sorted(set(listed) - set(undecryptable)), len(undecryptable)))
    environment.cell("a moved entry is undecryptable", 1,
                     len([name for name in os.listdir(mount / "e") if name.startswith(".undecryptable-")]))
    for name in ("changed", "moved", long_name, "m" * 200, "o" * 200):
        outcome = harness.outcome(harness.read_file, os.path.join(mount / "d", name))
        environment.cell(f"{name[:10]} by its old name", True, outcome in ("ENOENT", "EIO"))
    for name in undecryptable:
        path = os.path.join(mount / "d", name)
        environment.cell("stat of an undecryptable entry", "works", harness.outcome(os.lstat, path))
        environment.cell("open of an undecryptable entry", "EIO", harness.outcome(harness.read_file, path))
    environment.cell("unlink of an undecryptable entry", "works",
                     harness.outcome(os.unlink, os.path.join(mount / "d", undecryptable[0])))
    environment.cell("sibling", b"contents of sibling", harness.read_file(os.path.join(mount / "d", "sibling")))

    for name in ("link", "link 2"):
        environment.cell(f"{name}: readlink", "EIO", harness.outcome(os.readlink, mount / name))
        environment.cell(f"{name}: stat", "works", harness.outcome(os.lstat, mount / name))
    for name in ("value", "value 2", "swapped"):
        environment.cell(f"{name}: getxattr", "EIO", harness.outcome(os.getxattr, mount / name, "user.one"))
    environment.cell("value: the other one", b"second", os.getxattr(mount / "value", "user.two"))
    environment.cell("name: getxattr", True,
                     harness.outcome(os.getxattr, mount / "name", "user.one") in ("ENODATA", "EIO"))
    # A record of another directory verifies, as directories can be moved; but no name below does.
    environment.cell("record of another: what is below", ["undecryptable"],
                     [name[1:14] for name in os.listdir(mount / "record of another")])
    environment.cell("record of another: reading below", "ENOENT", harness.outcome(
        harness.read_file, os.path.join(mount / "record of another", "file")))
    for field in RECORD_FIELDS:
        name = mount / f"record {field}"
        environment.cell(f"record, {field}: reading below", True, harness.outcome(
            harness.read_file, os.path.join(name, "file")) in ("EIO", "ENOENT"))
        environment.cell(f"record, {field}: creating below", "EIO", harness.outcome(
            harness.write_file, os.path.join(name, "new"), b"new"))


def test_keybag(environment):
    reader.load()
    from secondreader.keybag import KEYBAG_FIELDS, SLOT_FIELDS, U, Keybag, sign_keybag
    from secondreader.primitives import x25519_public
    mount = environment.mount()
    volume = mount.volume
    harness.write_file(mount / "file", b"contents")
    mount.unmount()
    path = reader.keybag_file(volume)
    with open(path, "rb") as file:
        good = file.read()
    opened = reader.unlock(volume)
    keys = opened.keys.keys
    state = reader.state_file(volume)
    with open(state, "rb") as file:
        good_state = file.read()

    def attempt(label, data, unlock=True, options=(), refused=True):
        if data is not None:
            with open(path, "wb") as file:
                file.write(data)
        result = environment.mount(volume, unlock=unlock, ok=False, path=mount.path, options=options)
        mounted = result.is_mounted
        environment.cell(f"keybag, {label}: mounting", refused, result.result.returncode != 0)
        if refused:
            environment.cell(f"keybag, {label}: nothing is mounted", False, mounted)
            lines = result.result.stderr.strip().splitlines()
            environment.cell(f"keybag, {label}: says why", True, bool(lines) and "fatal" not in lines[0].lower())
        if mounted:
            if not refused:
                environment.cell(f"keybag, {label}: works", b"contents", harness.read_file(mount / "file"))
            result.unmount()
        with open(path, "wb") as file:
            file.write(good)

    def changed(data, at, value=1):
        at %= len(data)
        return data[:at] + bytes([data[at] ^ value]) + data[at + 1:]

    for field, (at, length) in KEYBAG_FIELDS.items():
        attempt(field, changed(good, at + length - 1))
        if field != "second MAC":
            attempt(field + " (before first unlock)", changed(good, at + length - 1), unlock=False)
    for slot in Keybag(good).slots:
        for field, (at, length) in list(SLOT_FIELDS.items()) + [("bundle", (slot.bundle_offset, 30)), ("bundle's tag",
                                                                                       (slot.length - 16, 16))]:
            attempt(f"slot {slot.id}, {field}", changed(good, slot.offset + at + length - 1))
    for length in (0, 7, 100, 191, len(good) // 2, len(good) - 1):
        attempt(f"cut to {length} bytes", good[:length])
    attempt("a byte more", good + b"\0")
    attempt("70,000 bytes", good.ljust(70_000, b"\0"))

    other_pk = good[:64] + x25519_public(os.urandom(32)) + good[96:]
    by_m = sign_keybag(other_pk, keys[16])
    attempt("another public key, signed with M", by_m)
    attempt("another public key, signed with M (before first unlock)", by_m, unlock=False)
    attempt("another public key, signed with M and U", sign_keybag(other_pk, keys[16], keys[U]))
    os.unlink(state)
    attempt("another public key, signed with M, no state file", by_m)
    attempt("another public key, signed with M and U, no state file", sign_keybag(other_pk, keys[16], keys[U]))
    with open(state, "wb") as file:
        file.write(good_state)

    foreign = environment.volume().path  # a copy of the template: same keys, so make another one
    shutil.rmtree(os.path.dirname(foreign))
    place = environment.new_path("foreign")
    os.mkdir(place)
    harness.protectfs("init", "--passphrase-file", volume.passphrase_file, os.path.join(place, "volume"),
                      env=volume.environment)
    with open(os.path.join(place, "volume", ".protectfs.keybag"), "rb") as file:
        attempt("of another volume", file.read())

    # Rolled back: the serial that this machine has seen is higher.
    harness.protectfs("slot", "add", "--portable", "--recovery-file", volume.code_file, "--new-passphrase-file",
                      volume.passphrase_file, volume.path, env=volume.environment)
    with open(path, "rb") as file:
        newer = file.read()
    environment.cell("a change raises the serial", True, Keybag(newer).serial > Keybag(good).serial)
    old, good = good, newer
    attempt("as changed", None, refused=False)
    attempt("rolled back", old)
    attempt("rolled back (before first unlock)", old, unlock=False)
    attempt("as changed, again", None, refused=False)
