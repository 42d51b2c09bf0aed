"""Ordinary programs on a mount, compared with the same programs on the file system below."""

import dbm.dumb
import hashlib
import mmap
import os
import shelve
import shutil
import sqlite3
import stat
import threading

import harness
from harness import CLASSES, Skip, get_class, pattern, read_file, run, set_class, write_file


def need(*programs):
    for program in programs:
        if not shutil.which(program):
            raise Skip(f"{program} is not installed")


def tree(root, attributes=True, times=True):
    """Everything that can be compared of a tree: path → attributes and content."""
    found = {}
    links = {}
    for directory, directories, files in os.walk(root):
        for name in directories + files:
            path = os.path.join(directory, name)
            relative = os.path.relpath(path, root)
            status = os.lstat(path)
            entry = [oct(status.st_mode), status.st_uid, status.st_gid]
            if stat.S_ISREG(status.st_mode):
                with open(path, "rb") as file:
                    entry.append(hashlib.sha256(file.read()).hexdigest())
                links.setdefault(status.st_ino, []).append(relative)
            if stat.S_ISLNK(status.st_mode):
                entry.append(os.readlink(path))
            if times and not stat.S_ISLNK(status.st_mode):
                entry.append(status.st_mtime_ns)
            if attributes:
                entry.append(sorted((key, os.getxattr(path, key, follow_symlinks=False))
                                    for key in os.listxattr(path, follow_symlinks=False) if key != "user.protection"))
            found[relative] = entry
    found["hard links"] = sorted(sorted(names) for names in links.values() if len(names) > 1)
    return found


def difference(left, right):
    return [f"{key}: {left.get(key)} / {right.get(key)}" for key in sorted({*left, *right})
            if left.get(key) != right.get(key)][:5]


def make_tree(root):
    """Objects of every kind."""
    os.makedirs(os.path.join(root, "directory/inner/ä ö"))
    for number, length in enumerate([0, 1, 100, 3932, 3933, 4096, 8192, 100_001, 1 << 20]):
        path = os.path.join(root, f"directory/file {number}")
        write_file(path, pattern(length, seed=number))
        os.chmod(path, 0o600 + number)
        os.utime(path, ns=(10 ** 18 + number, 10 ** 18 + 7 * number))
    os.link(os.path.join(root, "directory/file 3"), os.path.join(root, "directory/inner/second name"))
    os.symlink("directory/file 1", os.path.join(root, "symlink"))
    os.symlink("/nowhere/" + "x" * 200, os.path.join(root, "dangling"))
    os.mkfifo(os.path.join(root, "fifo"))
    write_file(os.path.join(root, "n" * 255), b"a long name")
    write_file(os.path.join(root, b"not \xff utf-8".decode("utf-8", "surrogateescape")), b"raw")
    os.setxattr(os.path.join(root, "directory/file 2"), "user.note", b"value\0with zero")
    os.setxattr(os.path.join(root, "directory"), "user.empty", b"")
    sparse(root)
    # Old times everywhere: rsync leaves a time alone that differs by less than a second.
    for directory, directories, files in os.walk(root, topdown=False):
        for name in directories + files:
            path = os.path.join(directory, name)
            if os.lstat(path).st_mtime_ns > 2 * 10 ** 18 or not name.startswith("file "):
                os.utime(path, ns=(10 ** 18, 10 ** 18 + len(name)), follow_symlinks=False)


def sparse(root):
    with open(os.path.join(root, "sparse"), "wb") as file:
        file.truncate(10 << 20)
        file.seek(5 << 20)
        file.write(b"middle")


def assign_classes(root):
    given = {}
    for letter, name in zip("ABCD", ("file 1", "file 4", "file 5", "file 7")):
        path = os.path.join(root, "directory", name)
        set_class(path, letter)
        given[name] = CLASSES[letter]
    return given


