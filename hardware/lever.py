"""How fast a frame of an arm rises as its joints turn, at one pose, without the whole Jacobian.

Along a chain of hinges the pose of each in the one before is linear in 1, the sine and the cosine of its angle, and so
is the height of the frame: what lies before a hinge and what lies behind it are multiplied once each.
"""

from dataclasses import dataclass

import numpy as np

from hardware.kinematics import way_to
from hardware.links import hinge_parts, placed, slid
from hardware.spec import RobotSpec


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
        sine, cosine = np.sin(angle), np.cos(angle)
        weights = np.zeros((len(angle), 2, 3))  # of each hinge's pose, and of its derivative
        weights[:, 0, 0] = 1.0
        weights[:, 0, 1] = weights[:, 1, 2] = sine
        weights[:, 0, 2] = weights[:, 1, 1] = cosine
        weights[:, 1, 2] *= -1.0
        steps = (weights @ self.parts).reshape(-1, 2, 4, 4)
        before, behind = np.zeros((len(angle), 4)), np.empty((len(angle), 4))
        before[0, :3], behind[-1] = up, self.point
        for hinge in range(1, len(angle)):
            before[hinge] = before[hinge - 1] @ steps[hinge - 1, 0]
            behind[-1 - hinge] = steps[-hinge, 0] @ behind[-hinge]
        rise = np.zeros(self.joints)
        rise[self.hinges] = np.einsum("hi,hij,hj->h", before, steps[:, 1], behind)
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
