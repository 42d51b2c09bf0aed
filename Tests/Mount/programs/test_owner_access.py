"""An ordinary user's files and directories of any mode: the daemon has that user's rights only, and raises modes for a moment."""

import os

from harness import binary, write_file
from users import OrdinaryUser

GROUP = 4242

SHOWN_MODES = """
import os, sys, threading, time
path, end = sys.argv[1], time.monotonic() + float(sys.argv[2])
def opening():
    while time.monotonic() < end:
        os.close(os.open(path, os.O_RDONLY))
threads = [threading.Thread(target=opening) for _ in range(2)]
for thread in threads:
    thread.start()
seen, lost, number = set(), 0, 0
while time.monotonic() < end:
    number += 1
    seen.add(os.stat(path).st_mode & 0o777)
    if number % 20 == 0:
        for mode in (0o600, 0o444):
            os.chmod(path, mode)
            time.sleep(0.002)
            lost += os.stat(path).st_mode & 0o777 != mode
for thread in threads:
    thread.join()
print(sorted(map(oct, seen)), lost)
"""


def mount(user):
    user.run(binary(), "mount", "--recovery-file", user.code_file, user.volume, user.path)


def test_listing_without_search(environment):
    """A directory that may be read but not searched is listed, as on ext4."""
    user = OrdinaryUser(environment)
    mount(user)
    script = ("import os, sys; os.mkdir(sys.argv[1]); open(sys.argv[1] + '/a', 'w').close(); os.mkdir(sys.argv[1] + '/b');"
              "os.chmod(sys.argv[1], 0o600); print(sorted(os.listdir(sys.argv[1])))")
    plain = os.path.join(os.path.dirname(user.path), "plain")
    listed = [user.run("/usr/bin/python3", "-c", script, place, ok=False) for place in (plain, os.path.join(user.path, "d"))]
    environment.cell("as below", (listed[0].returncode, listed[0].stdout), (listed[1].returncode, listed[1].stdout))
    environment.cell("both names", "['a', 'b']\n", listed[1].stdout)
    user.run(binary(), "unmount", user.path)


def test_link_without_search(environment):
    """An open file gets another name although its directory may no longer be searched, as on ext4."""
    user = OrdinaryUser(environment)
    mount(user)
    script = ("import os, sys; os.makedirs(sys.argv[1] + '/d'); os.chdir(sys.argv[1]); file = open('d/f', 'w'); file.write('x');"
              "file.flush(); os.chmod('d', 0); top = os.open('.', os.O_RDONLY);"
              "os.link(f'/proc/self/fd/{file.fileno()}', 'new', src_dir_fd=top); print(os.stat('new').st_nlink, open('new').read())")
    plain = os.path.join(os.path.dirname(user.path), "plain")
    linked = [user.run("/usr/bin/python3", "-c", script, place, ok=False) for place in (plain, os.path.join(user.path, "top"))]
    environment.cell("below", (0, "2 x\n"), (linked[0].returncode, linked[0].stdout))
    environment.cell("on the mount", (0, "2 x\n"), (linked[1].returncode, linked[1].stdout))
    user.run(binary(), "unmount", user.path)


def test_modes_that_are_raised(environment):
    """Opening a file that its owner may not write raises its mode below. Nobody sees that, and no chmod(2) is lost by it."""
    user = OrdinaryUser(environment)
    mount(user)
    path = os.path.join(user.path, "file")
    user.run("sh", "-c", f"echo x > {path}; chmod 444 {path}")
    done = user.run("/usr/bin/python3", "-c", SHOWN_MODES, path, "20" if environment.mode == "full" else "3")
    environment.cell("modes seen, and changes that were lost", "['0o444'] 0", done.stdout.strip())
    below = user.run(binary(), "path", path).stdout.strip()
    environment.cell("below", 0o444, os.stat(below).st_mode & 0o777)
    user.run(binary(), "unmount", user.path)


def test_directories_without_rights(environment):
    """A directory without rights in another one: what walks a volume raises both modes, one within the other."""
    user = OrdinaryUser(environment)
    mount(user)
    user.run("sh", "-c", f"mkdir -p {user.path}/p/c; echo x > {user.path}/p/c/f; ln -s f {user.path}/p/c/l; chmod 0 {user.path}/p/c {user.path}/p")
    user.run(binary(), "unmount", user.path)
    # The new class keys are proven by every file, so all directories are opened.
    secret = os.path.join(os.path.dirname(user.path), "passphrase")
    done = user.run(binary(), "keys", "rotate", "--retire", "--passphrase-file", secret, user.volume, ok=False)
    environment.cell("keys rotate ends", 0, done.returncode)
    code, = (line.strip() for line in done.stdout.splitlines() if line.startswith("    "))
    write_file(user.code_file, code.encode())
    done = user.run(binary(), "fsck", "--recovery-file", user.code_file, user.volume, ok=False)
    environment.cell("fsck finds nothing wrong", 0, done.returncode)


