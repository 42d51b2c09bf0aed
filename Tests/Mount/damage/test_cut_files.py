"""Truncated backing files: every cut gives an error or the right bytes, never fewer bytes without an error."""

import errno
import json
import os

import harness
import reader
from damage import Tree, inspect
from harness import PAGE

HEADER = 128
SIZES = (0, 100, 5000, 40_000)


def places(length):
    """Where a backing file of that length is cut: in the header, beside each page border, in the last page, in the tail."""
    wanted = {0, 1, HEADER - 1, HEADER, HEADER + 1, PAGE // 2, length - 1}
    for border in range(PAGE, length + PAGE, PAGE):
        wanted |= {border - 1, border, border + 1, border + PAGE // 2}
    return sorted(place for place in wanted if 0 <= place < length)


def judge(environment, mount, tree, cuts):
    """Each file by what is left of it: `cuts` maps names to (length before, length after)."""
    for name, (before, after) in cuts.items():
        seen = inspect(mount / name, tree.contents[name])
        # Bytes after the last whole page only give the length of the last block, which the block has as well.
        if before // PAGE == after // PAGE:
            environment.cell(f"{name}: nothing of its pages is gone", {"right"}, seen or {"right"})
        else:
            environment.cell(f"{name}: cut", (True, set()), ("EIO" in seen, seen - {"EIO", "right"}))
        environment.cell(f"{name}: stat", "works", harness.outcome(os.stat, mount / name))


def make(environment, mount, lengths):
    """A file for each class, size and place of a cut."""
    tree = Tree(environment, mount)
    for letter in "ACD":
        for size in SIZES:
            for place in places(lengths[size]):
                tree.make(f"{letter} {size} at {place}", size=size, protection=letter)
    tree.make("untouched")
    return tree


def lengths_below(environment):
    """Size -> length of the backing file."""
    mount = environment.mount()
    for size in SIZES:
        harness.write_file(mount / str(size), harness.pattern(size))
    mount.unmount()
    volume = reader.unlock(mount.volume)
    return {size: os.stat(volume.backing_path(str(size))).st_size for size in SIZES}


def cut_all(volume, tree):
    cuts = {}
    for name in tree.contents:
        if " at " not in name:
            continue
        path, place = volume.backing_path(name), int(name.split(" at ")[1])
        cuts[name] = (os.stat(path).st_size, place)
        os.truncate(path, place)
    return cuts


def ends_in_zeros(volume, name, place):
    """Whether the first page ends with zeros where it is cut: then nothing is missing, as a file reads as zeros behind its end."""
    with open(volume.backing_path(name), "rb") as file:
        return not any(file.read(PAGE)[place:])


def test_cut_while_unmounted(environment):
    reader.load()
    tree = make(environment, environment.mount(), lengths_below(environment))
    tree.mount.unmount()
    cuts = cut_all(reader.unlock(tree.mount.volume), tree)
    mount = environment.mount(tree.mount.volume, path=tree.mount.path)
    judge(environment, mount, tree, cuts)
    environment.cell("untouched", {"right"}, inspect(mount / "untouched", tree.contents["untouched"]))
    mount.unmount()
    done = harness.protectfs("fsck", "--json", "--recovery-file", mount.volume.code_file, mount.volume.path,
                             env=mount.volume.environment, ok=False)
    found = {os.path.basename(one["path"]) for one in json.loads(done.stdout)["findings"]
             if one["severity"] != "note"}
    lost = {name for name, (before, after) in cuts.items() if before // PAGE != after // PAGE}
    environment.cell("fsck names each, and no other", (set(), set()), (lost - found, found & {"untouched"}))
    print(f"        {len(cuts)} files, {len(lost)} of them short of pages", flush=True)


def test_cut_while_open(environment):
    """Cut below the mount while a program has the file open: what the kernel has cached may be read on."""
    reader.load()
    tree = make(environment, environment.mount(), lengths_below(environment))
    mount = environment.remount(tree.mount)
    handles = {name: os.open(mount / name, os.O_RDONLY) for name in tree.contents}
    try:
        volume = reader.unlock(mount.volume)
        whole = {name for name in tree.contents if " at " in name and ends_in_zeros(volume, name, int(name.split(" at ")[1]))}
        cuts = cut_all(volume, tree)
        for name, (before, after) in cuts.items():
            wanted, seen = tree.contents[name], set()
            for at in range(0, len(wanted), PAGE):
                try:
                    seen.add("right" if os.pread(handles[name], PAGE, at) == wanted[at:at + PAGE] else "wrong")
                except OSError as error:
                    seen.add(errno.errorcode[error.errno])
            environment.cell(f"{name}, open", set(), seen - {"EIO", "right"})
            if wanted and after < PAGE and name not in whole:
                environment.cell(f"{name}, open: nothing is left to read", True, "EIO" in seen)
    finally:
        for handle in handles.values():
            os.close(handle)
    environment.cell("untouched", {"right"}, inspect(mount / "untouched", tree.contents["untouched"]))
