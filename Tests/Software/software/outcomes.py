"""Runs one module of Python's tests, and writes the outcome of each test as JSON: outcomes.py MODULE FILE."""

import json
import os
import sys
import traceback
import unittest


class Outcomes(unittest.TestResult):
    """Name of a test → what came of it."""

    def __init__(self):
        super().__init__()
        self.found = {}

    def note(self, test, text):
        name = test.id()
        self.found[name] = f"{self.found[name]}; {text}" if name in self.found else text

    def addSuccess(self, test):
        super().addSuccess(test)
        self.note(test, "passes")

    def addError(self, test, error):
        super().addError(test, error)
        self.note(test, "error: " + traceback.format_exception_only(*error[:2])[-1].strip())

    def addFailure(self, test, error):
        super().addFailure(test, error)
        self.note(test, "fails: " + traceback.format_exception_only(*error[:2])[-1].strip().splitlines()[0])

    def addSubTest(self, test, subtest, error):
        super().addSubTest(test, subtest, error)
        if error is not None:
            self.note(test, f"{subtest._subDescription()}: {traceback.format_exception_only(*error[:2])[-1].strip()}")

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.note(test, f"skipped: {reason}")

    def addExpectedFailure(self, test, error):
        super().addExpectedFailure(test, error)
        self.note(test, "fails as expected")

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self.note(test, "passes unexpectedly")


def main():
    module, answer = sys.argv[1:]
    # Tests write where the standard library's own paths do not begin.
    sys.path[0] = os.getcwd()
    outcomes = Outcomes()
    unittest.defaultTestLoader.loadTestsFromName("test." + module).run(outcomes)
    with open(answer, "w", encoding="utf-8") as file:
        json.dump(outcomes.found, file)


if __name__ == "__main__":
    main()
