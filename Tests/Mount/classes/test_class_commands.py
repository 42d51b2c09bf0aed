"""`protectfs class`, as a person or a script uses it."""

import json
import mmap
import os

from harness import get_class, in_child, outcome, pattern, read_file, set_class, write_file
from refusals import code_of

NAMES = ["complete", "completeUnlessOpen", "completeUntilFirstUserAuthentication", "none"]


def test_classes(environment):
    mount = environment.mount()
    os.makedirs(mount / "tree/below")
    files = {"A": "tree/a", "B": "tree/below/b", "C": "tree/c", "D": "tree/below/d é"}
    for letter, name in files.items():
        write_file(mount / name, pattern(9000))
        mount.command("class", "set", letter, mount / name)
        assert get_class(mount / name) == NAMES["ABCD".index(letter)]
        assert read_file(mount / name) == pattern(9000)
    for word in ("complete", "COMPLETE", "a", "NSFileProtectionComplete", "unless-open", "until-first-unlock", "none"):
        done = mount.command("class", "set", word, mount / "tree/c", ok=False)
        environment.cell(f"class set {word}", 2 if word == "COMPLETE" else 0, done.returncode)
    mount.command("class", "set", "A", mount / "tree")
    assert "default for new entries: complete" in mount.command("class", "get", mount / "tree").stdout
    rows = json.loads(mount.command("class", "list", "-R", "--json", mount / "tree").stdout)
    listed = {os.path.relpath(row["path"], mount.path): row for row in rows}
    assert set(listed) == {"tree", "tree/below", *files.values()}, listed
    assert listed["tree/a"]["class"] == "complete" and listed["tree/a"]["explicit"], listed["tree/a"]
    assert listed["tree/c"]["weakerThanDirectory"] and not listed["tree/a"]["weakerThanDirectory"], listed
    text = mount.command("class", "list", mount / "tree").stdout
    assert "weak" in text and "below" in text and "below/b" not in text, text
    mount.command("class", "set", "-R", "B", mount / "tree")
    for name in files.values():
        environment.cell(f"class set -R {name}", "completeUnlessOpen", get_class(mount / name))
    # Locked: said as what it is.
    mount.lock()
    code_of(environment, "class set while locked", 8, "class", "set", "A", mount / "tree/c")
    code_of(environment, "no such class", 2, "class", "set", "secret", mount / "tree/c")
    code_of(environment, "no such file", 1, "class", "get", mount / "missing")
    said = mount.command("class", "get", mount / "tree/c").stdout
    assert "completeUnlessOpen (B), closed while the volume is locked" in said, said
    mount.unlock()
    said = mount.command("class", "get", mount / "tree/c").stdout
    assert "completeUnlessOpen (B)" in said and "closed" not in said, said


def test_warnings(environment):
    """A file that is not as its directory's new files are is told of: by class set, and by class list."""
    mount = environment.mount()

    def said(*words):
        return mount.command("class", *words).stderr

    def marks(path):
        row = json.loads(mount.command("class", "list", "--json", path).stdout)[0]
        return tuple(row[member] for member in ("strongerThanDirectory", "weakerThanDirectory"))

    os.mkdir(mount / "plain")
    os.mkdir(mount / "private")
    for name in ("plain/file", "plain/other", "plain/third"):
        write_file(mount / name, b"x")
    environment.cell("[a directory]", "", said("set", "complete", mount / "private"))
    # Stronger than what new files get: the volume's default, then the directory's own.
    text = said("set", "complete", mount / "plain/file", mount / "plain/other")
    environment.cell("[stronger files]", (1, True), (text.count("\n"), f"{mount / 'plain'}: new files get class "
                     "until-first-unlock, 2 files there have a stronger one (complete); protectfs class set complete " in text))
    environment.cell("[stronger files, listed]", True, "2 files there have a stronger one" in said("list", mount / "plain"))
    environment.cell("[as it is]", "", said("list", mount / "private") + said("set", "C", mount / "plain/third"))
    environment.cell("[its marks]", (True, False), marks(mount / "plain/file"))
    environment.cell("[JSON says it itself]", "", said("list", "--json", mount / "plain"))
    # Weaker: moved in, and set.
    os.rename(mount / "plain/third", mount / "private/third")
    text = said("list", "-R", mount.path)
    environment.cell("[moved in]", True, f"{mount / 'private'}: new files get class complete, a file there has a weaker one;" in text)
    environment.cell("[both]", 2, text.count("\n"))
    environment.cell("[its marks]", (False, True), marks(mount / "private/third"))
    # What was chosen needs no word: a weaker class, and any in a directory with a default of its own.
    environment.cell("[chosen]", "", said("set", "none", mount / "private/third"))
    mount.command("class", "set", "B", mount / "private")
    environment.cell("[beside a chosen default]", "", said("set", "complete", mount / "private/third"))
    # What is said to do is what helps.
    environment.cell("[a tree]", "", said("set", "-R", "complete", mount / "plain", mount / "private"))
    environment.cell("[nothing more to say]", "", said("list", "-R", mount.path))
    # The volume's own default counts where a directory has none.
    write_file(mount / "top", b"x")
    mount.command("class", "set", "complete", mount.path)
    environment.cell("[the volume's]", (False, True), marks(mount / "top"))
    listed = mount.command("class", "list", mount.path)
    environment.cell("[the volume's, in words]", (True, 1), ("weak" in listed.stdout, listed.stderr.count("\n")))
    # The mount's.
    mount = environment.mount(options=("default_class=unless-open",))
    write_file(mount / "file", b"x")
    environment.cell("[the mount's]", True, f"{mount.path}: new files get class unless-open" in said("set", "complete", mount / "file"))


