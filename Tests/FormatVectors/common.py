"""Parts that all vectors share: the second reader, outcomes, and the keybag's secrets."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "SecondReader"))

from secondreader import primitives as p  # noqa: E402, F401
from secondreader.writer import DEVICE_KEY, PASSPHRASE, RECOVERY  # noqa: E402, F401

REFUSE, NEWER = "refuse", "newer"
CODE = p.recovery_text(RECOVERY)


def outcome(read, *words):
    """What reading gives; "refuse" and "newer" are outcomes too."""
    try:
        return read(*words)
    except p.Refused:
        return REFUSE
    except p.Newer:
        return NEWER
