"""A program in a package of its own that depends on this one, as docs/program/porting.md shows it; and the import check."""

import os
import re
import shutil

from harness import CLASSES, REPOSITORY, Skip, get_class, program, read_file, run

PROGRAM = """import FileProtection

let url = URL(fileURLWithPath: CommandLine.arguments[1])
try Data("protected".utf8).write(to: url.appendingPathComponent("protected"), options: .completeFileProtection)
try bypass(url.appendingPathComponent("bypassed"))
"""
BYPASS = """import Foundation

func bypass(_ url: URL) throws { try Data("bypassed".utf8).write(to: url, options: .completeFileProtection) }
"""


def manifest():
    with open(os.path.join(REPOSITORY, "docs", "program", "porting.md"), encoding="utf-8") as file:
        found = [block for block in re.findall(r"^```swift\n(.*?)^```$", file.read(), re.M | re.S)
                 if "import PackageDescription" in block]
    assert len(found) == 1, found
    return found[0]


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


class Package:
    """A package that depends on this one, in the directory of a developer."""

    #: The target whose files are changed.
    target = "notes"
    #: Its directory, if not one of the test.
    place = None

    def __init__(self, environment):
        self.environment, self.base = environment, self.place or environment.new_path("packages")
        self.path = os.path.join(self.base, "notes")
        self.make()

    def make(self):
        """The package of docs/program/porting.md beside this one."""
        self.write("Package.swift", manifest())
        os.symlink(REPOSITORY, os.path.join(self.base, "protectfs"))

    def write(self, name, text):
        write(os.path.join(self.path, name), text)

    def source(self, name, text):
        self.write(f"Sources/{self.target}/{name}.swift", text)

    def swift(self, *words, **more):
        return run("nice", "swift", *words, cwd=self.path, timeout=1800, **more)

    def check(self, name, expected, *words):
        """expected: the places that the check names, each with a part of what it says there."""
        done = self.swift("package", "check-imports", *words, ok=False)
        expected = {f"Sources/{self.target}/{place}": part for place, part in expected.items()}
        # The package manager says beside it what it builds.
        said = dict(re.findall(r"^(\S+\.swift:\d+): (.*)$", done.stdout, re.M))
        self.environment.cell(f"[check: {name}]", (1 if expected else 0, sorted(expected)), (done.returncode, sorted(said)))
        for line, part in expected.items():
            self.environment.cell(f"[check: {name}: what is said]", True, part in said.get(line, ""))

    def is_checked(self, mount):
        """A program that writes past the library, and what the check says of it."""
        self.source("main", PROGRAM)
        self.source("Bypass", BYPASS)
        self.swift("build", "--product", self.target)
        self.swift("run", "--skip-build", self.target, mount.path)
        self.environment.cell("[class of what the library wrote]", CLASSES["A"], get_class(mount / "protected"))
        # Why there is a check: it compiles, it runs, and the class is not there.
        self.environment.cell("[class of what went past it]", CLASSES["C"], get_class(mount / "bypassed"))
        assert read_file(mount / "bypassed") == b"bypassed"

        self.source("Declaration", "import FileProtection\nimport class Foundation.FileManager\n")
        found = {"Bypass.swift:1": "do nothing in this file", "Declaration.swift:2": "hides that of FileProtection"}
        self.check("Foundation alone, and a declaration", found)
        self.check("a target", found, "--target", self.target)
        self.check("tests too", found, "--tests")
        self.source("Bypass", "// protectfs: plain Foundation: shows what it does\n" + BYPASS)
        self.source("Declaration", BYPASS.replace("Foundation", "FileProtection"))
        self.check("an exception, and nothing", {})
        for words in (["--target", "none"], ["--wrong"]):
            done = self.swift("package", "check-imports", *words, ok=False)
            self.environment.cell(f"[{words[0]}]", (1, True), (done.returncode, words[-1] in done.stderr))


