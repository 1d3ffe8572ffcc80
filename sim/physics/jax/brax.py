"""Brax's own pipelines behind the protocol: for robots of joints alone, and for comparison. Brax is not maintained."""

import copy
import warnings
from collections.abc import Mapping
from typing import Any

import mujoco
import numpy as np
import torch

from sim.physics import EngineError
from sim.physics.jax.setup import engine_modules, version_error
from sim.physics.jax.state import JaxPhysics
from sim.scenes.scene import Scene

ENGINE = "brax"
JOINT = mujoco.mjtJoint
# Where Brax keeps the arrays of a model that it can change
PLACES = {
    "body_inertia": "link.inertia.i",
    "body_invweight0": "link.invweight",
    "body_ipos": "link.inertia.transform.pos",
    "body_mass": "link.inertia.mass",
    "dof_armature": "dof.armature",
    "dof_invweight0": "dof.invweight",
    "geom_friction": "geom_friction",
}
DRIVES: dict[str, dict[str, Any]] = {  # and the columns of those of drives
    "actuator_biasprm": {"bias_q": 1, "bias_qd": 2},
    "actuator_forcerange": {"force_range": slice(None)},
    "actuator_gainprm": {"gain": 0},
}
FIELDS = sorted([*PLACES, *DRIVES])


class BraxPhysics(JaxPhysics):
    """`Physics` on one of Brax's pipelines, in float32.

    Every control step starts from qpos and qvel: bodies that "spring" and "positional" let drift apart at the joints
    are put together again there. Damping of joints and drives is integrated implicitly by "generalized", explicitly
    and within the drives' limits by the others.
    """

    engine = ENGINE

    def __init__(
        self,
        scene: Scene,
        num_worlds: int,
        steps_per_call: int,
        device: str = "cpu",
        remembered: int = 2,
        pipeline: str = "generalized",
    ) -> None:
        """`steps_per_call` physics steps make one `step`; EngineError where the pipeline cannot run the scene."""
        jax, mjcf, self._pipeline = engine_modules(ENGINE, "brax.io.mjcf", f"brax.{pipeline}.pipeline")
        super().__init__(jax, scene, num_worlds, steps_per_call, device, remembered)
        refusal = brax_refuses(scene.model, pipeline)
        if refusal is not None:
            raise EngineError(refusal)
        self._name = pipeline
        model = copy.copy(scene.model)
        model.opt.integrator = mujoco.mjtIntegrator.mjINT_EULER  # the only word Brax takes; it integrates as it does
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that it is not maintained: said above
                system = mjcf.load_model(model)
        except (AttributeError, TypeError) as error:
            raise EngineError(version_error(ENGINE, error)) from error
        # without a model Brax does not check again; no iterations: masses are inverted exactly, and damping implicit
        system = system.replace(mj_model=None, matrix_inv_iterations=0)
        self._system = jax.device_put(_with_pushes(jax, system, model.nv), self.jax_device)

    def advance(self, fields: Mapping[str, Any], state: Mapping[str, Any], ctrl: Any, force: Any) -> tuple[dict, Any]:
        numpy = self.jax.numpy
        system = _damped(numpy, self.scene.model, _with_fields(numpy, self._system, fields), self._name)

        def substep(body: Any, ctrl: Any) -> tuple[Any, Any]:
            body = self._pipeline.step(system, body, numpy.concatenate([ctrl, force]))
            return body, numpy.concatenate([body.q, body.qd])

        start = self._pipeline.init(system, state["qpos"], state["qvel"])
        last, path = self.jax.lax.scan(substep, start, ctrl)
        return {"qpos": last.q, "qvel": last.qd, "act": state["act"], "warm": state["warm"]}, path

    def step(self, ctrl: torch.Tensor, force: torch.Tensor | None = None) -> None:
        if force is not None and self._name != "generalized" and force.any():
            raise EngineError(f"Brax's pipeline {self._name!r} knows no wind; 'generalized', 'mujoco' and 'mjx' do")
        super().step(ctrl, force)

    def refuses_field(self, name: str) -> str | None:
        return None if name in FIELDS else f"Brax can change {', '.join(FIELDS)}"


