"""`protectfs inspect` of objects that no mount of this version made: planted, unreadable, newer, and the format's own."""

import json
import os
import shutil
import socket

from future import Store, field_flags, flags, next_generation
from harness import binary, pattern, protectfs, read_file, sync, write_file
from refusals import code_of
from test_inspect import DAMAGED, FAILURE, NEWER, NOT_A_VOLUME, SIZE, USAGE, VERIFIED, Scene, inspect
from users import OrdinaryUser


def test_objects_of_the_format(environment):
    """What they are; of those that are files, also their pages."""
    scene = Scene(environment)
    store = scene.volume.path
    os.mkdir(os.path.join(store, ".protectfs.lost+found"))
    for name, word, pages in (
            (".protectfs.tmp.abc", "temporary", True), (".protectfs.lost+found/was here", "lostAndFound", True),
            (".protectfs.late.00000000000000ff", "late", False)):
        shutil.copy(scene.file, os.path.join(store, name))
        code, report = scene.look(os.path.join(store, name))
        environment.cell(name, (VERIFIED, None, word, pages),
                         (code, report["name"], report["reserved"], report.get("verifiedPages") == 5))
    for name, word in ((".protectfs.aside.abc", "aside"), (".protectfs.tmp.link", "temporary"), ("~" + "A" * 43 + ".n", "companion")):
        os.symlink("x", os.path.join(store, name))
        code, report = scene.look(os.path.join(store, name))
        environment.cell(name, (VERIFIED, word), (code, report["reserved"]))
    code, report = scene.look(os.path.join(store, ".protectfs.lost+found"))
    environment.cell("lost+found", (VERIFIED, "lostAndFound"), (code, report["reserved"]))
    mount = environment.mount(scene.volume)
    name = "l" * 200
    write_file(mount / name, pattern(SIZE))
    companion = json.loads(mount.command("path", "--json", mount / name).stdout)["companion"]
    mount.unmount()
    code, report = scene.look(companion)
    environment.cell("a companion", (VERIFIED, name, "companion"), (code, report["name"]["path"], report["reserved"]))
    put = os.readlink(companion)
    put = ("B" if put[0] == "A" else "A") + put[1:]
    os.unlink(companion)
    os.symlink(put, companion)
    code, report = scene.look(companion)
    environment.cell("a changed companion", (DAMAGED, "undecryptable"), (code, report["name"]["standing"]))
    code, report = scene.look(companion.removesuffix(".n"))
    environment.cell("its entry", (DAMAGED, "undecryptable", 0), (code, report["name"]["standing"], report["refusedPages"]))


def test_hostile_objects(environment):
    scene = Scene(environment)
    store = scene.volume.path
    os.mkfifo(os.path.join(store, "fifo"))
    code, report = scene.look(os.path.join(store, "fifo"))
    environment.cell("a FIFO", (DAMAGED, "fifo", "undecryptable"), (code, report["kind"], report["name"]["standing"]))
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(os.path.join(store, "socket"))
        environment.cell("a socket", "socket", scene.look(os.path.join(store, "socket"))[1]["kind"])
    if os.geteuid() == 0:
        os.mknod(os.path.join(store, "zero"), 0o20600, os.makedev(1, 5))
        environment.cell("an endless device", "characterDevice", scene.look(os.path.join(store, "zero"))[1]["kind"])
    hostile = os.path.join(os.fsencode(store), b"\xff\n\x1b]0;x\x07")
    write_file(hostile, b"x" * 5000)
    code, report = scene.look(hostile)
    environment.cell("a hostile name", (DAMAGED, "header"), (code, report["error"]))
    text = protectfs("inspect", "--recovery-file", scene.volume.code_file, hostile, env=scene.volume.environment, ok=False).stdout
    environment.cell("shown without control characters", [], [byte for byte in text if ord(byte) < 32 and byte != "\n"])
    # A link in the store is an object of it and is not followed; a link elsewhere leads to its target.
    os.symlink("/etc/passwd", os.path.join(store, "lure"))
    code, report = scene.look(os.path.join(store, "lure"))
    environment.cell("a link of the store", (DAMAGED, "symlink"), (code, report["target"]["reason"]))
    elsewhere = environment.new_path("link")
    os.symlink(scene.file, elsewhere)
    environment.cell("a link elsewhere", VERIFIED, scene.look(elsewhere)[0])
    for name, code, path in (("nothing", FAILURE, os.path.join(store, "nothing")), ("not in a volume", NOT_A_VOLUME, "/etc/passwd"),
                             ("a long path", FAILURE, "x/" * 3000)):
        code_of(environment, name, code, "inspect", path, env=scene.volume.environment)
    code_of(environment, "no path", USAGE, "inspect")


def test_unreadable_objects(environment):
    """An ordinary user whose file lacks the permission: inspect does not give it to itself."""
    user = OrdinaryUser(environment)
    words = [binary(), "inspect", "--json", "--recovery-file", user.code_file]
    user.run(binary(), "mount", "--recovery-file", user.code_file, user.volume, user.path)
    user.run("sh", "-c", f"echo x > {user.path}/file; mkdir {user.path}/dir; echo x > {user.path}/dir/inner")
    paths = [user.run(binary(), "path", f"{user.path}/{name}").stdout.strip() for name in ("file", "dir", "dir/inner")]
    user.run(binary(), "unmount", user.path)
    environment.cell("readable", 0, user.run(*words, paths[0], ok=False).returncode)
    os.chmod(paths[0], 0)
    os.chmod(paths[1], 0o100)
    for name, path in zip(("a file", "a directory", "a file below it"), paths):
        done = user.run(*words, path, ok=False)
        environment.cell(f"{name}: refused", (FAILURE, True), (done.returncode, "ermission denied" in done.stderr))
    environment.cell("the modes are untouched", [0, 0o100], [os.stat(path).st_mode & 0o777 for path in paths[:2]])


