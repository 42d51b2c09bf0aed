"""A store that is a FUSE file system and loses what was not synced: see losing_store.c."""

import os
import shutil
import signal
import stat
import subprocess

import harness
from built import built

SOURCE = os.path.join(harness.SUPPORT, "losing_store.c")
BLOCK = 4096


def program(environment):
    """The file system, compiled once."""
    compiler = next((name for name in ("cc", "clang", "gcc") if shutil.which(name)), None)
    if not compiler:
        raise harness.Skip("there is no C compiler")
    flags = harness.run("pkg-config", "--cflags", "--libs", "fuse3", ok=False).stdout.split()
    return built(environment, "losing_store", lambda path: harness.run(compiler, "-O1", "-o", path, SOURCE, *flags, timeout=None))


class LosingStore:
    """A directory served by losing_store; `cut` loses what was not synced and serves the rest again."""

    def __init__(self, environment):
        if os.geteuid() != 0:
            raise harness.Skip("only root can mount a tmpfs for the store")
        self.program = program(environment)
        self.place, self.path = environment.new_path("losing"), environment.new_path("store")
        self.process, self.turn = None, 0
        os.makedirs(self.path)
        os.makedirs(self.place)
        # Inode numbers are not used again there.
        harness.run("mount", "-t", "tmpfs", "-o", "size=2g", "tmpfs", self.place)
        self.serve(self.new_live())

    def new_live(self):
        self.turn += 1
        live = os.path.join(self.place, f"live{self.turn}")
        os.makedirs(live)
        return live

    def serve(self, live):
        self.live, self.record = live, os.path.join(self.place, f"record{self.turn}")
        os.makedirs(self.record)
        words = [self.program, self.live, self.record, self.path, "-f", "-o", "allow_other,default_permissions"]
        # libfuse complains of its own default.
        self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        harness.wait_until(lambda: any(row[1] == self.path for row in harness.mount_table()), what="the losing store")

    def stop(self):
        """Ends the file system: nothing more arrives after the step that is being made durable."""
        self.process.send_signal(signal.SIGUSR1)
        self.process.wait()
        self.process = None
        harness.detach(self.path)

    def cut(self, choice):
        """Loses power, if it has not stopped yet. Gives the number of pages, sizes and lists that were not durable."""
        if self.process:
            self.stop()
        old, record, live = self.live, self.record, self.new_live()
        recovery = Recovery(old, record, choice)
        recovery.directory(os.lstat(old).st_ino, live)
        shutil.rmtree(old)
        shutil.rmtree(record)
        self.serve(live)
        return recovery.unsynced

    def close(self):
        if self.process:
            self.stop()
        harness.run("umount", "-l", self.place, ok=False)


class Recovery:
    """Makes the tree after a power cut: names are as they were durable, or all as they were last; pages of a file and its
    size each are one of the two."""

    def __init__(self, live, record, choice):
        self.live, self.record, self.choice, self.unsynced = live, record, choice, 0
        self.kept = choice.choice([0, 0, 0.1, 0.5, 0.9, 1])
        self.keeps_names = choice.random() < self.kept
        self.paths, self.made = {}, {}
        for directory, directories, files in os.walk(live):
            for name in [".", *directories, *files]:
                path = os.path.normpath(os.path.join(directory, name))
                self.paths[os.lstat(path).st_ino] = path

    def entries(self, inode):
        """(type, inode, mode, owner, group, name, more) of a directory, and its own (mode, owner, group)."""
        durable, last, own = None, None, None
        path = os.path.join(self.record, f"d{inode}")
        if os.path.exists(path):
            durable = []
            with open(path, encoding="ascii") as lines:
                for line in lines:
                    words = line.rstrip("\n").split(" ")
                    if words[0] == ".":
                        own = (int(words[2], 8), int(words[3]), int(words[4]))
                        continue
                    kind, number, mode = int(words[0], 8), int(words[1]), int(words[2], 8)
                    more = bytes.fromhex(words[6]) if stat.S_ISLNK(kind) else int(words[6], 16)
                    durable.append((kind, number, mode, int(words[3]), int(words[4]), bytes.fromhex(words[5]), more))
        where = self.paths.get(inode)
        if where is not None and stat.S_ISDIR(os.lstat(where).st_mode):
            last = []
            for name in os.listdir(os.fsencode(where)):
                found = os.lstat(os.path.join(os.fsencode(where), name))
                link = stat.S_ISLNK(found.st_mode)
                more = os.readlink(os.path.join(os.fsencode(where), name)) if link else found.st_rdev
                last.append((stat.S_IFMT(found.st_mode), found.st_ino, stat.S_IMODE(found.st_mode), found.st_uid,
                             found.st_gid, name, more))
        if last is not None and sorted(last) != sorted(durable or []):
            self.unsynced += 1
        chosen = last if self.keeps_names and last is not None else durable
        return chosen or [], own

    def directory(self, inode, target):
        entries, own = self.entries(inode)
        for kind, number, mode, owner, group, name, more in entries:
            path = os.path.join(os.fsencode(target), name)
            if stat.S_ISDIR(kind):
                os.mkdir(path)
                os.chown(path, owner, group)
                os.chmod(path, mode)
                self.directory(number, os.fsdecode(path))
            elif number in self.made:
                os.link(self.made[number], path, follow_symlinks=False)
            else:
                self.made[number] = path
                if stat.S_ISLNK(kind):
                    os.symlink(more, path)
                elif stat.S_ISREG(kind):
                    self.file(number, path)
                else:
                    os.mknod(path, kind | mode, more)
                os.chown(path, owner, group, follow_symlinks=False)
                if not stat.S_ISLNK(kind):
                    os.chmod(path, mode)
        if own:
            os.chmod(target, own[0])
            os.chown(target, own[1], own[2])

    def file(self, inode, path):
        durable_path = os.path.join(self.record, f"f{inode}")
        durable = harness.read_file(durable_path) if os.path.exists(durable_path) else b""
        last_path = self.paths.get(inode)
        last = harness.read_file(last_path) if last_path is not None else durable
        size = len(last) if self.choice.random() < self.kept else len(durable)
        content = bytearray(size)
        self.unsynced += 1 if len(last) != len(durable) else 0
        for at in range(0, size, BLOCK):
            old, new = durable[at:at + BLOCK], last[at:at + BLOCK]
            self.unsynced += 1 if old != new else 0
            page = new if self.choice.random() < self.kept else old
            content[at:at + len(page)] = page[:size - at]
        harness.write_file(path, bytes(content[:size]))
        source = durable_path if os.path.exists(durable_path) else last_path
        for name in os.listxattr(source) if source else []:
            os.setxattr(path, name, os.getxattr(source, name))
