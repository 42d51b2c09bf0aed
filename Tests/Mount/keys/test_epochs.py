"""Epochs on real mounts: they rise, info shows them, and they can run out (docs/judge/volume-format.md, section 6.2)."""

import json
import os

import harness
import states
from harness import protectfs, read_file, write_file
from state_refusals import WAY_OUT, named, seen

#: The time of epoch 0, 2020-01-01 00:00 UTC, in seconds since 1970.
BEGIN = 1_577_836_800
FAILURE = 1


def test_rise(environment):
    """Over mounts, crashes and fsck; also when the clock is behind the highest one, as after it went back."""
    volume = seen(environment)
    place = states.path(volume)
    last = states.highest(states.read(place))
    environment.cell("the first is the time", True, abs(last + BEGIN - int(os.stat(place).st_mtime)) < 600)
    for future in (0, 100_000, 1_000_000_000):
        if future:
            last += future
            states.put(place, states.changed(states.read(place), {120: states.little(last, 4)}))
        for ends in ("unmount", "crash", "unmount"):
            mount = environment.mount(volume)
            write_file(mount / "new", os.urandom(8))
            now = states.read(place)
            drawn = states.open_epochs(now)[-1]
            environment.cell(f"{future}: higher than before", True, drawn > last and states.highest(now) == drawn)
            if future:
                environment.cell(f"{future}: the next one", last + 1, drawn)
            last = drawn
            shown = json.loads(mount.command("info", "--json", volume.path).stdout)
            own = [epoch for epoch in shown["openEpochs"] if epoch["state"] == "mounted"]
            environment.cell(f"{future}: info", ([{"epoch": drawn, "time": drawn + BEGIN, "state": "mounted"}], drawn, place),
                             (own, shown["highestEpoch"], shown["stateFile"]))
            getattr(mount, ends)()
            shown = json.loads(mount.command("info", "--json", volume.path).stdout)
            # A crash leaves it open; the mounts after it leave it as it is.
            ended = [epoch["epoch"] for epoch in shown["openEpochs"] if epoch["state"] == "endedBadly"]
            environment.cell(f"{future}: after {ends}", drawn in ended, ends == "crash")
        protectfs("fsck", "--passphrase-file", volume.passphrase_file, volume.path, env=volume.environment, ok=False)
        now = states.read(place)
        environment.cell(f"{future}: fsck closes them, and keeps the highest", ([], True),
                         (states.open_epochs(now), states.highest(now) >= last))
        last = states.highest(now)


def test_info(environment):
    """For people: the highest one and each open one with its date, and which are of a mount."""
    volume = seen(environment)
    place = states.path(volume)
    mount = environment.mount(volume)
    write_file(mount / "new", b"new")
    own, = states.open_epochs(states.read(place))
    bad = [own + 7, *range(own + 20, own + 29)]
    states.put(place, states.changed(
        states.read(place), {120: states.little(own + 50, 4)},
        {states.EPOCHS: b"".join(states.little(epoch, 4) for epoch in [own, *bad])}))
    text = protectfs("info", volume.path, env={**volume.environment, "TZ": "UTC"}).stdout
    environment.cell("the path", True, place in text)
    environment.cell("too many to show", (8, True), (text.count("Open epoch"), "and 3 before these" in text))
    environment.cell("ended", 8, text.count("ended with a crash\n") - text.count("sessions that ended with a crash\n"))
    states.put(place, states.changed(
        states.read(place), {116: states.little(states.TOLERATE_ALL, 4), 120: states.little(own, 4)},
        {states.EPOCHS: states.little(own, 4)}))
    text = protectfs("info", volume.path, env={**volume.environment, "TZ": "UTC"}).stdout
    date = harness.run("date", "-u", "-d", f"@{own + BEGIN}", "+%Y-%m-%d %H:%M:%S").stdout.strip()
    environment.cell("of the mount", True, f"{own} ({date}), of a mount\n" in text)
    environment.cell("the highest", 2, text.count(f"{own} ({date})"))
    environment.cell("tolerated", True, "crash damage is tolerated in every file until a complete fsck" in text)


def test_no_number_left(environment):
    """A state file with the last number: read-only mounts work, others are refused and say why."""
    volume = seen(environment)
    place = states.path(volume)
    data = states.changed(states.read(place), {120: states.little(states.LAST, 4)})
    states.put(place, data)
    done = environment.mount(volume, ok=False).result
    environment.cell("refused", (FAILURE, []),
                     (done.returncode, named(done.stderr, place, "no number left", "mount with -o ro", WAY_OUT)))
    mount = environment.mount(volume, options=["ro"])
    environment.cell("reading works", b"kept", read_file(mount / "kept"))
    mount.unmount()
    mount = environment.mount(volume, options=["recover"])
    write_file(mount / "new", b"new")
    mount.unmount()
    environment.cell("-o recover needs no state file", states.LAST, states.highest(states.read(place)))
    protectfs("fsck", "--forget-state", "--passphrase-file", volume.passphrase_file, volume.path, env=volume.environment)
    mount = environment.mount(volume)
    write_file(mount / "new", b"newer")
    mount.unmount()
    environment.cell("the way out", True, 0 < states.highest(states.read(place)) < states.LAST)
