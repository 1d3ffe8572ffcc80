"""The guarantee of any robot."""

from deploy.shield.drone.guarantee import flight_guarantee
from deploy.shield.drone.params import ShieldParams
from deploy.shield.guarantee import Guarantee
from deploy.shield.joints.guarantee import joint_guarantee
from deploy.shield.joints.params import JointShieldParams
from deploy.shield.params import make_shield_params
from hardware.spec import RobotSpec


def make_guarantee(spec: RobotSpec, params: ShieldParams | JointShieldParams | None = None) -> Guarantee:
    """What the shield of `spec` promises with `params`, the robot's own where none are given."""
    params = params or make_shield_params(spec)
    return flight_guarantee(params, spec) if isinstance(params, ShieldParams) else joint_guarantee(params, spec)
