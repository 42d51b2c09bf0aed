"""A store without keys cannot weaken the class of new files or present a name of its choice: lost records, replaced headers."""

import base64
import os
import shutil

import reader
from checks import fsck, kinds, report
from harness import CLASSES, get_class, outcome, read_file, set_class, write_file
from terminal import at_terminal

RECORD = b".protectfs.dir"
HEADER = 128


def record(volume, path):
    return os.path.join(volume.backing_path(path), RECORD)


def flip_mac(path):
    target = os.readlink(path)
    os.unlink(path)
    os.symlink(target[:-3] + (b"A" if target[-3:-2] != b"A" else b"B") + target[-2:], path)


def lay_header(source, target):
    """The 128 bytes of one file's header over another's; gives what was there."""
    with open(source, "rb") as file:
        header = file.read(HEADER)
    with open(target, "r+b") as file:
        before = file.read(HEADER)
        file.seek(0)
        file.write(header)
    return before


def rename_without_key(path, old, new):
    """Turns a known name into another one of its length, by its encoding alone."""
    directory, name = os.path.split(path)
    raw = bytearray(base64.urlsafe_b64decode(name + b"=" * (-len(name) % 4)))
    for index, (one, other) in enumerate(zip(old, new, strict=True)):
        raw[16 + index] ^= one ^ other
    chosen = base64.urlsafe_b64encode(bytes(raw)).rstrip(b"=")
    os.rename(path, os.path.join(directory, chosen))


def creations(mount, directory):
    """Every way of making something in a directory, and what comes of it."""
    new = os.path.join(mount / directory, "new")
    return {
        "create": outcome(write_file, new, b"new"),
        "mkdir": outcome(os.mkdir, new),
        "symlink": outcome(os.symlink, "target", new),
        "mknod": outcome(os.mkfifo, new),
        "link": outcome(os.link, mount / "plain", new),
        "rename": outcome(os.rename, mount / "plain", new),
        "class set": outcome(set_class, mount / directory, "D"),
    }


def test_nothing_is_created(environment):
    """No record is made up, so nothing gets a weaker class than the lost record asked for; repair gives the strongest."""
    reader.load()
    mount = environment.mount()
    set_class(mount.path, "A")
    for name in ("empty", "full", "broken", "inherits"):
        os.mkdir(mount / name)
        set_class(mount / name, "A")
    set_class(mount / "inherits", "inherit")
    write_file(mount / "full/file", b"content")
    os.mkdir(mount / "full/directory")
    write_file(mount / "plain", b"plain")
    mount.unmount()
    below = reader.unlock(mount.volume)
    for name in ("empty", "full/directory", "full"):
        os.unlink(record(below, name))
    flip_mac(record(below, "broken"))
    root = record(below, "")
    mount = environment.mount(mount.volume, path=mount.path)
    for name in ("empty", "full", "broken"):
        environment.cell(f"{name}: nothing is created", {"EIO"}, set(creations(mount, name).values()))
    shown = sorted(os.listdir(mount / "full"))
    environment.cell("full: names are marked", [True] * 2, [name.startswith(".unverified-") for name in shown])
    marked = {name.rsplit("-", 1)[1]: os.path.join(mount / "full", name) for name in shown}
    environment.cell("full: read", b"content", read_file(marked["file"]))
    environment.cell("full: not by its plain name", "ENOENT", outcome(read_file, mount / "full/file"))
    environment.cell("full: moved away, and removed", ["works"] * 3, [
        outcome(os.rename, marked["file"], mount / "saved"), outcome(os.rmdir, marked["directory"]),
        outcome(os.rmdir, mount / "full")])
    environment.cell("saved", b"content", read_file(mount / "saved"))
    mount.unmount()

    # Without the root's record nothing takes the mount's default in the place of the root's.
    os.unlink(root)
    mount = environment.mount(mount.volume, path=mount.path)
    environment.cell("root: nothing is created", {"EIO"}, set(creations(mount, ".").values()))
    environment.cell("inherits: no file is created", "EIO", outcome(write_file, mount / "inherits/new", b"new"))
    environment.cell("inherits: listed", [], os.listdir(mount / "inherits"))
    mount.unmount()

    code, answer = report(mount.volume)
    environment.cell("fsck", (4, ["missing-record", "missing-record", "record"]), (code, kinds(answer)))
    code, answer = report(mount.volume, "--repair")
    environment.cell("repair", (1, [("", "complete"), ("broken", "complete"), ("empty", "complete")]), (
        code, sorted((repair["path"], repair["class"]) for repair in answer["repairs"] if repair["action"] == "rebuilt")))
    mount = environment.mount(mount.volume, path=mount.path)
    for name in ("empty", "broken", "inherits", "."):
        write_file(os.path.join(mount / name, "new"), b"new")
        environment.cell(f"{name}: class of a new file", CLASSES["A"], get_class(os.path.join(mount / name, "new")))


