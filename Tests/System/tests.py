"""The tests of the installed package, in the order in which they run. Each gets the bed and leaves nothing mounted."""

import time

import credentials
import documents
import laptop
import removal
from bed import daemon, fstab, is_gone
from sleeping import can_sleep, suspend
from terminal import log_in

PASSPHRASE = "a passphrase of the test bed"
NEW_PASSWORD = "another password of the test bed"
USER = "ada"
HOME = "/home/ada"
# Seconds in which a program of the system is to end; a machine that is busy may need many.
LONG = 90


def test_install(bed):
    """The package alone, without a compiler, and with nothing fetched."""
    for program in ("gcc", "cc", "swift"):
        assert bed.run(f"command -v {program}", ok=False)[0] != 0, f"{program} is in the bed"
    bed.run("dpkg -i /root/protectfs.deb")
    assert "volume format" in bed.run("protectfs --version")[1]
    said = bed.run("dpkg -L protectfs")[1].split()
    for path in ("/usr/bin/protectfs", "/usr/share/man/man1/protectfs.1.gz", "/usr/share/man/man7/protectfs-credentials.7.gz", "/sbin/mount.fuse.protectfs",
                 "/sbin/umount.fuse.protectfs", "/usr/lib/systemd/user/protectfs@.service",
                 "/usr/lib/systemd/user/protectfs-secrets@.service",
                 "/usr/share/pam-configs/protectfs", "/usr/libexec/protectfs-login", "/usr/libexec/protectfs-tpm2",
                 "/usr/lib/systemd/user/protectfs-agent.service", "/usr/lib/systemd/user/protectfs-mounts.service",
                 "/lib/systemd/system/protectfs-lock.service", "/etc/modprobe.d/protectfs.conf",
                 "/usr/share/zsh/vendor-completions/_protectfs", "/usr/share/fish/vendor_completions.d/protectfs.fish",
                 "/usr/share/doc/protectfs/docs/use/restore.md", "/usr/share/SiriKali/backends/protectfs.json",
                 "/usr/bin/protectfs-tray", "/usr/share/nautilus-python/extensions/protectfs_nautilus.py"):
        assert path in said, path
    for path in set(bed.run("zcat /usr/share/man/man1/protectfs.1.gz | grep -o '[^ ]*docs/[^ ]*[.]md'")[1].replace("\\", "").split()):
        assert path in said, f"the manual names {path}"
    # The tray starts only for those who want it.
    assert not [path for path in said if "autostart" in path]
    assert bed.run("ldd /usr/bin/protectfs | grep -i swift", ok=False)[0] != 0, "Swift's libraries are loaded"
    # Its installation enables it.
    bed.run("pam-auth-update --package --remove libpam-mount")
    bed.run(f"useradd --create-home --shell /bin/bash {USER}")
    bed.write("/root/passphrase", PASSPHRASE + "\n", 0o600)
    for number in (1, 2):
        bed.run(f"mkdir -p /srv/point{number} && protectfs init --passphrase-file /root/passphrase /srv/volume{number}")
    # For a user, by the system's unit.
    bed.write(HOME + "/passphrase", PASSPHRASE + "\n")
    bed.run(f"chown {USER}: {HOME}/passphrase")
    bed.run("mkdir -p ~/documents ~/.config/protectfs && protectfs init --passphrase-file ~/passphrase ~/.documents", USER)


def test_automount(bed):
    """x-systemd.automount: the first access mounts, an unused mount is unmounted, the next access mounts again."""
    fstab(bed, "/srv/volume1 /srv/point1 fuse.protectfs "
          "noauto,x-systemd.automount,x-systemd.idle-timeout=2,passphrase_file=/root/passphrase 0 0")
    bed.run("systemctl start srv-point1.automount")
    assert bed.run("findmnt -t fuse.protectfs /srv/point1", ok=False)[0] != 0, "mounted before the first access"
    bed.run(f"timeout {LONG} sh -c 'echo content >/srv/point1/file && cat /srv/point1/file'", limit=LONG + 10)
    first = daemon(bed, "/srv/point1")
    # A look at the mount point itself would be a use.
    bed.wait("! grep -q fuse.protectfs /proc/mounts", "the end of the unused mount")
    bed.wait(f"! test -e /proc/{first}/exe", "the end of its daemon")
    assert bed.run(f"timeout {LONG} cat /srv/point1/file", limit=LONG + 10)[1] == "content\n"
    assert daemon(bed, "/srv/point1") != first
    bed.run("systemctl stop srv-point1.automount srv-point1.mount && ! findmnt /srv/point1")
    fstab(bed)


