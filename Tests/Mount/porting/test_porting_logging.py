"""The names of Apple's log: what an application writes to it, and that private values stay out of it."""

import os

import harness
from harness import run

LINES = (
    ("info", 6, "saved <private> at <private>"), ("default", 5, "saved diary.txt, 3 of 7.5, true"),
    ("error", 3, "cannot save <private>: <private>"), ("debug", 7, "flags ff |  4|"), ("debug", 7, "|a  |"), ("fault", 2, "two lines"),
    ("error", 3, "number <private>"))


def test_logging(environment):
    """On standard error with a word, and for the journal with a priority."""
    others = {key: value for key, value in os.environ.items() if key != "JOURNAL_STREAM"}
    name = "[org.example.notes:store] "
    done = run(harness.program("porting-logging"), env=others)
    environment.cell("standard error", [f"{word}: {name}{text}" for word, _, text in LINES] + [
        "default: plain", "error: [org.example.notes:old] code 5", "info: typed"], done.stderr.splitlines())
    done = run(harness.program("porting-logging"), env={**others, "JOURNAL_STREAM": "8:1"})
    environment.cell("the journal", [f"<{number}>{name}{text}" for _, number, text in LINES] + [
        "<5>plain", "<3>[org.example.notes:old] code 5", "<6>typed"], done.stderr.splitlines())
