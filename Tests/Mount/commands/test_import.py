"""protectfs import: everything arrives, whatever kills it, and nothing of the source changes."""

import contextlib
import json
import os
import random
import shutil
import signal
import socket
import stat
import subprocess
import time

import harness
from harness import PATIENCE, get_class, protectfs, read_file, run, wait_until, write_file

FILES = {"quick": 2000, "usual": 2500, "full": 30_000}
KILLS = 10


def metadata(root, times=("mtime_ns",)):
    """Everything that a copy has to keep, by path: content is compared by others."""
    found = {}
    for place, directories, files in os.walk(os.fsencode(root)):
        for name in directories + files:
            path = os.path.join(place, name)
            status = os.lstat(path)
            attributes = {one: os.getxattr(path, one, follow_symlinks=False) for one in os.listxattr(path, follow_symlinks=False)
                          if not one.startswith("user.protection")}
            key = os.path.relpath(path, os.fsencode(root))
            found[key] = (status.st_mode, status.st_uid, status.st_gid, status.st_nlink, status.st_rdev, attributes,
                          os.readlink(path) if stat.S_ISLNK(status.st_mode) else None,
                          tuple(getattr(status, "st_" + time) for time in times))
    return found


def differences(source, target):
    """What rsync, which compares bytes, would have to do below the two directories. Classes are left out."""
    done = run("rsync", "-naciAH", "--delete", "--omit-dir-times", f"{source}/", f"{target}/")
    return [line for line in done.stdout.split("\n")[:-1] if not line.endswith(" ./")]


def odd_tree(environment):
    """A source with everything that a file system can have."""
    root = environment.new_path("source")
    os.makedirs(root + "/directory/below")
    write_file(root + "/plain", harness.pattern(300_000))
    write_file(root + "/empty", b"")
    write_file(os.fsencode(root) + b"/na\xffme \n\\'", b"odd")
    write_file(root + "/" + "n" * 255, b"long")
    with open(root + "/holes", "wb") as file:
        for place in (5_000_000, 300_000_001):
            file.seek(place)
            file.write(b"data")
        file.truncate(400_000_000)
    os.link(root + "/plain", root + "/directory/linked")
    os.symlink("../nowhere", root + "/directory/link")
    os.mkfifo(root + "/fifo")
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as one:
        one.bind(root + "/socket")
    os.setxattr(root + "/plain", "user.note", bytes(range(256)))
    run("setfacl", "-m", "u:nobody:r", root + "/empty")
    run("setfacl", "-d", "-m", "u:nobody:rx", root + "/directory")
    # A file of a store, whose time means another one to the daemon of that store only.
    write_file(root + "/of a store", b"ciphertext")
    os.setxattr(root + "/of a store", "user.pfs-time", bytes(12))
    os.utime(root + "/of a store", ns=(10**18, 10**18 + 1_746_100))
    os.chmod(root + "/plain", 0o4751)
    os.chmod(root + "/directory", 0o2750)
    if os.geteuid() == 0:
        os.mknod(root + "/device", stat.S_IFCHR | 0o600, os.makedev(1, 3))
        os.lchown(root + "/directory/link", 1234, 1235)
        os.chown(root + "/empty", 1234, 1235)
    for number, path in enumerate(["/holes", "/directory/link", "/fifo", "/directory/below", "/directory"]):
        os.utime(root + path, ns=(10**18 + number, 10**18 + 123_456_789 + number), follow_symlinks=False)
    return root


def importing(volume, source, *words, ok=True, place=None):
    secret = ["--recovery-file", volume.code_file]
    return protectfs("import", *secret, *words, source, place or volume.path, env=volume.environment, ok=ok)


