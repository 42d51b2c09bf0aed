"""Mail, events, containers, and verified load."""

import itertools
import mailbox
import os
import subprocess

from harness import PATIENCE, Lines, Skip, run, write_file
from test_overlay import overlaid

from .sides import need, said


def fio(side, size="16m"):
    """fio writes at random and verifies, with libaio and io_uring, through the cache and past it."""
    need(("fio", "fio"))
    for engine, direct, pattern in itertools.product(("libaio", "io_uring"), (0, 1), ("randwrite", "randrw", "write")):
        words = [f"--name={engine}{direct}{pattern}", f"--directory={side.path}", f"--size={size}", f"--ioengine={engine}",
                 f"--direct={direct}", f"--rw={pattern}", "--bsrange=4k-256k", "--iodepth=16", "--verify=crc32c", "--do_verify=1",
                 "--verify_fatal=1", "--verify_state_save=0", "--verify_backlog=64", "--randseed=7", "--output-format=terse"]
        done = run("fio", *words, ok=False, timeout=600)
        yield f"{engine}, {'direct' if direct else 'cached'}, {pattern}", [done.returncode, done.stderr]


MESSAGE = "From: a@example.org\nTo: b@example.org\nSubject: {0}\nMessage-ID: <{0}@example.org>\n\n" + "A line.\n" * 50


def deliver(box, worker, count):
    for number in range(count):
        mailbox.Maildir(box, create=False).add(MESSAGE.format(f"{worker}-{number}"))


def summary(box):
    """Subjects, flags and directories of all messages."""
    box = mailbox.Maildir(box, create=False)
    return sorted((message["subject"], message.get_flags(), message.get_subdir(), len(message.as_string())) for message in box)


def maildir(side):
    """Four processes deliver into one Maildir while a reader moves what has come from new to cur and sets flags."""
    box = side / "box"
    mailbox.Maildir(box, create=True).add_folder("archive")
    children = []
    for worker in range(4):
        child = os.fork()
        if child == 0:
            status = 1
            try:
                deliver(box, worker, 30)
                status = 0
            finally:
                os._exit(status)
        children.append(child)
    reader, seen = mailbox.Maildir(box, create=False), set()
    while len(seen) < 120:
        for key in set(reader.keys()) - seen:
            message = reader[key]
            message.set_subdir("cur")
            message.set_flags("FS" if message["subject"].endswith("7") else "S")
            reader[key] = message
            seen.add(key)
    yield "deliveries", [os.waitpid(child, 0)[1] for child in children]
    yield "messages", summary(box)
    for key in sorted(seen)[::3]:
        message = reader[key]
        reader.get_folder("archive").add(message)
        reader.discard(key)
    yield "how many after moving", [len(reader), len(reader.get_folder("archive"))]
    yield "nothing left in tmp", os.listdir(box + "/tmp")


def procmail(side):
    """procmail delivers into a Maildir, several at once."""
    need(("procmail", "procmail"))
    # procmail trusts no rules in a directory that others may write.
    os.mkdir(os.path.join(side.scratch, "own"), 0o700)
    rules = os.path.join(side.scratch, "own/rules")
    write_file(rules, f"MAILDIR={side.path}\nDEFAULT={side.path}/box/\nLOGFILE={side.scratch}/own/log\n".encode())
    os.mkdir(side / "box")
    processes = []
    for number in range(24):
        one = subprocess.Popen(["procmail", "-m", rules], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        one.stdin.write(MESSAGE.format(number))
        one.stdin.close()
        processes.append(one)
    yield "exit codes", [one.wait() for one in processes]
    mailbox.Maildir(side / "box", create=True)
    yield "messages", summary(side / "box")


CHANGES = """
cd "$1"
echo one >file; echo two >>file; mv file renamed; cp renamed copy; chmod 600 copy; touch -d 2020-01-01 copy; ln copy hard
ln -s copy link; mkdir inner; mv renamed inner; rmdir inner 2>/dev/null; rm -r inner; sed -i s/two/three/ copy; truncate -s 1 copy
cat copy >/dev/null; rm copy hard link; mkdir end
"""


def inotifywait(side):
    """Events of common changes, as inotifywait prints them."""
    need(("inotifywait", "inotify-tools"))
    place = side.directory("watched")
    watch = Lines(["inotifywait", "-m", "-q", "--format", "%e %f", place], stderr=subprocess.DEVNULL)
    try:
        # It says nothing when it is ready, so it is asked until it tells of a name.
        for number in itertools.count():
            write_file(f"{place}/ready{number}", b"")
            os.unlink(f"{place}/ready{number}")
            if watch.line(0.2):
                break
        run("sh", "-c", CHANGES, "sh", place)
        told = []
        while not told or told[-1] != "CREATE,ISDIR end":
            line = watch.line(PATIENCE)
            if line is None:
                break
            # The name that sed gives its new file is random.
            told.append("%s sed" % line.split()[0] if " sed" in line else line)
        told = [line for line in told if "ready" not in line]
        # The kernel joins equal events that follow each other and have not been read yet.
        yield "events", [line for number, line in enumerate(told) if number == 0 or told[number - 1] != line]
    finally:
        watch.process.terminate()
        watch.process.wait()
        watch.process.stdout.close()


def overlay(side):
    """An overlay with its upper directory here."""
    if os.geteuid() != 0:
        raise Skip("needs root")
    lower = os.path.join(side.scratch, "lower")
    for name in ("directory", "gone/inner", "again/inner"):
        os.makedirs(os.path.join(lower, name))
    for name in ("lower", "removed", "moved", "directory/inner", "gone/inner/file"):
        write_file(os.path.join(lower, name), name.encode())
    os.symlink("target", os.path.join(lower, "link"))
    for step, seen in enumerate(overlaid(side.path, lower)):
        yield f"step {step}", seen


SANDBOX = ["--unshare-all", "--die-with-parent", "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib",
           "/lib", "--symlink", "usr/lib64", "/lib64", "--proc", "/proc", "--dev", "/dev"]
INSIDE = """
cd /home && echo text >file && mkdir -p a/b && mv file a/b && ln a/b/file hard && ln -s hard link && cat link && id -u && chmod 640 hard
stat -c '%n %a %h %s %U' hard a a/b && touch /usr/new; echo "$?"; rm hard && ls -R && df --output=target /home | tail -1; mount | grep -c /home
"""


def bubblewrap(side):
    """bwrap with a home and with its whole root here, as root and as an ordinary user."""
    need(("bwrap", "bubblewrap"))
    users = [("root", 0, []), ("a user", 65534, ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"])]
    for name, user, become in users if os.geteuid() == 0 else [("this user", os.geteuid(), [])]:
        home = side.directory(f"home of {name}", user)
        yield f"{name}: home", said(*become, "bwrap", *SANDBOX, "--bind", home, "/home", "sh", "-c", INSIDE)
        root = side.directory(f"root of {name}", user)
        yield f"{name}: root", said(*become, "bwrap", "--bind", root, "/", *SANDBOX, "--dir", "/home", "sh", "-c", INSIDE)
        yield f"{name}: what is left", sorted(os.listdir(home) + os.listdir(root))
