"""Programs with FileProtection, beyond the documents' examples: trees, policies, many writers, leftovers of killed ones."""

import os

from harness import read_file, run, write_file
from porting import Examples

A, B = "NSFileProtectionComplete", "NSFileProtectionCompleteUnlessOpen"


def test_key_exposed(environment):
    """An option that tightens gives a key that no old header opens; the mode stays."""
    mount = environment.mount()
    examples = Examples(environment, mount)
    write_file(mount / "existing", b"old")
    os.setxattr(mount / "existing", "user.protection", b"none")
    os.chmod(mount / "existing", 0o604)
    examples.says("UNL", ["new: ok", "existing: ok"], "save")
    examples.class_of("existing", "A")
    environment.cell("mode", 0o604, os.stat(mount / "existing").st_mode & 0o777)
    listed = mount.command("class", "list", "--json", mount / "existing").stdout
    environment.cell("key exposed", True, '"keyExposed":false' in listed.replace(" ", ""))


def test_values(environment):
    """The class among other resource values, in all their forms."""
    mount = environment.mount()
    examples = Examples(environment, mount)
    examples.says("UNL", ["true 3", "true", B, "true true", 'wrong value: “7” is not a protection class'], "values")
    examples.class_of("resource", "A")


def test_reading_names(environment):
    """Every way to read a file whole says the same of a locked one and of one that is not there."""
    mount = environment.mount()
    examples = Examples(environment, mount)
    write_file(mount / "closed", b"abc")
    os.setxattr(mount / "closed", "user.protection", b"complete")
    names = ["NSData URL", "NSData path", "NSString URL", "NSString path", "NSString guessing, URL",
             "NSString guessing, path", "String path", "String guessing, URL", "String guessing, path"]
    examples.says("UNL", [f"{name}: ok" for name in names] + ["3 3"], "names", "closed")
    mount.lock()
    examples.says("LCK", [f"{name}: CocoaError 257 EACCES {A} unavailable" for name in names] + ["-1 -1"], "names", "closed")
    examples.says("LCK", [f"{name}: CocoaError 260 errno 2" for name in names] + ["-1 -1"], "names", "missing")


def test_trees(environment):
    """A tree of several classes, copied within the mount and out of it."""
    mount = environment.mount()
    examples = Examples(environment, mount)
    outside = environment.new_path("outside")
    examples.says("UNL", ["copy: ok", "copy again: CocoaError 516 errno 17", "out: notProtected"], "trees", outside)
    environment.cell("outside", False, os.path.exists(outside))
    for name, letter in {"tree": "B", "copy": "B", "copy/one": "A", "copy/two": "D"}.items():
        examples.class_of(name, letter)
    environment.cell("link", "one", os.readlink(mount / "copy/link"))
    examples.no_debris()


def test_policy(environment):
    """Off a mount: refused, said, or ignored; never silent unless asked to be."""
    mount = environment.mount()
    examples = Examples(environment, mount)
    away = environment.new_path("away")
    os.makedirs(away)
    done = run(examples.program, "policy", away)
    refused = [f"require {word}: notProtected" for word in ("write", "attributes", "resource")]
    expected = ["false", *refused, "false", "require directory: notProtected"]
    for name in ("warn", "ignore"):
        expected += [f"{name} {word}: ok" for word in ("write", "attributes", "resource")] + ["true", f"{name} directory: ok"]
    environment.cell("outcomes", expected + ["true true"], done.stdout.splitlines())
    environment.cell("warnings", 3, done.stderr.count("has no data protection"))
    assert sorted(os.listdir(away)) == ["ignore", "unprotected", "warn"], os.listdir(away)


def test_atomic_writers(environment):
    """1,000 writers of one file at a time leave one whole version, and nothing else."""
    mount = environment.mount()
    examples = Examples(environment, mount)
    examples.says("UNL", ["all written"], "atomic", "1000", timeout=600)
    content = read_file(mount / "contended")
    number = len(content) - 3000
    assert 0 <= number < 1000 and content == bytes([number % 256]) * len(content), len(content)
    examples.class_of("contended", "A")
    examples.no_debris()
    assert os.listdir(mount.path) == ["contended"]


def test_debris(environment):
    """What a program that died between staging and rename left is gone after the next write of anybody."""
    mount = environment.mount()
    examples = Examples(environment, mount)
    staging = mount / f".protectfs-staging-{os.geteuid()}"
    os.makedirs(os.path.join(staging, "dead"))
    write_file(os.path.join(staging, "dead", "content"), b"half")
    examples.says("UNL", ["new: ok", "existing: ok"], "save")
    examples.no_debris()
