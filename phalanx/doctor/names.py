"""The package names are short (`sim`, `deploy`): does each of them really come from this distribution?"""

from importlib.machinery import PathFinder
from importlib.metadata import distribution
from pathlib import Path

from phalanx.doctor.check import Check

PACKAGES = ("hardware", "deploy", "sim", "policies", "ros_nodes", "phalanx")


def name_checks() -> list[Check]:
    """One check for each top-level package."""
    home = Path(__file__).resolve().parents[2]
    return [_check(package, home) for package in PACKAGES]


def _check(package: str, home: Path) -> Check:
    spec = PathFinder.find_spec(package)
    if spec is None:
        return Check(
            "names", package, "fail", "not importable", "install phalanx again: pip install --force-reinstall phalanx"
        )
    origin = Path(spec.origin) if spec.origin else Path(next(iter(spec.submodule_search_locations or ["?"])))
    found = origin.resolve().parent if origin.name == "__init__.py" else origin.resolve()
    if found != home / package:
        hint = "another distribution or the working directory owns this name: install into a virtual environment"
        return Check("names", package, "fail", f"comes from {found}", hint)
    return Check("names", package, "ok", f"phalanx {distribution('phalanx').version}")
