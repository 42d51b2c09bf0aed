"""Changes of class: every cell of the table, and every way to set user.protection."""

import json
import mmap
import os

from harness import CLASSES, PAGE, Skip, as_user, get_class, in_child, make_file, outcome, pattern, read_file, set_class, write_file

# The second table of the semantics: (from, state): the classes to which a change works; to the others it is EACCES. BFU is
# before first unlock, LCK locked, OUT locked when the time of class 7 has run out. Unlocked, every change works.
TABLE = {
    ("D", "BFU"): "DB", ("D", "LCK"): "DC7B", ("D", "OUT"): "DCB",
    ("C", "BFU"): "C", ("C", "LCK"): "DC7B", ("C", "OUT"): "DCB",
    ("7", "BFU"): "7", ("7", "LCK"): "DC7B", ("7", "OUT"): "7",
    ("B", "BFU"): "B", ("B", "LCK"): "B", ("B", "OUT"): "B",
    ("A", "BFU"): "A", ("A", "LCK"): "A", ("A", "OUT"): "A",
}
LETTERS = "A7BCD"
CONTENT = pattern(2 * PAGE + 50, seed=3)


def expected(source, target, state):
    return "works" if state == "UNL" or target in TABLE[source, state] else "EACCES"


def change_all(environment, state):
    mount = environment.mount(options=["inactive=0"] if state == "OUT" else [])
    pairs = [(source, target, length) for source in LETTERS for target in LETTERS for length in (0, len(CONTENT))]
    for source, target, length in pairs:
        make_file(mount / f"{source}{target}{length}", source, CONTENT[:length])
    held = {}
    if state in ("LCK", "OUT"):
        for source, target in [(s, t) for s in LETTERS for t in LETTERS]:
            path = mount / f"{source}{target}-open"
            make_file(path, source, CONTENT)
            held[source, target] = os.open(path, os.O_RDWR)
        mount.lock()
    elif state == "BFU":
        mount = environment.remount(mount, unlock=False)
    results = {}
    for source, target, length in pairs:
        path = mount / f"{source}{target}{length}"
        results[source, target, length] = outcome(set_class, path, target)
        environment.cell(f"[{state} {source}→{target}, {length} bytes]", expected(source, target, state),
                         results[source, target, length])
        left = target if results[source, target, length] == "works" else source
        environment.cell(f"[{state} {source}→{target}, {length} bytes: class]", CLASSES[left], get_class(path))
    for source, target in held:
        environment.cell(f"[{state} {source}→{target}, open]", expected(source, target, state),
                         outcome(set_class, mount / f"{source}{target}-open", target))
    if state != "UNL":
        mount.unlock()
    for source, target, length in pairs:
        path = mount / f"{source}{target}{length}"
        environment.cell(f"[{state} {source}→{target}, {length} bytes: content]", True,
                         read_file(path) == CONTENT[:length])
    for (source, target), handle in held.items():
        environment.cell(f"[{state} {source}→{target}, open: content]", True,
                         os.pread(handle, 3 * PAGE, 0) == CONTENT)
        os.close(handle)
    # The keys in the new headers are right ones: after a remount everything opens.
    mount = environment.remount(mount)
    bad = [pair for pair in pairs if read_file(mount / "%s%s%d" % pair) != CONTENT[:pair[2]]]
    environment.cell(f"[{state}: contents after mounting again]", [], bad)


def test_unlocked(environment):
    change_all(environment, "UNL")


def test_locked(environment):
    change_all(environment, "LCK")


def test_time_has_run_out(environment):
    change_all(environment, "OUT")


def test_before_first_unlock(environment):
    change_all(environment, "BFU")


