"""The policy file: one ONNX file with contract, probes and their fingerprint, maybe a record and a signature."""

import base64
import binascii
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from stat import S_ISDIR, S_ISREG

import onnxruntime as ort

from deploy.bundle.fingerprint import check_fingerprint
from deploy.bundle.graph_match import check_graph
from deploy.bundle.probes import Probes, check_probes, probes_from_bytes, replay
from deploy.bundle.session import open_session, run_session
from deploy.bundle.signature import check_signature, split_signature
from deploy.bundle.verification import Record, check_standing, record_from_bytes, record_to_bytes
from deploy.contract import Contract
from deploy.contract.codec import contract_from_json
from hardware.names import nearest_path

CONTRACT_KEY = "phalanx.contract"
PROBES_KEY = "phalanx.probes"
LARGEST = 2 << 30  # bytes: what ONNX itself allows in one file
PROBE_TOLERANCE = 1e-5  # absolute, in the outputs' units: far above rounding, far below what a robot could show


class BundleError(ValueError):
    """A policy file cannot be used; the message names the file and what is wrong with it, in one line."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """A policy file that was checked for completeness and consistency; its probes have not been replayed yet."""

    model_bytes: bytes = field(repr=False)
    contract: Contract
    probes: Probes = field(repr=False)
    fingerprint: str
    signer: str  # public key of who signed it, base64; empty if unsigned
    verification: Record | None = field(repr=False)  # what `phalanx verify --record` wrote
    session: ort.InferenceSession = field(repr=False, compare=False)


def load_bundle(path: Path | str, trusted: Iterable[str] = (), requires: str = "") -> Bundle:
    """Read a policy file and check all but its probes. Raises BundleError.

    With `trusted` keys, base64 or files with them, only a file that one of them has signed is read; with `requires`,
    one of `verification.LEVELS`, only one that carries a record of at least that.
    """
    try:
        check_size(path)
        data = Path(path).read_bytes()
    except FileNotFoundError as error:
        raise BundleError(f"{path}: no such file{nearest_path(path)}") from error
    except OSError as error:
        raise BundleError(f"{path}: cannot be read: {error.strerror}") from error
    return read_bundle(data, str(path), trusted, requires)


def check_size(path: Path | str, largest: int = LARGEST) -> None:
    """BundleError for what is no regular file, and for one of more than `largest` bytes. OSError."""
    status = Path(path).stat()
    if not S_ISREG(status.st_mode):
        raise BundleError(f"{path}: is no policy file" + (", but a folder" if S_ISDIR(status.st_mode) else ""))
    if status.st_size > largest:
        size = f"{status.st_size / 2**20:.0f} MiB"
        raise BundleError(f"{path}: has {size}; policy files have at most {largest >> 20} MiB")


def self_test(bundle: Bundle, name: str = "policy") -> float:
    """Replay the probes on this machine; the largest error, at most PROBE_TOLERANCE, or BundleError about `name`."""
    try:
        error = replay(lambda inputs: run_session(bundle.session, inputs), bundle.probes)
    except ValueError as failure:
        raise BundleError(f"{name}: {failure}") from failure
    if not error <= PROBE_TOLERANCE:
        raise BundleError(f"{name}: does not reproduce its probes: off by {error:.3g}, allowed {PROBE_TOLERANCE:g}")
    return error


def read_bundle(data: bytes, name: str, trusted: Iterable[str] = (), requires: str = "") -> Bundle:
    """The policy file with the bytes `data`, checked as by `load_bundle`. Raises BundleError about `name`."""
    try:
        unsigned, signer, signature = split_signature(data)
        fingerprint, tail = check_fingerprint(unsigned)
        verification = record_from_bytes(tail, fingerprint)
        signed_by = check_signature(fingerprint, tail, signer, signature, trusted)
        check_standing(verification, requires)
        session = open_session(data)
        metadata = session.get_modelmeta().custom_metadata_map
        for key in (CONTRACT_KEY, PROBES_KEY):
            if key not in metadata:
                raise ValueError(f"carries no {key}")
        contract = contract_from_json(metadata[CONTRACT_KEY])
        check_graph(session, contract)
        probes = probes_from_bytes(base64.b64decode(metadata[PROBES_KEY], validate=True))
        check_probes(probes, contract)
    except binascii.Error as error:
        raise BundleError(f"{name}: probes are not base64: {error}") from error
    except ValueError as error:
        raise BundleError(f"{name}: {error}") from error
    return Bundle(data, contract, probes, fingerprint, signed_by, verification, session)


def add_record(bundle: Bundle, record: Record) -> bytes:
    """The file of `bundle` with this `record` of its verification in the place of one that it had, and unsigned."""
    unsigned = split_signature(bundle.model_bytes)[0]
    body = unsigned.removesuffix(check_fingerprint(unsigned)[1])
    return body + record_to_bytes(record, bundle.fingerprint)


def write_atomically(data: bytes, path: Path) -> None:
    """Write a file, all or nothing; BundleError about `path` when that cannot be."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with temporary.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise BundleError(f"{path}: cannot be written: {error.strerror}") from error
