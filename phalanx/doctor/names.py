"""The package names are short (`sim`, `deploy`): does each of them really come from this distribution?"""

from importlib.machinery import PathFinder
from importlib.metadata import distribution

from phalanx.doctor.check import Check
from phalanx.names import HOME, PACKAGES, shadowed

HINT = (
    "`phalanx` uses its own, but Python programs and ros2 launch started here import yours: rename it, or start them "
    "from another directory"
)


def name_checks() -> list[Check]:
    """One check for each top-level package."""
    return [_check(package) for package in PACKAGES]


def _check(package: str) -> Check:
    if other := shadowed().get(package):
        return Check("names", package, "fail", f"hidden by {other}", HINT)
    if not (HOME / package).is_dir() or PathFinder.find_spec(package, [str(HOME)]) is None:
        hint = "install phalanx again: pip install --force-reinstall phalanx"
        return Check("names", package, "fail", "not importable", hint)
    return Check("names", package, "ok", f"phalanx {distribution('phalanx').version}")
