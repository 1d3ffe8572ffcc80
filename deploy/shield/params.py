"""Shield parameters of any robot: every number that the shield acts on; they ship in the policy's contract."""

from typing import Any

from deploy.shield.drone.params import ShieldParams, make_flight_params
from deploy.shield.joints.params import JointShieldParams, make_joint_params
from hardware.spec import RobotSpec


def make_shield_params(spec: RobotSpec, **overrides: Any) -> ShieldParams | JointShieldParams:
    """Shield parameters for `spec`: JointShieldParams for a robot without a flight model.

    Keyword `overrides` replace single fields. Raises ShieldParamsError for an unknown field or a value out of range.
    """
    return make_joint_params(spec, **overrides) if spec.flight is None else make_flight_params(spec, **overrides)
