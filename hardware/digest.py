"""Whether two nodes, maybe on two computers, take a robot for the same one."""

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from hashlib import sha256
from pathlib import Path

from hardware.spec import RobotSpec

IDLE = ("sources", "torque_speed")  # fields that neither a simulated robot nor a node acts on


def digest_of(spec: RobotSpec) -> str:
    """SHA-256 of all that a specification states, in hexadecimal digits.

    Where its numbers come from does not count, nor do what no node acts on and the folder in which its files are.
    """
    return sha256(json.dumps(spec, sort_keys=True, default=_plain).encode()).hexdigest()


def _plain(value: object) -> object:
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value) if field.name not in IDLE}
    if isinstance(value, Mapping):
        return dict(value)
    return value.name if isinstance(value, Path) else repr(value)
