"""The names of Apple's log: what an application writes to it, and that private values stay out of it."""

import os

import harness
from harness import run

LINES = (
    ("info", 6, "saved <private> at <private>"), ("default", 5, "saved diary.txt, 3 of 7.5, true"),
    ("error", 3, "cannot save <private>: <private>"), ("debug", 7, "flags ff |  4|"), ("debug", 7, "|a  |"), ("fault", 2, "two lines"),
    ("error", 3, "number <private>"))


def written(stream, output):
    """What the program writes to a file, with device and inode of another or of the same file in JOURNAL_STREAM."""
    with open(output, "w+b") as file:
        run(harness.program("porting-logging"), env={**os.environ, "JOURNAL_STREAM": stream}, stderr=file)
        return harness.read_file(output).decode().splitlines()


def test_logging(environment):
    """With a word in each line, and with a priority if standard error is what JOURNAL_STREAM says."""
    output = environment.new_path("output")
    harness.write_file(output, b"")
    status, name = os.stat(output), "[org.example.notes:store] "
    words = [f"{word}: {name}{text}" for word, _, text in LINES] + [
        "default: plain", "error: [org.example.notes:old] code 5", "info: typed"]
    environment.cell("the journal", [f"<{number}>{name}{text}" for _, number, text in LINES] + [
        "<5>plain", "<3>[org.example.notes:old] code 5", "<6>typed"], written(f"{status.st_dev}:{status.st_ino}", output))
    # A program that a service has started inherits the variable, and its standard error is another file.
    for stream in ("", f"{status.st_dev}:{status.st_ino + 1}", f"{status.st_dev + 1}:{status.st_ino}", f"{status.st_dev}:", "x"):
        environment.cell(f"standard error and {stream.partition(':')[2] or stream}", words, written(stream, output))
