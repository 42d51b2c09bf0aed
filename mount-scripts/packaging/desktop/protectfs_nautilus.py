"""Shows in Nautilus the class of each file of a mount and the state of each mount, and sets both by the context menu.

Nautilus waits for nothing: a file that is not known yet is shown without an emblem. `protectfs class get` is asked about
many files at a time, and Nautilus is then told to look again. A file outside of all mounts costs a comparison of texts.
"""

import collections
import json
import os
import sys
import time

import gi

# nautilus-python has chosen the version already.
if gi.get_required_version("Nautilus") is None:
    gi.require_version("Nautilus", "4.0")
from gi.repository import GLib, GObject, Nautilus  # noqa: E402

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../protectfs/desktop"))
import protectfs_desktop as desktop  # noqa: E402

# How many files are known at most, how many one call asks about, and for how many seconds an answer is not asked again.
KNOWN, BATCH, FRESH = 4096, 200, 2
# Seconds after which a call that asks is given up, as the store of a mount may hang.
PATIENCE = 20
# Each class: the text of the menu, and the states of a mount in which its files cannot be opened.
LOCKED, BEFORE = {"locked", "sweeping", "before-first-unlock"}, {"before-first-unlock"}
CLASSES = {
    "complete": ("Complete: closed while locked", LOCKED),
    "completeUnlessOpen": ("Complete unless open: stays open, opens only while unlocked", LOCKED),
    # It is closed, too, some time after a lock; the mount does not tell the window when.
    "completeWhenUserInactive": ("When inactive: closed some time after a lock", BEFORE),
    "completeUntilFirstUserAuthentication": ("Until first unlock: closed until the first unlock", BEFORE),
    "none": ("None: open while mounted", set()),
}


class Known:
    """The answer about one file, when it came, and the file to show it on."""

    def __init__(self, file):
        self.file, self.answer, self.asked = file, None, 0.0


