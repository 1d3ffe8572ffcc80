"""The fallback of every class of robots, by the name in its specification."""

from typing import Any

from deploy.shield.drone.fallback import DroneFallback
from deploy.shield.drone.params import ShieldParams
from deploy.shield.fallback import Fallback
from deploy.shield.joints.arm import ArmFallback
from deploy.shield.joints.fallback import JointFallback
from deploy.shield.joints.humanoid import HumanoidFallback
from deploy.shield.joints.params import JointShieldParams
from hardware.plugins import load_plugin
from hardware.spec import RobotSpec

FALLBACKS: dict[str, Any] = {"hover-land": DroneFallback, "hold": ArmFallback, "damp": HumanoidFallback}


def make_fallback(params: ShieldParams | JointShieldParams, spec: RobotSpec) -> Fallback:
    """The fallback that `spec` names; ValueError for parameters of another class of robot."""
    kind = FALLBACKS.get(spec.fallback) or load_plugin("fallback", spec.fallback, FALLBACKS)
    flies = spec.flight is not None
    if isinstance(params, ShieldParams) != flies or issubclass(kind, JointFallback if flies else DroneFallback):
        given = f"robot {spec.name!r} with fallback {spec.fallback!r}"
        raise ValueError(f"{given} is not compatible with {type(params).__name__}")
    return kind(params, spec)
