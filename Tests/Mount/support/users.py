"""An ordinary user with a volume of their own, for tests that run as root."""

import ctypes
import os
import shutil
import stat

import harness


def open_fuse_to_everyone(environment):
    """Has /dev/fuse as udev makes it, in a mount namespace of this test's own."""
    if os.stat("/dev/fuse").st_mode & 0o006 == 0o006:
        return
    if ctypes.CDLL(None).unshare(0x20000) != 0:  # CLONE_NEWNS
        raise harness.Skip("mount namespaces are not permitted here")
    harness.run("mount", "--make-rprivate", "/")
    device = environment.new_path("fuse")
    os.mknod(device, stat.S_IFCHR | 0o600, os.makedev(10, 229))
    os.chmod(device, 0o666)
    harness.run("mount", "--bind", device, "/dev/fuse")


class OrdinaryUser:
    """A user without privileges; volume, keys and a place to mount lie below a directory of theirs."""

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
        self.variables = {**os.environ, "XDG_DATA_HOME": os.path.join(place, "data"),
                          "XDG_RUNTIME_DIR": os.path.join(place, "run"), "HOME": place}
        self.become = ["setpriv", f"--reuid={number}", f"--regid={number}", "--clear-groups", "--inh-caps=-all"]

    def run(self, *words, **more):
        """harness.run, as this user."""
        return harness.run(*self.become, *words, env=self.variables, **more)
