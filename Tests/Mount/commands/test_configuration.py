"""Configuration files: their errors, the order of defaults, and every rule."""

import json
import os

import harness
from namespaces import own_etc
from refusals import FAILURE, UNSUPPORTED, USAGE, refused
from users import OrdinaryUser


class Files:
    """The two files, in an /etc and a home of this test's own."""

    def __init__(self, environment):
        self.system = own_etc(environment)
        home = environment.new_path("xdg")
        os.makedirs(os.path.join(home, "protectfs"))
        os.environ["XDG_CONFIG_HOME"] = home
        self.own = os.path.join(home, "protectfs/config")
        self.write()

    def write(self, system=None, own=None):
        """Both files anew; None for none."""
        for path, text in ((self.system, system), (self.own, own)):
            if os.path.lexists(path):
                os.remove(path)
            if text is not None:
                harness.write_file(path, text if isinstance(text, bytes) else text.encode())


def words_of(done):
    return {(one["key"], one["value"], one["file"], one["line"]) for one in json.loads(done.stdout)["settings"]}


def test_errors_of_the_text(environment):
    files = Files(environment)
    for name, text, line, mention in (
            ("unknown key", "# a comment\n\ninit.ciphers = aes-256-gcm\n", 3, 'unknown key "init.ciphers" (did you mean init.cipher?)'),
            ("no equals sign", "mount.idle 10m\n", 1, "expected KEY = VALUE"),
            ("no value", "mount.idle =\n", 1, "expected a duration"),
            ("a bad duration", "mount.idle = soon\n", 1, "mount.idle = soon: expected a duration"),
            ("never as the longest idle time", "most.idle = 0\n", 1, "expected a duration"),
            ("a grace too long", "lock.grace = 301\n", 1, "at most 300 s"),
            ("a bad class", "mount.default_class = secret\n", 1, "expected complete,"),
            ("a bad cipher", "only.cipher = rot13\n", 1, "expected aes-256-gcm or xchacha20-poly1305"),
            ("a cost below what is allowed", "passphrase.cost = 1 passes 64 MiB\n", 1, "3 to 16 passes"),
            ("a cost that overflows", "least.cost = 3 passes 99999999999999999999 MiB\n", 1, "64 to 4096 MiB"),
            ("a bad slot", "require.slot = key\n", 1, "expected device, passphrase, portable or recovery"),
            ("a rule that allows", "forbid.portable = no\n", 1, "expected yes"),
            ("twice the same key", "mount.idle = 1m\nlock.grace = 1\nmount.idle = 2m\n", 3, "mount.idle is already in line 1"),
            ("not text", b"mount.idle = \xff\n", 1, "not UTF-8 text"),
            ("control character", b"agent.lock = /a\0b: none\n", 1, "agent.lock has a control character"),
            ("a NUL", b"mount.idle = 1m\0\n", 1, "expected a duration"),
            ("control characters", "\x1b[2J = 1\n", 1, "\\x1B[2J"),
            ("too long", "#" * 65537, 1, "longer than 65536 bytes")):
        for place, path, written in (("system", files.system, {"system": text}), ("own", files.own, {"own": text})):
            files.write(**written)
            where = [f"{path}, line {line}: ", mention]
            refused(environment, f"{name}, {place}: config", USAGE, ["config"], mentions=where)
            new = environment.new_path("new")
            refused(environment, f"{name}, {place}: init", USAGE, ["init", new], mentions=where)
            environment.cell(f"{name}, {place}: nothing is made", False, os.path.exists(new))
    volume = environment.volume()
    for words in (["mount", "--recovery-file", volume.code_file, volume.path, environment.base],
                  *(["passphrase", verb, "--recovery-file", volume.code_file, *more, volume.path]
                    for verb, more in (("change", []), ("add", []), ("remove", ["--slot", "1"]))),
                  ["slot", "add", "--recovery", "--recovery-file", volume.code_file, volume.path],
                  ["recovery", "use", "--recovery-file", volume.code_file, volume.path],
                  ["keybag", "import", volume.path, os.path.join(volume.path, ".protectfs.keybag")]):
        refused(environment, f"{' '.join(words[:2])} needs usable files", USAGE, words, volume, mentions=[files.own])
    files.write()
    mount = environment.mount(volume)
    files.write(system="nonsense\n")
    environment.cell("lock needs no file", 0, mount.lock().returncode)
    environment.cell("unlock needs no file", 0, mount.unlock().returncode)
    environment.cell("status needs no file", "unlocked", mount.status()["state"])


