"""Where a robot on legs is and how it moves, from what it measures of itself: its joints, its attitude and its rates.

The lower sole stands on level ground and does not slip: then the base is as far above the ground as above that sole,
and moves against it. A robot that hangs is as high as its legs are long; the place in the plane drifts.
"""

from collections.abc import Sequence

import numpy as np

from hardware.kinematics import load_chain
from hardware.rotation import rotate
from hardware.spec import RobotSpec
from hardware.types import RobotState

AHEAD_S = 1e-3  # over which a foot's velocity is taken, from where the joints' velocities bring it
LONGEST_S = 0.1  # between two measurements over which the place is carried on


class LegOdometry:
    """Of one robot: `pos` (3,) m, world, the ground at z = 0; `lin_vel` (3,) m/s, body."""

    def __init__(self, spec: RobotSpec, feet: Sequence[str]):
        """`feet`: frames of the soles. ValueError for what the specification does not have."""
        self._feet = [load_chain(spec, name) for name in feet]
        self.pos, self.lin_vel = np.zeros(3, np.float32), np.zeros(3, np.float32)

    def update(self, state: RobotState, elapsed_s: float) -> None:
        """Take a measurement, `elapsed_s` after the one before; its own position and velocity are not looked at."""
        ahead = np.stack([state.joint_pos, state.joint_pos + AHEAD_S * state.joint_vel])
        soles = np.stack([foot.forward(ahead)[0] for foot in self._feet])  # (feet, 2, 3) m, body
        heights = rotate(state.base_quat, soles[:, 0])[:, 2]
        stands = int(heights.argmin())
        sole, moved = soles[stands]
        self.lin_vel = -((moved - sole) / AHEAD_S + np.cross(state.base_ang_vel, sole)).astype(np.float32)
        self.pos = self.pos + min(elapsed_s, LONGEST_S) * rotate(state.base_quat, self.lin_vel)
        self.pos[2] = -heights[stands]
