"""Copies of files that are open for writing, whose data is only in the page cache: never a hole."""

import contextlib
import errno
import mmap
import os
import shutil
import subprocess
import threading
import time

from copying import SEEKING, TOOLS, at_once, copy, elsewhere, seek, tools
from harness import PAGE, PATIENCE, Skip, outcome, pattern, read_file, run, set_class, wait_until
from stores import store

MEGABYTE = 1 << 20
# Before, a seek in a file that is being written is answered EINVAL, as nothing can be waited for.
ANSWERS = tuple(int(part) for part in os.uname().release.split(".")[:2]) >= (6, 16)
# Data, a hole, data: what a copy may tell from zeros, and must not confuse. So much that flushing takes a while.
FIRST, HOLE, LAST = MEGABYTE, 60 * PAGE, MEGABYTE // 2
CONTENT = [pattern(FIRST, seed) + bytes(HOLE) + pattern(LAST, seed + 100) for seed in range(16)]


def write_all(handle, content, offset):
    while content:
        done = os.pwrite(handle, content, offset)
        content, offset = content[done:], offset + done


def dirty(path, seed):
    """A new file with CONTENT[seed], held open; nothing is synced."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
    write_all(handle, CONTENT[seed][:FIRST], 0)
    write_all(handle, CONTENT[seed][-LAST:], FIRST + HOLE)
    return handle


def target_of(name, place, source):
    """Within the mount where the call is one between two of its files."""
    return source + ".copy" if name == "copy_file_range" else os.path.join(place, os.path.basename(source) + ".copy")


def copied(environment, name, directory, count):
    """What is wrong with the copies of `count` files, made at the same time while all are held open."""
    place = environment.new_path("copies")
    os.makedirs(place)
    pairs = [(path, target_of(name, place, path)) for path in (os.path.join(directory, f"{seed}") for seed in range(count))]
    with elsewhere(lambda: [dirty(path, seed) for seed, (path, _) in enumerate(pairs)]):
        problems = copy(name, pairs)
        for seed, (_, target) in enumerate(pairs):
            if not problems and read_file(target) != CONTENT[seed]:
                problems.append(f"copy {seed} differs")
    shutil.rmtree(place)
    for entry in os.listdir(directory):
        os.unlink(os.path.join(directory, entry))
    return problems


def test_held_open(environment):
    """Each tool, 1 to 16 copies at once, on each class and on the file system below."""
    mount = environment.mount()
    others = [name for name in TOOLS if name not in SEEKING]
    plan = [("C", SEEKING, (1, 16)), ("C", others, (4,)), ("B", SEEKING, (16,)), ("A", SEEKING, (16,))]
    if environment.mode != "quick":
        plan += [("C", SEEKING, (4,)), ("C", others, (16,)), ("B", others, (1,)), ("A", others, (1,)), ("below", SEEKING, (4,))]
    for place, names, counts in plan:
        directory = mount / place if place != "below" else environment.new_path("below")
        os.makedirs(directory, exist_ok=True)
        if place != "below":
            set_class(directory, place)
        for name in tools(environment, names):
            for count in counts:
                environment.cell(f"[{place}, {name}, {count} at once]", [], copied(environment, name, directory, count))


def test_appended(environment):
    """Beside a writer that appends: what was there before is in the copy, and nothing that never was.

    Without tar -S: GNU tar 1.34 cannot extract a file with holes that grew between its look at the size and its search for
    them, whatever file system it was on.
    """
    mount = environment.mount()
    place = environment.new_path("copies")
    os.makedirs(place)
    content = pattern(64 * MEGABYTE, seed=7)
    for letter in "CBA":
        path = mount / f"growing-{letter}"
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o644))
        set_class(path, letter)
        size, handle = mmap.mmap(-1, 8), []

        def length():
            return int.from_bytes(size[:], "little")

        def append():
            begin = length()
            if begin < len(content) - 3 * PAGE:
                part = content[begin:begin + 3 * PAGE - 5]
                write_all(handle[0], part, begin)
                size[:] = (begin + len(part)).to_bytes(8, "little")

        with elsewhere(lambda: handle.append(os.open(path, os.O_RDWR)), append):
            for name in tools(environment, [name for name in TOOLS if name != "tar -cS"]):
                before = length()
                wait_until(lambda: length() > min(before + MEGABYTE // 4, len(content) - 4 * PAGE), what="some more")
                sure, target = length(), target_of(name, place, path)
                problems = copy(name, [(path, target)])
                environment.cell(f"[{letter}, {name}]", [], problems)
                found = read_file(target)
                environment.cell(f"[{letter}, {name}: what was there]", True, found[:sure] == content[:sure])
                # A whole page may be there before the size of it is; qemu-img fills up its last 512 bytes.
                end = len(found) - 511 if name.startswith("qemu") else len(found)
                environment.cell(f"[{letter}, {name}: nothing else]", True, found[:end] == content[:end])


def test_many_seeks(environment):
    """However many seeks wait, each is answered from all of its file, and other files go on."""
    if not ANSWERS:
        raise Skip("this kernel lets no seek wait")
    mount = environment.mount()
    amount = (4 if environment.mode == "quick" else 12) * MEGABYTE
    part = pattern(MEGABYTE)
    for letter in "CB":
        os.mkdir(mount / letter)
        set_class(mount / letter, letter)
        handles = [os.open(mount / f"{letter}/{number}", os.O_RDWR | os.O_CREAT, 0o644) for number in range(32)]
        for handle in handles:
            for offset in range(0, amount, MEGABYTE):
                write_all(handle, part, offset)
        answers, slowest, over = {}, {}, threading.Event()

        def ask(number):
            answers[number] = tuple(seek(handles[number], 0, whence) for whence in (os.SEEK_DATA, os.SEEK_HOLE))

        def others(path):
            slowest[path] = 0
            while not over.is_set():
                begun = time.monotonic()
                with open(path, "wb") as file:
                    file.write(b"other")
                os.unlink(path)
                slowest[path] = max(slowest[path], time.monotonic() - begun)
                time.sleep(0.001)
        # Other tests may keep the disk busy: the same is done below, at the same time.
        paths = (mount / "other", environment.new_path("other"))
        beside = [threading.Thread(target=others, args=(path,)) for path in paths]
        for thread in beside:
            thread.start()
        problems = at_once([lambda number=number: ask(number) for number in range(len(handles))])
        over.set()
        for thread in beside:
            thread.join()
        ours, below = (slowest[path] for path in paths)
        environment.cell(f"[{letter}: all of them]", ([], {(0, amount)}), (problems, set(answers.values())))
        # By itself it takes milliseconds; behind parked seeks it would take the ten seconds that they may wait.
        environment.cell(f"[{letter}: other files go on]", True, ours - below < 8)
        print(f"        class {letter}: 32 seeks at once; another file waited {ours:.2f} s at most, below {below:.2f} s", flush=True)
        for handle in handles:
            os.close(handle)


def test_big_and_small(environment):
    """The hole of a big dirty file is its end; and small files are copied whole while the big one is written back."""
    mount = environment.mount()
    amount = (256 if environment.mode == "quick" else 640) * MEGABYTE
    part = pattern(8 * MEGABYTE)
    place = environment.new_path("copies")
    os.makedirs(place)
    names = list(tools(environment, SEEKING))
    jobs = {name: [] for name in names}
    for seed in range(16):
        jobs[names[seed % len(names)]].append((mount / f"{seed}", os.path.join(place, f"{seed}")))

    def write():
        big = os.open(mount / "big", os.O_RDWR | os.O_CREAT, 0o644)
        for offset in range(0, amount, len(part)):
            write_all(big, part, offset)
        for seed in range(16):
            dirty(mount / f"{seed}", seed)

    found, problems = [], []

    def ask():
        try:
            return seek(os.open(mount / "big", os.O_RDONLY), 0, os.SEEK_HOLE)
        except OSError as error:
            return errno.errorcode[error.errno]

    def find_end():
        begun = time.monotonic()
        with elsewhere(ask) as answer:
            found.append(answer)
        print(f"        SEEK_HOLE with {amount // MEGABYTE} MiB dirty: {time.monotonic() - begun:.2f} s", flush=True)

    with elsewhere(write):
        seeker = threading.Thread(target=find_end)
        seeker.start()
        time.sleep(0.1)
        problems += at_once([lambda name=name: problems.extend(copy(name, jobs[name])) for name in names])
        seeker.join()
    problems += [f"{seed} differs" for seed in range(16)
                 if not problems and read_file(os.path.join(place, f"{seed}")) != CONTENT[seed]]
    environment.cell("[the big file's end]", [str(amount) if ANSWERS else "EINVAL"], found)
    environment.cell("[the small ones are copied whole]", [], problems)


def test_blocks(environment):
    """A file never seems to be nothing but a hole: not when it is new, and not before its first page is written."""
    mount = environment.mount()
    archive = environment.new_path("tar")
    with elsewhere(lambda: os.fstat(os.open(mount / "new", os.O_RDWR | os.O_CREAT, 0o644)).st_blocks > 0) as answer:
        environment.cell("[new]", "True", answer)
    with elsewhere(lambda: os.fstat(dirty(mount / "file", 0)).st_blocks > 0) as answer:
        environment.cell("[dirty]", ("True", True), (answer, os.stat(mount / "file").st_blocks > 0))
        run("tar", "-cSf", archive, "-C", mount.path, "file")
    environment.cell("[archived with its data]", True, os.path.getsize(archive) > FIRST + LAST)
    # A real hole stays one, for tar too.
    with open(mount / "hole", "wb") as file:
        file.truncate(64 * MEGABYTE)
    run("tar", "-cSf", archive, "-C", mount.path, "hole")
    environment.cell("[a hole is archived as one]", True, os.path.getsize(archive) < MEGABYTE)


def test_unlinked(environment):
    """What has no name is flushed all the same."""
    mount = environment.mount()
    target = environment.new_path("copy")
    for letter in "CBA":
        path = mount / letter

        def write():
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o644))
            set_class(path, letter)
            handle = os.open(path, os.O_RDWR)
            os.unlink(path)
            write_all(handle, CONTENT[5][:FIRST], 0)
            write_all(handle, CONTENT[5][-LAST:], FIRST + HOLE)
            return f"/proc/{os.getpid()}/fd/{handle}"

        for name in ("cp", "cp --sparse=always", "rsync -S", "dd", "shutil.copyfile"):
            with elsewhere(write) as source:
                problems = copy(name, [(source, target)])
            environment.cell(f"[{letter}, {name}]", ([], True), (problems, read_file(target) == CONTENT[5]))
            os.unlink(target)


def test_mapped(environment):
    """A page that was written through a mapping is data, also where the handle is a direct one."""
    mount = environment.mount()
    for letter in "CBA":
        path = mount / letter
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o644))
        set_class(path, letter)
        handle = os.open(path, os.O_RDWR)
        os.ftruncate(handle, 4 * MEGABYTE)
        try:
            memory = mmap.mmap(handle, 4 * MEGABYTE)
        except OSError as error:
            assert error.errno == errno.ENODEV
            environment.skip(f"[{letter}]", "this kernel maps no direct handles")
            os.close(handle)
            continue
        os.close(handle)
        memory[2 * MEGABYTE:2 * MEGABYTE + 5] = b"there"
        reader = os.open(path, os.O_RDONLY)
        found = []
        said = outcome(lambda: found.append(seek(reader, MEGABYTE, os.SEEK_DATA)))
        environment.cell(f"[{letter}]", True, found[0] <= 2 * MEGABYTE if found else said == "EINVAL" and not ANSWERS)
        environment.cell(f"[{letter}: read]", b"there", os.pread(reader, 5, 2 * MEGABYTE))
        os.close(reader)
        memory.close()


@contextlib.contextmanager
def freezing(place):
    """With a file system frozen. Who thaws it lives already: a new process would first have to close what is dirty."""
    script = 'fsfreeze -f "$1" && echo frozen; read line; fsfreeze -u "$1"; echo thawed'
    with subprocess.Popen(["sh", "-c", script, "sh", place], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as thawer:
        try:
            assert thawer.stdout.readline() == b"frozen\n"
            yield
        finally:
            thawer.stdin.write(b"\n")
            thawer.stdin.flush()
            thawer.stdout.readline()


def test_cannot_be_known(environment):
    """Where the store does not take what was written, a seek says that it cannot seek: never that there is a hole."""
    with store(environment) as below:
        mount = below.mount()
        handles = {}
        for letter in "CB":
            path = mount / letter
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o644))
            set_class(path, letter)
            handles[letter] = os.open(path, os.O_RDWR)
            write_all(handles[letter], b"first", 0)
            os.fsync(handles[letter])

        def answers():
            """In threads: nothing may be forked while closing a descriptor would hang."""
            asked, found = {"C": os.SEEK_DATA, "B": os.SEEK_HOLE}, {}
            at_once([lambda letter=letter: found.update(
                {letter: outcome(os.lseek, handles[letter], 2 * PAGE, asked[letter])}) for letter in handles])
            return set(found.values())

        if environment.mode != "quick":
            with freezing(below.backing):
                for handle in handles.values():
                    write_all(handle, CONTENT[1][:FIRST], PAGE)
                begun = time.monotonic()
                found, waited = answers(), time.monotonic() - begun
            environment.cell("[frozen]", ({"EINVAL"}, True), (found, waited < PATIENCE / 2))
            for handle in handles.values():
                os.fsync(handle)
            environment.cell("[thawed]", {"works" if ANSWERS else "EINVAL"}, answers())
        with open(below.backing + "/filler", "wb") as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(MEGABYTE))
        for handle in handles.values():
            write_all(handle, CONTENT[2][:FIRST], 2 * FIRST)
        environment.cell("[full]", {"EINVAL"}, {
            outcome(os.lseek, handle, 2 * FIRST, whence)
            for handle in handles.values() for whence in (os.SEEK_DATA, os.SEEK_HOLE)})
        # The flush that met the error has not taken it from the writers.
        time.sleep(0.1)
        environment.cell("[close says so]", ["ENOSPC"] * 2, [outcome(os.close, handle) for handle in handles.values()])