class Copy(Package):
    """docs/program/template, as a developer would copy it, with this package as a repository that has the tag of its version.

    What it builds is kept for the next run, which compiles what has changed since.
    """

    target = "notes-app"
    place = os.path.join(REPOSITORY, ".build/template")

    def make(self):
        repository = os.path.join(self.base, "protectfs")
        for name in ("Package.swift", "Sources", "Tests"):
            for place in (repository, self.path):
                run("rm", "-rf", os.path.join(place, name))
        # Without the settings of anybody. The checkout may be another user's.
        settings = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
        listed = run("git", "-c", "safe.directory=*", "ls-files", "--cached", "--others", "--exclude-standard", "Package.swift",
                     "Sources", "Tests/MemoryStore", "Tests/TestSupport", cwd=REPOSITORY, env=settings).stdout.splitlines()
        for path in listed:
            if os.path.exists(os.path.join(REPOSITORY, path)):
                os.makedirs(os.path.join(repository, os.path.dirname(path)), exist_ok=True)
                shutil.copy2(os.path.join(REPOSITORY, path), os.path.join(repository, path))
        shutil.copytree(os.path.join(REPOSITORY, "docs/program/template"), self.path, dirs_exist_ok=True)
        with open(os.path.join(self.path, "Package.swift"), encoding="utf-8") as file:
            text = file.read()
        self.version = re.search(r'from: "(.*?)"', text)[1]
        assert "https://example.org/protectfs.git" in text
        self.write("Package.swift", text.replace("https://example.org/protectfs.git", "file://" + repository))
        who = ("-c", "user.name=Test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false")
        git = lambda *words, **more: run("git", *words, cwd=repository, env=settings, **more)
        git("init", "-q")
        git("add", "-A")
        # What has changed since the last run is a later version: the package manager does not look at one again that it has.
        if git(*who, "commit", "-q", "-m", "A release", ok=False).returncode == 0:
            first, patch = self.version.rsplit(".", 1)
            git("tag", f"{first}.{int(patch) + len(git('tag').stdout.split())}")
        self.swift("package", "update")


def test_outside_package(environment):
    """The manifest of docs/program/porting.md names products that there are. With --mode full its package is built and checked, too."""
    if run("which", "swift", ok=False).returncode != 0:
        raise Skip("there is no swift")
    package = Package(environment)
    if environment.mode == "full":
        package.is_checked(environment.mount())
    else:
        package.write("Sources/notes/main.swift", "")
        package.swift("package", "show-dependencies")


def test_template(environment):
    """The package to copy: its manifest takes a tagged version, and its program does what it says in two states. With --mode full
    it is built there, with Swift's libraries in it, too, its tests pass, and the import check finds what writes past the library; otherwise this package has built
    its program."""
    if run("which", "swift", ok=False).returncode != 0:
        raise Skip("there is no swift")
    with open(os.path.join(REPOSITORY, "Sources/VolumeFormat/FormatVersion.swift"), encoding="utf-8") as file:
        ours = re.search(r'number = "(.*)"', file.read())[1]
    copy, mount = Copy(environment), environment.mount()
    environment.cell("[its version is this one]", ours, copy.version)
    is_whole, folder = environment.mode == "full", mount / "notes"
    if is_whole:
        copy.swift("build", "--product", "notes-app")
    app = os.path.join(copy.path, ".build/debug/notes-app") if is_whole else program("notes-app")
    run(app, folder, "shopping", "milk")
    environment.cell("[class]", CLASSES["A"], get_class(mount / "notes/Documents/shopping"))
    environment.cell("[read]", "milk\n", run(app, folder, "shopping").stdout)
    mount.lock()
    done = run(app, folder, "shopping", ok=False)
    environment.cell("[locked]", (1, "The notebook is locked.\n"), (done.returncode, done.stdout))
    environment.cell("[listed while locked]", "shopping\n", run(app, folder).stdout)
    mount.unlock()
    if not is_whole:
        return
    done = copy.swift("test", "--disable-xctest", env={**os.environ, "NOTES_FOLDER": mount.path}, ok=False)
    said = done.stdout + done.stderr
    environment.cell("[its tests]", (0, True), (done.returncode, "2 tests" in said and "passed" in said))
    # For machines without Swift.
    build = ["--static-swift-stdlib", "--product", "notes-app", "--scratch-path", ".build/static"]
    copy.swift("build", *build)
    app = os.path.join(copy.path, ".build/static/debug/notes-app")
    environment.cell("[linked statically]", [], [word for word in run("ldd", app).stdout.split() if re.match("lib(swift|Found|_Found)", word)])
    run(app, folder, "static", "tea")
    environment.cell("[its class]", (CLASSES["A"], "tea\n"), (get_class(mount / "notes/Documents/static"), run(app, folder, "static").stdout))
    copy.is_checked(mount)


test_outside_package.time_limit = test_template.time_limit = 7200


def test_our_own_files(environment):
    """The libraries and examples of this package pass, exceptions with reasons included."""
    check = program("check-imports")
    done = run(check, "Sources", "Tests", cwd=REPOSITORY, ok=False)
    environment.cell("[this package]", (0, ""), (done.returncode, done.stdout))
    done = run(check, "--stdin", cwd=REPOSITORY, ok=False)
    environment.cell("[no paths]", (0, ""), (done.returncode, done.stdout))
    offender = environment.new_path("offender") + ".swift"
    write(offender, "import Dispatch; import Foundation\n")
    done = run(check, offender, ok=False)
    environment.cell("[a file]", (1, f"{offender}:1: imports Foundation alone"),
                     (done.returncode, done.stdout.partition(": protection")[0]))
    for words, code in ((["/no/such/place"], 2), (["--wrong"], 2), (["--help"], 0)):
        environment.cell(f"[{words[0]}]", code, run(check, *words, ok=False).returncode)
