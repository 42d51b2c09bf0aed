"""Copies of files that are open for writing, with what was written in the kernel's page cache only: never a hole."""

import contextlib
import errno
import mmap
import os
import shutil
import subprocess
import threading
import time

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


def by_descriptors(copy):
    """A copy by a call that takes two descriptors, until it gives 0."""
    def act(source, target):
        with open(source, "rb") as one, open(target, "wb") as other:
            while copy(one.fileno(), other.fileno()):
                pass
    return act


def splice(source, target):
    ends = os.pipe()
    try:
        def once(one, other):
            count = os.splice(one, ends[1], 1 << 16)
            left = count
            while left:
                left -= os.splice(ends[0], other, left)
            return count
        by_descriptors(once)(source, target)
    finally:
        for end in ends:
            os.close(end)


# Scripts for the shell, with the source and the target; or functions.
TOOLS = {
    "cp": 'cp "$1" "$2"',
    "cp --sparse=always": 'cp --sparse=always "$1" "$2"',
    # 1: the file grew while it was read, which is so where a writer appends.
    "tar -cS": '{ tar -C "${1%/*}" -cSf "$2.tar" "${1##*/}" 2>"$2.said" || [ $? = 1 ]; } && tar -xOf "$2.tar" >"$2"',
    "tar -c": '{ tar -C "${1%/*}" -cf "$2.tar" "${1##*/}" 2>"$2.said" || [ $? = 1 ]; } && tar -xOf "$2.tar" >"$2"',
    "qemu-img convert": 'qemu-img convert -f raw -O raw "$1" "$2"',
    "rsync -S": 'rsync -LS "$1" "$2"',
    "dd": 'dd if="$1" of="$2" bs=64k status=none',
    "shutil.copyfile": shutil.copyfile,
    "sendfile": by_descriptors(lambda one, other: os.sendfile(other, one, None, 1 << 18)),
    "splice": splice,
    "copy_file_range": by_descriptors(lambda one, other: os.copy_file_range(one, other, 1 << 24)),
}
# Those that ask where the holes are.
SEEKING = ("cp", "cp --sparse=always", "tar -cS", "qemu-img convert")


def tools(environment, names=TOOLS):
    for name in names:
        if name.startswith("qemu-img") and not shutil.which("qemu-img"):
            environment.skip(f"[{name}]", "qemu-utils is not installed")
        elif name != "splice" or hasattr(os, "splice"):
            yield name


def copy(name, pairs):
    """Copies each (source, target), all at the same time; what went wrong."""
    tool = TOOLS[name]
    if callable(tool):
        return at_once([lambda pair=pair: tool(*pair) for pair in pairs])
    words = ["xargs", "-P", str(len(pairs)), "-n", "2", "sh", "-c", tool, "sh"]
    done = subprocess.run(words, input="\n".join(" ".join(pair) for pair in pairs), capture_output=True, text=True,
                          timeout=PATIENCE)
    return [] if done.returncode == 0 else [done.stderr]


