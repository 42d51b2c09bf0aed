"""`protectfs secret`: in every state of the volume, several at once, and after a writer was killed."""

import json
import os
import signal
import subprocess
import time

import harness
import kills
from harness import CLASSES
from terminal import at_terminal


def command(mount, *words, secret=b"", **more):
    """One call of `protectfs secret`, the secret on standard input; gives exit code, output, error."""
    done = mount.command("secret", *words, input=secret, text=False, ok=False, **more)
    return done.returncode, done.stdout, done.stderr.decode()


def store(mount, account, secret, *words):
    code, output, error = command(mount, "set", *words, mount.path, account, secret=secret)
    assert (code, output) == (0, b""), (code, error)


def listed(mount, *words):
    code, output, error = command(mount, "list", "--json", *words, mount.path)
    assert code == 0, error
    return json.loads(output)


def accounts(mount):
    return sorted(item["attributes"]["account"] for item in listed(mount))


def tree(mount):
    """Where the files are: (names of items, names in staging)."""
    return sorted(os.listdir(mount / ".secrets/items")), os.listdir(mount / ".secrets/staging")


def test_states(environment):
    """Each class by state: read, add, replace as the class allows; list and delete always."""
    mount = environment.mount()
    for letter in CLASSES:
        store(mount, letter, b"secret of " + letter.encode(), "--class", letter, "-a", "service=mail")
    assert {harness.get_class(entry.path) for entry in os.scandir(mount / ".secrets/items")} == set(CLASSES.values())
    assert os.stat(mount / ".secrets").st_mode & 0o777 == 0o700
    open_in = {"UNL": "ABCD7", "LCK": "CD7", "BFU": "D"}
    # Class B is made in every state, and the others where they are open.
    made_in = {"UNL": "ABCD7", "LCK": "BCD7", "BFU": "BD"}

    def judge(state):
        for letter in CLASSES:
            code, output, error = command(mount, "get", mount.path, letter)
            wanted = (0, b"secret of " + letter.encode()) if letter in open_in[state] else (8, b"")
            environment.cell(f"{state} {letter} get", wanted, (code, output))
            if code:
                environment.cell(f"{state} {letter} says why", (1, True),
                                 (len(error.splitlines()), f"closes class {CLASSES[letter]}" in error))
            found = listed(mount, "-a", "service=mail")
            row = next(item for item in found if item["attributes"]["account"] == letter)
            environment.cell(f"{state} {letter} list", CLASSES[letter], row["class"])
            name = f"{state} {letter}"
            code, _, _ = command(mount, "set", "--class", letter, mount.path, name, secret=b"new")
            environment.cell(f"{name} set", 0 if letter in made_in[state] else 8, code)
            environment.cell(f"{name} is there or not", letter in made_in[state], name in accounts(mount))
            code, _, _ = command(mount, "delete", mount.path, name)
            environment.cell(f"{name} delete", 0 if letter in made_in[state] else 1, code)
        environment.cell(f"{state}: nothing in staging", [], tree(mount)[1])

    judge("UNL")
    mount.lock()
    judge("LCK")
    mount = environment.remount(mount, unlock=False)
    judge("BFU")
    store(mount, "made before first unlock", b"later", "--class", "B")
    mount.unlock()
    judge("UNL")
    assert command(mount, "get", mount.path, "made before first unlock")[1] == b"later"


