"""Copies of a volume on one machine: a change of one leaves the keys and pins of the other alone."""

import json
import os
import shutil

import harness
import states
from harness import protectfs, read_file, set_class, write_file
from keybags import change, mount, refused, secret_file, slots

AUTHENTICATION, DAMAGED = 3, 4


def known(volume):
    """The names in the directory of device keys and state files, without those of locks."""
    return {name for name in os.listdir(os.path.join(volume.data, "protectfs")) if not name.endswith(".lock")}


def put(path, content):
    """Writes a file anew."""
    with open(path, "wb") as file:
        file.write(content)


def identifier(volume):
    return json.loads(protectfs("info", "--json", volume.path, env=volume.environment).stdout)["uuid"]


def key_file(volume, name="key"):
    return os.path.join(volume.data, "protectfs", f"{identifier(volume)}.{name}")


def copy_of(environment, volume):
    """What `cp -a` makes of a volume, on the same machine."""
    path = environment.new_path("copy")
    harness.run("cp", "-a", volume.path, path)
    return harness.Volume(path, volume.data, volume.code_file, volume.passphrase_file)


def filled(environment):
    volume = environment.volume()
    first = environment.mount(volume)
    write_file(first / "kept", b"kept")
    set_class(first / "kept", "A")
    first.unmount()
    return volume


def opens(environment, volume, *words):
    """Mounts, reads the class A file and unmounts."""
    mounted = mount(environment, volume, *(words or ("--passphrase-file", volume.passphrase_file)))
    assert read_file(mounted / "kept") == b"kept"
    mounted.unmount()


def test_recovery_of_a_copy(environment):
    """`recovery use` on a copy: both open afterwards, each with its own passphrase, and nothing of the original is changed."""
    volume = filled(environment)
    copy, before = copy_of(environment, volume), known(volume)
    original_key = read_file(key_file(volume))
    new = secret_file(volume, "new", "the copy's own passphrase")
    done = change(copy, "recovery", "use", "--recovery-file", volume.code_file, "--new-passphrase-file", new)
    assert volume.path in done.stderr and "kept apart" in done.stderr, done.stderr
    assert f"New device key: {key_file(volume, '2.key')}\n" in done.stdout, done.stdout
    assert known(volume) - before == {os.path.basename(key_file(volume, "2.key")), os.path.basename(key_file(volume, "2.state"))}
    assert read_file(key_file(volume)) == original_key
    opens(environment, volume)
    opens(environment, copy, "--passphrase-file", new)
    assert "wrong passphrase" in refused(environment, volume, AUTHENTICATION, "--passphrase-file", new)
    assert "wrong passphrase" in refused(environment, copy, AUTHENTICATION, "--passphrase-file", volume.passphrase_file)
    # A copy that has been moved is still the same store.
    moved = copy.path + " moved"
    os.rename(copy.path, moved)
    copy.path = moved
    opens(environment, copy, "--passphrase-file", new)
    assert len([name for name in known(volume) if name.endswith(".state")]) == 2, known(volume)


def test_recovery_of_a_copy_beside_a_mount(environment):
    """The original is mounted and locked meanwhile: it can be unlocked as before."""
    volume = environment.volume()
    mounted = environment.mount(volume)
    write_file(mounted / "kept", b"kept")
    set_class(mounted / "kept", "A")
    mounted.sync()
    copy = copy_of(environment, volume)
    mounted.lock()
    new = secret_file(volume, "new", "the copy's own passphrase")
    change(copy, "recovery", "use", "--recovery-file", volume.code_file, "--new-passphrase-file", new)
    mounted.unlock()
    assert read_file(mounted / "kept") == b"kept"
    mounted.unmount()
    opens(environment, volume)
    opens(environment, copy, "--passphrase-file", new)


