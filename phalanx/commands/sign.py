"""`phalanx sign`: the user's key, and policy files signed with it."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from phalanx.console import err, out
from phalanx.options import KeyFile

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

Files = Annotated[
    tuple[Path, ...],
    tyro.conf.Positional,
    tyro.conf.arg(metavar="FILE...", help="Policy files.", help_behavior_hint=""),
]


def sign(files: Files = (), key: KeyFile = None, new_key: bool = False) -> int:
    """Sign policy files with your key; robots whose `trusted_keys` name its public key fly no others.

    A file keeps its fingerprint, and the record of its verification, which is signed with it. The public key is
    printed, also without files.

    Args:
        key: Private key (Ed25519, PEM); phalanx/signing_key.pem in your configuration folder when not given.
        new_key: Make the key first, readable by you alone. The public key is kept beside it (.pub) and printed.
    """
    from deploy.bundle.signature import key_text, public_bytes

    path = key or default_key()
    if new_key:
        _make_key(path)
        err.print(f"key kept in {path}: who has this file can sign", markup=False)
    private_key = load_key(path)
    sign_files(files, private_key)
    out.print(key_text(public_bytes(private_key)), markup=False)
    return 0


def sign_files(files: Iterable[Path], key: "Ed25519PrivateKey") -> None:
    """Sign each policy file in place, all or nothing; BundleError for one that is none."""
    from deploy.bundle import load_bundle
    from deploy.bundle.file import write_atomically
    from deploy.bundle.signature import add_signature

    for file, bundle in [(file, load_bundle(file)) for file in files]:
        write_atomically(add_signature(bundle.model_bytes, key), file)
        err.print(f"signed {file}", markup=False)


def load_key(path: Path) -> "Ed25519PrivateKey":
    """The private key in a PEM file; ValueError or OSError with one line."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    if not path.exists():
        raise ValueError(f"no key at {path}: make one with `phalanx sign --new-key`, or name one with --key")
    if path.stat().st_mode & 0o077:
        raise ValueError(f"{path}: others can read this private key: chmod 600 {path}")
    try:
        key = load_pem_private_key(path.read_bytes(), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise ValueError(f"{path}: is no private key in PEM without a password") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise ValueError(f"{path}: is another kind of key, needs Ed25519")
    return key


def default_key() -> Path:
    """Where the user's private key is kept."""
    home = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(home) / "phalanx" / "signing_key.pem"


def _make_key(path: Path) -> None:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    from deploy.bundle.signature import key_text, public_bytes

    key = Ed25519PrivateKey.generate()
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError as error:
        raise ValueError(f"{path} exists already: a key is never written over") from error
    with os.fdopen(handle, "wb") as file:
        file.write(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    path.with_suffix(".pub").write_text(key_text(public_bytes(key)) + "\n", encoding="ascii")
