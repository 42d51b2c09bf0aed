"""What each of the documents' examples does in each state: the table of test_porting_examples.py.

Derived from the rules of the classes: complete (A) is closed unless unlocked; complete unless open (B) can be created in every
state, and opened only while unlocked; until first unlock (C) is closed before the first unlock only; none (D) is always open.
"""

UNL, LCK, BFU = STATES = ("UNL", "LCK", "BFU")
A, B, C, D = ("NSFileProtection" + word for word in
              ("Complete", "CompleteUnlessOpen", "CompleteUntilFirstUserAuthentication", "None"))


def reading(kind):
    """Refused because the class is closed: 257, and isProtectedDataUnavailable."""
    return f"CocoaError 257 EACCES {kind} unavailable"


def writing(kind):
    """The same for writing: 513."""
    return f"CocoaError 513 EACCES {kind} unavailable"


class Row:
    """One example: the files that are there before, what it says, and the classes and contents that are there afterwards.

    before is {name: class letter}, each with its own name as content. says is {state: lines}; after {state: {name: (class
    letter, content)}}, with None for a file that must not be there and for a content that is not looked at.
    """

    def __init__(self, name, before="", says=None, after=None, words=()):
        self.name, self.says, self.after, self.words = name, says, after, words
        self.before = dict(pair.split(":") for pair in before.split())


def each(value):
    """The same in every state."""
    return dict.fromkeys(STATES, value)


def closed(unlocked, value):
    """One thing while unlocked, another in both other states."""
    return {UNL: unlocked, LCK: value, BFU: value}


def steps(**refused):
    """Lines of named steps: "ok", or as given."""
    return [f"{name.replace('_', ' ')}: {value or 'ok'}" for name, value in refused.items()]


def all_of(kinds, verb, refused):
    """Lines of one verb for the files a, b, c, d."""
    return [f"{letter} {verb}: {refused.get(letter, 'ok')}" for letter in kinds]


def files(refused):
    """Copying, moving and replacing a file of each class; refused is {verb: {letter: outcome}}."""
    return [line for letter in "abcd" for verb in ("copied", "moved", "replaced")
            for line in all_of(letter, verb, refused.get(verb, {}))]


def kept(refused_atomic, refused_in_place):
    """Writing files of each class without naming one."""
    return [line for letter in "abcd" for line in (all_of(letter, "atomic", refused_atomic)
                                                   + all_of(letter, "in place", refused_in_place))]


FOUR = "a:A b:B c:C d:D"
NOT_READABLE = ["try?: nil", "not readable now, error 257", "catch: nil", f"data: {reading(A)}", f"handle: {reading(A)}",
                f"string: {reading(A)}", "contents: nil"]
NSDATA_AFTER = {"nsdata.a": None, "nsdata.b": ("B", b"abc"), "nsdata.c": ("C", b"abc"), "nsdata.d": ("D", b"abc")}
NAMES = ("main.sqlite", "main.sqlite-shm", "main.sqlite-wal")