def test_stop_with_open_files(bed):
    """systemctl stop of a mount unit: refused while a file is open, as for every file system, and complete afterwards."""
    fstab(bed, "/srv/volume1 /srv/point1 fuse.protectfs noauto,passphrase_file=/root/passphrase 0 0")
    bed.run("systemctl start srv-point1.mount && echo before >/srv/point1/open")
    process = daemon(bed, "/srv/point1")
    started = time.monotonic()
    code, said = bed.run("exec 9>>/srv/point1/open; systemctl stop srv-point1.mount; code=$?; echo after >&9; exit $code",
                         ok=False)
    assert code != 0, said
    assert time.monotonic() - started < LONG, "the refusal took too long"
    bed.run("systemctl stop srv-point1.mount")
    assert is_gone(bed, process), "the daemon still runs"
    bed.run("protectfs fsck --quick --passphrase-file /root/passphrase /srv/volume1")
    bed.run("systemctl start srv-point1.mount")
    assert bed.run("cat /srv/point1/open")[1] == "before\nafter\n"
    # Straight after umount(8), the next command need not wait.
    bed.run("umount /srv/point1 && mount /srv/point1 && umount /srv/point1 && "
            "protectfs fsck --quick --passphrase-file /root/passphrase /srv/volume1")
    fstab(bed)


def test_remount(bed):
    fstab(bed, "/srv/volume1 /srv/point1 fuse.protectfs noauto,passphrase_file=/root/passphrase 0 0")
    bed.run("mount /srv/point1 && touch /srv/point1/new && mount -o remount,ro /srv/point1")
    assert "Read-only" in bed.run("touch /srv/point1/new2", ok=False)[1]
    bed.run("mount -o remount,rw /srv/point1 && touch /srv/point1/new2 && umount /srv/point1")
    fstab(bed)


def test_fstab_at_boot(bed):
    """Mounted at boot, before what is ordered after it; a shutdown closes the session."""
    fstab(bed, "/srv/volume1 /srv/point1 fuse.protectfs passphrase_file=/root/passphrase 0 0",
          "/srv/volume2 /srv/point2 fuse.protectfs no_unlock 0 0")
    bed.write("/etc/systemd/system/writer.service", "[Unit]\nRequiresMountsFor=/srv/point1\n[Service]\nType=oneshot\n"
              "ExecStart=/bin/sh -c 'echo written >/srv/point1/at-boot'\n[Install]\nWantedBy=multi-user.target\n")
    bed.run("systemctl daemon-reload && systemctl enable writer.service")
    bed.reboot()
    assert bed.run("findmnt -n -o FSTYPE /srv/point1 /srv/point2", ok=False)[0] in (0, 1)
    for number in (1, 2):
        assert "fuse.protectfs" in bed.run(f"findmnt -n -o FSTYPE /srv/point{number}")[1]
    assert bed.run("cat /srv/point1/at-boot")[1] == "written\n"
    assert "before-first-unlock" in bed.run("protectfs status --json /srv/point2")[1]
    bed.run("protectfs unlock --passphrase-file /root/passphrase /srv/point2")
    bed.run("head -c 30000000 /dev/urandom >/srv/point1/data && sha256sum </srv/point1/data >/root/sum")
    took = bed.reboot()
    assert took < 100, f"the shutdown took {took:.0f} s"
    bed.run("sha256sum </srv/point1/data | cmp - /root/sum && umount /srv/point1 && umount /srv/point2")
    bed.run("systemctl disable writer.service")
    said = bed.run("protectfs fsck --quick --passphrase-file /root/passphrase /srv/volume1")[1]
    assert "nothing to check" in said, said
    fstab(bed)


def test_fstab_of_the_document(bed):
    """The first line of docs/use/installation.md, word for word: other users are let in by its chmod, in the next mount too."""
    documents.fstab_line(bed, USER)


def settings(bed, options):
    bed.write(HOME + "/.config/protectfs/documents.conf",
              f"VOLUME={HOME}/.documents\nMOUNTPOINT={HOME}/documents\nOPTIONS={options}\n")


