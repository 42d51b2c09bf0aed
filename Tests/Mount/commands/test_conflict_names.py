"""What sync programs and backups of single files leave in a store: second versions under other names, and older versions."""

import os
import re
import shutil

import checks
from harness import pattern, protectfs, read_file, run, write_file

LONG = "long " * 40
# How programs name the second version of a file X.
FORMS = {
    "Dropbox": "{} (Ann's conflicted copy 2026-01-31)",
    "Dropbox, in German": "{} (In Konflikt stehende Kopie von Ann 2026-01-31)",
    "Nextcloud": "{} (conflicted copy 2026-01-31 120000)",
    "ownCloud": "{}_conflict-20260131-120000",
    "Syncthing": "{}.sync-conflict-20260131-120000-ABCDEFG",
    "Seafile": "{} (SFConflict ann@example.com 2026-01-31-12-00-00)",
    "OneDrive": "{}-DESKTOP-4711",
    "Unison": "{} (conflict #1 on 2026-01-31)",
    "Resilio": "{}.Conflict",
    "Google Drive": "{} (1)",
    "rclone": "{}.conflict1",
    "a file manager": "{} (copy)",
    "an editor": "{}~",
    "in short": "{} (conflict)",
}


def filled(environment):
    """A volume with its mount, and the encrypted files of two names: a short one and a long one."""
    volume = environment.volume()
    mount = environment.mount(volume)
    os.mkdir(mount / "letters")
    paths = {}
    for name in ("letters/diary.txt", f"letters/{LONG}"):
        write_file(mount / name, pattern(9000, seed=len(name)))
        paths[name] = mount.stored(name)
    return volume, mount, paths


def test_names_of_sync_programs(environment):
    """fsck names the file that each belongs to and says what to do; the mount shows the files as before."""
    volume, mount, paths = filled(environment)
    mount.unmount()
    for program, form in FORMS.items():
        for name, path in paths.items():
            other = os.path.join(os.path.dirname(path), form.format(os.path.basename(path)))
            shutil.copy2(path, other)
            code, found = checks.report(volume)
            wanted = [one for one in found["findings"] if one["kind"] != "duplicate"]
            environment.cell(f"{program}: {name[:20]}", (4, [("error", "conflict", name, os.path.relpath(other, volume.path))]),
                             (code, [(one["severity"], one["kind"], one["path"], one["backingPath"]) for one in wanted]))
            os.unlink(other)
    shutil.copy2(paths["letters/diary.txt"], paths["letters/diary.txt"] + " (conflict)")
    done = checks.fsck(volume, "--recovery-file", volume.code_file)
    lines = [line for line in done.stdout.splitlines() if line.startswith("error:")]
    environment.cell("one line, with the way out", (1, True), (
        len(lines), bool(re.search(r"^error: /letters/diary.txt: conflict \(.*fsck --repair.*remove it, or rename it over.*\) \[", lines[0]))))
    mount = environment.mount(volume)
    environment.cell("the file itself", pattern(9000, seed=len("letters/diary.txt")), read_file(mount / "letters/diary.txt"))
    environment.cell("shown beside it", 1, sum(one.startswith(".undecryptable-") for one in os.listdir(mount / "letters")))
    mount.unmount()


def test_what_is_no_conflict(environment):
    """A foreign file is one as before, and so is a name that only looks like an encrypted one."""
    volume, mount, paths = filled(environment)
    mount.unmount()
    place = os.path.dirname(paths["letters/diary.txt"])
    moved = os.path.join(volume.path, os.path.basename(paths["letters/diary.txt"]) + " (conflict)")
    for name, path, kind in (("a readme", os.path.join(place, "README (conflict)"), "foreign"),
                             ("a name that does not verify", os.path.join(place, "A" * 40 + ".sync-conflict-20260131"), "foreign"),
                             ("a name of another directory", moved, "foreign")):
        write_file(path, b"x")
        _, found = checks.report(volume)
        environment.cell(name, (True, False), (kind in checks.kinds(found), "conflict" in checks.kinds(found)))
        os.unlink(path)


def test_the_way_out(environment):
    """The second version is put in place of the first, or a repair gives it a name in the mount, so that both can be compared."""
    volume, mount, paths = filled(environment)
    path = paths["letters/diary.txt"]
    run("cp", "-a", path, environment.base + "/first")
    write_file(mount / "letters/diary.txt", b"the second version")
    mount.unmount()
    conflict = path + " (conflicted copy 2026-01-31 120000)"
    run("cp", "-a", environment.base + "/first", conflict)
    shown = protectfs("inspect", "--recovery-file", volume.code_file, "--volume", volume.path, conflict, env=volume.environment, ok=False).stdout
    environment.cell("inspect shows what is in it", True, "9000" in shown or "8.8" in shown or "verified" in shown)
    os.rename(conflict, path)
    environment.cell("renamed over it", (0, []), (lambda code, found: (code, checks.kinds(found)))(*checks.report(volume)))
    mount = environment.mount(volume)
    environment.cell("the other version", pattern(9000, seed=len("letters/diary.txt")), read_file(mount / "letters/diary.txt"))
    mount.unmount()
    run("cp", "-a", path, conflict)
    code, found = checks.report(volume, "--repair")
    environment.cell("a repair gives it a name", (True, "renamed"), (not os.path.exists(conflict), found["repairs"][0]["action"]))
    mount = environment.mount(volume)
    environment.cell("under which it is read", pattern(9000, seed=len("letters/diary.txt")), read_file(mount / found["repairs"][0]["target"]))
    mount.unmount()


def test_older_versions_of_single_files(environment):
    """A backup of single files, each of another time: all of it is read, as it is today, and fsck finds nothing."""
    volume, mount, _ = filled(environment)
    versions = {}
    for turn in range(3):
        for number in range(4):
            write_file(mount / f"letters/{number}", b"", os.O_TRUNC)
            write_file(mount / f"letters/{number}", pattern(5000 + 4000 * turn, seed=10 * turn + number), os.O_TRUNC)
        os.setxattr(mount / "letters/0", "user.turn", b"%d" % turn)
        mount.sync()
        keep = environment.new_path("backup")
        run("cp", "-a", volume.path, keep)
        versions[turn] = keep
    places = {number: os.path.relpath(mount.stored(f"letters/{number}"), volume.path) for number in range(4)}
    mount.unmount()
    mixed = {0: 1, 1: 0, 2: 2, 3: 1}
    for number, turn in mixed.items():
        run("cp", "-a", "--remove-destination", os.path.join(versions[turn], places[number]), os.path.join(volume.path, places[number]))
    code, found = checks.report(volume)
    environment.cell("fsck", (0, []), (code, checks.kinds(found)))
    mount = environment.mount(volume)
    for number, turn in mixed.items():
        environment.cell(f"file {number} of turn {turn}", True, read_file(mount / f"letters/{number}") == pattern(5000 + 4000 * turn, seed=10 * turn + number))
    environment.cell("its attribute", b"1", os.getxattr(mount / "letters/0", "user.turn"))
    mount.unmount()
