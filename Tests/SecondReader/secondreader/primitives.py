"""Section 1 of the specification: the primitives, on PyNaCl and cryptography."""

import base64
import functools
import hashlib
import hmac

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305
from nacl import bindings
from nacl.exceptions import CryptoError


class Refused(Exception):
    """Bytes that the specification says a reader refuses."""


class Newer(Exception):
    """An object that a newer version made (section 11); `writer` is the program's name where the object tells it."""

    def __init__(self, message, writer=None):
        super().__init__(message + (" (made by %s)" % writer if writer else ""))
        self.writer = writer


def u16(data, at=0):
    return int.from_bytes(data[at:at + 2], "little")


def u32(data, at=0):
    return int.from_bytes(data[at:at + 4], "little")


def u64(data, at=0):
    return int.from_bytes(data[at:at + 8], "little")


def le(value, length):
    return value.to_bytes(length, "little")


def split_tlvs(data):
    """The entries (type, value) of a list that fills `data`."""
    result, at = [], 0
    while at < len(data):
        end = at + 6 + u32(data, at + 2)
        if len(data) - at < 6 or end > len(data):
            raise Refused("TLV: length")
        result.append((u16(data, at), data[at + 6:end]))
        at = end
    return result


def tlvs(data, known):
    """The same of an object that knows these types; Newer if an unknown one has bit 15."""
    result = split_tlvs(data)
    types = [kind for kind, _ in result]
    if any(types.count(kind) > 1 for kind in known):
        raise Refused("TLV: twice")
    if any(kind & 0x8000 and kind not in known for kind in types):
        raise Newer("TLV: must be understood")
    return result


def make_tlvs(entries):
    return b"".join(le(kind, 2) + le(len(value), 4) + value for kind, value in entries)


def writer_name(data):
    """The text of the TLV `writer` (type 1) of a list that may be of any version; None where none can be read."""
    try:
        value = dict(split_tlvs(data)[::-1]).get(1, b"")
    except Refused:
        return None
    return value.decode() if 1 <= len(value) <= 64 and all(32 <= byte < 127 for byte in value) else None