def test_everything(environment):
    """Holes, links, attributes, ACLs, times, odd names, special files; and the source is only read."""
    source, volume = odd_tree(environment), environment.volume()
    # The test's own look at directories and links is an access.
    accessed = {name: os.stat(f"{source}/{name}").st_atime_ns for name in ("plain", "holes", "empty")}
    before = metadata(source, ("mtime_ns", "ctime_ns"))
    done = json.loads(importing(volume, source, "--json").stdout)
    environment.cell("complete", (True, [], [], []), (done["complete"], done["failures"], done["differences"], done["skipped"]))
    environment.cell("the source", before, metadata(source, ("mtime_ns", "ctime_ns")))
    environment.cell("access times of the source", accessed, {name: os.stat(f"{source}/{name}").st_atime_ns for name in accessed})
    environment.cell("nothing is mounted", [], [row for row in harness.mount_table() if row[3] == volume.path])
    mount = environment.mount(volume)
    environment.cell("metadata", metadata(source), metadata(mount.path))
    environment.cell("bytes", [], differences(source, mount.path))
    environment.cell("holes stay", True, os.stat(mount / "holes").st_blocks < 1000)
    environment.cell("hard links", os.stat(mount / "plain").st_ino, os.stat(mount / "directory/linked").st_ino)
    again = json.loads(importing(volume, source, "--json", place=mount.path).stdout)
    environment.cell("again", (True, 0, done["copied"]), (again["complete"], again["copied"], again["present"]))
    # A default ACL of the directory that takes the files must not open them to others.
    run("setfacl", "-d", "-m", "u:nobody:rwx", mount.path)
    below = json.loads(importing(volume, source + "/directory", "--json", "--into", "a/b").stdout)
    environment.cell("--into", True, below["complete"])
    environment.cell("--into: bytes", [], differences(source + "/directory", mount / "a/b"))
    environment.cell("--into: metadata", metadata(source + "/directory/below"), metadata(mount / "a/b/below"))
    mount.unmount()


def test_classes(environment):
    """The first rule that matches gives the class, before the first byte."""
    source, volume = environment.new_path("source"), environment.volume()
    os.makedirs(source + "/medical/old")
    for name in ("a.pdf", "b.txt", "medical/c.txt", "medical/old/d.pdf", "none.log"):
        write_file(f"{source}/{name}", name.encode())
    rules = ("--class", "none:*.log", "--class", "completeUnlessOpen:medical/", "--class", "A:*.pdf")
    importing(volume, source, *rules)
    mount = environment.mount(volume)
    usual = get_class(mount / "b.txt")
    wanted = {"a.pdf": "complete", "b.txt": usual, "medical/c.txt": "completeUnlessOpen", "medical/old/d.pdf": "completeUnlessOpen",
              "none.log": "none"}
    environment.cell("classes", wanted, {name: get_class(mount / name) for name in wanted})
    for name, expected in (("new", usual), ("medical/new", "completeUnlessOpen"), ("medical/old/new", "completeUnlessOpen")):
        write_file(mount / name, b"x")
        environment.cell(f"class of {name}", expected, get_class(mount / name))
    listed = json.loads(mount.command("class", "list", "-R", "--json", mount.path).stdout)
    environment.cell("none is exposed", [], [one["path"] for one in listed if "exposed" in one.get("flags", [])])
    for rule in ("complete", "complete:", "unknown:*", "complete:/x"):
        code = importing(volume, source, "--class", rule, place=mount.path, ok=False).returncode
        environment.cell(f"--class {rule}", 2, code)
    mount.unmount()


def private_mounts(volume):
    return [row[1] for row in harness.mount_table() if row[3] == volume.path]


