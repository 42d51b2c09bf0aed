"""Damage by a crash is tolerated and reported until fsck has run; after that it counts as tampering."""

import mmap
import os
import random
import time

import harness
import reader
from damage import Tree, is_detected


def test_crash_and_tampering(environment):
    """The same damage after a crash is tolerated and reported; after fsck it is an error again."""
    reader.load()
    from secondreader.state import State
    environment_mount = environment.mount()
    tree = Tree(environment, environment_mount)
    names = ["page zeroed", "cut by a page", "last page zeroed", "header never written", "whole", "page zeroed later",
             "cut later"]
    for name in names:
        tree.make(name)
    handle = os.open(tree.mount.path, os.O_RDONLY)
    os.fsync(handle)
    os.close(handle)
    harness.sync(tree.mount.path)
    tree.mount.crash()
    with open(reader.state_file(tree.mount.volume), "rb") as file:
        environment.cell("the crashed mount's epoch is open", 1, len(State(file.read()).open_epochs))
    volume = reader.unlock(tree.mount.volume)

    def zero(name, index, keys=volume):
        reader.write_page(keys.backing_path(name), index, bytes(4096))

    def cut(name):
        path = volume.backing_path(name)
        os.truncate(path, os.stat(path).st_size // 4096 * 4096 - 4096)

    zero("page zeroed", 3)
    cut("cut by a page")
    zero("last page zeroed", 9)
    os.truncate(volume.backing_path("header never written"), 0)
    mount = environment.mount(tree.mount.volume, path=tree.mount.path)

    def zeros(name, first, count):
        return tree.contents[name][:first] + bytes(count) + tree.contents[name][first + count:]

    block = 4060
    environment.cell("after a crash: a zeroed page reads as zeros", True,
                     harness.read_file(mount / "page zeroed") == zeros("page zeroed", 3932 + 2 * block, block))
    end = 3932 + 8 * block
    environment.cell("after a crash: a cut file ends at a whole block", True,
                     harness.read_file(mount / "cut by a page") == tree.contents["cut by a page"][:end])
    environment.cell("after a crash: a missing last page ends the file before it or reads as zeros", True,
                     harness.read_file(mount / "last page zeroed").rstrip(b"\0")
                     == tree.contents["last page zeroed"][:end].rstrip(b"\0"))
    environment.cell("after a crash: a file without header is empty", b"",
                     harness.read_file(mount / "header never written"))
    environment.cell("after a crash: a whole file", True,
                     harness.read_file(mount / "whole") == tree.contents["whole"])
    environment.cell("status reports the damage", True, mount.status().get("damage", 0) > 0)
    # Damage that no crash leaves is an error all the same.
    mount.unmount()
    reader.flip(volume.backing_path("whole"), 2 * 4096 + 100)
    mount = environment.mount(tree.mount.volume, path=tree.mount.path)
    environment.cell("after a crash: a changed byte is an error", "detected",
                     is_detected(mount / "whole", tree.contents["whole"]))
    mount.unmount()
    reader.flip(volume.backing_path("whole"), 2 * 4096 + 100)

    checked = harness.protectfs("fsck", "--recovery-file", tree.mount.volume.code_file, tree.mount.volume.path,
                                env=tree.mount.volume.environment, ok=False)
    report = (checked.stdout + checked.stderr).lower()
    environment.cell("fsck names the file", True, "page zeroed" in report)
    with open(reader.state_file(tree.mount.volume), "rb") as file:
        state = State(file.read())
    environment.cell("fsck closes the epochs", ([], False), (state.open_epochs, state.tolerates_all))
    again = harness.protectfs("fsck", "--recovery-file", tree.mount.volume.code_file, tree.mount.volume.path,
                              env=tree.mount.volume.environment, ok=False)
    environment.cell("a second fsck finds nothing", 0, again.returncode)
    mended = reader.unlock(tree.mount.volume)
    departures = [entry.path for entry in mended.walk() if entry.kind == "file"
                  and (entry.file.contents() is None or entry.file.departures)]
    environment.cell("the second reader finds no departure after fsck", [], departures)

    zero("page zeroed later", 3)
    cut("cut later")
    tree.damage = {"page zeroed later": True, "cut later": True}
    environment.mount(tree.mount.volume, path=tree.mount.path)
    tree.check("after fsck: ")


def append_for_ever(path, seed, synced, slot):
    """Appends to a file and tells after each fsync how much of it is safe."""
    choice, whole, length = random.Random(seed), harness.pattern(4 << 20, seed=seed), 0
    handle = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
    while length < len(whole) - 50_000:
        count = choice.choice([1, 10, 100, 4060, 5000, 20_000])
        length += os.pwrite(handle, whole[length:length + count], length)
        if choice.random() < 0.2:
            os.fsync(handle)
            synced[slot:slot + 8] = length.to_bytes(8, "little")
    os.close(handle)


def test_daemon_killed_while_writing(environment):
    """What was synced before the daemon was killed is there, every file opens, and fsck mends the rest."""
    reader.load()
    writers = 6
    mount = environment.mount()
    for turn in range(2 if environment.mode == "quick" else 6):
        synced = mmap.mmap(-1, 4096)
        children = []
        root = os.open(mount.path, os.O_PATH | os.O_DIRECTORY)  # once the mount is gone, its path is a plain directory
        for number in range(writers):
            child = os.fork()
            if child == 0:
                try:
                    path = f"/proc/self/fd/{root}/turn {turn} file {number}"
                    append_for_ever(path, 100 * turn + number, synced, 8 * number)
                finally:
                    os._exit(0)
            children.append(child)
        os.close(root)
        time.sleep(0.3 + 0.2 * turn)
        mount.crash()
        for child in children:
            os.waitpid(child, 0)
        mount = environment.mount(mount.volume, path=mount.path)
        for number in range(writers):
            length = int.from_bytes(synced[8 * number:8 * number + 8], "little")
            whole = harness.pattern(4 << 20, seed=100 * turn + number)
            name = f"turn {turn} file {number}"
            if length == 0 and not os.path.exists(mount / name):
                continue
            contents = harness.read_file(mount / name)
            environment.cell(f"{name}: {length} bytes were synced", True, contents[:length] == whole[:length])
            rest = contents[length:]
            strange = [at for at in range(0, len(rest), 512)
                       if rest[at:at + 512] != whole[length + at:length + at + 512] and rest[at:at + 512].strip(b"\0")]
            # The page with the synced end, and each later one, is as it was once written, or missing.
            environment.cell(f"{name}: nothing strange behind", True, len(strange) <= len(rest) // 4048 + 1)
            with open(mount / name, "ab") as file:
                file.write(b"goes on")
    mount.unmount()
    options = ("--recovery-file", mount.volume.code_file, mount.volume.path)
    harness.protectfs("fsck", *options, env=mount.volume.environment)
    again = harness.protectfs("fsck", *options, env=mount.volume.environment)
    environment.cell("a second fsck finds nothing", True, "0 errors, 0 places" in again.stdout)
    volume = reader.unlock(mount.volume)
    left = [entry.path for entry in volume.walk() if entry.error or entry.kind == "file"
            and (entry.file.contents() is None or entry.file.departures)]
    environment.cell("the second reader finds no departure after fsck", [], left)
