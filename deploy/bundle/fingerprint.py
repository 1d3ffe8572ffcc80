"""The first bytes of a policy file: its length and a SHA-256 of every byte in it, as it was exported.

They are valid ONNX, two `metadata_props` that any reader shows. They come first so that a truncated file still names
its length, and so that no parser reads bytes that have not been checked. The fingerprint proves that a file is complete
and as exported, not by whom: see `signature`.
"""

import re
from hashlib import sha256

_BLANK = b"0" * 64
# protobuf: field 14 of ModelProto is a key (field 1) and a value (field 2); the lengths are those of the literals here.
_FINGERPRINT = b"\x72\x57\x0a\x13phalanx.fingerprint\x12\x40"
_LENGTH = b"\x72\x1d\x0a\x0dphalanx.bytes\x12\x0c"
_HEAD = re.compile(re.escape(_FINGERPRINT) + rb"([0-9a-f]{64})" + re.escape(_LENGTH) + rb"([0-9]{12})")
_HEAD_SIZE = len(_FINGERPRINT) + 64 + len(_LENGTH) + 12


def add_fingerprint(model: bytes) -> bytes:
    """`model`, serialised ONNX, with length and fingerprint in front; still ONNX."""
    whole = _FINGERPRINT + _BLANK + _LENGTH + b"%012d" % (_HEAD_SIZE + len(model)) + model
    return _with_fingerprint(whole, sha256(whole).hexdigest().encode())


def check_fingerprint(data: bytes) -> tuple[str, bytes]:
    """The fingerprint in `data`, 64 hexadecimal digits, and the bytes behind what it covers.

    Raises ValueError if even one bit of what it covers has changed.
    """
    if not data:
        raise ValueError("is empty")
    if not (found := _HEAD.match(data)):
        raise ValueError(_why_no_fingerprint(data))
    fingerprint, length = found[1], int(found[2])
    if len(data) < length:
        raise ValueError(f"is truncated: {len(data)} of {length} bytes")
    if sha256(_with_fingerprint(data[:length], _BLANK)).hexdigest().encode() != fingerprint:
        raise ValueError("was damaged or edited after export: its bytes do not match its fingerprint")
    return fingerprint.decode(), data[length:]


def _why_no_fingerprint(data: bytes) -> str:
    if len(data) < _HEAD_SIZE and _FINGERPRINT.startswith(data[: len(_FINGERPRINT)]):
        return f"is truncated: {len(data)} bytes"
    if b"phalanx." in data:
        return "was damaged or edited after export: its fingerprint is damaged"
    return "is not a phalanx policy file: it has no fingerprint"


def _with_fingerprint(whole: bytes, fingerprint: bytes) -> bytes:
    start = len(_FINGERPRINT)
    return whole[:start] + fingerprint + whole[start + len(fingerprint) :]
