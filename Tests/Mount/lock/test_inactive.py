"""Class 7, completeWhenUserInactive: open through a lock until its time has run out, and no write that was made is lost then."""

import json
import mmap
import os
import threading
import time

from frozen import Holder, count_in, freezing
from harness import (PAGE, PATIENCE, get_class, in_child, make_file, outcome, pattern, read_file, set_class, wait_until,
                     write_file)
from late import late_files, listed
from stores import store
from subscriber import Subscriber

CONTENT = pattern(3 * PAGE + 100, seed=4)


def inactive(mount):
    return os.getxattr(mount.path, "user.protectfs.state.inactive").decode()


def wait_until_closed(mount):
    wait_until(lambda: inactive(mount) == "locked", what="class 7 to be closed")


def test_states_and_status(environment):
    """The attribute, `status` and `class get` say whether the class is open."""
    mount = environment.mount(unlock=False)

    def facts():
        status = mount.status()
        assert status["inactiveState"] == inactive(mount), status
        return mount.state(), inactive(mount), status["inactiveIn"] is None

    environment.cell("before first unlock", ("before-first-unlock", "before-first-unlock", True), facts())
    mount.unlock()
    environment.cell("unlocked", ("unlocked", "unlocked", True), facts())
    make_file(mount / "file", "7", CONTENT)
    environment.cell("the usual time", 600, mount.status()["inactiveLimit"])
    mount.lock()
    environment.cell("locked", ("locked", "unlocked", False), facts())
    left = mount.status()["inactiveIn"]
    environment.cell("the time that is left", True, 0 < left <= 600)
    environment.cell("class get", False, "closed" in mount.command("class", "get", mount / "file").stdout)
    environment.cell("status for people", True, "open for another" in mount.command("status", mount.path).stdout)
    mount = environment.remount(mount, options=["inactive=0"])
    mount.lock()
    environment.cell("inactive=0, locked", ("locked", "locked", True), facts())
    environment.cell("class get, closed", True, "closed while the volume is locked" in mount.command("class", "get", mount / "file").stdout)
    environment.cell("status for people, closed", True, "class 7 is closed" in mount.command("status", mount.path).stdout)
    environment.cell("not listed", False, "user.protectfs.state.inactive" in os.listxattr(mount.path))
    environment.cell("cannot be set", True,
                     outcome(os.setxattr, mount.path, "user.protectfs.state.inactive", b"unlocked") != "works")
    os.mkdir(mount / "inner")
    environment.cell("only on the root", "ENODATA", outcome(os.getxattr, mount / "inner", "user.protectfs.state.inactive"))


def test_events(environment):
    """The event comes when the time has run out, after that of the lock; an unlock opens the class again."""
    mount = environment.mount(options=["inactive=1"])
    make_file(mount / "file", "7", CONTENT)
    handle = os.open(mount / "file", os.O_RDWR)
    client = Subscriber(mount, False)
    for round_number in range(2):
        mount.lock()
        events = []
        while not events or events[-1]["event"] != "inactive":
            events.append(client.receive())
        environment.cell(f"{round_number}: events", ["willLock", "locked", "inactive"], [event["event"] for event in events])
        environment.cell(f"{round_number}: files", 0, events[-1]["files"])
        environment.cell(f"{round_number}: closed", ("EACCES", "EACCES"), (
            outcome(os.pread, handle, 10, 0), outcome(read_file, mount / "file")))
        mount.unlock()
        environment.cell(f"{round_number}: unlocked", ["willUnlock", "unlocked"], [client.receive()["event"] for _ in range(2)])
        environment.cell(f"{round_number}: the same handle reads", True, os.pread(handle, len(CONTENT), 0) == CONTENT)
        os.pwrite(handle, CONTENT[:PAGE], 0)
    client.close()
    os.close(handle)
    watched = mount.command("wait", "--unlocked", mount.path, ok=False)
    environment.cell("wait", 0, watched.returncode)


def test_second_lock_does_not_prolong(environment):
    mount = environment.mount(options=["inactive=4"])
    make_file(mount / "file", "7", CONTENT)
    mount.lock()

    def closed():
        mount.lock()
        return inactive(mount) == "locked"

    wait_until(closed, what="class 7 to be closed while the volume is locked again and again")
    environment.cell("closed", "EACCES", outcome(read_file, mount / "file"))


