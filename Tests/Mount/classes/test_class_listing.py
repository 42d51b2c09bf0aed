"""Which names of attributes a listing has: what copies carry along, and what they leave where it is."""

import os
import shutil
import stat

from checks import errors
from harness import CLASSES, Skip, get_class, make_file, outcome, read_file, run, set_class, write_file
from processes import as_user

NAME = "user.protection"
CONTENT = b"content" * 1000


def listed(path):
    return NAME in os.listxattr(path)


def test_files(environment):
    """A file's class is listed where someone has chosen it, or where it is stronger than the volume's default."""
    mount = environment.mount()
    for default in "CADB":
        set_class(mount.path, default)
        for letter in "ABCD":
            place = mount / f"{default}{letter}"
            os.mkdir(place)
            set_class(place, letter)
            write_file(f"{place}/inherited", CONTENT)
            make_file(f"{place}/chosen", letter, CONTENT)
            environment.cell(f"[volume {default}, chosen {letter}]", True, listed(f"{place}/chosen"))
            environment.cell(f"[volume {default}, inherited {letter}]", letter < default, listed(f"{place}/inherited"))
            environment.cell(f"[volume {default}, {letter}: getfattr -n]", CLASSES[letter], get_class(f"{place}/inherited"))
            os.removexattr(f"{place}/chosen", NAME)
            environment.cell(f"[volume {default}, removed {letter}]", letter < default, listed(f"{place}/chosen"))
    set_class(mount.path, "C")
    mount = environment.remount(mount, unlock=False)
    for letter in "ABCD":
        environment.cell(f"[{letter}, inherited, before first unlock]", letter < "C", listed(mount / f"C{letter}/inherited"))


def test_default_of_the_mount(environment):
    """An option of the mount makes no class that a copy into another mount would lose."""
    mount = environment.mount(options=["default_class=complete"])
    write_file(mount / "A", CONTENT)
    environment.cell("[A by the option]", True, listed(mount / "A"))
    mount = environment.remount(mount, options=["default_class=none"])
    write_file(mount / "D", CONTENT)
    environment.cell("[D by the option]", False, listed(mount / "D"))


def test_directories(environment):
    """A directory's default is listed where it is not its parent's, or stronger than the volume's."""
    mount = environment.mount()
    for letter in "ABCD":
        os.mkdir(mount / letter)
        set_class(mount / letter, letter)
        os.mkdir(mount / f"{letter}/inherits")
        environment.cell(f"[chosen {letter}]", True, listed(mount / letter))
        environment.cell(f"[inherited {letter}]", letter < "C", listed(mount / f"{letter}/inherits"))
        environment.cell(f"[inherited {letter}: getfattr -n]", CLASSES[letter], get_class(mount / f"{letter}/inherits"))
        set_class(mount / f"{letter}/inherits", "C" if letter == "D" else "D")
        environment.cell(f"[another one below {letter}]", True, listed(mount / f"{letter}/inherits"))
    environment.cell("[the root without]", False, listed(mount.path))
    set_class(mount.path, "D")
    environment.cell("[the root]", True, listed(mount.path))


def test_removed_default(environment):
    """Removing a directory's default succeeds and takes nothing away; the value `inherit` does, on purpose."""
    mount = environment.mount()
    os.mkdir(mount / "directory")
    os.mkdir(mount / "plain")
    write_file(mount / "file", CONTENT)
    for letter in "ABCD":
        for path in (mount / "directory", mount.path):
            set_class(path, letter)
            environment.cell(f"[{letter} removed]", "works", outcome(os.removexattr, path, NAME))
            environment.cell(f"[{letter} stays]", CLASSES[letter], get_class(path))
    mount.command("class", "set", "inherit", mount / "directory")
    environment.cell("[class set inherit]", "ENODATA", outcome(get_class, mount / "directory"))
    environment.cell("[nothing to remove]", "ENODATA", outcome(os.removexattr, mount / "directory", NAME))
    set_class(mount / "directory", "A")
    os.setxattr(mount / "directory", NAME, b"inherit")
    write_file(mount / "directory/new", CONTENT)
    environment.cell("[a new file has the volume's default]", CLASSES["D"], get_class(mount / "directory/new"))
    environment.cell("[inherit of nothing]", "works", outcome(os.setxattr, mount / "plain", NAME, b"inherit"))
    environment.cell("[inherit of a file]", "EINVAL", outcome(os.setxattr, mount / "file", NAME, b"inherit"))
    refused = mount.command("class", "set", "inherit", mount / "file", ok=False)
    environment.cell("[class set inherit of a file]", (2, True), (refused.returncode, "only a directory" in refused.stderr))
    for name in ("tree", "tree/inner"):
        os.mkdir(mount / name)
        set_class(mount / name, "A")
    make_file(mount / "tree/inner/file", "A", CONTENT)
    mount.command("class", "set", "-R", "inherit", mount / "tree")
    environment.cell("[class set -R inherit]", ("ENODATA", "ENODATA", CLASSES["A"]),
                     (outcome(get_class, mount / "tree"), outcome(get_class, mount / "tree/inner"),
                      get_class(mount / "tree/inner/file")))
    mount.lock()
    os.setxattr(mount.path, NAME, b"inherit")
    environment.cell("[while locked]", "ENODATA", outcome(get_class, mount.path))


