"""The package is removed: while a unit of a user runs, and with its settings."""

import time


def below_a_unit(bed, user, home):
    """The unit protectfs@documents, with a file open outside of the user's manager, which nothing closes at the end of that."""
    bed.run(f"chown -R {user}: {home}/.config && loginctl enable-linger {user}")
    bed.wait("systemctl --user start protectfs@documents", "the user's manager", user)
    bed.run(f"systemd-run --quiet --uid={user} --unit=outside sh -c "
            f"'exec 9>>{home}/documents/held; echo before >&9; exec sleep 1000'")
    bed.wait(f"grep -q before {home}/documents/held", "the program that holds a file", user)
    bed.run("dpkg --remove protectfs")
    started = time.monotonic()
    bed.run(f"systemctl stop user@$(id -u {user})", limit=300)
    took = time.monotonic() - started
    assert took < 30, f"the user's manager ended after {took:.0f} s"
    bed.run(f"! findmnt {home}/documents && systemctl stop outside && dpkg -i /root/protectfs.deb && "
            f"systemctl start user@$(id -u {user})")
    bed.wait("systemctl --user start protectfs@documents", "the user's manager", user)
    assert "before" in bed.run("cat ~/documents/held", user)[1].splitlines()
    bed.run("systemctl --user stop protectfs@documents", user)
    bed.run(f"loginctl disable-linger {user}")


def purge(bed, user):
    mount = "protectfs mount --passphrase-file /root/passphrase /srv/volume1 /srv/point1"
    bed.run(f"{mount} && echo content >/srv/point1/kept && protectfs unmount /srv/point1")
    bed.run("dpkg --purge protectfs")
    left = bed.run("find / -xdev -name '*protectfs*' -not -path '/proc/*' 2>/dev/null", ok=False)[1].split()
    ours = [path for path in left if not path.startswith(("/home/", "/root/", "/srv/", "/tmp/systemd-", "/var/tmp/systemd-", "/var/log/"))]
    assert not ours, ours
    bed.run("ls ~/.local/state/protectfs/*.key", user)
    bed.run(f"dpkg -i /root/protectfs.deb && {mount}")
    assert bed.run("cat /srv/point1/kept && protectfs unmount /srv/point1")[1] == "content\n"
