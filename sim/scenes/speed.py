"""The speed above which a state is no longer one: no robot comes near it, so its physics has blown up."""

import numpy as np

from hardware.spec import RobotSpec
from sim.scenes.scene import Scene

TIMES = 20.0  # what a robot can do by itself; one caught in a cable or squeezed against a stop does some of that
THINGS = 1e3  # m/s and rad/s of what is no robot: links of cables and light bodies spin fast
FULL_THRUST_S = 0.5  # in which a drone gains about its top speed


def max_speed(scene: Scene) -> np.ndarray:
    """(nv,) m/s or rad/s, for each entry of qvel."""
    bounds = np.full(scene.model.nv, THINGS)
    for group in scene.groups:
        metres, radians = top_speed(group.robot)
        bounds[group.joint_qvel] = TIMES * radians
        if group.base_qvel.size:
            bounds[group.base_qvel] = TIMES * np.repeat([metres, radians], 3)
    return bounds


def top_speed(robot: RobotSpec) -> tuple[float, float]:
    """What a robot can do by its own drives: m/s of its fastest part, rad/s of its fastest joint or of turning."""
    rates = [joint.max_velocity for joint in robot.joints]
    radians = max(rates + [channel.high for channel in robot.channels if channel.unit == "rad/s"])
    thrust = sum(channel.high for channel in robot.channels if channel.unit == "N") if robot.flight else 0.0
    return max(radians * robot.radius_m, thrust / robot.mass_kg * FULL_THRUST_S), radians
