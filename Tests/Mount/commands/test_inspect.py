"""`protectfs inspect`: what one object of a store is, page by page, and why it is refused. It changes nothing."""

import json
import os
import shutil
import socket
import subprocess

from future import Store, field_flags, flags, next_generation
from harness import PAGE, PASSPHRASE, binary, pattern, protectfs, read_file, run, set_class, sync, write_file
from refusals import code_of, digest
from users import OrdinaryUser

VERIFIED, FAILURE, USAGE, DAMAGED, NOT_A_VOLUME, NEWER, LOCKED = 0, 1, 2, 4, 4, 5, 8
# Of AES-256-GCM and XChaCha20-Poly1305 alike: this many bytes have five pages.
SIZE = 18_000


def backing(mount, name):
    return mount.command("path", mount / name).stdout.removesuffix("\n")


def inspect(volume, path, *words, unlock=True, ok=True, **more):
    """(exit code, report)."""
    key = ["--recovery-file", volume.code_file] if unlock else []
    done = protectfs("inspect", "--json", *key, *words, path, env=volume.environment, ok=False, **more)
    assert done.stdout or not ok, done.stderr
    return done.returncode, json.loads(done.stdout) if done.stdout else done.stderr


def shown(report):
    """The pages as words: first-last state/reason."""
    return [f"{run['first']}-{run['last']} {run['state']}" + (f"/{run['reason']}" if run["reason"] else "") for run in report["pages"]]


def alter(path, offset, change=None):
    """Flips a bit, or overwrites bytes."""
    with open(path, "r+b", buffering=0) as file:
        file.seek(offset)
        old = file.read(1)
        file.seek(offset)
        file.write(bytes([old[0] ^ 1]) if change is None else change)


class Scene:
    """A volume with one file of five pages and others, unmounted."""

    def __init__(self, environment):
        self.environment = environment
        mount = environment.mount()
        self.volume = mount.volume
        os.makedirs(mount / "dir")
        for name in ("file", "other", "dir/inner"):
            write_file(mount / name, pattern(SIZE, seed=len(name)))
        for letter in "ABCD":
            write_file(mount / letter, b"x")
            set_class(mount / letter, letter)
        os.symlink("/target of it", mount / "link")
        self.file, self.other, self.link, self.dir = (backing(mount, name) for name in ("file", "other", "link", "dir"))
        self.classes = {letter: backing(mount, letter) for letter in "ABCD"}
        self.inner = backing(mount, "dir/inner")
        mount.unmount()

    def look(self, path=None, *words, **more):
        """Inspects a file, and checks that nothing of the volume has changed."""
        before = digest(self.volume.path), digest(self.volume.data)
        result = inspect(self.volume, path or self.file, *words, **more)
        assert (digest(self.volume.path), digest(self.volume.data)) == before, "inspect has changed something"
        return result

    def cell(self, name, code, pages, path=None, *words, **more):
        found, report = self.look(path, *words, **more)
        self.environment.cell(name, (code, pages), (found, shown(report)))
        return report


def test_sound_objects(environment):
    scene = Scene(environment)
    report = scene.cell("a file", VERIFIED, ["0-0 verified", "1-3 verified", "4-4 verified"])
    assert report["result"] == "verified" and report["size"] == SIZE and report["name"]["path"] == "file", report
    assert report["header"]["verifies"] and report["header"]["class"] == "completeUntilFirstUserAuthentication", report
    assert report["length"] == os.stat(scene.file).st_size and report["pages"][-1]["isLast"], report
    assert sum(run["length"] * (run["last"] - run["first"] + 1) for run in report["pages"]) == SIZE, report
    scene.cell("each page", VERIFIED, [f"{page}-{page} verified" for page in range(5)], scene.file, "--pages")
    code, report = scene.look(scene.inner)
    environment.cell("a file in a directory", (VERIFIED, "dir/inner"), (code, report["name"]["path"]))
    code, report = scene.look(scene.dir)
    environment.cell("a directory", (VERIFIED, True, 32), (code, report["record"]["verifies"], len(report["record"]["directoryID"])))
    code, report = scene.look(scene.volume.path)
    environment.cell("the root", (VERIFIED, "", True), (code, report["name"]["path"], report["record"]["verifies"]))
    code, report = scene.look(scene.link)
    environment.cell("a symbolic link", (VERIFIED, "/target of it"), (code, report["target"]["path"]))
    for letter, path in scene.classes.items():
        code, report = scene.look(path)
        flags = ["KEY_EXPOSED", "EXPLICIT"] if letter in "AB" else ["EXPLICIT"]
        environment.cell(f"class {letter}", (VERIFIED, flags), (code, report["header"]["flags"]))
    for name, word in ((".protectfs.keybag", "keybag"), (".protectfs.dir", "record")):
        code, report = scene.look(os.path.join(scene.volume.path, name))
        environment.cell(name, (VERIFIED, word, None), (code, report["reserved"], report["result"]))
    text = protectfs("inspect", "--recovery-file", scene.volume.code_file, scene.file, env=scene.volume.environment).stdout
    for word in ("/file (verifies)", "verifies, version", "1-3", "LAST", f"{SIZE} bytes"):
        assert word in text, text


