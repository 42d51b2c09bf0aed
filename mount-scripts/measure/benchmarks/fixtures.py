"""What the rows read: an archive, a repository, a C project and a large file, made once outside every mount."""

import os
import random
import shutil

from .processes import run

WORDS = ("the file of a class has a key and a page while programs read or write its bytes until the lock wipes them "
         "from memory and the next unlock brings them back").split()


class Fixtures:
    """Each is made when a row first asks for it."""

    def __init__(self, directory, options):
        self.directory = directory
        self.options = options
        # The same in every run.
        self.random = random.Random(2026)
        os.mkdir(directory)
        options.identity.own(directory)

    def once(self, name, make):
        """The path of a fixture; a half-made one is made again."""
        path = os.path.join(self.directory, name)
        if not os.path.exists(path):
            half = path + ".half"
            shutil.rmtree(half, ignore_errors=True)
            make(half)
            os.rename(half, path)
        return path

    def archive(self):
        """Small files as in a source tree: most below 16 KiB."""
        return self.once("tree.tar", self.make_archive)

    def make_archive(self, path):
        tree = os.path.join(self.directory, "tree")
        shutil.rmtree(tree, ignore_errors=True)
        for number in range(self.options.files):
            directory = os.path.join(tree, f"directory{number // 40}")
            os.makedirs(directory, exist_ok=True)
            with open(os.path.join(directory, f"file{number}.txt"), "wb") as file:
                file.write(os.urandom(256) * (1 + (number * 7919) % 64))
        run("tar", "cf", path, "-C", tree, ".")
        shutil.rmtree(tree)

    def tree_bytes(self):
        return sum(256 * (1 + (number * 7919) % 64) for number in range(self.options.files))

    def large(self):
        """The file to copy, of random bytes."""
        return self.once("large", self.make_large)

    def make_large(self, path):
        chunk = os.urandom(1 << 20)
        with open(path, "wb") as file:
            for _ in range(self.options.copy):
                file.write(chunk)

    def text(self, lines):
        return "".join(" ".join(self.random.choices(WORDS, k=12)) + "\n" for _ in range(lines))

    def repository(self):
        """A Git repository with as many files as the tree, and three commits."""
        return self.once("repository", self.make_repository)

    def make_repository(self, path):
        run("git", "init", "-q", path)
        run("git", "-C", path, "config", "user.name", "benchmark")
        run("git", "-C", path, "config", "user.email", "benchmark@localhost")
        for commit in range(3):
            for number in range(0, self.options.files, 1 if commit == 0 else 10):
                directory = os.path.join(path, f"directory{number // 40}")
                os.makedirs(directory, exist_ok=True)
                with open(os.path.join(directory, f"file{number}.txt"), "w", encoding="utf-8") as file:
                    file.write(self.text(10 + number % 100))
            run("git", "-C", path, "add", "-A")
            run("git", "-C", path, "commit", "-q", "-m", f"Commit {commit}")
        run("git", "-C", path, "gc", "-q")

    def sources(self):
        """How many C files the project has."""
        return max(8, self.options.files // 40)

    def project(self):
        """C files with a header each, a header for all, and a Makefile."""
        return self.once("project", self.make_project)

    def make_project(self, path):
        os.mkdir(path)
        count = self.sources()
        for number in range(count):
            functions = "".join(
                f"int f{number}_{one}(int a) {{ int s = {one}; for (int i = 0; i < a; i++) s = s * 31 + (i ^ {number}); "
                f'printf("%d\\n", s); return s; }}\n' for one in range(40))
            self.put(path, f"part{number}.h", f"int f{number}_0(int a);\n")
            self.put(path, f"part{number}.c",
                     f'#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#include "all.h"\n{functions}')
        self.put(path, "all.h", "".join(f'#include "part{number}.h"\n' for number in range(count)))
        calls = "".join(f"    f{number}_0(1);\n" for number in range(count))
        self.put(path, "main.c", f'#include "all.h"\nint main(void) {{\n{calls}    return 0;\n}}\n')
        self.put(path, "Makefile", "OBJECTS = $(patsubst %.c,%.o,$(wildcard *.c))\n"
                 "program: $(OBJECTS)\n\tcc -o $@ $(OBJECTS)\n%.o: %.c\n\tcc -O1 -MMD -c -o $@ $<\n-include *.d\n")

    def put(self, directory, name, text):
        with open(os.path.join(directory, name), "w", encoding="utf-8") as file:
            file.write(text)
