"""Programs create, save, append, truncate and change classes across locks and unlocks: no acknowledged write is lost."""

import errno
import os
import random
import struct
import time

import hammer
from harness import get_class, outcome, pattern, protectfs, read_file, set_class, write_file

SWEEPING = 10
RECORD = struct.Struct("<Q92s")


def closed(error):
    return error.errno == errno.EACCES


class Counter:
    """A number in memory that the processes share: what the program was told last, and what it has tried last."""

    def __init__(self):
        self.slots = hammer.Slots("", 1, 16)

    def attempt(self):
        return self.slots.attempt(0)

    def succeed(self, number):
        self.slots.succeed(0, number)

    @property
    def told(self):
        return self.slots.succeeded(0)

    @property
    def tried(self):
        return self.slots.attempted(0)


def body(number):
    return pattern(5000 + number % 7 * 1000, seed=number)


def save(gang, mount, name, counter):
    """Writes a new file and renames it over a class A one."""
    while not gang.stopping:
        number = counter.attempt()
        try:
            write_file(mount / (name + ".new"), body(number), os.O_TRUNC)
            os.rename(mount / (name + ".new"), mount / name)
            counter.succeed(number)
        except OSError as error:
            if not closed(error):
                gang.complain(f"save: {error}")
            time.sleep(0.002)


def create(gang, mount, directory, counter):
    """Creates class B files, which works in every state."""
    while not gang.stopping:
        number = counter.attempt()
        try:
            write_file(os.path.join(directory, str(number)), body(number))
            counter.succeed(number)
        except OSError as error:
            gang.complain(f"create: {error}")
        time.sleep(0.01)


def append(gang, path, counter, handle):
    """Appends records; one that is refused is tried again."""
    number = 1
    while not gang.stopping:
        try:
            count = os.write(handle, RECORD.pack(number, b"%d" % number))
            if count != RECORD.size:
                gang.complain(f"short append: {count}")
            counter.succeed(number)
            number += 1
        except OSError as error:
            if not closed(error):
                gang.complain(f"append: {error}")
            time.sleep(0.002)


def cut(gang, handle, counter):
    """Cuts its file to nothing and writes it anew through one handle, class A."""
    while not gang.stopping:
        number = counter.attempt()
        try:
            os.ftruncate(handle, 0)
            content = body(number)
            if os.pwrite(handle, content, 0) != len(content):
                gang.complain("short write")
            counter.succeed(number)
        except OSError as error:
            if not closed(error):
                gang.complain(f"cut: {error}")
            time.sleep(0.002)


def flip(gang, path):
    """Changes a file's class while others write it."""
    while not gang.stopping:
        try:
            set_class(path, random.choice("ABCD"))
        except OSError as error:
            if not closed(error):
                gang.complain(f"class: {error}")
        time.sleep(random.random() * 0.02)


def look(gang, mount):
    """What works always."""
    while not gang.stopping:
        try:
            for entry in os.scandir(mount.path):
                if not entry.name.endswith(".new"):
                    entry.stat()
                    if entry.is_file():
                        get_class(entry.path)
        except FileNotFoundError:
            pass
        except OSError as error:
            gang.complain(f"look: {error}")
        time.sleep(0.005)


def test_churn(environment):
    mount = environment.mount()
    gang = hammer.Gang()
    held = []
    for name in ("saved", "cut"):
        write_file(mount / name, body(0))
        set_class(mount / name, "A")
    os.mkdir(mount / "b")
    set_class(mount / "b", "B")
    saved, created, cuts, direct, cached = (Counter() for _ in range(5))
    gang.start(lambda: save(gang, mount, "saved", saved), nice=5)
    gang.start(lambda: create(gang, mount, mount / "b", created), nice=5)
    held.append(os.open(mount / "cut", os.O_RDWR))
    gang.start(lambda: cut(gang, held[-1], cuts), nice=5)
    for name, counter in (("direct", direct), ("cached", cached)):
        write_file(mount / name, b"")
        if name == "direct":
            set_class(mount / name, "A")
        held.append(os.open(mount / name, os.O_WRONLY | os.O_APPEND))
        set_class(mount / name, "A")
        gang.start(lambda: append(gang, mount / name, counter, held[-1]), nice=10)
    flipped = hammer.Slots(mount / "flipped", 16, 1024)
    flipped.prepare()
    for share in range(2):
        held.append(os.open(flipped.path, os.O_RDWR))
        gang.start(lambda: hammer.writer(gang, flipped, range(share, 16, 2), held[-1], True), nice=10)
    gang.start(lambda: flip(gang, flipped.path), nice=5)
    gang.start(lambda: look(gang, mount), nice=5)
    try:
        for _ in range(600 if environment.mode == "full" else 20):
            # A niced writer that has no processor may hold a page for longer than a lock waits: told as what it is.
            code = mount.command("lock", mount.path, ok=False).returncode
            assert code in (0, SWEEPING), code
            mount.command("wait", "--locked", mount.path)
            time.sleep(0.02)
            mount.unlock()
            time.sleep(0.05)
    finally:
        complaints = gang.finish()
    environment.cell("[complaints]", [], complaints[:10])

    def check(title):
        found = read_file(mount / "saved")
        environment.cell(f"[{title}: saved]", True, any(
            found == body(number) for number in range(saved.told, saved.tried + 1)))
        environment.cell(f"[{title}: saved keeps its class]", "complete", get_class(mount / "saved"))
        lost = [number for number in range(1, created.told + 1)
                if read_file(mount / f"b/{number}") != body(number)]
        environment.cell(f"[{title}: created while locked]", [], lost[:5])
        found = read_file(mount / "cut")
        environment.cell(f"[{title}: cut and written]", True, found == body(cuts.told) or (
            cuts.tried > cuts.told and (found == b"" or any(
                found == body(number) for number in range(cuts.told, cuts.tried + 1)))))
        for name, counter in (("direct", direct), ("cached", cached)):
            found = read_file(mount / name)
            numbers = [RECORD.unpack_from(found, place)[0] for place in range(0, len(found) - RECORD.size + 1, RECORD.size)]
            # A writer asleep in write(2) until after the lock leaves zeros, or nothing; fsync told it. None was seen here.
            environment.cell(f"[{title}: appended, {name}]", [], [
                (place, number) for place, number in enumerate(numbers) if number != place + 1][:5])
            environment.cell(f"[{title}: appended, {name}: all]", True, len(numbers) in (counter.told, counter.told + 1))
        environment.cell(f"[{title}: slots of changing classes]", [], flipped.check()[:5])

    print(f"        told: saved {saved.told}, created {created.told}, cut {cuts.told}, appended {direct.told} and "
          f"{cached.told}, slots {flipped.total}, late {gang.told.value}", flush=True)
    for handle in held:
        environment.cell("[fsync]", "works", outcome(os.fsync, handle))
        os.close(handle)
    check("after the last unlock")
    mount = environment.remount(mount)
    check("mounted again")
    mount.unmount()
    done = protectfs("fsck", "--json", "--recovery-file", mount.volume.code_file, mount.volume.path,
                     env=mount.volume.environment, ok=False)
    environment.cell("[fsck]", (0, ""), (done.returncode, done.stderr.strip()))
