"""`mount --foreground --trace`: one line for each request, and no name or content in it unless --log-names asks for names."""

import os
import re

import harness
from foreground import Foreground
from harness import outcome, read_file, set_class, write_file

NAME = "Zwergflusspferd"
CONTENT = b"the content of a file that no trace may hold"
ATTRIBUTE = "user.zwergname"
TARGET = "zwergziel"


def exercise(mount):
    """Makes requests of many kinds; the lines that came of them."""
    path = mount / f"{NAME}.txt"
    write_file(path, CONTENT)
    set_class(path, "A")
    os.setxattr(path, ATTRIBUTE, CONTENT)
    os.symlink(TARGET, mount / f"{NAME}.link")
    os.rename(path, mount / f"{NAME}.moved")
    path = mount / f"{NAME}.moved"
    handle = os.open(path, os.O_RDONLY | os.O_DIRECT)  # what was written is in the cache
    assert os.pread(handle, 4096, 0) == CONTENT
    os.close(handle)
    assert outcome(read_file, mount / f"{NAME}.absent") == "ENOENT"
    mount.lock()
    assert outcome(read_file, path) == "EACCES"
    harness.wait_until(lambda: b"result=EACCES" in read_file(mount.log), what="the line of the refusal")
    return [line for line in mount.said().splitlines() if line.startswith("trace ")]


def fields(line):
    """The fields of a line by name; of a name that comes twice, the last."""
    return dict(re.findall(r'(\w+)=("(?:[^"\\]|\\.)*"|\S+)', line))


def requests(lines, operation):
    return [found for found in map(fields, lines) if found["op"] == operation]


def test_lines(environment):
    volume = environment.volume()
    credential = ["--recovery-file", volume.code_file]
    with Foreground(environment, volume, *credential, "--trace") as mount:
        lines = exercise(mount)
        every = read_file(mount.log)
    created = requests(lines, "CREATE")
    environment.cell("create", ["ok"], [line["result"] for line in created])
    node = created[0]["child"]
    writes = [line for line in requests(lines, "WRITE") if line["node"] == node]
    environment.cell("write: size and bytes", {str(len(CONTENT))}, {line["bytes"] for line in writes})
    reads = [line for line in requests(lines, "READ") if line["node"] == node and line["result"] == "ok"]
    # Lines come in the order in which the workers finish.
    environment.cell("read: offset and bytes", True,
                     ("0", str(len(CONTENT))) in {(line["offset"], line["bytes"]) for line in reads})
    environment.cell("a name that is not there", True,
                     any(line.get("result") == "ENOENT" or line.get("child") == "0" for line in requests(lines, "LOOKUP")))
    environment.cell("refused by the lock", True,
                     any(line["result"] == "EACCES" for line in requests(lines, "OPEN") if line["node"] == node))
    answered = [line for line in map(fields, lines) if "result" in line]
    environment.cell("every answer has its time", [], [line for line in answered if not line.get("us", "").isdigit()])
    uniques = [line["unique"] for line in answered]
    environment.cell("one line for each request", len(uniques), len(set(uniques)))
    for secret in (NAME, CONTENT.decode(), ATTRIBUTE, TARGET):
        environment.cell(f"{secret!r} is not in it", False, secret.encode() in every)


def test_names_are_asked_for(environment):
    volume = environment.volume()
    with Foreground(environment, volume, "--recovery-file", volume.code_file, "--trace", "--log-names") as mount:
        lines = exercise(mount)
        every = read_file(mount.log)
    environment.cell("create", f'"{NAME}.txt"', requests(lines, "CREATE")[0]["name"])
    for name in (NAME, ATTRIBUTE, TARGET):
        environment.cell(f"{name!r} is in it", True, name.encode() in every)
    environment.cell("no content", False, CONTENT in every)


def test_only_in_the_foreground(environment):
    volume = environment.volume()
    mount = harness.Mount(volume, environment.new_path("mount"))
    os.mkdir(mount.path)
    credential = ["--recovery-file", volume.code_file]
    done = mount.command("mount", "--trace", *credential, volume.path, mount.path, ok=False)
    environment.cell("--trace without --foreground", (2, True), (done.returncode, "--foreground" in done.stderr))
