"""Are the libraries there, and in the versions that this distribution asks for?"""

import platform
import re
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec

from phalanx.doctor.check import Check, Status

EXTRAS = ("", "train", "ros")  # "" is the core, which nothing works without
OPTIONAL = ("warp", "jax")  # extras that nobody needs to have: they count only where they are
_REQUIREMENT = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)(?P<range>[^;]*)(;\s*extra == [\"'](?P<extra>\w+)[\"'])?$")


def version_checks() -> list[Check]:
    """One check for Python and one for each library of the core, the trainer, ROS 2, and the engines that are there."""
    checks = [Check("versions", "python", "ok", platform.python_version())]
    for line in requires("phalanx") or []:
        match = _REQUIREMENT.match(line.strip())
        extra = (match["extra"] or "") if match else None
        if match and (extra in EXTRAS or (extra in OPTIONAL and _installed(match["name"]))):
            checks.append(_check(match["name"], match["range"].strip(), extra))
    return checks


def _installed(name: str) -> bool:
    try:
        return bool(version(name))
    except PackageNotFoundError:
        return False


def _check(name: str, wanted: str, extra: str) -> Check:
    try:
        found = version(name)
    except PackageNotFoundError:
        if extra == "ros" and find_spec("rclpy"):
            return Check("versions", name, "ok", "from the system's ROS 2")
        target = f"'phalanx[{extra}]'" if extra else "phalanx"
        status: Status = "warn" if extra else "fail"
        return Check("versions", name, status, "not installed", f"pip install {target}")
    if not _satisfies(found, wanted):
        return Check("versions", name, "fail", f"{found}, wanted {wanted}", f"pip install '{name}{wanted}'")
    return Check("versions", name, "ok", found)


def _satisfies(found: str, wanted: str) -> bool:
    """Compare release numbers only: the ranges of this distribution use no other operators than these."""
    for clause in filter(None, wanted.split(",")):
        operator, bound = re.match(r"(>=|<=|==|<|>)\s*(.+)", clause.strip()).groups()  # type: ignore[union-attr]
        have, want = _release(found), _release(bound)
        if not {">=": have >= want, "<=": have <= want, "==": have == want, "<": have < want, ">": have > want}[
            operator
        ]:
            return False
    return True


def _release(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text.split("+")[0])[:3])
