"""Building and versions: make, git."""

import glob
import hashlib
import os

from harness import Skip, pattern, read_file, run, write_file

from .sides import need, said

DATE = "2026-01-02T03:04:05Z"
IDENTITY = {"GIT_AUTHOR_NAME": "T", "GIT_AUTHOR_EMAIL": "t@example.org", "GIT_AUTHOR_DATE": DATE, "GIT_COMMITTER_NAME": "T",
            "GIT_COMMITTER_EMAIL": "t@example.org", "GIT_COMMITTER_DATE": DATE, "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": "/dev/null"}
PARTS = 40
MAKEFILE = """\
objects := $(patsubst %.c,%.o,$(wildcard part*.c main.c))
program: main.o parts.a ; $(CC) -o $@ main.o parts.a
parts.a: $(filter part%,$(objects)) ; rm -f $@ && ar rcsD $@ $^
%.o: %.c ; $(CC) -O1 -MMD -c -o $@ $<
-include *.d
.PHONY: clean
clean: ; rm -f *.o *.d *.a program
"""


def hashes(directory, *patterns):
    return {os.path.relpath(path, directory): hashlib.sha256(read_file(path)).hexdigest()[:16]
            for one in patterns for path in glob.glob(os.path.join(directory, one)) if os.path.isfile(path)}


def make(side):
    """A C project of forty parts with dependencies that the compiler writes: built, changed, built again."""
    need(("make", "make"), ("cc", "gcc"))
    place = side.directory("project")
    for number in range(PARTS):
        write_file(f"{place}/part{number}.h", f"int part{number}(void);\n".encode())
        others = "".join(f'#include "part{other}.h"\n' for other in range(number % 7, PARTS, 7))
        write_file(f"{place}/part{number}.c", f'#include "part{number}.h"\n{others}'
                   f"int part{number}(void) {{ return {number}; }}\n".encode())
    write_file(f"{place}/main.c", ("#include <stdio.h>\n" + "".join(f'#include "part{one}.h"\n' for one in range(PARTS))
               + f"int main(void) {{ printf(\"%d\\n\", {' + '.join(f'part{one}()' for one in range(PARTS))}); }}\n").encode())
    write_file(f"{place}/Makefile", MAKEFILE.encode())
    build = lambda *words: said("make", "-j4", "-C", place, *words)
    yield "first build", build()[0]
    yield "its result", said(f"{place}/program")
    yield "nothing to do", build("-q")[0]
    yield "what was built", hashes(place, "*.o", "*.d", "*.a", "program")
    times = {path: os.stat(path).st_mtime_ns for path in glob.glob(f"{place}/*.o")}
    write_file(f"{place}/part3.h", b"int part3(void); /* changed */\n", os.O_TRUNC)
    yield "second build", build()[0]
    yield "built again", sorted(os.path.basename(path) for path, old in times.items() if os.stat(path).st_mtime_ns != old)
    yield "nothing to do again", build("-q")[0]
    yield "clean", build("clean")[0]
    yield "what is left", sorted(os.listdir(place))


def zlib(side):
    """zlib's own build and tests, from Debian's source package."""
    need(("make", "make"), ("cc", "gcc"), ("dpkg-source", "dpkg-dev"))
    place = side.directory("zlib")
    run("tar", "-xf", source_package("zlib", side.scratch), "-C", place, "--strip-components=1")
    yield "configure", said("sh", "-c", 'cd "$1" && ./configure', "sh", place)
    yield "make", said("make", "-j4", "-C", place, timeout=600)[0]
    yield "make check", said("make", "-j4", "-C", place, "check", timeout=600)[0::2]
    yield "nothing to do", said("make", "-q", "-C", place)[0]
    yield "files", hashes(place, "*.[cho]", "*.l?", "lib*", "Makefile", "*.pc", "example*", "minigzip*")


