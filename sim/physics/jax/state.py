"""What the engines in JAX share: states, history and model fields of many worlds, and one compiled control step."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from sim.physics import EngineError
from sim.physics.derived import DERIVED, INERTIAL, Derivation
from sim.physics.engine_errors import announce, engine_errors
from sim.physics.jax.setup import best_device, compiled_for, find_device, to_jax
from sim.scenes.scene import Scene
from sim.scenes.speed import max_speed
from sim.tracing import is_tracing, untraceable

STATE = ("qpos", "qvel", "act", "warm")  # warm (W, nv): the acceleration that the solver starts from


@torch.library.custom_op("phalanx::advance", mutates_args=())
def advance_placeholder(given: list[torch.Tensor]) -> list[torch.Tensor]:
    """What a trace has for a control step of all worlds: fields, state, ctrl (W, n, nu), force -> state and path."""
    *_, qpos, qvel, act, warm, ctrl, _ = given
    path = torch.cat([qpos, qvel], dim=-1).unsqueeze(1).repeat(1, ctrl.shape[1], 1)
    return [*(part.clone() for part in (qpos, qvel, act, warm)), path]


@advance_placeholder.register_fake
def _(given: list[torch.Tensor]) -> list[torch.Tensor]:
    *_, qpos, qvel, act, warm, ctrl, _ = given
    path = qpos.new_empty(len(qpos), ctrl.shape[1], qpos.shape[1] + qvel.shape[1])
    return [*(torch.empty_like(part) for part in (qpos, qvel, act, warm)), path]


class JaxPhysics(ABC):
    """`Physics` but for `advance`, which an engine supplies.

    torch owns all memory and shares it with JAX for each step: what a reset or a push changes is written in place, for
    whichever worlds, and never compiled. Only the step is. It takes the model's fields that differ among worlds as
    arguments, so that the first world to change a field costs a compilation once steps have been taken, none before.
    """

    engine = "jax"

    def __init__(
        self, jax: Any, scene: Scene, num_worlds: int, steps_per_call: int, device: str, remembered: int
    ) -> None:
        """`steps_per_call` physics steps make one `step`; device "cpu" or "cuda"."""
        if num_worlds < 1:
            raise EngineError(f"physics needs at least one world, not {num_worlds}")
        self.scene, self.num_worlds = scene, num_worlds
        self.jax, self.jax_device = jax, find_device(jax, self.engine, device)
        self.device = torch.device(device)
        model, self._steps = scene.model, steps_per_call
        with engine_errors(self.engine, num_worlds, device):
            sizes = dict(zip(STATE, (model.nq, model.nv, model.na, model.nv), strict=True))
            self._state = {name: torch.zeros(num_worlds, size, device=self.device) for name, size in sizes.items()}
            # The last steps, taking turns, as in `MujocoPhysics`
            self._path = torch.zeros(remembered, num_worlds, steps_per_call, model.nq + model.nv, device=self.device)
            self._max_speed = torch.from_numpy(max_speed(scene)).float().to(self.device)
            self._no_force = torch.zeros(num_worlds, model.nv, device=self.device)
        self._turn = 0
        self._own: dict[str, torch.Tensor] = {}  # (W, ...) float32: fields that some world has changed
        self._sent: dict[str, torch.Tensor] = {}  # those that JAX is given, masses only with what follows from them
        self._changed: dict[str, None] = {}  # those of `_own` that are not derived
        self._stale: set[int] = set()
        self._derivation = Derivation(model)
        self._compiled: tuple[tuple[str, ...], Any] | None = None

    @classmethod
    def best_device(cls) -> str:
        return best_device(cls.engine)

    @abstractmethod
    def advance(self, fields: Mapping[str, Any], state: Mapping[str, Any], ctrl: Any, force: Any) -> tuple[dict, Any]:
        """One control step of one world in JAX: ctrl (n, nu), force (nv,) -> its state, and [qpos, qvel] (n, nq + nv).

        `fields` holds the arrays of the model that are this world's own.
        """

    @abstractmethod
    def refuses_field(self, name: str) -> str | None:
        """Why no world can have the model's array `name` for itself; None where it can."""

    def reset(self, worlds: torch.Tensor, qpos: torch.Tensor, qvel: torch.Tensor, act: torch.Tensor) -> None:
        for name, value in zip(STATE, (qpos, qvel, act, torch.zeros_like(qvel)), strict=True):
            self._state[name][worlds] = value.float()
        self._path[:, worlds] = torch.cat([qpos, qvel], dim=-1).float().unsqueeze(1)

    def step(self, ctrl: torch.Tensor, force: torch.Tensor | None = None) -> None:
        if is_tracing():
            self._trace(ctrl, force)
            return
        self._derive()
        held = self._no_force if force is None else force.float()
        given = (self._sent, self._state, ctrl.float(), held)  # keeps alive what is shared
        with engine_errors(self.engine, self.num_worlds, self.device.type):
            lent = self.jax.tree_util.tree_map(lambda tensor: to_jax(self.jax, tensor), given)
            state, path = self._step(lent)
            if self.device.type == "cpu":  # on an accelerator dlpack puts both in the order of one stream
                self.jax.block_until_ready(path)
            self._turn = (self._turn + 1) % len(self._path)
            self._path[self._turn].copy_(torch.from_dlpack(path))
            for name, tensor in self._state.items():
                if tensor.numel():
                    tensor.copy_(torch.from_dlpack(state[name]))

    def _trace(self, ctrl: torch.Tensor, force: torch.Tensor | None) -> None:
        """A step that stands in a program for what `advance` of all worlds will be."""
        held = self._no_force if force is None else force.float()
        given = [*(self._sent[name] for name in sorted(self._sent)), *self._state.values(), ctrl.float(), held]
        *state, path = advance_placeholder(given)
        self._path = torch.stack([*self._in_order()[1:], path])
        self._turn = len(self._path) - 1
        self._state = dict(zip(STATE, state, strict=True))

    def advance_all(self, given: Sequence[Any]) -> list[Any]:
        """In JAX what `advance_placeholder` stands for in a trace."""
        names = (*sorted(self._sent), *STATE)
        *arrays, ctrl, force = given
        named = dict(zip(names, arrays, strict=True))
        state = {name: named.pop(name) for name in STATE}
        state, path = self.jax.vmap(self.advance)(named, state, ctrl, force)
        return [*(state[name] for name in STATE), path]

    def _step(self, lent: tuple) -> tuple[dict, Any]:
        """Run the compiled step; compile it first where it has not been for the fields that are worlds' own."""
        names = tuple(sorted(self._sent))
        if self._compiled is None or self._compiled[0] != names:
            own = f", with {', '.join(names)} for each" if names else ""
            announce(self.engine, f"compiling a control step of {self.num_worlds} worlds{own}")
            every = self.jax.vmap(self.advance)
            self._compiled = names, compiled_for(self.jax.jit(every).lower(*lent), self.device.type)
        return self._compiled[1](*lent)

    def now(self, columns: torch.Tensor) -> torch.Tensor:
        return self._path[self._turn, :, -1][:, columns]

    def recall(self, worlds: torch.Tensor, ago: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
        turn = (self._turn - ago // self._steps) % len(self._path)
        step = self._steps - 1 - ago % self._steps
        return self._path[turn.unsqueeze(-1), worlds.view(-1, 1, 1), step.unsqueeze(-1), columns]

    def add_velocity(self, worlds: torch.Tensor, columns: torch.Tensor, change: torch.Tensor) -> None:
        ids = worlds.unsqueeze(-1)
        self._state["qvel"][ids, columns] += change.float()
        self._path[self._turn, ids, -1, self.scene.model.nq + columns] = self._state["qvel"][ids, columns]

    def finite(self) -> torch.Tensor:
        slow = (self._state["qvel"].abs() < self._max_speed).all(-1)  # false for NaN
        return slow & self._state["qpos"].isfinite().all(-1) & self._state["act"].isfinite().all(-1)

    def field(self, name: str) -> torch.Tensor:
        return torch.from_numpy(np.array(getattr(self.scene.model, name))).to(self.device)

    def set_field(self, name: str, worlds: torch.Tensor, index: torch.Tensor, values: torch.Tensor) -> None:
        reason = self.refuses_field(name)
        if reason is not None:
            raise EngineError(f"the engine {self.engine!r} cannot change {name!r} in single worlds: {reason}")
        self._give(name)[worlds.unsqueeze(-1), index] = values.float()
        self._changed[name] = None
        if name not in INERTIAL:
            self._sent[name] = self._own[name]
        elif not is_tracing():
            self._stale.update(worlds.tolist())

    def set_heights(self, worlds: torch.Tensor, shares: torch.Tensor) -> None:
        reason = self.refuses_field("hfield_data")
        if reason is not None:
            raise EngineError(f"the engine {self.engine!r} has no ground that differs from world to world: {reason}")
        if "hfield_data" not in self._sent:  # float32 is all there is of it; it is not saved
            shared = torch.from_numpy(self.scene.model.hfield_data).to(self.device)
            self._sent["hfield_data"] = shared.repeat(self.num_worlds, 1)
        self._sent["hfield_data"][worlds] = shares.float()

    def settle(self) -> None:
        for name in INERTIAL:
            if name in self._own and name in self._sent:
                changed = (self._own[name] != self._sent[name]).flatten(1).any(-1)
                self._stale.update(changed.nonzero().squeeze(-1).tolist())
        self._derive()

    def _give(self, name: str) -> torch.Tensor:
        """Field `name` of every world, (W, ...) float32, to be changed."""
        if name not in self._own:
            untraceable(f"a {name!r} that first changes in the course of an episode")
            nominal = self.field(name).float()
            self._own[name] = nominal.repeat(self.num_worlds, *[1] * nominal.ndim)
        return self._own[name]

    def _derive(self) -> None:
        """Bring constants up to date where masses have changed, on the host: MuJoCo has the only code for it."""
        if not self._stale:
            return
        worlds = sorted(self._stale)
        masses = {name: self._own[name][worlds].double().cpu().numpy() for name in INERTIAL if name in self._own}
        derived = [name for name in DERIVED if self.refuses_field(name) is None]
        for name, values in self._derivation.of_worlds(masses, derived).items():
            self._give(name)[worlds] = torch.from_numpy(values).float().to(self.device)
        for name in (*masses, *derived):
            self._sent[name] = self._own[name].clone()
        self._stale.clear()

    def tensors(self) -> dict[str, Any]:
        path = {str(number): each for number, each in enumerate(self._in_order())}
        heavy = {name: tensor for name, tensor in self._sent.items() if tensor is not self._own.get(name)}
        own = {name: self._own[name] for name in self._changed}
        return {"state": self._state, "path": path, "own": own, "heavy": heavy}

    def _in_order(self) -> list[torch.Tensor]:
        """The steps that are remembered, each (W, n, nq + nv), the latest last."""
        return [self._path[(self._turn + 1 + number) % len(self._path)] for number in range(len(self._path))]

    def put(self, tensors: Mapping[str, Any]) -> None:
        self._state, self._own = tensors["state"], self._own | tensors["own"]
        self._path = torch.stack(list(tensors["path"].values()))
        self._turn = len(self._path) - 1
        self._sent = {**tensors["own"], **tensors["heavy"]}
        self._own |= {name: self._sent[name].clone() for name in DERIVED if name in tensors["heavy"]}

    def state_dict(self) -> dict:
        fields = {f"field/{name}": self._own[name] for name in self._changed}
        return {"turn": self._turn} | {n: t.clone() for n, t in {**self._state, "path": self._path, **fields}.items()}

    def load_state_dict(self, state: dict) -> None:
        self._turn = state["turn"]
        for name, tensor in {**self._state, "path": self._path}.items():
            tensor.copy_(state[name])
        everyone = torch.arange(self.num_worlds, device=self.device)
        saved = {name.removeprefix("field/"): values for name, values in state.items() if name.startswith("field/")}
        for name in {**self._changed, **saved}:
            values = saved.get(name, self.field(name).expand(self.num_worlds, *self.field(name).shape))
            entries = torch.arange(values.shape[1], device=self.device)
            self.set_field(name, everyone, entries, values.to(self.device))
