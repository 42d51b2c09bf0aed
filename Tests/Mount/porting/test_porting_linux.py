"""What docs/program/porting.md says of Foundation on Linux: each finding by a small program that uses Foundation alone.

A cell that fails here may be good news: a newer Foundation does it, and the document and the library can be shorter.
"""

import os
import shutil
import signal

import built
import harness
from harness import Skip, run, write_file
from served import served

ENDS = (-signal.SIGILL, -signal.SIGTRAP, -signal.SIGABRT)
# What a program prints that finds two files, old and new, in its directory.
FINDINGS = {
    "replaceItemAt": "NSCocoaErrorDomain 4, the item is lost",
    "isExcludedFromBackup": "false",
    "creationDate": "not set, and no error",
    "immutable": "NSCocoaErrorDomain 3328",
    "isHidden": "NSCocoaErrorDomain 512",
    "checkResourceIsReachable": "NSCocoaErrorDomain 260",
}
# Names that Foundation on Linux lacks: what uses them, and the compiler's words.
LACKS = {
    "let a = NSFileCoordinator()": "cannot find 'NSFileCoordinator' in scope",
    "let a: (any NSFilePresenter)? = nil": "cannot find type 'NSFilePresenter' in scope",
    "let a: NSErrorPointer = nil": "cannot find type 'NSErrorPointer' in scope",
    "let a = URLResourceKey.volumeAvailableCapacityForImportantUsageKey":
        "has no member 'volumeAvailableCapacityForImportantUsageKey'",
    "try FileManager.default.trashItem(at: URL(fileURLWithPath: \"/a\"), resultingItemURL: nil)": "has no member 'trashItem'",
    "let a = FileWrapper(regularFileWithContents: Data())": "cannot find 'FileWrapper' in scope",
    "let a = URLSessionConfiguration.background(withIdentifier: \"a\")": "'background(withIdentifier:)' is unavailable",
}


def found(environment, name, **more):
    place = environment.new_path("plain")
    os.mkdir(place)
    for file in ("old", "new"):
        write_file(os.path.join(place, file), file.encode())
    return place, run(harness.program("porting-linux"), name, place, ok=False, **more)


def test_findings(environment):
    for name, expected in FINDINGS.items():
        environment.cell(name, [f"{name}: {expected}"], found(environment, name)[1].stdout.splitlines())
    quiet = {**os.environ, "SWIFT_BACKTRACE": "enable=no"}
    environment.cell("streamError of a stream without error", True,
                     found(environment, "streamError", env=quiet)[1].returncode in ENDS)
    with served(environment.new_path("served"), file=b"served") as address:
        works = found(environment, "downloadTask", env={**quiet, "ADDRESS": address + "file"})[1]
        environment.cell("downloadTask", ["downloadTask: ended"], works.stdout.splitlines())
        closed = found(environment, "downloadTask", env={**quiet, "ADDRESS": address + "file", "TMPDIR": "/proc/sys"})[1]
        environment.cell("downloadTask into a directory that cannot be written", True, closed.returncode in ENDS)


def test_directories(environment):
    """A directory that is replaced, and the place for a replacement on another file system than the temporary directory's."""
    place = environment.new_path("plain")
    for name in ("old", "new"):
        os.makedirs(os.path.join(place, name))
        write_file(os.path.join(place, name, "part"), name.encode())
    done = run(harness.program("porting-linux"), "replaceDirectory", place, ok=False)
    environment.cell("replaceDirectory", ["replaceDirectory: NSCocoaErrorDomain 512"], done.stdout.splitlines())
    mount = environment.mount()
    write_file(mount / "old", b"old")
    done = run(harness.program("porting-linux"), "itemReplacementDirectory", mount.path, ok=False)
    environment.cell("itemReplacementDirectory", True, done.stdout.strip() in (
        "itemReplacementDirectory: on another file system", "itemReplacementDirectory: NSCocoaErrorDomain 516",
        "itemReplacementDirectory: NSCocoaErrorDomain 3328"))


def test_names(environment):
    if not shutil.which("swiftc"):
        raise Skip("there is no swiftc")
    place, cache = environment.new_path("names"), os.path.join(built.place(environment), "swift")
    os.mkdir(place)
    for number, (line, words) in enumerate(LACKS.items()):
        path = os.path.join(place, f"name{number}.swift")
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"import Foundation\nimport FoundationNetworking\n{line}\n")
        done = run("nice", "swiftc", "-typecheck", "-swift-version", "6", "-module-cache-path", cache, path, ok=False, timeout=1800)
        environment.cell(line.split("(")[0], True, words in done.stdout + done.stderr)


test_names.time_limit = 7200
