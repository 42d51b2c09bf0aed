"""The wrong variation of the rules that a run tries; none in an ordinary run."""

_wrong = set()


def wrong(name):
    """Whether the named rule is replaced by its wrong variation."""
    return name in _wrong


def choose(*names):
    """Replaces the rules of these names, and only them."""
    _wrong.clear()
    _wrong.update(names)