def test_changes_of_a_copy_are_not_pinned(environment):
    """A newer keybag of a copy does not make the original's an older one, and the other way round."""
    volume = filled(environment)
    copy = copy_of(environment, volume)
    new = secret_file(volume, "new", "the copy's own passphrase")
    done = change(copy, "passphrase", "change", "--passphrase-file", volume.passphrase_file, "--new-passphrase-file", new)
    assert "kept apart" in done.stderr, done.stderr
    for number in range(3):
        change(copy, "slot", "add", "--passphrase-file", new, "--new-passphrase-file",
               secret_file(volume, f"more {number}", f"another passphrase of the copy {number}"))
    opens(environment, volume)
    assert "kept apart" not in change(volume, "slot", "add", "--passphrase-file", volume.passphrase_file, "--new-passphrase-file",
                                      secret_file(volume, "own", "another passphrase of the original")).stderr
    opens(environment, copy, "--passphrase-file", new)
    assert len(slots(copy)) == len(slots(volume)) + 2
    # What is pinned for each is noticed to go back.
    older = read_file(os.path.join(volume.path, ".protectfs.keybag"))
    change(volume, "slot", "add", "--passphrase-file", volume.passphrase_file, "--new-passphrase-file",
           secret_file(volume, "third", "a third passphrase of the original"))
    put(os.path.join(volume.path, ".protectfs.keybag"), older)
    assert "older" in refused(environment, volume, DAMAGED, "--passphrase-file", volume.passphrase_file)
    opens(environment, copy, "--passphrase-file", new)


def test_an_old_copy_is_noticed(environment):
    """A copy that was made before the last change is measured by what is pinned; accepting it lowers nothing for the original."""
    volume = filled(environment)
    copy = copy_of(environment, volume)
    new = secret_file(volume, "new", "the original's new passphrase")
    change(volume, "passphrase", "change", "--passphrase-file", volume.passphrase_file, "--new-passphrase-file", new)
    assert "older" in refused(environment, copy, DAMAGED, "--passphrase-file", volume.passphrase_file)
    opens(environment, copy, "--accept-keybag", "--passphrase-file", volume.passphrase_file)
    opens(environment, copy, "--passphrase-file", volume.passphrase_file)
    old = os.path.join(copy.path, ".protectfs.keybag")
    shutil.copyfile(old, os.path.join(volume.path, ".protectfs.keybag"))
    assert "older" in refused(environment, volume, DAMAGED, "--passphrase-file", volume.passphrase_file)


def test_restored_in_place(environment):
    """What is put at the volume's path is measured by what is pinned for it, though it is another directory."""
    volume = filled(environment)
    copy = copy_of(environment, volume)
    new = secret_file(volume, "new", "the original's new passphrase")
    change(volume, "passphrase", "change", "--passphrase-file", volume.passphrase_file, "--new-passphrase-file", new)
    os.rename(volume.path, volume.path + " away")
    os.rename(copy.path, volume.path)
    assert "older" in refused(environment, volume, DAMAGED, "--passphrase-file", volume.passphrase_file)
    opens(environment, volume, "--accept-keybag", "--passphrase-file", volume.passphrase_file)
    assert not [name for name in known(volume) if ".2." in name]


def test_recovery_code_alone(environment):
    """The recovery code opens a volume whose device key is damaged, cut off or another key."""
    volume = filled(environment)
    code = ["--recovery-file", volume.code_file]
    key = key_file(volume)
    good = read_file(key)
    wrong = {"a flipped bit": bytes([good[0] ^ 1]) + good[1:], "cut off": good[:31], "empty": b"",
             "another key": os.urandom(32)}
    for label, content in wrong.items():
        put(key, content)
        opens(environment, volume, *code)
        said = refused(environment, volume, AUTHENTICATION, "--passphrase-file", volume.passphrase_file)
        assert "device key" in said, (label, said)
        said = refused(environment, volume, AUTHENTICATION, "--no-unlock")
        assert "device key" in said, (label, said)
        environment.cell(f"[{label}: fsck]", 0, protectfs("fsck", *code, volume.path, env=volume.environment, ok=False).returncode)
    # A new device key beside another one, which is left alone.
    new = secret_file(volume, "new", "a passphrase after recovery")
    done = change(volume, "recovery", "use", *code, "--new-passphrase-file", new)
    assert read_file(key) == wrong["another key"], done.stdout
    opens(environment, volume, "--passphrase-file", new)
    opens(environment, volume, *code)


def test_recovery_with_a_damaged_key(environment):
    """A file that is not a key is replaced, and the replaced file stays for older copies, however often."""
    volume = filled(environment)
    old = copy_of(environment, volume)
    key = key_file(volume)
    good = read_file(key)
    for number, content in enumerate((good, b"no key")):
        put(key, content)
        new = secret_file(volume, f"new {number}", f"a passphrase after recovery {number}")
        done = json.loads(change(volume, "recovery", "use", "--json", "--recovery-file", volume.code_file,
                                 "--new-passphrase-file", new).stdout)
        kept = key + (".old" if number == 0 else ".old.2")
        assert done == {"deviceKey": key, "oldDeviceKey": kept}, done
        assert read_file(kept) == content
        opens(environment, volume, "--passphrase-file", new)
    # The copy finds the old key by itself.
    opens(environment, old, "--accept-keybag", "--passphrase-file", volume.passphrase_file)