def test_user_unit(bed):
    """What is ordered after the unit starts when the mount is ready, and never writes into the bare mount point."""
    settings(bed, "--passphrase-file " + HOME + "/passphrase")
    bed.write(HOME + "/.config/systemd/user/writer.service", "[Unit]\nBindsTo=protectfs@documents.service\n"
              "After=protectfs@documents.service\n[Service]\nType=oneshot\n"
              f"ExecStart=/bin/sh -c 'echo written >{HOME}/documents/by-unit'\n")
    bed.run(f"chown -R {USER}: {HOME}/.config && loginctl enable-linger {USER}")
    bed.run("systemctl --user daemon-reload && systemctl --user start writer.service", USER)
    bed.run("findmnt ~/documents && test -f ~/documents/by-unit && systemctl --user is-active protectfs@documents", USER)
    bed.run("systemctl --user stop protectfs@documents && ! findmnt ~/documents", USER)
    code, said = bed.run("echo lost >~/documents/lost", USER, ok=False)
    assert code != 0 and "ermission denied" in said, said
    # The mount fails: what is ordered after it does not start.
    settings(bed, "--passphrase-file " + HOME + "/missing")
    assert bed.run("systemctl --user start writer.service", USER, ok=False)[0] != 0
    bed.run("test -z \"$(ls -A ~/documents)\"", USER)
    settings(bed, "--passphrase-file " + HOME + "/passphrase")
    # It is mounted at the boot too, as the user lingers.
    bed.run("systemctl --user reset-failed; systemctl --user enable protectfs@documents", USER)
    bed.reboot()
    bed.wait("findmnt ~/documents && test -f ~/documents/by-unit", "the mount after the boot", USER)
    bed.run("systemctl --user stop protectfs@documents", USER)


def test_user_unit_stops(bed):
    """A stop with open files locks at once and ends in time; what was written is there afterwards."""
    bed.run("systemctl --user start protectfs@documents && setfattr -n user.protection -v complete ~/documents && "
            "echo before >~/documents/open", USER)
    bed.run("systemd-run --user --unit=holder sh -c 'exec 9>>~/documents/open; echo after >&9; exec sleep 1000'", USER)
    bed.wait("grep -q after ~/documents/open", "the program that holds a file", USER)
    process = bed.run("protectfs status --json ~/documents | sed 's/.*\"pid\":\\([0-9]*\\).*/\\1/'", USER)[1].strip()
    started = time.monotonic()
    bed.run("systemctl --user stop --no-block protectfs@documents", USER)
    bed.wait("protectfs status --json ~/documents | grep -q '\"locked\"' || ! findmnt ~/documents", "the lock", USER)
    bed.wait("! findmnt ~/documents && test \"$(systemctl --user is-active protectfs@documents)\" != deactivating", "the end",
             USER, limit=LONG)
    assert time.monotonic() - started < LONG, "the stop took too long"
    assert is_gone(bed, process)
    assert bed.run("systemctl --user is-active holder", USER, ok=False)[1].strip() == "active", "the program was ended"
    bed.run("systemctl --user stop holder; systemctl --user start protectfs@documents", USER)
    assert bed.run("cat ~/documents/open", USER)[1] == "before\nafter\n"
    # After a kill of the daemon nothing hangs, and the unit starts again.
    bed.run("kill -KILL $(systemctl --user show --property=MainPID --value protectfs@documents)", USER)
    bed.wait("test \"$(systemctl --user is-active protectfs@documents)\" = failed", "the failed unit", USER)
    bed.run("! findmnt ~/documents && systemctl --user start protectfs@documents && cat ~/documents/open", USER)
    bed.run("systemctl --user stop protectfs@documents; systemctl --user disable protectfs@documents", USER)


def test_suspend(bed):
    """The machine sleeps after every mount is locked: also one whose path has a space, and one of a user."""
    bed.run("systemctl enable protectfs-lock.service && mkdir -p '/srv/a point' && "
            "protectfs mount --passphrase-file /root/passphrase /srv/volume1 '/srv/a point'")
    bed.run("protectfs mount --passphrase-file ~/passphrase ~/.documents ~/documents", USER)
    can_sleep(bed)
    said = suspend(bed)
    assert said.count('"locked"') >= 2 and '"state":"unlocked"' not in said, said
    assert bed.run("systemctl show -P Result protectfs-lock.service")[1].strip() == "success"
    bed.run("systemctl disable protectfs-lock.service; protectfs unmount '/srv/a point'")
    bed.run("protectfs unmount ~/documents", USER)


