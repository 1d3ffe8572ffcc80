"""Are the libraries there, and in the versions that this distribution asks for?"""

import platform
from importlib.metadata import requires
from importlib.util import find_spec

from packaging.requirements import Requirement

from phalanx.doctor.check import Check, Status
from phalanx.machine import installed

EXTRAS = ("", "train", "ros")  # "" is the core, which nothing works without
OPTIONAL = ("warp", "jax")  # extras that count only where they are installed


def version_checks() -> list[Check]:
    """One check for Python and one for each library of the core, the trainer, ROS 2, and the engines that are there."""
    checks = [Check("versions", "python", "ok", platform.python_version())]
    for wanted in map(Requirement, requires("phalanx") or []):
        extras = [extra for extra in (*EXTRAS, *OPTIONAL) if wanted.marker and wanted.marker.evaluate({"extra": extra})]
        extra = "" if wanted.marker is None else next(iter(extras), None)
        if extra in EXTRAS or (extra in OPTIONAL and installed(wanted.name)):
            checks.append(check_version(wanted, extra))
    return [*checks, _core()]


def _core() -> Check:
    """Which of both calculates the rows of a drone's shield."""
    from deploy.shield import native  # here, for it loads onnxruntime, which `--help` does without

    if native.compiled:
        return Check("versions", "shield's core", "ok", "compiled")
    return Check("versions", "shield's core", "ok", "NumPy", "a C compiler makes it faster: pip install phalanx again")


def check_version(wanted: Requirement, extra: str = "") -> Check:
    """What of a library is installed, against what is wanted of it; `extra` of this distribution asks for it."""
    found = installed(wanted.name)
    if found is None:
        if extra == "ros" and find_spec("rclpy"):
            return Check("versions", wanted.name, "ok", "from the system's ROS 2")
        status: Status = "warn" if extra else "fail"
        target = f"'phalanx[{extra}]'" if extra else "phalanx"
        return Check("versions", wanted.name, status, "not installed", f"pip install {target}")
    if not wanted.specifier.contains(found, prereleases=True):
        hint = f"pip install '{wanted.name}{wanted.specifier}'"
        return Check("versions", wanted.name, "fail", f"{found}, wanted {wanted.specifier}", hint)
    return Check("versions", wanted.name, "ok", found)
