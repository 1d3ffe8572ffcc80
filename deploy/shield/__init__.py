"""The safety shield: the last word on every command, in another process than the policy, the same code in simulation.

It takes the policy for an adversary. What it guarantees, in numbers, stands in docs/shield.md.
"""

from deploy.shield.drone.constraints import constraint_rows, row_names
from deploy.shield.drone.distance import safe_margin
from deploy.shield.drone.params import ShieldParams
from deploy.shield.fallback import Mode
from deploy.shield.filter import filter_command, filter_request
from deploy.shield.joints.filter import joint_row_names
from deploy.shield.joints.params import JointShieldParams
from deploy.shield.param_checks import ShieldParamsError
from deploy.shield.params import make_shield_params, narrowed_limits, owned_params, untried_limits
from deploy.shield.supervisor import Shield, ShieldReport
from deploy.shield.types import Context, FilterInfo

__all__ = [
    "Context",
    "FilterInfo",
    "JointShieldParams",
    "Mode",
    "Shield",
    "ShieldParams",
    "ShieldParamsError",
    "ShieldReport",
    "constraint_rows",
    "filter_command",
    "filter_request",
    "joint_row_names",
    "make_shield_params",
    "narrowed_limits",
    "owned_params",
    "row_names",
    "safe_margin",
    "untried_limits",
]
