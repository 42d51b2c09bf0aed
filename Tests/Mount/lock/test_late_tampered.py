"""Late files that an attacker has made or changed: none is applied, and each is reported."""

import errno
import os
import shutil

import harness
import reader
from checks import fsck
from foreground import Foreground

FIRST = 1_700_000_000_000_000  # the first lock number; each case has its own
SIZE = 20_000
MOST = 60  # of the 64 lock numbers that a state file lists


class Cases:
    """A class A file and a late file for each case; the late files come from the second reader's signing functions."""

    def __init__(self, environment, count):
        self.environment = environment
        self.secondreader = reader.load()
        mount = environment.mount()
        self.volume = mount.volume
        for number in range(count):
            self.make(mount, self.name(number), number)
        self.make(mount, "beside", 1000)
        mount.unmount()
        opened = reader.unlock(self.volume)
        self.keys = self.secondreader.LateKeys.of(opened.keys)
        self.ids = [opened.file(opened.backing_path(self.name(number))).id for number in range(count)]
        self.wanted, self.labels = {"beside": self.old(1000)}, {"beside": "no late file"}
        self.locks, self.reported = [], {}

    @staticmethod
    def name(number):
        return f"file {number}"

    @staticmethod
    def old(number):
        return harness.pattern(SIZE, seed=2000 + number)

    def make(self, mount, name, number):
        harness.write_file(mount / name, self.old(number))
        harness.set_class(mount / name, "A")

    def entries(self, number):
        """Three records over the old contents: in the middle, over a border, and past the end."""
        new, identifier = harness.pattern(SIZE, seed=number), self.ids[number]
        return [(identifier, 4096, new[:4096]), (identifier, 100, new[:8000]), (identifier, SIZE - 10, new[:500])]

    def good(self, number, lock=None):
        from secondreader import latewriter
        return latewriter.make_late(self.keys, FIRST + (number if lock is None else lock), self.entries(number))

    def put(self, number, data, count, label, listed=True, done=0, reported=None):
        """Case `number`: its late file, and how many of the three records count."""
        from secondreader.late import Late, name_of, overlay
        name = name_of(FIRST + number)
        with open(os.path.join(os.fsencode(self.volume.path), name), "wb") as file:
            file.write(data)
        if listed:
            self.locks.append((FIRST + number, done))
        pieces = [entry[1:] for entry in self.entries(number)[:count or 0]]
        self.wanted[self.name(number)] = overlay(self.old(number), pieces)
        self.labels[self.name(number)] = label
        if reported is None:
            try:
                reported = Late(self.keys, data, FIRST + number).end is not None
            except self.secondreader.Refused:
                reported = True
        if reported:
            self.reported[name.decode()] = f"{self.name(number)}, {label}"

    def list_locks(self):
        """Enters the lock numbers into the state file, as the machine that made the records would have."""
        from secondreader.state import with_open_locks
        path = reader.state_file(self.volume)
        with open(path, "rb") as file:
            state = file.read()
        with open(path, "wb") as file:
            file.write(with_open_locks(state, self.locks))

    def compare(self, mount, when, contents=None):
        for name, wanted in (contents or self.wanted).items():
            try:
                found = harness.read_file(mount / name)
            except OSError as error:
                found = errno.errorcode[error.errno]
            what = "as it should be" if found == wanted else found if isinstance(found, str) else self.describe(name, found)
            self.environment.cell(f"{when}: {name}, {self.labels[name]}", "as it should be", what)

    def describe(self, name, found):
        if name == "beside" or found == self.old(int(name.split()[1])):
            return f"the old contents, {len(found)} bytes"
        return f"other contents, {len(found)} bytes"

    def copy(self):
        """The volume with its device key and state file, once more."""
        place = self.environment.new_path("copy")
        shutil.copytree(self.volume.path, place + "/volume", symlinks=True)
        shutil.copytree(self.volume.data, place + "/data", symlinks=True)
        harness.forget_store(place + "/data")
        return harness.Volume(place + "/volume", place + "/data", self.volume.code_file, self.volume.passphrase_file)


def unlocked(environment, volume):
    return Foreground(environment, volume, "--recovery-file", volume.code_file)


def judge(environment, cases):
    """The same volume mounted, and first checked by fsck; nothing false is applied either way, and each is told of."""
    cases.list_locks()
    checked = cases.copy()
    with unlocked(environment, cases.volume) as mount:
        environment.cell("nothing is listed in the root", [], [name for name in os.listdir(mount.path) if "protectfs" in name])
        cases.compare(mount, "unlocked")
        said = mount.said()
    for name, label in cases.reported.items():
        environment.cell(f"the log tells of {label}", True, name in said)
    # What was not applied is not applied later either; nor what was, over what the file got since.
    since = {}
    with unlocked(environment, cases.volume) as mount:
        cases.compare(mount, "mounted again")
        for name, wanted in cases.wanted.items():
            harness.write_file(mount / name, b"changed since")
            since[name] = b"changed since" + wanted[13:]
    with unlocked(environment, cases.volume) as mount:
        cases.compare(mount, "changed since", since)
    done = fsck(checked, "--json", "--recovery-file", checked.code_file)
    for name, label in cases.reported.items():
        environment.cell(f"fsck tells of {label}", True, name in done.stdout)
    with unlocked(environment, checked) as mount:
        cases.compare(mount, "after fsck")


