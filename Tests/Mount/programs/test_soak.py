"""A short soak, and its verdict: growth and differences are found."""

import os
import shutil
import subprocess

import soak_compare
import soak_measure
from harness import REPOSITORY, Skip, binary, pattern, write_file


def test_soak(environment):
    if shutil.disk_usage(environment.base).free < 2 << 30:
        raise Skip("this needs 2 GiB of disk")
    done = subprocess.run(
        [os.path.join(REPOSITORY, "mount-scripts", "measure", "soak"), "--minutes", "120" if environment.mode == "full" else "0.5"],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        env={**os.environ, "PROTECTFS": binary(), "TMPDIR": environment.base})
    lines = done.stdout.strip().split("\n")
    for line in lines[-10:]:
        print("        " + line, flush=True)
    assert (done.returncode, lines[-1]) == (0, "flat and equal"), done.stdout


test_soak.time_limit = 3 * 3600


def rows(count, **columns):
    """Rows of a table in which each column named is a function of the row's number; the others are flat."""
    flat = {"resident": 30, "locked": 10, "descriptors": 40, "threads": 16, "paced": 1.5, "paced99": 3, "trip": 10, "trip99": 40}
    return [{**flat, **{name: value(number) for name, value in columns.items()}} for number in range(count)]


def verdict(table):
    return [text.split(":")[0].split(",")[0] for text, good in soak_measure.judge(table) if not good]


def test_verdict(environment):
    environment.cell("[flat]", [], verdict(rows(60)))
    environment.cell("[warming up]", [], verdict(rows(60, resident=lambda row: min(30, 10 + 5 * row))))
    environment.cell("[memory]", ["memory"], verdict(rows(120, resident=lambda row: 30 + row / 6)))
    environment.cell("[locked memory]", ["locked memory"], verdict(rows(120, locked=lambda row: 10 + row / 30)))
    environment.cell("[descriptors]", ["descriptors"], verdict(rows(120, descriptors=lambda row: 40 + row // 5)))
    environment.cell("[threads]", ["threads"], verdict(rows(120, threads=lambda row: 16 + row // 20)))
    environment.cell("[latency]", ["latency"], verdict(rows(120, paced=lambda row: 1.5 + row / 60)))
    environment.cell("[late ones]", ["latency"], verdict(rows(120, paced99=lambda row: 3 + row / 5)))
    environment.cell("[busier]", [], verdict(rows(
        120, paced99=lambda row: 3 + row / 5, paced=lambda row: 1.5 + row / 60, trip99=lambda row: 40 + row)))
    environment.cell("[short, slow]", [], verdict(rows(12, paced=lambda row: 1.5 + row / 6, paced99=lambda row: 3 + row)))
    environment.cell("[short, memory]", ["memory"], verdict(rows(12, resident=lambda row: 30 + 4 * row)))
    environment.cell("[nothing measured]", 2, len(verdict(rows(12, paced=lambda row: None, paced99=lambda row: None))))


def test_differences(environment):
    one, other = environment.new_path("one"), environment.new_path("other")
    os.makedirs(one + "/sub")
    write_file(one + "/sub/file", pattern(3_000_000))
    os.symlink("target", one + "/link")
    shutil.copytree(one, other, symlinks=True)

    def changed(name, action, undo):
        environment.cell(f"[equal before {name}]", [], soak_compare.differences(one, other))
        action()
        environment.cell(f"[{name}]", 1, len(soak_compare.differences(one, other)))
        undo()

    def put(content, offset):
        with open(other + "/sub/file", "r+b") as file:
            file.seek(offset)
            file.write(content)

    changed("a byte", lambda: put(b"x", 2_500_000), lambda: put(pattern(3_000_000)[2_500_000:2_500_001], 2_500_000))
    changed("an end", lambda: put(b"x", 3_000_000), lambda: os.truncate(other + "/sub/file", 3_000_000))
    changed("a name", lambda: write_file(other + "/sub/more", b""), lambda: os.remove(other + "/sub/more"))
    changed("a mode", lambda: os.chmod(other + "/sub/file", 0o600), lambda: os.chmod(other + "/sub/file", 0o644))
    changed("a link", lambda: (os.remove(other + "/link"), os.symlink("elsewhere", other + "/link")), lambda: None)
