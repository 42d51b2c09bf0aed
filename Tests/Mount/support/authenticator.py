"""A security key in software: CTAP 2 over CTAPHID, with PIN and hmac-secret, on a Unix socket.

It serves `--fido2-device socket:PATH` and `--fido2-key socket:PATH`. A test may make it misbehave (`faults`).
"""

import hashlib
import hmac
import os
import socket
import struct
import threading
import time

try:
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
except ImportError:
    ec = None

REPORT = 64
BROADCAST = 0xFFFFFFFF
INIT, CBOR, CANCEL, KEEPALIVE, ERROR = 0x06, 0x10, 0x11, 0x3B, 0x3F
MAKE, ASSERT, INFO, CLIENT_PIN = 0x01, 0x02, 0x04, 0x06
OK, NO_CREDENTIALS, DENIED, UNSUPPORTED_OPTION = 0x00, 0x2E, 0x27, 0x2B
PIN_INVALID, PIN_BLOCKED, PIN_AUTH_INVALID, PIN_AUTH_BLOCKED, PIN_NOT_SET, PIN_REQUIRED = 0x31, 0x32, 0x33, 0x34, 0x35, 0x36
USER_ACTION_TIMEOUT, INVALID_CBOR, INVALID_COMMAND = 0x2F, 0x12, 0x01
ATTEMPTS, ATTEMPTS_IN_A_ROW = 8, 3


# CBOR, as far as CTAP needs it.

def head(major, number):
    for code, size, limit in ((None, 0, 24), (24, 1, 1 << 8), (25, 2, 1 << 16), (26, 4, 1 << 32)):
        if number < limit:
            return bytes([major << 5 | number]) if code is None else bytes([major << 5 | code]) + number.to_bytes(size, "big")
    raise ValueError(number)


def encode(value):
    if isinstance(value, bool):
        return b"\xf5" if value else b"\xf4"
    if isinstance(value, int):
        return head(0, value) if value >= 0 else head(1, -1 - value)
    if isinstance(value, bytes):
        return head(2, len(value)) + value
    if isinstance(value, str):
        return head(3, len(value.encode())) + value.encode()
    if isinstance(value, list):
        return head(4, len(value)) + b"".join(map(encode, value))
    pairs = sorted((encode(key), encode(item)) for key, item in value.items())
    pairs.sort(key=lambda pair: (pair[0][0] >> 5, len(pair[0]), pair[0]))
    return head(5, len(value)) + b"".join(key + item for key, item in pairs)


def decode(data, at=0):
    """A value, and the place behind it."""
    major, number, at = data[at] >> 5, data[at] & 31, at + 1
    if 24 <= number <= 26:
        size = 1 << (number - 24)
        number, at = int.from_bytes(data[at:at + size], "big"), at + size
    if major == 7:
        return {20: False, 21: True}.get(number), at
    if major in (0, 1):
        return number if major == 0 else -1 - number, at
    if major in (2, 3):
        text = data[at:at + number]
        return (text if major == 2 else text.decode()), at + number
    items = []
    for _ in range(number * (major - 3)):
        item, at = decode(data, at)
        items.append(item)
    return (items if major == 4 else dict(zip(items[::2], items[1::2]))), at


def sha256(data):
    return hashlib.sha256(data).digest()


def mac(key, data):
    return hmac.new(key, data, hashlib.sha256).digest()


class Failure(Exception):
    """A status of CTAP."""


class Channel:
    """The shared secret of one request, by PIN protocol 1 or 2."""

    def __init__(self, protocol, private, peer):
        point = ec.EllipticCurvePublicNumbers(
            int.from_bytes(peer[-2], "big"), int.from_bytes(peer[-3], "big"), ec.SECP256R1()).public_key()
        shared = private.exchange(ec.ECDH(), point)
        self.protocol = protocol
        if protocol == 1:
            self.aes = self.hmac = sha256(shared)
        else:
            extracted = mac(bytes(32), shared)
            self.hmac, self.aes = (mac(extracted, b"CTAP2 %s key\1" % name) for name in (b"HMAC", b"AES"))

    def decrypt(self, data):
        iv, data = (bytes(16), data) if self.protocol == 1 else (data[:16], data[16:])
        cipher = Cipher(algorithms.AES(self.aes), modes.CBC(iv)).decryptor()
        return cipher.update(data) + cipher.finalize()

    def encrypt(self, data):
        iv = bytes(16) if self.protocol == 1 else os.urandom(16)
        cipher = Cipher(algorithms.AES(self.aes), modes.CBC(iv)).encryptor()
        return (b"" if self.protocol == 1 else iv) + cipher.update(data) + cipher.finalize()

    def check(self, data, tag):
        found = mac(self.hmac, data)
        if not hmac.compare_digest(found[:16] if self.protocol == 1 else found, tag):
            raise Failure(PIN_AUTH_INVALID)


