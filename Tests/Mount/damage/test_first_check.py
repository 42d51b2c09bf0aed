"""What fsck says and writes where nothing is damaged, but crash damage would be tolerated: a restored copy on a machine that
never saw the volume, and a volume whose mount was killed. With and without --repair it reports the same places."""

import json
import os
import shutil

import harness
from harness import protectfs, read_file, write_file

FILES = 300


def bytes_of(path):
    """Every backing file's bytes and time, and every link's target."""
    found = {}
    for directory, names, files in os.walk(path):
        for name in names + files:
            place = os.path.join(directory, name)
            state = os.lstat(place)
            if os.path.islink(place):
                found[place[len(path):]] = os.readlink(place)
            elif os.path.isfile(place):
                found[place[len(path):]] = (read_file(place), state.st_mtime_ns, state.st_ino)
    return found


def changed(volume, before):
    """How many of the objects that were there are gone or differ."""
    now = bytes_of(volume.path)
    return sum(now.get(name) != old for name, old in before.items())


def filled(environment):
    volume = environment.volume()
    mount = environment.mount(volume)
    fill(mount)
    return volume, mount


def fill(mount):
    for number in range(FILES):
        if number % 50 == 0:
            os.mkdir(mount / f"{number}")
        write_file(mount / f"{number // 50 * 50}/{number}", harness.pattern(number * 37, seed=number))
    # With holes, and longer than what is mended at once.
    with open(mount / "holes", "wb") as file:
        file.truncate(3 << 20)
        file.seek(1 << 20)
        file.write(b"middle")
    write_file(mount / "long", harness.pattern(2 << 20))
    os.setxattr(mount / "long", "user.x", b"value")
    os.link(mount / "long", mount / "second name")


def on_new_machine(environment, volume):
    """A restored copy, and a data directory that has the device key alone."""
    path, data = environment.new_path("restored"), environment.new_path("data")
    harness.run("cp", "-a", volume.path, path)
    os.makedirs(os.path.join(data, "protectfs"))
    for name in os.listdir(os.path.join(volume.data, "protectfs")):
        if name.endswith(".key"):
            shutil.copy(os.path.join(volume.data, "protectfs", name), os.path.join(data, "protectfs", name))
    return harness.Volume(path, data, volume.code_file, volume.passphrase_file)


def check(volume, *words):
    return protectfs("fsck", "--passphrase-file", volume.passphrase_file, *words, volume.path, env=volume.environment, ok=False)


def report(volume, *words):
    done = check(volume, "--json", *words)
    return done.returncode, json.loads(done.stdout)


def test_restored_copy(environment):
    """A healthy copy on a new machine: one line tells of the missing state, and no byte is written."""
    volume, mount = filled(environment)
    mount.unmount()
    for words in ((), ("--repair",), ("-n",)):
        copy = on_new_machine(environment, volume)
        before = bytes_of(copy.path)
        done = check(copy, *words)
        lines = [line for line in done.stdout.splitlines() if "no state" in line or ": " in line and "directories," not in line]
        environment.cell(f"{words}: one line", (0, 1, True),
                         (done.returncode, len(lines), lines[:1] and lines[0].startswith("this machine has no state for this volume: ")))
        environment.cell(f"{words}: no byte is written", 0, changed(copy, before))
        environment.cell(f"{words}: no object is made", sorted(before), sorted(bytes_of(copy.path)))
        if "-n" in words:
            continue
        code, again = report(copy)
        environment.cell(f"{words}: nothing is tolerated afterwards", (0, "epochs", []), (code, again["tolerance"], again["findings"]))
    copy = on_new_machine(environment, volume)
    code, answer = report(copy, "-n")
    environment.cell("-n --json", (0, "no-state", 0, 0, []), (code, answer["tolerance"], answer["crashes"], answer["mended"], answer["findings"]))


def test_after_a_crash(environment):
    """A killed mount whose files are whole, some of which then lose a page: -n and --repair name the same places."""
    volume, mount = filled(environment)
    mount.unmount()
    mount = environment.mount(volume)
    os.mkdir(mount / "new")
    for number in range(FILES):
        write_file(mount / f"new/{number}", harness.pattern(20_000, seed=number))
    mount.sync()
    mount.crash()
    before = bytes_of(volume.path)
    for words in (("-n",), ()):
        code, answer = report(volume, *words)
        environment.cell(f"whole files, {words}", (0, 0, 0, 0), (code, answer["crashes"], answer["mended"], len(answer["findings"])))
        environment.cell(f"whole files, {words}: no byte is written", 0, changed(volume, before))

    mount = environment.mount(volume)
    os.mkdir(mount / "more")
    for number in range(20):
        write_file(mount / f"more/{number}", harness.pattern(20_000, seed=number))
    mount.sync()
    mount.crash()
    new = sorted(set(bytes_of(volume.path)) - set(before))
    long = [name for name in new if os.path.isfile(volume.path + name) and os.path.getsize(volume.path + name) > 20_000]
    for number, name in enumerate(long[:9]):
        size = os.path.getsize(volume.path + name)
        with open(volume.path + name, "r+b") as file:
            if number % 3 == 0:
                file.seek(2 * 4096)
                file.write(bytes(4096))
            elif number % 3 == 1:
                file.truncate(3 * 4096)
            else:
                file.truncate(size + 8192)
    answers = [report(volume, *words)[1] for words in (("-n",), ("--repair",))]
    places = [[(one["severity"], one["kind"], one["departure"], one["page"], one["path"]) for one in answer["findings"]]
              for answer in answers]
    environment.cell("damaged files: the same places in the same order", (places[0], True), (places[1], len(places[0]) >= 9))
    environment.cell("damaged files: mended", (0, 9), (answers[0]["mended"], answers[1]["mended"]))
    environment.cell("each is told as a repair", 9, sum(one["action"] == "mended" for one in answers[1]["repairs"]))
    code, answer = report(volume)
    environment.cell("nothing is left", (0, []), (code, answer["findings"]))
