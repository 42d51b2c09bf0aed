"""Class 7 for programs: every name of FileProtection for it, in every state."""

import os

from harness import CLASSES, get_class, read_file, set_class, write_file
from porting import Examples
from porting_table import reading, writing

RAW = "NSFileProtectionCompleteWhenUserInactive"
MADE = ("option", "atomic", "created", "set", "value", "folder", "folder/below")


def test_names_in_every_state(environment):
    """Open while unlocked and after a lock; closed before the first unlock and when its time has run out, with the class's name."""
    mount = environment.mount()
    write_file(mount / "existing", b"")
    set_class(mount / "existing", "7")
    states = (("UNL", [], "", True), ("LCK", [], "lock", True), ("OUT", ["inactive=0"], "lock", False), ("BFU", [], "mount", False))
    for state, options, how, is_open in states:
        mount = environment.remount(mount, options=options)
        write_file(mount / "existing", b"old")
        if how == "lock":
            mount.lock()
        elif how == "mount":
            mount = environment.remount(mount, unlock=False)
        examples = Examples(environment, mount)
        if is_open:
            said = [f"{name}: ok" for name in ("option", "atomic option", "createFile", "createDirectory", "below", "setAttributes",
                                               "resource value")]
            said += [f"attribute: {RAW}", "as a resource value: true", "read: old", "write in place: ok"]
        else:
            closed = writing(RAW)
            said = [f"option: {closed}", f"atomic option: {closed}", "createFile: CocoaError 512 no path", "createDirectory: ok",
                    f"below: {closed}", f"setAttributes: {closed}", f"resource value: {closed}", f"attribute: {RAW}",
                    "as a resource value: true", f"read: {reading(RAW)}", f"write in place: {closed}"]
        examples.says(state, said, "inactive", state)
        for name in MADE if is_open else ("folder",):
            environment.cell(f"{state} {name}", CLASSES["7"], get_class(mount / f"{state} {name}"))
        if not is_open:
            environment.cell(f"{state}: nothing is left of what was refused", [], [
                name for name in ("option", "atomic", "created", "folder/below") if os.path.exists(mount / f"{state} {name}")])
        examples.no_debris()
        if state != "UNL":
            mount.unlock()
        environment.cell(f"{state}: content", b"new" if is_open else b"old", read_file(mount / "existing"))