def test_tightening(environment):
    mount = environment.mount()

    def row(name):
        return json.loads(mount.command("class", "list", "--json", mount / name).stdout)[0]

    content = pattern(3 << 20)
    # setfattr cannot re-encrypt, and says so in the listing; class set does.
    write_file(mount / "exposed", content)
    set_class(mount / "exposed", "A")
    assert row("exposed")["keyExposed"]
    assert "exposed" in mount.command("class", "list", mount / "exposed").stdout
    inode = os.stat(mount / "exposed")
    os.setxattr(mount / "exposed", "user.note", b"kept")
    os.utime(mount / "exposed", (1, 2))
    mount.command("class", "set", "--reencrypt", "A", mount / "exposed")
    assert not row("exposed")["keyExposed"]
    after = os.stat(mount / "exposed")
    assert (after.st_mode, after.st_size, after.st_mtime) == (inode.st_mode, inode.st_size, 2), after
    assert os.getxattr(mount / "exposed", "user.note") == b"kept"
    assert read_file(mount / "exposed") == content
    write_file(mount / "tight", content)
    mount.command("class", "set", "A", mount / "tight")
    assert get_class(mount / "tight") == "complete" and not row("tight")["keyExposed"]
    assert read_file(mount / "tight") == content
    # An empty file gets a new key in any case.
    write_file(mount / "empty", b"")
    set_class(mount / "empty", "A")
    assert not row("empty")["keyExposed"]
    # Several names: refused, unless only the wrap is changed.
    write_file(mount / "one", content)
    os.link(mount / "one", mount / "two")
    done = mount.command("class", "set", "A", mount / "one", ok=False)
    assert done.returncode == 1 and "--wrap-only" in done.stderr, done.stderr
    assert get_class(mount / "two") == NAMES[2]
    mount.command("class", "set", "--wrap-only", "A", mount / "one")
    assert get_class(mount / "two") == "complete" and row("one")["keyExposed"]
    # Open for writing somewhere: in use.
    write_file(mount / "busy", content)
    with open(mount / "busy", "r+b"):
        done = mount.command("class", "set", "A", mount / "busy", ok=False)
        assert done.returncode == 6, (done.returncode, done.stderr)
        assert get_class(mount / "busy") == NAMES[2]
    # Whoever reads it goes on reading.
    with open(mount / "busy", "rb") as file:
        mount.command("class", "set", "A", mount / "busy")
        assert file.read() == content
    remounted = environment.remount(mount)
    for name in ("exposed", "tight", "one", "busy"):
        assert read_file(remounted / name) == content, name


def test_readers_of_before(environment):
    """`class set` gives a new inode: a handle and a mapping on the old one are held to the new class all the same."""
    mount = environment.mount()
    write_file(mount / "file", b"content")
    handle = os.open(mount / "file", os.O_RDONLY)
    memory = mmap.mmap(handle, 7, prot=mmap.PROT_READ)
    environment.cell("[open]", (b"content", b"content"), (os.pread(handle, 7, 0), memory[:]))
    mount.command("class", "set", "complete", mount / "file")
    environment.cell("[class set]", b"content", os.pread(handle, 7, 0))
    mount.lock()
    environment.cell("[locked]", "EACCES", outcome(os.pread, handle, 7, 0))
    environment.cell("[locked: mapping]", "SIGBUS", in_child(lambda: memory[0]))
    mount.unlock()
    environment.cell("[unlocked]", (b"content", b"content"), (os.pread(handle, 7, 0), memory[:]))
    memory.close()
    os.close(handle)