def test_copies(environment):
    """cp -a, rsync -aHAX and tar carry everything in and out, classes too."""
    need("rsync", "tar", "cp")
    mount = environment.mount()
    plain = environment.new_path("plain")
    os.makedirs(plain)
    make_tree(plain)
    wanted = tree(plain)
    copies = {
        "cp": lambda source, target: run("cp", "-a", source + "/.", target),
        "rsync": lambda source, target: run("rsync", "-aHAX", source + "/", target + "/"),
        "tar": lambda source, target: run(
            "sh", "-c", 'tar --xattrs --xattrs-include="*" --acls -C "$1" -cf - . | tar --xattrs --xattrs-include="*" '
            '--acls -C "$2" -xpf -', "sh", source, target),
    }
    for name, copy in copies.items():
        inside, outside, again = mount / name, environment.new_path(name), mount / f"{name}-again"
        for place in (inside, outside, again):
            os.makedirs(place)
        copy(plain, inside)
        environment.cell(f"[{name} in]", [], difference(wanted, tree(inside)))
        given = assign_classes(inside)
        copy(inside, outside)
        environment.cell(f"[{name} out]", [], difference(wanted, tree(outside)))
        kept = {file: os.getxattr(f"{outside}/directory/{file}", "user.protection").decode() for file in given}
        environment.cell(f"[{name} out: classes]", given, kept)
        copy(outside, again)
        environment.cell(f"[{name} in again]", [], difference(wanted, tree(again)))
        environment.cell(f"[{name} in again: classes]", given,
                         {file: get_class(f"{again}/directory/{file}") for file in given})
        if name == "rsync":
            done = run("rsync", "-aHAXi", "--delete", outside + "/", again + "/")
            environment.cell("[rsync again has nothing to do]", "", done.stdout)
    mount = environment.remount(mount)
    for name in copies:
        environment.cell(f"[{name}, mounted again]", [], difference(wanted, tree(mount / name)))


def git(place, *words):
    return run("git", "-C", place, "-c", "user.name=T", "-c", "user.email=t@example.org", "-c", "gc.auto=0", *words)


def test_git(environment):
    need("git")
    mount = environment.mount()
    plain, inside = environment.new_path("plain"), mount / "repository"
    run("git", "init", "-q", plain)
    for number in range(30):
        os.makedirs(f"{plain}/d{number % 7}", exist_ok=True)
        write_file(f"{plain}/d{number % 7}/f{number}", pattern(number * 997, seed=number))
        git(plain, "add", ".")
        git(plain, "commit", "-qm", f"commit {number}")
    run("git", "clone", "-q", plain, inside)
    for number in range(20):
        write_file(f"{inside}/new{number}", pattern(number * 1009, seed=number))
        git(inside, "add", ".")
        git(inside, "commit", "-qm", f"new {number}")
    git(inside, "gc", "-q", "--aggressive", "--prune=now")
    environment.cell("[fsck]", "", git(inside, "fsck", "--full", "--strict").stdout)
    environment.cell("[status]", "", git(inside, "status", "--porcelain").stdout)
    environment.cell("[log]", 50, len(git(inside, "log", "--oneline").stdout.splitlines()))
    mount.lock()
    write_file(f"{inside}/while locked", b"x")
    git(inside, "add", ".")
    git(inside, "commit", "-qm", "while locked")
    environment.cell("[fsck while locked]", "", git(inside, "fsck", "--full").stdout)
    mount.unlock()
    mount = environment.remount(mount)
    environment.cell("[fsck, mounted again]", "", git(inside, "fsck", "--full", "--strict").stdout)
    environment.cell("[worktree, mounted again]", "", git(inside, "status", "--porcelain").stdout)


def test_sqlite(environment):
    mount = environment.mount()
    for journal in ("delete", "wal"):
        path = mount / f"{journal}.db"
        database = sqlite3.connect(path)
        environment.cell(f"[{journal}: mode]", journal, database.execute(f"pragma journal_mode={journal}").fetchone()[0])
        database.execute("create table t (k integer primary key, v blob)")
        for number in range(200):
            with database:
                database.execute("insert into t values (?, ?)", (number, pattern(number * 37, seed=number)))
        mount.lock()
        for number in range(200, 300):
            with database:
                database.execute("insert into t values (?, ?)", (number, b"while locked"))
        environment.cell(f"[{journal}: check while locked]", "ok", database.execute("pragma integrity_check").fetchone()[0])
        mount.unlock()
        with database:
            database.execute("delete from t where k % 3 = 0")
        database.execute("vacuum")
        database.close()
        database = sqlite3.connect(path)
        environment.cell(f"[{journal}: check]", "ok", database.execute("pragma integrity_check").fetchone()[0])
        environment.cell(f"[{journal}: rows]", 200, database.execute("select count(*) from t").fetchone()[0])
        database.close()
    # Class A: closed while locked, whole afterwards.
    path = mount / "wal.db"
    set_class(path, "A")
    database = sqlite3.connect(path)
    mount.lock()
    try:
        database.execute("select count(*) from t").fetchone()
        result = "works"
    except sqlite3.Error as error:
        result = type(error).__name__
    environment.cell("[class A while locked]", "OperationalError", result)
    mount.unlock()
    database.close()
    database = sqlite3.connect(path)
    environment.cell("[class A after unlock]", "ok", database.execute("pragma integrity_check").fetchone()[0])
    database.close()


