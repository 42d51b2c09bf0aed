"""Every Swift snippet of the documents compiles with the libraries."""

import glob
import os
import re
import shutil

from built import place
from harness import REPOSITORY, Skip, binary, run

# What snippets may take for granted beside what the comment before them gives: <!-- given: NAME: TYPE, … -->
PRELUDE = """import FileProtection

protocol Document {
    func open() throws
    func close() throws
}
"""


class Snippet:
    """One fenced block, at its line of a document or of a documentation comment."""

    def __init__(self, path, line, given, code):
        self.path, self.line, self.given, self.code = path, line, given, code

    def source(self, number):
        imports, body, inside = [], [], False
        for line in self.code:
            isImport = re.match(r"(@\w+ )*(public |internal )?import ", line)
            imports.append(line if isImport else "")
            body.append("" if isImport else line)
        place = f'#sourceLocation(file: "{self.path}", line: {self.line})'
        if "@main" in self.code or all(re.match(r"\s*($|//|#)", line) for line in body):
            # A whole file, or nothing but imports, with conditions around them.
            return "\n".join([place, *self.code, "#sourceLocation()", ""])
        if not any(imports):
            imports = ["import FileProtection"]
        return "\n".join([*filter(None, imports), f"func snippet{number}({self.given}) async throws {{", place, *body,
                          "#sourceLocation()", "}", ""])


def snippets(path, text):
    """The blocks marked as Swift, but for manifests, which test_outside_package builds."""
    lines = text.splitlines()
    if path.endswith(".swift"):
        lines = [re.sub(r"^\s*/// ?", "", line) if line.lstrip().startswith("///") else "" for line in lines]
    start, given = None, ""
    for at, line in enumerate(lines):
        if start is None and line == "```swift":
            start, above = at + 1, re.fullmatch(r"<!-- given: (.*) -->", lines[at - 1] if at else "")
            given = above[1] if above else ""
        elif start is not None and line == "```":
            code, start = (start, lines[start:at]), None
            if "import PackageDescription" not in code[1]:
                yield Snippet(path, code[0] + 1, given, code[1])
    assert start is None, f"{path}:{start}: a snippet without end"


def documents():
    places = ["README.md", "docs/**/*.md", "Sources/FileProtection/**/*.md", "Sources/FileProtection/**/*.swift",
              "Sources/UIKitCompat/**/*.swift", "Sources/Secrets/**/*.swift", "Sources/VolumeControl/**/*.swift"]
    for place in places:
        for path in sorted(glob.glob(os.path.join(REPOSITORY, place), recursive=True)):
            with open(path, encoding="utf-8") as file:
                yield os.path.relpath(path, REPOSITORY), file.read()


def modules():
    """Where the libraries were built."""
    for place in (os.path.dirname(binary()), os.path.join(REPOSITORY, ".build/release"), os.path.join(REPOSITORY, ".build/debug")):
        if all(os.path.exists(os.path.join(place, "Modules", name + ".swiftmodule"))
               for name in ("FileProtection", "UIKitCompat", "Secrets", "VolumeControl")):
            return place
    raise Skip("the libraries are not built: swift build -c release --product document-editor, porting-keychain and porting-control")


def compiled(environment, sources):
    """swiftc's outcome for some sources: (whether it compiles, what it says)."""
    if not shutil.which("swiftc"):
        raise Skip("there is no swiftc")
    folder, built = environment.new_path("snippets"), modules()
    os.makedirs(folder)
    paths = []
    for number, source in enumerate(sources):
        paths.append(os.path.join(folder, f"Snippet{number}.swift"))
        with open(paths[-1], "w", encoding="utf-8") as file:
            file.write(source)
    maps = [os.path.join(built, name + ".build", "module.modulemap") for name in ("CLinuxShim", "COpenSSL")]
    maps += glob.glob(os.path.join(REPOSITORY, "Sources/C*/module.modulemap"))
    words = [word for path in maps for word in ("-Xcc", f"-fmodule-map-file={path}")]
    done = run("nice", "swiftc", "-typecheck", "-parse-as-library", "-swift-version", "6", "-module-name", "Snippets",
               "-module-cache-path", os.path.join(place(environment), "swift"), "-I", os.path.join(built, "Modules"), *words, *paths,
               ok=False, timeout=1800)
    return done.returncode == 0, done.stderr


