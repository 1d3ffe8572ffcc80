"""How fast a frame of an arm rises as its joints turn, at one pose, without the whole Jacobian.

Along a chain of hinges the pose of each in the one before is linear in 1, the sine and the cosine of its angle, and so
is the height of the frame: what lies before a hinge and what lies behind it are multiplied once each.
"""

from dataclasses import dataclass

import numpy as np

from hardware.kinematics import way_to
from hardware.links import hinge_parts, placed, slid
from hardware.spec import RobotSpec

# 1, sine and cosine of an angle, and their derivatives: all of them are sines.
_TURNS = np.array([0.0, 1.0, 1.0])
_PHASES = 0.5 * np.pi * np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 2.0]])


@dataclass(frozen=True, slots=True, eq=False)
class Lever:
    """A chain of H hinges from the base body to a frame; J = joints of the robot."""

    hinges: np.ndarray  # (H) of the joints
    joints: int  # J
    parts: np.ndarray  # (H, 3, 16): what 1, sine and cosine of each hinge's angle are multiplied by
    point: np.ndarray  # (4) m, the frame behind the last hinge, homogeneous

    def rise(self, joint_pos: np.ndarray, up: np.ndarray) -> np.ndarray:
        """(J,) m/rad by which the frame goes along `up` (3,), in the base body, at `joint_pos` (J,) rad.

        Slides stand in the middle of their range and have 0.
        """
        angle = joint_pos[self.hinges].astype(np.float64)
        weights = np.sin(angle[:, None, None] * _TURNS + _PHASES)  # of each hinge's pose, and of its derivative
        steps = (weights @ self.parts).reshape(-1, 2, 4, 4)
        before, behind = np.zeros((len(angle), 4)), np.empty((len(angle), 4))
        before[0, :3], behind[-1] = up, self.point
        poses, left, right = list(steps[:, 0]), list(before), list(behind)
        for hinge in range(1, len(angle)):
            np.dot(left[hinge - 1], poses[hinge - 1], out=left[hinge])
            np.dot(poses[-hinge], right[-hinge], out=right[-1 - hinge])
        rise = np.zeros(self.joints)
        rise[self.hinges] = np.vecdot((before[:, None] @ steps[:, 1])[:, 0], behind)
        return rise


def load_lever(spec: RobotSpec, frame: str) -> Lever:
    """The lever of `frame` of `spec.frames`; ValueError for what the spec or its MJCF does not have."""
    pose, hinges, parts = np.eye(4), [], []
    for element in way_to(spec, frame):
        if element.tag != "joint":
            pose = pose @ placed(element)
        elif element.get("type", "hinge") == "slide":
            pose, _ = slid(pose, element)
        else:
            hinges.append(spec.joint_names.index(element.get("name", "")))
            parts.append(hinge_parts(pose, element))
            pose = np.eye(4)
    return Lever(np.array(hinges), len(spec.joints), np.array(parts).reshape(-1, 3, 16), pose[:, 3])