def test_values(environment):
    mount = environment.mount()
    path = mount / "file"
    write_file(path, CONTENT)
    names = {
        "A": ["complete", "A", "a", "NSFileProtectionComplete"],
        "B": ["completeUnlessOpen", "B", "b", "unless-open", "NSFileProtectionCompleteUnlessOpen"],
        "C": ["completeUntilFirstUserAuthentication", "C", "c", "until-first-unlock",
              "NSFileProtectionCompleteUntilFirstUserAuthentication"],
        "D": ["none", "D", "d", "NSFileProtectionNone"],
        "7": ["completeWhenUserInactive", "7", "when-inactive", "NSFileProtectionCompleteWhenUserInactive"],
    }
    for letter, spellings in names.items():
        for spelling in spellings:
            os.setxattr(path, "user.protection", spelling.encode())
            environment.cell(f"[value {spelling}]", CLASSES[letter], get_class(path))
    for value in [b"", b"complete\n", b"none\0", b" none", b"E", b"G", b"g", b"6", b"Complete", b"AA", b"x" * 300, b"\xff"]:
        environment.cell(f"[value {value[:20]!r}]", "EINVAL", outcome(os.setxattr, path, "user.protection", value))
    environment.cell("[XATTR_CREATE]", "EEXIST",
                     outcome(os.setxattr, path, "user.protection", b"none", os.XATTR_CREATE))
    environment.cell("[XATTR_REPLACE]", "works",
                     outcome(os.setxattr, path, "user.protection", b"none", os.XATTR_REPLACE))
    environment.cell("[removexattr]", "works", outcome(os.removexattr, path, "user.protection"))
    environment.cell("[removexattr changes no class]", CLASSES["D"], get_class(path))
    environment.cell("[content]", True, read_file(path) == CONTENT)
    os.symlink("file", mount / "link")
    os.mkfifo(mount / "fifo")
    for special in ("link", "fifo"):
        result = outcome(lambda: os.setxattr(mount / special, "user.protection", b"none", follow_symlinks=False))
        environment.cell(f"[class of a {special}]", "EPERM", result)


def test_remove_while_locked(environment):
    mount = environment.mount()
    for letter in "ABCD":
        make_file(mount / letter, letter, CONTENT)
    mount.lock()
    for letter in "ABCD":
        environment.cell(f"[removexattr {letter}]", "works", outcome(os.removexattr, mount / letter, "user.protection"))
        environment.cell(f"[class {letter}]", CLASSES[letter], get_class(mount / letter))
    mount.unlock()
    for letter in "ABCD":
        environment.cell(f"[content {letter}]", True, read_file(mount / letter) == CONTENT)


def test_write_permission(environment):
    if os.geteuid() != 0:
        raise Skip("needs root, to act as another user")
    mount = environment.mount(options=["allow_other"])
    os.chmod(mount.path, 0o755)
    path = mount / "file"
    write_file(path, CONTENT)
    os.chmod(path, 0o644)
    environment.cell("[read the class]", "works", as_user(65534, lambda: get_class(path)))
    environment.cell("[set it without write permission]", "EACCES", as_user(65534, lambda: set_class(path, "D")))
    environment.cell("[remove it without write permission]", "EACCES",
                     as_user(65534, lambda: os.removexattr(path, "user.protection")))
    os.chmod(path, 0o666)
    environment.cell("[set it with write permission]", "works", as_user(65534, lambda: set_class(path, "D")))
    environment.cell("[class]", CLASSES["D"], get_class(path))


def flags(mount, path):
    """Which of explicit and key-exposed the file shows."""
    found = json.loads(mount.command("class", "list", "--json", path).stdout)
    entry = found[0] if isinstance(found, list) else found
    if "files" in entry:
        entry = entry["files"][0]
    return {"explicit": bool(entry.get("explicit")), "keyExposed": bool(entry.get("keyExposed"))}


