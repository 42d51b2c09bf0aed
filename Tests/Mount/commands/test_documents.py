"""The manual page, the completions and the README agree with the program."""

import json
import os
import re
import shutil

import harness
from terminal import at_terminal

PAGES = os.path.join(harness.REPOSITORY, "docs/man")
COMPLETIONS = os.path.join(harness.REPOSITORY, "mount-scripts", "packaging", "completions")


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def table():
    """The table of commands, from which the documents are made."""
    return json.loads(harness.protectfs("help", "--json").stdout)


def commands():
    found = [command for group in table()["groups"] for command in group["commands"]]
    assert len(found) > 15, found
    return found


def plain(text):
    """The words of a text, without the manual page's fonts."""
    return " ".join(re.sub(r"\\f[A-Z]|^\.[A-Z]+ ?", "", text.replace("\\-", "-"), flags=re.M).replace('"', "").split())


def test_documents_are_made_from_the_table(environment):
    done = harness.run(os.path.join(harness.REPOSITORY, "mount-scripts", "packaging", "make-command-docs"), "--check",
                       "--binary", harness.binary(), ok=False)
    environment.cell("nothing differs", (0, ""), (done.returncode, done.stdout))
    names = sorted(os.listdir(PAGES))
    pages = {name: plain(read(os.path.join(PAGES, name))) for name in names}
    options = pages["protectfs-credentials.7"]
    for command in commands():
        page = pages[command["manualPage"] + ".1"]
        own = [f"--{option['name']}" for option in command["options"] if not option["isCredential"] and option["name"] != "help"]
        missing = [text for text in [command["summary"], *command["details"], *command["more"], command["usage"], *own]
                   if plain(text) not in page]
        missing += [option["name"] for option in command["options"] if option["isCredential"] and f"--{option['name']}" not in options]
        environment.cell(f"manual page: {command['name']}", [], missing)
    for name in names:
        if not shutil.which("man"):
            environment.skip(f"{name} formats", "man is not installed")
            continue
        done = harness.run("man", "-l", "--warnings", os.path.join(PAGES, name), ok=False, env={**os.environ, "MANWIDTH": "100"})
        environment.cell(f"{name} formats", (0, ""), (done.returncode, done.stderr))


def test_help(environment):
    """Every text of the table is in the help, which has no line that is too long, and few of them."""
    overview = harness.protectfs("--help").stdout
    environment.cell("help without a command", overview, harness.protectfs("help").stdout)
    for command in commands():
        name = command["name"]
        text = harness.protectfs("help", *name.split()).stdout
        environment.cell(f"{name} --help", text, harness.protectfs(*name.split(), "--help").stdout)
        own = [option["help"] for option in command["options"] if not option["isCredential"]]
        wanted = [command["summary"], *command["details"], *own, *[example["line"] for example in command["examples"]]]
        if len(own) < len(command["options"]):
            wanted.append("Options that give a credential: protectfs help credentials")
        if command["more"]:
            wanted.append(f"man {command['manualPage']}")
        shown = " ".join(text.split())
        environment.cell(f"help {name}: all of it", [], [one for one in wanted if " ".join(one.split()) not in shown])
        environment.cell(f"help {name}: at most 40 lines", True, len(text.splitlines()) <= 40)
        environment.cell(f"help {name}: examples", True, 1 <= len(command["examples"]) <= 3)
        examples = [f"  {example['line']}" for example in command["examples"]]
        long = [line for line in text.split("\n") if len(line) > 80 and line not in examples]
        environment.cell(f"help {name}: short lines", [], long)
        environment.cell(f"{name} is in the overview", True, f"\n  {name} " in overview)
    pages = {page["name"]: harness.protectfs("help", page["name"]).stdout for page in table()["pages"]}
    environment.cell("pages", {"credentials", "mount-options"}, set(pages))
    for name, text in pages.items():
        environment.cell(f"help {name}: short lines", [], [line for line in text.split("\n") if len(line) > 80])
        environment.cell(f"{name} is in the overview", True, f"protectfs help {name}\n" in overview or f"protectfs help {name} " in overview)
    shown = " ".join(pages["credentials"].split())
    environment.cell("help credentials: all of them", set(), {
        option["help"] for command in commands() for option in command["options"]
        if option["isCredential"] and not (f"--{option['name']}" in shown and option["help"] in shown)})
    environment.cell("help mount: where the words of -o are", True,
                     "Mount options, after -o: protectfs help mount-options" in harness.protectfs("help", "mount").stdout)
    shown = " ".join(pages["mount-options"].split())
    missing = [option["name"] for option in table()["mountOptions"] if option["name"] + " " + option["meaning"] not in shown.replace(
        f"={option['value']}", "") and option["use"] == "protectfs"]
    environment.cell("help mount-options: all of them", [], missing)
    for words, code, message in (
            (["class"], 2, '"class" needs a subcommand: get, set or list'), (["help", "nothing"], 2, "unknown command"),
            (["class", "put"], 2, 'unknown subcommand "put" of "class"; use get, set or list'),
            (["mount", "a"], 2, "MOUNTPOINT is missing; see protectfs help mount"), (["fsck"], 16, "VOLUME is missing")):
        done = harness.protectfs(*words, ok=False)
        environment.cell(f"protectfs {' '.join(words)}", (code, True), (done.returncode, message in done.stderr))
    environment.cell("help class", True, "\n  set " in harness.protectfs("help", "class").stdout)


def test_completions_are_scripts(environment):
    for shell, flag, name in (("bash", "-n", "protectfs.bash"), ("zsh", "-n", "_protectfs"),
                              ("fish", "--no-execute", "protectfs.fish")):
        if not shutil.which(shell):
            environment.skip(f"{shell} loads it", f"{shell} is not installed")
            continue
        done = harness.run(shell, flag, os.path.join(COMPLETIONS, name), ok=False)
        environment.cell(f"{shell} loads it", (0, ""), (done.returncode, done.stderr))