def in_batches(environment, source, every=1):
    """source(cases, number) gives what can be made of case `number`'s late file: (label, bytes, records that count)."""
    total = len(source(Cases(environment, 1), 0))
    chosen = list(range(0, total, every))
    for at in range(0, len(chosen), MOST):
        batch = chosen[at:at + MOST]
        cases = Cases(environment, len(batch))
        for number, which in enumerate(batch):
            label, data, count = source(cases, number)[which]
            cases.put(number, data, count, label)
        judge(environment, cases)


def every_manipulation(cases, number):
    from secondreader import latewriter
    stranger = latewriter.other_keys(cases.keys)
    foreign = latewriter.make_late(stranger, FIRST + number, cases.entries(number))
    return list(latewriter.manipulations(cases.keys, cases.good(number), foreign, cases.good(number, 5000)))


def test_manipulated(environment):
    """Forged, reordered, repeated and foreign records, and each field changed."""
    in_batches(environment, every_manipulation)


def test_cut(environment):
    """A late file that ends anywhere: the records that are whole count."""
    from_the_writer = lambda cases, number: list(latewriter().cuts(cases.keys, cases.good(number)))
    in_batches(environment, from_the_writer, every=5 if environment.mode == "quick" else 1)


def latewriter():
    reader.load()
    from secondreader import latewriter as found
    return found


def test_rules_of_the_state_file(environment):
    """What counts is what the state file lists, and with all the done records that it counts."""
    labels = ["good", "not listed", "a done record is listed that is not there", "the first two records are done",
              "all is done", "under another number"]
    cases = Cases(environment, len(labels))
    make = latewriter().make_late
    good, identifier = cases.good, cases.ids
    cases.put(0, good(0), 3, labels[0])
    cases.put(1, good(1), 0, labels[1], listed=False, reported=True)
    cases.put(2, good(2), 0, labels[2], done=1, reported=True)
    entries = cases.entries(3)
    cases.put(3, make(cases.keys, FIRST + 3, entries[:2] + [(identifier[3],)] + entries[2:]), 0, labels[3], done=1)
    from secondreader.late import overlay
    cases.wanted[cases.name(3)] = overlay(cases.old(3), [entries[2][1:]])
    cases.put(4, make(cases.keys, FIRST + 4, cases.entries(4) + [(identifier[4],)]), 0, labels[4], done=1)
    cases.put(5, good(5, 5000), 0, labels[5])
    judge(environment, cases)


def test_no_state_file(environment):
    """Where this machine remembers nothing, every late file counts, in the order of the numbers."""
    cases = Cases(environment, 2)
    # The second late file is about the first file too, and written over what the first one says.
    make = latewriter().make_late
    cases.put(0, cases.good(0), 3, "the lower number")
    identifier, offset, data = cases.ids[0], 4000, b"later" * 20
    cases.put(1, make(cases.keys, FIRST + 1, [(identifier, offset, data)]), 0, "of the other file only")
    from secondreader.late import overlay
    cases.wanted[cases.name(0)] = overlay(cases.wanted[cases.name(0)], [(offset, data)])
    os.unlink(reader.state_file(cases.volume))
    with unlocked(environment, cases.volume) as mount:
        cases.compare(mount, "without a state file")
    with unlocked(environment, cases.volume) as mount:
        cases.compare(mount, "mounted again")


def test_put_back(environment):
    """A late file that was used is put back, with the state file as it is now: it is not used again."""
    cases = Cases(environment, 3)
    for number in range(3):
        cases.put(number, cases.good(number), 3, "used")
    cases.list_locks()
    saved = cases.copy()
    with unlocked(environment, cases.volume) as mount:
        cases.compare(mount, "used")
    left = [name for name in os.listdir(cases.volume.path) if name.startswith(".protectfs.late.")]
    environment.cell("late files once all were opened", [], left)
    from secondreader.late import late_names
    for when in ("put back", "put back, and changed since"):
        for _, path in late_names(saved.path):
            shutil.copy(path, os.fsencode(cases.volume.path))
        with unlocked(environment, cases.volume) as mount:
            cases.compare(mount, when)
            for number, path in late_names(saved.path):
                environment.cell(f"{when}: the log tells of {number - FIRST}", True, os.path.basename(path).decode() in mount.said())
            for name in cases.wanted:
                harness.write_file(mount / name, b"changed since")
                cases.wanted[name] = b"changed since" + cases.wanted[name][13:]
    done = fsck(cases.volume, "--json", "--recovery-file", cases.volume.code_file)
    for _, path in late_names(saved.path):
        name = os.path.basename(path).decode()
        environment.cell(f"fsck tells of {name[-4:]}", True, name in done.stdout)


for each in (test_manipulated, test_cut):
    each.time_limit = 1800
