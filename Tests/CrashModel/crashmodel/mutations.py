"""Wrong variations of the rules. The model must catch each; without that its "no violation" would say nothing.

Each is tried with the few operations and starts that show it. The right rules must hold with the same operations.
"""

from collections import namedtuple

from . import epochs, pages as p, reader, rules
from .attack import Attacks
from .explore import Exploration, Violation, explain
from .starts import closed, new_file

# `part` is "file" for a file on a store that keeps order, "no order" for one on another store, "attack", or "epochs".
Trial = namedtuple("Trial", "rule operations starts depth part", defaults=("file",))

FAR = ("write", 7, 1)
WHOLE = ("write", 0, 8)
ALL = ("punch", 0, 8)
FULL = ("full", -1, 3, 1, False)
UNMOUNT, CHECK, FSYNC, MEND = ("unmount",), ("check",), ("fsync",), ("mend",)


def cut(size):
    """A truncation."""
    return ("truncate", size)


NEW, THREE, FIVE, SIX, EIGHT = [new_file()], [closed(3)], [closed(5)], [closed(6)], [closed(8)]
SPARSE = [closed(7, p.HOLES, (1, 2))]

CAUGHT = [
    # The reader (6.4).
    Trial("tolerance without an epoch", [("append", 3), UNMOUNT], THREE, 2, "attack"),
    Trial("tolerance by page 0 alone", [("write", 5, 1)], THREE, 1),
    Trial("tolerance by the last page alone", [cut(3)], FIVE, 1),
    Trial("R1 without page 0's epoch", [cut(0)], THREE, 1),
    Trial("R1 without the last page's epoch", [("write", 1, 2)], [closed(0)], 1),
    Trial("R1 believes a page that does not verify", [("append", 1), UNMOUNT], [closed(0)], 2, "attack"),
    Trial("R2 stops at a zero page", [("append", 3)], NEW, 1),
    Trial("R3 asks for an epoch", [("write", 5, 1)], THREE, 1),
    Trial("another length asks for an epoch", [cut(7)], EIGHT, 1),
    Trial("R3 believes B though P says LAST", [("write", 5, 1)], THREE, 1),
    Trial("R3 with HOLES ends with P", [cut(3)], SPARSE, 1),
    # Epochs (6.2).
    Trial("the epoch is not listed", [("write", 1, 2)], [closed(0)], 1),
    Trial("epochs are closed before the sync", [("append", 3), UNMOUNT], THREE, 2),
    Trial("an unmount closes all epochs", [("append", 3), UNMOUNT], NEW, 2),
    Trial("a header without space is forgotten", [("unmount without space",)], NEW, 1),
    Trial("the mount forgets that its epoch stays open", [("reopen without space",)], NEW, 1),
    Trial("an end that failed is forgotten", [("full", -1, 3, 1, True)], NEW, 1),
    Trial("an epoch by the clock alone", [], [], 3, "epochs"),
    Trial("the highest epoch of those that are listed", [], [], 3, "epochs"),
    Trial("the highest epoch is not written", [], [], 3, "epochs"),
    Trial("epochs begin again", [], [], 8, "epochs"),
    # Write orders (6.3).
    Trial("nothing is marked", [cut(3)], FIVE, 1),
    Trial("a mark is not synced", [cut(3)], FIVE, 1),
    Trial("a cut in one call", [("write", 1, 2)], [closed(1)], 2),
    Trial("new pages before the length", [("append", 3)], [closed(2, p.HOLES)], 1),
    Trial("holes behind the end without HOLES", [("write", 5, 1)], NEW, 1),
    Trial("no cut after space ran out", [FULL], [closed(2)], 1),
    Trial("the old end is not restored", [FULL], [closed(0)], 1),
    Trial("cut before page 0", [cut(0)], THREE, 1),
    Trial("page 0 is not synced before the cut", [cut(0)], THREE, 1),
    Trial("the new end is not made firm while the middle waits", [WHOLE, cut(3)], NEW, 2),
    Trial("a firm end is not synced", [WHOLE, cut(3)], NEW, 2),
    Trial("a punch without HOLES", [ALL], FIVE, 1),
    Trial("HOLES after the punch", [ALL, ("append", 2)], FIVE, 2),
    Trial("HOLES is not synced before a punch", [ALL, ("append", 2)], FIVE, 2),
    Trial("HOLES of an earlier write is not synced before a punch", [("write", 0, 1), FAR, ALL], THREE, 3),
    Trial("a file that grew is not marked before a punch", [FAR, ALL], [closed(5, p.HOLES, (1,))], 2),
    Trial("a stronger class without KEY_EXPOSED", [("class", p.STRONG)], [closed(1)], 1),
    Trial("a stronger class is not synced", [("class", p.STRONG)], [closed(0)], 1),
    # The table of seen versions (4.3).
    Trial("the table knows what is not durable", [("write", 0, 1)], THREE, 1),
    # Mending (R0, R5).
    Trial("R0 keeps the old pages", [("write", 0, 1), ("write", 1, 2)], NEW, 2),
    Trial("R0 does not sync", [("write", 0, 1), ("write", 2, 2)], [new_file(False)], 2, "no order"),
    Trial("a wrong length is not mended", [("write", 0, 1), ("write", 1, 2)], [closed(0)], 2),
    Trial("a mended length is not synced", [("write", 0, 1), ("write", 1, 2)], [closed(0)], 2),
    Trial("the ends are not rewritten", [("write", 1, 2), ("write", 0, 1)], NEW, 2),
    Trial("the mended ends are not synced", [("write", 1, 2), ("write", 5, 1)], NEW, 2),
    Trial("the middle is never mended", [WHOLE, ("write", 0, 1)], NEW, 2),
    Trial("the middle after the ends", [WHOLE, cut(3)], NEW, 2),
    Trial("page 0 of a waiting file has the mount's epoch", [WHOLE, ("write", 0, 1)], NEW, 2),
    Trial("a check does not mend the middle", [WHOLE, CHECK], NEW, 2),
    Trial("a check does not sync", [("append", 3), CHECK], NEW, 2),
]

