"""Data and holes as lseek(2) shows them: at borders of 4,096 bytes, as on a file system of such blocks."""

import contextlib
import ctypes
import os
import random

from copying import TOOLS, tools
from harness import PAGE, read_file, run, set_class

LENGTH = 1 << 20
libc = ctypes.CDLL(None, use_errno=True)
libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long]
PUNCH = 3  # FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE


def seek(handle, position, whence):
    try:
        return os.lseek(handle, position, whence)
    except OSError as error:
        return f"errno {error.errno}"


def shape(path):
    """[(data or hole, its start)] from the start to the end of a file, as copying programs go through it."""
    handle = os.open(path, os.O_RDONLY)
    size, position, found = os.fstat(handle).st_size, 0, []
    try:
        while position < size:
            data = seek(handle, position, os.SEEK_DATA)
            if data != position:
                found.append(("hole", position))
            if isinstance(data, str):
                break
            found.append(("data", data))
            position = seek(handle, data, os.SEEK_HOLE)
        return found + [("end", size)]
    finally:
        os.close(handle)


def problems(path, content, store_block=PAGE):
    """What is wrong with the answers for a file with this content, from each border and around it."""
    found, borders = [], shape(path)
    size = len(content)
    for (kind, start), (_, end) in zip(borders, borders[1:]):
        if start >= end:
            found.append(f"{kind} from {start} to {end}")
        if start % store_block:
            found.append(f"{kind} begins at {start}")
        if kind == "hole" and content.count(0, start, end) != end - start:
            found.append(f"data in the hole from {start} to {end}")
    kinds = [kind for kind, _ in borders]
    if any(one == other for one, other in zip(kinds, kinds[1:])):
        found.append(f"{borders} do not alternate")
    handle = os.open(path, os.O_RDONLY)
    try:
        for position in {max(0, border + step) for _, border in borders for step in (-4097, -4096, -129, -1, 0, 1, 3932, 4060)}:
            for whence, other in ((os.SEEK_DATA, "hole"), (os.SEEK_HOLE, "data")):
                there = [kind for kind, start in borders if start <= position]
                later = [start for kind, start in borders if start > position and kind != other]
                wanted = "errno 6" if position >= size else position if there[-1] != other else later[0]
                if whence == os.SEEK_DATA and wanted == size:
                    wanted = "errno 6"
                if seek(handle, position, whence) != wanted:
                    found.append(f"from {position}, {whence}: {seek(handle, position, whence)}, not {wanted}")
    finally:
        os.close(handle)
    return found[:5]


def write_at(path, places, length=LENGTH):
    """A file with data at these (offset, length)."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
    os.ftruncate(handle, length)
    for offset, count in places:
        os.pwrite(handle, bytes([1 + offset % 250]) * count, offset)
    os.close(handle)


# Holes of one page between two others have no page of the ciphertext to themselves.
TOO_SMALL = "every other page"
SHAPES = {
    "nothing": [],
    "the first page": [(0, PAGE)],
    "the last page": [(LENGTH - PAGE, PAGE)],
    TOO_SMALL: [(number * 2 * PAGE, PAGE) for number in range(LENGTH // PAGE // 2)],
    "every fourth page": [((number * 4 + 1) * PAGE, PAGE) for number in range(LENGTH // PAGE // 4)],
    "one byte in 64 KiB": [(number * 65536 + 4095, 1) for number in range(LENGTH // 65536)],
    "borders of the ciphertext": [(3932 + 4060 * number, 4060) for number in range(0, 250, 5)],
    "all": [(0, LENGTH)],
}


def test_aligned(environment):
    """Files of whole pages have the borders that they have below, where a hole is large enough; none has a border elsewhere."""
    mount = environment.mount()
    below = environment.new_path("below")
    os.mkdir(below)
    for letter in ("C", "A"):
        directory = mount / letter
        os.mkdir(directory)
        set_class(directory, letter)
        for name, places in SHAPES.items():
            path, plain = os.path.join(directory, name), os.path.join(below, name)
            write_at(path, places)
            write_at(plain, places)
            mount.sync()
            if name != TOO_SMALL:
                environment.cell(f"[{letter}, {name}] borders", shape(plain), shape(path))
            environment.cell(f"[{letter}, {name}] problems", [], problems(path, read_file(plain)))


def test_odd_holes(environment):
    """Writes and holes at odd places: no answer calls data a hole, goes back, or is between two blocks."""
    mount = environment.mount()
    choose = random.Random(21)
    for number in range(40 if environment.mode == "quick" else 400):
        path = mount / f"file{number}"
        length = choose.randrange(1, 60 * PAGE)
        model = bytearray(length)
        with open(path, "w+b", buffering=0) as file:
            os.ftruncate(file.fileno(), length)
            for _ in range(choose.randrange(1, 12)):
                offset = choose.randrange(length)
                count = min(length - offset, choose.choice((1, 100, 4060, PAGE, 3 * PAGE, 20_000)))
                kind = choose.choice(("write", "write", "zeros", "punch"))
                if kind == "punch":
                    os.fsync(file.fileno())
                    assert libc.fallocate(file.fileno(), PUNCH, offset, count) == 0, ctypes.get_errno()
                else:
                    content = bytes(count) if kind == "zeros" else choose.randbytes(count)
                    os.pwrite(file.fileno(), content, offset)
                model[offset:offset + count] = content if kind != "punch" else bytes(count)
        environment.cell(f"[file {number}] problems", [], problems(path, model))


def test_copied(environment):
    """What copies sparse files gives the same content, and the same holes again."""
    mount = environment.mount()
    target = environment.new_path("copies")
    os.mkdir(target)
    shapes = {**SHAPES, "odd": [(offset, 777) for offset in range(5, LENGTH - 777, 49_999)]}
    for name, places in shapes.items():
        path = mount / name
        write_at(path, places)
        content = read_file(path)
        copies = tools(environment, ("cp --sparse=always", "tar -cS", "rsync -S", "qemu-img convert", "copy_file_range"))
        for tool in copies:
            copy = mount / f"{name} by {tool}" if tool == "copy_file_range" else os.path.join(target, f"{name} by {tool}")
            if callable(TOOLS[tool]):
                TOOLS[tool](path, copy)
            else:
                run("sh", "-c", TOOLS[tool], "sh", path, copy)
            copied = read_file(copy)
            # qemu-img rounds a raw image up to 512 bytes.
            environment.cell(f"[{name}, {tool}] same content", True, copied[:LENGTH] == content and not copied[LENGTH:].strip(b"\0"))
            back = mount / f"{name} back"
            run("cp", "--sparse=always", copy, back)
            environment.cell(f"[{name}, {tool}] problems of the copy back", [], problems(back, copied))
            with contextlib.suppress(FileNotFoundError):
                os.unlink(back)