def test_chosen_names(environment):
    """A name that the store has chosen is marked, before and after a repair, until a person has confirmed it."""
    reader.load()
    mount = environment.mount()
    os.mkdir(mount / "ssh")
    for name in ("visitors_address", "known", "seen", "n" * 240):
        write_file(mount / f"ssh/{name}", name.encode())
    mount.unmount()
    volume = mount.volume
    below = reader.unlock(volume)
    rename_without_key(below.backing_path("ssh/visitors_address"), b"visitors_address", b"authorized_keys2")
    os.unlink(record(below, "ssh"))
    mount = environment.mount(volume, path=mount.path)
    marked = sorted(os.listdir(mount / "ssh"))
    environment.cell("marked", [True] * 4, [name.startswith(".unverified-") for name in marked])
    environment.cell("the chosen name is not there", "ENOENT", outcome(os.lstat, mount / "ssh/authorized_keys2"))
    environment.cell("every file can be read", {"visitors_address", "known", "seen", "n" * 240},
                     {read_file(os.path.join(mount / "ssh", name)).decode() for name in marked})
    mount.unmount()

    code, answer = report(volume)
    told = sorted(finding["path"] for finding in answer["findings"] if finding["kind"] == "unverified-name")
    environment.cell("fsck tells of each", (4, [f"ssh/{name}" for name in marked]), (code, told))
    for words in (["--accept-name", "ssh/known"], ["--accept-names"], ["--accept-names-from", "/dev/null"]):
        environment.cell(f"{words[0]} without --repair", 16, fsck(volume, *words).returncode)
    environment.cell("--accept-names without a terminal", 16, fsck(volume, "--repair", "--accept-names").returncode)
    code, answer = report(volume, "--repair")
    environment.cell("a plain repair", (1, 0), (code, answer["remaining"]))
    mount = environment.mount(volume, path=mount.path)
    environment.cell("keeps the marks", marked, sorted(os.listdir(mount / "ssh")))
    environment.cell("and what is in the files", {"visitors_address", "known", "seen", "n" * 240},
                     {read_file(os.path.join(mount / "ssh", name)).decode() for name in marked})
    write_file(mount / "ssh/new", b"new")
    mount.unmount()

    names = environment.new_path("names")
    write_file(names, "\n".join(path for path in told if path.endswith("-known")).encode() + b"\n")
    report(volume, "--repair", "--accept-names-from", names)
    report(volume, "--repair", "--accept-name", "ssh/seen")
    words = ["fsck", "--repair", "--accept-names", "--recovery-file", volume.code_file, volume.path]
    code, shown, _ = at_terminal(words, volume.environment, [("[y/N]", "n\n"), ("[y/N]", "n\n")])
    environment.cell("asked about each", (True, True), (f"-{'n' * 20}" in shown, "-authorized_keys2: the name authorized_keys2 is not verified" in shown))
    mount = environment.mount(volume, path=mount.path)
    left = sorted(os.listdir(mount / "ssh"))
    environment.cell("those confirmed are signed", ["known", "new", "seen"], left[2:])
    environment.cell("the others are not", [True, True], [name.startswith(".unverified-") for name in left[:2]])
    chosen = next(name for name in left if name.endswith("authorized_keys2"))
    os.rename(os.path.join(mount / "ssh", chosen), mount / "ssh/address")
    environment.cell("renamed by hand", b"visitors_address", read_file(mount / "ssh/address"))


