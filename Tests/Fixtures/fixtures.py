"""Frozen volumes: packed so that git keeps their attributes, unpacked, and listed as a mount shows them."""

import contextlib
import errno
import hashlib
import io
import json
import os
import stat
import tarfile

HERE = os.path.dirname(os.path.abspath(__file__))
META = "meta.json"


#: A volume of format 1, which was never released: every program refuses it.
NEVER_RELEASED = "v1-without-device-key"


def names():
    """The frozen volumes that every version reads, by name."""
    found = (name[:-len(".tar.xz")] for name in os.listdir(HERE) if name.endswith(".tar.xz"))
    return sorted(name for name in found if name != NEVER_RELEASED)


def expected(name):
    """What was listed when the volume was made."""
    with open(os.path.join(HERE, name + ".json"), encoding="ascii") as file:
        return json.load(file)


def text(name):
    """A name or target as JSON takes it: other bytes than ASCII, and the backslash, as \\xNN."""
    return "".join(chr(byte) if 32 <= byte < 127 and byte != 92 else f"\\x{byte:02x}" for byte in name)


# Packing: an ordinary tar, and beside the files what tar or git might lose.

def _walk(top):
    for place, directories, files in os.walk(top):
        directories.sort()
        for name in sorted(directories + files):
            path = os.path.join(place, name)
            yield path, os.path.relpath(path, top)


def pack(top, archive):
    """Writes everything below top; the same files give the same bytes."""
    meta = {}
    seen = {}
    with tarfile.open(archive, "x:xz", format=tarfile.PAX_FORMAT, preset=9) as tar:
        for path, name in _walk(top):
            status = os.lstat(path)
            if stat.S_ISSOCK(status.st_mode):
                continue
            attributes = {}
            if not stat.S_ISLNK(status.st_mode):
                attributes = {key: os.getxattr(path, key).hex() for key in sorted(os.listxattr(path))
                              if key.startswith("user.")}
            meta[name] = {"mode": stat.S_IMODE(status.st_mode), "time": status.st_mtime_ns, "attributes": attributes}
            entry = tar.gettarinfo(path, name)
            entry.uid = entry.gid = 0
            entry.uname = entry.gname = ""
            entry.mtime = status.st_mtime_ns // 1_000_000_000
            first = seen.setdefault((status.st_dev, status.st_ino), name)
            if entry.isreg() or entry.islnk():
                if first == name:
                    entry.type, entry.linkname, entry.size = tarfile.REGTYPE, "", status.st_size
                else:
                    entry.type, entry.linkname, entry.size = tarfile.LNKTYPE, first, 0
            if entry.isreg():
                with open(path, "rb") as file:
                    tar.addfile(entry, file)
            else:
                tar.addfile(entry)
        data = json.dumps(meta, sort_keys=True).encode()
        entry = tarfile.TarInfo(META)
        entry.size = len(data)
        tar.addfile(entry, io.BytesIO(data))


def unpack(name, top):
    """Puts the frozen volume below top, as it was."""
    os.makedirs(top)
    with tarfile.open(os.path.join(HERE, name + ".tar.xz")) as tar:
        meta = json.load(tar.extractfile(META))
        for entry in tar:
            path = os.path.join(top, entry.name)
            if entry.isdir():
                os.mkdir(path)
            elif entry.issym():
                os.symlink(entry.linkname, path)
            elif entry.isfifo():
                os.mkfifo(path)
            elif entry.islnk():
                os.link(os.path.join(top, entry.linkname), path)
            elif entry.name != META:
                data = tar.extractfile(entry).read()
                with open(path, "xb") as file:
                    for start in range(0, len(data), 4096):
                        page = data[start:start + 4096]
                        if page.strip(b"\0"):
                            file.seek(start)
                            file.write(page)
                    file.truncate(len(data))
    for name, kept in sorted(meta.items(), reverse=True):
        path = os.path.join(top, name)
        if not os.path.islink(path):
            for key, value in kept["attributes"].items():
                os.setxattr(path, key, bytes.fromhex(value))
            os.chmod(path, kept["mode"])
        os.utime(path, ns=(kept["time"], kept["time"]), follow_symlinks=False)


# Listing: what a mount shows, errors included.

def _try(action, *arguments):
    try:
        return action(*arguments)
    except OSError as error:
        return {"error": errno.errorcode.get(error.errno, str(error.errno))}


def _content(path):
    with open(path, "rb", buffering=0) as file:
        data = file.readall()
    return {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def _attributes(path):
    """User attributes, and the class, which is not always listed."""
    names = {key for key in os.listxattr(path) if key.startswith("user.")}
    with contextlib.suppress(OSError):
        os.getxattr(path, "user.protection")
        names.add("user.protection")
    return {key: _try(lambda: os.getxattr(path, key).hex()) for key in sorted(names)}


def _look(path):
    status = os.lstat(path)
    kind = {stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFLNK: "symlink", stat.S_IFIFO: "fifo"}.get(
        stat.S_IFMT(status.st_mode), "other")
    found = {"kind": kind}
    if kind != "symlink":
        found["mode"] = f"{stat.S_IMODE(status.st_mode):o}"
    if kind == "file":
        found["links"] = status.st_nlink
        found["time"] = status.st_mtime_ns
        found["content"] = _try(_content, path)
    if kind in ("file", "directory"):
        found["attributes"] = _try(_attributes, path)
    if kind == "symlink":
        found["target"] = _try(lambda: text(os.readlink(path)))
    return found


def listing(top):
    """Everything below a mount, by path."""
    top = os.fsencode(top)
    result = {"": _look(top)}

    def walk(place, shown):
        entries = _try(lambda: sorted(os.listdir(place)))
        if isinstance(entries, dict):
            result[shown.rstrip("/")]["entries"] = entries
            return
        for name in entries:
            path = os.path.join(place, name)
            found = _try(_look, path)
            result[shown + text(name)] = found
            if found.get("kind") == "directory":
                walk(path, shown + text(name) + "/")

    walk(top, "")
    return result


def findings(report):
    """Kind and path of what fsck calls an error or a crash's doing, from its JSON."""
    found = json.loads(report)
    return sorted({f"{one['severity']} {one['kind']} {one.get('path', '')}" for one in found["findings"]
                   if one["severity"] != "note"})
