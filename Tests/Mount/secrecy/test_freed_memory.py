"""The lock's note about freed page cache: printed once, and only if the kernel does not wipe freed memory."""

import os

import harness
from namespaces import own_sockets


def lock(mount, *words, before=None):
    """The lock command's exit code, output and error; before: shell commands in a mount namespace of its own."""
    command = [harness.binary(), "lock", *words, mount.path]
    if before:
        command = ["unshare", "-m", "/bin/sh", "-ec", before + '\nexec "$@"', "sh", *command]
    done = harness.run(*command, env=mount.volume.environment, ok=False)
    if done.returncode == 0:
        mount.unlock()
    return done.returncode, done.stdout, done.stderr


def forget():
    """Lock has not told its note yet."""
    os.unlink(harness.told())


def test_said_once(environment):
    """With kernels of every kind, by their command lines and configurations as a program can read them."""
    if os.geteuid() != 0:
        raise harness.Skip("only root can show a program another kernel's command line")
    own_sockets(environment)
    mount = environment.mount()
    bare = environment.new_path("nothing")
    open(bare, "w", encoding="ascii").close()

    def kernel(line, configuration=None):
        """A kernel that was started so; its configuration is in /boot, or nowhere."""
        place = environment.new_path("kernel")
        os.mkdir(place)
        with open(os.path.join(place, "cmdline"), "w", encoding="ascii") as file:
            file.write(line + "\n")
        text = [f"mount --bind {place}/cmdline /proc/cmdline"]
        if os.path.exists("/proc/config.gz"):
            text.append(f"mount --bind {bare} /proc/config.gz")
        text += [f"mount -t tmpfs none {below}" for below in ("/boot", "/lib/modules", "/usr/lib/modules")
                 if os.path.isdir(below)]
        if configuration is not None:
            with open(os.path.join(place, "config"), "w", encoding="ascii") as file:
                file.write(configuration)
            text.append(f"cp {place}/config /boot/config-$(uname -r)")
        return "\n".join(text)

    built_on, built_off = "CONFIG_MMU=y\nCONFIG_INIT_ON_FREE_DEFAULT_ON=y\n", "CONFIG_MMU=y\n"
    off = unknown = "freed memory can hold plaintext for a while; protectfs doctor says more\n"
    on = None
    for label, before, expected in (
            ("an option that is on", kernel("quiet init_on_free=1", built_off), on),
            ("an option that is on, in words", kernel("init_on_free=on ro"), on),
            ("built on", kernel("quiet", built_on), on),
            ("built on, an option that is off", kernel("init_on_free=0", built_on), off),
            ("the last one counts", kernel("init_on_free=1 init_on_free=off", built_on), off),
            ("for init, not for the kernel", kernel("quiet -- init_on_free=1", built_off), off),
            ("another option", kernel("init_on_alloc=1 xinit_on_free=1", built_off), off),
            ("built off", kernel("quiet", built_off), off),
            ("nothing can be read", kernel("quiet"), unknown)):
        code, said, note = lock(mount, before=before)
        environment.cell(f"{label}: lock", (0, ""), (code, said))
        if expected is None:
            environment.cell(f"{label}: nothing is said", "", note)
            continue
        environment.cell(f"{label}: what is said", True, note.endswith(expected) and note.count("\n") == 1)
        environment.cell(f"{label}: not again", (0, "", ""), lock(mount, before=before))
        forget()
    code, said, note = lock(mount, "--json", before=kernel("quiet", built_off))
    environment.cell("not with --json", (0, ""), (code, note))
    mount.unmount()


def test_this_kernel(environment):
    """The kernel that runs, whose own word is asked for where root may read it."""
    own_sockets(environment)
    mount = environment.mount()
    code, said, note = lock(mount)
    environment.cell("lock", (0, ""), (code, said))
    with open("/proc/cmdline", encoding="ascii") as file:
        line = file.read()
    done = harness.run("sh", "-c", "zcat /proc/config.gz || cat /boot/config-$(uname -r)", ok=False)
    if "init_on_free" in line or not done.stdout:
        raise harness.Skip("what this kernel does cannot be told simply")
    is_on = "CONFIG_INIT_ON_FREE_DEFAULT_ON=y" in done.stdout
    environment.cell("it is said", not is_on, "freed memory can hold plaintext" in note)
    environment.cell("once", (0, "", ""), lock(mount))
