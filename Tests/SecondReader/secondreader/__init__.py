"""An independent reader of protectfs volumes, written from docs/volume-format.md alone."""

from .keybag import Keybag, Keys, State
from .late import Late, LateKeys
from .primitives import Refused
from .volume import Entry, Volume

__all__ = ["Entry", "Keybag", "Keys", "Late", "LateKeys", "Refused", "State", "Volume"]