def test_unlock_ends_the_time(environment):
    """What an unlock has opened is not closed by the time of the lock before it, and the next lock counts anew."""
    mount = environment.mount(options=["inactive=1h"])
    make_file(mount / "file", "7", CONTENT)
    mount.lock()
    wait_until(lambda: mount.status()["inactiveIn"] <= 3590, what="ten seconds")
    mount.unlock()
    environment.cell("unlocked: no time runs", None, mount.status()["inactiveIn"])
    mount.lock()
    environment.cell("the next lock counts anew", True, mount.status()["inactiveIn"] > 3590)
    mount = environment.remount(mount, options=["inactive=1"])
    mount.lock()
    mount.unlock()
    time.sleep(3)
    environment.cell("open after the time of the lock before", ("unlocked", True),
                     (inactive(mount), read_file(mount / "file") == CONTENT))


def test_wrong_times(environment):
    for value in ("", "soon", "-1", "5x", "1h5", "99999999999999999999"):
        mount = environment.mount(options=[f"inactive={value}"], ok=False)
        environment.cell(f"inactive={value}", 2, mount.result.returncode)
    mount = environment.mount(options=["inactive=18446744073709551615"])
    make_file(mount / "file", "7", CONTENT)
    mount.lock()
    environment.cell("the longest time", "works", outcome(read_file, mount / "file"))


def test_cached_data_survives(environment):
    """Dirty pages, written before the lock and between the lock and the end of the time, are in the file after the unlock."""
    mount = environment.mount(options=["inactive=2"])
    make_file(mount / "mapped", "7", bytes(4 * PAGE))
    make_file(mount / "written", "7", b"")
    handle = os.open(mount / "mapped", os.O_RDWR)
    memory = mmap.mmap(handle, 4 * PAGE)
    memory[0:PAGE] = CONTENT[:PAGE]
    acknowledged, refused = [0], []

    def write():
        end = time.monotonic() + 4 * PATIENCE
        number = os.open(mount / "written", os.O_RDWR)
        try:
            while time.monotonic() < end:
                os.pwrite(number, pattern(PAGE, seed=acknowledged[0] % 50), acknowledged[0] % 4000 * PAGE)
                acknowledged[0] += 1
                time.sleep(0.001)
        except OSError as error:
            refused.append(error.errno)
        finally:
            os.close(number)

    writer = threading.Thread(target=write)
    writer.start()
    mount.lock()
    # In a child, as the class may be closed by now.
    second = in_child(lambda: memory.__setitem__(slice(PAGE, 2 * PAGE), CONTENT[PAGE:2 * PAGE]))
    wait_until_closed(mount)
    writer.join()
    environment.cell("the writer is refused", [13], refused)
    environment.cell("mapped load", "SIGBUS", in_child(lambda: memory[0]))
    environment.cell("mapped store", "SIGBUS", in_child(lambda: memory.__setitem__(0, 1)))
    mount.unlock()
    environment.cell("mapped before the lock", True, read_file(mount / "mapped")[:PAGE] == CONTENT[:PAGE])
    if second == "works":
        environment.cell("mapped after the lock", True, read_file(mount / "mapped")[PAGE:2 * PAGE] == CONTENT[PAGE:2 * PAGE])
    written = read_file(mount / "written")
    last = {place % 4000: place % 50 for place in range(acknowledged[0])}
    environment.cell("every write that was acknowledged", [], [
        place for place, seed in last.items() if written[place * PAGE:(place + 1) * PAGE] != pattern(PAGE, seed=seed)][:5])
    memory.close()
    os.close(handle)


def written_late(mount, below, holder, length):
    """Locks, and writes with the store frozen until class 7 is closed: what the write said. None where the class was closed before."""
    mount.lock()
    said = None
    with freezing(below.backing) as thaw:
        if inactive(mount) == "unlocked":
            said = holder.ask("write", 0, length, 1)
            if said == "EACCES" and inactive(mount) != "unlocked":
                said = None
        wait_until(lambda: inactive(mount) in ("sweeping", "locked"), what="the end of the keys")
        thaw()
    wait_until_closed(mount)
    return said


