"""`protectfs doctor`: each weakness is found where it is, and not where it is not."""

import json
import os
import urllib.parse

import harness
import rings
from harness import protectfs, run, write_file
from namespaces import only_own_mounts, own_etc


class Machine:
    """Files of the kernel and of /etc that only this test sees."""

    def __init__(self, environment):
        only_own_mounts()
        own_etc(environment)
        self.environment = environment
        self.devices = environment.new_path("devices")
        os.makedirs(self.devices)
        run("mount", "-t", "tmpfs", "none", "/sys/class/block")
        self.show("/proc/cmdline", "quiet init_on_free=1\n")
        self.show("/proc/sys/kernel/core_pattern", "core\n")
        if os.path.exists(rings.SWITCH):
            self.show(rings.SWITCH, "Y\n")
        self.swaps()
        self.show("/sys/power/state", "freeze mem\n")
        self.etc("fuse.conf", "# user_allow_other\n")

    def show(self, path, text):
        """From now on a file of the kernel has this text."""
        if not os.path.exists(path):
            raise harness.Skip(f"this kernel has no {path}")
        place = self.environment.new_path("shown")
        write_file(place, text.encode())
        run("mount", "--bind", place, path)

    def etc(self, name, text):
        path = os.path.join("/etc", name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if os.path.lexists(path):
            os.remove(path)
        write_file(path, text.encode())

    def device(self, name, uuid=None, slaves=()):
        """A block device, with what device mapper says of it."""
        place = os.path.join("/sys/class/block", name)
        os.makedirs(os.path.join(place, "dm"))
        write_file(os.path.join(place, "dm/uuid"), (uuid or "LVM-x").encode() + b"\n")
        for other in slaves:
            os.makedirs(os.path.join(place, "slaves", other))
        write_file(os.path.join(self.devices, name), b"")
        return os.path.join(self.devices, name)

    def swaps(self, *paths):
        lines = [f"{path.replace(' ', chr(92) + '040')} partition 1000 0 -2\n" for path in paths]
        self.show("/proc/swaps", "Filename Type Size Used Priority\n" + "".join(lines))


def found(*words, **more):
    """The weaknesses: check and path."""
    return [(one["check"], one["path"]) for one in json.loads(protectfs("doctor", "--json", *words, **more).stdout)]


def noticed(mount):
    """The weaknesses that do not come from where the tests are."""
    return [one for one in found(mount.path, env=mount.volume.environment) if one[0] not in ("store", "deviceKey", "keybagCopy")]


def test_machine(environment):
    machine = Machine(environment)
    environment.cell("a machine without a weakness", [], found())
    environment.cell("what a person reads then", "Nothing was found; no volume is mounted.\n", protectfs("doctor").stdout)
    crypt, plain = machine.device("dm-1", "CRYPT-PLAIN-swap"), machine.device("a disk")
    above, mixed = machine.device("dm-2", slaves=["dm-1"]), machine.device("dm-3", slaves=["dm-1", "a disk"])
    machine.swaps(crypt, "/dev/zram0", above)
    environment.cell("encrypted swap, below a logical volume too, and zram", [], found())
    machine.swaps(crypt, plain, mixed)
    environment.cell("swap in plain text", [("swap", plain), ("swap", mixed)], found())
    machine.show("/sys/power/state", "freeze mem disk\n")
    environment.cell("hibernation to it", ("hibernation", plain), found()[-1])
    machine.swaps(crypt)
    environment.cell("hibernation to encrypted swap", [], found())
    machine.show("/proc/cmdline", "quiet init_on_free=0\n")
    environment.cell("freed memory", [("freedMemory", None)], found())
    machine.show("/proc/cmdline", "init_on_free=1\n")
    machine.etc("fuse.conf", "#x\n user_allow_other # all\n")
    environment.cell("allow_other", [("allowOther", "/etc/fuse.conf")], found())
    machine.etc("fuse.conf", "")
    if os.path.exists(rings.SWITCH):
        machine.show(rings.SWITCH, "N\n")
        environment.cell("io_uring is switched off", [("ioUring", rings.SWITCH)], found())
        machine.show(rings.SWITCH, "Y\n")
    machine.show("/proc/sys/kernel/core_pattern", "|/lib/systemd/systemd-coredump %P\n")
    environment.cell("core dumps", [("coreDumps", "/etc/systemd/coredump.conf")], found())
    machine.etc("systemd/coredump.conf.d/off.conf", "[Coredump]\nStorage = none\n")
    environment.cell("core dumps that are thrown away", [], found())
    machine.show("/proc/sys/kernel/core_pattern", "|/usr/bin/other %p\n")
    environment.cell("another handler", [("coreDumps", "/proc/sys/kernel/core_pattern")], found())
    machine.show("/proc/sys/kernel/core_pattern", "core\n")
    for limit, wanted in (("0", []), ("unlimited", [("coreDumps", None)])):
        done = run("sh", "-c", f'ulimit -c {limit}; "$0" doctor --json; true', harness.binary())
        environment.cell(f"ulimit -c {limit}", wanted, [(one["check"], one["path"]) for one in json.loads(done.stdout)])
    done = run("setpriv", "--bounding-set=-ipc_lock", "--inh-caps=-ipc_lock", "prlimit", "--memlock=1048576:1048576",
               harness.binary(), "doctor", "--json")
    environment.cell("the limit of locked memory", ["lockedMemory"], [one["check"] for one in json.loads(done.stdout)])


def test_mount(environment):
    Machine(environment)
    home = environment.new_path("home")
    os.environ["XDG_CACHE_HOME"] = home + "/.cache"
    mount = environment.mount(path=environment.new_path("a mount & more's"))
    environment.cell("a mount without a weakness", [], noticed(mount))
    os.mkdir(mount / "work")
    write_file(mount / "work/plan", b"x")
    harness.set_class(mount / "work/plan", "complete")
    environment.cell("a default weaker than a file", [("weakDefault", mount / "work")],
                     noticed(mount))
    shown = protectfs("doctor", mount.path).stdout
    environment.cell("what to do about it", True, f"protectfs class set complete '{mount.path.replace(chr(39), chr(39) + chr(92) + chr(39) * 2)}/work'" in shown)
    mount.command("class", "set", "complete", mount / "work")
    address = "file://" + urllib.parse.quote(mount / "work/plan", safe="/!$&'()*+,;=:@~")
    data = os.environ["XDG_DATA_HOME"] = environment.new_path("programs")
    os.makedirs(data)
    listed, pictures = os.path.join(data, "recently-used.xbel"), os.path.join(home, ".cache/thumbnails/large")
    os.makedirs(pictures)
    write_file(listed, b'<bookmark href="file:///elsewhere/x"/>')
    write_file(os.path.join(pictures, "other.png"), b"\x89PNG\r\n\x1a\ntEXtThumb::URI\0file:///elsewhere/x")
    os.mkfifo(os.path.join(pictures, "pipe.png"))
    environment.cell("traces of other files", [], noticed(mount))
    write_file(listed, f"<bookmark href=\"{address.replace('&', '&amp;').replace(chr(39), '&apos;')}\"/>".encode())
    write_file(os.path.join(pictures, "one.png"), b"\x89PNG\r\n\x1a\ntEXtThumb::URI\0" + address.encode())
    environment.cell("traces of its files", [("recentFiles", listed), ("thumbnails", os.path.dirname(pictures))],
                     noticed(mount))
    os.remove(listed)
    os.remove(os.path.join(pictures, "one.png"))
    mount.unmount()


def test_keys_and_store(environment):
    Machine(environment)
    volume = environment.volume()
    new = environment.new_path("new")
    os.mkdir(new)
    run("mount", "-t", "tmpfs", "none", new)
    store, point = os.path.join(new, "store"), environment.new_path("point")
    os.mkdir(point)
    protectfs("init", "--passphrase-file", volume.passphrase_file, store, env=volume.environment)
    protectfs("mount", "--passphrase-file", volume.passphrase_file, store, point, env=volume.environment)
    environment.cell("a store in memory, the key elsewhere", [("store", store), ("keybagCopy", store)], found(point, env=volume.environment))
    copies(environment, volume, store, point)
    status = json.loads(protectfs("status", "--json", point, env=volume.environment).stdout)
    key = os.path.join(volume.environment["XDG_STATE_HOME"], "protectfs", status["uuid"] + ".key")
    data = os.path.join(new, "data")
    os.makedirs(os.path.join(data, "protectfs"))
    write_file(os.path.join(data, "protectfs", status["uuid"] + ".key"), harness.read_file(key))
    environment.cell("the key beside the volume", ["store", "keybagCopy", "deviceKey"],
                     [one[0] for one in found(point, env={**volume.environment, "XDG_STATE_HOME": data})])
    done = protectfs("doctor", "--json", new, ok=False)
    environment.cell("not a mount", 7, done.returncode)
    os.kill(status["pid"], 9)
    harness.wait_until(lambda: [one[0] for one in found(point)] == ["daemon"], what="the dead mount")
    protectfs("unmount", point, env=volume.environment)
    harness.detach(new)


def copies(environment, volume, store, point):
    """A copy of the keybag counts if it is on another file system, and until the keybag changes."""
    here, away = os.path.join(os.path.dirname(store), "copy"), environment.new_path("copy")

    def check(name, wanted):
        text = [line for line in protectfs("doctor", point, env=volume.environment).stdout.splitlines() if "keybag" in line]
        environment.cell(name, (len(wanted), True), (len(text), all(word in line for word, line in zip(wanted, text))))

    def export(*words, **more):
        return protectfs("keybag", "export", store, *words, env=volume.environment, **more)

    check("no copy", ["this machine knows no copy of its keybag"])
    export(here)
    check("a copy on the same disk", [f"protectfs keybag export {store} FILE"])
    export(away)
    check("a copy elsewhere", [])
    protectfs("slot", "add", "--recovery", "--passphrase-file", volume.passphrase_file, store, env=volume.environment)
    check("an older copy", ["was changed after it was copied at 2"])
    export("-", text=False)
    check("a copy for another program", [])


def test_loop_device(environment):
    """A loop device over a file of the mount is found by doctor, and named by lock; one over another file is not."""
    Machine(environment)
    mount = environment.mount()
    run("mount", "-t", "tmpfs", "none", "/sys/block")
    for name, place in (("loop3", mount / "disk image"), ("loop4", mount.path + "-beside/image"), ("loop5", "/image"), ("loop6", None)):
        os.makedirs(f"/sys/block/{name}/loop" if place else f"/sys/block/{name}")
        if place:
            write_file(f"/sys/block/{name}/loop/backing_file", os.fsencode(place) + b"\n")
    loops = [one for one in found(mount.path) if one[0] == "loopDevice"]
    environment.cell("doctor", [("loopDevice", "/dev/loop3")], loops)
    done = mount.command("lock", "--grace", "0", mount.path)
    environment.cell("lock", (True, False, False), tuple(f"/dev/loop{number}" in done.stderr for number in (3, 4, 5)))
    environment.cell("as JSON", 0, mount.command("lock", "--json", mount.path).stderr.count("/dev/loop"))