def test_unlock_finds_the_key(environment):
    """A mounted volume whose device key was given another place is unlocked with the one that opens it."""
    volume = filled(environment)
    mounted = environment.mount(volume)
    mounted.lock()
    key = key_file(volume)
    os.rename(key, key + ".old")
    put(key, os.urandom(32))
    mounted.unlock()
    assert read_file(mounted / "kept") == b"kept"
    mounted.unmount()


def test_rollback_of_a_store_that_was_moved(environment):
    """A store that came from another file system has its own pin: nothing that looks like a new copy opens with an older keybag."""
    volume = filled(environment)
    older, moved = copy_of(environment, volume), copy_of(environment, volume)
    new = secret_file(volume, "new", "the passphrase after the move")
    change(moved, "passphrase", "change", "--passphrase-file", volume.passphrase_file, "--new-passphrase-file", new)
    assert "older" in refused(environment, older, DAMAGED, "--passphrase-file", volume.passphrase_file)
    opens(environment, volume)
    opens(environment, moved, "--passphrase-file", new)


def test_link_in_the_place_of_a_store(environment):
    """Who changes the store puts a link there, to a changed copy: it is measured by what is known of the store."""
    volume = filled(environment)
    copy = copy_of(environment, volume)
    for typed in (volume.path, volume.path + "/", os.path.join(os.path.dirname(volume.path), ".", os.path.basename(volume.path))):
        linked = harness.Volume(typed, volume.data, volume.code_file, volume.passphrase_file)
        os.rename(volume.path, volume.path + " away")
        os.symlink(copy.path, volume.path)
        opens(environment, linked)
        assert not [name for name in known(volume) if ".2." in name], known(volume)
        assert "toleratesEverything\":false" in protectfs("info", "--json", typed, env=volume.environment).stdout
        os.unlink(volume.path)
        os.rename(volume.path + " away", volume.path)
        opens(environment, volume)


def test_a_new_copy_is_announced(environment):
    """The first writable mount of a copy says that crash damage is tolerated in it; later ones, and the original's, say nothing."""
    volume = filled(environment)
    copy = copy_of(environment, volume)
    for store, warns in ((volume, False), (copy, True), (copy, False)):
        place = environment.new_path("mount")
        os.mkdir(place, mode=0o500)
        done = protectfs("mount", "--passphrase-file", volume.passphrase_file, store.path, place, env=volume.environment)
        assert ("crash damage is tolerated" in done.stderr) == warns, done.stderr
        protectfs("unmount", place, env=volume.environment)


def test_damaged_state_of_a_copy(environment):
    """It does not keep the original from being mounted, and what is said names the file and what to do."""
    volume = filled(environment)
    copy = copy_of(environment, volume)
    opens(environment, copy)
    damaged = key_file(volume, "2.state")
    put(damaged, b"damaged")
    opens(environment, volume)
    said = refused(environment, copy, DAMAGED, "--passphrase-file", volume.passphrase_file)
    assert damaged in said and "--forget-state" in said and "to see where" not in said, said
    os.unlink(damaged)
    opens(environment, copy)
    put(key_file(volume, "state"), b"damaged")
    said = refused(environment, volume, DAMAGED, "--passphrase-file", volume.passphrase_file)
    assert "--forget-state" in said, said
    opens(environment, copy)


def test_epochs_of_a_copy(environment):
    """The clock was ahead once. A copy has the files of that session, so its own epochs are higher."""
    volume = filled(environment)
    place = key_file(volume, "state")
    future = 3_000_000_000
    put(place, states.changed(read_file(place), {120: states.little(future, 4)}))
    filled_again = environment.mount(volume)
    write_file(filled_again / "of the future", b"x")
    filled_again.unmount()
    assert states.highest(read_file(place)) == future + 1, states.highest(read_file(place))
    copy = copy_of(environment, volume)
    mounted = mount(environment, copy, "--passphrase-file", volume.passphrase_file)
    write_file(mounted / "later", b"x")
    environment.cell("the copy's epoch", future + 2, states.highest(read_file(key_file(volume, "2.state"))))
    mounted.unmount()
    environment.cell("the original's stays", future + 1, states.highest(read_file(place)))
