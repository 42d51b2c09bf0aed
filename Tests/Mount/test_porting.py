"""The documents' examples, as programs that import FileProtection, against mounts that are unlocked, locked, not yet unlocked."""

import os
import subprocess

import harness
from harness import CLASSES, get_class, read_file, run, set_class, write_file

A, B, C, D = ("NSFileProtection" + word for word in
              ("Complete", "CompleteUnlessOpen", "CompleteUntilFirstUserAuthentication", "None"))
CLOSED_WRITE = f"CocoaError 513 EACCES {A} unavailable"
CLOSED_READ = f"CocoaError 257 EACCES {A} unavailable"


def program():
    """The examples, built beside the program under test."""
    path = os.path.join(os.path.dirname(harness.binary()), "porting-examples")
    if not os.path.exists(path):
        raise harness.Skip("porting-examples is not built: swift build -c release --product porting-examples")
    return path


class Examples:
    def __init__(self, environment, mount):
        self.environment, self.mount, self.program = environment, mount, program()

    def says(self, state, expected, name, *words, directory=None, **more):
        done = run(self.program, name, directory or self.mount.path, *words, ok=False, **more)
        assert done.returncode == 0, (name, done.returncode, done.stderr)
        self.environment.cell(f"{state} {name} {' '.join(words)}", expected, done.stdout.splitlines())

    def class_of(self, name, letter):
        self.environment.cell(f"class of {name}", CLASSES[letter], get_class(self.mount / name))

    def no_debris(self):
        left = [name for _, folders, _ in os.walk(self.mount.path) for name in folders if "staging" in name]
        self.environment.cell("staging directories left", [], left)


def test_examples_unlocked(environment):
    mount = environment.mount()
    examples = Examples(environment, mount)
    examples.says("UNL", ["saved"], "save")
    examples.class_of("secret.dat", "A")
    write_file(mount / "old", b"old")
    examples.says("UNL", ["set"], "set", "old")
    examples.class_of("old", "A")
    examples.says("UNL", ["atomic: ok", "in place: ok"], "plain", "old")
    examples.class_of("old", "A")
    # Kept through .atomic also where it is weaker than the default.
    write_file(mount / "weak", b"old")
    set_class(mount / "weak", "D")
    os.chmod(mount / "weak", 0o604)
    examples.says("UNL", ["atomic: ok", "in place: ok"], "plain", "weak")
    examples.class_of("weak", "D")
    assert os.stat(mount / "weak").st_mode & 0o777 == 0o604
    assert read_file(mount / "weak") == b"changed"
    # Tightened by an option: with a key that no old header opens.
    examples.says("UNL", ["saved"], "save", "weak")
    examples.class_of("weak", "A")
    listed = mount.command("class", "list", "--json", mount / "weak").stdout
    assert '"keyExposed":false' in listed.replace(" ", ""), listed
    examples.says("UNL", ["create: ok", "in place: ok", "atomic: ok", "directory inside: ok"], "directory")
    for name in ("private", "private/inherits", "private/inherits.atomic", "private/below"):
        examples.class_of(name, "A")
    examples.says("UNL", ["write: ok", "token", "read: ok"], "until")
    examples.class_of("background", "C")
    examples.says("UNL", ["data", "my secret", "handle: ok", "string: ok", "contents"], "read", "secret.dat")
    examples.says("UNL", ["write: ok", "image", "read: ok"], "thumbnail")
    examples.class_of("thumbnail", "D")
    examples.says("UNL", ["complete", "until first unlock", "none"], "check", "secret.dat", "background", "thumbnail")
    examples.says("UNL", ["true"], "user")
    examples.class_of("user.json", "A")
    examples.says("UNL", ["no container"], "ubiquity")
    examples.says("UNL", [f"{name}: ok" for name in ("main.sqlite", "main.sqlite-wal", "main.sqlite-shm")], "database")
    examples.says("UNL", ["true 3", "true", B], "resource")
    examples.class_of("resource", "A")
    examples.says("UNL", ["a: ok", "b: ok", "c: ok", "d: ok", "true false"], "nsdata")
    for name in "abcd":
        examples.class_of(f"nsdata.{name}", name.upper())
    examples.says("UNL", ["created: true", D, "400 true", "wrong value: “7” is not a protection class"], "attributes")
    outside = environment.new_path("outside")
    examples.says("UNL", ["copy again: CocoaError 516 errno 17", "new false", "out: notProtected"], "files", outside)
    assert not os.path.exists(outside)
    for name, letter in {"tree": "B", "copy": "B", "copy/one": "A", "copy/two": "D", "moved": "A"}.items():
        examples.class_of(name, letter)
    assert os.readlink(mount / "copy/link") == "one"
    examples.no_debris()