def test_flags(environment):
    mount = environment.mount()
    path = mount / "file"
    write_file(path, CONTENT)
    environment.cell("[new file]", {"explicit": False, "keyExposed": False}, flags(mount, path))
    set_class(path, "C")
    environment.cell("[named the class that it has]", {"explicit": True, "keyExposed": False}, flags(mount, path))
    os.removexattr(path, "user.protection")
    environment.cell("[removexattr]", {"explicit": False, "keyExposed": False}, flags(mount, path))
    set_class(path, "D")
    environment.cell("[loosened]", {"explicit": True, "keyExposed": False}, flags(mount, path))
    set_class(path, "A")
    environment.cell("[tightened]", {"explicit": True, "keyExposed": True}, flags(mount, path))
    mount.command("class", "set", "--reencrypt", "complete", path)
    environment.cell("[encrypted anew]", {"explicit": True, "keyExposed": False}, flags(mount, path))
    environment.cell("[content]", True, read_file(path) == CONTENT)
    write_file(mount / "empty", b"")
    set_class(mount / "empty", "A")
    environment.cell("[tightened while empty]", {"explicit": True, "keyExposed": False}, flags(mount, mount / "empty"))
    write_file(mount / "two", CONTENT)
    mount.command("class", "set", "complete", mount / "two")
    environment.cell("[tightened by class set]", {"explicit": True, "keyExposed": False}, flags(mount, mount / "two"))
    environment.cell("[its content]", True, read_file(mount / "two") == CONTENT)
    environment.cell("[its class]", CLASSES["A"], get_class(mount / "two"))


def test_directory_defaults(environment):
    mount = environment.mount()
    environment.cell("[root without default]", "ENODATA", outcome(get_class, mount.path))
    directory = mount / "directory"
    os.mkdir(directory)
    environment.cell("[no default]", "ENODATA", outcome(get_class, directory))
    environment.cell("[removing no default]", "ENODATA", outcome(os.removexattr, directory, "user.protection"))
    environment.cell("[not listed]", False, "user.protection" in os.listxattr(directory))
    for letter in "ABC7D":
        set_class(directory, letter)
        environment.cell(f"[default {letter}]", CLASSES[letter], get_class(directory))
        environment.cell(f"[default {letter} listed]", True, "user.protection" in os.listxattr(directory))
        write_file(os.path.join(directory, letter), CONTENT)
        environment.cell(f"[file takes {letter}]", CLASSES[letter], get_class(os.path.join(directory, letter)))
        os.mkdir(os.path.join(directory, letter + "-inner"))
        environment.cell(f"[directory takes {letter}]", CLASSES[letter],
                         get_class(os.path.join(directory, letter + "-inner")))
    environment.cell("[newline]", "EINVAL", outcome(os.setxattr, directory, "user.protection", b"none\n"))
    environment.cell("[XATTR_CREATE]", "EEXIST", outcome(
        os.setxattr, directory, "user.protection", b"none", os.XATTR_CREATE))
    environment.cell("[existing files keep theirs]", CLASSES["A"], get_class(os.path.join(directory, "A")))
    os.removexattr(directory, "user.protection")
    environment.cell("[removexattr changes no default]", CLASSES["D"], get_class(directory))
    set_class(directory, "inherit")
    environment.cell("[inherit]", "ENODATA", outcome(get_class, directory))
    write_file(os.path.join(directory, "none"), CONTENT)
    environment.cell("[file takes the mount's]", CLASSES["C"], get_class(os.path.join(directory, "none")))
    # Any class in any state.
    mount = environment.remount(mount, unlock=False)
    for letter in "ABC7D":
        environment.cell(f"[default {letter} at BFU]", "works", outcome(set_class, directory, letter))
    mount.unlock()
    mount.lock()
    for letter in "ABC7D":
        environment.cell(f"[default {letter} at LCK]", "works", outcome(set_class, directory, letter))
    environment.cell("[removed at LCK]", "works", outcome(os.removexattr, directory, "user.protection"))
    set_class(mount.path, "D")
    environment.cell("[the root's default]", CLASSES["D"], get_class(mount.path))
    write_file(mount / "at-root", CONTENT)
    environment.cell("[file at the root]", CLASSES["D"], get_class(mount / "at-root"))


def test_mount_default(environment):
    for letter, name in CLASSES.items():
        mount = environment.mount(options=[f"default_class={name}"])
        write_file(mount / "file", CONTENT)
        environment.cell(f"[default_class={name}]", name, get_class(mount / "file"))
        mount.unmount()