LOCKED_WITHOUT_RIGHTS = """
import os, subprocess, sys
binary, mount, code = sys.argv[1:]
top = mount + "/A"
os.makedirs(top + "/below")
subprocess.run([binary, "class", "set", "A", top], check=True, stdout=subprocess.DEVNULL)
paths = {f"{top}/{mode:o}": mode for mode in (0o444, 0o400, 0o200, 0)}
paths[top + "/below/file"] = 0o444
held = []
for path, mode in paths.items():
    file = open(path, "wb")
    file.write(b"before")
    file.flush()
    os.fchmod(file.fileno(), mode)
    held.append(file)
os.chmod(top + "/below", 0)
for number in range(3):
    for file in held:
        file.write(b"%d" % number)
        file.flush()
    for words in (["lock"], ["unlock", "--recovery-file", code]):
        subprocess.run([binary, *words, mount], check=True, timeout=60, stdout=subprocess.DEVNULL)
os.chmod(top + "/below", 0o700)
for file in held:
    file.close()
for path, mode in paths.items():
    kept = os.stat(path).st_mode & 0o777 == mode
    os.chmod(path, 0o600)
    print(os.path.basename(path), kept, open(path).read())
"""


def test_locked_without_rights(environment):
    """A lock reaches open files that their owner may not read, write or find; the daemon looks at them through its own mount."""
    user = OrdinaryUser(environment)
    mount(user)
    done = user.run("/usr/bin/python3", "-c", LOCKED_WITHOUT_RIGHTS, binary(), user.path, user.code_file, ok=False)
    environment.cell("modes and contents", ("".join(
        f"{name} True before012\n" for name in ("444", "400", "200", "0", "file")), ""), (done.stdout, done.stderr))
    user.run(binary(), "unmount", user.path)


SET_ID = """
import os, subprocess, sys
top, binary = sys.argv[1:]
os.umask(0)
os.makedirs(top)
os.chdir(top)
def mode(path):
    return oct(os.stat(path).st_mode & 0o7777)
for bits in (0o4755, 0o2711, 0o6755, 0o2644):
    file = os.open("made", os.O_CREAT | os.O_WRONLY, bits)
    found = [mode("made")]
    os.close(file)
    file = os.open("changed", os.O_CREAT | os.O_WRONLY, 0o644)
    os.fchmod(file, bits)
    os.close(file)
    os.mknod("node", 0o100000 | bits)
    file = os.open(".", os.O_TMPFILE | os.O_RDWR, bits)
    found.append(oct(os.fstat(file).st_mode & 0o7777))
    os.close(file)
    file = os.open("written", os.O_CREAT | os.O_WRONLY, 0o644)
    os.write(file, b"x" * 9000)
    os.fchmod(file, bits)
    os.close(file)
    found += map(mode, ("made", "changed", "node", "written"))
    if binary:
        for letter in "AC":
            subprocess.run([binary, "class", "set", letter, "written"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            assert mode("written") == found[-1], mode("written")
    with open("written", "ab") as file:
        file.write(b"x")
    print(oct(bits), *found, mode("written"))
    for name in ("made", "changed", "node", "written"):
        os.unlink(name)
"""


def test_set_id_bits(environment):
    """Set-ID bits go with a program's write, as on ext4, and not with what the daemon writes for itself."""
    user = OrdinaryUser(environment)
    mount(user)
    plain = os.path.join(os.path.dirname(user.path), "plain")
    seen = [user.run("/usr/bin/python3", "-c", SET_ID, top, program, ok=False)
            for top, program in ((plain, ""), (user.path + "/d", binary()))]
    environment.cell("no error", ("", ""), tuple(one.stderr for one in seen))
    environment.cell("as below", seen[0].stdout, seen[1].stdout)
    user.run(binary(), "unmount", user.path)


def test_files_without_rights(environment):
    """A file that its owner may not read, with an attribute of its own, is encrypted anew as well."""
    user = OrdinaryUser(environment)
    mount(user)
    path = f"{user.path}/file"
    user.run("/usr/bin/python3", "-c", "import os, sys; path, = sys.argv[1:]; open(path, 'w').write('content'); "
             "os.setxattr(path, 'user.note', b'kept'); os.chmod(path, 0o200)", path)
    user.run(binary(), "unmount", user.path)
    secret = os.path.join(os.path.dirname(user.path), "passphrase")
    done = user.run(binary(), "keys", "rotate", "--retire", "--passphrase-file", secret, user.volume, ok=False)
    environment.cell("keys rotate", (0, True), (done.returncode, "no former key is left" in done.stdout))
    code, = (line.strip() for line in done.stdout.splitlines() if line.startswith("    "))
    write_file(user.code_file, code.encode())
    mount(user)
    environment.cell("mode", "200", user.run("stat", "-c", "%a", path).stdout.strip())
    user.run("chmod", "600", path)
    done = user.run("/usr/bin/python3", "-c", "import os, sys; path, = sys.argv[1:]; "
                    "print(os.getxattr(path, 'user.note'), open(path).read())", path)
    environment.cell("all of it", "b'kept' content", done.stdout.strip())
    user.run(binary(), "unmount", user.path)


def test_group_of_a_copy(environment):
    """A file that is encrypted anew keeps a group that its owner has given it."""
    user = OrdinaryUser(environment)
    user.become[user.become.index("--clear-groups")] = f"--groups={GROUP}"
    mount(user)
    path = os.path.join(user.path, "file")
    user.run("sh", "-c", f"echo x > {path}; chgrp {GROUP} {path}; chmod 640 {path}")
    before = user.run("stat", "-c", "%i", path).stdout
    user.run(binary(), "class", "set", "complete", path)
    environment.cell("a new inode", True, user.run("stat", "-c", "%i", path).stdout != before)
    environment.cell("group and mode", f"{GROUP} 640\n", user.run("stat", "-c", "%g %a", path).stdout)
    user.run(binary(), "unmount", user.path)
