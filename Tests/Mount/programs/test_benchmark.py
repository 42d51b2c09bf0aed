"""mount-scripts/measure/benchmark: every row gets a result, and what fails loses nothing of what was measured."""

import contextlib
import json
import os
import signal
import shutil
import subprocess
import time

import handles
import harness
import rings
from namespaces import open_fuse_to_everyone

SCRIPT = os.path.join(harness.REPOSITORY, "mount-scripts/measure/benchmark")
PUBLISHED = os.path.join(harness.REPOSITORY, "docs/judge/benchmarks")
SMALL = ("--quick", "--size", "8", "--copy", "8", "--files", "20", "--many", "50", "--seconds", "0.1")
# Rows whose programs a test machine may not have.
NEEDS = {"make": ("make", "cc"), "git-clone": ("git",), "git-status-cold": ("git",), "git-status-warm": ("git",)}


def command(environment, *words):
    place = environment.new_path("results")
    binary = [] if "--binary" in words else ["--binary", harness.binary()]
    return [SCRIPT, *SMALL, *binary, "--store", environment.base, "--results", place, *words], os.path.join(place, "results.json")


def kept(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def measure(environment, *words):
    words, path = command(environment, *words)
    done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, "CACHES_LOCK": handles.__file__})
    return done, kept(path)


def outcomes(results, peer):
    return {one["row"]: one.get("failed", "measured") for one in results["samples"] if one["peer"] == peer}


def script(environment, text):
    """A program that does something else than protectfs for some commands."""
    path = environment.new_path("other")
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"#!/bin/sh\n{text}\nexec {harness.binary()} \"$@\"\n")
    os.chmod(path, 0o700)
    return path


def test_every_row(environment):
    example = "/usr/share/doc/libfuse3-dev/examples/passthrough_ll.c"
    loopback = environment.mode == "full" and os.path.exists(example) and shutil.which("cc")
    done, results = measure(environment, "--peers", "protectfs,loopback" if loopback else "protectfs")
    rows = {row: "measured" for row in results["about"]["rows"]}
    for row, programs in NEEDS.items():
        for program in programs:
            if not shutil.which(program):
                rows[row] = f"{program} is not installed"
    environment.cell("[rows]", True, len(rows) >= 24)
    for peer in results["about"]["peers"]:
        environment.cell(f"[{peer}] each row", rows, outcomes(results, peer))
    environment.cell("[figures]", [], [one for one in results["samples"] if "rate" in one and not (
        one["rate"] > 0 and one["seconds"] > 0 and one["cpuSeconds"] >= 0 and one["residentMiB"] > 0)])
    environment.cell("[tables]", [], [about["title"] for about in results["about"]["rows"].values()
                                      if about["title"] not in done.stdout])
    with open(os.path.join(done.args[done.args.index("--results") + 1], "ratios.svg"), encoding="utf-8") as file:
        environment.cell("[plot]", True, "</svg>" in file.read())


def test_what_fails(environment):
    """A peer that does not mount, and one whose daemon dies: the others have every result, and the reasons are kept."""
    rows = "write,mail,remove"
    broken = script(environment, '[ "$1" = mount ] && { echo no >&2; exit 1; }')
    done, results = measure(environment, "--peers", "protectfs", "--only", rows, "--before", broken)
    environment.cell("[does not mount] exit code", 1, done.returncode)
    environment.cell("[does not mount] the others", set(rows.split(",")),
                     {row for row, said in outcomes(results, "protectfs").items() if said == "measured"})
    environment.cell("[does not mount] its reasons", {"not mounted: mount: exit code 1: no"},
                     set(outcomes(results, "before").values()))
    # Its first daemon is killed within the first row, and the next one meets a volume in use twice.
    mark = environment.new_path("mark")
    dying = script(environment, f'''[ "$1" = mount ] || exec {harness.binary()} "$@"
echo >>{mark}
case $(wc -l <{mark}) in
1) {harness.binary()} "$@" || exit 1
   (sleep 0.3; kill -9 $(pgrep -f "protectfs mount .*$5$")) >/dev/null 2>&1 &
   exit 0 ;;
2 | 3) echo "in use" >&2; exit 6 ;;
esac''')
    done, results = measure(environment, "--peers", "protectfs", "--only", rows, "--before", dying, "--seconds", "1")
    said = outcomes(results, "before")
    environment.cell("[dies] exit code", 1, done.returncode)
    environment.cell("[dies] the others", {"measured"}, set(outcomes(results, "protectfs").values()))
    environment.cell("[dies] one row failed", (1, "measured"), (
        sum(one != "measured" for one in said.values()), said.get("remove")))
    environment.cell("[dies] mounts", 4, os.path.getsize(mark))


