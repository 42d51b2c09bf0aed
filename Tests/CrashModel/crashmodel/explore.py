"""Tries all sequences of operations up to a depth, with every crash of each, and checks every promise."""

from . import pages as p
from .operations import Session, name
from .reader import epochs, read
from .world import FIELDS, REPAIR_ALL, Broken

LIVE, DOWN = 0, 1
# Operations that never mend a file first.
NOT_MENDING = ("fsync", "reopen", "reopen without space", "unmount", "unmount without space", "mend", "mend by holes",
               "check")
START = "start"
UNMOUNTS = ("unmount", "unmount without space")


class Violation(Exception):
    """A promise that a crash, or the writer itself, breaks; with the path that leads there."""

    def __init__(self, path, last, text, image=None):
        super().__init__(text)
        self.path, self.last, self.text, self.image = path, last, text, image


def steps(path):
    """The parts of a path, first one first."""
    found = []
    while path:
        path, part = path
        found.append(part)
    return found[::-1]


def down(image, any_bad, everything):
    """A store without a mount."""
    return (DOWN, image, int(any_bad), int(everything))


def nothing():
    """The state of a mount before it opens a file."""
    fields = dict.fromkeys(FIELDS, 0)
    fields.update(log=-1, waits_from=-1, waits_end=-1, expected=(), sizes=frozenset([0]), tags=frozenset([p.WEAK]),
                  versions=(frozenset([(0,) * p.CAPACITY]),) * p.MAX_PAGES, weak_keys=frozenset())
    return fields


def mounted(state, ordered, watch):
    """A session of a new mount that has opened the file of a store without a mount."""
    _, image, any_bad, everything = state
    fields = nothing()
    fields.update(any_bad=any_bad, everything=everything)
    session = Session((image, frozenset([(image, 0)]), tuple(fields[key] for key in FIELDS)), ordered, watch)
    session.recover()
    session.weak_keys = frozenset(
        page[p.KEY] for page in image[1][:1] if page != p.ZERO and (page[p.CLASS] == p.WEAK or page[p.FLAGS] & p.EXPOSED))
    session.promise_only(session.expected)
    return session


