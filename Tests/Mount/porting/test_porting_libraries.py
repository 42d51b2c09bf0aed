"""Programs in the manner of libraries: a cache, a log, downloads and an archive, through locks and before the first unlock."""

import os

from harness import CLASSES, get_class, make_file, outcome, read_file, set_class
from porting_table import A, C, D
from served import served
from talk import Program


def library(name, directory, kind):
    return Program("porting-libraries", name, directory, kind)


def names(directory):
    return sorted(os.listdir(directory))


def test_cache(environment):
    """Values expire, the size has a limit, and all of it is in the cache's class; names and dates are there in every state."""
    mount = environment.mount()
    place = mount / "cache"
    with library("cache", place, A) as cache:
        environment.cell("UNL set", ["set"] * 3, cache.ask("set one 100", "set two/.. 200", "set three -1"))
        environment.cell("UNL get", ["found", "found", "nothing", "nothing"],
                         cache.ask("get one", "get two/..", "get three", "get four"))
        environment.cell("UNL classes", {CLASSES["A"]}, {get_class(os.path.join(place, name)) for name in names(place)})
        size = sum(os.stat(os.path.join(place, name)).st_size for name in names(place))
        environment.cell("UNL size", [str(size)], cache.ask("size"))
        mount.lock()
        environment.cell("LCK", ["513 unavailable", "257 unavailable", "nothing", str(size)],
                         cache.ask("set four 100", "get one", "get three", "size"))
        environment.cell("LCK what has expired goes", ["1", "removed"], cache.ask("expire 0", "remove two/.."))
        environment.cell("LCK nothing half written", 1, len(names(place)))
        mount.unlock()
        environment.cell("unlocked", ["found", "nothing"], cache.ask("get one", "get two/.."))
        # Each value has the same length; the limit holds the last ones to expire.
        room = 400 // os.stat(os.path.join(place, names(place)[0])).st_size
        cache.ask(*[f"set many{number} {1000 + number}" for number in range(10)])
        environment.cell("the limit", (room, ["found", "nothing"]), (len(names(place)), cache.ask("get many9", "get many0")))
        environment.cell("its end", 0, cache.end())
    mount = environment.remount(mount, unlock=False)
    with library("cache", place, A) as cache:
        environment.cell("BFU", ["513 unavailable", "257 unavailable", "0"], cache.ask("set four 100", "get many9", "clear"))
        environment.cell("BFU cleared", ([], 0), (names(place), cache.end()))
    with library("cache", mount / "none", D) as cache:
        environment.cell("BFU, class none", ["set", "found"], cache.ask("set one 100", "get one"))


def test_log(environment):
    """Full files are renamed and keep the class. In class complete, lines wait while locked; none is lost and none is doubled."""
    mount = environment.mount()
    for letter, kind, waits in (("A", A, True), ("C", C, False)):
        folder = mount / letter
        os.mkdir(folder)
        with library("log", folder, kind) as log:
            environment.cell(f"{letter} UNL", ["0 waiting"] * 2, log.ask("line 1", "line 2"))
            mount.lock()
            locked = log.ask("line 3", "line 4")
            environment.cell(f"{letter} LCK", ["1 waiting", "2 waiting"] if waits else ["0 waiting"] * 2, locked)
            mount.unlock()
            environment.cell(f"{letter} unlocked", ["0 waiting"] * 2, log.ask("line 5", "line 6"))
            environment.cell(f"{letter} end", 0, log.end())
        environment.cell(f"{letter} files", ["main.1.log", "main.log"], names(folder))
        text = b"".join(read_file(os.path.join(folder, name)) for name in names(folder))
        environment.cell(f"{letter} every line once, in order", b"".join(b"line %d\n" % number for number in range(1, 7)), text)
        environment.cell(f"{letter} classes", {CLASSES[letter]}, {get_class(os.path.join(folder, name)) for name in names(folder)})
        with library("log", folder, kind) as log:
            log.ask(*[f"more {number}" for number in range(20)])
            log.end()
        environment.cell(f"{letter} the oldest are gone", ["main.1.log", "main.2.log", "main.log"], names(folder))
        environment.cell(f"{letter} limit", True, all(os.stat(os.path.join(folder, name)).st_size <= 30 for name in names(folder)))
    mount = environment.remount(mount, unlock=False)
    with library("log", mount / "C", C) as log:
        environment.cell("BFU", ["1 waiting", "2 waiting"], log.ask("early 1", "early 2"))
        mount.unlock()
        environment.cell("BFU unlocked", ["0 waiting"], log.ask("early 3"))
        log.end()
    text = b"".join(read_file(mount / f"C/{name}") for name in ("main.1.log", "main.log"))
    environment.cell("BFU lines", True, text.endswith(b"early 1\nearly 2\nearly 3\n"))


