"""Units with credentials of systemd, and questions of systemd-ask-password, in the bed."""


def use(bed, passphrase, user, home):
    """Mounts the first volume of the bed in several units, and opens the user's."""
    mount = "protectfs mount --foreground --{} /srv/volume1 /srv/point1"
    unit = "systemd-run --quiet --unit=documents --property=Type=notify --property=KillMode=process"
    bed.run("systemd-creds setup && systemd-creds encrypt --with-key=host --name=documents /root/passphrase /root/encrypted")

    def is_mounted():
        assert '"state":"unlocked"' in bed.run("protectfs status --json /srv/point1")[1]
        bed.run("protectfs unmount /srv/point1")
        # Until systemd has forgotten it, there is no other unit of this name.
        bed.wait("test \"$(systemctl show -P LoadState documents)\" = not-found", "the end of the unit")

    for given in ("LoadCredential=documents:/root/passphrase", "LoadCredentialEncrypted=documents:/root/encrypted"):
        bed.run(f"{unit} --property={given} {mount.format('passphrase-credential documents')}")
        is_mounted()
    test = f"protectfs slot test --passphrase-credential documents {home}/.documents"
    assert "opens" in bed.run(f"systemd-run --quiet --wait --pipe --property=User={user} "
                              f"--property=LoadCredential=documents:/root/passphrase {test}")[1]
    # Its manager runs while it lingers.
    bed.run(f"loginctl enable-linger {user}")
    bed.run(f"systemd-run --user --quiet --unit=opens --property=Type=oneshot --property=StandardOutput=file:{home}/said "
            f"--property=LoadCredential=documents:{home}/passphrase {test}", user)
    assert "opens" in bed.run(f"cat {home}/said; rm {home}/said")[1]
    bed.run(f"loginctl disable-linger {user}")
    bed.run(f"{unit} --no-block {mount.format('ask-password')}")
    bed.wait("ls /run/systemd/ask-password/ask.*", "the question")
    bed.run("printf %s '" + passphrase + "' | /lib/systemd/systemd-reply-password 1 "
            "$(sed -n 's/^Socket=//p' /run/systemd/ask-password/ask.*)")
    bed.wait("systemctl is-active --quiet documents", "the mount")
    is_mounted()