def same(expected, actual):
    assert expected == actual, actual


def classes_below(place):
    return {os.path.relpath(os.path.join(directory, name), place): get_class(os.path.join(directory, name))
            for directory, _, files in os.walk(place) for name in files}


def copied(tool, source, target):
    """Copies all that is in `source` into the directory `target`, with its attributes."""
    if tool == "cp -a":
        run("cp", "-a", source + "/.", target)
    elif tool == "rsync -aX":
        run("rsync", "-aX", source + "/", target + "/")
    else:
        archive = target + ".tar"
        run("tar", "-C", source, "--xattrs", "--xattrs-include=*", "-cf", archive, ".")
        run("tar", "-C", target, "--xattrs", "--xattrs-include=*", "-xf", archive)


def test_copies(environment):
    """What a copy ends in: the class that was chosen, else the target's default, and never a weaker one."""
    if not shutil.which("rsync"):
        raise Skip("needs rsync")
    mount = environment.mount()
    source = mount / "source"
    os.makedirs(source + "/below")
    for name in ("plain", "below/plain"):
        write_file(f"{source}/{name}", CONTENT)
    make_file(source + "/private", "A", CONTENT)
    make_file(source + "/public", "D", CONTENT)
    outside = environment.new_path("outside")
    os.makedirs(outside + "/below")
    for name in ("plain", "below/plain"):
        write_file(f"{outside}/{name}", CONTENT)
    for tool in ("cp -a", "rsync -aX", "tar --xattrs"):
        for letter in "ABCD":
            for kind, place in {"inside": source, "outside": outside}.items():
                target = mount / f"{tool}-{letter}-{kind}"
                os.mkdir(target)
                set_class(target, letter)
                copied(tool, place, target)
                expected = {"plain": CLASSES[letter], "below/plain": CLASSES[letter]}
                if kind == "inside":
                    expected |= {"private": CLASSES["A"], "public": CLASSES["D"]}
                environment.cell(f"[{tool} from {kind} into {letter}]", expected, classes_below(target))
                environment.cell(f"[{tool} from {kind}: the default {letter} stays]", CLASSES[letter], get_class(target))


def test_rsync_twice(environment):
    """The second run finds nothing to change, in either direction."""
    if not shutil.which("rsync"):
        raise Skip("needs rsync")
    mount = environment.mount()
    outside = environment.new_path("outside")
    os.makedirs(outside + "/below")
    for name in ("one", "below/two"):
        write_file(f"{outside}/{name}", CONTENT)
    os.makedirs(mount / "from/below")
    for name in ("one", "below/two"):
        write_file(mount / f"from/{name}", CONTENT)
    make_file(mount / "from/private", "A", CONTENT)
    make_file(mount / "from/public", "D", CONTENT)
    os.mkdir(mount / "from/closed")
    set_class(mount / "from/closed", "A")
    write_file(mount / "from/closed/inherited", CONTENT)
    pairs = {"into the mount": (outside, mount / "to"), "inside the mount": (mount / "from", mount / "second"),
             "out of the mount": (mount / "from", environment.new_path("copy"))}
    for name, (source, target) in pairs.items():
        os.mkdir(target)
        run("rsync", "-aX", source + "/", target + "/")
        again = run("rsync", "-aXi", source + "/", target + "/")
        environment.cell(f"[{name}: the second run]", "", again.stdout)
    closed = mount / "closed"
    os.mkdir(closed)
    set_class(closed, "A")
    run("rsync", "-aX", outside + "/", closed + "/")
    again = run("rsync", "-aX", "--stats", outside + "/", closed + "/").stdout
    environment.cell("[into a stronger default: files sent again]", True, "files transferred: 0" in again)
    environment.cell("[into a stronger default]", {CLASSES["A"]}, set(classes_below(closed).values()))
    environment.cell("[its content]", True, read_file(closed + "/one") == CONTENT)