def test_late_records(environment):
    """Pages that a frozen store has not taken when the time runs out become late records, and are there after the unlock."""
    length = 4 << 20
    with store(environment, "ext4") as below:
        mount = below.mount(options=["inactive=3"])
        make_file(mount / "file", "7", b"")
        holder = Holder(mount / "file")
        try:
            # A busy machine may take longer to freeze the store than the class stays open.
            for attempt in range(5):
                if attempt:
                    mount.unlock()
                said = written_late(mount, below, holder, length)
                if said:
                    break
            environment.cell("written while locked", "works", said)
            environment.cell("closed", "EACCES", holder.ask("count", length, 1))
            waiting = late_files(mount.volume)
            print(f"        late files: {len(waiting)}", flush=True)
            mount.unlock()
            environment.cell("pages after the unlock", length // PAGE, holder.ask("count", length, 1))
            environment.cell("late files after the unlock", ([], []), (late_files(mount.volume), listed(mount)))
            environment.cell("a later fsync", "works", holder.ask("fsync"))
        finally:
            holder.close()
        mount.unmount()
        mount = below.mount()
        environment.cell("after mounting again", length // PAGE, count_in(mount / "file", length, 1))
        mount.unmount()
        below.check("ext4")


test_late_records.time_limit = 1800


def test_saves(environment):
    """A save by rename keeps the class where its key is there, and is refused where it is not."""
    for option, result, kept in (("inactive=1h", "works", b"new"), ("inactive=0", "EACCES", CONTENT)):
        mount = environment.mount(options=[option])
        make_file(mount / "file", "7", CONTENT)
        os.mkdir(mount / "beside")
        mount.lock()
        write_file(mount / "beside/new", b"new")
        environment.cell(f"{option}: rename over it", result, outcome(os.rename, mount / "beside/new", mount / "file"))
        environment.cell(f"{option}: class", "completeWhenUserInactive", get_class(mount / "file"))
        mount.unlock()
        environment.cell(f"{option}: content", True, read_file(mount / "file") == kept)
        write_file(mount / "file~", b"backup")
        environment.cell(f"{option}: its family", "completeWhenUserInactive", get_class(mount / "file~"))
        make_file(mount / "strong", "B", b"b")
        write_file(mount / "strong~", b"backup")
        environment.cell(f"{option}: B is stronger", "completeUnlessOpen", get_class(mount / "strong~"))


def test_commands(environment):
    """`class set`, `class list`, the default, `fsck` and `keys rotate` know the class."""
    mount = environment.mount()
    write_file(mount / "file", CONTENT)
    mount.command("class", "set", "when-inactive", mount / "file")
    environment.cell("class set", "completeWhenUserInactive", get_class(mount / "file"))
    row, = json.loads(mount.command("class", "list", "--json", mount / "file").stdout)
    environment.cell("class list", ("completeWhenUserInactive", True, False),
                     (row["class"], row["strongerThanDirectory"], row["keyExposed"]))
    environment.cell("class list for people", True, "7 when-inactive" in mount.command("class", "list", mount / "file").stdout)
    os.mkdir(mount / "d")
    set_class(mount / "d", "7")
    write_file(mount / "d/below", b"below")
    environment.cell("default", "completeWhenUserInactive", get_class(mount / "d/below"))
    mount.unmount()
    volume = mount.volume
    done = mount.command("fsck", "--json", "--recovery-file", volume.code_file, volume.path)
    environment.cell("fsck", (0, []), (json.loads(done.stdout)["errors"], json.loads(done.stdout)["findings"]))
    before = json.loads(mount.command("info", "--json", volume.path).stdout)["generations"]
    mount.command("keys", "rotate", "--class", "completeWhenUserInactive", "--passphrase-file", volume.passphrase_file, volume.path)
    after = json.loads(mount.command("info", "--json", volume.path).stdout)["generations"]
    environment.cell("keys rotate", {"completeWhenUserInactive": (0, 1), "completeUnlessOpen": (0, 1)},
                     {name: (before[name], after[name]) for name in before if before[name] != after[name]})
    mount = environment.mount(volume, unlock=False)
    mount.command("unlock", "--passphrase-file", volume.passphrase_file, mount.path)
    environment.cell("after the rotation", (True, b"below"), (read_file(mount / "file") == CONTENT, read_file(mount / "d/below")))