def source_package(name, scratch):
    """Debian's source of a package; apt keeps its lists in a directory of our own."""
    lists, parts = os.path.join(scratch, "lists"), os.path.join(scratch, "parts")
    for directory in (lists + "/partial", parts, scratch + "/cache/archives/partial"):
        os.makedirs(directory)
    found = glob.glob("/etc/apt/sources.list.d/debian.sources") + glob.glob("/etc/apt/sources.list")
    if not found:
        raise Skip("apt has no list of Debian's packages")
    with open(found[0], encoding="utf-8") as file:
        text = "".join(line.replace("Types: deb", "Types: deb-src", 1) if line.startswith("Types:") else
                       line.replace("deb ", "deb-src ", 1) if line.startswith("deb ") else line for line in file)
    suffix = ".sources" if found[0].endswith(".sources") else ".list"
    write_file(os.path.join(parts, "source" + suffix), text.encode())
    options = [word for key, value in {"Dir::Etc::sourcelist": "/dev/null", "Dir::Etc::sourceparts": parts,
                                       "Dir::State::lists": lists, "Dir::Cache": scratch + "/cache",
                                       "APT::Sandbox::User": "root"}.items() for word in ("-o", f"{key}={value}")]
    for words in (["update"], ["source", "--download-only", name]):
        if run("apt-get", *options, *words, ok=False, cwd=scratch, timeout=300).returncode != 0:
            raise Skip(f"apt-get cannot fetch the source of {name}")
    return glob.glob(f"{scratch}/{name}_*.orig.tar.*")[0]


def git(side):
    """Commits, branches, three worktrees, merges, a clone with hard links, gc and fsck."""
    need(("git", "git"))
    variables = {**os.environ, **IDENTITY}
    top = side / "repository"

    def call(*words, at=top):
        return said("git", "-C", at, "-c", "gc.auto=0", *words, env=variables)
    yield "init", said("git", "init", "-q", "-b", "main", top, env=variables)
    for number in range(12):
        os.makedirs(f"{top}/d{number % 4}", exist_ok=True)
        write_file(f"{top}/d{number % 4}/f{number}", pattern(1 + number * 2999, seed=number))
        call("add", ".")
        yield f"commit {number}", call("commit", "-qm", f"commit {number}")
    os.symlink("d0/f0", f"{top}/link")
    os.chmod(f"{top}/d1/f1", 0o755)
    call("add", ".")
    call("commit", "-qm", "a link and a mode")
    for name in ("one", "two", "three"):
        tree = side / f"worktree {name}"
        yield f"worktree add {name}", call("worktree", "add", "-q", "-b", name, tree)
        write_file(f"{tree}/{name}", name.encode())
        write_file(f"{tree}/d0/f0", name.encode(), os.O_TRUNC)
        call("add", ".", at=tree)
        yield f"commit in {name}", call("commit", "-qm", name, at=tree)
    yield "merge", call("merge", "-q", "--no-edit", "one")
    yield "a merge that conflicts", call("merge", "-q", "--no-edit", "two")[:2]
    yield "status of it", call("status", "--porcelain=v2")
    yield "abort", call("merge", "--abort")
    yield "worktree move", call("worktree", "move", side / "worktree three", side / "moved")
    yield "worktree remove", call("worktree", "remove", side / "worktree two")
    yield "worktrees", call("worktree", "list", "--porcelain")
    write_file(f"{top}/d2/f2", b"not committed", os.O_TRUNC)
    write_file(f"{top}/untracked", b"x")
    yield "stash", call("stash", "-u", "-q")
    yield "stash pop", call("stash", "pop", "-q")
    yield "status", call("status", "--porcelain")
    yield "gc", call("gc", "-q", "--aggressive", "--prune=now")
    yield "clone", said("git", "clone", "-q", "--local", top, side / "clone", env=variables)
    yield "status of the clone", call("status", "--porcelain", at=side / "clone")
    for name in ("repository", "moved", "clone"):
        yield f"fsck of {name}", call("fsck", "--full", "--strict", at=side / name)
        yield f"log of {name}", call("log", "--format=%H %s", "--all", at=side / name)
