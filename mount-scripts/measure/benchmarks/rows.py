"""The rows of the benchmark, in the order that their files need. Every result is a rate: more is better."""

import json
import os
import shutil
import sqlite3
from collections import namedtuple

from .processes import run

Row = namedtuple("Row", "name title unit act")
ROWS = {}


def row(name, title, unit):
    """Adds a row; {copy} and {many} in its title are what the options say."""
    def add(act):
        ROWS[name] = Row(name, title, unit, act)
        return act
    return add


def title(name, options):
    copied = f"{options.copy / 1024:g} GiB" if options.copy >= 1024 else f"{options.copy} MiB"
    return ROWS[name].title.format(copy=copied, many=f"{options.many:,}")


def fio(site, *options):
    """One job on the large file; gives the bytes and the operations of a second over reads and writes, and what CPU time needs."""
    site.need("fio")
    text = site.count_processor(lambda: run(
        "fio", "--output-format=json", "--directory=" + site.peer.point, "--name=job", "--filename=bench", "--thread",
        "--ioengine=psync", "--group_reporting", "--randrepeat=1", f"--size={site.options.size}m", *options))
    job = json.loads(text[text.index("{"):])["jobs"][0]
    sides = (job["read"], job["write"])
    # fio counts the time of --end_fsync, too.
    return (sum(side["bw_bytes"] for side in sides), sum(side["iops"] for side in sides), job["job_runtime"] / 1000,
            sum(side["io_bytes"] for side in sides))


def per_byte(site, *options):
    bandwidth, _, taken, size = fio(site, *options)
    return site.result(bandwidth / 1e6, taken, size)


def per_operation(site, *options):
    _, operations, taken, size = fio(site, *options)
    return site.result(operations / 1e3, taken, size)


def for_a_time(site):
    return "--time_based", f"--runtime={max(1, round(site.options.seconds * 1000))}ms"


@row("write", "sequential write", "MB/s")
def write(site):
    site.clear("bench")
    return per_byte(site, "--rw=write", "--bs=1m", "--end_fsync=1")


@row("overwrite", "sequential overwrite", "MB/s")
def overwrite(site):
    site.large()
    return per_byte(site, "--rw=write", "--bs=1m", "--end_fsync=1", "--overwrite=1")


@row("read-cold", "sequential read, cold", "MB/s")
def read_cold(site):
    site.large()
    site.cold("bench")
    return per_byte(site, "--rw=read", "--bs=1m")


@row("read-warm", "sequential read, warm", "MB/s")
def read_warm(site):
    path = site.large()
    with open(path, "rb", buffering=0) as file:
        while file.read(1 << 20):
            pass
    return per_byte(site, "--rw=read", "--bs=1m", "--invalidate=0")


def random_read(site, jobs):
    site.large()
    site.cold("bench")
    # No block twice: the second time it would come from the cache.
    return per_operation(site, "--rw=randread", "--bs=4k", f"--numjobs={jobs}",
                         f"--io_size={max(1, site.options.size // 4 // jobs)}m", "--fadvise_hint=random")


def random_write(site, jobs):
    site.large()
    return per_operation(site, "--rw=randwrite", "--bs=4k", f"--numjobs={jobs}", "--norandommap", *for_a_time(site),
                         "--end_fsync=1")


@row("random-read-1", "random read 4 KiB, 1 job", "thousand/s")
def random_read_1(site):
    return random_read(site, 1)


@row("random-read-2", "random read 4 KiB, 2 jobs", "thousand/s")
def random_read_2(site):
    return random_read(site, 2)


@row("random-write-1", "random write 4 KiB, 1 job", "thousand/s")
def random_write_1(site):
    return random_write(site, 1)


@row("random-write-2", "random write 4 KiB, 2 jobs", "thousand/s")
def random_write_2(site):
    return random_write(site, 2)


@row("mixed", "random read/write 70/30 4 KiB, 8 jobs", "thousand/s")
def mixed(site):
    site.large()
    site.cold("bench")
    return per_operation(site, "--rw=randrw", "--rwmixread=70", "--bs=4k", "--numjobs=8", "--norandommap",
                         *for_a_time(site), "--end_fsync=1")


@row("sync-overwrite", "4 KiB overwrite + fsync", "thousand/s")
def sync_overwrite(site):
    site.large()
    return per_operation(site, "--rw=randwrite", "--bs=4k", "--fsync=1", *for_a_time(site))


@row("appends", "100 B appends", "thousand/s")
def appends(site):
    site.clear("appends")
    line = b"x" * 100
    with open(site.path("appends"), "wb", buffering=0) as file:
        def step(_):
            # Many for each look at the clock.
            for _ in range(20):
                file.write(line)

        found = site.for_a_time(step, 1e3 / 20, lambda count: 2000 * count, lambda: os.fsync(file.fileno()))
    site.clear("appends")
    return found


