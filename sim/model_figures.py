"""Figures of one model of a robot, ours or another author's: of links, axes and drives, by joint.

The model stands upright with its joints at home. What is bolted together counts as one link, under the name of the
joint that moves it. An axis is its direction and its point nearest to the base, for where along its axis a joint sits
is its author's choice. Inertia and weight that a joint carries are without its rotor.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

import mujoco
import numpy as np
from mujoco import mjtBias, mjtJoint, mjtTrn

from hardware.spec import RobotSpec

BASE, WHOLE = "base", "whole robot"
_SUFFIX = re.compile(r"_joint\d*$")  # some authors write left_knee, others left_knee_joint
Figures: TypeAlias = dict[tuple[str, str], float | None]  # (joint, quantity) -> value, None where a model states none


def load_model(file: Path) -> mujoco.MjModel:
    """The compiled model in a file."""
    return mujoco.MjSpec.from_file(str(file)).compile()


def joints_of(model: mujoco.MjModel) -> dict[str, int]:
    """Number of each joint that is not free, by its name without the word joint; of several alike, the first."""
    moved = [j for j in range(model.njnt) if model.jnt_type[j] != mjtJoint.mjJNT_FREE]
    return {_plain(model.joint(j).name): j for j in reversed(moved)}


def _plain(name: str) -> str:
    return _SUFFIX.sub("", name)


def measure(model: mujoco.MjModel, index: Mapping[str, int], spec: RobotSpec) -> Figures:
    """Every quantity of the joints of `spec` that the model has; ValueError where it lacks the base or all of them."""
    shared = [(joint, index[_plain(joint.name)]) for joint in spec.joints if _plain(joint.name) in index]
    base = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_BODY, spec.base_body)
    if base < 0 or not shared:
        raise ValueError(f"this is no model of {spec.name!r}: no body {spec.base_body!r}, or no joint of it")
    data = mujoco.MjData(model)
    for free in np.flatnonzero(model.jnt_type == mjtJoint.mjJNT_FREE):  # upright at the origin
        data.qpos[model.jnt_qposadr[free] :][:7] = 0, 0, 0, 1, 0, 0, 0
    for joint, j in shared:
        data.qpos[model.jnt_qposadr[j]] = joint.home
    mujoco.mj_forward(model, data)
    inertia = np.zeros((model.nv, model.nv))
    mujoco.mj_fullM(model, data, inertia)
    values: Figures = {(WHOLE, "mass"): float(mujoco.mj_getTotalmass(model))}
    values |= {(BASE, name): value for name, value in _link(model, data, base, base).items()}
    for joint, j in shared:
        dof = model.jnt_dofadr[j]
        found = {
            **_link(model, data, int(model.jnt_bodyid[j]), base),
            "carries": inertia[dof, dof] - model.dof_armature[dof],
            "weight": data.qfrc_bias[dof],
            **_axis(data, j, base),
            "low": model.jnt_range[j, 0],
            "high": model.jnt_range[j, 1],
            **_drive(model, j),
            "damping": model.dof_damping[dof],
            "armature": model.dof_armature[dof],
            "dry friction": model.dof_frictionloss[dof],
        }
        values |= {(joint.name, name): None if value is None else float(value) for name, value in found.items()}
    return values


def _link(model: mujoco.MjModel, data: mujoco.MjData, body: int, base: int) -> dict[str, float]:
    """Mass, principal moments and centre of mass of all that is bolted to `body`; nothing where it has no mass."""
    bolted = np.flatnonzero(model.body_weldid == model.body_weldid[body])
    masses, places = model.body_mass[bolted], data.xipos[bolted]
    if not (total := float(masses.sum())):
        return {}
    centre = masses @ places / total
    tensor = np.zeros((3, 3))
    for each, mass, place in zip(bolted, masses, places - centre, strict=True):
        axes = data.ximat[each].reshape(3, 3)
        tensor += axes * model.body_inertia[each] @ axes.T + mass * (place @ place * np.eye(3) - np.outer(place, place))
    moments = np.linalg.eigvalsh(tensor)
    place = data.xmat[base].reshape(3, 3).T @ (centre - data.xpos[base])
    return {
        "mass": total,
        **{f"inertia {size}": float(value) for size, value in zip(("least", "middle", "most"), moments, strict=True)},
        **{f"centre {c}": float(value) for c, value in zip("xyz", place, strict=True)},
    }


def _axis(data: mujoco.MjData, j: int, base: int) -> dict[str, float]:
    """Direction of a joint's axis, and its point nearest to the base, in the frame of the base."""
    frame = data.xmat[base].reshape(3, 3).T
    axis, place = frame @ data.xaxis[j], frame @ (data.xanchor[j] - data.xpos[base])
    place -= axis * (axis @ place)
    passes, points = zip("xyz", place, strict=True), zip("xyz", axis, strict=True)
    return {f"axis passes {c}": v for c, v in passes} | {f"axis points {c}": v for c, v in points}


def _drive(model: mujoco.MjModel, j: int) -> dict[str, float | None]:
    """Gains of the servo of a joint, None where a motor or nothing drives it; the least limit of its effort."""
    limits = [float(np.abs(model.jnt_actfrcrange[j]).max())] if model.jnt_actfrclimited[j] else []
    gains: list[float | None] = [None, None]
    for a in np.flatnonzero((model.actuator_trntype == mjtTrn.mjTRN_JOINT) & (model.actuator_trnid[:, 0] == j)):
        gear, bias = abs(float(model.actuator_gear[a, 0])), model.actuator_biasprm[a]
        if model.actuator_forcelimited[a]:
            limits.append(gear * float(np.abs(model.actuator_forcerange[a]).max()))
        if model.actuator_biastype[a] == mjtBias.mjBIAS_AFFINE:
            gains = [-gear * gear * float(bias[1]), -gear * gear * float(bias[2])]
        elif model.actuator_ctrllimited[a]:
            most = float(np.abs(model.actuator_ctrlrange[a]).max())
            limits.append(gear * float(model.actuator_gainprm[a, 0]) * most)
    return {"effort": min(limits, default=None), "kp": gains[0], "kd": gains[1]}
