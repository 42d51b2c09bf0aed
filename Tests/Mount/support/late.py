"""Late records: how a test makes one, and their state on the store."""

import contextlib
import glob
import os

import harness
import reader


def late_files(volume):
    return sorted(os.path.basename(path) for path in glob.glob(glob.escape(volume.path) + "/.protectfs.late.*"))


def listed(mount):
    return [name for name in os.listdir(mount.path) if "protectfs" in name]


def read_by_the_second_reader(volume):
    """(pieces by file ID, reports) of the late files on the store."""
    secondreader = reader.load()
    opened = reader.unlock(volume)
    with open(reader.state_file(volume), "rb") as file:
        state = secondreader.State(file.read())
    from secondreader.late import pending
    return pending(volume.path, opened.keys, state)[:2]


def lock_late(environment, case, label, sync=True):
    """Locks with the store frozen, and looks at what the calls said; a clean unmount has to do without the fsync."""
    said = case.lock()
    if said[case.kind] == "EACCES":
        raise AssertionError(f"{label}: the lock came before the change of class; the case was not reached: {said}")
    environment.cell(f"{label}: write", "works", said["write"])
    environment.cell(f"{label}: the change of class", "works", said[case.kind])
    environment.cell(f"{label}: lock's exit code", True, said["lock"] in (0, 10))
    environment.cell(f"{label}: the lock ended with the store frozen", True, said["ended while frozen"])
    if sync:
        environment.cell(f"{label}: fsync after the lock", "works", case.holder.ask("fsync"))
    case.finish_sweeping()
    # A change of class that ends after the lock leaves pages in the cache until the next sweep; where none comes, Linux
    # writes them back by itself after 30 s, and so would hide that.
    with contextlib.suppress(AssertionError):
        harness.wait_until(lambda: case.holder.ask("count", case.LENGTH, case.seed) == "EACCES", harness.PATIENCE / 8)
    environment.cell(f"{label}: reading while locked", "EACCES", case.holder.ask("count", case.LENGTH, case.seed))
    environment.cell(f"{label}: nothing of it in the root's listing", [], listed(case.mount))
    return said


def check_store(environment, case, label):
    """What fsync has promised is on the store, in the file or in a late record, sealed."""
    names = late_files(case.mount.volume)
    environment.cell(f"{label}: there is a late file", 1, len(names))
    pieces, reports = read_by_the_second_reader(case.mount.volume)
    environment.cell(f"{label}: the second reader reports nothing", [], reports)
    environment.cell(f"{label}: one file is in it", 1, len(pieces))
    wanted, found = harness.pattern(case.LENGTH, case.seed), 0
    for offset, data in (piece for own in pieces.values() for piece in own):
        environment.cell(f"{label}: record at {offset}", True, data == wanted[offset:offset + len(data)])
        found += len(data)
    print(f"        {label}: {found} bytes in {sum(map(len, pieces.values()))} late records", flush=True)
