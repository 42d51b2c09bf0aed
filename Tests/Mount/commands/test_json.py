"""--json: paths are whole and can be turned back into bytes, and errors are JSON, too."""

import json
import os

import harness
import reader
from harness import protectfs

# Not UTF-8, and with what a terminal, a shell or JSON would change.
NAME = b"na\xffme \n\\x0A'\"\xc3\xbc"
CHECK = "fsck"


def commands_with_json():
    table = json.loads(protectfs("help", "--json").stdout)
    found = [command for group in table["groups"] for command in group["commands"]]
    return [command for command in found if any(option["name"] == "json" for option in command["options"])]


def raw(value, member="path"):
    """The bytes of a member that is a path, or of those of an array of paths."""
    if member + "Hex" not in value:
        plain = value[member]
        return [one.encode() for one in plain] if isinstance(plain, list) else plain.encode()
    found = value[member + "Hex"]
    return [bytes.fromhex(one) for one in found] if isinstance(found, list) else bytes.fromhex(found)


def failure(done):
    """The error of a command: (exit code, its member code), after checking its shape."""
    error = json.loads(done.stderr.splitlines()[-1])["error"]
    assert set(error) == {"code", "exit", "message"} and error["message"], error
    assert error["exit"] == done.returncode, (error, done.returncode)
    return done.returncode, error["code"]


def test_wrong_command_lines(environment):
    """Each command with --json, whatever is wrong with its command line."""
    found = commands_with_json()
    environment.cell("there are such commands", True, len(found) > 15)
    for command in found:
        name = command["name"]
        code = 16 if name == CHECK else 2
        for label, words in (("unknown option", ["--json", "--nothing"]), ("a value too much", ["--json=1", "x"]),
                             ("too many operands", ["--json", *["/missing"] * 5])):
            if label == "too many operands" and any(operand["repeated"] for operand in command["operands"]):
                continue
            done = protectfs(*name.split(), *words, ok=False)
            wanted = (code, "invalid", "") if label != "a value too much" else (code, None, "")
            judged = (*failure(done), done.stdout) if wanted[1] else (done.returncode, None, done.stdout)
            environment.cell(f"{name}: {label}", wanted, judged)
    for words in (["nothing", "--json"], ["class", "--json"], ["help", "--json", "nothing"], ["mount", "--json", "a", "b"]):
        environment.cell(" ".join(words), (2, "invalid"), failure(protectfs(*words, ok=False)))
    done = protectfs("class", "get", "--", "--json", ok=False)
    environment.cell("after --, it is an operand", True, done.stderr.startswith("protectfs: "))


def test_failures(environment):
    """Each command with --json whose operand does not exist, and is not made."""
    missing = environment.new_path("missing")
    for command in commands_with_json():
        operands = [missing for operand in command["operands"] if not operand["optional"] or operand["kind"] == "mountPoint"]
        if not operands or command["name"] in ("init", "recipient new"):
            continue
        more = ["--yes"] if command["name"] == "erase" else []
        done = protectfs(*command["name"].split(), "--json", *more, *operands, ok=False)
        code, word = failure(done)
        environment.cell(f"{command['name']}: fails", (True, True), (code not in (0, 2), word in (
            "failed", "damaged", "notMounted", "authentication")))
    file = environment.new_path("file")
    harness.write_file(file, b"")
    environment.cell("init: a file is in the way", (2, "invalid"), failure(protectfs("init", "--json", file, ok=False)))
    mount = environment.mount()
    volume = mount.volume
    wrong = environment.new_path("wrong")
    harness.write_file(wrong, b"not the passphrase\n")
    environment.cell("fsck: mounted", (8, "busy"), failure(
        mount.command("fsck", "--json", "--recovery-file", volume.code_file, volume.path, ok=False)))
    environment.cell("slot add --recovery: a wrong passphrase", (3, "authentication"), failure(
        mount.command("slot", "add", "--recovery", "--json", "--passphrase-file", wrong, volume.path, ok=False)))
    done = mount.command("class", "get", "--json", mount / "one", mount.path, mount / "other", ok=False)
    environment.cell("class get: an error for each path, and the others", (1, 2, 1), (
        done.returncode, len([json.loads(line)["error"] for line in done.stderr.splitlines()]), len(done.stdout.splitlines())))
    os.kill(mount.pid, 9)
    harness.wait_until(lambda: not harness.daemons(mount.path), what="the daemon's end")
    environment.cell("status: a dead daemon", (7, "notMounted"), failure(mount.command("status", "--json", mount.path, ok=False)))
    done = mount.command("status", "--json", ok=False)
    told = next(one for one in json.loads(done.stdout) if one["mountPoint"] == mount.path)
    environment.cell("status of all: a dead daemon", (7, "notMounted", 7), (done.returncode, told["code"], told["exit"]))
    harness.detach(mount.path)


def test_notes(environment):
    """What is not an error is an object, too."""
    volume = environment.volume()
    mount = environment.mount(volume)
    mount.unmount()
    os.rename(reader.keybag_file(volume), volume.path + "/.protectfs.keybag.old")
    done = protectfs("info", "--json", "--previous-keybag", volume.path, env=volume.environment, ok=False)
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    environment.cell("only notes and errors", [], [line for line in lines if set(line) not in ({"note"}, {"error"})])