def test_whose_the_files_must_be(environment):
    files = Files(environment)
    for place, path in (("system", files.system), ("own", files.own)):
        def cell(name, code, mention, prepare):
            files.write(**{place: "mount.idle = 10m\n"})
            prepare()
            refused(environment, f"{name}, {place}", code, ["config"], mentions=[os.path.dirname(path), mention])

        def other(make):
            os.remove(path)
            make()

        cell("writable by the group", USAGE, "other users can write", lambda: os.chmod(path, 0o664))
        cell("writable by others", USAGE, "other users can write", lambda: os.chmod(path, 0o646))
        cell("of another user", USAGE, "belongs to user 1234", lambda: os.chown(path, 1234, 0))
        cell("a directory", USAGE, "not a regular file", lambda: other(lambda: os.mkdir(path)))
        os.rmdir(path)
        cell("a FIFO", USAGE, "not a regular file", lambda: other(lambda: os.mkfifo(path)))
        cell("a link to nothing", FAILURE, "cannot be read: No such file",
             lambda: other(lambda: os.symlink("nothing", path)))
        os.remove(path)
    files.write(system="mount.idle = 10m\n")
    os.chmod(os.path.dirname(files.system), 0o777)
    refused(environment, "a directory that others can write to", USAGE, ["config"], mentions=["/etc/protectfs: must be"])
    os.chmod(os.path.dirname(files.system), 0o755)
    user = OrdinaryUser(environment)
    os.chmod(files.system, 0o600)
    done = user.run(harness.binary(), "config", ok=False)
    environment.cell("rules that a user cannot read are not skipped", (FAILURE, True),
                     (done.returncode, f"{files.system}: the configuration file cannot be read: Permission denied" in done.stderr))
    # Services are kept out of homes.
    files.write(own="mount.idle = 10m\n")
    os.chmod(os.path.dirname(files.own), 0o700)
    done = user.run("env", f"XDG_CONFIG_HOME={os.environ['XDG_CONFIG_HOME']}", harness.binary(), "config", ok=False)
    environment.cell("a home that may not be entered", (0, False), (done.returncode, "10m" in done.stdout))
    os.chmod(os.path.dirname(files.own), 0o755)
    os.chmod(files.own, 0o600)
    done = user.run("env", f"XDG_CONFIG_HOME={os.environ['XDG_CONFIG_HOME']}", harness.binary(), "config", ok=False)
    environment.cell("a file of one's own that cannot be read", FAILURE, done.returncode)


def test_order_of_defaults(environment):
    files = Files(environment)
    files.write(system="init.cipher = xchacha20-poly1305\npassphrase.cost = 3 passes 64 MiB\nmount.default_class = A\n"
                       "mount.idle = 1h\nlock.grace = 3\n", own="# mine\nmount.idle = 30m # half an hour\nlock.grace=7\r\n")
    environment.cell("config shows what is in force", {
        ("init.cipher", "xchacha20-poly1305", files.system, 1), ("passphrase.cost", "3 passes 64 MiB", files.system, 2),
        ("mount.default_class", "complete", files.system, 3), ("mount.idle", "1800s", files.own, 2),
        ("lock.grace", "7s", files.own, 3)}, words_of(harness.protectfs("config", "--json")))
    shown = harness.protectfs("config").stdout
    environment.cell("and so does its table", [True, True, True],
                     [f"{files.own}: used" in shown, "mount.idle" in shown, "3600s" not in shown])
    volume = environment.volume()
    new = environment.new_path("new")
    made = json.loads(harness.protectfs("init", "--json", "--passphrase-file", volume.passphrase_file, new,
                                        env=volume.environment).stdout)
    environment.cell("cipher", "xchacha20-poly1305", made["cipher"])
    slots = json.loads(harness.protectfs("slot", "list", "--json", new, env=volume.environment).stdout)
    environment.cell("cost", [(3, 64 << 20)], [(one["passes"], one["memory"]) for one in slots if one["passes"]])
    named = environment.new_path("named")
    made = json.loads(harness.protectfs("init", "--json", "--cipher", "aes-256-gcm", "--passphrase-file",
                                        volume.passphrase_file, named, env=volume.environment).stdout)
    environment.cell("--cipher is stronger", "aes-256-gcm", made["cipher"])

    def facts(mount):
        status = mount.status()
        return status["defaultClass"], status["idleLimit"]

    mount = environment.mount(volume)
    environment.cell("class of the system's file, idle time of the user's", ("complete", 1800), facts(mount))
    watch = harness.Watch(mount)
    watch.next()
    for words, grace in (((), 7), (("--grace", "2"), 2)):
        mount.lock(*words)
        event = watch.next()
        environment.cell(f"lock {' '.join(words)}", ("willLock", grace), (event["event"], event["grace"]))
        mount.unlock()
        while watch.next()["event"] != "unlocked":
            pass
    watch.close()
    mount = environment.remount(mount, options=("default_class=B,idle=5m",))
    environment.cell("-o is stronger", ("completeUnlessOpen", 300), facts(mount))
    mount = environment.remount(mount, options=("idle=0",))
    environment.cell("-o idle=0 turns it off", None, facts(mount)[1])
    files.write()
    mount = environment.remount(mount)
    environment.cell("without files", ("completeUntilFirstUserAuthentication", None), facts(mount))


