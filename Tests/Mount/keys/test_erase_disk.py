"""erase, seen from the disk: the test searches the image of the file system for the bytes of the keys."""

import contextlib
import json
import mmap
import os
import shutil

import device
import harness
import reader

# What is mounted: kind, words for mkfs, mount options, and why overwriting proves nothing there (of which file).
CASES = {
    "ext4": ("ext4", [], "", None),
    "ext4 with inline_data": ("ext4", ["-O", "inline_data", "-I", "256"], "", ("inline", ".key")),
    "ext4 with data=journal": ("ext4", [], "data=journal", ("journal", ".keybag")),
    "ext4 with data=journal in its superblock": ("ext4", ["-O", "has_journal"], "", ("journal", ".keybag")),
    "ext4 with blocks of 1 KiB": ("ext4", ["-b", "1024"], "", None),
    "XFS": ("xfs", [], "", None),
    "Btrfs": ("btrfs", [], "", ("copy-on-write", ".key")),
}


@contextlib.contextmanager
def mounted(kind, image, place, options):
    device.mount_disk(kind, image, place, ",".join(filter(None, ["loop", options])))
    try:
        yield
    finally:
        device.unmount_disk(place)


def secrets(volume):
    """Pieces of the device key and of the keybag's slots that are random, by name."""
    keybag = harness.read_file(reader.keybag_file(volume))
    pieces = {"device key": harness.read_file(reader.device_key_file(volume))}
    for number, offset in enumerate(range(128 + 104, len(keybag) - 64 - 32, 200)):
        pieces[f"keybag, piece {number}"] = keybag[offset:offset + 32]
    return pieces


def found(image, pieces):
    """Which pieces the image has."""
    with open(image, "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as whole:
        return [name for name, piece in pieces.items() if whole.find(piece) >= 0]


def erase(volume, *words, ok=True):
    done = harness.protectfs("erase", "--yes", "--json", *words, volume.path, env=volume.environment, ok=ok)
    return done, json.loads(done.stdout) if done.stdout else None


def on_disk(environment, label, case):
    kind, words, options, doubt = case
    image, place = environment.new_path("image"), environment.new_path("disk")
    device.make_image(kind, image, extra=words)
    if "superblock" in label:
        # The mount table does not show it then.
        harness.run("tune2fs", "-o", "journal_data", image)
    host = environment.volume()
    pieces = secrets(host)
    volume = harness.Volume(place + "/volume", place + "/data", host.code_file, host.passphrase_file)
    with mounted(kind, image, place, options):
        shutil.copytree(host.path, volume.path, symlinks=True)
        shutil.copytree(host.data, volume.data)
    environment.cell(f"{label}: before, all is found", list(pieces), found(image, pieces))
    with mounted(kind, image, place, options):
        _, answer = erase(volume)
    environment.cell(f"{label}: verified", doubt is None, answer["verified"])
    if doubt is None:
        environment.cell(f"{label}: after, nothing is found", [], found(image, pieces))
        environment.cell(f"{label}: nothing is doubted", [], answer["unproven"])
    else:
        reason, end = doubt
        environment.cell(f"{label}: says that it proves nothing", True, any(
            one["reason"] == reason and one["file"].endswith(end) for one in answer["unproven"]))
    return answer


def test_images(environment):
    if os.geteuid() != 0:
        raise harness.Skip("loop devices need root")
    for label, case in CASES.items():
        try:
            on_disk(environment, label, case)
        except harness.Skip as reason:
            environment.skip(label, str(reason))


def test_other_file_systems(environment):
    """Stores that are not on a disk of their own are named, too."""
    if os.geteuid() != 0:
        raise harness.Skip("mounting needs root")
    base = environment.new_path("layers")
    for name in ("lower", "upper", "work"):
        os.makedirs(f"{base}/{name}")
    layers = f"lowerdir={base}/lower,upperdir={base}/upper,workdir={base}/work"
    for kind, options, reason in (("tmpfs", "", "memory"), ("overlay", layers, "layered")):
        place = environment.new_path("other")
        os.mkdir(place)
        done = harness.run("mount", "-t", kind, *(["-o", options] if options else []), "none", place, ok=False)
        if done.returncode != 0:
            environment.skip(kind, done.stderr.strip())
            continue
        try:
            host = environment.volume()
            volume = harness.Volume(place + "/volume", place + "/data", host.code_file, host.passphrase_file)
            shutil.copytree(host.path, volume.path, symlinks=True)
            shutil.copytree(host.data, volume.data)
            text = harness.protectfs("erase", "--yes", volume.path, env=volume.environment).stdout
            environment.cell(f"{kind}: is not called verified", (True, False),
                             ("Not verified" in text, "\nVerified" in text))
            environment.cell(f"{kind}: is named", True, kind in text and "proves nothing" in text)
            shutil.rmtree(volume.data)
            shutil.rmtree(volume.path)
            shutil.copytree(host.path, volume.path, symlinks=True)
            shutil.copytree(host.data, volume.data)
            environment.cell(f"{kind}: the reason", {reason}, {one["reason"] for one in erase(volume)[1]["unproven"]})
        finally:
            device.unmount_disk(place)


def test_clones(environment):
    """Blocks that a clone shares are not overwritten by writing to the file: XFS copies them."""
    if os.geteuid() != 0:
        raise harness.Skip("loop devices need root")
    image, place = environment.new_path("image"), environment.new_path("disk")
    device.make_image("xfs", image)
    host = environment.volume()
    volume = harness.Volume(place + "/volume", place + "/data", host.code_file, host.passphrase_file)
    with mounted("xfs", image, place, ""):
        shutil.copytree(host.path, volume.path, symlinks=True)
        shutil.copytree(host.data, volume.data)
        clone = harness.run("cp", "--reflink=always", reader.device_key_file(volume), place + "/clone", ok=False)
        if clone.returncode != 0:
            raise harness.Skip("this XFS has no clones")
        harness.sync(place)
        _, answer = erase(volume)
        environment.cell("not verified", (False, ["shared"]), (
            answer["verified"], [one["reason"] for one in answer["unproven"]]))
