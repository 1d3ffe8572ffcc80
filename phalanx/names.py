"""The package names are short (`sim`, `deploy`): a project may have modules of the same names, and ours have to win."""

import os
import sys
from pathlib import Path

PACKAGES = ("hardware", "deploy", "sim", "policies", "ros_nodes", "phalanx")
HOME = Path(__file__).resolve().parents[1]
_FIRST = list(sys.path)  # as Python was started


def shadowed() -> dict[str, Path]:
    """Packages of phalanx that Python, started in this directory, would not find for another module of that name.

    By name, with the path of that module.
    """
    found: dict[str, Path] = {}
    for folder in _before_ours([os.getcwd(), *_FIRST]):
        for name, path in _modules(folder).items():
            found.setdefault(name, path)
    return found


def put_own_packages_first() -> None:
    """Let imports of this process, and of those that it starts, find phalanx's packages before others of their names.

    Without a clash nothing changes. Directories with clashing modules stay importable, after phalanx's own.
    """
    foreign = [entry for entry in _before_ours(sys.path) if _modules(entry)]
    if foreign:
        ours = [] if str(HOME) in sys.path else [str(HOME)]
        sys.path[:] = [entry for entry in sys.path if entry not in foreign] + ours + foreign
    if shadowed():
        kept = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
        os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys([str(HOME), *kept, os.getcwd()]))
        os.environ["PYTHONSAFEPATH"] = "1"  # `python -m` puts the working directory first else


def _before_ours(entries: list[str]) -> list[str]:
    """The entries of a search path that come before the folder of phalanx's packages; all where it is not in it."""
    ours = [Path(entry or ".").resolve() == HOME for entry in entries]
    return entries[: ours.index(True)] if True in ours else entries


def _modules(entry: str) -> dict[str, Path]:
    """Modules in a folder that have the name of one of phalanx's packages; a folder without __init__.py hides none."""
    folder = Path(entry or ".").resolve()
    candidates = {name: (folder / name / "__init__.py", folder / f"{name}.py") for name in PACKAGES}
    return {name: path for name, paths in candidates.items() for path in paths if path.is_file()}