def test_what_is_stored(environment):
    """Every byte comes back; what tells items apart; attributes; exit codes."""
    mount = environment.mount()
    for account, secret in (("empty", b""), ("zero", b"\0"), ("binary", bytes(range(256)) * 256), ("newline", b"a\nb\n"),
                            ("page", b"x" * 4096), ("one more", b"y" * 4097)):
        store(mount, account, secret)
        code, output, _ = command(mount, "get", mount.path, account)
        environment.cell(account, (0, True), (code, output == secret))
    store(mount, "newline", b"first\nsecond\n", "--line")
    environment.cell("--line, replacing", b"first", command(mount, "get", mount.path, "newline")[1])
    path = environment.new_path("file")
    harness.write_file(path, b"from a file\0")
    store(mount, "file", b"not this", "--file", path)
    environment.cell("--file", b"from a file\0", command(mount, "get", mount.path, "file")[1])
    code, _, error = command(mount, "set", mount.path, "large", secret=b"z" * 65537)
    environment.cell("too long", (1, True), (code, "longer than 65536" in error))
    code, _, error = command(mount, "set", "-a", "comment=" + "c" * 4000, mount.path, "large", secret=b"z")
    environment.cell("too many attributes", (1, True), (code, "3 KiB" in error))
    environment.cell("nothing of them is left", ["binary", "empty", "file", "newline", "one more", "page", "zero"],
                     accounts(mount))
    # A replacement takes the class that is given, not the stronger one of what it replaces.
    store(mount, "class", b"1", "--class", "A")
    store(mount, "class", b"2", "--class", "D")
    environment.cell("class after replacing", "none", listed(mount, "-a", "account=class")[0]["class"])
    store(mount, "me", b"mail", "-a", "service=mail", "-a", "comment=ü ö")
    store(mount, "me", b"web", "--internet", "-a", "server=example.org", "-a", "port=443")
    code, output, error = command(mount, "get", mount.path, "me")
    environment.cell("several match", (1, b"", True), (code, output, "2 items match" in error))
    environment.cell("one by an attribute", b"mail", command(mount, "get", "-a", "service=mail", mount.path, "me")[1])
    environment.cell("one by its kind", b"web", command(mount, "get", "--internet", mount.path, "me")[1])
    environment.cell("a number", 443, listed(mount, "-a", "port=443")[0]["attributes"]["port"])
    text = command(mount, "list", mount.path, "me")[1].decode()
    environment.cell("a table", (3, True), (len(text.splitlines()), "comment=ü ö service=mail" in text))
    environment.cell("delete: several match", 1, command(mount, "delete", mount.path, "me")[0])
    environment.cell("delete --all", 0, command(mount, "delete", "--all", mount.path, "me")[0])
    environment.cell("deleted", [], listed(mount, "-a", "account=me"))
    environment.cell("no such item", 1, command(mount, "get", mount.path, "me")[0])
    environment.cell("--new", 1, command(mount, "set", "--new", mount.path, "file", secret=b"other")[0])
    environment.cell("--new changes nothing", b"from a file\0", command(mount, "get", mount.path, "file")[1])
    for words, code in (
        (("set", mount.path), 2), (("set", "--class", "secret", mount.path, "x"), 2), (("get", environment.base, "x"), 7),
        (("set", "-a", "comment", mount.path, "x"), 2), (("set", "-a", "port=65536", mount.path, "x"), 2),
        (("set", "-a", "=x", mount.path, "x"), 2), (("list", mount.path, "x", "y"), 2)):
        environment.cell(f"exit code of {words[0]} {words[1]}", code, command(mount, *words)[0])
    # A file that is not an item is reported, and hides no other.
    harness.write_file(mount / ".secrets/items/stray", b"")
    code, output, error = command(mount, "list", "--json", mount.path)
    environment.cell("a stray file", (1, True, 8), (code, "stray" in error, len(json.loads(output))))
    os.chmod(mount / ".secrets", 0o777)
    environment.cell("a directory that others may write to", 1, command(mount, "set", mount.path, "x", secret=b"x")[0])


def test_exact(environment):
    """Of several items with one account, the one that has nothing more; an empty value means without."""
    mount = environment.mount()
    store(mount, "dup", b"plain")
    environment.cell("only one", b"plain", command(mount, "get", mount.path, "dup")[1])
    store(mount, "dup", b"mail", "-a", "service=mail")
    environment.cell("exactly what is given", (0, b"plain"), command(mount, "get", mount.path, "dup")[:2])
    environment.cell("without", (0, b"plain"), command(mount, "get", "-a", "service=", mount.path, "dup")[:2])
    environment.cell("with", (0, b"mail"), command(mount, "get", "-a", "service=mail", mount.path, "dup")[:2])
    environment.cell("list without", 1, len(listed(mount, "-a", "service=")))
    environment.cell("list", 2, len(listed(mount)))
    environment.cell("given twice", 2, command(mount, "get", "-a", "port=", "-a", "port=1", mount.path, "dup")[0])
    store(mount, "dup", b"web", "-a", "service=web")
    environment.cell("deletes the exact one", 0, command(mount, "delete", mount.path, "dup")[0])
    environment.cell("the others are there", (1, b""), command(mount, "get", mount.path, "dup")[:2])
    environment.cell("and are not without", 1, command(mount, "get", "-a", "service=", mount.path, "dup")[0])
    # Composed and decomposed are two accounts, as their files are.
    for name, secret in (("\u00e9", b"composed"), ("e\u0301", b"decomposed")):
        store(mount, name, secret)
    for name, secret in (("\u00e9", b"composed"), ("e\u0301", b"decomposed")):
        environment.cell(f"{secret}", (0, secret), command(mount, "get", mount.path, name)[:2])


