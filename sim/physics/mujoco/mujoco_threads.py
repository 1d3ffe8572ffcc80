"""Native MuJoCo on CPU threads: one persistent pool, a whole control step of all worlds in one call."""

import os

import mujoco
import numpy as np
import torch
from mujoco.rollout import Rollout

from sim.physics import EngineError
from sim.physics.derived import DERIVED, INERTIAL, Derivation
from sim.physics.mujoco.shared_models import SharedModels
from sim.physics.mujoco.untimed import stop_timing
from sim.scenes.scene import Scene
from sim.scenes.speed import max_speed

FULL = mujoco.mjtState.mjSTATE_FULLPHYSICS
CTRL = int(mujoco.mjtState.mjSTATE_CTRL)
CTRL_AND_FORCE = CTRL | int(mujoco.mjtState.mjSTATE_QFRC_APPLIED)
PIECES = 2  # of the worlds for each thread: to hand out more costs a light scene up to half of its time
LITTLE = 100  # steps of degrees of freedom in a call: so few are done before a thread has woken up


class MujocoPhysics:
    """`Physics` on `mujoco.rollout`. Each world has a copy of the model; what a world changes there is its own."""

    device = torch.device("cpu")

    def __init__(
        self,
        scene: Scene,
        num_worlds: int,
        steps_per_call: int,
        num_threads: int | None = None,
        device: str = "cpu",
        remembered: int = 2,
    ):
        """`steps_per_call` physics steps make one `step`; as many threads as this process may use cores."""
        if device != "cpu":
            raise EngineError(f"the engine 'mujoco' runs on 'cpu', not on {device!r}; warp and mjx run there")
        if num_worlds < 1:
            raise ValueError(f"physics needs at least one world, not {num_worlds}")
        stop_timing()
        self.scene = scene
        self.num_worlds = num_worlds
        model = scene.model
        self._shared = SharedModels(model, num_worlds)
        self.models = self._shared.models
        threads = num_threads or len(os.sched_getaffinity(0))
        if num_worlds * steps_per_call * model.nv <= LITTLE:
            threads = 1
        self._rollout = Rollout(nthread=threads if threads > 1 else 0)  # with 0 in the thread that asks
        self._piece = -(-num_worlds // (PIECES * threads))
        self._data = [mujoco.MjData(model) for _ in range(threads)]
        self._derivation = Derivation(model)
        size = mujoco.mj_stateSize(model, FULL)
        # FULLPHYSICS is laid out as time, qpos, qvel, act; nothing here has history or plugin state behind them
        self._act = 1 + model.nq + model.nv
        if self._act + model.na != size:
            raise ValueError(f"the model's state has {size} numbers where {self._act + model.na} were expected")
        self._max_speed = max_speed(scene)
        self._start = np.zeros((num_worlds, size))
        # The last steps, taking turns: a delayed sensor reads from any, and nothing is ever moved.
        self._path = np.zeros((remembered, num_worlds, steps_per_call, size))
        self._turn = 0
        self._control = np.zeros((num_worlds, steps_per_call, model.nu + model.nv))  # controls and forces of a call
        self._seen = torch.from_numpy(self._path)
        self._ends = [step[:, -1, 1:] for step in self._seen]  # each step's last state without its time
        self._steps = steps_per_call
        self._changed: dict[str, None] = {}  # fields that some world has changed
        self._stale: set[int] = set()  # worlds whose derived constants are out of date

    @staticmethod
    def best_device() -> str:
        return "cpu"

    def reset(self, worlds: torch.Tensor, qpos: torch.Tensor, qvel: torch.Tensor, act: torch.Tensor) -> None:
        ids = worlds.numpy()
        state = np.concatenate([np.zeros((len(ids), 1)), qpos.numpy(), qvel.numpy(), act.numpy()], axis=1)
        self._start[ids] = state
        self._path[:, ids] = state[:, None]

    def step(self, ctrl: torch.Tensor, force: torch.Tensor | None = None) -> None:
        self._derive()
        control = ctrl.numpy()
        if force is not None:
            control = self._control
            control[..., : ctrl.shape[-1]], control[..., ctrl.shape[-1] :] = ctrl.numpy(), force.numpy()[:, None]
        self._turn = (self._turn + 1) % len(self._path)
        self._rollout.rollout(
            self.models,
            self._data,
            self._start,
            np.ascontiguousarray(control, dtype=np.float64),
            control_spec=CTRL if force is None else CTRL_AND_FORCE,
            state=self._path[self._turn],
            skip_checks=True,
            nstep=self._steps,
            chunk_size=self._piece,
        )
        self._start[:] = self._path[self._turn, :, -1]

    def _derive(self) -> None:
        """Bring constants up to date where masses have changed: with stale ones contacts explode."""
        for world in self._stale:
            model = self.models[world]
            up_to_date = self._derivation.of({name: getattr(model, name) for name in INERTIAL})
            for name in DERIVED:
                getattr(model, name)[:] = getattr(up_to_date, name)
        self._stale.clear()

    def states(self) -> np.ndarray:
        """A copy of where every world is, (W, S) as `mujoco.rollout` takes it: FULLPHYSICS."""
        return self._start.copy()

    def now(self, columns: torch.Tensor) -> torch.Tensor:
        picked = self._ends[self._turn].index_select(1, columns.flatten()).float()
        return picked.view(self.num_worlds, *columns.shape)

    def recall(self, worlds: torch.Tensor, ago: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
        turn = (self._turn - ago // self._steps) % len(self._path)
        step = self._steps - 1 - ago % self._steps
        state = (turn * self.num_worlds + worlds.unsqueeze(-1)) * self._steps + step
        entries = state.unsqueeze(-1) * self._path.shape[-1] + columns + 1
        # A third of the time that indexing by turn, world, step and column takes
        return self._seen.view(-1).index_select(0, entries.flatten()).float().view(entries.shape)

    def add_velocity(self, worlds: torch.Tensor, columns: torch.Tensor, change: torch.Tensor) -> None:
        ids, where = worlds.numpy()[:, None], 1 + self.scene.model.nq + columns.numpy()
        self._start[ids, where] += change.double().numpy()
        self._path[self._turn, ids, -1, where] = self._start[ids, where]

    def finite(self) -> torch.Tensor:
        with np.errstate(invalid="ignore"):
            slow = np.abs(self._start[:, 1 + self.scene.model.nq : self._act]) < self._max_speed
        return torch.from_numpy(slow.all(axis=1) & np.isfinite(self._start.sum(axis=1)))

    def field(self, name: str) -> torch.Tensor:
        return torch.from_numpy(np.array(getattr(self.scene.model, name)))

    def set_field(self, name: str, worlds: torch.Tensor, index: torch.Tensor, values: torch.Tensor) -> None:
        rows, where = values.double().numpy(), index.numpy()
        self._shared.own((name, *DERIVED) if name in INERTIAL else (name,))
        for row, world in enumerate(worlds.tolist()):
            getattr(self.models[world], name)[where] = rows[row]
        self._changed[name] = None
        if name in INERTIAL:
            self._stale.update(worlds.tolist())

    def set_heights(self, worlds: torch.Tensor, shares: torch.Tensor) -> None:
        self._shared.own(("hfield_data",))
        for world, nodes in zip(worlds.tolist(), shares.numpy(), strict=True):
            self.models[world].hfield_data[:] = nodes

    def state_dict(self) -> dict:
        fields = {name: np.stack([getattr(model, name) for model in self.models]) for name in self._changed}
        arrays = {"start": self._start, "path": self._path, **{f"field/{name}": v for name, v in fields.items()}}
        return {"turn": self._turn} | {name: torch.from_numpy(array.copy()) for name, array in arrays.items()}

    def load_state_dict(self, state: dict) -> None:
        self._turn = state["turn"]
        self._start[:] = state["start"].numpy()
        self._path[:] = state["path"].numpy()
        everyone = torch.arange(self.num_worlds)
        saved = {name.removeprefix("field/"): values for name, values in state.items() if name.startswith("field/")}
        for name in {**self._changed, **saved}:
            values = saved.get(name, self.field(name).expand(self.num_worlds, *self.field(name).shape))
            self.set_field(name, everyone, torch.arange(values.shape[1]), values)