def test_a_name_claimed_twice(environment):
    """A confirmed path means the entry that carries it: the store does not choose which of two gets the name."""
    reader.load()
    mount = environment.mount()
    os.mkdir(mount / "d")
    for name in ("good", "evil", "sole"):
        write_file(mount / f"d/{name}", name.encode())
    mount.unmount()
    volume = mount.volume
    below = reader.unlock(volume)
    rename_without_key(below.backing_path("d/evil"), b"evil", b"good")
    os.unlink(record(below, "d"))
    mount = environment.mount(volume, path=mount.path)
    marked = {read_file(mount / f"d/{name}").decode(): name for name in os.listdir(mount / "d")}
    mount.unmount()

    # By the name alone: neither of the two, in the run that makes the record and in a later one.
    for words in (["d/good", "d/sole"], ["/d/good"]):
        report(volume, "--repair", *(part for path in words for part in ("--accept-name", path)))
        mount = environment.mount(volume, path=mount.path)
        environment.cell(f"{words[0]}: neither", sorted(["sole", marked["good"], marked["evil"]]),
                         sorted(os.listdir(mount / "d")))
        mount.unmount()
    # By the marked name, as fsck prints it, or by the answer to the question about it: this one.
    report(volume, "--repair", "--accept-name", f"/d/{marked['good']}")
    mount = environment.mount(volume, path=mount.path)
    environment.cell("the one that was confirmed", (sorted(["good", "sole", marked["evil"]]), b"good"),
                     (sorted(os.listdir(mount / "d")), read_file(mount / "d/good")))
    os.unlink(mount / "d/good")
    mount.unmount()
    words = ["fsck", "--repair", "--accept-names", "--recovery-file", volume.code_file, volume.path]
    _, shown, _ = at_terminal(words, volume.environment, [("[y/N]", "y\n")])
    environment.cell("asked about the entry", True, f"/d/{marked['evil']}: the name good is not verified" in shown)
    mount = environment.mount(volume, path=mount.path)
    environment.cell("answered", b"evil", read_file(mount / "d/good"))


def test_headers(environment):
    """The header of a weaker file over a class A file, or over the one that replaces it, decides nothing."""
    reader.load()
    mount = environment.mount()
    for letter in "ABCD":
        write_file(mount / letter, letter.encode() * 5000)
        set_class(mount / letter, letter)
    for letter in "BCD":
        shutil.copy(mount / "A", mount / f"laid {letter}")
        set_class(mount / f"laid {letter}", "A")
    write_file(mount / "target", b"old")
    set_class(mount / "target", "A")
    mount.unmount()
    below = reader.unlock(mount.volume)
    for letter in "BCD":
        lay_header(below.backing_path(letter), below.backing_path(f"laid {letter}"))
    mount = environment.mount(mount.volume, path=mount.path)
    for letter in "BCD":
        write_file(mount / "new", b"new")
        environment.cell(f"header of {letter} over A", "EIO", outcome(os.rename, mount / "new", mount / f"laid {letter}"))
        environment.cell(f"header of {letter} over A: the new file", (CLASSES["C"], b"new"),
                         (get_class(mount / "new"), read_file(mount / "new")))
        environment.cell(f"header of {letter} over A: class set", "EIO",
                         outcome(set_class, mount / f"laid {letter}", "A"))
        os.unlink(mount / "new")

    # Over the new file: it claims to be strong enough, or chosen, for as long as the rename takes.
    for letter in "AD":
        write_file(mount / "new", b"new")
        new = below.backing_path("new")
        before = lay_header(below.backing_path(letter), new)
        environment.cell(f"header of {letter} over the new file", "EIO",
                         outcome(os.rename, mount / "new", mount / "target"))
        with open(new, "r+b") as file:
            file.write(before)
        os.rename(mount / "new", mount / "target")
        environment.cell(f"header of {letter} over the new file: afterwards", (CLASSES["A"], b"new"),
                         (get_class(mount / "target"), read_file(mount / "target")))

    # While locked, the header's word counts for what this mount has not proven: what takes its place is closed as well.
    mount = environment.remount(mount)
    mount.lock()
    for name in ("B", "laid B"):
        write_file(mount / "new", b"new")
        environment.cell(f"over {name} while locked", "works", outcome(os.rename, mount / "new", mount / name))
        environment.cell(f"over {name} while locked: read", "EACCES", outcome(read_file, mount / name))
    mount.unlock()
    environment.cell("B, opened", b"new", read_file(mount / "B"))
    mount.lock()
    write_file(mount / "new", b"new")
    environment.cell("over B while locked, proven before", "works", outcome(os.rename, mount / "new", mount / "B"))
    environment.cell("it is B", CLASSES["B"], get_class(mount / "B"))
