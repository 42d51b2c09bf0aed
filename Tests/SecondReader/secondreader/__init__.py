"""An independent reader of protectfs volumes, written from docs/judge/volume-format.md alone."""

from .keybag import Keybag, Keys
from .late import Late, LateKeys
from .primitives import Newer, Refused
from .state import State
from .volume import Entry, Volume

__all__ = ["Entry", "Keybag", "Keys", "Late", "LateKeys", "Newer", "Refused", "State", "Volume"]