def test_examples_locked(environment):
    mount = environment.mount()
    examples = Examples(environment, mount)
    write_file(mount / "later", b"x")
    for name in ("save", "until", "thumbnail", "database"):
        run(examples.program, name, mount.path)
    mount.lock()
    locked(examples, "LCK")
    examples.says("LCK", ["write: ok", "token", "read: ok"], "until")
    examples.says("LCK", [CLOSED_WRITE], "set", "later")
    examples.says("LCK", ["atomic: " + CLOSED_WRITE, "in place: " + CLOSED_WRITE], "plain", "secret.dat")
    examples.says("LCK", ["a: " + CLOSED_WRITE, "b: ok", "c: ok", "d: ok", "true false"], "nsdata")
    examples.class_of("nsdata.b", "B")
    examples.says("LCK", [f"{name}: ok" for name in ("main.sqlite", "main.sqlite-wal", "main.sqlite-shm")], "database")
    examples.no_debris()
    mount.unlock()
    assert read_file(mount / "secret.dat") == b"my secret"
    # A problem of permissions is told apart.
    os.chmod(mount / "secret.dat", 0)
    os.chmod(mount.path, 0o755)
    if os.geteuid() != 0:
        examples.says("UNL", ["nil", "a problem of permissions: CocoaError 257 EACCES"], "read", "secret.dat")
    else:
        environment.skip("a problem of permissions", "root needs no permission")


def locked(examples, state):
    """What is so in both closed states."""
    examples.says(state, [CLOSED_WRITE], "save", "new.dat")
    assert not os.path.exists(examples.mount / "new.dat")
    examples.says(state, ["nil", "closed until unlock: " + CLOSED_READ, "handle: " + CLOSED_READ,
                          "string: " + CLOSED_READ, "no contents"], "read", "secret.dat")
    examples.says(state, ["write: ok", "image", "read: ok"], "thumbnail")
    examples.says(state, ["complete"], "check", "secret.dat")
    examples.says(state, ["attributes: " + CLOSED_WRITE, "in place: " + CLOSED_WRITE], "lower", "secret.dat")
    examples.says(state, [CLOSED_WRITE], "user")
    examples.says(state, ["no container"], "ubiquity")
    examples.says(state, ["create: ok", "in place: " + CLOSED_WRITE, "atomic: " + CLOSED_WRITE,
                          "directory inside: ok"], "directory")


def test_examples_before_first_unlock(environment):
    mount = environment.mount()
    examples = Examples(environment, mount)
    for name in ("save", "until", "thumbnail", "database"):
        run(examples.program, name, mount.path)
    mount = examples.mount = environment.remount(mount, unlock=False)
    locked(examples, "BFU")
    closed = f"EACCES {C} unavailable"
    examples.says("BFU", [f"write: CocoaError 513 {closed}", f"read: CocoaError 257 {closed}"], "until")
    examples.says("BFU", [f"{name}: CocoaError 513 {closed}"
                          for name in ("main.sqlite", "main.sqlite-wal", "main.sqlite-shm")], "database")
    examples.no_debris()


def test_download(environment):
    """Class B: written on through a lock, closed, not opened again until unlock."""
    mount = environment.mount()
    process = subprocess.Popen([program(), "download", mount.path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "open\n"
        mount.lock()
        process.stdin.write("\n")
        process.stdin.flush()
        said = [process.stdout.readline().rstrip() for _ in range(3)]
        environment.cell("locked", ["write on: ok", f"reopen: CocoaError 257 EACCES {B} unavailable", "closed"], said)
        mount.unlock()
        rest, _ = process.communicate("\n", timeout=60)
        environment.cell("unlocked", "first second\n", rest)
    finally:
        process.kill()
        process.wait()


def home(path):
    """Foundation takes some directories from HOME and others from the user database, unless this variable is there."""
    return {**os.environ, "HOME": path, "CFFIXED_USER_HOME": path}


def test_standard_directories(environment):
    """At launch: a home on the mount, a home off it; and the root's default, as the entitlement gives it."""
    mount = environment.mount()
    examples = Examples(environment, mount)
    done = run(examples.program, "launch", mount.path, env=home(mount.path))
    assert done.stdout.count(A) == 3 and done.stdout.count(": ok") == 3, done.stdout
    away = environment.new_path("home")
    os.makedirs(away)
    done = run(examples.program, "launch", away, env=home(away))
    environment.cell("off a mount", 3, done.stdout.count("notProtected"))
    mount.command("class", "set", A, mount.path)
    write_file(mount / "entitled", b"x")
    examples.says("UNL", ["atomic: ok", "in place: ok"], "plain", "entitled2")
    for name in ("entitled", "entitled2"):
        examples.class_of(name, "A")


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
    examples.says("UNL", ["all written"], "atomic", "1000", timeout=250)
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
    examples.says("UNL", ["saved"], "save")
    examples.no_debris()
