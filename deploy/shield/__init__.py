"""The safety shield: the last word on every command, in a process of its own, the same code in simulation.

It takes the policy for an adversary. What it guarantees, in numbers and under which assumptions, stands in `filter`.
"""

from deploy.shield.drone.constraints import constraint_rows, row_names, safe_margin
from deploy.shield.drone.params import ShieldParams, ShieldParamsError, make_shield_params
from deploy.shield.fallback import Mode
from deploy.shield.filter import filter_command
from deploy.shield.info import FilterInfo
from deploy.shield.joints.filter import joint_row_names
from deploy.shield.joints.params import JointShieldParams
from deploy.shield.supervisor import Shield, ShieldReport

__all__ = [
    "FilterInfo",
    "JointShieldParams",
    "Mode",
    "Shield",
    "ShieldParams",
    "ShieldParamsError",
    "ShieldReport",
    "constraint_rows",
    "filter_command",
    "joint_row_names",
    "make_shield_params",
    "row_names",
    "safe_margin",
]
