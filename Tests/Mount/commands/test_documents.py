"""The manual page, the completions and the README say what the program does."""

import json
import os
import re
import shutil

import harness

DOCS = os.path.join(harness.REPOSITORY, "docs")
COMPLETIONS = os.path.join(harness.REPOSITORY, "mount-scripts", "packaging", "completions")


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def commands():
    overview = harness.protectfs("--help").stdout.split("\nEvery command")[0]
    found = re.findall(r"^  ([a-z]+(?: [a-z]+)?)  ", overview, re.M)
    assert len(found) > 15, overview
    return found


def help_of(command):
    return harness.protectfs(*command.split(), "--help").stdout


def options(command):
    return [name for name in re.findall(r"^  (?:-\w, |    )--([a-z-]+)", help_of(command), re.M) if name != "help"]


def plain(text):
    """The words of a text, without the manual page's fonts."""
    return " ".join(re.sub(r"\\f[A-Z]|^\.[A-Z]+ ?", "", text.replace("\\-", "-"), flags=re.M).replace('"', "").split())


def sentence(text):
    return text[:1].upper() + text[1:] + "."


def sentences(command):
    """What the manual page has to say of a command: its purpose, its details, and each option with its meaning."""
    text = help_of(command)
    head, _, tail = text.partition("\n\n")[2].partition("\nOptions:\n")
    found = [paragraph for paragraph in head.split("\n\n") if paragraph.strip()]
    for name, value, meaning in re.findall(r"^  (?:-\w, |    )--([a-z-]+)(?:=(\S+))? {2,}(.*)$", tail, re.M):
        if name != "help":
            found.append(f"--{name}{'=' if value else ''}{value} {sentence(meaning)}")
    return [plain(line) for line in found]


def test_manual_page(environment):
    page = read(os.path.join(DOCS, "protectfs.1")).replace("\\-", "-")
    for command in commands():
        section = page.partition(f".SS protectfs {command} ")[2] or page.partition(f".SS protectfs {command}\n")[2]
        section = plain(section.split("\n.S")[0])
        missing = [line for line in sentences(command) if line not in section]
        environment.cell(f"manual page: {command}", (True, []), (bool(section), missing))
        named = set(re.findall(r"(?:^|[ ,])--([a-z-]+)", re.sub(r"\([^)]*\)", "", section)))
        environment.cell(f"manual page: {command} has no other options", set(), named - set(options(command)))
    overview = harness.protectfs("--help").stdout.partition("Exit codes:")[2]
    codes = re.findall(r"^  (\d+) +(.*)$", overview, re.M)
    assert len(codes) == 13, codes
    for code, meaning in codes:
        environment.cell(f"exit code {code}", True, f".B {code}\n{sentence(meaning)}\n" in page)
    if not shutil.which("man"):
        environment.skip("manual page formats", "man is not installed")
    else:
        done = harness.run("man", "-l", "--warnings", os.path.join(DOCS, "protectfs.1"), ok=False,
                           env={**os.environ, "MANWIDTH": "100"})
        environment.cell("manual page formats", (0, ""), (done.returncode, done.stderr))


def test_completions(environment):
    bash = os.path.join(COMPLETIONS, "protectfs.bash")
    for command in commands():
        words = " ".join(command.split())
        count = len(command.split()) + 1
        script = (f'source "{bash}"; COMP_WORDS=(protectfs {words} --); COMP_CWORD={count}; _protectfs; '
                  'echo "${COMPREPLY[@]}"')
        offered = harness.run("bash", "-c", script).stdout.split()
        missing = [name for name in options(command) if f"--{name}" not in offered]
        environment.cell(f"bash: {command}", [], missing)
    for name in ("_protectfs", "protectfs.fish"):
        text = read(os.path.join(COMPLETIONS, name))
        missing = [word for command in commands() for word in command.split() if word not in text]
        environment.cell(f"{name} names every command", [], missing)
    for shell, flag, name in (("zsh", "-n", "_protectfs"), ("fish", "--no-execute", "protectfs.fish")):
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
    page = plain(read(os.path.join(DOCS, "protectfs.1")).partition(".SH JSON\n")[2].partition("\n.SH ")[0])
    known = set(re.findall(r"[A-Za-z]+", page)) | set(harness.CLASSES.values())
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
    judge("lock", "--json", mount.path)
    seen += [watch.next(), watch.next()]
    watch.close()
    environment.cell("watch: members", set(), members(seen) - known)
    mount.unmount()
    stored = next(entry.path for entry in os.scandir(volume) if entry.is_file() and not entry.name.startswith("."))
    with open(stored, "r+b") as file:
        file.seek(200)
        file.write(os.urandom(16))
    done = mount.command("fsck", "--json", *code, volume, ok=False)
    environment.cell("fsck: members", (4, True, set()), (
        done.returncode, bool(json.loads(done.stdout)["findings"]), members(json.loads(done.stdout)) - known))
    judge("info", "--json", volume)
    judge("passphrase", "list", "--json", volume)
    judge("speed", "--json")
    judge("version", "--json")
    judge("init", "--json", *secret, environment.new_path("new"))
    environment.cell("recovery new: members", {"recoveryCode"}, set(judge("recovery", "new", "--json", *code, volume)))
    judge("erase", "--yes", "--json", volume)


SESSION_PARTS = [
    # A note that depends on the kernel.
    (r"protectfs: note: .*\n", ""),
    (r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UUID"), (r"([0-9A-Z]{5}-){5}[0-9A-Z]{5}", "CODE"),
    (r"processes \d+", "processes N"), (r"(cipher|suite) (aes-256-gcm|xchacha20-poly1305)", r"\1 NAME"),
]


def test_session_of_the_readme(environment):
    """The README's session is what happens: each command is run, in order, and prints what stands there."""
    text = read(os.path.join(harness.REPOSITORY, "README.md")).partition("\n## A session\n")[2].split("```")[1]
    home, tools = environment.new_path("home"), environment.new_path("tools")
    os.makedirs(home)
    os.makedirs(tools)
    os.symlink(harness.binary(), os.path.join(tools, "protectfs"))
    variables = {**os.environ, "HOME": home, "LC_ALL": "C", "PATH": tools + ":" + os.environ["PATH"]}
    variables.pop("XDG_DATA_HOME", None)
    steps = [step.partition("\n") for step in text.strip().removeprefix("$ ").split("\n$ ")]
    assert len(steps) >= 10, steps
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
