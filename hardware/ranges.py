"""Numbers that a person may set, checked by name."""

from math import inf, isfinite
from typing import Any

LONGEST_WHOLE = 1e12  # with more zeros they are not counted at a glance


def check_range(name: str, value: float | None, low: float, high: float = inf) -> None:
    """ValueError with name, value and what is allowed unless `value` is None, or finite and from `low` to `high`."""
    if value is None or (isfinite(value) and low <= value <= high):
        return
    allowed = f"{_written(low)} to {_written(high)}" if high < inf else f"at least {_written(low)}"
    raise ValueError(f"{name} = {value}: {allowed}{'' if high < inf or isfinite(value) else ', finite'}")


def _written(limit: float) -> str:
    """A whole number as one, such as 1000000; any other as short as it is exact enough."""
    return str(int(limit)) if float(limit).is_integer() and abs(limit) < LONGEST_WHOLE else f"{limit:g}"


def check_fields(owner: str, cfg: Any, **ranges: tuple[float, float]) -> None:
    """`check_range` of fields of `cfg`, each with its least and greatest value; `owner` stands before their names."""
    for name, (low, high) in ranges.items():
        check_range(f"{owner}{name}", getattr(cfg, name), low, high)
