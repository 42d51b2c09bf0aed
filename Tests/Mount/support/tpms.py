"""A software TPM (swtpm), and a build of protectfs with its TPM helper."""

import os
import shutil
import socket
import struct
import subprocess
import threading
import time

import harness
from built import built

MAKE = os.path.join(harness.REPOSITORY, "mount-scripts/packaging/make-tpm2")
HELPER = "/libexec/protectfs-tpm2"
PATIENCE = 60
#: Places in the TLV of a TPM's slot, and its length without the two parts.
FLAGS, PCRS, SALT, NAME, PUBLIC = 0, 4, 8, 24, 60


def installed(environment):
    """Makes protectfs the program of a directory that has the TPM helper too; gives the helper."""
    if not shutil.which("swtpm"):
        raise harness.Skip("needs swtpm")
    if not os.path.exists("/usr/include/tss2/tss2_esys.h") or not shutil.which("cc"):
        raise harness.Skip("needs libtss2-dev and a C compiler")

    def make(prefix):
        os.makedirs(prefix + "/bin")
        shutil.copy2(harness.binary(), prefix + "/bin/protectfs")
        made = harness.run(MAKE, prefix, timeout=None).stdout.strip()
        assert made == prefix + HELPER, made

    prefix = built(environment, "tpm2", make)
    os.environ["PROTECTFS"] = prefix + "/bin/protectfs"
    return prefix + HELPER


def listens(path):
    """Whether somebody does at a socket; one may be there before."""
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(path) == 0


class TPM:
    """A software TPM with a state of its own."""

    def __init__(self, environment):
        self.place = environment.new_path("tpm")
        os.makedirs(self.place)
        self.socket = self.place + "/socket"
        self.process = None
        self.start()

    @property
    def device(self):
        return "swtpm:path=" + self.socket

    def start(self):
        """Starts it as a machine that starts does: its PCRs are zero again."""
        control = self.socket + ".ctrl"
        for path in (self.socket, control):
            if os.path.exists(path):
                os.unlink(path)
        self.process = subprocess.Popen(
            ["swtpm", "socket", "--tpm2", "--tpmstate", "dir=" + self.place, "--server", "type=unixio,path=" + self.socket,
             "--ctrl", "type=unixio,path=" + control, "--flags", "startup-clear"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        end = time.monotonic() + PATIENCE
        while not (os.path.exists(control) and listens(self.socket)):
            assert self.process.poll() is None, "swtpm has ended"
            assert time.monotonic() < end, "swtpm does not start"
            time.sleep(0.02)

    def stop(self):
        self.process.terminate()
        self.process.wait()

    def restart(self):
        self.stop()
        self.start()

    def command(self, code, body, tag=0x8002):
        """One command of the TPM, with the password session of an empty password; fails unless it succeeds."""
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(self.socket)
        connection.sendall(struct.pack(">HII", tag, 10 + len(body), code) + body)
        answer = connection.recv(4096)
        connection.close()
        assert answer[6:10] == bytes(4), answer.hex()
        return answer

    _session = struct.pack(">IIHBH", 9, 0x40000009, 0, 0, 0)

    def extend(self, pcr):
        """TPM2_PCR_Extend."""
        self.command(0x182, struct.pack(">I", pcr) + self._session + struct.pack(">IH", 1, 0xb) + b"\x5a" * 32)

    def clear(self):
        """TPM2_Clear with the lockout hierarchy: what was sealed is lost."""
        self.command(0x126, struct.pack(">I", 0x4000000a) + self._session)

    def persist(self, attributes=0x00030472):
        """TPM2_CreatePrimary by the template of the format and TPM2_EvictControl: the storage key is at its usual handle.

        With other attributes it is another key.
        """
        owner, empty = struct.pack(">I", 0x40000001), struct.pack(">H", 32) + bytes(32)
        public = struct.pack(">HHIHHHHHHH", 0x23, 0xb, attributes, 0, 6, 128, 0x43, 0x10, 3, 0x10) + empty * 2
        made = self.command(0x131, owner + self._session + struct.pack(">HHH", 4, 0, 0) + struct.pack(">H", len(public)) +
                            public + bytes(6))
        self.command(0x120, owner + made[10:14] + self._session + struct.pack(">I", 0x81000001))
        self.command(0x165, made[10:14], tag=0x8001)

    def read_public(self):
        """TPM2_ReadPublic of the storage key at its usual handle: the whole answer."""
        return self.command(0x173, struct.pack(">I", 0x81000001), tag=0x8001)

    def set_lockout_password(self):
        self.set_owner_password(0x4000000a)

    def set_owner_password(self, hierarchy=0x40000001):
        """TPM2_HierarchyChangeAuth of the owner hierarchy, or of another one."""
        self.command(0x129, struct.pack(">I", hierarchy) + self._session + struct.pack(">H", 6) + b"secret")


class Tap:
    """A bus that is listened to: forwards both sockets of a TPM, and keeps what passes.

    With `change(command, answer)` it gives another answer than the TPM.
    """

    def __init__(self, environment, tpm, change=None):
        self.socket = environment.new_path("tap")
        self.heard = bytearray()
        self.change = change
        for suffix in ("", ".ctrl"):
            listener = socket.socket(socket.AF_UNIX)
            listener.bind(self.socket + suffix)
            listener.listen(8)
            self._serve(listener, tpm.socket + suffix)

    @property
    def device(self):
        return "swtpm:path=" + self.socket

    def _serve(self, listener, target):
        def copy(one, other, last, is_answer):
            while True:
                try:
                    data = one.recv(65536)
                except OSError:
                    data = b""
                if not data:
                    break
                self.heard += data
                if not is_answer:
                    last[0] = data
                elif self.change:
                    data = self.change(last[0], data)
                other.sendall(data)
            try:
                other.shutdown(socket.SHUT_WR)
            except OSError:
                pass

        def accept():
            while True:
                client = listener.accept()[0]
                server = socket.socket(socket.AF_UNIX)
                server.connect(target)
                last = [b""]
                for words in ((client, server, last, False), (server, client, last, True)):
                    threading.Thread(target=copy, args=words, daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()


def ask(helper, device, request, **more):
    """One request to the helper itself; gives the status and what follows the number."""
    done = subprocess.run([helper, device], input=request, capture_output=True, timeout=PATIENCE, **more)
    return done.stdout[0], done.stdout[5:]


def seal_request(secret, pcrs=0, auth=None):
    return bytes([1, auth is not None]) + struct.pack("<I", pcrs) + (auth or bytes(32)) + secret


def unseal_request(sealed, pcrs=0, auth=None):
    return bytes([2, auth is not None]) + struct.pack("<I", pcrs) + (auth or bytes(32)) + sealed


class Sealed:
    """The last slot of a keybag, which is a TPM's, as its parts."""

    def __init__(self, bag):
        self.slot = bag.slots()[-1]
        u16 = bag.primitives.u16
        for at in range(104, 104 + u16(self.slot, 10)):
            if self.slot[at:at + 2] == b"\4\0" and bag.primitives.u32(self.slot, at + 2) > 60:
                break
        self.start = at + 6
        self.value = self.slot[self.start:self.start + bag.primitives.u32(self.slot, at + 2)]
        self.middle = PUBLIC + u16(self.value, PUBLIC - 2)

    def with_value(self, value):
        assert len(value) == len(self.value)
        return self.slot[:self.start] + value + self.slot[self.start + len(value):]

    def flipped(self, at, bit=1):
        return self.with_value(self.value[:at] + bytes([self.value[at] ^ bit]) + self.value[at + 1:])