@row("mail", "mail queue: write, fsync, rename, remove", "thousand/s")
def mail(site):
    site.clear("mail")
    incoming, active = site.path("mail/incoming"), site.path("mail/active")
    os.makedirs(incoming)
    os.mkdir(active)
    sizes = (1500, 4000, 2500, 12000, 3000)
    message = os.urandom(max(sizes))

    def step(number):
        name = f"{number}"
        with open(os.path.join(incoming, name), "wb", buffering=0) as file:
            file.write(message[:sizes[number % len(sizes)]])
            os.fsync(file.fileno())
        os.rename(os.path.join(incoming, name), os.path.join(active, name))
        if number >= 20:
            os.unlink(os.path.join(active, f"{number - 20}"))

    found = site.for_a_time(step, 1e3, lambda count: sum(sizes) * count // len(sizes))
    site.clear("mail")
    return found


@row("sqlite", "SQLite in WAL mode, transactions", "thousand/s")
def sqlite(site):
    site.clear("sqlite")
    os.mkdir(site.path("sqlite"))
    base = sqlite3.connect(site.path("sqlite/base"), isolation_level=None)
    if base.execute("pragma journal_mode=wal").fetchone()[0] != "wal":
        raise ValueError("SQLite could not change to WAL mode")
    # Every commit is durable.
    base.execute("pragma synchronous=full")
    base.execute("create table entry (number integer primary key, text blob)")

    def step(number):
        base.execute("begin")
        base.execute("insert into entry values (?, ?)", (number, b"x" * 200))
        base.execute("update entry set text = ? where number = ?", (b"y" * 200, number * 7919 % (number + 1)))
        base.execute("commit")

    found = site.for_a_time(step, 1e3, None, base.close)
    site.clear("sqlite")
    return found


@row("copy", "copy {copy} into it", "MB/s")
def copy(site):
    source, target = site.fixtures.large(), site.path("copy")
    site.clear("copy")
    size = site.options.copy << 20
    found = site.timed(lambda: run("sh", "-c", 'cp "$1" "$2" && sync "$2"', "sh", source, target), size, 1e6, size)
    site.clear("copy")
    return found


@row("untar", "untar", "thousand files/s")
def untar(site):
    site.fixtures.archive()
    site.forget("tree")
    return site.timed(site.unpack, site.options.files, 1e3, site.fixtures.tree_bytes())


@row("list-warm", "ls -lR, warm", "thousand files/s")
def list_warm(site):
    tree = site.tree()
    run("ls", "-lR", tree)
    return site.timed(lambda: run("ls", "-lR", tree), site.options.files, 1e3)


@row("read-all", "read all, cold", "thousand files/s")
def read_all(site):
    tree = site.tree()
    site.cold("tree")
    return site.timed(lambda: run("sh", "-c", 'find "$1" -type f -exec cat {} + >/dev/null', "sh", tree), site.options.files,
                      1e3, site.fixtures.tree_bytes())


@row("remove", "rm -rf", "thousand files/s")
def remove(site):
    tree = site.tree()
    site.clear("tree.done")
    return site.timed(lambda: shutil.rmtree(tree), site.options.files, 1e3)


@row("git-clone", "git clone", "thousand files/s")
def git_clone(site):
    site.need("git")
    site.fixtures.repository()
    site.forget("clone")
    return site.timed(site.make_clone, site.options.files, 1e3)


def status(site, clone):
    return site.timed(lambda: run("git", "-C", clone, "status", "--porcelain"), site.options.files, 1e3)


@row("git-status-cold", "git status, cold", "thousand files/s")
def git_status_cold(site):
    site.need("git")
    clone = site.clone()
    # Once before: the first one after a clone also writes the index.
    run("git", "-C", clone, "status", "--porcelain")
    site.cold("clone")
    return status(site, clone)


@row("git-status-warm", "git status, warm", "thousand files/s")
def git_status_warm(site):
    site.need("git")
    clone = site.clone()
    run("git", "-C", clone, "status", "--porcelain")
    return status(site, clone)


@row("make", "make -j2 of a C project", "files/s")
def make(site):
    site.need("make", "cc")
    project = site.fixtures.project()
    site.clear("project")
    shutil.copytree(project, site.path("project"))
    found = site.timed(lambda: run("make", "-s", "-j2", "-C", site.path("project")), site.fixtures.sources(), 1)
    site.clear("project")
    return found


# The last rows: some daemons keep memory or descriptors for all that the kernel has seen.
def find(site, tree):
    # The condition makes find ask for the size of each file.
    return site.timed(lambda: run("find", tree, "-size", "+1"), site.options.many, 1e3)


@row("find-cold", "find over {many} files, cold", "thousand files/s")
def find_cold(site):
    tree = site.many()
    site.cold("many")
    return find(site, tree)


@row("find-warm", "find over {many} files, warm", "thousand files/s")
def find_warm(site):
    tree = site.many()
    run("find", tree, "-size", "+1")
    return find(site, tree)
