"""The record in a policy file of what `phalanx verify --record` found of it, and what a robot may require of that.

It is valid ONNX, two `metadata_props` that any reader shows, after all that the fingerprint covers and before a
signature, which covers it too. So a file that is verified keeps its fingerprint. A digest of fingerprint and record
shows a record that was changed by accident, or is of another file; who wrote it, only a signature says.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from hashlib import sha256
from typing import Annotated, Any, Literal

import msgspec

FLY, CARE, NOT = "fly", "fly with care", "do not fly"
VERIFIED, REFUSED = "verified", "refused"
# What a robot may require: that every gate passed; that margins are known too; that all of them are wide enough.
LEVELS = (VERIFIED, CARE, FLY)
UNVERIFIED = "carries no record of its verification, see `phalanx verify --record`"
RECORD_KEY = "phalanx.verification"
# protobuf: field 14 of ModelProto is a key (field 1) and a value (field 2); the lengths are those of the literals here.
_DIGEST = b"\x72\x5f\x0a\x1bphalanx.verification_sha256\x12\x40"
_ENTRY = b"\x0a\x14" + RECORD_KEY.encode() + b"\x12"
_SIZE = rb"[\x80-\xff]*[\x00-\x7f]"
_PARTS = re.escape(_DIGEST), rb"[0-9a-f]{64}\x72", _SIZE, re.escape(_ENTRY), _SIZE, rb"(.*)"
_TAIL = re.compile(b"".join(_PARTS), re.DOTALL)
Record = Mapping[str, Any]  # what `phalanx verify --json` prints


MOST_EPISODES = 1_000_000  # weeks of simulation; more were not flown
Count = Annotated[int, msgspec.Meta(ge=1, le=MOST_EPISODES)]


class _Gate(msgspec.Struct):
    name: str
    value: float
    sign: Literal[">=", "<="]
    limit: float
    passed: bool


class _Reason(msgspec.Struct):
    name: str
    why: str


class _Flight(msgspec.Struct):
    advice: Literal["fly", "fly with care", "do not fly"]
    reasons: list[_Reason]


class _Margins(msgspec.Struct):
    episodes: Count
    only: list[str]


class _Known(msgspec.Struct):
    """What is read of a record; the rest is for people."""

    verdict: Literal["verified", "refused"]
    verified_at_utc: datetime
    versions: dict[str, str]
    episodes: Count
    gates: list[_Gate]
    margins: _Margins | None = None
    flight: _Flight | None = None


def record_to_bytes(record: Record, fingerprint: str) -> bytes:
    """The `record` of the file with that fingerprint, as it stands behind it; ValueError where it could not be read."""
    value = msgspec.json.encode(record)
    _decode(value)
    return _tail(value, fingerprint)


def record_from_bytes(tail: bytes, fingerprint: str) -> Record | None:
    """What `record_to_bytes` wrote for this file, None for no bytes; ValueError for anything else."""
    if not tail:
        return None
    if not (found := _TAIL.fullmatch(tail)):
        raise ValueError("was damaged or edited after export: its last bytes are no record of a verification")
    if _tail(found[1], fingerprint) != tail:
        raise ValueError("the record of its verification was changed, or is of another file")
    return _decode(found[1])


def _decode(value: bytes) -> Record:
    try:
        record: Record = msgspec.json.decode(value)
        known = msgspec.convert(record, _Known)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ValueError(f"the record of its verification cannot be read: {error}") from error
    if not all(text.isprintable() for text in _texts(record)):
        raise ValueError("the record of its verification holds characters that cannot be printed")
    _check_consistent(known)
    return record


def _texts(value: Any) -> Iterator[str]:
    """All strings in what JSON holds."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from value
    if isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _texts(part)


def _check_consistent(known: _Known) -> None:
    """ValueError for a verdict or an advice that does not follow from its gates and reasons, signed or not."""
    says = "the record of its verification contradicts itself: "
    for gate in known.gates:
        if gate.passed != (gate.value >= gate.limit if gate.sign == ">=" else gate.value <= gate.limit):
            result = "passed" if gate.passed else "failed"
            raise ValueError(f"{says}{gate.name} {result} with {gate.value:g}, must be {gate.sign} {gate.limit:g}")
    failed = [gate.name for gate in known.gates if not gate.passed]
    if known.verdict != (VERIFIED if known.gates and not failed else REFUSED):
        why = f"{', '.join(failed)} failed" if failed else f"{len(known.gates)} gates, none failed"
        raise ValueError(f"{says}{known.verdict!r}, but {why}")
    if known.flight:
        advice, reasons = known.flight.advice, len(known.flight.reasons)
        if failed and advice != NOT:
            raise ValueError(f"{says}advice {advice!r}, but {', '.join(failed)} failed")
        if known.margins is None or (advice == FLY and known.margins.only):
            raise ValueError(f"{says}advice {advice!r}, and {'not all' if known.margins else 'no'} margins")
        if (advice == FLY) != (reasons == 0):
            raise ValueError(f"{says}advice {advice!r}, with {reasons} reasons against it")


def standing(record: Record) -> str:
    """What a record comes to: "refused", "do not fly", or one of LEVELS."""
    if record["verdict"] == REFUSED:
        return REFUSED
    flight = record.get("flight")
    return flight["advice"] if flight else VERIFIED


def reasons_of(record: Record) -> list[str]:
    """The gates that failed or, where none did, the reasons of the advice, each in words."""
    failed = [gate for gate in record["gates"] if not gate["passed"]]
    if failed:
        return [f"{gate['name']}: {gate['value']:.3g}, must be {gate['sign']} {gate['limit']:g}" for gate in failed]
    return [f"{reason['name']}: {reason['why']}" for reason in (record.get("flight") or {}).get("reasons", ())]


def check_level(requires: str) -> str:
    """`requires`, where it is one of LEVELS or empty; ValueError else."""
    if requires and requires not in LEVELS:
        raise ValueError(f"requires {requires[:60]!r}: choose from {', '.join(LEVELS)}; nothing for any file")
    return requires


def check_standing(record: Record | None, requires: str) -> None:
    """ValueError unless the `record` of a file comes to that level of LEVELS, or a higher one; empty for any file."""
    if not check_level(requires):
        return
    allowed = LEVELS[LEVELS.index(requires) :]
    if record is None:
        raise ValueError(f"{UNVERIFIED}; required: {' or '.join(allowed)}")
    if (found := standing(record)) not in allowed:
        why = f" ({'; '.join(reasons)})" if (reasons := reasons_of(record)) else ""
        raise ValueError(f"its verification says {found!r}{why}; required: {' or '.join(allowed)}")


def _tail(value: bytes, fingerprint: str) -> bytes:
    entry = _ENTRY + _varint(len(value)) + value
    digest = sha256(fingerprint.encode() + value).hexdigest().encode()
    return _DIGEST + digest + b"\x72" + _varint(len(entry)) + entry


def _varint(number: int) -> bytes:
    """A length as protobuf writes it: seven bits a byte, the lowest first."""
    return bytes([number & 127 | 128]) + _varint(number >> 7) if number > 127 else bytes([number])