ROWS = [
    # 1: complete.
    Row("save", "existing:A", closed(steps(new="", existing=""), steps(new=writing(A), existing=writing(A))),
        closed({"new": ("A", b"new"), "existing": ("A", b"updated")}, {"new": None, "existing": ("A", b"existing")})),
    # 2: into a closed class nothing gets, and at BFU not even out of its own.
    Row("set", "existing:C", {UNL: ["set: ok"], LCK: [f"set: {writing(A)}"], BFU: [f"set: {writing(C)}"]},
        closed({"existing": ("A", b"existing")}, {"existing": ("C", b"existing")})),
    # 3: a directory's default can be set in every state; new files follow it.
    Row("directory", "", closed(steps(create="", note="", below=""), steps(create="", note=writing(A), below="")),
        closed({"private": ("A", None), "private/below": ("A", None), "private/note.txt": ("A", b"note")},
               {"private": ("A", None), "private/below": ("A", None), "private/note.txt": None})),
    # 5: until first unlock.
    Row("until", "token:C", {UNL: ["save: ok", "token: newer"], LCK: ["save: ok", "token: newer"],
                             BFU: [f"save: {writing(C)}", f"token: {reading(C)}"]},
        {UNL: {"token": ("C", b"newer")}, LCK: {"token": ("C", b"newer")}, BFU: {"token": ("C", b"token")}}),
    # 6: reading what is complete.
    Row("read", "existing:A", closed(["try?: existing", "catch: existing", "data: ok", "handle: ok", "string: ok",
                                      "contents: existing"], NOT_READABLE)),
    # 7: none.
    Row("thumbnail", "", each(["save: ok", "thumbnail: image"]), each({"thumbnail": ("D", b"image")})),
    # 8: the class can be asked for in every state.
    Row("check", FOUR, each(["a: only while unlocked", "b: opened while unlocked", "c: after the first unlock", "d: always"]),
        words=("a", "b", "c", "d")),
    # 9: complete, and read back.
    Row("user", "user.json:A", closed(["save: ok", "load: true"], [f"save: {writing(A)}", f"load: {reading(A)}"]),
        closed({"user.json": ("A", None)}, {"user.json": ("A", b"user.json")})),
    # 12: SQLite; its folder was made while unlocked by the same example.
    Row("database", "", {UNL: ["notes: 2", *(f"{name}: {C}" for name in NAMES)],
                         LCK: ["notes: 2", *(f"{name}: {C}" for name in NAMES)],
                         BFU: ["SQLite 14: unable to open database file"]},
        each({"database": ("C", None), "database/main.sqlite": ("C", None)})),
    # 13: lowering is refused where the old class is closed.
    Row("lower", "existing:A other:A", closed(steps(attributes="", option=""), steps(attributes=writing(A), option=writing(A))),
        closed({"existing": ("C", b"existing"), "other": ("D", b"lower")},
               {"existing": ("A", b"existing"), "other": ("A", b"other")})),
    # 14: no container anywhere.
    Row("ubiquity", "", each(["no container"])),
    # 15: as 2, by the URL.
    Row("resource", "existing:C", {UNL: ["set: ok", "complete: true"], LCK: [f"set: {writing(A)}", "complete: false"],
                                   BFU: [f"set: {writing(C)}", "complete: false"]},
        closed({"existing": ("A", b"existing")}, {"existing": ("C", b"existing")})),
    # 17: a form for each class; B's file is a new one.
    Row("nsdata", "", {UNL: [*steps(a="", b="", c="", d=""), "atomically: true", "on a directory: false"],
                       LCK: [*steps(a=writing(A), b="", c="", d=""), "atomically: true", "on a directory: false"],
                       BFU: [*steps(a=writing(A), b="", c=writing(C), d=""), "atomically: true", "on a directory: false"]},
        {UNL: {**NSDATA_AFTER, "nsdata.a": ("A", b"abc")}, LCK: NSDATA_AFTER, BFU: {**NSDATA_AFTER, "nsdata.c": None}}),

    # Beyond the documents. A file that is there keeps its class, also through .atomic, in every state that lets it be written;
    # a new file of class B can take the place of an old one that cannot be opened.
    Row("plain", FOUR, {
        UNL: kept({}, {}), LCK: kept({"a": writing(A)}, {"a": writing(A), "b": writing(B)}),
        BFU: kept({"a": writing(A), "c": writing(C)}, {"a": writing(A), "b": writing(B), "c": writing(C)})}, {
        UNL: {name: (name.upper(), b"in place") for name in "abcd"},
        LCK: {"a": ("A", b"a"), "b": ("B", b"atomic"), "c": ("C", b"in place"), "d": ("D", b"in place")},
        BFU: {"a": ("A", b"a"), "b": ("B", b"atomic"), "c": ("C", b"c"), "d": ("D", b"in place")}},
        words=("a", "b", "c", "d")),
    # A copy needs both ends, a move needs neither, a replacement needs the class that is replaced.
    Row("files", FOUR, {
        UNL: [*files({}), "left over: false"],
        LCK: [*files({"copied": {"a": reading(A), "b": reading(B)}, "replaced": {"a": writing(A)}}), "left over: false"],
        BFU: [*files({"copied": {"a": reading(A), "b": reading(B), "c": reading(C)},
                      "replaced": {"a": writing(A), "c": writing(C)}}), "left over: false"]}, {
        UNL: {**{f"{name}.copied": (name.upper(), name.encode()) for name in "abcd"},
              **{f"{name}.moved": (name.upper(), b"new") for name in "abcd"}},
        LCK: {"a.copied": None, "b.copied": None, "c.copied": ("C", b"c"), "d.copied": ("D", b"d"), "a.moved": ("A", b"a"),
              "b.moved": ("B", b"new"), "c.moved": ("C", b"new"), "d.moved": ("D", b"new")},
        BFU: {"a.copied": None, "b.copied": None, "c.copied": None, "d.copied": ("D", b"d"), "a.moved": ("A", b"a"),
              "b.moved": ("B", b"new"), "c.moved": ("C", b"c"), "d.moved": ("D", b"new")}},
        words=("a", "b", "c", "d")),
    # A class together with other attributes. Out of class B nothing gets while it is closed, and nothing else is changed then.
    Row("attributes", "", closed(
        ["created: true", "set: ok", D, "400 true", "wrong value: “7” is not a protection class"],
        ["created: true", f"set: {writing(B)}", B, "640 false", "wrong value: “7” is not a protection class"])),
]