def test_rules_of_mounts(environment):
    files = Files(environment)
    files.write(system="least.default_class = completeUnlessOpen\nmost.idle = 15m\nmost.grace = 4\n")
    volume = environment.volume()

    def wrong(name, option, mention, line):
        refused(environment, name, USAGE, ["mount", "-o", option, "--recovery-file", volume.code_file, volume.path,
                                          environment.new_path("none")], volume,
                mentions=[mention, f"{files.system}, line {line}, has the rule"])

    wrong("a weaker class", "default_class=C", "-o default_class=completeUntilFirstUserAuthentication", 1)
    wrong("a longer idle time", "idle=16m", "-o idle=960 is not allowed", 2)
    wrong("no idle time", "idle=0", "a mount that never locks by itself is not allowed", 2)
    mount = environment.mount(volume)
    status = mount.status()
    environment.cell("what nobody chose follows the rules", ("completeUnlessOpen", 900), (status["defaultClass"], status["idleLimit"]))
    os.mkdir(mount / "directory")
    environment.cell("a weaker default of a directory", "EPERM", harness.outcome(lambda: harness.set_class(mount / "directory", "C")))
    done = mount.command("class", "set", "C", mount / "directory", ok=False)
    environment.cell("class set says why", (2, True), (done.returncode, f"{files.system}, line 1, has the rule" in done.stderr))
    environment.cell("a stronger one", "works", harness.outcome(lambda: harness.set_class(mount / "directory", "A")))
    harness.write_file(mount / "file", b"x")
    environment.cell("class of a file", "completeUnlessOpen", harness.get_class(mount / "file"))
    environment.cell("a file's own class may be weaker", "works", harness.outcome(lambda: harness.set_class(mount / "file", "D")))
    watch = harness.Watch(mount)
    watch.next()
    for words in ((), ("--grace", "200")):
        mount.lock(*words)
        environment.cell(f"grace of lock {' '.join(words)}", 4, watch.next()["grace"])
        mount.unlock()
        while watch.next()["event"] != "unlocked":
            pass
    watch.close()
    mount = environment.remount(mount, options=("default_class=A,idle=14m",))
    environment.cell("stricter options", 840, mount.status()["idleLimit"])
    mount.unmount()
    files.write()
    mount = environment.mount(volume)
    harness.set_class(mount.path, "D")
    mount.unmount()
    files.write(system="least.default_class = B\n")
    mount = environment.mount(volume)
    harness.write_file(mount / "new", b"x")
    environment.cell("a default that the volume has from elsewhere", ("completeUnlessOpen", "completeUnlessOpen"),
                     (harness.get_class(mount / "new"), mount.status()["defaultClass"]))


def test_user_against_system(environment):
    files = Files(environment)
    files.write(system="most.idle = 15m\nleast.cost = 4 passes 64 MiB\n", own="mount.idle = 1h\n")
    refused(environment, "a default that the system forbids", USAGE, ["config"], mentions=[
        f"{files.own}, line 1: mount.idle = 3600s is not allowed: {files.system}, line 1, has the rule most.idle = 900s"])
    files.write(system="most.idle = 15m\n", own="most.idle = 1h\n")
    volume = environment.volume()
    words = ["mount", "-o", "idle=30m", "--recovery-file", volume.code_file, volume.path, environment.new_path("none")]
    refused(environment, "a weaker rule lifts none", USAGE, words, volume, mentions=[files.system])
    files.write(system="most.idle = 1h\n", own="most.idle = 15m\n")
    refused(environment, "a stricter rule adds to it", USAGE, words, volume, mentions=[files.own])
    user = OrdinaryUser(environment)
    user.variables.pop("XDG_CONFIG_HOME")
    files.write(system="most.idle = 15m\n")
    done = user.run(harness.binary(), "mount", "-o", "idle=1h", "--recovery-file", user.code_file, user.volume, user.path, ok=False)
    environment.cell("an ordinary user is bound", (USAGE, True), (done.returncode, f"{files.system}, line 1" in done.stderr))
    files.write(system="most.idle = 15m\n", own="mount.idle = 10m\n")
    os.chown(files.own, 65534, 0)
    user.variables["XDG_CONFIG_HOME"] = os.environ["XDG_CONFIG_HOME"]
    done = user.run(harness.binary(), "config", "--json")
    environment.cell("with a file of their own", {("most.idle", "900s", files.system, 1), ("mount.idle", "600s", files.own, 1)},
                     words_of(done))