class Authenticator:
    """A key that serves one connection after the other, in a thread, until it is closed."""

    def __init__(self, path, pin=None, protocol=2, extensions=("hmac-secret",), touches=True, always_pin=False):
        self.path, self.pin, self.protocol, self.extensions = str(path), pin, protocol, list(extensions)
        #: Whether somebody touches it; False lets it say after a moment that nobody did.
        self.touches, self.always_pin = touches, always_pin
        self.attempts, self.in_a_row = ATTEMPTS, ATTEMPTS_IN_A_ROW
        self.master = os.urandom(32)
        #: What it does wrong: command of CTAP -> function of its answer that gives bytes, None for silence.
        self.faults = {}
        #: The commands of CTAP that it has got, and how often it was touched.
        self.asked, self.touched = [], 0
        self.private = ec.generate_private_key(ec.SECP256R1())
        self.token = os.urandom(32)
        self.listener = socket.socket(socket.AF_UNIX)
        if os.path.exists(self.path):
            os.unlink(self.path)
        self.listener.bind(self.path)
        self.listener.listen(8)
        self.closed = False
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    @property
    def device(self):
        return "socket:" + self.path

    def close(self):
        self.closed = True
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join(30)

    def plug_in_again(self):
        """As after a loss of power: wrong PINs in a row are forgotten."""
        self.in_a_row = ATTEMPTS_IN_A_ROW
        self.private = ec.generate_private_key(ec.SECP256R1())
        self.token = os.urandom(32)

    # CTAPHID.

    def serve(self):
        while not self.closed:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            with connection:
                try:
                    self.talk(connection)
                except (ConnectionError, OSError):
                    pass

    def report(self, connection):
        data = b""
        while len(data) < REPORT:
            more = connection.recv(REPORT - len(data))
            if not more:
                raise ConnectionError
            data += more
        return data

    def talk(self, connection):
        while True:
            first = self.report(connection)
            channel, command, length = struct.unpack(">IBH", first[:7])
            command, data, sequence = command & 0x7F, first[7:], 0
            while len(data) < length:
                data += self.report(connection)[5:]
                sequence += 1
            data = data[:length]
            if command == INIT:
                self.send(connection, channel, INIT, data[:8] + struct.pack(">IBBBBB", 0x1234, 2, 1, 0, 0, 0x0C))
            elif command == CBOR:
                self.answer(connection, channel, data)
            elif command != CANCEL:
                self.send(connection, channel, ERROR, bytes([INVALID_COMMAND]))

    def send(self, connection, channel, command, data):
        first = struct.pack(">IBH", channel, command | 0x80, len(data)) + data[:57]
        rest = data[57:]
        connection.sendall(first.ljust(REPORT, b"\0"))
        for sequence in range((len(rest) + 58) // 59):
            part = rest[59 * sequence:59 * sequence + 59]
            connection.sendall((struct.pack(">IB", channel, sequence) + part).ljust(REPORT, b"\0"))

    def answer(self, connection, channel, data):
        command = data[0]
        self.asked.append(command)
        try:
            request = decode(data, 1)[0] if len(data) > 1 else {}
            result = {MAKE: self.make, ASSERT: self.assertion, INFO: self.info, CLIENT_PIN: self.client_pin}[command](
                request, lambda: self.send(connection, channel, KEEPALIVE, b"\2"))
            answer = bytes([OK]) + encode(result)
        except Failure as failure:
            answer = bytes([failure.args[0]])
        except (KeyError, IndexError, ValueError, TypeError):
            answer = bytes([INVALID_CBOR])
        fault = self.faults.get(command)
        if fault is not None:
            answer = fault(answer)
        if answer == "hang up":
            raise ConnectionError
        if answer is not None:
            self.send(connection, channel, CBOR, answer)

    # CTAP 2.

    def info(self, _request, _alive):
        options = {"rk": True, "up": True, "plat": False, "clientPin": self.pin is not None}
        if self.always_pin:
            options["alwaysUv"] = True
        return {1: ["FIDO_2_0"], 2: self.extensions, 3: bytes(16), 4: options, 5: 1200, 6: [self.protocol]}

    def touch(self, alive):
        alive()
        time.sleep(0.05)
        if self.touches == "denied":
            raise Failure(DENIED)
        if not self.touches:
            raise Failure(USER_ACTION_TIMEOUT)
        self.touched += 1

    def verified(self, request, tag, protocol):
        """Whether the request is authenticated with the PIN's token."""
        if tag in request:
            if self.pin is None:
                raise Failure(PIN_NOT_SET)
            if request.get(protocol) != self.protocol:
                raise Failure(PIN_AUTH_INVALID)
            found = mac(self.token, request[1] if tag == 8 else request[2])
            if not hmac.compare_digest(found[:16] if self.protocol == 1 else found, request[tag]):
                raise Failure(PIN_AUTH_INVALID)
            return True
        return False

    def secret_of(self, identity, verified):
        """The secret of a credential: one with the PIN, another one without."""
        return mac(self.master, (b"with PIN" if verified else b"without PIN") + identity)

    def secret_for(self, field, with_pin):
        """What it gives for a slot: flags, salt and the credential's ID."""
        return mac(self.secret_of(field[33:], with_pin), field[1:33])

    def identity(self, party):
        seed = os.urandom(32)
        return seed + mac(self.master, b"credential" + seed + party.encode())

    def knows(self, identity, party):
        return len(identity) == 64 and hmac.compare_digest(
            mac(self.master, b"credential" + identity[:32] + party.encode()), identity[32:])

    def make(self, request, alive):
        verified = self.verified(request, 8, 9)
        if self.pin is not None and not verified:
            raise Failure(PIN_REQUIRED)
        if not any(one["alg"] == -7 for one in request[4]):
            raise Failure(0x26)
        self.touch(alive)
        party, key = request[2]["id"], ec.generate_private_key(ec.SECP256R1())
        identity, numbers = self.identity(party), key.public_key().public_numbers()
        public = {1: 2, 3: -7, -1: 1, -2: numbers.x.to_bytes(32, "big"), -3: numbers.y.to_bytes(32, "big")}
        extensions = {"hmac-secret": True} if request.get(6, {}).get("hmac-secret") else {}
        flags = 0x41 | (4 if verified else 0) | (0x80 if extensions else 0)
        data = (sha256(party.encode()) + bytes([flags]) + bytes(4) + bytes(16) + struct.pack(">H", len(identity)) + identity
                + encode(public) + (encode(extensions) if extensions else b""))
        return {1: "packed", 2: data, 3: {"alg": -7, "sig": key.sign(data + request[1], ec.ECDSA(hashes.SHA256()))}}

    def assertion(self, request, alive):
        verified = self.verified(request, 6, 7)
        if self.always_pin and not verified:
            raise Failure(PIN_REQUIRED)
        party, options = request[1], request.get(5, {})
        known = [one["id"] for one in request.get(3, []) if self.knows(one["id"], party)]
        if not known:
            raise Failure(NO_CREDENTIALS)
        wanted, extensions = request.get(4, {}).get("hmac-secret"), {}
        if options.get("up", True):
            self.touch(alive)
        elif wanted:
            raise Failure(UNSUPPORTED_OPTION)
        if wanted:
            channel = Channel(wanted.get(4, 1), self.private, wanted[1])
            channel.check(wanted[2], wanted[3])
            salts = channel.decrypt(wanted[2])
            extensions["hmac-secret"] = channel.encrypt(mac(self.secret_of(known[0], verified), salts[:32]))
        flags = (1 if options.get("up", True) else 0) | (4 if verified else 0) | (0x80 if extensions else 0)
        data = sha256(party.encode()) + bytes([flags]) + bytes(4) + (encode(extensions) if extensions else b"")
        key = ec.derive_private_key(
            int.from_bytes(mac(self.master, b"key" + known[0]), "big") >> 8, ec.SECP256R1())
        return {1: {"id": known[0], "type": "public-key"}, 2: data, 3: key.sign(data + request[2], ec.ECDSA(hashes.SHA256()))}

    def client_pin(self, request, _alive):
        command = request[2]
        if command == 1:
            return {3: self.attempts}
        if command == 2:
            numbers = self.private.public_key().public_numbers()
            return {1: {1: 2, 3: -25, -1: 1, -2: numbers.x.to_bytes(32, "big"), -3: numbers.y.to_bytes(32, "big")}}
        if command in (5, 9):
            return self.pin_token(request)
        raise Failure(INVALID_COMMAND)

    def pin_token(self, request):
        if self.pin is None:
            raise Failure(PIN_NOT_SET)
        if self.attempts == 0:
            raise Failure(PIN_BLOCKED)
        if self.in_a_row == 0:
            raise Failure(PIN_AUTH_BLOCKED)
        channel = Channel(request[1], self.private, request[3])
        self.attempts, self.in_a_row = self.attempts - 1, self.in_a_row - 1
        if channel.decrypt(request[6]) != sha256(self.pin.encode())[:16]:
            self.private = ec.generate_private_key(ec.SECP256R1())
            raise Failure(PIN_BLOCKED if not self.attempts else PIN_AUTH_BLOCKED if not self.in_a_row else PIN_INVALID)
        self.attempts, self.in_a_row = ATTEMPTS, ATTEMPTS_IN_A_ROW
        return {2: channel.encrypt(self.token)}
