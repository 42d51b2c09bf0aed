"""New class keys: helpers to rotate, to compare everything, and to attack a copy of the store with an old keybag."""

import os
import shutil

import harness
import reader
from harness import protectfs, read_file, write_file

CLASSES = ("complete", "completeUnlessOpen", "completeUntilFirstUserAuthentication", "none")
FAILURE, USAGE, AUTHENTICATION, DAMAGED = 1, 2, 3, 4


def rotate(volume, *words, ok=True, retires=True):
    """New keys. With `retires` the former ones leave the keybag."""
    return protectfs("keys", "rotate", *(["--retire"] if retires else []), "--passphrase-file", volume.passphrase_file,
                     *words, volume.path, env=volume.environment, ok=ok)


def retire(volume, *words, ok=True):
    """The former keys leave the keybag."""
    return protectfs("keys", "retire", "--passphrase-file", volume.passphrase_file, *words, volume.path,
                     env=volume.environment, ok=ok)


def take_code(environment, volume, done):
    """Keeps the new recovery code, as a person who writes it down would. The old one's file."""
    old, volume.code_file = volume.code_file, environment.new_path("code")
    code, = (line.strip() for line in done.stdout.splitlines() if line.startswith("    "))
    write_file(volume.code_file, code.encode() + b"\n")
    return old


def fill(mount, size=9000):
    """Files of every class, some with attributes and in directories, and an empty one. {path: content}."""
    contents = {}
    os.makedirs(mount / "a/b")
    for index, name in enumerate(CLASSES):
        for place in ("", "a/", "a/b/"):
            path = f"{place}{name}"
            contents[path] = os.urandom(size + index)
            write_file(mount / path, contents[path])
            mount.command("class", "set", name, mount / path)
    os.setxattr(mount / "a/none", "user.note", b"kept")
    os.utime(mount / "a/none", ns=(1_000_000_000, 2_000_000_000))
    contents["empty"] = b""
    write_file(mount / "empty", b"")
    return contents


def shown(mount, contents):
    """What is read of each file; an error's name where it cannot be."""
    found = {}
    for path in contents:
        try:
            found[path] = read_file(mount / path)
        except OSError as error:
            found[path] = error.strerror
    return found


def headers(store):
    """{path: the first 128 bytes} of the files in a store, without what is being made."""
    found = {}
    for place, _, names in os.walk(store):
        for path in (os.path.join(place, name) for name in names if not name.startswith(".protectfs.")):
            # A file may be replaced meanwhile, and is then there under the same name.
            if not os.path.islink(path):
                found[path] = read_file(path)[:128]
    return found


def generations(store):
    return sorted({int.from_bytes(header[10:12], "little") for header in headers(store).values()})


def opened_by(keys, store):
    """How many files have a file key that one of the old keys opens, whatever generation their headers name."""
    primitives = reader.load().primitives
    count = 0
    for header in headers(store).values():
        number, wrapped, data = header[4], header[32:112], keys.wrap_data(header)
        for (kind, _), key in keys.every.items():
            if kind not in (1, 2, 3, 4, 7):
                continue
            for generation in (header[10:12], bytes(2)):
                try:
                    if number == 2:
                        info = b"protectfs1/hpke\0" + keys.uuid + primitives.x25519_public(key)
                        primitives.hpke_open(key, info, data, wrapped)
                    else:
                        wrap = primitives.kdf(key, "wrap", keys.uuid + bytes([number]) + generation)
                        primitives.xchacha_open(wrap, wrapped[:24], data, wrapped[24:72])
                except Exception:  # whatever the library says of a wrong key
                    continue
                count += 1
                break
            else:
                continue
            break
    return count


def attack(environment, volume, keybag):
    """The old keybag beside a copy of the store, on a machine that has the old device key and no memory of the volume."""
    place = environment.new_path("attack")
    shutil.copytree(volume.path, os.path.join(place, "volume"), symlinks=True)
    os.makedirs(os.path.join(place, "data", "protectfs"))
    key = reader.device_key_file(volume)
    shutil.copy(key, os.path.join(place, "data", "protectfs"))
    write_file(os.path.join(place, "volume", ".protectfs.keybag"), keybag)
    return harness.Volume(os.path.join(place, "volume"), os.path.join(place, "data"), volume.code_file,
                          volume.passphrase_file)


def mount_accepting(environment, volume):
    """Mounts and unlocks a volume whose new keybag this machine may not have recorded, because the command was killed."""
    path = environment.new_path("mount")
    os.makedirs(path, mode=0o500)
    protectfs("mount", "--accept-keybag", "--no-unlock", volume.path, path, env=volume.environment)
    mount = harness.Mount(volume, path)
    environment.mounts.append(mount)
    # The recovery code that a killed run has shown may be valid or not.
    mount.command("unlock", "--passphrase-file", volume.passphrase_file, path)
    return mount


def check_what_stays(environment, mount):
    """A rotation keeps what `fill` has set."""
    environment.cell("classes", list(CLASSES),
                     [os.getxattr(mount / name, "user.protection").decode() for name in CLASSES])
    environment.cell("attributes and times", (b"kept", 2_000_000_000),
                     (os.getxattr(mount / "a/none", "user.note"), os.stat(mount / "a/none").st_mtime_ns))


def check_the_end(environment, volume, code):
    """After a rotation the recovery code from before it opens nothing, and fsck finds nothing."""
    path = environment.new_path("mount")
    os.makedirs(path, mode=0o500)
    done = protectfs("mount", "--recovery-file", code, volume.path, path, env=volume.environment, ok=False)
    environment.cell("the old recovery code", AUTHENTICATION, done.returncode)
    environment.cell("fsck", 0, protectfs("fsck", "--recovery-file", volume.code_file, volume.path,
                                          env=volume.environment, ok=False).returncode)
