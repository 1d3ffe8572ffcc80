"""The error that a shield parameter without meaning raises, and the checks that all shields' parameters share."""

from math import isfinite

OLDEST_S = 0.5  # no input that old is acted on, whatever the parameters say
LONGEST_HOLD_S = 0.5  # no hold that long ends by itself
TOL = 1e-6  # relative: numbers written out and read back are not wider for that


class ShieldParamsError(ValueError):
    """A shield parameter has no meaning: names the parameter, the value and what was allowed."""


def require_finite(name: str, value: float | tuple[float, ...]) -> None:
    """Raises ShieldParamsError where `value`, or one of its numbers, is not a finite one."""
    if not all(isfinite(number) for number in (value if isinstance(value, tuple) else (value,))):
        raise ShieldParamsError(f"shield parameter {name} = {value!r}: must be finite")


def require_at_most(name: str, value: float, most: float) -> None:
    """Raises ShieldParamsError where `value` is above `most`."""
    if value > most + TOL * abs(most):
        raise ShieldParamsError(f"shield parameter {name} = {value:g}: must be at most {most:g}")


def require_supervision(
    warn_periods: int, act_periods: int, recover_periods: int, latch_s: float, control_dt_s: float
) -> None:
    """Raises ShieldParamsError where inputs or holds would count in fractions of a period, or pass for too long."""
    for name, value in (
        ("warn_periods", warn_periods),
        ("act_periods", act_periods),
        ("recover_periods", recover_periods),
    ):
        if value != int(value):
            raise ShieldParamsError(f"shield parameter {name} = {value!r}: must be a whole number")
    require_at_most("act_periods", act_periods, max(OLDEST_S / control_dt_s, 3.0))
    require_at_most("latch_s", latch_s, LONGEST_HOLD_S)
