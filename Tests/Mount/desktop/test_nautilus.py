"""Nautilus with the extension: emblems of classes and states on the screen, and the menus that set them."""

import contextlib
import os
import re
import signal
import sys

import harness
from desktops import Desktop, install, needed, turn
from harness import wait_until

NAUTILUS = ("Nautilus", "4.0")


def colour(desktop, emblem):
    """The main colour of an emblem."""
    path = f"{desktop.shared}/icons/hicolor/scalable/emblems/emblem-protectfs-{emblem}.svg"
    return re.search(r'fill="(#\w{6})"', harness.read_file(path).decode()).group(1)


def test_on_the_screen(environment):
    """Nautilus itself: what it shows is looked for by the colours of the emblems."""
    needed("nautilus", library=NAUTILUS, files=["/usr/lib/*/nautilus/extensions-4/libnautilus-python.so",
                                                "/usr/lib/*/gdk-pixbuf-2.0/*/loaders/libpixbufloader-svg.so"])
    mount = environment.mount()
    for letter in harness.CLASSES:
        harness.make_file(mount / f"file-{letter}", letter, b"content")
    desktop = Desktop(environment, mount.volume.data)
    try:
        def is_shown(emblem):
            return desktop.pixels(colour(desktop, emblem)) >= 20

        desktop.start("nautilus", "--new-window", mount.path, env=desktop.variables)
        for name in harness.CLASSES.values():
            wait_until(lambda name=name: is_shown(name), what=f"the emblem of {name}")
        environment.cell("unlocked", False, is_shown("locked"))
        mount.lock()
        wait_until(lambda: is_shown("locked"), what="padlocks on the closed files")
        mount.unlock()
        wait_until(lambda: not is_shown("locked"), what="no padlocks")
        harness.set_class(mount / "file-D", "A")
        wait_until(lambda: not is_shown("none"), what="the class that another program has set")
    finally:
        desktop.close()


class File:
    """What Nautilus tells an extension about a file, and what the extension did to it."""

    def __init__(self, path, scheme="file", is_folder=False):
        self.path, self.scheme, self.is_folder, self.invalid = path, scheme, is_folder, 0
        self.forget()

    def forget(self):
        self.emblems, self.attributes = [], {}

    def get_location(self):
        return self

    def get_path(self):
        return self.path

    def get_uri_scheme(self):
        return self.scheme

    def is_directory(self):
        return self.is_folder

    def add_emblem(self, name):
        self.emblems.append(name)

    def add_string_attribute(self, name, text):
        self.attributes[name] = text

    def invalidate_extension_info(self):
        self.invalid += 1


class Extension:
    """The extension in this process, through the interfaces that Nautilus calls."""

    def __init__(self, environment):
        _, shared = install(environment)
        sys.path.insert(0, shared + "/nautilus-python/extensions")
        import gi
        gi.require_version(*NAUTILUS)
        import protectfs_nautilus
        self.module = protectfs_nautilus
        self.provider = protectfs_nautilus.ProtectfsProvider()
        self.calls = []
        real = protectfs_nautilus.desktop.call

        def counted(words, *more, **others):
            self.calls.append(words)
            real(words, *more, **others)

        protectfs_nautilus.desktop.call = counted

    def look(self, file):
        """The emblems of a file, as at this moment."""
        file.forget()
        self.provider.update_file_info(file)
        return file.emblems

    def wait(self, condition, what):
        wait_until(lambda: turn() or condition(), what=what)

    def items(self, *files):
        """Every item of the context menu, with those of menus in it, by name."""
        found = {}
        for item in self.provider.get_file_items(list(files)):
            self._add(item, found)
        return found

    def background(self, folder):
        return {item.get_property("name"): item for item in self.provider.get_background_items(folder)}

    def _add(self, item, found):
        found[item.get_property("name")] = item
        menu = item.get_property("menu")
        for inner in menu.get_items() if menu else ():
            self._add(inner, found)