def test_one_byte_of_each_region(environment):
    scene = Scene(environment)
    sound = ["0-0 verified", "1-3 verified", "4-4 verified"]
    unchecked = ["0-0 unchecked", "1-3 unchecked", "4-4 unchecked"]
    last = 4 * PAGE
    for name, offset, pages in (
            ("the class in the header", 4, unchecked), ("the file ID", 16, unchecked), ("the wrapped key", 40, unchecked),
            ("the header's MAC", 112, unchecked),
            ("the first block's text", 2000, ["0-0 refused/block", *sound[1:]]),
            ("the first block's tag", PAGE - 1, ["0-0 refused/block", *sound[1:]]),
            ("a nonce", PAGE, ["0-0 verified", "1-1 refused/block", "2-3 verified", "4-4 verified"]),
            ("a text", 2 * PAGE + 100, ["0-0 verified", "1-1 verified", "2-2 refused/block", "3-3 verified", "4-4 verified"]),
            ("a tag", 4 * PAGE - 5, ["0-0 verified", "1-2 verified", "3-3 refused/block", "4-4 verified"]),
            ("the last block", last + 500, [*sound[:2], "4-4 refused/block"]),
            ("the last block's padding", last + PAGE - 30, [*sound[:2], "4-4 refused/block"])):
        alter(scene.file, offset)
        report = scene.cell(name, DAMAGED, pages)
        environment.cell(f"{name}: header", offset >= 128, report["header"]["verifies"])
        alter(scene.file, offset)
    # The bytes after the last page only give the length.
    scene.cell("all of it undone", VERIFIED, sound)


def test_cut_zeroed_and_exchanged(environment):
    scene = Scene(environment)
    with open(scene.file, "rb") as file:
        whole = file.read()
    with open(scene.other, "rb") as file:
        other = file.read()

    def put(content):
        with open(scene.file, "wb") as file:
            file.write(content)

    put(whole[:3 * PAGE])
    report = scene.cell("cut", DAMAGED, ["0-0 verified", "1-2 verified"])
    environment.cell("cut: why", "length", report["error"])
    put(whole[:100])
    environment.cell("cut in the header", "missingHeader", scene.cell("cut in the header", DAMAGED, [])["error"])
    put(b"")
    scene.cell("empty", DAMAGED, [])
    put(whole[:PAGE] + bytes(PAGE) + whole[2 * PAGE:])
    scene.cell("a zeroed page", DAMAGED, ["0-0 verified", "1-1 refused/zeroPage", "2-3 verified", "4-4 verified"])
    put(bytes(PAGE) + whole[PAGE:])
    environment.cell("the first page zeroed", "missingHeader", scene.look()[1]["error"])
    put(whole[:PAGE] + other[PAGE:2 * PAGE] + whole[2 * PAGE:])
    scene.cell("another file's page", DAMAGED, ["0-0 verified", "1-1 refused/block", "2-3 verified", "4-4 verified"])
    put(whole[:PAGE] + whole[2 * PAGE:3 * PAGE] + whole[PAGE:2 * PAGE] + whole[3 * PAGE:])
    scene.cell("two pages exchanged", DAMAGED, ["0-0 verified", "1-2 refused/block", "3-3 verified", "4-4 verified"])
    put(other[:128] + whole[128:])
    report = scene.cell("another file's header", DAMAGED, ["0-0 refused/block", "1-3 refused/block", "4-4 refused/block"])
    environment.cell("that header verifies", True, report["header"]["verifies"])
    # A body belongs to its file ID, and not to its name: this cannot be noticed, and the ID shows it.
    mine = whole[16:32].hex()
    put(other)
    report = scene.cell("the whole other file", VERIFIED, ["0-0 verified", "1-3 verified", "4-4 verified"])
    environment.cell("its ID", (True, other[16:32].hex()), (mine != report["header"]["fileID"], report["header"]["fileID"]))
    put(whole)
    os.rename(scene.file, os.path.join(scene.dir, os.path.basename(scene.file)))
    code, report = scene.look(os.path.join(scene.dir, os.path.basename(scene.file)))
    environment.cell("a name in another directory", (DAMAGED, "undecryptable", 0),
                     (code, report["name"]["standing"], report["refusedPages"]))


