"""Copies and backups: rsync, restic, borg."""

import hashlib
import os
import shutil

from harness import pattern, run, write_file
from test_programs import difference, make_tree, tree

from .sides import need, said

# What rsync counts, without times and rates.
COUNTS = ("Number of created files", "Number of regular files transferred", "Total transferred file size", "Literal data")
SECRET = "only for tests"


def fill(directory):
    """Objects of every kind, ACLs, attributes, and some weight."""
    make_tree(directory)
    for number in range(60):
        place = f"{directory}/many/{number % 5}"
        os.makedirs(place, exist_ok=True)
        write_file(f"{place}/{number}", pattern(number * 3001, seed=number))
        os.utime(f"{place}/{number}", ns=(10 ** 18, 10 ** 18 + number))
    run("setfacl", "-m", "u:12345:rwx,g:12346:r", f"{directory}/many/1")
    run("setfacl", "-d", "-m", "u:12345:rwx", f"{directory}/many/2")
    for place, directories, _ in os.walk(directory):
        for name in directories:
            os.utime(os.path.join(place, name), ns=(10 ** 18, 10 ** 18))


def rsync(side):
    """rsync -aHAX --checksum in and out again, with second runs that transfer nothing."""
    need(("rsync", "rsync"), ("setfacl", "acl"))
    source, inside, outside = os.path.join(side.scratch, "source"), side.directory("inside"), os.path.join(side.scratch, "outside")
    os.mkdir(source)
    os.mkdir(outside)
    fill(source)
    wanted = tree(source)
    for name, one, other in (("in", source, inside), ("out", inside, outside), ("in again", outside, side.directory("again"))):
        words = ["rsync", "-aHAX", "--checksum", "--delete", "--sparse", one + "/", other + "/"]
        yield name, said(*words)
        yield f"{name}: what differs", difference(wanted, tree(other))
        yield f"{name}: second run", said(*words, "-i")
        counted = run(*words, "--stats").stdout.splitlines()
        yield f"{name}: its counts", [line for line in counted if line.startswith(COUNTS)]


def sums(directory):
    return {name: hashlib.sha256(repr(entry).encode()).hexdigest()[:12] for name, entry in tree(directory).items()}


def backed_up(side, back_up, restore, again):
    """A backup of what is stored, its restore, and what is in it then; then one whose repository is on the side itself."""
    source = side.directory("source")
    fill(source)
    expected = sums(source)
    repository, target = os.path.join(side.scratch, "repository"), os.path.join(side.scratch, "target")
    with side.stored() as stored:
        yield "back up the store", back_up(repository, stored)
        yield "second backup has nothing new", again(repository, stored)
    os.mkdir(target)
    yield "restore the store", restore(repository, target, stored)
    with side.restored(target + stored) as found:
        yield "what is restored", sums(os.path.join(found, "source")) == expected
    inside, target = side / "repository", side.directory("target")
    yield "back up to a repository here", back_up(inside, source)
    yield "restore from it", restore(inside, target, source)
    yield "what is restored here", sums(target + source) == expected
    shutil.rmtree(inside)
    yield "repository removed", sorted(os.listdir(side.path))


def restic(side):
    """The store backed up with restic, restored and mounted; then a repository on the mount."""
    need(("restic", "restic"), ("setfacl", "acl"))
    variables = {**os.environ, "RESTIC_PASSWORD": SECRET, "RESTIC_CACHE_DIR": os.path.join(side.scratch, "cache")}
    call = lambda repository, *words: said("restic", "-q", "-r", repository, *words, env=variables, timeout=600)

    def back_up(repository, directory):
        return [call(repository, "init")[0], call(repository, "backup", directory), call(repository, "check", "--read-data")]

    def restore(repository, target, _):
        return call(repository, "restore", "latest", "--target", target)

    def again(repository, directory):
        done = run("restic", "-r", repository, "backup", "--json", directory, env=variables)
        return '"files_new":0,"files_changed":0' in done.stdout
    yield from backed_up(side, back_up, restore, again)


def borg(side):
    """The same with BorgBackup."""
    need(("borg", "borgbackup"), ("setfacl", "acl"))
    variables = {**os.environ, "BORG_PASSPHRASE": SECRET, "BORG_BASE_DIR": os.path.join(side.scratch, "borg"),
                 "BORG_RELOCATED_REPO_ACCESS_IS_OK": "yes"}
    call = lambda *words, **more: said("borg", *words, env=variables, timeout=600, **more)

    def back_up(repository, directory):
        return [call("init", "-e", "repokey", repository)[0], call("create", "-s", f"{repository}::one", directory)[0],
                call("check", "--verify-data", repository)]

    def restore(repository, target, _):
        return call("extract", "--numeric-ids", f"{repository}::one", cwd=target)

    def again(repository, directory):
        call("create", f"{repository}::two", directory)
        return call("diff", f"{repository}::one", "two")
    yield from backed_up(side, back_up, restore, again)