def test_menus(environment):
    """What the menus do, on a real mount; Nautilus is left out, so its files are played by objects of this test."""
    needed(library=NAUTILUS)
    mount = environment.mount()
    strange = os.fsdecode(b"not \xff UTF-8 \n")
    names = ["diary", strange, "-R"]
    for name in names:
        harness.write_file(mount / name, b"content")
    os.mkdir(mount / "folder")
    extension = Extension(environment)
    files = [File(mount / name) for name in names]
    for file in files:
        environment.cell("not known yet", [], extension.look(file))
    emblem = "protectfs-" + harness.CLASSES["C"]
    extension.wait(lambda: all(extension.look(file) == [emblem] for file in files), "the classes")
    extension.wait(lambda: extension.items(*files)["Protectfs::none"].get_property("sensitive"), "the state")
    marked = [name for name, item in extension.items(*files).items() if item.get_property("label").startswith("✓")]
    environment.cell("the class that is set", ["Protectfs::" + harness.CLASSES["C"]], marked)
    extension.items(*files)["Protectfs::complete"].emit("activate")
    extension.wait(lambda: all(extension.look(file) == ["protectfs-complete"] for file in files), "the new class")
    environment.cell("set", ["complete"] * 3, [harness.get_class(mount / name) for name in names])
    environment.cell("the column", {"protectfs_class": "complete"}, files[0].attributes)

    # Nautilus looks once after a change, perhaps just after an answer.
    seen = files[0].invalid
    harness.set_class(mount / names[0], "B")
    extension.look(files[0])

    def is_shown():
        # As Nautilus does, it looks again only when it is told to. What it was told first may be of the change before.
        nonlocal seen
        if files[0].invalid == seen:
            return False
        seen = files[0].invalid
        return extension.look(files[0]) == ["protectfs-completeUnlessOpen"]

    extension.wait(is_shown, "a change from elsewhere")
    harness.set_class(mount / names[0], "A")
    extension.look(files[0])

    folder = File(mount / "folder", is_folder=True)
    extension.look(folder)
    environment.cell("of a folder", "Class of New Files", extension.items(folder)["Protectfs::class"].get_property("label"))
    extension.items(folder)["Protectfs::completeUnlessOpen"].emit("activate")
    extension.wait(lambda: extension.look(folder) == ["protectfs-completeUnlessOpen"], "the default")

    extension.background(File(mount.path))["Protectfs::lock"].emit("activate")
    extension.wait(lambda: mount.state() == "locked", "the lock")
    extension.wait(lambda: extension.look(files[0]) == ["protectfs-complete", "protectfs-locked"], "the padlock")
    environment.cell("of the mount", ["protectfs-locked"], extension.look(File(mount.path)))
    choice = extension.items(*files)["Protectfs::none"]
    environment.cell("no class is set while locked", False, choice.get_property("sensitive"))
    environment.cell("to unlock", ["Protectfs::unlock"], list(extension.background(File(mount.path))))


def test_costs(environment):
    """Nothing outside of mounts, few calls for many files, and no wait for a mount that hangs."""
    needed(library=NAUTILUS)
    mount = environment.mount()
    extension = Extension(environment)
    outside = [File(environment.base + "/other"), File(mount.path + "x"), File(None), File(mount / "a", scheme="sftp")]
    for file in outside:
        extension.look(file)
        environment.cell("no menu outside", ({}, {}), (extension.items(file), extension.background(file)))
    turn()
    environment.cell("outside", ([], 0), (extension.calls, len(extension.provider.known)))

    many = 1000
    files = [File(mount / f"file{number}") for number in range(many)]
    for file in files:
        harness.write_file(file.path, b"")
    for file in files:
        extension.look(file)
    extension.wait(lambda: all(file.invalid for file in files), "all answers")
    environment.cell("few calls", True, len(extension.calls) <= many // extension.module.BATCH + 2)
    for number in range(2 * extension.module.KNOWN):
        extension.look(File(mount / f"none{number}"))
    longest = max(len(extension.provider.known), len(extension.provider.waiting))
    environment.cell("bounded", True, longest <= extension.module.KNOWN)

    with stopped(mount):
        # What waited for the mount would wait for ever.
        for file in files:
            extension.look(file)
        environment.cell("the menu of a mount that hangs", True, "Protectfs::class" in extension.items(files[0]))
    mount.unmount()
    extension.wait(lambda: mount.path not in extension.provider.mounts.by_path, "the end of the mount")
    turn()
    environment.cell("nothing is kept", (0, []), (len(extension.provider.known), extension.look(files[0])))


@contextlib.contextmanager
def stopped(mount):
    """The daemon does not run meanwhile."""
    pid = int(mount.status()["pid"])
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)
