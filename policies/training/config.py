"""What a training run does: the task, and four configurations: network, algorithm, collection and machine."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from math import inf
from pathlib import Path
from typing import Any

from hardware.names import nearest
from hardware.ranges import check_fields, check_range
from policies.algorithms import ALGORITHMS, load_algorithm
from policies.algorithms.algorithm import resolve
from policies.networks.trunk import NetworkCfg
from policies.training.logs import check_wandb
from sim.physics import is_traceable

COLLECTION = "collection"  # beside the algorithms in `GroupCfg.training`: how their experience is collected
OF_COLLECTION = ("shield",)  # what a task says of it


@dataclass(frozen=True)
class CollectionCfg:
    """How experience is collected."""

    num_envs: int = 512  # worlds in parallel
    num_agents: int | None = None  # robots in a world; None: as the task says
    shield: bool | None = None  # train behind the safety filter; None: see `TrainCfg.behind_shield`

    def __post_init__(self) -> None:
        check_fields("", self, num_envs=(1, 1_000_000), num_agents=(1, inf))


@dataclass(frozen=True)
class MachineCfg:
    """What it runs on."""

    engine: str | None = None  # see `sim.physics.make_physics`; None: that of the run that is resumed, else "mujoco"
    device: str | None = None  # of physics and learning: "cpu", "cuda", or None for what the engine runs best on
    threads: int = 2  # of learning on a CPU; not read off the machine, for it changes the last bits
    shards: int | None = None  # see `policies.shards`; None: one for each process that torchrun started

    def __post_init__(self) -> None:
        check_fields("", self, threads=(1, 1024), shards=(1, 1024))


@dataclass(frozen=True)
class TrainCfg:
    """One training run. The same configuration and seed give the same run, bitwise on a CPU, unless time ends it."""

    task: Any = "swarm-swap"  # a name, or a TaskCfg
    task_changes: Mapping[str, Any] = field(default_factory=dict)  # other numbers, see `policies.task_data.numbers`
    out: Path = Path("runs/train")  # checkpoint, logs and dumps go here
    algo: str = "ppo"  # see `policies.algorithms`; or module:NAME
    algorithm: Mapping[str, Any] = field(default_factory=dict)  # its hyperparameters, on top of those of the task
    network: Mapping[str, Any] = field(default_factory=dict)  # fields of NetworkCfg, likewise
    collection: CollectionCfg = CollectionCfg()
    machine: MachineCfg = MachineCfg()
    total_steps: int = 2_000_000  # agent steps: control periods x worlds x robots
    wall_budget_s: float | None = None  # ends training earlier; annealing then follows the time
    stop_at: float | None = None  # ends training earlier, once so much success is shown, see `held_out`
    seed: int = 0
    resume: bool = False  # go on from the checkpoint in `out`
    start_from: Path | None = None  # run, or checkpoint, of a task alike: its networks are what learning begins with
    checkpoint_every: int = 10  # iterations
    keep_every: int | None = None  # iterations between policies that are kept for good
    onnx: bool = True  # policy files of the best policies are wanted at the end
    film: bool = True  # and a page with one of their episodes
    wandb: bool = False  # log to Weights & Biases too
    accept_task_change: bool = False  # resume although the task is not what it was

    def __post_init__(self) -> None:
        check_fields(
            "", self, total_steps=(1, inf), checkpoint_every=(1, inf), keep_every=(1, inf), wall_budget_s=(1e-3, inf)
        )
        check_range("stop-at", self.stop_at, 0.01, 0.999)
        check_range("seed", self.seed, 0, 2**63 - 1)
        if self.wandb:
            check_wandb()
        load_algorithm(self.algo)

    def behind_shield(self, task: Any) -> bool:
        """Whether experience of `task` (a `TaskCfg`) is collected behind the shield: as asked for, or as it says.

        Where nothing is asked for, engines that run a whole rollout as one program, which no shield is part of, do
        without.
        """
        if self.collection.shield is not None:
            return self.collection.shield
        asks = any(group.training.get(COLLECTION, {}).get("shield", False) for group in task.groups.values())
        return asks and not is_traceable(self.machine.engine or "mujoco")

    def hyperparameters(self, group: Any, owner: str) -> tuple[NetworkCfg, Any]:
        """Network and algorithm of a `GroupCfg` (or None): defaults, then the task's, then those given here.

        What a task sets for an algorithm are fields of the algorithm, or of the network to be learned by it (`hidden`,
        `init_std`, ...); no algorithm has a field of such a name. Where it sets nothing, what it sets for the algorithm
        that this is a kind of counts, such as `ppo` for `happo`, but for what the algorithm sets itself. ValueError
        names one of `owner` that neither has.
        """
        training, kind = getattr(group, "training", {}), load_algorithm(self.algo).Cfg
        ours = [name for name in training if ":" not in name]  # the others are algorithms of the user's own
        _check_names(ours, [COLLECTION, *ALGORITHMS], f"{owner} sets training of ")
        _check_names(training.get(COLLECTION, {}), OF_COLLECTION, f"{owner} sets {COLLECTION}.")
        asked = _set_for(self.algo, kind, training)
        of_algorithm, of_network = ([f.name for f in fields(cfg)] for cfg in (kind, NetworkCfg))
        _check_names(asked, [*of_algorithm, *of_network], f"{owner} sets {kind.NAME}.")
        sizes = {name: value for name, value in asked.items() if name in of_network}
        rest = {name: value for name, value in asked.items() if name not in sizes}
        return (
            resolve(NetworkCfg, "network", {**sizes, **self.network}, "the run"),
            resolve(kind, kind.NAME, {**rest, **self.algorithm}, "the run"),
        )


def _set_for(algo: str, kind: type, training: Mapping[str, Any]) -> dict[str, Any]:
    """What of a task's settings for algorithms counts for `algo`, which has the configuration `kind`."""
    if algo in training:
        return dict(training[algo])
    own: set[str] = set()
    for cls in kind.__mro__:
        if (name := vars(cls).get("NAME", "")) in training:
            return {field: value for field, value in training[name].items() if field not in own}
        own |= set(vars(cls).get("__annotations__", {}))
    return {}


def _check_names(asked: Iterable[str], known: Iterable[str], says: str) -> None:
    """ValueError that begins with what it `says` where `asked` has a name that is not `known`."""
    if unknown := sorted({*asked} - {*known}):
        raise ValueError(f"{says}{unknown[0]}; there are {', '.join(sorted(known))}{nearest(unknown[0], known)}")