def test_killed(environment):
    """Ten kills of the command, some with its mount, and the end is equal: not one file is half, missing or twice."""
    source, volume = environment.new_path("source"), environment.volume()
    generator = random.Random(24)
    count = FILES[environment.mode]
    for number in range(count):
        directory = f"{source}/{number % 40:02}"
        os.makedirs(directory, exist_ok=True)
        write_file(f"{directory}/file{number}", generator.randbytes(generator.choice((0, 10, 3000, 20_000))))
        if number % 50 == 0:
            os.link(f"{directory}/file{number}", f"{directory}/link{number}")
    killed = 0
    for number in range(KILLS):
        words = [harness.binary(), "import", "--json", "--recovery-file", volume.code_file, source, volume.path]
        process = subprocess.Popen(words, env=volume.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wanted = count * (number + 1) // (KILLS + 2)

        def is_far(wanted=wanted, process=process):
            here = private_mounts(volume)
            with contextlib.suppress(OSError):
                return process.poll() is not None or here and sum(len(files) for _, _, files in os.walk(here[0])) >= wanted
            return False

        wait_until(is_far, what="files of the import")
        time.sleep(generator.random() / 20)
        here = private_mounts(volume)
        process.send_signal(signal.SIGKILL)
        killed += process.wait(PATIENCE) == -signal.SIGKILL
        if number % 3 == 2:
            # A power cut takes the mount, too.
            for pid in harness.daemons(here[0]) if here else []:
                os.kill(pid, signal.SIGKILL)
            wait_until(lambda here=here: not here or not harness.daemons(here[0]), what="the end of the mount")
    environment.cell("[kills that met the import]", True, killed >= KILLS // 2)
    done = json.loads(importing(volume, source, "--json").stdout)
    environment.cell("complete", (True, [], []), (done["complete"], done["failures"], done["differences"]))
    environment.cell("nothing is left mounted", [], private_mounts(volume))
    mount = environment.mount(volume)
    environment.cell("bytes", [], differences(source, mount.path))
    environment.cell("metadata", True, metadata(source) == metadata(mount.path))
    environment.cell("diff", 0, run("diff", "-r", source, mount.path, ok=False).returncode)
    mount.unmount()


def test_differences(environment):
    """Nothing is replaced without --replace, and each kind of difference is found."""
    source, volume = environment.new_path("source"), environment.volume()
    os.mkdir(source)
    for name in ("bytes", "edited", "length", "mode", "time", "attribute", "gone", "same"):
        write_file(f"{source}/{name}", b"content of " + name.encode())
        os.setxattr(f"{source}/{name}", "user.note", b"1")
    importing(volume, source)
    mount = environment.mount(volume)
    # What a power cut takes leaves zeros, under the old time; "edited" is somebody's work, under the old time as well.
    for name, content in (("bytes", bytes(len(b"content of bytes"))), ("edited", b"Content of edited")):
        times = os.stat(mount / name)
        write_file(mount / name, content, os.O_TRUNC)
        os.utime(mount / name, ns=(times.st_atime_ns, times.st_mtime_ns))
    write_file(mount / "length", b"short", os.O_TRUNC)
    os.chmod(mount / "mode", 0o700)
    os.utime(mount / "time", (1, 1))
    os.setxattr(mount / "attribute", "user.note", b"2")
    os.unlink(mount / "gone")
    done = importing(volume, source, "--verify-only", "--json", place=mount.path, ok=False)
    found = json.loads(done.stdout)
    environment.cell("--verify-only", (1, False, ["attribute", "bytes", "edited", "gone", "length", "mode", "time"]),
                     (done.returncode, found["complete"], sorted(os.path.basename(one["path"]) for one in found["differences"])))
    said = importing(volume, source, "--verify-only", place=mount.path, ok=False).stdout
    environment.cell("and in words", (True, False), ("The volume differs from the source" in said, "copied, " in said))
    environment.cell("nothing was changed", b"short", read_file(mount / "length"))
    done = importing(volume, source, "--json", place=mount.path, ok=False)
    found = json.loads(done.stdout)
    environment.cell("without --replace", (1, ["length", "time"]),
                     (done.returncode, sorted(os.path.basename(one["path"]) for one in found["failures"])))
    environment.cell("what was lost is copied again", b"content of bytes", read_file(mount / "bytes"))
    environment.cell("what someone wrote stays", b"short", read_file(mount / "length"))
    environment.cell("what someone wrote under the old time stays", b"Content of edited", read_file(mount / "edited"))
    found = json.loads(importing(volume, source, "--replace", "--json", place=mount.path).stdout)
    environment.cell("with --replace", (True, []), (found["complete"], differences(source, mount.path)))
    mount.unmount()


def test_nothing_is_opened(environment):
    """A directory that is there stays as closed as it is, and what lies outside of the volume is not a target."""
    source, volume = environment.new_path("source"), environment.volume()
    os.makedirs(source + "/private/below", 0o755)
    write_file(source + "/private/new", b"new")
    mount = environment.mount(volume)
    os.mkdir(mount / "private", 0o700)
    write_file(mount / "private/kept", b"kept")
    done = importing(volume, source, "--json", place=mount.path, ok=False)
    found = json.loads(done.stdout)
    environment.cell("the directory stays closed, and is named", (0o40700, 1, ["private"]),
                     (os.stat(mount / "private").st_mode, done.returncode,
                      [os.path.basename(one["path"]) for one in found["differences"]]))
    environment.cell("no mark is left", [], os.listxattr(mount / "private/below"))
    elsewhere = environment.new_path("elsewhere")
    os.mkdir(elsewhere)
    os.symlink(elsewhere, mount / "link")
    for words in (["--into", "link"], ["--into", "missing", "--verify-only"]):
        environment.cell(f"{words}: refused", True, importing(volume, source, *words, place=mount.path, ok=False).returncode in (1, 2))
    environment.cell("nothing was copied or made", ([], False), (os.listdir(elsewhere), os.path.exists(mount / "missing")))
    mount.unmount()


def test_killed_at_a_directory(environment):
    """A kill right after a directory is made, or right before it has its mode, leaves one that the next run ends."""
    source, volume = environment.new_path("source"), environment.volume()
    for name in ("made", "almost"):
        os.makedirs(f"{source}/{name}")
        write_file(f"{source}/{name}/file", b"content")
        os.chmod(f"{source}/{name}", 0o755)
        os.utime(f"{source}/{name}", (1_000_000_000, 1_000_000_000))
    mount = environment.mount(volume)
    for name in ("made", "almost"):
        os.mkdir(mount / name)
        os.chmod(mount / name, 0o1700)
    os.setxattr(mount / "almost", "user.protectfs-import", b"")
    done = json.loads(importing(volume, source, "--json", place=mount.path).stdout)
    environment.cell("complete", (True, [], []), (done["complete"], done["failures"], done["differences"]))
    for name in ("made", "almost"):
        found = os.stat(mount / name)
        environment.cell(name, (0o40755, 1_000_000_000, []), (found.st_mode, int(found.st_mtime), os.listxattr(mount / name)))
    mount.unmount()


def test_refused(environment):
    """What cannot be meant, and what cannot be copied now, is said before anything is copied."""
    source, volume = environment.new_path("source"), environment.volume()
    os.mkdir(source)
    write_file(source + "/file", b"content")
    mount = environment.mount(volume)
    os.mkdir(mount / "inside")
    for name, words in (("a store", [volume.path, mount.path]), ("its own mount", [mount / "inside", mount.path]),
                        ("what holds the store", [os.path.dirname(volume.path), mount.path])):
        done = protectfs("import", *words, env=volume.environment, ok=False)
        environment.cell(name, (2, True), (done.returncode, bool(done.stderr)))
    mount.lock()
    environment.cell("locked", 8, importing(volume, source, place=mount.path, ok=False).returncode)
    mount.unmount()
    wrong = environment.new_path("wrong")
    write_file(wrong, b"wrong\n")
    done = protectfs("import", "--passphrase-file", wrong, source, volume.path, env=volume.environment, ok=False)
    environment.cell("a wrong passphrase", (3, []), (done.returncode, private_mounts(volume)))
    done = protectfs("import", "--json", "--passphrase-file", wrong, source, volume.path, env=volume.environment, ok=False)
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    environment.cell("as JSON", ("", 3, True), (done.stdout, lines[-1]["error"]["exit"], "wrong passphrase" in lines[-1]["error"]["message"]))


def test_a_full_volume_and_a_lock(environment):
    """A lock in the middle stops it with the next step, and it continues after the unlock."""
    source, volume = environment.new_path("source"), environment.volume()
    os.mkdir(source)
    for number in range(300):
        write_file(f"{source}/file{number}", b"x" * 50_000)
    mount = environment.mount(volume)
    words = [harness.binary(), "import", "--class", "A:*", source, mount.path]
    process = subprocess.Popen(words, env=volume.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_until(lambda: process.poll() is not None or len(os.listdir(mount.path)) > 20, what="files of the import")
    mount.command("lock", "--grace", "0", mount.path)
    said = process.communicate(timeout=PATIENCE)[1]
    environment.cell("[locked]", True, process.returncode == 0 or process.returncode == 8 and "unlock" in said)
    mount.unlock()
    done = json.loads(importing(volume, source, "--class", "A:*", "--json", place=mount.path).stdout)
    environment.cell("continued", (True, []), (done["complete"], differences(source, mount.path)))
    mount.unmount()


def other(environment, program):
    """The store and the mount point of another encrypted file system, mounted."""
    if shutil.which(program) is None:
        raise harness.Skip(f"{program} is not installed")
    store, point = environment.new_path("store"), environment.new_path("other")
    os.mkdir(store)
    os.mkdir(point)
    variables = {**os.environ, "CRYFS_FRONTEND": "noninteractive", "CRYFS_NO_UPDATE_CHECK": "true", "HOME": environment.new_path("home")}
    secret = ["-extpass", "echo passphrase"]
    words = {
        "gocryptfs": [["gocryptfs", "-q", *secret, "-init", "-scryptn", "10", store], ["gocryptfs", "-q", *secret, store, point]],
        "encfs": [["encfs", "--standard", "-S", store, point]],
        "securefs": [["securefs", "create", "--rounds", "1", "--pass", "passphrase", store], ["securefs", "mount", "-b", "--pass", "passphrase", store, point]],
        "cryfs": [["cryfs", store, point]],
    }[program]
    for one in words:
        run(*one, input="passphrase\n", env=variables)
    wait_until(lambda: os.path.ismount(point), what=program)
    return store, point


def from_other(environment, program):
    store, point = other(environment, program)
    try:
        os.makedirs(point + "/directory")
        write_file(point + "/file", harness.pattern(200_000))
        write_file(point + "/directory/empty", b"")
        os.symlink("file", point + "/link")
        os.utime(point + "/file", ns=(10**18, 10**18 + 987_654_321))
        volume = environment.volume()
        done = json.loads(importing(volume, point, "--json").stdout)
        environment.cell("complete", (True, [], []), (done["complete"], done["differences"], done["failures"]))
        mount = environment.mount(volume)
        environment.cell("bytes", [], differences(point, mount.path))
        refused = importing(volume, store, place=mount.path, ok=False)
        environment.cell("its store is refused", (2, True), (refused.returncode, program in refused.stderr))
        mount.unmount()
    finally:
        run("fusermount3", "-u", "-z", point, ok=False)


def test_gocryptfs(environment):
    from_other(environment, "gocryptfs")


def test_encfs(environment):
    from_other(environment, "encfs")


def test_securefs(environment):
    from_other(environment, "securefs")


def test_cryfs(environment):
    """Its store is refused. Its files are imported with --mode full, because one mount hashes for 10 s."""
    if environment.mode == "full":
        from_other(environment, "cryfs")
        return
    store = environment.new_path("store")
    os.mkdir(store)
    write_file(store + "/cryfs.config", b"cryfs.config;1;scrypt")
    refused = importing(environment.volume(), store, place=environment.mount().path, ok=False)
    environment.cell("its store is refused", (2, True), (refused.returncode, "cryfs" in refused.stderr))
