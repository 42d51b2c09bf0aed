"""The runner itself: a test that leaves a mount or a daemon behind fails, and is cleaned up after."""

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
