"""Drives that damp a free body, such as a drone's rate loop, integrated as MuJoCo's `implicitfast` does.

For a rigid free body mujoco-warp 4.0 solves a system of its own, M + h (gyroscopic derivative), which leaves out the
derivative of drives and tendons: a rate loop comes out explicit, a tenth too strong. Here such bodies are integrated
like all others, and what the gyroscopic derivative would have added is put on the right-hand side beforehand, for the
acceleration without it; that is exact up to the product of the two derivatives.
"""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import mujoco
import numpy as np


def damped_dofs(model: mujoco.MjModel) -> np.ndarray:
    """(nv,) bool: degrees of freedom on which a drive or a tendon has a force that changes with velocity."""
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    damped = np.zeros(model.nv, dtype=bool)
    for each in np.flatnonzero((model.actuator_biasprm[:, 2] != 0) | (model.actuator_gainprm[:, 2] != 0)):
        first = data.moment_rowadr[each]
        damped[data.moment_colind[first : first + data.moment_rownnz[each]]] = True
    for each in np.flatnonzero(model.tendon_damping):
        first = model.ten_J_rowadr[each]
        damped[model.ten_J_colind[first : first + model.ten_J_rownnz[each]]] = True
    return damped


def keep_damping(warp: ModuleType, mujoco_warp: ModuleType, model: mujoco.MjModel, put: Any) -> Callable:
    """Change `put`, the model on warp's current device, and return the function (put, data) that makes one step."""
    damped = damped_dofs(model)
    free = put.body_freeadr.numpy()
    moved = np.array([damped[model.body_dofadr[body] :][:6].any() for body in free], dtype=bool)
    if not moved.any() or model.opt.integrator != mujoco.mjtIntegrator.mjINT_IMPLICITFAST:
        return mujoco_warp.step
    put.body_freeadr = warp.array(free[~moved], dtype=int)
    put.body_is_free = warp.array(np.isin(np.arange(model.nbody), free[~moved]), dtype=bool)
    bodies = warp.array(free[moved], dtype=int)

    from sim.physics.warp.kernels import add_gyroscopic  # it cannot be compiled, or imported, without warp

    def step(put: Any, data: Any) -> None:
        mujoco_warp.forward(put, data)
        inertia = warp.from_torch(warp.to_torch(data.crb))  # numbers instead of a type that is not public
        inputs = [put.opt.timestep, bodies, put.body_dofadr, data.xpos, data.xmat, data.subtree_com, inertia]
        inputs += [data.qvel, data.qacc]
        warp.launch(add_gyroscopic, dim=(data.nworld, len(bodies)), inputs=inputs, outputs=[data.efc.Ma])
        mujoco_warp.implicit(put, data)

    return step
