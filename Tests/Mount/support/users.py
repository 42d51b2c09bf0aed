"""An ordinary user with a volume of their own, for tests that run as root."""

import os
import shutil

import harness
from namespaces import open_fuse_to_everyone


class OrdinaryUser:
    """A user without privileges; volume, keys and mount point are below a directory of theirs."""

    def __init__(self, environment, number=65534):
        if os.geteuid() != 0 or not shutil.which("setpriv") or not shutil.which("fusermount3"):
            raise harness.Skip("needs root, setpriv(1) and fusermount3(1)")
        open_fuse_to_everyone(environment)
        place = environment.new_path("user")
        shutil.copytree(environment.template, place, symlinks=True)
        self.volume, self.code_file, self.path = (os.path.join(place, name) for name in ("volume", "code", "mount"))
        for name in ("mount", "run"):
            os.mkdir(os.path.join(place, name), 0o700)
        # As in harness.make_template, for this user.
        os.mkdir(os.path.join(place, "run/protectfs"), 0o700)
        with open(os.path.join(place, "run/protectfs", os.path.basename(harness.told())), "w", encoding="ascii"):
            pass
        for directory, directories, files in os.walk(place):
            for name in [directory] + [os.path.join(directory, one) for one in directories + files]:
                os.lchown(name, number, number)
        self.variables = {**os.environ, "XDG_STATE_HOME": os.path.join(place, "data"),
                          "XDG_RUNTIME_DIR": os.path.join(place, "run"), "HOME": place}
        self.become = ["setpriv", f"--reuid={number}", f"--regid={number}", "--clear-groups", "--inh-caps=-all"]

    def run(self, *words, **more):
        """harness.run, as this user."""
        return harness.run(*self.become, *words, env=self.variables, **more)
