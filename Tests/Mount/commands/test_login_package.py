"""The scripts of the Debian package that switch PAM's profile on and off."""

import os
import shutil

import harness


def test_aborted_removal(environment):
    """A removal of the Debian package that is aborted leaves PAM's profile as it was."""
    if os.geteuid() != 0 or not shutil.which("pam-auth-update"):
        raise harness.Skip("needs root and pam-auth-update")
    root, packaging = environment.new_path("root"), os.path.join(harness.REPOSITORY, "mount-scripts/packaging")
    for path in ("/etc/pam.d", "/var/lib/pam", "/usr/share/pam-configs"):
        shutil.copytree(path, root + path)
    shutil.copy(packaging + "/pam/protectfs", root + "/usr/share/pam-configs")
    for path in ("/run", "/bin"):
        os.mkdir(root + path)
    harness.write_file(root + "/bin/pam-auth-update", b'#!/bin/sh\nDEBIAN_FRONTEND=noninteractive exec ' +
                       f'{shutil.which("pam-auth-update")} --root {root} "$@"\n'.encode())
    os.chmod(root + "/bin/pam-auth-update", 0o755)

    def script(name, *words):
        text = harness.read_file(f"{packaging}/debian/{name}").decode()
        for path in ("/run/", "/var/lib/pam/"):
            text = text.replace(path, root + path)
        harness.run("sh", "-c", text, name, *words, env={**os.environ, "PATH": f"{root}/bin:{os.environ['PATH']}"})

    def state():
        names = os.listdir(root + "/etc/pam.d")
        return any(b"pam_protectfs" in harness.read_file(f"{root}/etc/pam.d/{name}") for name in names), os.listdir(root + "/run")

    script("postinst", "configure")
    for is_enabled in (False, True):
        if is_enabled:
            harness.run(root + "/bin/pam-auth-update", "--enable", "protectfs")
        environment.cell(f"{is_enabled}: before", (is_enabled, []), state())
        script("prerm", "remove")
        environment.cell(f"{is_enabled}: removed", False, state()[0])
        script("postinst", "abort-remove")
        environment.cell(f"{is_enabled}: aborted", (is_enabled, []), state())
    script("prerm", "remove")
    script("postinst", "configure")
    environment.cell("installed again", (False, []), state())
