"""A bed that can be sent to sleep."""


def can_sleep(bed):
    """Has the bed what the kernel of a machine that can sleep shows; a container has none of its own."""
    if bed.run("test -e /run/sys/power/state", ok=False)[0] == 0:
        return
    bed.run("mkdir -p /run/sys && mount -t tmpfs sys /run/sys && mount --make-private /run/sys && cd /sys && for name in $(ls | grep -vx power); do "
            "mkdir /run/sys/$name && mount --rbind /sys/$name /run/sys/$name; done; "
            "mkdir -p /run/sys/power && mount -t tmpfs power /run/sys/power && cd /run/sys/power && echo 'freeze mem' >state && "
            "echo '[s2idle] deep' >mem_sleep && mount --rbind /run/sys /sys")


def suspend(bed):
    """Sends the machine to sleep. Returns what `status` said just before it slept, when the machine is awake again."""
    bed.write("/usr/lib/systemd/system-sleep/look", "#!/bin/sh\n[ \"$1\" != pre ] || protectfs status --all --json >/root/asleep\n",
              0o755)
    bed.run("rm -f /root/asleep; echo 'freeze mem' >/sys/power/state; systemctl suspend")
    bed.wait("test -s /root/asleep && grep -q '^mem$\\|^freeze$' /sys/power/state", "the sleep")
    said = open(bed.root + "/root/asleep", encoding="utf-8").read()
    bed.wait("! systemctl is-active --quiet suspend.target sleep.target systemd-suspend.service", "the end of the sleep")
    bed.run("rm /usr/lib/systemd/system-sleep/look")
    return said