def test_open_handles_move_between_classes(environment):
    """A handle that leaves A keeps working through the next lock; one that enters A does not."""
    handles_move(environment, "A", [])


def test_open_handles_when_time_has_run_out(environment):
    """The same for class 7, when its time after the lock has run out."""
    handles_move(environment, "A7", ["inactive=0"])


def handles_move(environment, closed, options):
    mount = environment.mount(options=options)
    handles, maps = {}, {}
    moves = [(source, target) for source in LETTERS for target in LETTERS]
    for source, target in moves:
        path = mount / f"{source}{target}"
        make_file(path, source, CONTENT)
        handles[source, target] = os.open(path, os.O_RDWR)
        maps[source, target] = mmap.mmap(handles[source, target], len(CONTENT))
        maps[source, target][0:10]
        set_class(path, target)
    mount.lock()
    for source, target in moves:
        wanted = "EACCES" if target in closed else "works"
        handle, memory = handles[source, target], maps[source, target]
        environment.cell(f"[{source}→{target}: read]", wanted, outcome(os.pread, handle, 10, 0))
        environment.cell(f"[{source}→{target}: write]", wanted, outcome(os.pwrite, handle, CONTENT[:10], 0))
        environment.cell(f"[{source}→{target}: write of a whole page]", wanted,
                         outcome(os.pwrite, handle, CONTENT[:PAGE], 0))
        environment.cell(f"[{source}→{target}: mapped load]", "SIGBUS" if target in closed else "works",
                         in_child(lambda: memory[PAGE]))
        environment.cell(f"[{source}→{target}: mapped store]", "SIGBUS" if target in closed else "works",
                         in_child(lambda: memory.__setitem__(slice(0, 10), CONTENT[:10])))
    mount.unlock()
    for source, target in moves:
        environment.cell(f"[{source}→{target}: content]", True,
                         os.pread(handles[source, target], 3 * PAGE, 0) == CONTENT)
        maps[source, target].close()
        os.close(handles[source, target])


def test_class_b_key_goes_with_its_last_handle(environment):
    """Class B, locked: each handle works until closed, and after the last one nothing opens it."""
    mount = environment.mount()
    make_file(mount / "file", "B", CONTENT)
    first = os.open(mount / "file", os.O_RDWR)
    second = os.open(mount / "file", os.O_RDWR)
    mount.lock()
    os.close(first)
    environment.cell("[second handle reads]", "works", outcome(os.pread, second, 10, 0))
    environment.cell("[open meanwhile]", "EACCES", outcome(os.open, mount / "file", os.O_RDONLY))
    memory = mmap.mmap(second, PAGE)
    os.close(second)
    environment.cell("[mapping reads after close]", "works", in_child(lambda: memory[5]))
    memory.close()
    environment.cell("[open after the last]", "EACCES", outcome(os.open, mount / "file", os.O_RDONLY))
    mount.unlock()
    environment.cell("[content]", True, read_file(mount / "file") == CONTENT)


def test_state_attribute(environment):
    mount = environment.mount(unlock=False)
    environment.cell("[BFU]", "before-first-unlock", mount.state())
    mount.unlock()
    environment.cell("[UNL]", "unlocked", mount.state())
    mount.lock()
    environment.cell("[LCK]", "locked", mount.state())
    environment.cell("[not listed]", False, "user.protectfs.state" in os.listxattr(mount.path))
    environment.cell("[cannot be set]", True,
                     outcome(os.setxattr, mount.path, "user.protectfs.state", b"unlocked") != "works")
    environment.cell("[cannot be removed]", True,
                     outcome(os.removexattr, mount.path, "user.protectfs.state") != "works")
    os.mkdir(mount / "inner")
    environment.cell("[only on the root]", "ENODATA",
                     outcome(os.getxattr, mount / "inner", "user.protectfs.state"))
    environment.cell("[still locked]", "locked", mount.state())
