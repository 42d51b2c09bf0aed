"""The program porting-examples, which has the documents' examples and more of their kind."""

import os

import harness
from harness import CLASSES, get_class, run


class Examples:
    def __init__(self, environment, mount):
        self.environment, self.mount, self.program = environment, mount, harness.program("porting-examples")

    def says(self, state, expected, name, *words, directory=None, **more):
        done = run(self.program, name, directory or self.mount.path, *words, ok=False, **more)
        assert done.returncode == 0, (name, done.returncode, done.stderr)
        self.environment.cell(f"{state} {name} {' '.join(words)}", expected, done.stdout.splitlines())

    def class_of(self, name, letter):
        self.environment.cell(f"class of {name}", CLASSES[letter], get_class(self.mount / name))

    def no_debris(self):
        left = [name for _, folders, _ in os.walk(self.mount.path) for name in folders if "staging" in name]
        self.environment.cell("staging directories left", [], left)
