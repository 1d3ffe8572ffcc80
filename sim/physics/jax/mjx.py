"""MuJoCo in JAX (MJX): for accelerators and for comparison; on a CPU `native` is far faster."""

import copy
import re
from collections.abc import Iterable, Mapping
from typing import Any

import mujoco
import numpy as np

from sim.physics import EngineError
from sim.physics.derived import DERIVED, INERTIAL
from sim.physics.engine_errors import announce
from sim.physics.jax.setup import engine_modules, version_error
from sim.physics.jax.state import JaxPhysics
from sim.scenes.scene import Scene

ENGINE = "mjx"
SIDES = 16  # of a prism
CORNERS = 2.0 / (1.0 + np.cos(np.pi / SIDES))  # radius of its corners, which stand out as far as its faces lie inside
LINE_SEARCH = 10  # MJX makes all iterations of a line search that it may, found or not; five do nearly always


class MjxPhysics(JaxPhysics):
    """`Physics` on MJX, in float32. Every pair of geoms that could touch is computed in every step."""

    engine = ENGINE

    def __init__(
        self, scene: Scene, num_worlds: int, steps_per_call: int, device: str = "cpu", remembered: int = 2
    ) -> None:
        """`steps_per_call` physics steps make one `step`; EngineError where MJX cannot run the scene."""
        jax, self._mjx = engine_modules(ENGINE, "mujoco.mjx")
        super().__init__(jax, scene, num_worlds, steps_per_call, device, remembered)
        try:
            put = put_scene(self._mjx, scene, device=self.jax_device, impl="jax")
            self._model = jax.device_put(put, self.jax_device)
            self._blank = jax.device_put(self._mjx.make_data(self._model), self.jax_device)
        except (AttributeError, ImportError, TypeError) as error:
            raise EngineError(version_error(ENGINE, error)) from error

    def advance(self, fields: Mapping[str, Any], state: Mapping[str, Any], ctrl: Any, force: Any) -> tuple[dict, Any]:
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
        value = getattr(self._model, name, None)
        if isinstance(value, self.jax.Array) and value.shape == getattr(self.scene.model, name).shape:
            return None
        return "MJX knows no such array" if value is None else "MJX compiles it in"


def put_scene(mjx: Any, scene: Scene, **options: Any) -> Any:
    """The scene's model in MJX; EngineError in one line where MJX cannot run it, as in no contact that it knows."""
    model = scene.model
    try:
        return mjx.put_model(_few_searches(model), **options)
    except NotImplementedError as error:
        refusal = error
    if scene.spec is not None and len(cylinders := _colliding(model, mujoco.mjtGeom.mjGEOM_CYLINDER)):
        announce(ENGINE, f"{_names(model, cylinders)} collide as prisms of {SIDES} sides, right to 1 % in radius")
        try:
            return mjx.put_model(_few_searches(with_prisms(scene.spec, model)), **options)
        except NotImplementedError as error:
            refusal = error
    what = " ".join(str(refusal).split())
    if kinds := re.findall(r"mjGEOM_(\w+)", what):
        of = _names(model, _colliding(model, getattr(mujoco.mjtGeom, f"mjGEOM_{kinds[0]}")))
        what = f"it computes no contact between {' and '.join(kinds).lower()} ({of})"
    raise EngineError(f"the engine {ENGINE!r} cannot run this scene: {what}; 'mujoco' and 'warp' can") from refusal


def with_prisms(spec: mujoco.MjSpec, model: mujoco.MjModel) -> mujoco.MjModel:
    """`model`, compiled from `spec`, in which prisms collide in the place of cylinders; masses stay as they are."""
    spec = spec.copy()
    angle = 2 * np.pi * np.arange(SIDES) / SIDES
    cylinders = set(_colliding(model, mujoco.mjtGeom.mjGEOM_CYLINDER).tolist())
    for geom in [each for each in spec.geoms if each.id in cylinders]:
        radius, half = model.geom_size[geom.id, :2]
        ring = radius * CORNERS * np.stack([np.cos(angle), np.sin(angle)], axis=1)
        corners = np.concatenate([np.c_[ring, np.full(SIDES, side)] for side in (-half, half)])
        geom.type, geom.meshname = mujoco.mjtGeom.mjGEOM_MESH, f"prism{geom.id}"
        spec.add_mesh(name=geom.meshname, uservert=corners.ravel().tolist())
    changed = spec.compile()
    for name in (*INERTIAL, "body_iquat", *DERIVED):
        if getattr(changed, name).shape == getattr(model, name).shape:  # a mesh may have more bounding volumes
            getattr(changed, name)[:] = getattr(model, name)
    return changed


def _few_searches(model: mujoco.MjModel) -> mujoco.MjModel:
    model = copy.copy(model)
    model.opt.ls_iterations = min(model.opt.ls_iterations, LINE_SEARCH)
    return model


def _colliding(model: mujoco.MjModel, kind: int) -> np.ndarray:
    """Geoms of a kind that something may touch."""
    return np.flatnonzero((model.geom_type == int(kind)) & ((model.geom_contype | model.geom_conaffinity) != 0))


def _names(model: mujoco.MjModel, geoms: Iterable[int]) -> str:
    """Names of `geoms`, of their bodies where they have none."""
    return ", ".join(model.geom(g).name or f"a geom of {model.body(model.geom_bodyid[g]).name!r}" for g in geoms)