def test_agent(bed):
    """The agent of a user: a lock of the session, an unlock, sleep with and without protectfs-lock, logout, and its own end."""
    can_sleep(bed)
    place = f"{HOME}/documents"
    status = f"protectfs status --json {place}"
    # One session on a terminal stays; without one, logind counts a session as a background job.
    bed.run(f"systemd-run --quiet --unit=login script -qc \"su - {USER} -c 'exec sleep 100000'\" /dev/null")
    find = (f"for one in $(loginctl show-user {USER} -P Sessions); do "
            "if [ \"$(loginctl show-session $one -P Class -P State | tr '\\n' ' ')\" = 'user active ' ]; then echo $one; fi; done")
    bed.wait(f"test -n \"$({find})\"", "the session")
    session = bed.run(find)[1].split()[0]
    bed.write(HOME + "/.config/protectfs/config", f"agent.unlock = {place}: command cat {HOME}/passphrase\n")
    bed.run(f"chown -R {USER}: {HOME}/.config")
    bed.run("systemctl --user enable --now protectfs-agent && systemctl --user is-active protectfs-agent && "
            "protectfs mount --passphrase-file ~/passphrase ~/.documents ~/documents && "
            "setfattr -n user.protection -v complete ~/documents && echo before >~/documents/held", USER)
    assert "delay" in bed.run("systemd-inhibit --list --no-legend | grep protectfs")[1]
    bed.run("systemd-run --user --unit=holder sh -c 'exec 9>>~/documents/held; echo after >&9; exec sleep 1000'", USER)
    bed.wait(f"grep -q after {HOME}/documents/held", "the program that holds a file", USER)

    def lock():
        said = bed.run(f"start=$(date +%s%N); loginctl lock-session {session}; until {status} | grep -q '\"locked\"'; do :; done; "
                       "echo $((($(date +%s%N) - start) / 1000000))", limit=LONG)
        return int(said[1].split()[-1])

    def unlock():
        bed.run(f"loginctl unlock-session {session}")
        bed.wait(f"{status} | grep -q '\"state\":\"unlocked\"'", "the unlock")

    took = []
    for _ in range(3):
        took += [lock()]
        unlock()
    print(f"        a lock of the session locked after {took} ms, with a file open")
    assert min(took) < 1000, took
    # Sleep, by the agent alone, then beside the machine's unit.
    for unit in ("disable", "enable"):
        bed.run(f"systemctl {unit} protectfs-lock.service")
        said = suspend(bed)
        assert '"state":"locked"' in said and '"state":"unlocked"' not in said, said
        bed.wait("systemd-inhibit --list --no-legend | grep -q protectfs", "the next delay")
        unlock()
    assert bed.run("systemctl show -P Result protectfs-lock.service; systemctl disable protectfs-lock.service")[1].startswith("success")
    # logind and the bus are restarted.
    bed.run("systemctl restart systemd-logind")
    bed.wait("systemd-inhibit --list --no-legend | grep -q protectfs", "the delay after a restart of logind")
    lock()
    unlock()
    # Logout: programs of the session go on, among them the mount's daemon, and the user lingers.
    bed.run(f"loginctl enable-linger {USER}; kill $(pgrep -u {USER} -f '^sleep 100000')")
    bed.wait(f"{status} | grep -q '\"locked\"'", "the lock at logout")
    process = daemon(bed, place)
    assert bed.run(f"test -d /proc/{process}", ok=False)[0] == 0, "the daemon has ended"
    bed.run("protectfs unlock --passphrase-file ~/passphrase ~/documents; systemctl --user stop protectfs-agent", USER)
    assert '"locked"' in bed.run(status)[1]
    bed.run("systemctl --user disable protectfs-agent; systemctl --user stop holder; rm ~/.config/protectfs/config; "
            "protectfs unmount ~/documents", USER)
    # A session from before logind's restart would stay in its list, and keep the user's manager.
    bed.reboot()


def test_laptop(bed):
    """The five commands of docs/use/desktop.md, typed word for word by a new user: the files are closed when the machine sleeps."""
    laptop.typed(bed, PASSPHRASE)


def test_security(bed):
    """systemd-analyze security: below 3 where nothing has to be mounted for others."""
    bed.run("systemd-analyze security --threshold=30 protectfs-lock.service")


