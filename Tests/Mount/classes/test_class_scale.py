"""What `class list -R` and `class set -R` cost does not grow faster than the number of files."""

import json
import os
import re
import resource
import shutil
import subprocess
import tempfile

import harness
from deep_trees import inside
from harness import Skip, get_class, set_class, write_file
from terminal import at_terminal

FEW, MANY = 400, 3200
# More than one part of a table has.
LONG = 1200


def fill(directory, count, content=b""):
    os.mkdir(directory)
    for number in range(count):
        write_file(f"{directory}/{number}", content)
    return directory


def processor_time(mount, *words):
    """The seconds of processor time that a command takes itself."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    mount.command(*words)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def traced(program, calls, run):
    """How often a process makes each of these system calls while run() works."""
    if not shutil.which("strace"):
        raise Skip("no strace")
    with tempfile.NamedTemporaryFile() as log:
        tracer = subprocess.Popen(["strace", "-f", "-c", "-U", "calls,name", "-e", "trace=" + ",".join(calls), "-o", log.name,
                                   "-p", str(program)], stderr=subprocess.PIPE, text=True)
        while "attached" not in tracer.stderr.readline():
            pass
        run()
        tracer.terminate()
        tracer.communicate()
        with open(log.name, encoding="ascii") as file:
            rows = [line.split() for line in file]
    return {name: sum(int(row[0]) for row in rows if len(row) == 2 and row[1] == name) for name in calls}


def test_time_for_a_file(environment):
    """Eight times the files cost about eight times as much, and not 64 times."""
    mount = environment.mount()
    few, many = fill(mount / "few", FEW), fill(mount / "many", MANY)
    empty = fill(mount / "empty", 0)
    for words in (["list", "-R"], ["list", "-R", "--json"], ["set", "-R", "D"]):
        start = processor_time(mount, "class", *words, empty)
        for_few = max(processor_time(mount, "class", *words, few) - start, 0.005) / FEW
        for_many = (processor_time(mount, "class", *words, many) - start) / MANY
        environment.cell(f"[class {' '.join(words)}]", "at most four times as much for a file",
                         "at most four times as much for a file" if for_many <= 4 * for_few else
                         f"{for_few * 1e6:.0f} µs for each of {FEW} files, {for_many * 1e6:.0f} µs for each of {MANY}")


def test_long_lists(environment):
    """A long list is printed in parts. Its columns fit what has been printed, and its rows are those of a short list."""
    mount = environment.mount()
    place = fill(mount / "place", LONG)
    set_class(f"{place}/1", "A")
    lines = mount.command("class", "list", "-R", place).stdout.splitlines()
    names = sorted(map(str, range(LONG)))
    environment.cell("[paths]", [f"{place}/", *(f"{place}/{name}" for name in names)], [line.split()[-1] for line in lines[1:]])
    environment.cell("[heading]", ["CLASS", "MARKS", "PATH"], lines[0].split())
    column = lines[0].index("PATH")
    environment.cell("[aligned]", [], [line for line in lines if line.index(line.split()[-1]) != column])
    rows = json.loads(mount.command("class", "list", "-R", "--json", place).stdout)
    environment.cell("[--json]", [f"{place}/{name}" for name in names], [row["path"] for row in rows[1:]])
    # A wider cell in a later part makes its column wider from there on.
    place = fill(mount / "wide", LONG)
    set_class(f"{place}/{names[-1]}", "A")
    lines = mount.command("class", "list", "-R", place).stdout.splitlines()
    columns = [line.index(line.split()[-1]) for line in lines]
    environment.cell("[parts]", (2, True), (len(set(columns)), columns == sorted(columns)))
    environment.cell("[the wide part]", {"strong,chosen"}, {line.split()[2] for line in lines if len(line.split()) == 4})


def test_empty_files(environment):
    """An empty file gets a new class and key in place, with one sync. Files share a connection to the daemon."""
    mount = environment.mount()
    count = 100
    place = fill(mount / "place", count)
    inodes = [os.stat(f"{place}/{number}").st_ino for number in range(count)]
    calls = traced(mount.pid, ["fsync", "fdatasync", "accept4"], lambda: mount.command("class", "set", "-R", "A", place))
    environment.cell("[classes]", {"complete"}, {get_class(f"{place}/{number}") for number in range(count)})
    environment.cell("[inodes]", inodes, [os.stat(f"{place}/{number}").st_ino for number in range(count)])
    environment.cell("[keys]", set(), {row["path"] for row in
                                       json.loads(mount.command("class", "list", "--json", place).stdout) if row["keyExposed"]})
    syncs = calls["fsync"] + calls["fdatasync"]
    environment.cell("[syncs]", "one for each file", "one for each file" if count <= syncs <= count + 10 else calls)
    environment.cell("[connections]", True, calls["accept4"] <= 5)
    # A file of the class that it is to have is not written.
    calls = traced(mount.pid, ["fsync", "fdatasync", "pwrite64"], lambda: mount.command("class", "set", "-R", "A", place))
    environment.cell("[again]", True, sum(calls.values()) <= 5)


def test_files_with_content(environment):
    """A file with content is synced before it takes its name, and its directory afterwards."""
    mount = environment.mount()
    count = 50
    place = fill(mount / "place", count, b"content")
    calls = traced(mount.pid, ["fsync", "fdatasync"], lambda: mount.command("class", "set", "-R", "A", place))
    environment.cell("[syncs]", "two for each file",
                     "two for each file" if 2 * count <= sum(calls.values()) <= 2 * count + 10 else calls)
    for number in range(count):
        with open(f"{place}/{number}", "rb") as file:
            assert file.read() == b"content", number


def test_progress(environment):
    """On a terminal the command says how far it is in all. Elsewhere it says nothing."""
    mount = environment.mount()
    place = fill(mount / "place", 800)
    code, shown, _ = at_terminal(["class", "set", "-R", "B", place], mount.volume.environment, [])
    steps = re.findall(r"(\d+) of (\d+) files, 0 of 0 MiB, (\d+) %", shown)
    environment.cell("[at a terminal]", (0, True, {"800"}), (code, len(steps) > 0, {step[1] for step in steps}))
    done = [int(step[0]) for step in steps]
    environment.cell("[it goes on]", sorted(done), done)
    environment.cell("[elsewhere]", "", mount.command("class", "set", "-R", "A", place).stderr)


def test_other_mounts_below(environment):
    """What is mounted on a file of the directory is changed where it is, and not what it hides."""
    if os.geteuid() != 0:
        raise Skip("needs root, to mount a file on another")
    mount = environment.mount()
    place = fill(mount / "place", 3, b"hidden")
    write_file(mount / "other", b"content")
    done = subprocess.run(["mount", "--bind", mount / "other", f"{place}/1"], check=False, capture_output=True)
    if done.returncode:
        raise Skip("this user cannot mount")
    try:
        mount.command("class", "set", "-R", "A", place, ok=False)
        environment.cell("[what is mounted]", "complete", get_class(mount / "other"))
    finally:
        subprocess.run(["umount", f"{place}/1"], check=True)
    environment.cell("[what it hides]", ["complete", "completeUntilFirstUserAuthentication", "complete"],
                     [get_class(f"{place}/{number}") for number in range(3)])


def test_a_deep_tree(environment):
    """class list -R and class set -R go where no path of a system call leads, with few descriptors and a small stack."""
    mount, depth = environment.mount(), 600

    def make_deep(levels):
        for _ in range(levels):
            os.mkdir("directory")
            os.chdir("directory")
        harness.write_file("file", b"x")

    def limit():
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
    os.mkdir(mount / "top")
    inside(mount / "top", make_deep, depth)
    done = mount.command("class", "set", "-R", "complete", mount / "top", ok=False, preexec_fn=limit)
    environment.cell("set", (0, ""), (done.returncode, done.stderr))
    done = mount.command("class", "list", "-R", "--json", mount / "top", ok=False, preexec_fn=limit)
    rows = json.loads(done.stdout)
    environment.cell("list", (0, "", depth + 2, {"complete"}), (done.returncode, done.stderr, len(rows), {row["class"] for row in rows}))
    harness.run("rm", "-r", mount / "top")
