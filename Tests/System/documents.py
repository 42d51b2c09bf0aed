"""Examples of the documents, word for word, in a system of their own."""

import os
import re

from bed import REPOSITORY, fstab


def document(name):
    """The text of one of the documents."""
    with open(os.path.join(REPOSITORY, "docs", name), encoding="utf-8") as file:
        return file.read()


def fstab_line(bed, user):
    """The first line of fstab, and its chmod."""
    text = document("use/installation.md")
    line = next(line for line in text.splitlines() if line.startswith("/srv/documents.volume "))
    change = re.search("`(chmod [^`]*)`", text)[1]
    bed.run("protectfs init --passphrase-file /root/passphrase /srv/documents.volume && mkdir /srv/documents")
    fstab(bed, line)
    unlock = "protectfs unlock --passphrase-file /root/passphrase /srv/documents"
    bed.run(f"mount /srv/documents && {unlock} && echo content >/srv/documents/file")
    assert bed.run("cat /srv/documents/file", user, ok=False)[0] != 0, "a new volume is open to others"
    bed.run(change)
    bed.run(f"umount /srv/documents && mount /srv/documents && {unlock}")
    assert bed.run("cat /srv/documents/file", user)[1] == "content\n"
    bed.run("umount /srv/documents")
    fstab(bed)