def test_other_environments(bed):
    """One place for the socket: a mount made without a runtime directory is reached from a login, and the other way round."""
    bed.run(f"loginctl disable-linger {USER}; loginctl terminate-user {USER}; true")
    gone = f"! test -d /run/user/$(id -u {USER})"
    # A manager of a user may take two minutes to end.
    bed.run(f"timeout 20 sh -c 'until {gone}; do sleep 0.2; done' || "
            f"systemctl kill --signal=KILL user@$(id -u {USER}).service; true")
    bed.wait(gone, "the end of the user's runtime directory")
    service = f"systemd-run --wait --quiet --uid={USER} --property=Type=oneshot "
    bed.run(f"systemd-run --quiet --uid={USER} --unit=holds --property=Type=forking protectfs mount "
            f"--passphrase-file {HOME}/passphrase {HOME}/.documents {HOME}/documents")
    assert '"state":"unlocked"' in bed.run("protectfs status --json ~/documents", USER)[1]
    bed.run(f"{service} protectfs lock --grace 0 {HOME}/documents")
    assert '"locked"' in bed.run("protectfs status --json ~/documents", USER)[1]
    bed.run(f"protectfs status {HOME}/documents && protectfs unlock --passphrase-file {HOME}/passphrase {HOME}/documents")
    bed.run(f"{service} protectfs unmount {HOME}/documents")


def login_state(bed):
    """The state of the user's mount as root sees it, or nothing if there is none."""
    said = bed.run(f"protectfs status --json {HOME}/documents", ok=False)[1]
    return next((word for word in ("unlocked", "locked", "before-first-unlock", "sweeping") if f'"state":"{word}"' in said), None)


def wait_for_unlock(bed):
    """On a busy machine the module lets the login go on after some seconds, and the unlock continues (docs/use/login.md)."""
    bed.wait(f"protectfs status --json {HOME}/documents | grep -q '\"state\":\"unlocked\"'", "the unlock")


def wait_for_lock(bed):
    """ssh ends before its session is closed."""
    bed.wait(f"! protectfs status --json {HOME}/documents | grep -q '\"state\":\"unlocked\"'", "the lock")


def locks(bed):
    """How many locks by a command of the user the record has."""
    fields = f"PROTECTFS_EVENT=locked PROTECTFS_REASON=command _UID=$(id -u {USER})"
    return int(bed.run(f"journalctl --sync; journalctl -o cat --output-fields=PROTECTFS_EVENT {fields} | grep -c locked || true")[1])


SSH = f"ssh -tt -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null {USER}@127.0.0.1"


def test_credentials(bed):
    """A service has its passphrase from a credential: plain, encrypted, as another user, and of a user's manager; a person is asked."""
    credentials.use(bed, PASSPHRASE, USER, HOME)


