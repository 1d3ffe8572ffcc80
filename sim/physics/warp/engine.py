"""n physics steps of all worlds on MuJoCo Warp, recorded once and replayed as a whole."""

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import fields
from typing import Any

import torch

from sim.physics import EngineError
from sim.physics.engine_errors import announce, engine_errors
from sim.physics.warp.capacity import LONGEST, WARP, initial_capacity, larger_capacity
from sim.physics.warp.damping import keep_damping
from sim.physics.warp.setup import find_device, load_warp, own_heights, put_model
from sim.scenes.scene import Scene
from sim.scenes.speed import max_speed

STATE = ("qpos", "qvel", "act", "qacc_warmstart", "time")  # all that one step hands on to the next
PATIENCE_S = 3.0

Tensor = torch.Tensor


class WarpEngine:
    """Model and data on a device, of which torch tensors are views.

    `state` has the tensors of `STATE`, (W, ...). `run` goes n steps on under `ctrl` (n, W, nu) and `force` (W, nv) and
    leaves [qpos, qvel] after every step in `path` (R, n, W, nq + nv), of which [0] is the latest run.
    """

    def __init__(self, scene: Scene, num_worlds: int, steps: int, device: str, remembered: int):
        """`steps` is n, `remembered` R. EngineError where device, model or number of worlds is too much."""
        model = scene.model
        self._warp, self._mujoco_warp = load_warp()
        self.device = find_device(self._warp, device)
        self._place = self._warp.get_device(str(self.device))
        self._source, self.num_worlds, self.steps = model, num_worlds, steps
        self.own: dict[str, Tensor] = {}  # model arrays that every world has for itself, (W, ...)
        self._graph: Any = None
        self._warned = False
        self._heights: Tensor | None = None
        self.capacity = initial_capacity(model)
        with self._memory(), self._warp.ScopedDevice(self._place):
            self._model = put_model(self._mujoco_warp, model)
            self._step = keep_damping(self._warp, self._mujoco_warp, model, self._model)
            self._model.opt.warn_overflow = 0  # `run` says so, and does something about it
            self._model.opt.graph_conditional = not self._place.is_cuda or self._warp.is_conditional_graph_supported()
            self._make_data()
            self.ctrl = torch.zeros(steps, num_worlds, model.nu, device=self.device)
            self.force = torch.zeros(num_worlds, model.nv, device=self.device)
            self._max_speed = torch.from_numpy(max_speed(scene)).float().to(self.device)
            self.path = torch.zeros(remembered, steps, num_worlds, model.nq + model.nv, device=self.device)

    def expand(self, name: str) -> Tensor:
        """The model's array `name` (W, ...), from now on every world's own; EngineError where it cannot be."""
        if name not in self.own:
            shared = getattr(self._model, name, None)
            spec = {field.name: field.type for field in fields(self._model)}.get(name)
            if shared is None or getattr(spec, "shape", ("",))[0] != "*":
                raise EngineError(f"MuJoCo Warp cannot give every world its own {name!r}")
            with self._memory():
                view = self._warp.to_torch(shared)
                values = view.expand(self.num_worlds, *view.shape[1:]).clone()
                own = self._warp.from_torch(values, dtype=shared.dtype)
            setattr(self._model, name, own)
            self.own[name] = values
            self._graph = None
        return self.own[name]

    def heights(self) -> Tensor:
        """Nodes (W, rows x columns) of the height field, 0 to 1, from now on every world's own."""
        if self._heights is None:
            with self._memory():
                self._heights = own_heights(self._warp, self._source, self._model, self.num_worlds, self.device)
            self._graph = None
        return self._heights

    def fine(self) -> Tensor:
        """Worlds (W,) whose state is finite, and no faster than anything real."""
        slow = (self.state["qvel"].abs() < self._max_speed).all(dim=1)  # false for NaN
        return slow & self.state["qpos"].isfinite().all(dim=1) & self.state["act"].isfinite().all(dim=1)

    def run(self) -> None:
        """Go n steps on from `state`. Where contacts or rows do not fit, make more room, say so, and go again."""
        self.path[1:] = self.path[:-1].clone()
        before = {name: view.clone() for name, view in self.state.items()}
        while True:
            if self._graph is None:
                self._record()
                self._restore(before)
            self._overflow.zero_()
            self._warp.capture_launch(self._graph, stream=self._stream())
            if not self._overflow.any():  # which also marks worlds where the solver reached its iteration limit
                return
            self._warn_of_lost_contacts()
            room = larger_capacity(self._mujoco_warp.OverflowType, self.capacity, self._overflow, self.fine())
            if room == self.capacity:
                return
            self.capacity = room
            with self._memory():
                self._make_data()

    def _warn_of_lost_contacts(self) -> None:
        """Say once what a larger capacity would not repair."""
        kinds = self._mujoco_warp.OverflowType
        if not self._warned and (count := int((self._overflow & (kinds.HFIELD | kinds.EPA_HORIZON)).bool().sum())):
            self._warned = True
            announce(WARP, f"shapes in {count} of {self.num_worlds} worlds touch in too many places: some are left out")

    def _restore(self, state: dict[str, Tensor]) -> None:
        for name, view in self.state.items():
            view.copy_(state[name])

    def _make_data(self) -> None:
        """New data with `room`; what the worlds' state was is lost."""
        contacts, rows = self.capacity.contacts, self.capacity.rows
        if self.num_worlds * contacts > LONGEST:
            raise EngineError(f"{self.num_worlds} worlds: MuJoCo Warp can number {LONGEST // contacts} of this scene")
        with self._warp.ScopedDevice(self._place):
            self._data = self._mujoco_warp.make_data(self._source, self.num_worlds, nconmax=contacts, njmax=rows)
            self._warp.synchronize_device()  # torch has a stream of its own
        self._graph = None
        self.state = {name: self._warp.to_torch(getattr(self._data, name)) for name in STATE}
        self._overflow = self._warp.to_torch(self._data.overflow)

    def _record(self) -> None:
        """Record n steps. They run once before, because compilation cannot be recorded: the state is lost."""
        warp, data = self._warp, self._data
        share = warp.from_torch
        ctrl, force = [share(row) for row in self.ctrl], share(self.force)
        path = [share(row) for row in self.path[0]]

        from sim.physics.warp.kernels import keep  # it cannot be compiled, or imported, without warp

        with self._memory(), warp.ScopedDevice(self._place):
            with _announced(self.device), warp.ScopedStream(self._stream()):
                self._step(self._model, data)
                warp.launch(keep, dim=path[0].shape, inputs=[data.qpos, data.qvel], outputs=[path[0]])
                warp.synchronize_device()
            with warp.ScopedCapture(device=self._place) as capture:
                warp.copy(data.qfrc_applied, force)
                for step in range(self.steps):
                    warp.copy(data.ctrl, ctrl[step])
                    self._step(self._model, data)
                    warp.launch(keep, dim=path[step].shape, inputs=[data.qpos, data.qvel], outputs=[path[step]])
        self._graph = capture.graph

    def _stream(self) -> Any:
        """Torch's stream, so that its work and physics follow each other without waiting; None on a CPU."""
        if not self._place.is_cuda:
            return None
        return self._warp.stream_from_torch(torch.cuda.current_stream(self.device))

    def _memory(self) -> AbstractContextManager[None]:
        return engine_errors("warp", self.num_worlds, str(self.device))


@contextmanager
def _announced(device: torch.device) -> Iterator[None]:
    """Say what is going on, should it take long: kernels that are compiled already are there in a second."""
    message = f"preparing kernels for {str(device)!r}, which are compiled once for every kind of scene: up to minutes"
    timer = threading.Timer(PATIENCE_S, announce, [WARP, message])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
