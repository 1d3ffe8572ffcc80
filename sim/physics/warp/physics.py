"""MuJoCo Warp: all worlds at once on an accelerator, in single precision; on a CPU too, to check against."""

import numpy as np
import torch

from sim.physics.derived import INERTIAL, Derivation
from sim.physics.warp.engine import WarpEngine
from sim.scenes.scene import Scene

# What follows from the fields INERTIAL, as far as the engine looks at it.
DERIVED = ("body_subtreemass", "body_invweight0", "dof_invweight0", "tendon_invweight0", "actuator_acc0")

Tensor = torch.Tensor


class WarpPhysics:
    """`Physics` on MuJoCo Warp. State, history and fields live on `device`, and so do tensors given and returned.

    On a CPU a saved state continues bitwise; an accelerator finds contacts in any order, and sums them so.
    """

    def __init__(self, scene: Scene, num_worlds: int, steps_per_call: int, device: str = "cpu", remembered: int = 2):
        """`steps_per_call` physics steps make one `step`; `device` is "cpu", "cuda" or "cuda:<number>".

        EngineError where the device is missing, the scene not supported or the memory too small.
        """
        if num_worlds < 1:
            raise ValueError(f"physics needs at least one world, not {num_worlds}")
        self.scene, self.num_worlds = scene, num_worlds
        self._steps = steps_per_call
        self._engine = WarpEngine(scene, num_worlds, steps_per_call, device, remembered)
        self.device = self._engine.device
        self._nominal: dict[str, Tensor] = {}
        self._derivation = Derivation(scene.model)
        # Worlds whose derived constants are out of date; the caller's default device may be another.
        self._stale = torch.zeros(num_worlds, dtype=torch.bool, device="cpu")
        self._engine.path[:] = torch.cat([self._engine.state["qpos"], self._engine.state["qvel"]], dim=-1)

    @staticmethod
    def best_device() -> str:
        return "cuda" if torch.cuda.is_available() else "cpu"

    def reset(self, worlds: Tensor, qpos: Tensor, qvel: Tensor, act: Tensor) -> None:
        state = self._engine.state
        for name in ("qacc_warmstart", "time"):
            state[name][worlds] = 0.0
        for name, values in {"qpos": qpos, "qvel": qvel, "act": act}.items():
            state[name][worlds] = values.float()
        self._engine.path[:, :, worlds] = torch.cat([state["qpos"][worlds], state["qvel"][worlds]], dim=-1)

    def step(self, ctrl: Tensor, force: Tensor | None = None) -> None:
        self._derive()
        self._engine.ctrl.copy_(ctrl.transpose(0, 1))
        self._engine.force.zero_() if force is None else self._engine.force.copy_(force)
        self._engine.run()

    def _derive(self) -> None:
        """Bring constants up to date where masses have changed.

        MuJoCo Warp could do it, for all worlds at once and at the price of several physics steps.
        """
        worlds = self._stale.nonzero().squeeze(-1)
        if not len(worlds):
            return
        there, own = worlds.to(self.device), self._engine.own
        masses = {name: own[name][there].cpu().numpy() for name in INERTIAL if name in own}
        for name, values in self._derivation.of_worlds(masses, DERIVED).items():
            self._engine.expand(name)[there] = torch.from_numpy(values).to(self.device, torch.float32)
        self._stale[:] = False

    def now(self, columns: Tensor) -> Tensor:
        return self._engine.path[0, -1][:, columns]

    def recall(self, worlds: Tensor, ago: Tensor, columns: Tensor) -> Tensor:
        turn = ago // self._steps
        step = self._steps - 1 - ago % self._steps
        where = turn.unsqueeze(-1), step.unsqueeze(-1), worlds.view(-1, 1, 1), columns.to(self.device)
        return self._engine.path[where]

    def add_velocity(self, worlds: Tensor, columns: Tensor, change: Tensor) -> None:
        ids, columns, qvel = worlds.unsqueeze(-1), columns.to(self.device), self._engine.state["qvel"]
        qvel[ids, columns] += change.float()
        self._engine.path[0, -1][ids, self.scene.model.nq + columns] = qvel[ids, columns]

    def finite(self) -> Tensor:
        return self._engine.fine()

    def field(self, name: str) -> Tensor:
        if name not in self._nominal:
            self._nominal[name] = torch.from_numpy(np.array(getattr(self.scene.model, name))).to(self.device)
        return self._nominal[name].clone()

    def set_field(self, name: str, worlds: Tensor, index: Tensor, values: Tensor) -> None:
        own = self._engine.expand(name)
        where = worlds.unsqueeze(-1), index.to(self.device)
        own[where] = values.to(own).reshape(*values.shape[:2], *own.shape[2:])
        if name in INERTIAL:
            self._stale[worlds.cpu()] = True

    def set_heights(self, worlds: Tensor, shares: Tensor) -> None:
        self._engine.heights()[worlds] = shares.to(torch.float32)

    def state_dict(self) -> dict:
        self._derive()
        groups = {"state": self._engine.state, "field": self._engine.own}
        named = {f"{group}/{name}": tensor for group, tensors in groups.items() for name, tensor in tensors.items()}
        return {name: tensor.clone() for name, tensor in {**named, "path": self._engine.path}.items()}

    def load_state_dict(self, state: dict) -> None:
        for name, view in self._engine.state.items():
            view.copy_(state[f"state/{name}"])
        self._engine.path.copy_(state["path"])
        saved = {key.removeprefix("field/"): values for key, values in state.items() if key.startswith("field/")}
        for name in {*saved, *self._engine.own}:
            own = self._engine.expand(name)
            own.copy_(saved[name] if name in saved else self.field(name).view(own.shape[1:]))
        self._stale[:] = False
