"""An arm as what others keep off, and as what is near to things."""

import numpy as np

from deploy.shield.arrays import constant, double, norm
from deploy.shield.joints.capsules import TINY, link_rows
from deploy.shield.obstacles import Body
from deploy.shield.types import Obstacles
from hardware.links import as_index
from hardware.rotation import namespace_of, rotate
from hardware.spec import RobotSpec
from hardware.types import RobotState

SOON_S = 1e-3  # over which a speed is taken
HOLDING = 3  # links at the end of an arm that who lands on what it holds comes near: forearm, wrist, hand


def arm_obstacles(spec: RobotSpec, state: RobotState, lands_on: bool = False) -> Obstacles | None:
    """The links of another arm in `state`, as what a shield keeps off; None where its MJCF has no collision shapes.

    How fast each may come nearer is the speed at which its faster end moves now. For a robot that `lands_on` what the
    arm holds the last `HOLDING` links, which carry it, are not valid.
    """
    if (rows := link_rows(spec)) is None:
        return None
    links, xp = rows.links, namespace_of(state.joint_pos)
    channel = as_index(np.array(spec.joint_of_channel), state.joint_pos)
    pos, vel = (double(xp.take(each, channel, axis=-1)) for each in (state.joint_pos, state.joint_vel))
    poses = xp.stack([pos, pos + SOON_S * vel], axis=-2)
    lines = links.place(xp.reshape(poses, (-1, poses.shape[-1])))
    lines = xp.moveaxis(xp.reshape(lines, (*lines.shape[:2], *poses.shape[:-1])), (0, 1), (-1, -2))
    begin, end = lines[..., : len(links.radius), :], lines[..., len(links.radius) :, :]
    end = begin + end
    moved = xp.maximum(
        norm(xp, begin[..., 1, :, :] - begin[..., 0, :, :]), norm(xp, end[..., 1, :, :] - end[..., 0, :, :])
    )
    begin, end = begin[..., 0, :, :], end[..., 0, :, :]
    turn = double(state.base_quat)[..., None, :]
    axis = rotate(turn, end - begin)
    length = norm(xp, axis)
    half = constant(xp, np.eye(3)[2], axis) * (0.5 * length)[..., None]
    # Half way between z and the axis lies what turns one into the other.
    unit = axis / length[..., None]
    quat = xp.stack([1.0 + unit[..., 2], -unit[..., 1], unit[..., 0], 0.0 * length], axis=-1)
    upside = constant(xp, np.array([0.0, 1.0, 0.0, 0.0]), quat)
    quat = xp.where(quat[..., :1] < TINY, upside, quat)
    quat = quat / xp.sqrt((quat * quat).sum(-1))[..., None]
    middle = rotate(turn, 0.5 * (begin + end)) + double(state.base_pos)[..., None, :]
    radius = constant(xp, links.radius, length) + 0.0 * length
    kept = constant(xp, links.link < len(links.names) - (HOLDING if lands_on else 0), radius)
    return Obstacles(middle, quat, half, radius, moved / SOON_S, kept * radius > 0.0)


def arm_body(spec: RobotSpec, state: RobotState, fingers: bool = True) -> Body | None:
    """The spheres of an arm in `state` that are not its base's; None where its MJCF has no collision shapes. NumPy."""
    if (rows := link_rows(spec)) is None:
        return None
    lines = rows.links.place(double(state.joint_pos)[None, list(spec.joint_of_channel)])[..., 0]
    points = rotate(double(state.base_quat), (lines @ rows.spheres.T).T) + state.base_pos
    kept = slice(None) if fingers else ~rows.touching
    return Body(points[kept], rows.radius[kept])
