"""Device keys and state files of earlier builds move to the directory that programs do not clear."""

import json
import os

import harness
from harness import protectfs, run


def former(volume):
    """The volume's files go back to where they once were, and the environment that says so."""
    home = os.path.join(os.path.dirname(volume.data), "former")
    place = os.path.join(home, "protectfs")
    os.makedirs(os.path.join(place, "desktop"))
    kept = os.path.join(volume.data, "protectfs")
    for name in os.listdir(kept):
        os.rename(os.path.join(kept, name), os.path.join(place, name))
    return place, {**volume.environment, "XDG_DATA_HOME": home}


def doctor(variables):
    found = json.loads(protectfs("doctor", "--json", env=variables).stdout)
    return [one["path"] for one in found if one["check"] == "deviceKey"]


def test_moves(environment):
    volume = environment.volume()
    kept = os.path.join(volume.data, "protectfs")
    names = sorted(os.listdir(kept))
    place, variables = former(volume)
    # The directory may be there already: it also has the sockets of users without a session.
    os.makedirs(os.path.join(kept, "run"), exist_ok=True)
    info = json.loads(protectfs("info", "--json", volume.path, env=variables).stdout)
    environment.cell("the key's new place", os.path.join(kept, info["uuid"] + ".key"), info["deviceKey"])
    environment.cell("all files", sorted(names + ["run"]), sorted(os.listdir(kept)))
    environment.cell("other files stay", ["desktop"], os.listdir(place))
    environment.cell("doctor", [], doctor(variables))
    point = environment.new_path("point")
    os.mkdir(point)
    protectfs("mount", "--passphrase-file", volume.passphrase_file, volume.path, point, env=variables)
    protectfs("unmount", point, env=variables)


def test_keeps_what_is_there(environment):
    """A file at the new place is not replaced. Doctor names the one that stays."""
    volume = environment.volume()
    key = os.path.basename(json.loads(protectfs("info", "--json", volume.path, env=volume.environment).stdout)["deviceKey"])
    place, variables = former(volume)
    new = os.path.join(volume.data, "protectfs", key)
    harness.write_file(new, b"another key, of 32 bytes: ------")
    protectfs("info", volume.path, env=variables, ok=False)
    environment.cell("the new one", b"another key, of 32 bytes: ------", harness.read_file(new))
    environment.cell("the old one", [key], [name for name in os.listdir(place) if name != "desktop"])
    environment.cell("doctor", [place], doctor(variables))


def test_cannot_move(environment):
    """On another file system the files are used where they are."""
    volume = environment.volume()
    place, variables = former(volume)
    other = environment.new_path("other")
    os.mkdir(other)
    run("mount", "-t", "tmpfs", "none", other)
    variables["XDG_STATE_HOME"] = other
    info = json.loads(protectfs("info", "--json", volume.path, env=variables).stdout)
    environment.cell("the key's place", os.path.join(place, info["uuid"] + ".key"), info["deviceKey"])
    environment.cell("doctor", [place], doctor(variables))
    harness.detach(other)