def at_once(actions):
    """Runs all at the same time; what went wrong."""
    problems, ready = [], threading.Barrier(len(actions))

    def act(action):
        ready.wait()
        try:
            action()
        except Exception as error:  # noqa: a thread's failure would be lost
            problems.append(repr(error))
    threads = [threading.Thread(target=act, args=(action,)) for action in actions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return problems


def target_of(name, place, source):
    """Within the mount where the call is one between two of its files."""
    return source + ".copy" if name == "copy_file_range" else os.path.join(place, os.path.basename(source) + ".copy")


def copied(environment, name, directory, count):
    """What is wrong with the copies of `count` files, made at the same time while all are held open."""
    place = environment.new_path("copies")
    os.makedirs(place)
    pairs = [(path, target_of(name, place, path)) for path in (os.path.join(directory, f"{seed}") for seed in range(count))]
    with contextlib.ExitStack() as held:
        for seed, (path, _) in enumerate(pairs):
            held.callback(os.close, dirty(path, seed))
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
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        set_class(path, letter)
        os.close(handle)
        handle = os.open(path, os.O_RDWR)
        size, ends = [0], threading.Event()

        def append():
            while not ends.is_set() and size[0] < len(content) - 3 * PAGE:
                part = content[size[0]:size[0] + 3 * PAGE - 5]
                os.pwrite(handle, part, size[0])
                size[0] += len(part)
                time.sleep(0.0005)
        writer = threading.Thread(target=append)
        writer.start()
        try:
            for name in tools(environment, [name for name in TOOLS if name != "tar -cS"]):
                before = size[0]
                wait_until(lambda: size[0] > before + MEGABYTE // 4, what="some more")
                sure, target = size[0], target_of(name, place, path)
                problems = copy(name, [(path, target)])
                environment.cell(f"[{letter}, {name}]", [], problems)
                found = read_file(target)
                environment.cell(f"[{letter}, {name}: what was there]", True, found[:sure] == content[:sure])
                # A whole page may be there before the size of it is; qemu-img fills up its last 512 bytes.
                end = len(found) - 511 if name.startswith("qemu") else len(found)
                environment.cell(f"[{letter}, {name}: no more than was written]", True,
                                 end <= size[0] and found[:end] == content[:end])
        finally:
            ends.set()
            writer.join()
            os.close(handle)


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
        answers, slowest, over = {}, [0], threading.Event()

        def seek(number):
            answers[number] = (os.lseek(handles[number], 0, os.SEEK_DATA), os.lseek(handles[number], 0, os.SEEK_HOLE))

        def others():
            while not over.is_set():
                begun = time.monotonic()
                with open(mount / "other", "wb") as file:
                    file.write(b"other")
                os.unlink(mount / "other")
                slowest[0] = max(slowest[0], time.monotonic() - begun)
        beside = threading.Thread(target=others)
        beside.start()
        problems = at_once([lambda number=number: seek(number) for number in range(len(handles))])
        over.set()
        beside.join()
        environment.cell(f"[{letter}: all of them]", ([], {(0, amount)}), (problems, set(answers.values())))
        # By itself it takes milliseconds; behind parked seeks it would take the ten seconds that they may wait.
        environment.cell(f"[{letter}: other files go on]", True, slowest[0] < 5)
        print(f"        class {letter}: 32 seeks at once; another file waited {slowest[0]:.2f} s at most", flush=True)
        for handle in handles:
            os.close(handle)


def test_big_and_small(environment):
    """The hole of a big dirty file is its end; and small files are copied whole while the big one is written back."""
    mount = environment.mount()
    amount = (256 if environment.mode == "quick" else 640) * MEGABYTE
    part = pattern(8 * MEGABYTE)
    big = os.open(mount / "big", os.O_RDWR | os.O_CREAT, 0o644)
    for offset in range(0, amount, len(part)):
        write_all(big, part, offset)
    place = environment.new_path("copies")
    os.makedirs(place)
    names = list(tools(environment, SEEKING))
    jobs, problems, found, begun = {name: [] for name in names}, [], [], time.monotonic()
    with contextlib.ExitStack() as held:
        for seed in range(16):
            path = mount / f"{seed}"
            held.callback(os.close, dirty(path, seed))
            jobs[names[seed % len(names)]].append((path, os.path.join(place, f"{seed}")))

        def seek():
            with contextlib.nullcontext() if ANSWERS else contextlib.suppress(OSError):
                found.append(os.lseek(big, 0, os.SEEK_HOLE))
            print(f"        SEEK_HOLE with {amount // MEGABYTE} MiB dirty: {time.monotonic() - begun:.2f} s", flush=True)

        problems += at_once([seek] + [lambda name=name: problems.extend(copy(name, jobs[name])) for name in names])
        problems += [f"{seed} differs" for seed in range(16)
                     if not problems and read_file(os.path.join(place, f"{seed}")) != CONTENT[seed]]
    environment.cell("[the big file's end]", [amount] if ANSWERS else [], found)
    environment.cell("[the small ones are copied whole]", [], problems)
    os.close(big)


def test_blocks(environment):
    """A file never seems to be nothing but a hole: not when it is new, and not before its first page is written."""
    mount = environment.mount()
    path = mount / "file"
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    environment.cell("[new]", True, os.stat(path).st_blocks > 0)
    write_all(handle, CONTENT[0], 0)
    environment.cell("[dirty]", True, os.stat(path).st_blocks > 0 and os.fstat(handle).st_blocks > 0)
    archive = environment.new_path("tar")
    run("tar", "-cSf", archive, "-C", mount.path, "file")
    environment.cell("[archived with its data]", True, os.path.getsize(archive) > FIRST + LAST)
    os.close(handle)
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
        for name in ("cp", "cp --sparse=always", "rsync -S", "dd", "shutil.copyfile"):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o644))
            set_class(path, letter)
            handle = os.open(path, os.O_RDWR)
            os.unlink(path)
            write_all(handle, CONTENT[5][:FIRST], 0)
            write_all(handle, CONTENT[5][-LAST:], FIRST + HOLE)
            source = f"/proc/{os.getpid()}/fd/{handle}"
            environment.cell(f"[{letter}, {name}]", ([], True),
                             (copy(name, [(source, target)]), read_file(target) == CONTENT[5]))
            os.unlink(target)
            os.close(handle)


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
        said = outcome(lambda: found.append(os.lseek(reader, MEGABYTE, os.SEEK_DATA)))
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
        # The flush that found out has not taken the error from those who wrote.
        time.sleep(0.1)
        environment.cell("[close says so]", ["ENOSPC"] * 2, [outcome(os.close, handle) for handle in handles.values()])
