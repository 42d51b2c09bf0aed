"""Commands that change a keybag, mounts that may be refused, and a volume with all keybags that it has had."""

import contextlib
import glob
import json
import os

import reader
import states
from harness import Mount, Volume, protectfs, read_file, write_file

REFUSED, NOT_DONE = 4, 8


def secret_file(volume, name, text):
    path = os.path.join(os.path.dirname(volume.path), name)
    with open(path, "w", encoding="ascii") as file:
        file.write(text + "\n")
    return path


def mount(environment, volume, *words, ok=True):
    """Mounts with the words given; a failure leaves nothing mounted and says why in one line."""
    path = environment.new_path("mount")
    os.makedirs(path, mode=0o500)
    done = protectfs("mount", *words, volume.path, path, env=volume.environment, ok=ok)
    result = Mount(volume, path)
    result.result = done
    if done.returncode == 0:
        environment.mounts.append(result)
    else:
        assert not result.is_mounted, done.stderr
        assert len(done.stderr.strip().splitlines()) == 1, done.stderr
        assert not os.listdir(path)
    return result


def refused(environment, volume, code, *words):
    done = mount(environment, volume, *words, ok=False).result
    assert done.returncode == code, f"exit code {done.returncode}: {done.stderr}"
    return done.stderr


def change(volume, *words, ok=True):
    """A command that changes the keybag."""
    return protectfs(*words, volume.path, env=volume.environment, ok=ok)


def slots(volume):
    return json.loads(change(volume, "slot", "list", "--json").stdout)


class Keybags:
    """A volume whose keybag is changed, and every keybag that it had, each with the recovery code that opens it."""

    def __init__(self, environment, volume=None):
        self.environment, self.volume = environment, volume or environment.volume()
        self.current = reader.keybag_file(self.volume)
        self.previous = self.current + ".old"
        self.versions = [(read_file(self.current), self.volume.code_file)]

    def run(self, *words, ok=True, volume=None):
        return protectfs(*words, env=(volume or self.volume).environment, ok=ok)

    def renew(self, *words):
        """A new recovery code, by the one that the current keybag has."""
        made = self.run("slot", "add", "--recovery", "--json", *words, "--recovery-file", self.versions[-1][1], self.volume.path)
        code = self.environment.new_path("code")
        write_file(code, json.loads(made.stdout)["recoveryCode"].encode() + b"\n")
        self.versions.append((read_file(self.current), code))
        self.volume.code_file = code

    def put(self, path, number=None):
        """A keybag as the store may put one there; none of them for no number."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        if number is not None:
            write_file(path, self.versions[number][0])

    def secret(self, text):
        path = self.environment.new_path("secret")
        write_file(path, text.encode() + b"\n")
        return path

    def state(self):
        found = reader.state_file(self.volume)
        return read_file(found) if found else None

    def pinned(self):
        """The serial that is pinned; nothing for none."""
        state = self.state()
        if state is None or states.flags(state) & states.UNPINNED:
            return None
        return int.from_bytes(state[32:40], "little")

    def everything(self):
        """The keybags, the device key, and what this machine remembers, as bytes."""
        places = [*glob.glob(os.path.join(self.volume.path, ".protectfs.*")),
                  *glob.glob(os.path.join(self.volume.data, "protectfs", "*"))]
        return {path: read_file(path) for path in places if os.path.isfile(path) and not path.endswith(".lock")}

    def names(self):
        return sorted(name for name in os.listdir(self.volume.path) if name.startswith((".protectfs.k", ".protectfs.t")))

    def cell(self, name, expected, actual):
        self.environment.cell(name, expected, actual)

    def new_machine(self):
        """The same volume where nobody has seen it, with a copy of the device key."""
        data = self.environment.new_path("data")
        os.makedirs(os.path.join(data, "protectfs"))
        key = reader.device_key_file(self.volume)
        write_file(os.path.join(data, "protectfs", os.path.basename(key)), read_file(key))
        return Volume(self.volume.path, data, self.volume.code_file, self.volume.passphrase_file)
