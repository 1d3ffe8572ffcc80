"""Costs of calls, and ratios of costs that were measured in turns: then a busy minute hits all of them alike."""

import json
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

Call = Callable[[int], Any]
Progress = Callable[[int], None]  # hears after each turn how many there are in all


@dataclass(frozen=True)
class Cost:
    """What one call took. CPU time counts all threads of this process, and other programs cannot lengthen it much."""

    wall_s: float
    cpu_s: float


def measure(call: Call, span_s: float, least: int = 1, workers: Sequence[int] = ()) -> Cost:
    """Mean cost of `call(0)`, `call(1)`, ... over `span_s` and `least` calls or more, `workers` included."""
    count, wall, cpu = 0, time.perf_counter(), time.process_time() + _cpu_s(workers)
    while count < least or time.perf_counter() - wall < span_s:
        call(count)
        count += 1
    return Cost((time.perf_counter() - wall) / count, (time.process_time() + _cpu_s(workers) - cpu) / count)


def _cpu_s(processes: Sequence[int]) -> float:
    """CPU time that living processes have used, s."""
    threads = [thread for pid in processes for thread in Path(f"/proc/{pid}/task").iterdir()]
    return sum(1e-9 * int((thread / "schedstat").read_text().split()[0]) for thread in threads)


def kept(path: Path, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What `make` finds; kept as JSON in `path`, from where it is taken if it is there."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(make(), indent=1), encoding="utf-8")
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def random_actions(env: Any, count: int = 16) -> list[dict[str, Tensor]]:
    """`count` actions of a `TeamEnv`, by group (W, N, U) in [-1, 1], on its device, the same in every run."""
    draw = torch.Generator().manual_seed(0)
    sizes = {name: (env.num_envs, group.num_agents, group.action_dim) for name, group in env.groups.items()}
    return [
        {name: (2.0 * torch.rand(size, generator=draw) - 1.0).to(env.device) for name, size in sizes.items()}
        for _ in range(count)
    ]


class Clock:
    """A function that counts what its calls cost, until it is read."""

    def __init__(self, func: Callable[..., Any]) -> None:
        self._func = func
        self._wall = self._cpu = 0.0
        self._calls = 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        wall, cpu = time.perf_counter(), time.process_time()
        result = self._func(*args, **kwargs)
        self._wall += time.perf_counter() - wall
        self._cpu += time.process_time() - cpu
        self._calls += 1
        return result

    def read(self) -> Cost:
        """Mean cost of the calls since it was last read."""
        cost = Cost(self._wall / max(self._calls, 1), self._cpu / max(self._calls, 1))
        self._wall = self._cpu = 0.0
        self._calls = 0
        return cost


def median_wall(costs: Iterable[Cost]) -> float:
    """Median wall time of a call, s."""
    return statistics.median(cost.wall_s for cost in costs)


def median_ratio(above: Sequence[Cost], below: Sequence[Cost], field: str = "wall_s") -> float:
    """Median over the turns of the ratio of two costs."""
    return statistics.median(getattr(a, field) / getattr(b, field) for a, b in zip(above, below, strict=True))