def test_downloads(environment):
    """Begun and ended in every state; kept in class complete after the unlock; what fails leaves nothing."""
    mount = environment.mount()
    place = mount / "downloads"
    arriving, kept = os.path.join(place, "arriving"), os.path.join(place, "kept")
    content = b"content" * 5000
    with served(environment.new_path("served"), file=content) as address, library("downloads", place, A) as downloads:
        environment.cell("UNL", {"begun", "one: kept"}, {*downloads.ask(f"{address}file one"), downloads.line()})
        mount.lock()
        environment.cell("LCK", {"begun", "two: 513 unavailable"}, {*downloads.ask(f"{address}file two"), downloads.line()})
        environment.cell("LCK arrived", (["two.whole"], CLASSES["B"], "EACCES"),
                         (names(arriving), get_class(arriving + "/two.whole"), outcome(read_file, arriving + "/two.whole")))
        environment.cell("LCK not yet", ["513 unavailable"], downloads.ask("keep"))
        mount.unlock()
        environment.cell("unlocked", ["two"], downloads.ask("keep"))
        environment.cell("kept", [(CLASSES["A"], content)] * 2,
                         [(get_class(os.path.join(kept, name)), read_file(os.path.join(kept, name))) for name in ("one", "two")])
        environment.cell("again, over the old one", {"begun", "one: kept"},
                         {*downloads.ask(f"{address}file one"), downloads.line()})
        environment.cell("nothing is left", [], names(arriving))
        environment.cell("its end", 0, downloads.end())
    with library("downloads", place, A) as downloads:
        refused = {*downloads.ask("http://127.0.0.1:1/file three"), downloads.line()}
        environment.cell("no server", (True, [], ["one", "two"]),
                         ("three: -1004" in refused or "three: -1001" in refused, names(arriving), names(kept)))
        downloads.end()
    mount = environment.remount(mount, unlock=False)
    with served(environment.new_path("served"), file=content) as address, library("downloads", place, A) as downloads:
        environment.cell("BFU", {"begun", "four: 513 unavailable"}, {*downloads.ask(f"{address}file four"), downloads.line()})
        mount.unlock()
        environment.cell("BFU unlocked", (["four"], content), (downloads.ask("keep"), read_file(kept + "/four")))


def test_tree(environment):
    """An archive replaces an older one at once and keeps its class; what it holds comes back with classes, modes and dates."""
    mount = environment.mount()
    os.mkdir(mount / "tree")
    os.mkdir(mount / "tree/below")
    set_class(mount / "tree/below", "A")
    for letter in "ABCD":
        make_file(mount / f"tree/below/{letter}", letter, letter.encode())
        os.chmod(mount / f"tree/below/{letter}", 0o640)
        os.utime(mount / f"tree/below/{letter}", (1e9, 1e9))

    def pack(state, *commands):
        with library("tree", mount.path, A) as tree:
            environment.cell(f"{state}: {', '.join(commands)}", ["ok"] * len(commands), tree.ask(*commands))

    pack("UNL", "pack tree", "pack tree", "unpack copy")
    environment.cell("UNL archive", (CLASSES["A"], ["archive", "copy", "tree"]), (get_class(mount / "archive"), names(mount.path)))
    for letter in "ABCD":
        path = mount / f"copy/below/{letter}"
        environment.cell(f"UNL {letter}", (CLASSES[letter], letter.encode(), 0o640, 1e9),
                         (get_class(path), read_file(path), os.stat(path).st_mode & 0o777, os.stat(path).st_mtime))
    environment.cell("UNL directory", CLASSES["A"], get_class(mount / "copy/below"))
    mount.lock()
    with library("tree", mount.path, A) as tree:
        environment.cell("LCK", ["257 unavailable", "257 unavailable"], tree.ask("pack tree", "unpack other"))
    environment.cell("LCK nothing is left", ["archive", "copy", "other", "tree"], names(mount.path))
    # A new archive of open files in the place of the closed one: refused, as the old one's class is closed.
    os.mkdir(mount / "open")
    make_file(mount / "open/d", "D", b"d")
    with library("tree", mount.path, A) as tree:
        environment.cell("LCK open files", ["513 unavailable"], tree.ask("pack open"))
    mount = environment.remount(mount, unlock=False)
    os.unlink(mount / "archive")
    with library("tree", mount.path, D) as tree:
        # The place for the new archive has the class of new files here, which is closed before the first unlock.
        environment.cell("BFU", ["513 unavailable"], tree.ask("pack open"))
    os.rmdir(mount / "other")
    mount.unlock()
    pack("unlocked again", "pack tree", "unpack other")
    environment.cell("all of it", ["A", "B", "C", "D"], names(mount / "other/below"))