def test_paths_of_a_mount(environment):
    """Relative paths become absolute, and any bytes come back."""
    mount = environment.mount(path=environment.new_path("a 'b'\n\"c\""))
    name = os.fsdecode(NAME)
    os.mkdir(mount / name)
    harness.write_file(mount / (name + "/" + name), b"content")
    whole = os.fsencode(mount.path) + b"/" + NAME
    status = mount.status()
    environment.cell("status", (mount.path, mount.volume.path), (status["mountPoint"], status["volume"]))
    os.chdir(mount.path)
    try:
        for words, wanted in ((["class", "get", "--json", name], [whole]),
                              (["class", "get", "--json", "./" + name, "."], [whole, os.fsencode(mount.path)]),
                              (["class", "list", "--json", "-R", name], [whole, whole + b"/" + NAME]),
                              (["class", "list", "--json", "."], [os.fsencode(mount.path), whole])):
            values = json.loads("[" + mount.command(*words).stdout.replace("}\n{", "},{") + "]")
            values = values[0] if isinstance(values[0], list) else values
            environment.cell(" ".join(words[:3]), wanted, [raw(value) for value in values])
        found = json.loads(mount.command("path", "--json", name).stdout)
        environment.cell("path", (whole, mount.path), (raw(found), found["mountPoint"]))
        locked = json.loads(mount.command("lock", "--json", ".").stdout)
        environment.cell("lock", "locked", locked["state"])
        mount.unlock()
    finally:
        os.chdir("/")
    mount.unmount()
    path = found["backingPath"]
    seen = json.loads(protectfs("inspect", "--json", "--recovery-file", mount.volume.code_file, "./" + os.path.basename(path),
                                cwd=os.path.dirname(path), env=mount.volume.environment).stdout)
    environment.cell("inspect", (path, NAME), (seen["path"], bytes.fromhex(seen["name"]["pathHex"])))


def test_path_of_a_store(environment):
    """A volume below a directory with such a name is found by its mount, and its path comes back. It must be UTF-8."""
    volume = environment.volume()
    place = os.fsencode(environment.new_path("place")) + b"," + NAME.replace(b"\xff", b"")
    os.mkdir(place)
    os.rename(volume.path, place + b"/volume")
    volume.path = os.fsdecode(place + b"/volume")
    mount = environment.mount(volume)
    harness.write_file(mount / "file", b"content")
    environment.cell("status", place + b"/volume", raw(mount.status(), "volume"))
    found = json.loads(mount.command("path", "--json", mount / "file").stdout)
    environment.cell("path", place + b"/volume", raw(found, "volume"))
    environment.cell("the file", True, os.path.exists(raw(found, "backingPath")))
    back = mount.command("path", "--json", "--reverse", os.fsdecode(raw(found, "backingPath"))).stdout
    environment.cell("path --reverse", mount / "file", json.loads(back)["path"])
    shown = json.loads(protectfs("info", "--json", volume.path, env=volume.environment).stdout)
    environment.cell("info", [mount.path], shown["mounts"])
    mount.unmount()


def test_paths_of_a_check(environment):
    """The paths of findings and repairs begin at the volume's root."""
    mount = environment.mount()
    name = os.fsdecode(NAME)
    os.mkdir(mount / name)
    harness.write_file(mount / (name + "/" + name), b"content" * 1000)
    stored = json.loads(mount.command("path", "--json", mount / (name + "/" + name)).stdout)["backingPath"]
    mount.unmount()
    with open(stored, "r+b") as file:
        file.seek(300)
        file.write(os.urandom(16))
    place, last = os.path.split(mount.volume.path)
    done = protectfs("fsck", "--json", "--repair", "--recovery-file", mount.volume.code_file, last, cwd=place,
                     env=mount.volume.environment, ok=False)
    report = json.loads(done.stdout)
    environment.cell("fsck: the volume", mount.volume.path, report["volume"])
    environment.cell("fsck: a finding", (NAME + b"/" + NAME, stored), (
        raw(report["findings"][0]), os.path.join(report["volume"], report["findings"][0]["backingPath"])))
    environment.cell("fsck: a repair", NAME + b"/" + NAME, raw(report["repairs"][0]))


def test_paths_of_a_volume(environment):
    """init, info, recovery use and erase with relative paths."""
    volume = environment.volume()
    place, secret = environment.new_path("place"), ["--passphrase-file", volume.passphrase_file]
    os.mkdir(place)
    variables = {**os.environ, "XDG_STATE_HOME": environment.new_path("data")}

    def run(*words):
        return json.loads(protectfs(*words, cwd=place, env=variables).stdout)

    made = run("init", "--json", "--device-key", "./key", *secret, "./new")
    environment.cell("init", (f"{place}/new", f"{place}/key"), (made["volume"], made["deviceKey"]))
    harness.write_file(place + "/code", made["recoveryCode"].encode() + b"\n")
    shown = run("info", "--json", "--device-key", "key", "new")
    environment.cell("info", (f"{place}/new", f"{place}/key"), (shown["volume"], shown["deviceKey"]))
    used = run("recovery", "use", "--json", "--recovery-file", "code", "--device-key", "other",
               "--new-passphrase-file", volume.passphrase_file, "new")
    environment.cell("recovery use", f"{place}/other", used["deviceKey"])
    gone = run("erase", "--json", "--yes", "--device-key", "other", "new")
    environment.cell("erase", (f"{place}/new", True), (gone["volume"], all(path.startswith("/") for path in gone["destroyed"])))


def test_bytes_of_a_secret(environment):
    """Attributes that are not text are hexadecimal digits, and named, so that text of digits is not taken for them."""
    mount = environment.mount()
    content = environment.new_path("content")
    harness.write_file(content, b"secret")
    mount.command("secret", "set", "--file", content, "-a", "service=abcd", mount.path, "me")
    item, = json.loads(mount.command("secret", "list", "--json", mount.path).stdout)
    environment.cell("text of digits", ("abcd", []), (item["attributes"]["service"], item["bytes"]))
