"""What UIApplication says of protected data when no mount was named, and observers that know only the notifications' names."""

import os

import harness
from harness import GRACE, read_file, wait_until
from namespaces import only_own_mounts
from talk import Program, sockets
from users import OrdinaryUser


def asks(path, **more):
    """A program that says whether protected data is available; neither home nor working directory is on a mount."""
    return Program("porting-state", "asked", path, cwd="/", **more)


def test_several_mounts(environment):
    """Nobody has said which mount is meant: all of the user's must be unlocked, and the program is told what to do."""
    only_own_mounts()
    first, second = environment.mount(), environment.mount(unlock=False)
    messages = environment.new_path("messages")
    with open(messages, "wb") as file, asks(first.path, stderr=file) as program:
        environment.cell("[one is before its first unlock]", ["false"], program.ask(""))
        second.unlock()
        environment.cell("[both unlocked]", ["true"], program.ask(""))
        for mount in (first, second):
            mount.lock()
            environment.cell("[one locked]", ["false"], program.ask(""))
            mount.unlock()
        environment.cell("[both unlocked again]", ["true"], program.ask(""))
        second.unmount()
        environment.cell("[one is gone]", ["true"], program.ask(""))
    said = read_file(messages).decode()
    environment.cell("[said once]", 1, said.count("several protected mounts"))
    environment.cell("[and how to name one]", True, "useProtectedData(at:)" in said)


def test_mounts_of_other_users(environment):
    """A mount of another user says nothing about the data of this one."""
    only_own_mounts()
    user = OrdinaryUser(environment)
    mount = environment.mount(options=["allow_other"], unlock=False)
    os.chmod(mount.path, 0o755)
    os.chmod(environment.base, 0o755)
    user.run(harness.binary(), "mount", "--recovery-file", user.code_file, user.volume, user.path)
    try:
        said = user.run(*command(user.path), input="\n", cwd="/").stdout.split()
        environment.cell("[another user's is closed]", ["true"], said)
        user.run(harness.binary(), "lock", user.path)
        mount.unlock()
        said = user.run(*command(user.path), input="\n", cwd="/").stdout.split()
        environment.cell("[the own one is closed]", ["false"], said)
    finally:
        user.run(harness.binary(), "unmount", user.path)


def command(path):
    return [harness.program("porting-state"), "asked", path]


def test_names_alone(environment):
    """Observers that know the notifications by their names, and have asked the application for nothing."""
    mount = environment.mount()
    with Program("porting-state", "raw-names", mount.path, cwd=mount.path) as program:
        assert program.line() == "ready"
        for number in range(2):
            mount.lock("--grace", GRACE)
            environment.cell(f"[told of the lock, {number}]", "UIApplicationProtectedDataWillBecomeUnavailable", program.line())
            mount.unlock()
            environment.cell(f"[told of the unlock, {number}]", "UIApplicationProtectedDataDidBecomeAvailable", program.line())


def test_mounts_that_come_and_go(environment):
    """Nobody has said which mount is meant: a mount that appears counts from then on, and one that has gone no longer."""
    only_own_mounts()
    # The program needs some mount to start with.
    first = environment.mount()
    with asks(first.path) as program:
        environment.cell("[one, unlocked]", ["true"], program.ask(""))
        second = environment.mount(unlock=False)
        environment.cell("[another one appears locked]", ["false"], program.ask(""))
        second.unlock()
        environment.cell("[and is unlocked]", ["true"], program.ask(""))
        first.lock()
        environment.cell("[the first is locked]", ["false"], program.ask(""))
        first.unmount()
        environment.cell("[and has gone]", ["true"], program.ask(""))
        second.unmount()
        environment.cell("[none is left]", ["false"], program.ask(""))
        third = environment.mount()
        environment.cell("[a new one]", ["true"], program.ask(""))
        third.lock()
        environment.cell("[is locked]", ["false"], program.ask(""))


def test_container_that_has_gone(environment):
    """While the container's mount is away nothing in the container can be opened."""
    only_own_mounts()
    mount = environment.mount()
    with Program("porting-state", "contained", mount / "app", cwd="/") as program:
        assert program.line() == "ready"
        environment.cell("[mounted]", ["true"], program.ask(""))
    with Program("porting-state", "contained", mount / "app", cwd="/") as program:
        assert program.line() == "ready"
        mount.unmount()
        environment.cell("[away]", ["false"], program.ask(""))
        environment.mount(mount.volume, path=mount.path)
        environment.cell("[mounted again]", ["true"], program.ask(""))


def test_started_before_the_mount(environment):
    """A program that observes before its mount is there is told of all that happens then."""
    only_own_mounts()
    become = [f"UIApplicationProtectedData{name}" for name in ("WillBecomeUnavailable", "DidBecomeAvailable")]
    for ask_first in (False, True):
        with Program("porting-state", "early", cwd="/") as program:
            assert program.line() == "ready"
            if ask_first:
                environment.cell("[no mount]", ["true"], program.ask(""))
            mount = environment.mount(unlock=False)
            if ask_first:
                environment.cell("[a locked mount appears]", become[0], program.line())
            else:
                wait_until(lambda: sockets(program.process.pid), what="the observer")
            mount.unlock()
            environment.cell(f"[unlocked, {ask_first}]", become[1], program.line())
            mount.lock("--grace", GRACE)
            environment.cell(f"[locked, {ask_first}]", become[0], program.line())
            mount.unmount()
