"""Native MuJoCo on CPU threads: one persistent pool, a whole control step of all worlds in one call."""

import copy
import os

import mujoco
import numpy as np
import torch
from mujoco.rollout import Rollout

from sim.scene import Scene

FULL = mujoco.mjtState.mjSTATE_FULLPHYSICS


class NativePhysics:
    """`Physics` on `mujoco.rollout`. Each world owns a copy of the model, so that its masses may differ."""

    def __init__(self, scene: Scene, num_worlds: int, steps_per_control: int, num_threads: int | None = None):
        """`steps_per_control` physics steps make one `step`; as many threads as this process may use cores."""
        if num_worlds < 1:
            raise ValueError(f"physics needs at least one world, not {num_worlds}")
        self.scene = scene
        self.num_worlds = num_worlds
        model = scene.model
        self.models = [copy.copy(model) for _ in range(num_worlds)]
        threads = num_threads or len(os.sched_getaffinity(0))
        self._rollout = Rollout(nthread=threads)
        self._data = [mujoco.MjData(model) for _ in range(threads)]
        self._scratch = mujoco.MjData(model)
        size = mujoco.mj_stateSize(model, FULL)
        self._start = np.zeros((num_worlds, size))
        self._path = np.zeros((num_worlds, steps_per_control, size))
        # FULLPHYSICS is laid out as time, qpos, qvel, act; nothing here has history or plugin state behind them
        self._qpos = slice(1, 1 + model.nq)
        self._qvel = slice(1 + model.nq, 1 + model.nq + model.nv)
        self._act = slice(1 + model.nq + model.nv, 1 + model.nq + model.nv + model.na)
        if self._act.stop != size:
            raise ValueError(f"{model.names[:32]!r}: state of {size} numbers where {self._act.stop} were expected")

    def reset(self, worlds: torch.Tensor, qpos: torch.Tensor, qvel: torch.Tensor, act: torch.Tensor) -> None:
        """Put `worlds` (K,) into the given states; their trajectory becomes that state at every substep."""
        ids = worlds.numpy()
        state = np.concatenate([np.zeros((len(ids), 1)), qpos.numpy(), qvel.numpy(), act.numpy()], axis=1)
        self._start[ids] = state
        self._path[ids] = state[:, None]

    def set_masses(self, world: int, bodies: np.ndarray, mass_kg: np.ndarray, inertia: np.ndarray) -> None:
        """Give `bodies` (N,) of one world masses (N,) kg and principal inertias (N, 3) kg m^2.

        The constants that MuJoCo derives from mass are renewed too: with stale ones contacts explode.
        """
        model = self.models[world]
        model.body_mass[bodies], model.body_inertia[bodies] = mass_kg, inertia
        mujoco.mj_setConst(model, self._scratch)

    def step(self, ctrl: torch.Tensor) -> None:
        """Advance every world under ctrl (W, n, nu), n as given at construction."""
        self._rollout.rollout(
            self.models,
            self._data,
            self._start,
            np.ascontiguousarray(ctrl.numpy(), dtype=np.float64),
            state=self._path,
            skip_checks=True,
            nstep=self._path.shape[1],
        )
        self._start[:] = self._path[:, -1]

    def trajectory(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Qpos (W, n, nq) and qvel (W, n, nv), float64 views that the next `step` overwrites."""
        path = torch.from_numpy(self._path)
        return path[..., self._qpos], path[..., self._qvel]

    def state_dict(self) -> dict[str, torch.Tensor]:
        """All that a bitwise continuation needs, the masses of every world included."""
        body = self.scene.base_body
        masses = np.array([[model.body_mass[body], *model.body_inertia[body].T] for model in self.models])
        arrays = {"start": self._start.copy(), "path": self._path.copy(), "masses": masses}
        return {name: torch.from_numpy(array) for name, array in arrays.items()}

    def load_state_dict(self, state: dict[str, torch.Tensor]) -> None:
        """Restore `state_dict()`."""
        self._start[:] = state["start"].numpy()
        self._path[:] = state["path"].numpy()
        for world, rows in enumerate(state["masses"].numpy()):
            self.set_masses(world, self.scene.base_body, rows[0], rows[1:].T)
