"""Programs that make incremental backups of a store, and the fresh machine on which a backup is restored."""

import os
import shutil

import harness


class Mirror:
    """A program that makes one directory like another."""

    def __init__(self, environment, words):
        self.environment, self.words = environment, words
        self.place = environment.new_path("backup")
        os.makedirs(self.place)

    def back_up(self, store):
        named = {"STORE": store, "BACKUP": self.place}
        words = [named.get(word.rstrip("/."), word).rstrip("/") + word[len(word.rstrip("/.")):] for word in self.words]
        harness.run(*words, env={**os.environ, "HOME": self.environment.base, "UNISON": self.place + ".unison"})

    def restore(self, target):
        harness.run("cp", "-a", self.place, target)


class Tar(Mirror):
    """Archives of what has changed since the one before, which are extracted one after the other."""

    def __init__(self, environment, _):
        super().__init__(environment, [])
        self.count = 0

    def back_up(self, store):
        self.count += 1
        harness.run("tar", "--xattrs", "--xattrs-include=*", "-g", self.place + ".snar", "-C", store, "-cf",
                    f"{self.place}/{self.count}.tar", ".")

    def restore(self, target):
        os.makedirs(target)
        for number in range(1, self.count + 1):
            harness.run("tar", "--xattrs", "--xattrs-include=*", "-g", "/dev/null", "-C", target, "-xpf",
                        f"{self.place}/{number}.tar")


class Restic(Mirror):
    def __init__(self, environment, _):
        super().__init__(environment, [])
        self.run("init")

    def run(self, *words, **more):
        harness.run("restic", "-q", "-r", self.place, *words, **more, env={
            **os.environ, "RESTIC_PASSWORD": "a", "XDG_CACHE_HOME": self.place + ".cache", "GOMAXPROCS": "2"})

    def back_up(self, store):
        self.run("backup", ".", cwd=store)

    def restore(self, target):
        self.run("restore", "latest", "--target", target)


class Borg(Mirror):
    def __init__(self, environment, _):
        super().__init__(environment, [])
        self.count = 0
        self.run("init", "-e", "none", self.place)

    def run(self, *words, **more):
        harness.run("borg", *words, **more, env={**os.environ, "BORG_BASE_DIR": self.place + ".base",
                                                 "BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK": "yes"})

    def back_up(self, store):
        self.count += 1
        self.run("create", f"{self.place}::{self.count}", ".", cwd=store)

    def restore(self, target):
        os.makedirs(target)
        self.run("extract", f"{self.place}::{self.count}", cwd=target)


#: Name -> (how it is run, its words). The first of the words is the program.
TOOLS = {
    "rsync": (Mirror, ["rsync", "-aHAX", "--delete", "STORE/", "BACKUP/"]),
    "rsync --checksum": (Mirror, ["rsync", "-aHAX", "--delete", "--checksum", "STORE/", "BACKUP/"]),
    "cp -au": (Mirror, ["cp", "-au", "STORE/.", "BACKUP/"]),
    "tar -g": (Tar, ["tar"]),
    "rclone": (Mirror, ["rclone", "sync", "--links", "STORE", "BACKUP"]),
    "unison": (Mirror, ["unison", "-batch", "-silent", "-times", "-owner", "-group", "-perms", "-1", "-force", "STORE",
                        "STORE", "BACKUP"]),
    "restic": (Restic, ["restic"]),
    "borg": (Borg, ["borg"]),
}
#: These keep no extended attributes.
WITHOUT_ATTRIBUTES = ("rclone", "unison")
#: These are installed where tests run. The others are skipped where they are missing.
EVERYWHERE = ("rsync", "rsync --checksum", "cp -au", "tar -g")


def tools(environment, names):
    """Those that are installed, by name. The others are counted as skipped."""
    found = {}
    for name in names:
        kind, words = TOOLS[name]
        if shutil.which(words[0]):
            found[name] = kind(environment, words)
        else:
            environment.skip(name, f"{words[0]} is not installed")
    return found


def on_a_fresh_machine(environment, tool, code_file):
    """The restored backup, mounted where nobody knows the volume: by its recovery code alone."""
    place, data = environment.new_path("restored"), environment.new_path("machine")
    tool.restore(place)
    os.makedirs(data)
    return environment.mount(harness.Volume(place, data, code_file, None))