def test_rules_of_keys(environment):
    files = Files(environment)
    volume = environment.volume()
    variables = volume.environment
    secret = ["--passphrase-file", volume.passphrase_file]

    def new_refused(name, system, options, mention):
        files.write(system=system)
        new = environment.new_path("new")
        refused(environment, name, USAGE, ["init", *options, *secret, new], variables=variables,
                mentions=[mention, f"{files.system}, line 1, has the rule"])
        environment.cell(f"{name}: nothing is made", False, os.path.exists(new))

    new_refused("init --portable", "forbid.portable = yes\n", ["--portable"], "works without a device key")
    new_refused("init --device-key none", "forbid.portable = yes\n", ["--device-key", "none"], "works without a device key")
    new_refused("init without device key", "require.slot = device\n", ["--device-key", "none"], "without a device key")
    new_refused("init without portable passphrase", "require.slot = portable\n", [], "without a portable passphrase")
    new_refused("init --cipher", "only.cipher = xchacha20-poly1305\n", ["--cipher", "aes-256-gcm"], "the cipher aes-256-gcm")

    files.write(system="only.cipher = xchacha20-poly1305\nleast.cost = 4 passes 64 MiB\nrequire.slot = recovery\n"
                       "require.slot = portable\n")
    new = environment.new_path("new")
    made = json.loads(harness.protectfs("init", "--json", "--portable", *secret, new, env=variables).stdout)
    slots = json.loads(harness.protectfs("slot", "list", "--json", new, env=variables).stdout)
    environment.cell("what nobody chose follows the rules", ("xchacha20-poly1305", True),
                     (made["cipher"], all(one["passes"] >= 4 for one in slots if one["passes"])))
    again = ["--new-passphrase-file", volume.passphrase_file]
    before = [one["slot"] for one in slots if one["kind"] == "passphrase"]
    harness.protectfs("slot", "add", *secret, *again, new, env=variables)
    slots = json.loads(harness.protectfs("slot", "list", "--json", new, env=variables).stdout)
    environment.cell("slot add: cost", True, all(one["passes"] >= 4 for one in slots if one["passes"]))
    bound = [one["slot"] for one in slots if one["kind"] == "passphrase" and one["boundToDeviceKey"]]
    refused(environment, "slot remove of the last portable one", USAGE,
            ["slot", "remove", "--slot", str(before[-1]), *secret, new], variables=variables,
            mentions=["without a portable passphrase is not allowed", "line 4", "the slot is not removed"])
    harness.protectfs("slot", "remove", "--slot", str(bound[-1]), *secret, new, env=variables)
    copy = os.path.join(volume.path, ".protectfs.keybag")
    files.write(system="forbid.portable = yes\n")
    refused(environment, "slot add --portable", USAGE,
            ["slot", "add", "--portable", *secret, *again, volume.path], volume, mentions=["forbid.portable"])
    refused(environment, "recovery use --portable", USAGE,
            ["recovery", "use", "--portable", "--recovery-file", volume.code_file, *again, volume.path], volume,
            mentions=["forbid.portable"])
    harness.protectfs("slot", "add", *secret, *again, volume.path, env=variables)
    environment.cell("keybag", True, os.path.exists(copy))


def test_cost_beyond_this_machine(environment):
    """A cost that the machine has no memory for is refused before anything is made, whatever asks for it."""
    files = Files(environment)
    little = environment.new_path("meminfo")
    harness.write_file(little, b"MemTotal: 800000 kB\nMemFree: 400000 kB\nMemAvailable: 400000 kB\n")
    harness.run("mount", "--bind", little, "/proc/meminfo")
    volume = environment.volume()
    for key in ("passphrase.cost", "least.cost"):
        files.write(system=f"{key} = 3 passes 4096 MiB\n")
        new = environment.new_path("new")
        refused(environment, key, UNSUPPORTED, ["init", "--passphrase-file", volume.passphrase_file, new],
                variables=volume.environment, mentions=["passes 4096 MiB, as the configuration files say", "only 195 MiB"])
        environment.cell(f"{key}: nothing is made", False, os.path.exists(new))


def test_import_keeps_required_slots(environment):
    files = Files(environment)
    volume = environment.volume()
    secret = ["--passphrase-file", volume.passphrase_file]
    copy = environment.new_path("copy")
    harness.protectfs("keybag", "export", volume.path, copy, env=volume.environment)
    harness.protectfs("slot", "add", "--portable", "--recovery-file", volume.code_file, "--new-passphrase-file",
                      volume.passphrase_file, volume.path, env=volume.environment)
    files.write(system="require.slot = portable\n")
    words = ["keybag", "import", "--accept-keybag", *secret, volume.path, copy]
    refused(environment, "a keybag without a slot that is required", USAGE, words, volume, mentions=["portable passphrase"])
    files.write(system="require.slot = recovery\n")
    environment.cell("one with all of them", 0, harness.protectfs(*words, env=volume.environment, ok=False).returncode)