def test_trusted_names(environment):
    """`trusted.*` is there for the administrator alone, as on the file system below."""
    if os.geteuid() != 0:
        raise Skip("needs root, to set trusted attributes")
    mount = environment.mount(options=["allow_other"])
    os.chmod(mount.path, 0o755)
    below = environment.new_path("below")
    os.mkdir(below)
    for place in (mount.path, below):
        path = os.path.join(place, "file")
        write_file(path, CONTENT)
        os.chmod(path, 0o666)
        if outcome(os.setxattr, path, "trusted.one", b"value") != "works":
            environment.skip(f"[{place}]", "the file system of the tests has no trusted attributes")
            continue
        os.setxattr(path, "user.two", b"value")
        what = "mount" if place == mount.path else "below"
        environment.cell(f"[{what}: listed for root]", ["trusted.one", "user.two"], sorted(os.listxattr(path)))
        environment.cell(f"[{what}: listed for others]", "works", as_user(65534, lambda: same(["user.two"], os.listxattr(path))))
        environment.cell(f"[{what}: read by others]", "ENODATA", as_user(65534, lambda: os.getxattr(path, "trusted.one")))
        environment.cell(f"[{what}: set by others]", "EPERM", as_user(65534, lambda: os.setxattr(path, "trusted.one", b"x")))
        environment.cell(f"[{what}: removed by others]", "EPERM", as_user(65534, lambda: os.removexattr(path, "trusted.one")))
        # Without the capability root is one of the others; in a user namespace of one's own the capability is worth nothing.
        for words in (["setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin"], ["unshare", "--user", "--map-root-user"]):
            found = run(*words, "python3", "-c", f"import os; print(sorted(os.listxattr({path!r})))", ok=False)
            environment.cell(f"[{what}: {words[0]}]", "['user.two']", found.stdout.strip() or found.stderr)


def test_trusted_of_other_objects(environment):
    """Symbolic links and special files have `trusted.*` and `security.*` and nothing else, as on the file system below."""
    if os.geteuid() != 0:
        raise Skip("needs root, to set trusted attributes")
    mount = environment.mount()
    below = environment.new_path("below")
    os.mkdir(below)
    results = {}
    for place in (below, mount.path):
        seen = results[place] = {}
        os.symlink("target", os.path.join(place, "symlink"))
        os.mkfifo(os.path.join(place, "fifo"))
        os.mknod(os.path.join(place, "device"), 0o600 | stat.S_IFCHR, os.makedev(1, 3))
        for name in ("symlink", "fifo", "device"):
            path = os.path.join(place, name)
            more = {"follow_symlinks": False}
            for key in ("trusted.one", "trusted.two", "security.one", "user.one", "trusted.", "security.", "user."):
                seen[name, key] = outcome(lambda: os.setxattr(path, key, key.encode(), **more))
            seen[name, "create"] = outcome(lambda: os.setxattr(path, "trusted.one", b"x", os.XATTR_CREATE, **more))
            seen[name, "missing"] = outcome(lambda: os.getxattr(path, "trusted.none", **more))
            seen[name, "removed"] = outcome(lambda: os.removexattr(path, "trusted.two", **more))
            os.rename(path, path + ".moved")
            seen[name, "list"] = os.listxattr(path + ".moved", **more)
            seen[name, "value"] = outcome(lambda: same(b"trusted.one", os.getxattr(path + ".moved", "trusted.one", **more)))
    if results[below]["symlink", "trusted.one"] != "works":
        raise Skip("the file system of the tests has no trusted attributes")
    for key, expected in results[below].items():
        environment.cell(f"[{key}]", expected, results[mount.path][key])
    mount = environment.remount(mount)
    environment.cell("[after a remount]", b"trusted.one", os.getxattr(mount / "symlink.moved", "trusted.one", follow_symlinks=False))
    stored = [name for directory, _, files in os.walk(mount.volume.path) for file in files
              for name in os.listxattr(os.path.join(directory, file), follow_symlinks=False)]
    environment.cell("[no name is in the clear]", [], [name for name in stored if "one" in name or "pfs" not in name])
    mount.unmount()
    environment.cell("[errors]", [], errors(mount.volume))
    for path in list(objects_with_attributes(mount.volume.path)):
        name = os.listxattr(path, follow_symlinks=False)[0]
        value = os.getxattr(path, name, follow_symlinks=False)
        os.setxattr(path, name, value[:-1] + bytes([value[-1] ^ 1]), follow_symlinks=False)
    environment.cell("[errors of changed values]", ["attribute"] * 3, [found["kind"] for found in errors(mount.volume)])


def objects_with_attributes(root):
    """The objects in a store that have attributes, other than files and directories."""
    for directory, _, files in os.walk(root):
        for path in (os.path.join(directory, file) for file in files):
            if not stat.S_ISREG(os.lstat(path).st_mode) and os.listxattr(path, follow_symlinks=False):
                yield path


def test_namespace_alone(environment):
    """An attribute needs a name behind its namespace, as on the file system below."""
    mount = environment.mount()
    below = environment.new_path("below")
    os.mkdir(below)
    results = {}
    for place in (below, mount.path):
        write_file(os.path.join(place, "file"), b"")
        os.mkdir(os.path.join(place, "directory"))
        for name in ("file", "directory"):
            path = os.path.join(place, name)
            for key in ("user.", "trusted.", "security."):
                results[place, name, key] = [
                    outcome(lambda: os.setxattr(path, key, b"x")), outcome(lambda: os.getxattr(path, key)),
                    outcome(lambda: os.removexattr(path, key))]
    for (place, *what), expected in list(results.items()):
        if place == below:
            environment.cell(f"[{what}]", expected, results[(mount.path, *what)])
    environment.cell("[what that is]", ["EINVAL"] * 3, results[mount.path, "file", "user."])
