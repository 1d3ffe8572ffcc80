"""Inverse kinematics by damped least squares, for NumPy arrays and torch tensors alike; `...` is any batch.

Wampler, "Manipulator inverse kinematic solutions based on vector formulations and damped least-squares methods",
IEEE Transactions on Systems, Man, and Cybernetics 16(1), 1986.
"""

import numpy as np

from hardware.kinematics import Chain
from hardware.rotation import as_like, multiply, namespace_of
from hardware.types import Array

CONJUGATE = np.array([1.0, -1.0, -1.0, -1.0])


def joint_velocity(chain: Chain, joint_pos: Array, twist: Array, damping: float) -> Array:
    """Joint velocities (..., J) that move the chain's site by `twist` (..., 6): m/s and rad/s in the base body's axes.

    `damping` > 0 bounds them to the twist's length over 2 `damping`, also where the arm is singular; the price is
    accuracy wherever the Jacobian's singular values are not much larger. It looks one step ahead and sees no joint
    limits: to a pose far away it may get stuck on the way.
    """
    xp = namespace_of(joint_pos)
    jacobian = chain.jacobian(joint_pos)
    transposed = xp.matrix_transpose(jacobian)
    damped = as_like(damping**2 * np.eye(6), joint_pos)
    return (transposed @ xp.linalg.solve(jacobian @ transposed + damped, twist[..., None]))[..., 0]


def pose_error(pos: Array, quat: Array, goal_pos: Array, goal_quat: Array) -> Array:
    """(..., 6): the way from a pose to a goal, m, then the rotation vector that turns it there the short way, rad.

    All in the axes in which the poses are given: `pos` (..., 3) m, `quat` (..., 4) wxyz. Over 1 s it is a twist.
    """
    xp = namespace_of(quat)
    turn = multiply(goal_quat, quat * as_like(CONJUGATE, quat))
    turn = xp.where(turn[..., :1] < 0.0, -turn, turn)
    sine = xp.linalg.vector_norm(turn[..., 1:], axis=-1, keepdims=True)
    # Below the smallest angle that counts, twice the vector part is the rotation vector; and nothing divides by zero.
    tiny = sine < 1e-7
    factor = xp.where(tiny, 2.0, 2.0 * xp.atan2(sine, turn[..., :1]) / xp.where(tiny, 1.0, sine))
    return xp.concat([goal_pos - pos, factor * turn[..., 1:]], axis=-1)
