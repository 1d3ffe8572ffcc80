"""MuJoCo in JAX (MJX): for accelerators and for comparison; on a CPU `native` is far faster."""

import copy
from collections.abc import Mapping
from functools import partial
from typing import Any

import mujoco
import numpy as np

from sim.physics import EngineError
from sim.physics.engine_errors import announce
from sim.physics.jax.setup import engine_modules, misfit
from sim.physics.jax.state import JaxPhysics
from sim.scenes.scene import Scene

ENGINE = "mjx"
LINE_SEARCH = 10  # MJX makes all iterations of a line search that it may, found or not; five do nearly always


class MjxPhysics(JaxPhysics):
    """`Physics` on MJX, in float32. Every pair of geoms that could touch is computed in every step."""

    engine = ENGINE

    def __init__(self, scene: Scene, num_worlds: int, steps_per_control: int, device: str = "cpu") -> None:
        """`steps_per_control` physics steps make one `step`; EngineError where MJX cannot run the scene."""
        jax, self._mjx = engine_modules(ENGINE, "mujoco.mjx")
        super().__init__(jax, scene, num_worlds, steps_per_control, device)
        if refusal := mjx_refuses(scene.model):
            raise EngineError(refusal)
        try:
            self._model = self._put(scene.model)
            self._blank = jax.device_put(self._mjx.make_data(self._model), self.jax_device)
        except (AttributeError, ImportError, TypeError) as error:
            raise EngineError(misfit(ENGINE, error)) from error

    def _put(self, model: mujoco.MjModel) -> Any:
        from sim.physics.jax.mjx_shapes import SIDES, prism_geoms, with_prisms

        round_ones = prism_geoms(model)
        if round_ones:
            announce(ENGINE, f"{_names(model, round_ones)} collide as prisms of {SIDES} sides, right to 1 % in radius")
        model = copy.copy(model)
        model.opt.ls_iterations = min(model.opt.ls_iterations, LINE_SEARCH)
        put = partial(self._mjx.put_model, device=self.jax_device, impl="jax")
        return self.jax.device_put(with_prisms(put, model, round_ones), self.jax_device)

    def advance(self, fields: Mapping[str, Any], state: Mapping[str, Any], ctrl: Any, force: Any) -> tuple[dict, Any]:
        """See `JaxPhysics.advance`."""
        model = self._model.replace(**fields)

        def substep(state: dict, ctrl: Any) -> tuple[dict, Any]:
            data = self._blank.replace(
                qpos=state["qpos"],
                qvel=state["qvel"],
                act=state["act"],
                qacc_warmstart=state["warm"],
                ctrl=ctrl,
                qfrc_applied=force,
            )
            data = self._mjx_step(model, data)
            state = {"qpos": data.qpos, "qvel": data.qvel, "act": data.act, "warm": data.qacc_warmstart}
            return state, self.jax.numpy.concatenate([data.qpos, data.qvel])

        return self.jax.lax.scan(substep, dict(state), ctrl)

    def _mjx_step(self, model: Any, data: Any) -> Any:
        """One physics step, in which drives that give all they have damp nothing: MuJoCo heeds that, MJX does not."""
        if model.opt.integrator != mujoco.mjtIntegrator.mjINT_IMPLICITFAST:
            return self._mjx.step(model, data)
        data = self._mjx.forward(model, data)
        low, high = model.actuator_forcerange.T
        spent = model.actuator_forcelimited & ((data.actuator_force <= low) | (data.actuator_force >= high))
        spent |= self._joint_gives_all(data)
        free = 1.0 - spent.astype(low.dtype)
        gain, bias = model.actuator_gainprm, model.actuator_biasprm
        model = model.replace(
            actuator_gainprm=gain.at[:, 2].multiply(free), actuator_biasprm=bias.at[:, 2].multiply(free)
        )
        return self._mjx.implicit(model, data)

    def _joint_gives_all(self, data: Any) -> Any:
        """Drives (U,) of joints whose drives together are at the joint's own limit of force."""
        model = self.scene.model
        low, high = model.jnt_actfrcrange.T
        force = data.qfrc_actuator[model.jnt_dofadr]
        spent = model.jnt_actfrclimited.astype(bool) & ((force <= low) | (force >= high))
        on_joint = model.actuator_trntype == mujoco.mjtTrn.mjTRN_JOINT
        return on_joint & spent[np.where(on_joint, model.actuator_trnid[:, 0], 0)]

    def refuses_field(self, name: str) -> str | None:
        """See `JaxPhysics.refuses_field`."""
        value = getattr(self._model, name, None)
        if isinstance(value, self.jax.Array) and value.shape == getattr(self.scene.model, name).shape:
            return None
        return "MJX knows no such array" if value is None else "MJX compiles it in"


def mjx_refuses(model: mujoco.MjModel) -> str | None:
    """Why MJX cannot run a model, in one line; None where it can."""
    (mjx,) = engine_modules(ENGINE, "mujoco.mjx")[1:]
    from sim.physics.jax.mjx_shapes import as_meshes, prism_geoms, unsupported_pairs, with_prisms

    round_ones = prism_geoms(model)
    for a, b in unsupported_pairs(as_meshes(model, round_ones)):
        kinds = " and ".join(mujoco.mjtGeom(model.geom_type[geom]).name[7:].lower() for geom in (a, b))
        return _refusal(f"it computes no contact between {kinds} ({_names(model, [a, b])})")
    try:
        with_prisms(partial(mjx.put_model, impl="jax"), model, round_ones)
    except NotImplementedError as error:
        return _refusal(" ".join(str(error).split()))
    return None


def _refusal(what: str) -> str:
    return f"the engine {ENGINE!r} cannot run this scene: {what}; 'mujoco' and 'warp' can"


def _names(model: mujoco.MjModel, geoms: list[int]) -> str:
    """Names of `geoms`, of their bodies where they have none."""
    return ", ".join(model.geom(g).name or f"a geom of {model.body(model.geom_bodyid[g]).name!r}" for g in geoms)
