"""SiriKali mounts, lists and unmounts a volume by the description that the package installs."""

import json
import os
import shutil
import subprocess

import harness
from harness import PATIENCE, Skip, run
from namespaces import own_namespace

DESCRIPTION = os.path.join(harness.REPOSITORY, "mount-scripts/packaging/sirikali/protectfs.json")


def words(volume, point, read_only):
    """The command line that SiriKali 1.5.0 makes of the description."""
    found = json.loads(harness.read_file(DESCRIPTION))
    values = {"%{mountOptions}": found["configFileArgument"] + (" " + found["idleString"] if read_only else ""),
              "%{cipherFolder}": volume.path, "%{mountPoint}": point,
              "%{fuseOpts}": f"-o {'ro' if read_only else 'rw'},fsname=Protectfs@{volume.path}"}
    line = found["mountControlStructure"]
    for name, value in values.items():
        line = line.replace(name, value)
    return line.replace("%{timeout}", "5").split(), [word.replace("%{mountPoint}", point) for word in found["unMountCommand"]]


def test_command_lines(environment):
    """What SiriKali runs: the passphrase comes without a newline, and a wrong one has the code that the description names."""
    volume, point = environment.volume(), environment.new_path("point")
    found = json.loads(harness.read_file(DESCRIPTION))
    environment.cell("how it knows a volume", True, all(os.path.exists(f"{volume.path}/{name}") for name in found["configFileNames"]))
    for read_only in (False, True):
        os.makedirs(point, exist_ok=True)
        mount, unmount = words(volume, point, read_only)
        done = harness.protectfs(*mount, env=volume.environment, input="wrong", ok=False)
        environment.cell("a wrong passphrase", (int(found["wrongPasswordErrorCode"]), False), (done.returncode, os.path.ismount(point)))
        done = harness.protectfs(*mount, env=volume.environment, input=harness.PASSPHRASE)
        rows = [row for row in harness.mount_table() if row[1] == point]
        environment.cell("mounted", [(point, found["fuseNames"][0], volume.path)], [row[1:] for row in rows])
        environment.cell("read-only", read_only, bool(os.statvfs(point).f_flag & os.ST_RDONLY))
        status = json.loads(harness.protectfs("status", "--json", point, env=volume.environment).stdout)
        environment.cell("idle", 300 if read_only else None, status["idleLimit"])
        harness.protectfs(*unmount[1:], env=volume.environment)
        environment.cell("unmounted", False, os.path.ismount(point))


def test_the_program(environment):
    """SiriKali itself, without its window."""
    if shutil.which("sirikali") is None:
        raise Skip("sirikali is not installed: mount-scripts/packages software")
    own_namespace()
    # SiriKali looks for programs in fixed places.
    run("mount", "-t", "tmpfs", "none", "/usr/local/bin")
    os.symlink(harness.binary(), "/usr/local/bin/protectfs")
    volume, point, home = environment.volume(), environment.new_path("point"), environment.new_path("home")
    os.makedirs(home + "/.config/SiriKali/backends")
    os.makedirs(home + "/run", 0o700)
    shutil.copy(DESCRIPTION, home + "/.config/SiriKali/backends/protectfs.json")
    variables = {**volume.environment, "HOME": home, "XDG_CONFIG_HOME": home + "/.config", "QT_QPA_PLATFORM": "offscreen", "XDG_RUNTIME_DIR": home + "/run"}

    def sirikali(*words, secret=""):
        done = subprocess.run(["sirikali", *words], input=secret, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=PATIENCE)
        return done.stdout

    said = sirikali("-d", volume.path, "-z", point, "-b", "stdin", secret="wrong")
    environment.cell("a wrong passphrase", (True, False), ("Wrong Password" in said, os.path.ismount(point)))
    sirikali("-d", volume.path, "-z", point, "-b", "stdin", secret=harness.PASSPHRASE)
    environment.cell("mounted", True, os.path.ismount(point))
    harness.write_file(point + "/file", b"content")
    environment.cell("listed", True, f'"{volume.path}" "{point}"' in sirikali("-p"))
    sirikali("-u", "-d", volume.path)
    environment.cell("unmounted", False, os.path.ismount(point))
    sirikali("-d", volume.path, "-z", point, "-b", "stdin", "-k", "ro", "-i", "5", secret=harness.PASSPHRASE)
    environment.cell("read-only", True, os.path.ismount(point) and bool(os.statvfs(point).f_flag & os.ST_RDONLY))
    sirikali("-u", "-d", volume.path)