def test_login(bed):
    """The PAM module: login on a terminal, ssh with a password and su unlock; the last logout locks; a new password follows."""
    assert "pam_protectfs" not in bed.run("cat /etc/pam.d/*")[1], "enabled by the installation"
    bed.run("pam-auth-update --enable protectfs")
    order = bed.run("grep -o 'pam_systemd.so\\|pam_protectfs.so' /etc/pam.d/common-session")[1].split()
    assert order == ["pam_systemd.so", "pam_protectfs.so"], order
    assert "pam_protectfs" not in bed.run("cat /etc/pam.d/common-session-noninteractive")[1]
    bed.run(f"echo '{USER}:{PASSPHRASE}' | chpasswd && loginctl disable-linger {USER}")
    settings(bed, "--no-unlock\nLOGIN=yes\nFOLLOW_PASSWORD=yes")
    bed.run(f"chown -R {USER}: {HOME}/.config; systemctl start ssh; ! findmnt {HOME}/documents")
    before = locks(bed)
    is_unlocked = lambda: login_state(bed) == "unlocked"
    # A login on a terminal: the user's manager mounts, and the module unlocks.
    with log_in(bed, f"login {USER}", PASSPHRASE) as first:
        wait_for_unlock(bed)
        assert first.run("echo content >~/documents/by-login && systemctl --user is-active protectfs@documents") == 0
        process = daemon(bed, HOME + "/documents")
        with log_in(bed, SSH, PASSPHRASE) as second:
            assert second.run("grep content ~/documents/by-login") == 0
            first.leave()
            assert is_unlocked(), "locked, with a session left"
            # Other users of the account are no logins: they lock nothing when they end.
            bed.run("true", USER)
            bed.run(f"systemd-run --wait --quiet --uid={USER} --property=PAMName=cron true")
            assert is_unlocked(), "locked by what is no login"
            # A changed password.
            second.type("passwd")
            second.type(PASSPHRASE, after="urrent password: ")
            second.type(NEW_PASSWORD, after="ew password: ")
            second.type(NEW_PASSWORD, after="ew password: ")
            second.read_until("updated successfully")
            assert second.run("true") == 0
            second.leave()
        wait_for_lock(bed)
    # The user's manager ends after the last session, and with it the mount.
    bed.wait(f"! findmnt {HOME}/documents", "the end of the mount")
    assert is_gone(bed, process)
    with log_in(bed, SSH, NEW_PASSWORD) as terminal:
        wait_for_unlock(bed)
        assert terminal.run("grep content ~/documents/by-login") == 0
        terminal.leave()
    wait_for_lock(bed)
    # su by somebody else. Within another session there may be no manager of the user's: then the module mounts.
    bed.run("id bob >/dev/null 2>&1 || useradd --create-home --shell /bin/bash bob")
    with log_in(bed, f"su - {USER}", NEW_PASSWORD, "bob") as terminal:
        wait_for_unlock(bed)
        terminal.leave()
    wait_for_lock(bed)
    # By the module, and not by the end of the manager.
    assert locks(bed) - before == 3, locks(bed) - before
    # A program that calls PAM for a service and does nothing else.
    started = bed.run("date +%s.%N")[1].strip()
    bed.run(f"echo '{NEW_PASSWORD}' | pamtester login {USER} authenticate open_session close_session")
    wait_for_lock(bed)
    said = bed.run(f"journalctl --sync; journalctl --since=@{started} -o cat --output-fields=PROTECTFS_EVENT _UID=$(id -u {USER})")[1]
    assert "unlocked" in said.split() and "locked" in said.split(), said
    # A password that is not the passphrase: one line in the log, and a login all the same.
    bed.run(f"echo '{USER}:{PASSPHRASE}' | chpasswd")
    with log_in(bed, f"login {USER}", PASSPHRASE) as terminal:
        assert not is_unlocked()
        terminal.leave()
    assert bed.run("journalctl -t pam_protectfs | grep -c 'is not its passphrase'")[1].strip() == "1"
    bed.run("pam-auth-update --package --remove protectfs; userdel --remove bob 2>/dev/null; systemctl stop ssh")
    bed.wait(f"protectfs unmount {HOME}/documents; ! findmnt {HOME}/documents", "the end of the mount")
    # As it was, for the tests that follow.
    bed.run(f"echo '{NEW_PASSWORD}' | protectfs passphrase change --passphrase-file=- --new-passphrase-file={HOME}/passphrase "
            "~/.documents", USER)


def test_login_by_pam_mount(bed):
    """The other way: libpam-mount, with the lines that docs/use/login.md shows."""
    path = "/etc/security/pam_mount.conf.xml"
    before = bed.run(f"cat {path}")[1]
    bed.write(path, before.replace("</pam_mount>", f"""
<fusemount>protectfs mount --passphrase-file=- -- %(VOLUME) %(MNTPT)</fusemount>
<fuseumount>protectfs unmount --grace=5 -- %(MNTPT)</fuseumount>
<volume user="{USER}" fstype="fuse" noroot="1" path="{HOME}/.documents" mountpoint="{HOME}/documents" />
</pam_mount>"""))
    bed.run(f"pam-auth-update --enable libpam-mount && echo '{USER}:{PASSPHRASE}' | chpasswd")
    with log_in(bed, f"login {USER}", PASSPHRASE) as terminal:
        assert login_state(bed) == "unlocked" and terminal.run("echo content >~/documents/by-pam-mount") == 0
        process = daemon(bed, HOME + "/documents")
        terminal.leave()
    bed.wait(f"! findmnt {HOME}/documents", "the end of the mount")
    assert is_gone(bed, process)
    bed.run("pam-auth-update --package --remove libpam-mount")
    bed.write(path, before)


def test_unit_without_program(bed):
    """The package is removed below a running unit: a stop locks at once and ends in time, and nothing that was written is lost."""
    settings(bed, f"--passphrase-file {HOME}/passphrase")
    removal.below_a_unit(bed, USER, HOME)


def test_purge(bed):
    """A purge removes what the package has brought. Volumes and the keys in homes stay, and open after a new installation."""
    removal.purge(bed, USER)
