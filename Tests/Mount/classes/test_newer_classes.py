"""`protectfs class` and objects that a newer version made: it says so, and does not call them classless."""

import json
import os

from future import Store, next_generation
from harness import set_class, write_file
from refusals import UNSUPPORTED

SUCCESS = 0


def test_newer_objects(environment):
    mount = environment.mount()
    os.makedirs(mount / "newer")
    set_class(mount / "newer", "A")
    for name in ("plain", "version", "generation", "newer/below"):
        write_file(mount / name, b"content")
    os.symlink("plain", mount / "link")
    mount.unmount()
    store = Store(mount.volume)
    store.header("version", {3: b"\3"})
    store.header("generation", next_generation)
    store.record("newer", {3: b"\3"})
    mount = environment.mount(mount.volume)
    for name in ("version", "generation", "newer"):
        done = mount.command("class", "get", mount / name, ok=False)
        environment.cell(f"class get {name}", (UNSUPPORTED, True, False),
                         (done.returncode, "newer version" in done.stdout, "only files" in done.stdout))
        done = mount.command("class", "get", "--json", mount / name, ok=False)
        answer = json.loads(done.stdout)
        environment.cell(f"class get --json {name}", (UNSUPPORTED, None, True), (done.returncode, answer["class"], answer["newer"]))
        done = mount.command("class", "set", "B", mount / name, ok=False)
        environment.cell(f"class set {name}", (UNSUPPORTED, True, False),
                         (done.returncode, "newer version" in done.stderr, "only files" in done.stderr))
    done = mount.command("class", "list", "-R", mount.path, ok=False)
    rows = {line.split()[-1]: line.split()[0] for line in done.stdout.splitlines()}
    environment.cell("class list", (UNSUPPORTED, ["newer"] * 3, True, "C", "–"), (
        done.returncode, [rows[mount / name] for name in ("version", "generation", "newer/")], mount / "newer/below" in rows,
        rows[mount / "plain"], rows[mount / "link"]))
    for name in ("plain", "link", "newer/below"):
        environment.cell(f"class get {name}", SUCCESS, mount.command("class", "get", mount / name, ok=False).returncode)