def test_records_and_links(environment):
    scene = Scene(environment)
    record = os.path.join(scene.dir, ".protectfs.dir")
    target = os.readlink(record)

    def put(link, text):
        os.unlink(link)
        os.symlink(text, link)

    flipped = target[:20] + ("A" if target[20] != "A" else "B") + target[21:]
    put(record, flipped)
    code, report = scene.look(scene.dir)
    environment.cell("a changed record", (DAMAGED, "record"), (code, report["record"]["reason"]))
    code, report = scene.look(scene.inner)
    environment.cell("a file below it", (DAMAGED, "unverified", 0), (code, report["name"]["standing"], report["refusedPages"]))
    put(record, os.readlink(os.path.join(scene.volume.path, ".protectfs.dir")))
    code, report = scene.look(scene.inner)
    environment.cell("another directory's record", (DAMAGED, "undecryptable"), (code, report["name"]["standing"]))
    os.unlink(record)
    code, report = scene.look(scene.dir)
    environment.cell("no record", (DAMAGED, "missingRecord"), (code, report["record"]["reason"]))
    put(scene.link, "x" + os.readlink(scene.link))
    code, report = scene.look(scene.link)
    environment.cell("a changed link", (DAMAGED, "symlink"), (code, report["target"]["reason"]))


def test_what_each_credential_opens(environment):
    scene = Scene(environment)
    for letter, path in scene.classes.items():
        for words in ((), ("--no-unlock",)):
            name = f"class {letter}, the device key alone{' and --no-unlock' if words else ''}"
            code, report = scene.look(path, *words, unlock=False)
            wanted = (VERIFIED, None) if letter == "D" else (LOCKED, "locked")
            environment.cell(name, wanted, (code, report["error"]))
            environment.cell(f"{name}: header and name", (True, letter),
                             (report["header"]["verifies"], report["name"]["path"]))
            environment.cell(f"{name}: says what is missing", letter != "D", bool(report["missing"]))
    code_of(environment, "no key at all", 3, "inspect", "--device-key", "none", scene.file, env=scene.volume.environment)
    code, _ = inspect(scene.volume, scene.file, "--device-key", "none")
    environment.cell("the recovery code alone", VERIFIED, code)
    code_of(environment, "a wrong passphrase", 3, "inspect", "--passphrase-command", "echo wrong", scene.file,
            env=scene.volume.environment)
    code, report = inspect(scene.volume, scene.classes["A"], "--passphrase-command", f"echo '{PASSPHRASE}'", unlock=False)
    environment.cell("the passphrase", VERIFIED, code)


def test_mounted_and_copied(environment):
    mount = environment.mount()
    write_file(mount / "file", pattern(SIZE))
    sync(mount.path)
    path = backing(mount, "file")
    code, report = inspect(mount.volume, path)
    environment.cell("while mounted", (VERIFIED, "file"), (code, report["name"]["path"]))
    environment.cell("the mount still works", "unlocked", mount.state())
    mount.unmount()
    copy = environment.new_path("copy")
    run("cp", "-a", mount.volume.path, copy)
    inside = os.path.join(copy, os.path.relpath(path, mount.volume.path))
    environment.cell("in a copy", VERIFIED, inspect(mount.volume, inside)[0])
    environment.cell("in a copy, by the original's keys", (VERIFIED, "file"),
                     (lambda code, report: (code, report["name"]["path"]))(*inspect(mount.volume, inside, "--volume", mount.volume.path)))
    alone = environment.new_path("alone")
    shutil.copy(path, alone)
    code_of(environment, "a file alone", NOT_A_VOLUME, "inspect", alone, env=mount.volume.environment)
    code, report = inspect(mount.volume, alone, "--volume", mount.volume.path)
    environment.cell("a file alone, with a volume", (VERIFIED, None), (code, report["name"]))
    other = environment.volume()
    protectfs("init", "--json", "--passphrase-file", other.passphrase_file, other.path + "2", env=other.environment)
    code_of(environment, "another volume's file", USAGE, "inspect", "--volume", other.path + "2", "--passphrase-file",
            other.passphrase_file, path, env=other.environment)
    code_of(environment, "a path on the mount", FAILURE, "inspect", environment.mount(mount.volume) / "file")


