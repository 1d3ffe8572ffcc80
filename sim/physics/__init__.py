"""Physics engines: each steps many worlds of one scene and hands their states out as torch tensors."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from importlib import import_module
from typing import Any, NamedTuple, Protocol, TypeVar, cast, runtime_checkable

import torch

from sim.scenes.scene import Scene

Method = TypeVar("Method", bound=Callable[..., Any])


class _Engine(NamedTuple):
    """A class that fulfils `Physics`, imported when asked for, because most need an extra."""

    module: str
    name: str
    packages: tuple[str, ...]  # that have to be installed
    pipelines: tuple[str, ...] = ()  # its argument `pipeline`, as in "brax:spring"
    traceable: bool = False  # a `TraceablePhysics`: a whole rollout runs as one program


_ENGINES = {
    "mujoco": _Engine("sim.physics.mujoco.mujoco_threads", "MujocoPhysics", ("mujoco",)),
    "warp": _Engine("sim.physics.warp.physics", "WarpPhysics", ("mujoco", "mujoco-warp")),
    "mjx": _Engine("sim.physics.jax.mjx", "MjxPhysics", ("mujoco", "mujoco-mjx", "jax"), traceable=True),
    "brax": _Engine(
        "sim.physics.jax.brax",
        "BraxPhysics",
        ("mujoco", "brax", "jax"),
        ("generalized", "spring", "positional"),
        traceable=True,
    ),
}
ENGINES = tuple(_ENGINES)


class EngineError(ValueError):
    """An engine that is missing, cannot do what was asked of it, or failed at it; the message is one line."""


def make_physics(
    engine: str, scene: Scene, num_worlds: int, steps_per_call: int, device: str | None = None, remembered: int = 2
) -> "Physics":
    """The engine of that name; a pipeline of Brax is named behind a colon, as in "brax:spring".

    A `step` is `steps_per_call` physics steps, and the last `remembered` of them can be recalled.
    `device` is "cpu", "cuda" or None, which takes an accelerator where the engine runs on one and torch sees it.
    EngineError where any of it cannot be had.
    """
    name, pipeline = check_engine(engine)
    kind = getattr(import_module(_ENGINES[name].module), _ENGINES[name].name)
    options = {"pipeline": pipeline} if pipeline else {}
    return kind(
        scene, num_worlds, steps_per_call, device=device or kind.best_device(), remembered=remembered, **options
    )


def check_engine(engine: str) -> tuple[str, str]:
    """Name and pipeline of an engine; EngineError where there is none of that name."""
    name, colon, pipeline = engine.partition(":")
    if name not in _ENGINES or (colon and pipeline not in _ENGINES[name].pipelines):
        known = [*_ENGINES, *(f"{each}:{of}" for each in _ENGINES for of in _ENGINES[each].pipelines)]
        raise EngineError(f"there is no engine {engine!r}; there are {', '.join(known)}")
    return name, pipeline


def packages_of(engine: str) -> tuple[str, ...]:
    """What has to be installed for an engine, whose versions say what it computed."""
    return _ENGINES[check_engine(engine)[0]].packages


def is_traceable(engine: str) -> bool:
    """Whether an engine runs a whole rollout as one program, see `TraceablePhysics`."""
    return _ENGINES[check_engine(engine)[0]].traceable


def on(device: torch.device) -> AbstractContextManager:
    """New tensors are made on `device` for as long as this lasts; on a CPU they are anyway, and this costs nothing."""
    return nullcontext() if device.type == "cpu" else device


def on_its_device(method: Method) -> Method:
    """A method in which new tensors are made on the `device` of its object."""

    @wraps(method)
    def run(owner: Any, *args: Any, **options: Any) -> Any:
        with on(owner.device):
            return method(owner, *args, **options)

    return cast(Method, run)


class Physics(Protocol):
    """Many worlds of one scene (W worlds, n physics steps in a `step`, R steps remembered).

    Columns number the entries of [qpos, qvel], so that position and velocity are read in one go.
    """

    scene: Scene
    num_worlds: int
    device: torch.device  # where all tensors live that it takes and gives

    @staticmethod
    def best_device() -> str:
        """ "cuda" where the engine runs on an accelerator and there is one, else "cpu"."""

    def reset(self, worlds: torch.Tensor, qpos: torch.Tensor, qvel: torch.Tensor, act: torch.Tensor) -> None:
        """Put `worlds` (K,) into the given states (K, nq), (K, nv), (K, na), as if they had always been there."""

    def step(self, ctrl: torch.Tensor, force: torch.Tensor | None = None) -> None:
        """Advance every world by n physics steps under ctrl (W, n, nu) and generalised forces (W, nv)."""

    def now(self, columns: torch.Tensor) -> torch.Tensor:
        """Entries `columns` (...) of every world's present state: (W, ...) float32."""

    def recall(self, worlds: torch.Tensor, ago: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
        """Entries `columns` (N, C) of `worlds` (K,) as they were `ago` (K, N) physics steps before: (K, N, C) float32.

        `ago` may be up to R n - 1.
        """

    def add_velocity(self, worlds: torch.Tensor, columns: torch.Tensor, change: torch.Tensor) -> None:
        """Add `change` (K, C) to the entries `columns` (C,) of qvel of `worlds` (K,): a push of no duration."""

    def finite(self) -> torch.Tensor:
        """Worlds (W,) whose state is still a state: finite, and no faster than anything real."""

    def field(self, name: str) -> torch.Tensor:
        """A copy of the model's array `name`, such as "body_mass", before any world changed it."""

    def set_field(self, name: str, worlds: torch.Tensor, index: torch.Tensor, values: torch.Tensor) -> None:
        """Give entries `index` (I,) of the model's array `name` the `values` (K, I, ...) in `worlds` (K,)."""

    def set_heights(self, worlds: torch.Tensor, shares: torch.Tensor) -> None:
        """Give the scene's height field the nodes `shares` (K, rows x columns), 0 to 1 of its height, in `worlds` (K,).

        They are no part of `state_dict`: they are many, and can be generated again.
        """

    def state_dict(self) -> dict:
        """All that a bitwise continuation needs, what fields were changed to included."""

    def load_state_dict(self, state: dict) -> None:
        """Restore `state_dict()`."""


@runtime_checkable
class TraceablePhysics(Physics, Protocol):
    """One whose step can be part of a program that is traced; see sim/tracing.py."""

    def tensors(self) -> dict[str, Any]:
        """All that steps, resets and randomisation change, (W, ...), nothing copied, in nested dicts."""

    def put(self, tensors: Mapping[str, Any]) -> None:
        """Put such tensors in place of those that are there."""

    def settle(self) -> None:
        """Derive what follows from masses wherever they have changed: a program changes them and cannot derive it."""

    def advance_all(self, given: Sequence[Any]) -> list[Any]:
        """A control step of all worlds on the arrays of the engine; a trace calls it "phalanx::advance"."""