def test_replacing_keeps(environment):
    """Class and attributes of an item that is replaced stay, but for those given."""
    mount = environment.mount()

    def item():
        (found,) = listed(mount, "-a", "account=kept")
        return found["class"], {name: value for name, value in found["attributes"].items() if name != "account"}

    store(mount, "kept", b"1", "--class", "C", "-a", "comment=one", "-a", "label=two")
    store(mount, "kept", b"2")
    environment.cell("all", ("completeUntilFirstUserAuthentication", {"comment": "one", "label": "two"}), item())
    environment.cell("but the secret", b"2", command(mount, "get", mount.path, "kept")[1])
    mount.lock()
    store(mount, "kept", b"3", "-a", "comment=other", "-a", "label=")
    environment.cell("but those given", ("completeUntilFirstUserAuthentication", {"comment": "other"}), item())
    mount.unlock()
    store(mount, "kept", b"4", "--class", "A")
    environment.cell("but the class", ("complete", {"comment": "other"}), item())


def test_typed(environment):
    mount = environment.mount()
    words = ["secret", "set", mount.path, "typed"]
    answers = [("Secret for typed", "tipp tapp\n"), ("Once more", "tipp tapp\n")]
    code, shown, _ = at_terminal(words, mount.volume.environment, answers)
    environment.cell("typed twice, without echo", (0, False), (code, "tipp" in shown))
    environment.cell("what was typed", b"tipp tapp", command(mount, "get", mount.path, "typed")[1])
    answers = [("Secret for typed", "one\n"), ("Once more", "another\n")]
    code, shown, _ = at_terminal(words, mount.volume.environment, answers * 3)
    environment.cell("two different ones, three times", (3, 3), (code, shown.count("secrets differ")))
    environment.cell("nothing was changed", b"tipp tapp", command(mount, "get", mount.path, "typed")[1])


def test_together(environment):
    """Of many that add one item, one does; of many that replace it, each leaves a whole one."""
    mount = environment.mount()

    def start(secret, *words):
        process = subprocess.Popen([harness.binary(), "secret", "set", *words, mount.path, "one"], stdin=subprocess.PIPE,
                                   stderr=subprocess.PIPE, env=mount.volume.environment)
        process.stdin.write(secret)
        return process

    def finish(processes):
        for process in processes:
            process.stdin.close()
        codes = [process.wait() for process in processes]
        for process in processes:
            process.stderr.close()
        return codes

    count = int(os.environ.get("PROTECTFS_SECRET_WRITERS", "24"))
    codes = finish([start(b"%d" % number * 3000, "--new") for number in range(count)])
    environment.cell("added by one", (1, count - 1), (codes.count(0), codes.count(1)))
    winner = b"%d" % codes.index(0) * 3000
    environment.cell("whose it is", True, command(mount, "get", mount.path, "one")[1] == winner)
    writers = [start(b"%d" % number * 3000) for number in range(count)]
    environment.cell("replaced by all", [0] * count, finish(writers))
    found = command(mount, "get", mount.path, "one")[1]
    environment.cell("one whole", True, found in [b"%d" % number * 3000 for number in range(count)])
    environment.cell("one item, no debris", (1, []), (len(tree(mount)[0]), tree(mount)[1]))