def b64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def unb64(text):
    try:
        data = base64.b64decode(text + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except ValueError as error:
        raise Refused("not base64url") from error
    if b64(data) != text:
        raise Refused("base64url is not strict")
    return data


def hash256(message):
    return hashlib.blake2b(message, digest_size=32).digest()


def mac(key, message, length):
    return hashlib.blake2b(message, key=key, digest_size=length).digest()


def equal(one, other):
    return hmac.compare_digest(one, other)


def kdf(key, label, context=b""):
    label = b"protectfs1/" + label.encode()
    return mac(key, bytes([len(label)]) + label + context, 32)


def xchacha_seal(key, nonce, ad, message):
    return bindings.crypto_aead_xchacha20poly1305_ietf_encrypt(message, ad, nonce, key)


def xchacha_open(key, nonce, ad, sealed):
    if len(sealed) < 16:
        raise Refused("ciphertext too short")
    try:
        return bindings.crypto_aead_xchacha20poly1305_ietf_decrypt(sealed, ad, nonce, key)
    except CryptoError as error:
        raise Refused("authentication failed") from error


def xchacha_stream(key, nonce, message):
    """XChaCha20 from block counter 1, in either direction."""
    return xchacha_seal(key, nonce, b"", message)[:-16] if message else b""


def block_seal(suite, key, nonce, ad, message):
    return AESGCM(key).encrypt(nonce, message, ad) if suite == 1 else xchacha_seal(key, nonce, ad, message)


def block_open(suite, key, nonce, ad, sealed):
    if suite == 2:
        return xchacha_open(key, nonce, ad, sealed)
    try:
        return AESGCM(key).decrypt(nonce, sealed, ad)
    except InvalidTag as error:
        raise Refused("authentication failed") from error


@functools.lru_cache(maxsize=None)
def argon2id(password, salt, passes, memory):
    """A tenth of a second and more, so it is done once: tests open the same keybag again and again."""
    return bindings.crypto_pwhash_alg(32, password, salt, passes, memory, bindings.crypto_pwhash_ALG_ARGON2ID13)


def x25519_public(private):
    return bindings.crypto_scalarmult_base(private)


def x25519(private, public):
    try:
        shared = bindings.crypto_scalarmult(private, public)
    except Exception as error:
        raise Refused("X25519") from error
    if shared == bytes(32):
        raise Refused("X25519")
    return shared


# HPKE (RFC 9180), by hand.

_KEM = b"KEM" + bytes.fromhex("0020")
_HPKE = b"HPKE" + bytes.fromhex("002000010003")


def _extract(suite, salt, label, material):
    return hmac.new(salt or bytes(32), b"HPKE-v1" + suite + label + material, hashlib.sha256).digest()


def _expand(suite, prk, label, info, length):
    info = length.to_bytes(2, "big") + b"HPKE-v1" + suite + label + info
    result = block = b""
    counter = 1
    while len(result) < length:
        block = hmac.new(prk, block + info + bytes([counter]), hashlib.sha256).digest()
        result += block
        counter += 1
    return result[:length]


def _hpke_context(shared, enc, public, info):
    secret = _expand(_KEM, _extract(_KEM, b"", b"eae_prk", shared), b"shared_secret", enc + public, 32)
    context = b"\0" + _extract(_HPKE, b"", b"psk_id_hash", b"") + _extract(_HPKE, b"", b"info_hash", info)
    prk = _extract(_HPKE, secret, b"secret", b"")
    return _expand(_HPKE, prk, b"key", context, 32), _expand(_HPKE, prk, b"base_nonce", context, 12)


def hpke_seal(public, ephemeral, info, aad, message):
    enc = x25519_public(ephemeral)
    key, nonce = _hpke_context(x25519(ephemeral, public), enc, public, info)
    return enc + ChaCha20Poly1305(key).encrypt(nonce, message, aad)


def hpke_open(private, info, aad, sealed):
    enc, rest = sealed[:32], sealed[32:]
    key, nonce = _hpke_context(x25519(private, enc), enc, x25519_public(private), info)
    try:
        return ChaCha20Poly1305(key).decrypt(nonce, rest, aad)
    except InvalidTag as error:
        raise Refused("authentication failed") from error


# The keys of recipients.

#: The text of a key: its beginning, and what its checksum begins with.
PUBLIC_TEXT = "protectfs-public-1-", b"protectfs1/recipient-public\0"
PRIVATE_TEXT = "protectfs-private-1-", b"protectfs1/recipient-private\0"


def recipient_text(key, form):
    return form[0] + b64(key + hash256(form[1] + key)[:4]).decode()


def recipient_key(text, form):
    if not text.startswith(form[0]) or len(text) != len(form[0]) + 48:
        raise Refused("not a recipient's key")
    whole = unb64(text[len(form[0]):].encode())
    if hash256(form[1] + whole[:32])[:4] != whole[32:]:
        raise Refused("recipient's key: checksum")
    return whole[:32]


# A TPM's PIN.

def tpm2_pin(pin, salt):
    """The hash of a PIN."""
    if not 1 <= len(pin) <= 4096:
        raise Refused("a PIN has 1 to 4,096 bytes")
    return argon2id(pin, salt, 3, 64 << 20)


def tpm2_auth(hashed):
    value = kdf(hashed, "tpm2-auth")
    return value[:31] + bytes([value[31] | 1])


def tpm2_material(sealed, hashed):
    return kdf(sealed, "tpm2-pin", hashed)


# The recovery code.

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def _recovery_checksum(secret):
    return int.from_bytes(hash256(b"protectfs1/recovery\0" + secret)[:3], "big") >> 2


def recovery_text(secret):
    number = int.from_bytes(secret, "big") << 22 | _recovery_checksum(secret)
    symbols = "".join(_ALPHABET[number >> 5 * (29 - place) & 31] for place in range(30))
    return "-".join(symbols[at:at + 5] for at in range(0, 30, 5))


def recovery_secret(text):
    number = count = 0
    for character in text.upper().replace("O", "0").replace("I", "1").replace("L", "1"):
        if character in " \t\r\n-":
            continue
        if character not in _ALPHABET:
            raise Refused("not a recovery code")
        number = number << 5 | _ALPHABET.index(character)
        count += 1
    if count != 30:
        raise Refused("not a recovery code")
    secret = (number >> 22).to_bytes(16, "big")
    if number & (1 << 22) - 1 != _recovery_checksum(secret):
        raise Refused("recovery code: checksum")
    return secret