def members(value):
    """The names of an object's members, at every depth."""
    if isinstance(value, list):
        return {name for one in value for name in members(one)}
    if isinstance(value, dict):
        return set(value) | {name for one in value.values() for name in members(one)}
    return set()


def test_json_output(environment):
    """The manual page names every member of what --json prints."""
    page = plain(read(os.path.join(PAGES, "protectfs.1")).partition(".SH JSON\n")[2].partition("\n.SH ")[0])
    known = set(re.findall(r"[A-Za-z][A-Za-z0-9]*", page)) | set(harness.CLASSES.values())
    mount = environment.mount()
    harness.write_file(mount / "file", b"content")
    volume, code = mount.volume.path, ("--recovery-file", mount.volume.code_file)
    secret = ("--passphrase-file", mount.volume.passphrase_file)

    def judge(*words):
        done = mount.command(*words)
        values = [json.loads(line) for line in done.stdout.splitlines()]
        environment.cell(f"{' '.join(words[:2])}: members", (True, set()), (
            bool(values), set().union(*map(members, values)) - known))
        return values[0]

    judge("status", "--json", mount.path)
    judge("class", "get", "--json", mount / "file", mount.path)
    judge("class", "list", "--json", mount.path)
    mount.command("secret", "set", "--file", mount / "file", "-a", "service=mail", mount.path, "me")
    judge("secret", "list", "--json", mount.path)
    watch = harness.Watch(mount)
    seen = [watch.next()]
    judge("doctor", "--json", mount.path)
    judge("lock", "--json", mount.path)
    seen += [watch.next(), watch.next()]
    watch.close()
    environment.cell("watch: members", set(), members(seen) - known)
    stored = judge("path", "--json", mount / "file")["backingPath"]
    mount.unmount()
    for path in (stored, volume, os.path.join(volume, ".protectfs.keybag")):
        judge("inspect", "--json", *code, path)
    stored = next(entry.path for entry in os.scandir(volume) if entry.is_file() and not entry.name.startswith("."))
    with open(stored, "r+b") as file:
        file.seek(200)
        file.write(os.urandom(16))
    done = mount.command("fsck", "--json", *code, volume, ok=False)
    environment.cell("fsck: members", (4, True, set()), (
        done.returncode, bool(json.loads(done.stdout)["findings"]), members(json.loads(done.stdout)) - known))
    judge("info", "--json", volume)
    judge("slot", "list", "--json", volume)
    judge("speed", "--json")
    judge("version", "--json")
    judge("init", "--json", *secret, environment.new_path("new"))
    environment.cell("slot add --recovery: members", {"recoveryCode"}, set(judge("slot", "add", "--recovery", "--json", *code, volume)))
    judge("erase", "--yes", "--json", volume)


SESSION_PARTS = [
    # A note that depends on the kernel.
    (r"protectfs: note: .*\n", ""),
    (r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UUID"), (r"([0-9A-Z]{5}-){5}[0-9A-Z]{5}", "CODE"),
    (r"processes \d+", "processes N"), (r"(cipher|suite) (aes-256-gcm|xchacha20-poly1305)", r"\1 NAME"),
]


def new_user(environment):
    """An empty home directory, and the environment of somebody who has protectfs in their PATH."""
    home, tools = environment.new_path("home"), environment.new_path("tools")
    os.makedirs(home)
    os.makedirs(tools)
    os.symlink(harness.binary(), os.path.join(tools, "protectfs"))
    variables = {**os.environ, "HOME": home, "LC_ALL": "C", "PATH": tools + ":" + os.environ["PATH"]}
    variables.pop("XDG_STATE_HOME", None)
    return home, variables


def test_session_of_the_readme(environment):
    """The README's session is what happens: each command runs, in order, and prints the text of the README."""
    text = read(os.path.join(harness.REPOSITORY, "README.md")).partition("\n## A session\n")[2].split("```")[1]
    home, variables = new_user(environment)
    steps = [step.partition("\n") for step in text.strip().removeprefix("$ ").split("\n$ ")]
    assert len(steps) >= 8, steps
    mark = "=== next ==="
    script = "".join(f"echo; echo '{mark}'\n{command} 2>&1\n" for command, _, _ in steps)
    done = harness.run("bash", "-c", script, cwd=home, env=variables)

    def same(output, directory):
        for pattern, word in SESSION_PARTS:
            output = re.sub(pattern, word, output.replace(directory, "HOME"))
        return output.strip()

    printed = done.stdout.split(mark + "\n")[1:]
    environment.cell("commands", len(steps), len(printed))
    for (command, _, wanted), output in zip(steps, printed):
        environment.cell(command, same(wanted, "~"), same(output, home))


def test_examples_of_the_manual(environment):
    """The manual's EXAMPLES run as they stand there."""
    text = read(os.path.join(PAGES, "protectfs.1")).partition(".SH EXAMPLES\n.EX\n")[2].partition("\n.EE")[0]
    home, variables = new_user(environment)
    script = "set -e\n" + text.replace("\\-", "-")
    secret = "a passphrase of this test\n"
    answers = [("New passphrase", secret), ("Once more", secret), ("Passphrase of", secret), ("Passphrase for", secret)]
    code, shown, _ = at_terminal(["-c", script], variables, answers, program="/bin/sh")
    environment.cell("exit code", (0, ""), (code, "" if code == 0 else shown))
    environment.cell("nothing stays mounted", False, any(home in row[1] for row in harness.mount_table()))