# Steps of the document that no promise of section 6 needs, as far as the model goes. They are tried at each depth, and
# one that is caught after all belongs into the list above.
LITTLE = [("write", 0, 1), ("write", 2, 2), FAR, ("append", 3), cut(1), cut(2), cut(3), cut(5), FSYNC, UNMOUNT, ALL, MEND]
NEEDLESS = [
    Trial("no sync after a cut", LITTLE, FIVE + EIGHT, 2),
    Trial("the last page before the cut", LITTLE, FIVE + EIGHT, 2),
    Trial("the last page before ftruncate", LITTLE, FIVE + EIGHT, 2),
    Trial("HOLES after the new pages", LITTLE, THREE + SIX, 2),
    Trial("no sync after space ran out", LITTLE + [FULL, ("full", -1, 3, 0, False)], NEW + THREE, 2),
    Trial("no sync before a mended middle's page 0", LITTLE, EIGHT, 2),
    Trial("R3 without HOLES asks B", LITTLE, FIVE + EIGHT, 2),
    Trial("no sync after a cut on a store without order", LITTLE, FIVE + SIX, 2, "no order"),
]


def attempt(trial, deeper=0):
    """The lines of a violation, or None."""
    if trial.part == "epochs":
        try:
            epochs.explore(trial.depth)
        except epochs.Reused as reused:
            return [str(reused)]
        return None
    attacks = Attacks()
    exploration = Exploration(trial.operations, trial.starts, ordered=trial.part != "no order", on_clean=attacks)
    try:
        exploration.run(trial.depth + deeper)
    except Violation as violation:
        return explain(violation, exploration)
    return attacks.found[:1] or None


def judge(trial, *names, deeper=0):
    """The same with these rules replaced."""
    rules.choose(*names)
    reader.forget()
    try:
        return attempt(trial, deeper)
    finally:
        rules.choose()
        reader.forget()


def run(say, deeper=0):
    """Tries all of them; returns the names of those with another outcome than the lists say."""
    wrong = []
    for trial in CAUGHT:
        found = judge(trial, trial.rule)
        if found is None:
            wrong.append("not caught: " + trial.rule)
        elif judge(trial) is not None:
            wrong.append("the right rules fail too: " + trial.rule)
        else:
            say("caught: " + trial.rule, found)
    for trial in NEEDLESS:
        found = judge(trial, trial.rule, deeper=deeper)
        if found is not None:
            wrong.append("caught, so the rule is needed: " + trial.rule)
            say("caught after all: " + trial.rule, found)
        else:
            say("no promise needs it: " + trial.rule, None)
    return wrong
