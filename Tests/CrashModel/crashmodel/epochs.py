"""The numbers of epochs: max(highest that the state file knows + 1, clock), over mounts, crashes and wrong clocks.

The rules only ask whether an epoch was closed, ended badly, or is the mount's own. This part shows that the numbers keep
these apart: in every sequence a mount draws an epoch that is higher than every epoch under which anything was encrypted.
"""

from .rules import wrong

# The clock may stop, go back, run ahead, or be past the last number. The numbers may run out.
CLOCKS = (0, 1, 3, 9)
LARGEST = 8


class Reused(Exception):
    """A mount drew an epoch that is not higher than one that was used."""


def draw(highest, listed, clock):
    """A new epoch; None if the numbers have run out, so that nothing can be written."""
    clock = clock if clock <= LARGEST else 0
    if wrong("an epoch by the clock alone"):
        return clock
    if wrong("the highest epoch of those that are listed"):
        highest = max(listed, default=0)
    if highest == LARGEST:
        return 1 if wrong("epochs begin again") else None
    return max(highest + 1, clock)


def explore(depth):
    """The number of sequences up to `depth` events; raises `Reused`.

    A state: (highest, listed, the mount's own, highest ever used, the events). An epoch is entered durably before it is
    used, so that a crash between the two leaves it listed and unused.
    """
    count = 0
    frontier = {(0, frozenset(), frozenset(), 0): ()}
    seen = set(frontier)
    for _ in range(depth):
        following = {}
        for (highest, listed, own, used), path in frontier.items():
            moves = []
            for clock in CLOCKS:
                # A mount's first write, and the write after 2^32 encryptions.
                epoch = draw(highest, listed, clock)
                if epoch is None:
                    continue
                if epoch <= max(listed, default=used) or epoch <= used:
                    raise Reused(" ".join(path + ("draw(clock %d)" % clock,))
                                 + ": epoch %d, and %d was used" % (epoch, used))
                known = highest if wrong("the highest epoch is not written") else max(highest, epoch)
                entered = (known, listed | {epoch}, own | {epoch})
                moves.append(("draw(clock %d)" % clock, entered + (epoch,)))
                moves.append(("draw(clock %d), crash before its use" % clock, (known, listed | {epoch}, frozenset(), used)))
            if own:
                moves.append(("unmount", (highest, listed - own, frozenset(), used)))
                moves.append(("crash", (highest, listed, frozenset(), used)))
            if listed - own:
                moves.append(("check", (highest, listed & own, own, used)))
            for text, state in moves:
                count += 1
                if state not in seen:
                    seen.add(state)
                    following[state] = path + (text,)
        frontier = following
    return count, len(seen)