def test_shelve_and_mmap(environment):
    mount = environment.mount()
    path = mount / "shelf"
    with shelve.Shelf(dbm.dumb.open(path, "c")) as shelf:
        for number in range(300):
            shelf[str(number)] = {"value": number, "text": "x" * number}
    mount = environment.remount(mount)
    with shelve.Shelf(dbm.dumb.open(path, "r")) as shelf:
        environment.cell("[shelve]", True, all(shelf[str(number)]["value"] == number for number in range(300)))
    content = bytearray(pattern(1 << 20))
    with open(mount / "mapped", "w+b") as file:
        file.write(content)
        file.flush()
        with mmap.mmap(file.fileno(), 0) as memory:
            for place in range(0, 1 << 20, 7919):
                memory[place] = content[place] = place & 255
            memory.flush()
            environment.cell("[mapped and read agree]", True, os.pread(file.fileno(), 1 << 20, 0) == bytes(content))
    mount = environment.remount(mount)
    environment.cell("[mapped, mounted again]", True, read_file(mount / "mapped") == bytes(content))


def test_fio(environment):
    need("fio")
    mount = environment.mount()
    size = "8m" if environment.mode == "quick" else "48m"
    for letter in "AC":
        directory = mount / letter
        os.mkdir(directory)
        set_class(directory, letter)
        for name, words in {
            "random": ["--rw=randwrite", "--bsrange=512-64k", "--bs_unaligned"],
            "sequential": ["--rw=write", "--bs=1m"],
            "direct": ["--rw=randwrite", "--bs=4k", "--direct=1"],
            "mixed": ["--rw=randrw", "--bs=4k", "--fsync=50"],
        }.items():
            done = run("fio", f"--name={name}", f"--directory={directory}", f"--size={size}", "--ioengine=psync",
                       "--verify=crc32c", "--do_verify=1", "--verify_fatal=1", "--verify_state_save=0", "--numjobs=1", *words, ok=False,
                       timeout=600)
            environment.cell(f"[class {letter}, {name}]", (0, ""), (done.returncode, done.stderr.strip()[:300]))


def test_save_by_rename(environment):
    """sed -i and others write a new file and rename it: the class stays."""
    need("sed")
    mount = environment.mount()
    for letter in "ABCD":
        path = mount / f"{letter}.txt"
        write_file(path, b"one\ntwo\n")
        set_class(path, letter)
        run("sed", "-i", "s/two/three/", path)
        environment.cell(f"[sed -i, class {letter}]", (b"one\nthree\n", letter in "AB" and CLASSES[letter] or CLASSES["C"]),
                         (read_file(path), get_class(path)))


def test_many_files_under_few_descriptors(environment):
    """Thousands of files in one tree, walked twice by a daemon that may have 1,024 descriptors; 20,000 with --mode full."""
    count = 20000 if environment.mode == "full" else 3000
    volume = environment.volume()
    path = environment.new_path("mount")
    os.makedirs(path, mode=0o500)
    run("sh", "-c", 'ulimit -n 1024; exec "$0" "$@"', harness.binary(), "mount", "--recovery-file", volume.code_file,
        volume.path, path, env=volume.environment)
    mount = harness.Mount(volume, path)
    environment.mounts.append(mount)
    with open(f"/proc/{mount.pid}/limits", encoding="ascii") as file:
        limit = next(int(line.split()[3]) for line in file if line.startswith("Max open files"))
    environment.cell("[the daemon's limit]", 1024, limit)
    for number in range(count):
        if number % 100 == 0:
            os.makedirs(mount / f"t/{number // 1000}/{number // 100}", exist_ok=True)
        write_file(mount / f"t/{number // 1000}/{number // 100}/{number}", b"%d" % number)
    for walk in (1, 2):
        found = 0
        for directory, _, files in os.walk(mount / "t"):
            for name in files:
                found += read_file(os.path.join(directory, name)) == name.encode()
        environment.cell(f"[walk {walk}]", count, found)
    mount = environment.remount(mount)
    environment.cell("[files, mounted again]", count, sum(len(files) for _, _, files in os.walk(mount / "t")))


def test_concurrent_programs(environment):
    """Several programs in one tree at once: create, append, rename, unlink, list."""
    mount = environment.mount()
    problems = []

    def work(number):
        try:
            for step in range(150):
                path = mount / f"w{number}-{step}"
                write_file(path, b"%d %d\n" % (number, step))
                with open(mount / f"log{number}", "ab", buffering=0) as file:
                    file.write(b"%06d\n" % step)
                os.rename(path, mount / f"r{number}-{step}")
                if step % 3 == 0:
                    os.unlink(mount / f"r{number}-{step}")
                if step % 20 == 0:
                    os.listdir(mount.path)
        except Exception as error:  # noqa: shown in the cell
            problems.append(repr(error))
    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    environment.cell("[no error]", [], problems)
    environment.cell("[entries]", 6 * 101, len(os.listdir(mount.path)))
    environment.cell("[appends]", True, all(
        read_file(mount / f"log{number}") == b"".join(b"%06d\n" % step for step in range(150)) for number in range(6)))
