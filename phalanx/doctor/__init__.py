"""Can this installation train, export and fly? Each check is a function that returns what it found and a hint."""

from phalanx.doctor.check import Check
from phalanx.doctor.machine import machine_checks
from phalanx.doctor.names import name_checks
from phalanx.doctor.ros import ros_checks
from phalanx.doctor.versions import version_checks

__all__ = ["Check", "examine"]


def examine() -> list[Check]:
    """Run every check, in the order in which a fault in one explains those after it; takes about three seconds."""
    return [*version_checks(), *name_checks(), *ros_checks(), *machine_checks()]