class ProtectfsProvider(GObject.GObject, Nautilus.InfoProvider, Nautilus.MenuProvider, Nautilus.ColumnProvider):
    def __init__(self):
        super().__init__()
        self.known = collections.OrderedDict()
        self.waiting = collections.OrderedDict()
        self.later = set()
        self.is_asking = False
        self.mounts = desktop.Mounts(self.changed)
        self.unlocking = desktop.Unlocking()

    # What is shown.

    def get_columns(self):
        return [Nautilus.Column(name="protectfs::class", attribute="protectfs_class", label="Protection class",
                                description="The protection class of the file")]

    def update_file_info(self, file):
        path = self.path_of(file)
        mount = path and self.mounts.holding(path)
        if not mount:
            return Nautilus.OperationResult.COMPLETE
        mount.follow()
        known = self.known.pop(path, None) or Known(file)
        known.file = file
        self.known[path] = known
        while len(self.known) > KNOWN:
            self.known.popitem(last=False)
        if path == mount.path:
            # No emblem says that a volume is locked before its daemon has said so.
            if mount.state is not None:
                file.add_emblem("protectfs-locked" if mount.is_locked else "protectfs-unlocked")
        else:
            self.show(file, known.answer, mount)
            if time.monotonic() - known.asked > FRESH:
                self.ask(path)
            else:
                self.ask_later(path)
        return Nautilus.OperationResult.COMPLETE

    def show(self, file, answer, mount):
        if not answer or not answer["class"]:
            return
        name = answer["class"]
        file.add_emblem(f"protectfs-{name}" if name in CLASSES else "protectfs-other")
        file.add_string_attribute("protectfs_class", name)
        if name in CLASSES and mount.state in CLASSES[name][1] and not answer["directory"]:
            file.add_emblem("protectfs-locked")

    def changed(self, mount):
        """A state has changed, or the table: what is shown of it is shown anew."""
        for path, known in list(self.known.items()):
            holder = self.mounts.holding(path)
            if holder is None:
                del self.known[path]
            if mount is None or holder is mount:
                known.file.invalidate_extension_info()

    # Questions.

    def ask(self, path):
        if len(self.waiting) < KNOWN:
            self.waiting[path] = None
        if not self.is_asking:
            self.is_asking = True
            # The other files of the same folder come in a moment.
            GLib.timeout_add(30, self.ask_now)

    def ask_later(self, path):
        """The file may have changed just after the last answer; an answer that is the same ends this."""
        if not self.later:
            GLib.timeout_add_seconds(FRESH, self.ask_those)
        if len(self.later) < KNOWN:
            self.later.add(path)

    def ask_those(self):
        paths, self.later = self.later, set()
        for path in paths:
            self.ask(path)
        return False

    def ask_now(self):
        paths = []
        while self.waiting and len(paths) < BATCH:
            path = self.waiting.popitem(last=False)[0]
            if path in self.known and self.mounts.holding(path):
                paths.append(path)
        self.is_asking = bool(paths)
        if paths:
            desktop.call(["class", "get", "--json", *paths], lambda _, output, __: self.answered(paths, output), PATIENCE)
        return False

    def answered(self, paths, output):
        answers = {}
        # A name may have separators of lines that str.splitlines knows.
        for line in filter(None, output.split("\n")):
            answer = json.loads(line)
            answers[desktop.path_of(answer, "path")] = answer
        for path in paths:
            known = self.known.get(path)
            if known:
                known.asked = time.monotonic()
                if answers.get(path) != known.answer:
                    known.answer = answers.get(path)
                    known.file.invalidate_extension_info()
        self.ask_now()

    # Menus. Nautilus before 43 gives the window first.

    def get_file_items(self, *arguments):
        files = arguments[-1]
        paths = [self.path_of(file) for file in files]
        holders = [self.mounts.holding(path) if path else None for path in paths]
        if not paths or None in holders:
            return []
        items = [self.class_item(paths, files, holders)]
        if len(paths) == 1 and paths[0] == holders[0].path:
            items += self.lock_items(holders[0])
        return items

    def get_background_items(self, *arguments):
        path = self.path_of(arguments[-1])
        mount = path and self.mounts.holding(path)
        return self.lock_items(mount) if mount else []

    def class_item(self, paths, files, holders):
        directories = all(file.is_directory() for file in files)
        item = Nautilus.MenuItem(name="Protectfs::class", label="Class of New Files" if directories else "Protection Class")
        menu = Nautilus.Menu()
        item.set_submenu(menu)
        answers = [self.known[path].answer if path in self.known else None for path in paths]
        for name, (text, _) in CLASSES.items():
            is_set = all(answer and answer["class"] == name for answer in answers)
            choice = Nautilus.MenuItem(name=f"Protectfs::{name}", label=f"✓ {text}" if is_set else text,
                                       sensitive=all(mount.state == "unlocked" for mount in holders))
            choice.connect("activate", lambda _, name=name: self.set_class(name, list(paths)))
            menu.append_item(choice)
        return item

    def lock_items(self, mount):
        mount.follow()
        if mount.is_locked:
            item = Nautilus.MenuItem(name="Protectfs::unlock", label="Unlock Volume…")
            item.connect("activate", lambda _: self.unlocking.begin(mount))
        else:
            item = Nautilus.MenuItem(name="Protectfs::lock", label="Lock Volume", sensitive=mount.state == "unlocked")
            item.connect("activate", lambda _: desktop.lock(mount))
        return [item]

    def set_class(self, name, paths):
        batch, rest = paths[:BATCH], paths[BATCH:]

        def done(code, _, complaints):
            if code != 0 or complaints:
                title = "The class is set, with a warning" if code == 0 else "The class is not set"
                desktop.notify(title, desktop.message(complaints))
            for path in batch:
                if path in self.known:
                    self.ask(path)
            if rest:
                self.set_class(name, rest)

        desktop.call(["class", "set", name, *batch], done)

    @staticmethod
    def path_of(file):
        """The path of a local file, or None."""
        return file.get_location().get_path() if file.get_uri_scheme() == "file" else None
