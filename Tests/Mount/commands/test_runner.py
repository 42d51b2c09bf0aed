"""The runner: a mount or daemon that a test leaves is a failure and is removed; those of others are left alone."""

import contextlib
import io
import os
import shutil
import subprocess

import harness
import run


def leave_a_mount(environment):
    """By relative names, and unknown to the environment."""
    volume = environment.volume()
    os.mkdir(os.path.join(environment.base, "left"))
    harness.run(harness.binary(), "mount", "--recovery-file", volume.code_file, os.path.relpath(volume.path, environment.base),
                "left", cwd=environment.base, env=volume.environment)


def leave_a_daemon(environment):
    """A process named as the daemon, in a session of its own, with nothing of the test in its arguments."""
    shutil.copy(shutil.which("sleep"), os.path.join(environment.base, "protectfs"))
    subprocess.Popen(["./protectfs", "600"], cwd=environment.base, start_new_session=True, stdin=subprocess.DEVNULL)
    # Popen returns a moment before the process has its new name and environment.
    harness.wait_until(lambda: harness.daemons(environment.base, inherited=True), what="the daemon")


def leave_nothing(environment):
    environment.mount()


def test_what_is_left_is_noticed(environment):
    place, leaving = environment.new_path("inner"), run.LEAVING
    for function, wanted in ((leave_nothing, None), (leave_a_mount, "left mounted: "), (leave_a_daemon, "left a daemon")):
        totals, printed = run.Totals(), io.StringIO()
        # What is left for certain need not be waited for.
        run.LEAVING = 1 if function is leave_a_daemon else leaving
        with contextlib.redirect_stdout(printed):
            run.run_test(function.__name__, function, 60, totals, place, environment.template, environment.control, "quick")
        environment.cell(f"{function.__name__}: failures", 0 if wanted is None else 1, len(totals.failed))
        environment.cell(f"{function.__name__}: said", True, wanted is None or wanted in printed.getvalue())
        base = os.path.join(place, function.__name__)
        harness.wait_until(lambda: not harness.daemons(base, inherited=True), what="the end of what was left")
        environment.cell(f"{function.__name__}: no mount", False,
                         any(row[1].startswith(base) for row in harness.mount_table()))


def test_unsteady_tests(environment):
    """With --again, a test that passes alone is unsteady and no failure; but not one that works by chance, and not many at once."""
    runs = environment.new_path("runs")

    def steady(_):
        pass

    def unsteady(inner):
        with open(runs, "a+", encoding="utf-8") as file:
            file.seek(0)
            first = not file.read()
            file.write("x")
        inner.cell("[a cell, with words]", first, False)

    def failing(inner):
        inner.cell("", 1, 2)

    table = [("once.twice", unsteady, 60), ("once.passes", steady, 60), ("once.fails", failing, 60), ("soak.chance", failing, 60)]
    for label, names, wanted in (
            ("one of two passes", ["once.twice", "once.passes", "once.fails"], (["once.twice"], ["once.fails"])),
            ("by chance", ["once.twice", "soak.chance"], ([], ["once.twice [a cell, with words]", "soak.chance"])),
            ("too many", ["once.twice"] + ["once.fails"] * run.UNSTEADY, None)):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(runs)
        chosen = [test for name in names for test in table if test[0] == name]
        if wanted is None:
            chosen = [(f"{name}{number}", *rest) for number, (name, *rest) in enumerate(chosen)]
            wanted = ([], ["once.twice0 [a cell, with words]"] + [f"once.fails{number}" for number in range(1, run.UNSTEADY + 1)])
        totals = run.Totals()
        with contextlib.redirect_stdout(io.StringIO()):
            run.run_tests(chosen, "quick", totals)
            run.run_again(chosen, "quick", totals)
        environment.cell(f"{label}: unsteady, failed", wanted, (totals.unsteady, totals.failed))


def test_others_are_left_alone(environment):
    """A mount of another copy of the program, in another place, stays when a run of tests ends."""
    place, program = environment.new_path("inner"), os.path.join(environment.new_path("elsewhere"), "protectfs")
    os.mkdir(os.path.dirname(program))
    shutil.copy(harness.binary(), program)
    volume, path = environment.volume(), environment.new_path("another mount")
    os.mkdir(path)
    variables = {name: value for name, value in volume.environment.items() if name != "PROTECTFS_TEST"}
    harness.run(program, "mount", "--recovery-file", volume.code_file, volume.path, path, env=variables)
    others = harness.Mount(volume, path)
    try:
        totals = run.Totals()
        with contextlib.redirect_stdout(io.StringIO()):
            run.run_test("leave_nothing", leave_nothing, 60, totals, place, environment.template, environment.control, "quick")
            run.clean(totals, "no mount is left", place, environment.control)
        environment.cell("failures", [], totals.failed)
        environment.cell("the other mount", "unlocked", others.state())
    finally:
        others.unmount()


def test_a_failure_shows_everything(environment):
    """The error of a command has its words, its exit code and all that it printed; so has that of one that hangs."""
    for label, script, limit, wanted in (("failed", "exit 3", 60, "exit code 3"), ("late", "exec sleep 60", 1, "not ended after 1 s")):
        try:
            harness.run("sh", "-c", f"echo some output; echo a reason >&2; {script}", timeout=limit)
            said = "nothing"
        except harness.CommandFailed as error:
            said = str(error)
        environment.cell(f"{label}: what is missing", [], [
            word for word in ("sh -c echo", wanted, "standard output: some output", "standard error: a reason") if word not in said])
