"""`protectfs inspect`: what one object of a store is, page by page, and why it is refused. It changes nothing."""

import json
import os
import shutil
import subprocess

from harness import PAGE, PASSPHRASE, binary, pattern, protectfs, run, set_class, sync, write_file
from refusals import code_of, digest

VERIFIED, FAILURE, USAGE, DAMAGED, NOT_A_VOLUME, NEWER, LOCKED = 0, 1, 2, 4, 4, 5, 8
# Of AES-256-GCM and XChaCha20-Poly1305 alike: this many bytes have five pages.
SIZE = 18_000


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
        self.file, self.other, self.link, self.dir = (mount.stored(name) for name in ("file", "other", "link", "dir"))
        self.classes = {letter: mount.stored(letter) for letter in "ABCD"}
        self.inner = mount.stored("dir/inner")
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
    path = mount.stored("file")
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


def test_broken_backups_while_mounted(environment):
    """No crash explains a backup that is cut off, although the mount's epoch is open: the mount lives."""
    mount = environment.mount()
    write_file(mount / "file", pattern(SIZE))
    path = mount.stored("file")
    mount.unmount()
    backup, foreign = environment.new_path("backup"), environment.new_path("foreign")
    write_file(foreign, b"root:x:0:0\n")
    mount = environment.mount(mount.volume)
    write_file(mount / "other", b"x")
    sync(mount.path)
    for name, size, wanted in (("whole", None, VERIFIED), ("empty", 0, DAMAGED), ("cut off", 2000, DAMAGED)):
        shutil.copy(path, backup)
        if size is not None:
            os.truncate(backup, size)
        environment.cell(name, wanted, inspect(mount.volume, backup, "--volume", mount.volume.path)[0])
    environment.cell("not of the volume", DAMAGED, inspect(mount.volume, foreign, "--volume", mount.volume.path)[0])
    mount.crash()
    os.truncate(backup, 0)
    environment.cell("after a crash, which explains it", VERIFIED, inspect(mount.volume, backup, "--volume", mount.volume.path)[0])


def test_holes_and_huge_files(environment):
    mount = environment.mount()
    with open(mount / "holes", "wb") as file:
        file.write(pattern(SIZE))
        file.truncate(1 << 42)
    with open(mount / "punched", "wb") as file:
        file.write(pattern(40 * PAGE))
        file.flush()
        run("fallocate", "-p", "-o", str(8 * PAGE), "-l", str(16 * PAGE), file.name)
    paths = [mount.stored(name) for name in ("holes", "punched")]
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
    path = big.stored("big")
    big.unmount()
    child = subprocess.Popen([binary(), "inspect", "--pages", "--recovery-file", mount.volume.code_file, path],
                             stdout=subprocess.PIPE, env=mount.volume.environment)
    lines = sum(1 for _ in child.stdout)
    child.stdout.close()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    environment.cell("300 MiB: a line for each page", True, lines > 300 * 256)
    environment.cell("300 MiB: memory", True, usage.ru_maxrss < 200 * 1024)


def test_crash_damage_is_no_damage(environment):
    mount = environment.mount()
    write_file(mount / "file", pattern(SIZE))
    sync(mount.path)
    path = mount.stored("file")
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