#: What inspect says that this version does not know.
REASONS = {"a header's version": "version 3", "class 6": "unknown class", "compression": "unknown compression",
           "an incompatible flag": "unknown flags", "a generation": "unknown generation of the class key"}


def test_made_by_a_newer_version(environment):
    """Right MACs and tags around what this version does not know; with a wrong one it is damage."""
    scene = Scene(environment)
    store = Store(scene.volume)
    sound = read_file(scene.file)
    verified = ["0-0 verified", "1-3 verified", "4-4 verified"]
    unchecked = [page.replace("verified", "unchecked") for page in verified]
    for name, wanted, pages, change in (
            ("a header's version", NEWER, unchecked, {3: b"\x03"}), ("class 6", NEWER, unchecked, {4: b"\x06"}),
            ("compression", NEWER, unchecked, {7: b"\x01"}), ("an incompatible flag", NEWER, unchecked, flags(1 << 6)),
            ("a generation", NEWER, unchecked, next_generation),
            ("a flag that allows reading", NEWER, verified, flags(1 << 9)), ("a flag that is kept", VERIFIED, verified, flags(1 << 13))):
        store.header("file", change)
        report = scene.cell(name, wanted, pages)
        environment.cell(f"{name}: verifies", True, report["header"]["verifies"])
        found = {member: report["header"][member] for member in ("class", "cipher", "flags", "generation", "fileID")}
        environment.cell(f"{name}: its parts", [], [member for member, value in found.items() if value is None])
        environment.cell(f"{name}: what is not known", REASONS.get(name), report["header"]["newer"])
        if name == "class 6":
            environment.cell("class 6 is shown", "6", found["class"])
        write_file(scene.file, sound)
        store.header("file", change, tampered=True)
        environment.cell(f"{name}, tampered", (DAMAGED, "damaged"), (lambda code, report: (code, report["result"]))(*scene.look()))
        write_file(scene.file, sound)
    store.header("file", flags(1 << 13))
    environment.cell("it is shown", ["bit 13"], scene.look()[1]["header"]["flags"])
    write_file(scene.file, sound)
    for tampered, wanted, reason in ((False, NEWER, "newer"), (True, DAMAGED, "block")):
        store.block("file", 2, field_flags(0x40), tampered)
        scene.cell(f"a block's flag, tampered: {tampered}", wanted,
                   ["0-0 verified", "1-1 verified", f"2-2 refused/{reason}", "3-3 verified", "4-4 verified"])
        write_file(scene.file, sound)
    target = os.readlink(scene.link)
    for tampered, wanted, reason in ((False, NEWER, "newer"), (True, DAMAGED, "symlink")):
        store.link("link", 3, tampered)
        code, report = scene.look(scene.link)
        environment.cell(f"a link's version, tampered: {tampered}", (wanted, reason), (code, report["target"]["reason"]))
        os.unlink(scene.link)
        os.symlink(target, scene.link)
    target = os.readlink(os.path.join(scene.dir, ".protectfs.dir"))
    for name, change, more in (("version", {3: b"\x03"}, b""), ("length", {}, b"more of it!!"), ("flag", {5: b"\x10"}, b"")):
        for tampered, wanted, reason in ((False, NEWER, "newer"), (True, DAMAGED, "record")):
            store.record("dir", change, more, tampered)
            code, report = scene.look(scene.dir)
            environment.cell(f"a record's {name}, tampered: {tampered}", (wanted, reason), (code, report["record"]["reason"]))
            code, report = scene.look(scene.inner)
            environment.cell(f"a record's {name}, tampered: {tampered}: a file below it", (DAMAGED if tampered else VERIFIED, 0),
                             (code, report["refusedPages"]))
            os.unlink(os.path.join(scene.dir, ".protectfs.dir"))
            os.symlink(target, os.path.join(scene.dir, ".protectfs.dir"))
    write_file(os.path.join(scene.volume.path, ".protectfs.of-tomorrow"), b"x")
    code, report = scene.look(os.path.join(scene.volume.path, ".protectfs.of-tomorrow"))
    environment.cell("an unknown reserved name", (VERIFIED, "unknown"), (code, report["reserved"]))


def test_names_that_turn_text(environment):
    """Characters that end a line or turn the direction of text do not come out of inspect for people, through a pipe either."""
    mount = environment.mount()
    name = "a\u202etxt.\u2028b\u200fc"
    write_file(mount / name, b"x")
    sync(mount.path)
    path = mount.stored(name)
    done = protectfs("inspect", "--no-unlock", path, env=mount.volume.environment, ok=False)
    shown = r"/a\xE2\x80\xAEtxt.\xE2\x80\xA8b\xE2\x80\x8Fc"
    environment.cell("for people", (True, []), (shown in done.stdout, [one for one in name if one in done.stdout and ord(one) > 127]))
    environment.cell("--json", name, inspect(mount.volume, path)[1]["name"]["path"])