def test_interrupted(environment):
    """An interrupt prints and keeps what there is, and leaves no mount."""
    words, path = command(environment, "--peers", "protectfs", "--only", "write,mail,appends", "--seconds", "60")
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        def is_first_kept():
            with contextlib.suppress(OSError, ValueError):
                return bool(kept(path)["samples"])

        harness.wait_until(is_first_kept, what="the first result")
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        text = process.communicate(timeout=harness.PATIENCE)[0]
    finally:
        process.kill()
        process.wait()
    environment.cell("[interrupted] exit code", 130, process.returncode)
    environment.cell("[interrupted] printed", True, "sequential write" in text)
    environment.cell("[interrupted] kept", ["write"], [one["row"] for one in kept(path)["samples"]])


def test_as_an_ordinary_user(environment):
    """Everything belongs to that user; root only empties the caches."""
    if os.geteuid() != 0 or not shutil.which("fusermount3"):
        raise harness.Skip("needs root and fusermount3(1)")
    open_fuse_to_everyone(environment, mode=0o600)
    refused = subprocess.run([SCRIPT, "--user", "nobody", "--binary", harness.binary()], capture_output=True, text=True)
    environment.cell("[user] who may not open the device", (1, "benchmark: nobody may not open /dev/fuse: sudo chmod 666 /dev/fuse\n"),
                     (refused.returncode, refused.stderr))
    open_fuse_to_everyone(environment)
    done, results = measure(environment, "--peers", "protectfs", "--only", "read-cold,list-warm,remove", "--user", "nobody")
    environment.cell("[user] exit code", 0, done.returncode)
    environment.cell("[user] as whom", "ordinary", results["about"]["user"])
    environment.cell("[user] rows", {row: "measured" for row in results["about"]["rows"]}, outcomes(results, "protectfs"))
    refused = subprocess.run([SCRIPT, "--user", "no-such-user", "--binary", harness.binary()], capture_output=True, text=True)
    environment.cell("[user] one that does not exist", (1, "benchmark: no user no-such-user\n"), (refused.returncode, refused.stderr))


def test_over_io_uring(environment):
    """The kernel's switch is on for the mount alone; a mount that has another transport is not measured."""
    if not rings.allowed():
        raise harness.Skip("needs root and a kernel with FUSE over io_uring")
    done, results = measure(environment, "--peers", "protectfs,io-uring", "--only", "mail,remove")
    environment.cell("[io_uring] exit code", 0, done.returncode)
    environment.cell("[io_uring] rows", {row: "measured" for row in results["about"]["rows"]}, outcomes(results, "io-uring"))
    environment.cell("[io_uring] beside protectfs", True, "io_uring / protectfs" in done.stdout)
    elsewhere = script(environment, 'if [ "$1" = mount ] && [ "$2" = -o ]; then shift 3; set -- mount "$@"; fi')
    done, results = measure(environment, "--peers", "io-uring", "--only", "mail", "--binary", elsewhere)
    environment.cell("[another transport]", (1, True), (done.returncode, "do not come over io_uring" in done.stdout))


def test_published(environment):
    """The tables of the documents are those of the published results."""
    for kind, results, document in (("readme", "results.json", "README.md"), ("document", "results.json", "docs/judge/benchmarks/README.md"),
                                    ("document", "root/results.json", "docs/judge/benchmarks/root/README.md")):
        table = harness.run(SCRIPT, "--show", os.path.join(PUBLISHED, results), "--markdown", kind).stdout.strip()
        with open(os.path.join(harness.REPOSITORY, document), encoding="utf-8") as file:
            environment.cell(f"[{document}] its tables", True, table in file.read())