def test_holes_and_huge_files(environment):
    mount = environment.mount()
    with open(mount / "holes", "wb") as file:
        file.write(pattern(SIZE))
        file.truncate(1 << 42)
    with open(mount / "punched", "wb") as file:
        file.write(pattern(40 * PAGE))
        file.flush()
        run("fallocate", "-p", "-o", str(8 * PAGE), "-l", str(16 * PAGE), file.name)
    paths = [backing(mount, name) for name in ("holes", "punched")]
    mount.unmount()
    code, report = inspect(mount.volume, paths[0])
    environment.cell("4 TiB of holes", (VERIFIED, 1 << 42, True, ["HOLES"]),
                     (code, report["size"], len(report["pages"]) < 10, report["header"]["flags"]))
    code, report = inspect(mount.volume, paths[1])
    environment.cell("punched", (VERIFIED, True), (code, 14 <= report["holePages"] <= 16))
    # One that claims to be huge, and whose pages nobody made.
    with open(paths[1], "r+b") as file:
        file.truncate(1 << 43)
    code, report = inspect(mount.volume, paths[1])
    environment.cell("8 TiB behind its end", (VERIFIED, 40 * PAGE), (code, report["size"]))
    # It is read a part at a time.
    big = environment.mount(mount.volume)
    with open(big / "big", "wb") as file:
        for _ in range(300):
            file.write(pattern(1 << 20))
    path = backing(big, "big")
    big.unmount()
    child = subprocess.Popen([binary(), "inspect", "--pages", "--recovery-file", mount.volume.code_file, path],
                             stdout=subprocess.PIPE, env=mount.volume.environment)
    lines = sum(1 for _ in child.stdout)
    child.stdout.close()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    environment.cell("300 MiB: a line for each page", True, lines > 300 * 256)
    environment.cell("300 MiB: memory", True, usage.ru_maxrss < 200 * 1024)


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
    put = "A" + os.readlink(companion)[1:]
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


def test_crash_damage_is_no_damage(environment):
    mount = environment.mount()
    write_file(mount / "file", pattern(SIZE))
    sync(mount.path)
    path = backing(mount, "file")
    mount.crash()
    with open(path, "r+b") as file:
        file.seek(2 * PAGE)
        file.write(bytes(PAGE))
    code, report = inspect(mount.volume, path)
    environment.cell("a zero page in an epoch that ended badly", (VERIFIED, 1, "zeroPage"),
                     (code, report["crashedPages"], report["pages"][2]["crashDamage"]))
    with open(path, "r+b") as file:
        file.truncate(0)
    code, report = inspect(mount.volume, path)
    environment.cell("never written", (VERIFIED, 0, []), (code, report["size"], report["pages"]))


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


def test_made_by_a_newer_version(environment):
    """Right MACs and tags around what this version does not know; with a wrong one it is damage."""
    scene = Scene(environment)
    store = Store(scene.volume)
    sound = read_file(scene.file)
    verified = ["0-0 verified", "1-3 verified", "4-4 verified"]
    unchecked = [page.replace("verified", "unchecked") for page in verified]
    for name, wanted, pages, change in (
            ("a header's version", NEWER, unchecked, {3: b"\x03"}), ("class 7", NEWER, unchecked, {4: b"\x07"}),
            ("compression", NEWER, unchecked, {7: b"\x01"}), ("an incompatible flag", NEWER, unchecked, flags(1 << 6)),
            ("a generation", NEWER, unchecked, next_generation),
            ("a flag that allows reading", NEWER, verified, flags(1 << 9)), ("a flag that is kept", VERIFIED, verified, flags(1 << 13))):
        store.header("file", change)
        report = scene.cell(name, wanted, pages)
        environment.cell(f"{name}: verifies", True, report["header"]["verifies"])
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
    write_file(os.path.join(scene.volume.path, ".protectfs.of-tomorrow"), b"x")
    code, report = scene.look(os.path.join(scene.volume.path, ".protectfs.of-tomorrow"))
    environment.cell("an unknown reserved name", (VERIFIED, "unknown"), (code, report["reserved"]))
