"""Root of a user namespace: numbers of users mean something else there, and the machine's /run belongs to somebody else."""

import os

import harness
from users import OrdinaryUser


def test_with_the_runtime_directory_of_the_machine(environment):
    """Mounts have their sockets in XDG_RUNTIME_DIR, or in the home directory, and every command finds them there."""
    user = OrdinaryUser(environment)
    if user.run("unshare", "-Urm", "true", ok=False).returncode:
        raise harness.Skip("user namespaces are not permitted here")
    os.makedirs("/run/protectfs", mode=0o700, exist_ok=True)
    script = '"$1" mount --recovery-file "$2" "$3" "$4" && "$1" status "$4" && "$1" lock && "$1" unmount'
    for name, session in (("a session", True), ("no session", False)):
        words = ["env", f"XDG_CONFIG_HOME={user.path}"] if session else ["env", "-u", "XDG_RUNTIME_DIR", f"XDG_CONFIG_HOME={user.path}"]
        words += ["unshare", "-Urm", "sh", "-c", script, "sh", harness.binary(), user.code_file, user.volume, user.path]
        done = user.run(*words, ok=False)
        environment.cell(name, (0, True), (done.returncode, "unlocked" in done.stdout))
        if done.returncode:
            print(done.stdout, done.stderr)
