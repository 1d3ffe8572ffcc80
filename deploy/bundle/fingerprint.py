"""The seal: the first bytes of a policy file, which hold its length and a fingerprint of every byte in it.

The seal is a valid piece of ONNX, two `metadata_props` that any reader shows, put first so that a file that was cut off
still says how long it was, and so that no parser sees a file before its bytes have been checked. It proves that a file
is whole and as exported; it is not a signature and does not say by whom.
"""

import re
from hashlib import sha256

_BLANK = b"0" * 64
# protobuf: field 14 of ModelProto is a key (field 1) and a value (field 2); the lengths are those of the literals here.
_FINGERPRINT = b"\x72\x57\x0a\x13phalanx.fingerprint\x12\x40"
_LENGTH = b"\x72\x1d\x0a\x0dphalanx.bytes\x12\x0c"
_SEAL = re.compile(re.escape(_FINGERPRINT) + rb"([0-9a-f]{64})" + re.escape(_LENGTH) + rb"([0-9]{12})")
_SEAL_SIZE = len(_FINGERPRINT) + 64 + len(_LENGTH) + 12


class FingerprintError(ValueError):
    """The bytes are not those that were sealed; the message says in which way."""


def add_fingerprint(model: bytes) -> bytes:
    """`model`, serialised ONNX without a seal, with one in front: still ONNX."""
    sealed = _FINGERPRINT + _BLANK + _LENGTH + b"%012d" % (_SEAL_SIZE + len(model)) + model
    return _with_fingerprint(sealed, sha256(sealed).hexdigest().encode())


def check_fingerprint(data: bytes) -> str:
    """The fingerprint of sealed bytes, 64 hexadecimal digits. Raises FingerprintError if even one bit has changed."""
    if not data:
        raise FingerprintError("is empty")
    if not (found := _SEAL.match(data)):
        raise FingerprintError(_why_not_sealed(data))
    fingerprint, length = found[1], int(found[2])
    if len(data) < length:
        raise FingerprintError(f"is truncated: {len(data)} of {length} bytes")
    if sha256(_with_fingerprint(data, _BLANK)).hexdigest().encode() != fingerprint:
        raise FingerprintError("was damaged or edited after export: its bytes do not match its fingerprint")
    return fingerprint.decode()


def _why_not_sealed(data: bytes) -> str:
    if len(data) < _SEAL_SIZE and _FINGERPRINT.startswith(data[: len(_FINGERPRINT)]):
        return f"is truncated: {len(data)} bytes"
    if b"phalanx." in data:
        return "was damaged or edited after export: its seal is broken"
    return "is not a phalanx policy file: it carries no seal"


def _with_fingerprint(sealed: bytes, fingerprint: bytes) -> bytes:
    start = len(_FINGERPRINT)
    return sealed[:start] + fingerprint + sealed[start + len(fingerprint) :]