def test_killed(environment):
    """Killed at any moment, a writer leaves the old item or the new one, and after the next write nothing else."""
    mount = environment.mount()
    store(mount, "victim", b"old" * 1000, "--class", "A")
    started = time.monotonic()
    store(mount, "timing", b"")
    takes = time.monotonic() - started
    seen, left = set(), 0
    rounds = int(os.environ.get("PROTECTFS_SECRET_KILLS", "40"))
    for number in range(rounds):
        process = subprocess.Popen([harness.binary(), "secret", "set", "--class", "A", mount.path, "victim"],
                                   stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, env=mount.volume.environment)
        process.stdin.write(b"new" * 1000)
        process.stdin.close()
        time.sleep(takes * number / rounds)
        process.send_signal(signal.SIGKILL)
        process.wait()
        names, staging = tree(mount)
        assert len(names) == 2, names
        for directory in staging:
            left += 1
            for file in os.scandir(mount / f".secrets/staging/{directory}"):
                environment.cell(f"{number}: class of what is staged", "complete", harness.get_class(file.path))
        seen.add(command(mount, "get", mount.path, "victim"))
        store(mount, "victim", b"old" * 1000, "--class", "A")
        environment.cell(f"{number}: no debris", (2, []), (len(tree(mount)[0]), tree(mount)[1]))
    environment.cell("old or new", set(), seen - {(0, b"old" * 1000, ""), (0, b"new" * 1000, "")})
    print(f"        killed {rounds} times, {left} times in the middle of a write")


def test_killed_at_every_call(environment):
    """The same, killed at each system call that a writer makes; of those before it changes anything at one of ten, at each with
    --mode full."""
    mount = environment.mount()
    store(mount, "victim", b"old" * 1000, "--class", "A")
    words = [harness.binary(), "secret", "set", "--class", "A", mount.path, "victim"]
    killed, left, seen, each = 0, 0, set(), 3 if environment.mode == "quick" else 1
    number, step = 1, each if environment.mode == "full" else 10
    while True:
        writer = kills.Traced(words, secret=b"new" * 1000, env=mount.volume.environment)
        call = writer.kill_at(number)
        for directory in tree(mount)[1]:
            left += 1
            for file in os.scandir(mount / f".secrets/staging/{directory}"):
                environment.cell(f"call {number} ({call}): class of what is staged", "complete", harness.get_class(file.path))
        seen.add(command(mount, "get", mount.path, "victim")[1])
        if call is None and step == each:
            break
        killed += call is not None
        # What is there is left alone where nothing was staged: hundreds of calls come before the first that changes anything.
        if tree(mount)[1] or b"new" * 1000 in seen:
            store(mount, "victim", b"old" * 1000, "--class", "A")
            environment.cell(f"call {number}: no debris", (1, []), (len(tree(mount)[0]), tree(mount)[1]))
            if step != each:
                # It begins somewhere after the last call that was tried.
                number, step = number - step, each
        number += step
    environment.cell("the old or the new, and each of them once", {b"old" * 1000, b"new" * 1000}, seen)
    environment.cell("some were killed with something staged", True, left > 0)
    print(f"        killed at {killed} calls, {left} times with something staged")


def test_left_behind(environment):
    """What a killed writer has left before its rename, and between content and name, is settled by the next write."""
    mount = environment.mount()
    store(mount, "moved", b"1", "-a", "service=s")
    names, _ = tree(mount)
    staged = mount / ".secrets/staging/4711-1"
    os.mkdir(staged)
    harness.set_class(staged, "A")
    harness.write_file(os.path.join(staged, "item"), b"half a sec")
    os.rename(mount / f".secrets/items/{names[0]}", mount / f".secrets/items/{'0' * 64}")
    environment.cell("listed once", ["moved"], accounts(mount))
    mount.lock()
    store(mount, "other", b"2", "--class", "D")
    environment.cell("staging, while locked", [], tree(mount)[1])
    environment.cell("its own name again", True, names[0] in tree(mount)[0])
    mount.unlock()
    environment.cell("nothing lost", b"1", command(mount, "get", "-a", "service=s", mount.path, "moved")[1])
    environment.cell("nothing made twice", 1, command(mount, "set", "--new", "-a", "service=s", mount.path, "moved")[0])