class Exploration:
    """All states up to a depth. `operations` are tried in each state; `starts` are states."""

    def __init__(self, operations, starts, ordered=True, on_clean=None):
        self.operations, self.starts, self.ordered = operations, starts, ordered
        # Called with each file that a clean unmount leaves.
        self.on_clean = on_clean
        # States with an open file, states after a crash or an unmount, and files that crashes have left.
        self.live = self.down = self.images = 0
        self.seen = set()

    def run(self, depth, progress=lambda exploration, depth: None):
        """Tries all sequences of `depth` operations; raises `Violation`."""
        frontier = []
        for start in self.starts:
            self._add(frontier, start, (None, (START, start)))
        for number in range(depth):
            # States of the last layer are counted, and not kept.
            following = [] if number < depth - 1 else None
            for state, path in frontier:
                self._expand(state, path, following)
            frontier = following
            progress(self, number + 1)
        return self

    def _add(self, frontier, state, path):
        """A state that was not seen before. Only its hash is kept."""
        key = hash(state)
        if key in self.seen:
            return
        self.seen.add(key)
        if state[0] == LIVE:
            self.live += 1
        else:
            self.down += 1
        if frontier is not None:
            frontier.append((state, path))

    def session(self, state, watch):
        """The state as a session."""
        return mounted(state, self.ordered, watch) if state[0] == DOWN else Session(state[1:], self.ordered, watch)

    def _expand(self, state, path, following):
        """All operations in one state."""
        if state[0] == DOWN and state[1] == p.ABSENT:
            return
        plain = self.session(state, lambda *_: None)
        may_wait = plain.repair == REPAIR_ALL and p.last_block(plain.size) > 1
        for operation in self.operations:
            for waits in (False, True) if may_wait and operation[0] not in NOT_MENDING else (False,):
                self._try(state, path, (operation, waits), following)

    def _try(self, state, path, step, following):
        """One operation in one state: its crashes, and the state after it."""
        judged, down_states = set(), {}

        def watch(session, _name, fresh):
            for image in fresh:
                self.judge(session, image, judged, down_states, path, step)

        session = self.session(state, watch)
        operation, waits = step
        try:
            if operation[0] in UNMOUNTS:
                if operation[0] != "unmount" and not session.has_no_header():
                    return
                session.unmount(has_space=operation[0] == "unmount")
            elif not session.perform(operation, waits):
                return
            # What is promised now may be more than during the operation.
            for image, _ in session.store.maybe:
                self.judge(session, image, judged, down_states, path, step)
            if operation[0] in UNMOUNTS:
                image = session.store.current
                self._add(following, down(image, session.any_bad, session.everything), (path, step))
                if self.on_clean and not session.any_bad and not session.everything:
                    self.on_clean(image, (path, step))
            else:
                session.finish()
                session.weak_keys = frozenset(
                    key for key in session.weak_keys
                    if any(key in p.numbers_of(image)[1] for image, _ in session.store.maybe) or key == session.key)
                self._add(following, (LIVE,) + session.state(), (path, step))
        except Broken as broken:
            raise Violation(path, step, str(broken)) from None
        for image, found in down_states.items():
            self._add(following, found, (path, step + (image,)))

    def judge(self, session, image, judged, down_states, path, step):
        """A file that a crash may leave now: the next mount reads it, and every promise holds."""
        any_bad, change = session.bad_after_a_crash()
        context = (image, any_bad, change, session.everything, session.sizes, session.tags, session.must_exist, session.seen)
        if context in judged:
            return
        judged.add(context)
        self.images += 1
        if image == p.ABSENT:
            if session.must_exist:
                raise Violation(path, step, "the file is gone", image)
            return
        left = p.with_epochs(image, change)
        found = read(left, epochs(any_bad, session.everything))
        objection = "the next mount refuses it: " + found if isinstance(found, str) else session.objection(found)
        if not objection and session.is_older(image):
            objection = "an honest file is taken for an older one"
        if objection:
            raise Violation(path, step, objection, image)
        down_states[image] = down(left, any_bad, session.everything)


def explain(violation, exploration):
    """The lines that lead to a violation: operations with their steps, the crash, and what it left."""
    lines = []
    state = None
    trail = steps(violation.path) + [violation.last + ((violation.image,) if violation.image else ())]
    for number, step in enumerate(trail):
        if number == 0:
            state = step[1]
            lines.append("start: " + (p.describe(state[1]) if state[0] == DOWN else "a new file"))
            continue
        operation, waits, *image = step
        lines.append("%d. %s%s" % (number, name(operation), ", the middle waits" if waits else ""))
        told = []

        def watch(session, what, _fresh, told=told):
            told.append((what, frozenset(session.store.maybe)))

        session = exploration.session(state, watch)
        before = frozenset(session.store.maybe)
        try:
            if operation[0] in UNMOUNTS:
                session.unmount(has_space=operation[0] == "unmount")
            else:
                session.perform(operation, waits)
        except Broken:
            pass
        for what, maybe in told:
            lines.append("     " + _step_text(what))
            if image and any(one == image[0] for one, _ in maybe) and not any(one == image[0] for one, _ in before):
                lines.append("     CRASH, which leaves: " + p.describe(image[0]))
                break
        else:
            if image:
                lines.append("     CRASH after it, which leaves: " + p.describe(image[0]))
        if image:
            any_bad, change = session.bad_after_a_crash()
            state = down(p.with_epochs(image[0], change), any_bad, session.everything)
        elif operation[0] in UNMOUNTS:
            state = down(session.store.current, session.any_bad, session.everything)
        else:
            state = (LIVE,) + session.state()
    lines.append("VIOLATION: " + violation.text)
    return lines


def _step_text(what):
    kind, *rest = what
    if kind == "write":
        return "write page %d: %s" % (rest[0], p.describe_page(rest[1]))
    if kind == "ftruncate":
        return "ftruncate to %d pages + %d" % divmod(rest[0], p.UNIT)
    return " ".join([kind] + [str(part) for part in rest])
