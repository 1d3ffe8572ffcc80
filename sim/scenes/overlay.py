"""What an overlay states of a robot, put into its model; see `hardware.overlay`."""

import mujoco

from hardware.overlay import TOOL_MASS
from hardware.spec import RobotSpec

RADIUS_M = 0.03  # of what hangs at the tool


def apply_overlay(model: mujoco.MjSpec, robot: RobotSpec) -> None:
    """Give `model`, the robot's own before it stands in a scene, the numbers of `robot.overlay`.

    Those of a firmware's rate loop are in the robot's spec, and its delay is for who sends commands.
    """
    values = robot.overlay
    if "mass_kg" in values:
        factor = values["mass_kg"] / sum(body.mass for body in model.bodies)
        for body in model.bodies:
            body.mass *= factor
            body.inertia *= factor
            body.fullinertia *= factor
    for joint in robot.joints:
        _apply_to_joint(model, joint.name, values)
    for name in ("thrust", "drag_x", "drag_y") if "drag" in values else ():
        model.actuator(name).biasprm[2] *= values["drag"]
    if robot.flight is not None:
        thrust = model.actuator("thrust")
        thrust.gainprm[0] *= values.get("thrust", 1.0)
        thrust.dynprm[0] *= values.get("own_loop.lag", 1.0)
        speed = values.get("own_loop.speed", 1.0)
        for channel in robot.channels[1:]:
            rate = model.actuator(channel.name)
            rate.dynprm[0] /= speed
            rate.gainprm[0] *= speed
            rate.biasprm[2] *= speed
    if TOOL_MASS in values:
        site, mass = model.site(robot.frames["tool"]), max(values[TOOL_MASS], mujoco.mjMINVAL)
        inertia = [0.4 * mass * RADIUS_M**2] * 3
        site.parent.add_body(name="tool_mass", pos=site.pos, mass=mass, inertia=inertia, explicitinertial=True)


def _apply_to_joint(model: mujoco.MjSpec, name: str, values) -> None:
    joint, drive = model.joint(name), model.actuator(name)
    if (armature := values.get(f"{name}.armature")) is not None:
        joint.armature = armature
    if (friction := values.get(f"{name}.friction")) is not None:
        joint.frictionloss = friction
    if (stiffness := values.get(f"{name}.stiffness")) is not None:
        drive.gainprm[0], drive.biasprm[1] = stiffness, -stiffness
    if (damping := values.get(f"{name}.damping")) is not None:
        drive.biasprm[2] = -damping