def brax_refuses(model: mujoco.MjModel, pipeline: str) -> str | None:
    """Why a pipeline of Brax cannot run a model, in one line; None where it can."""
    kinds = {"cylinders that collide": mujoco.mjtGeom.mjGEOM_CYLINDER, "height fields": mujoco.mjtGeom.mjGEOM_HFIELD}
    collides = (model.geom_contype | model.geom_conaffinity) != 0
    free, ball, on_joint = (int(k) for k in (JOINT.mjJNT_FREE, JOINT.mjJNT_BALL, mujoco.mjtTrn.mjTRN_JOINT))
    driven = model.actuator_trnid[model.actuator_trntype == on_joint, 0]
    hinged = np.delete(model.qpos0, (model.jnt_qposadr[model.jnt_type == free][:, None] + np.arange(7)).ravel())
    undriven = np.setdiff1d(np.arange(model.nv), model.jnt_dofadr[driven])
    reasons = {
        "drives that are not on a joint": (model.actuator_trntype != on_joint).any(),
        "drives on free joints": (model.jnt_type[driven] == free).any(),
        "several drives on a joint": len(set(driven)) < len(driven),
        "drives with a state of their own (activation)": model.na > 0,
        "equality constraints": model.neq > 0,
        "tendons": model.ntendon > 0,
        "dry friction of joints": model.dof_frictionloss.any(),
        "compensated gravity": model.body_gravcomp.any(),
        "limits on the force of a joint": model.jnt_actfrclimited.any(),
        "ball joints": (model.jnt_type == ball).any(),
        "joints whose zero is not at 0": hinged.any(),
        "several joints on a body": (model.body_jntnum > 1).any(),
        "bodies fixed to another": (model.body_jntnum[1:] == 0).any(),
        "friction other than sliding (condim)": (model.geom_condim[collides] != 3).any(),
        **{words: (collides & (model.geom_type == int(kind))).any() for words, kind in kinds.items()},
        "rotor inertia of joints (armature)": pipeline != "generalized" and model.dof_armature.any(),
        "damping of joints without a drive": pipeline != "generalized" and model.dof_damping[undriven].any(),
    }
    found = [words for words, holds in reasons.items() if holds]
    if not found:
        return None
    return (
        f"Brax's pipeline {pipeline!r} cannot run this scene: it has {', '.join(found)}; 'mujoco', 'warp' and 'mjx' can"
    )


def _with_pushes(jax: Any, system: Any, nv: int) -> Any:
    """The system with one more drive for each degree of freedom, whose set-point is a force: wind."""
    ones, wide = jax.numpy.ones(nv), jax.numpy.tile(jax.numpy.array([-jax.numpy.inf, jax.numpy.inf]), (nv, 1))
    more = {"q_id": 0 * ones, "qd_id": jax.numpy.arange(nv), "gain": ones, "gear": ones}
    more |= {"ctrl_range": wide, "force_range": wide, "bias_q": 0 * ones, "bias_qd": 0 * ones}
    old = system.actuator
    joined = {n: jax.numpy.concatenate([getattr(old, n), v.astype(getattr(old, n).dtype)]) for n, v in more.items()}
    return system.replace(actuator=old.replace(**joined))


def _with_fields(numpy: Any, system: Any, fields: Mapping[str, Any]) -> Any:
    """The system with a world's own `fields`, of those in FIELDS. Links are bodies without the world."""
    changes = {}
    for name, values in fields.items():
        if name.startswith("actuator_"):  # behind which are those for pushes
            for part, columns in DRIVES[name].items():
                changes[f"actuator.{part}"] = getattr(system.actuator, part).at[: len(values)].set(values[:, columns])
        elif name == "body_inertia":
            changes[PLACES[name]] = numpy.expand_dims(values[1:], -1) * numpy.eye(3)
        else:
            own = values[1:] if name.startswith("body_") else values
            changes[PLACES[name]] = own[:, 0] if name == "body_invweight0" else own
    return system.tree_replace(changes)


def _damped(numpy: Any, model: mujoco.MjModel, system: Any, pipeline: str) -> Any:
    """The system with all damping where the pipeline looks for it: of joints, or of their drives."""
    actuator, nu = system.actuator, model.nu
    dofs, gear = actuator.qd_id[:nu], actuator.gear[:nu]
    if pipeline == "generalized":
        damping = system.dof.damping.at[dofs].add(-actuator.bias_qd[:nu] * gear**2)
        bias = actuator.bias_qd.at[:nu].set(0.0)
        return system.replace(dof=system.dof.replace(damping=damping), actuator=actuator.replace(bias_qd=bias))
    bias = actuator.bias_qd.at[:nu].add(-system.dof.damping[dofs] / gear**2)
    return system.replace(actuator=actuator.replace(bias_qd=bias))
