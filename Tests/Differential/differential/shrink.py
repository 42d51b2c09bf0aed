"""Shrinks a sequence that shows a difference: fewer steps first, then simpler arguments."""


def shrink(steps, shows):
    """The smallest sequence found for which shows(steps) is still true."""
    steps = fewer(list(steps), shows)
    steps = simpler(steps, shows)
    return fewer(steps, shows)


def fewer(steps, shows):
    """Takes away runs of steps, by halves and down to single ones, as long as the difference stays."""
    size = max(1, len(steps) // 2)
    while True:
        at, changed = 0, False
        while at < len(steps):
            less = steps[:at] + steps[at + size:]
            if less and shows(less):
                steps, changed = less, True
            else:
                at += size
        if size == 1 and not changed:
            return steps
        size = max(1, size // 2)


def simpler(steps, shows):
    """Tries plainer arguments, one at a time."""
    for at in range(len(steps)):
        for other in plainer(steps[at]):
            tried = steps[:at] + [other] + steps[at + 1:]
            if other != steps[at] and shows(tried):
                steps = tried
    return steps


def plainer(step):
    if step.actor:
        yield step._replace(actor=0)
    for place, argument in enumerate(step.arguments):
        for value in smaller(argument):
            yield step._replace(arguments=step.arguments[:place] + (value,) + step.arguments[place + 1:])


def smaller(argument):
    """Plainer values, the plainest last: each that still shows the difference replaces the one before."""
    if isinstance(argument, bool):
        return [False]
    if isinstance(argument, int):
        bits = [argument & ~(1 << bit) for bit in range(24) if argument & (1 << bit)] if 0 < argument < 1 << 24 else []
        return [*bits, *(value for value in (4096, 100, 1, 0) if value < argument)]
    if isinstance(argument, tuple):
        return [argument[:place] + argument[place + 1:] for place in range(len(argument))]
    return []