def test_snippets(environment):
    found = [snippet for path, text in documents() for snippet in snippets(path, text)]
    seen = {path: sum(snippet.path == path for snippet in found) for path in {snippet.path for snippet in found}}
    for path in ("docs/program/porting.md", "docs/program/protected-data.md", "docs/use/secrets.md", "docs/program/volume-control.md"):
        environment.cell(f"[{path} has snippets]", True, seen.get(path, 0) > 0)
    works, said = compiled(environment, [PRELUDE] + [snippet.source(number) for number, snippet in enumerate(found)])
    errors = sorted(set(re.findall(r"^\S+:\d+:\d+: error: .*", said, re.M))) or [said[-2000:]]
    environment.cell(f"[{len(found)} snippets]", [], [] if works else errors)


def test_broken_snippets(environment):
    """The test above can fail, and names the line."""
    text = "# Title\n\n<!-- given: url: URL -->\n```swift\nimport FileProtection\n\nlet data = try Data(contentsOf: url)\n" \
           "try data.write(to: url, option: .atomic)\n```\n"
    broken = list(snippets("a.md", text))
    works, said = compiled(environment, [PRELUDE, broken[0].source(0)])
    environment.cell("[a wrong label]", (False, True), (works, "a.md:8:" in said and "option" in said))
    works, said = compiled(environment, [PRELUDE, list(snippets("a.md", text.replace("option:", "options:")))[0].source(0)])
    environment.cell("[mended]", (True, ""), (works, said))
    works, said = compiled(environment, [PRELUDE, list(snippets("a.md", "```swift\nimport NoSuchModule\n```\n"))[0].source(0)])
    environment.cell("[a wrong import]", (False, True), (works, "NoSuchModule" in said))
    comment = list(snippets("a.swift", "    /// Text.\n    ///\n    /// ```swift\n    /// let a: Wrong\n    /// ```\n"))
    works, said = compiled(environment, [PRELUDE, comment[0].source(0)])
    environment.cell("[a comment]", (False, True), (works, "a.swift:4:" in said))


# The rule of import in docs/program/porting.md, by what the compiler makes of it: (imports, whether it compiles).
IMPORTS = {
    "FileProtection": True,
    "UIKitCompat": True,
    "FileProtection+Secrets+Dispatch+FoundationNetworking+FoundationXML": True,
    "Foundation": True,
    "FoundationEssentials": True,
    "XCTest": True,
    "FileProtection+Foundation": False,
    "UIKitCompat+Foundation": False,
    "FileProtection+FoundationEssentials": False,
    "FileProtection+XCTest": False,
    "FileProtection+class Foundation.FileManager": True,
    "Secrets": False,
    "FoundationNetworking": False,
    "FoundationXML": False,
    "Testing": False,
}


def test_rule_of_import(environment):
    call = "func write(_ data: Data, _ url: URL) throws { try data.write(to: url, options: .completeFileProtection) }\n"
    for words, expected in IMPORTS.items():
        imports = "".join(f"import {word}\n" for word in words.split("+"))
        works, said = compiled(environment, [imports + call])
        environment.cell(f"[{words}]", expected, works)
        if "+" in words and not expected:
            environment.cell(f"[{words}: why]", True, "ambiguous" in said)


def test_none_of_an_optional(environment):
    """Which `.none` it is, as the compiler says."""
    works, said = compiled(environment, ["import FileProtection\nlet type: FileProtectionType? = .none\n"])
    environment.cell("[.none]", (True, True), (works, "assuming you mean 'Optional<FileProtectionType>.none'" in said))
    works, said = compiled(environment, ["import FileProtection\nlet type: FileProtectionType? = FileProtectionType.none\n"])
    environment.cell("[FileProtectionType.none]", (True, ""), (works, said))


test_snippets.time_limit = test_broken_snippets.time_limit = test_rule_of_import.time_limit = 7200
test_none_of_an_optional.time_limit = 7200
