"""The last bytes of a signed policy file: who signed it (Ed25519), and the signature of its fingerprint.

They are valid ONNX, two `metadata_props` that any reader shows. They come after all that the fingerprint covers, so a
file that is signed keeps its fingerprint. What stands between, the record of a verification, is signed with it.
"""

import base64
import binascii
import os
import re
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import Any

from deploy.bundle.fingerprint import check_fingerprint

# protobuf: field 14 of ModelProto is a key (field 1) and a value (field 2); the lengths are those of the literals here.
_SIGNER = b"\x72\x3e\x0a\x0ephalanx.signer\x12\x2c"
_SIGNATURE = b"\x72\x6d\x0a\x11phalanx.signature\x12\x58"
# The last letter of base64 holds fewer bits than others: of its spellings only the one that is written is a signature.
_KEY, _SIGNED = rb"([A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=)", rb"([A-Za-z0-9+/]{85}[AQgw]==)"
_TAIL = re.compile(re.escape(_SIGNER) + _KEY + re.escape(_SIGNATURE) + _SIGNED)
KEY_FILE = 1000  # characters of a file with a key that are read: no more of what is something else
_TAIL_SIZE = len(_SIGNER) + 44 + len(_SIGNATURE) + 88
_PURPOSE = b"phalanx policy file "  # what was signed for another purpose is no signature of a policy


def split_signature(data: bytes) -> tuple[bytes, bytes, bytes]:
    """The policy file without its signature, the signer's public key (32,) and the signature (64,); empty for none."""
    if not (found := _TAIL.fullmatch(data, max(0, len(data) - _TAIL_SIZE))):
        return data, b"", b""
    return data[:-_TAIL_SIZE], base64.b64decode(found[1]), base64.b64decode(found[2])


def check_signature(
    fingerprint: str, record: bytes, signer: bytes, signature: bytes, trusted: Iterable[str] = ()
) -> str:
    """The signer's public key in base64, empty where there is none.

    Raises ValueError when the signature is not that of this fingerprint and the `record` behind it, or no key of
    `trusted` (as `read_public_key` takes them), if there are any, has signed.
    """
    keys = [read_public_key(text) for text in trusted]
    name = key_text(signer)
    if not signer:
        if keys:
            raise ValueError(f"is not signed; trusted: {', '.join(map(key_text, keys))}")
        return ""
    if keys and signer not in keys:
        raise ValueError(f"is signed by {name}, which is not trusted; trusted: {', '.join(map(key_text, keys))}")
    from cryptography.exceptions import InvalidSignature  # here, for files without a signature do without it
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(signer).verify(signature, _signed(fingerprint, record))
    except (InvalidSignature, ValueError) as error:
        raise ValueError(f"was changed after {name} signed it, or carries the signature of another file") from error
    return name


def add_signature(data: bytes, private_key: Any) -> bytes:
    """The policy file `data`, signed with an Ed25519PrivateKey; a signature that it had is replaced. ValueError."""
    unsigned = split_signature(data)[0]
    signer, signature = public_bytes(private_key), private_key.sign(_signed(*check_fingerprint(unsigned)))
    return unsigned + _SIGNER + base64.b64encode(signer) + _SIGNATURE + base64.b64encode(signature)


def _signed(fingerprint: str, record: bytes) -> bytes:
    return _PURPOSE + fingerprint.encode() + (b" verification " + sha256(record).digest() if record else b"")


def public_bytes(private_key: Any) -> bytes:
    """The public key (32,) of an Ed25519PrivateKey."""
    return private_key.public_key().public_bytes_raw()


def key_text(public_key: bytes) -> str:
    """A public key as people write it: 44 characters of base64."""
    return base64.b64encode(public_key).decode()


def read_public_key(text: str) -> bytes:
    """The public key (32,) in `text`: base64, or the path of a file that holds it. ValueError names `text`."""
    try:
        # A key may hold a slash, so it can look like a path; a file is never called like a key by chance.
        key = base64.b64decode(text, validate=True)
        if len(key) == 32:
            return key
    except (binascii.Error, ValueError):
        pass
    try:
        path = Path(os.path.expanduser(text))
        if not path.is_file():
            raise FileNotFoundError(text)
        with path.open(encoding="ascii") as file:
            key = base64.b64decode(file.read(KEY_FILE).strip(), validate=True)
    except OSError as error:
        raise ValueError(f"trusted key {text!r}: neither a public key in base64 nor a file with one") from error
    except ValueError:
        key = b""
    if len(key) != 32:
        raise ValueError(f"trusted key {text!r}: the file holds no public key in base64, see `phalanx sign`")
    return key
