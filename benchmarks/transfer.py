"""How policies do under rate loops, rotors, drives and delays that are not the simulation's own.

A plant is one choice of gains, rotor lag and total delay. All are flown at once, each in its share of the worlds; what
else the task varies stays as it is. The task's scripted controller flies beside each policy: what it cannot do either
is no fault of the policy.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from benchmarks.transfer_drives import fly_drives
from benchmarks.turns import Progress
from deploy.runtime import PolicyRuntime
from hardware import load_robot
from policies.evaluation.evaluate import BundleRunner, wilson
from policies.threads import single_threaded_torch
from sim import randomisation
from sim.envs.robots import RobotGroup
from sim.envs.team_env import TeamEnv
from sim.task import TaskCfg
from sim.tasks import load_task
from sim.terms import EventTerm

SEED = 2_000_003  # neither training nor verification starts from it
FLOOR_M = 0.2  # a drone that was below that when its episode failed has come down
DELAYS = ("actuator_delay", "sensor_delay", "actuator_jitter", "sensor_jitter")
REPLACED = ("rate_loop", *DELAYS, "lost_commands")  # terms that a plant stands for
Tensor = torch.Tensor


class Plant(NamedTuple):
    """Factor on the gains, rotor lag s and total delay s; the model's own loop where `own`."""

    gain: float
    lag_s: float
    delay_s: float
    own: bool = False

    def __str__(self) -> str:
        """As in the head of the table: gains, rotors, delay."""
        return "model's own loop" if self.own else f"x{self.gain:g} {self.lag_s * 1e3:g} ms {self.delay_s * 1e3:g} ms"


PLANTS = (
    Plant(1.0, 0.06, 0.0, own=True),
    *(Plant(gain, 0.06, delay) for gain in (0.5, 1.0, 1.5) for delay in (0.0, 0.008, 0.02, 0.04)),
    *(Plant(1.0, lag, delay) for lag in (0.02, 0.08) for delay in (0.0, 0.04)),
)


def bench_transfer(
    policies: tuple[Path, ...] = (Path("zoo/hover.onnx"),), worlds: int = 64, *, on_progress: Progress
) -> dict[str, Any]:
    """What policies come to on other plants, without and with their shields.

    Of drones under their firmware's rate loop with other gains, slower rotors and delays, beside the scripted
    controller; of arms and humanoids with gains, armature and friction of others (extra `robots`) and delays.
    ValueError for a policy of a mixed team.

    Args:
        policies: Policy files.
        worlds: Episodes of each under each plant.
    """
    rows: dict[str, Any] = {}
    drives = {file: name for file in policies if (name := _of_drives(file))}
    for file, of_drives in drives.items():
        rows[f"{file}, {of_drives}"] = fly_drives(file, of_drives, worlds, on_progress)
    flights = list(_flights([file for file in policies if file not in drives]))
    for name, runner, task in flights:
        for shield in (False, True):
            title = f"{name}, {'with' if shield else 'without'} shield; gains, rotors, delay"
            rows[title] = fly_plants(runner, task, worlds, shield)
            on_progress(2 * len(flights))
    return {"worlds": worlds, "policies": rows}


def _of_drives(file: Path) -> str:
    """The task of the policy of one arm or humanoid, "" of others."""
    contract = PolicyRuntime.load(file).contract
    task = load_task(contract.task)
    return contract.task if len(task.groups) == 1 and load_robot(contract.robot.name).flight is None else ""


def _flights(policies: Sequence[Path]) -> Iterator[tuple[str, BundleRunner | None, TaskCfg]]:
    """Each policy, and once for each of their tasks its scripted controller (None)."""
    scripted: set[str] = set()
    for file in policies:
        runtime = PolicyRuntime.load(file)
        task = load_task(runtime.contract.task)
        robot = load_robot(runtime.contract.robot.name)
        if robot.flight is None or robot.flight.rate_loop is None or len(task.groups) > 1:
            raise ValueError(f"{file}: transfer is measured for robots of one kind, not for {task.name}")
        yield str(file), BundleRunner(runtime), task
        if task.group.baseline is not None and task.name not in scripted:
            scripted.add(task.name)
            yield f"scripted controller of {task.name}", None, task


def fly_plants(runner: BundleRunner | None, task: TaskCfg, worlds: int, shield: bool) -> dict[str, dict[str, float]]:
    """One episode in each world, of a policy or (None) of the task's scripted controller: by plant, what it came to."""
    kept = {name: term for name, term in task.group.randomisation.items() if name not in REPLACED}
    plants = EventTerm(set_plants, {"plants": PLANTS})
    task = task.changed(rate_loop=True, randomisation={**kept, "plants": plants})
    count = worlds * len(PLANTS)
    with single_threaded_torch():
        env = TeamEnv(task, count, SEED, shield=shield)
        group = env.group
        if runner is not None:
            runner.start(group)
        flying, success, down = torch.ones(3, count, dtype=torch.bool) & torch.tensor([[True], [False], [False]])
        shaking, steps = torch.zeros(2, count)
        corrected = torch.zeros(count)
        while flying.any():
            late = flying & (env.steps >= env.max_steps - round(1.0 / env.control_dt))
            rates = group.now.state.base_ang_vel[..., :2].square().sum(-1)
            shaking, steps = shaking + late * rates.mean(-1), steps + late
            action, target = _act(runner, group, task)
            low = group.now.state.base_pos[..., 2].amin(-1) < FLOOR_M
            step = env.step({task.group_name: action}, {task.group_name: target})
            ends = flying & step.ended
            success |= ends & step.success
            down |= ends & low & (step.episode_length < env.max_steps)
            corrected += ends * step.interventions / (step.episode_length * group.num_agents)
            flying &= ~ends
    result = {}
    for index, plant in enumerate(PLANTS):
        own = slice(index * worlds, (index + 1) * worlds)
        rms = float((shaking[own].sum() / steps[own].sum()).sqrt())
        succeeded = int(success[own].sum())
        result[str(plant)] = {
            "success": succeeded / worlds,
            "at_least": wilson(succeeded, worlds)[0],
            "on_floor": float(down[own].float().mean()),
            "shaking_rad_s": rms,
            "shield_share": float(corrected[own].mean()),
        }
    return result


def set_plants(robots: RobotGroup, worlds: Tensor, generator: torch.Generator, plants: Sequence[Plant]) -> None:
    """Give each of the `plants` to as many worlds as another; half of a delay is the command's."""
    assert robots.rate_loops is not None
    loop = robots.rate_loops.loop
    table = torch.tensor(plants, dtype=torch.float32)
    gain, lag_s, delay_s, own = table[worlds * len(plants) // robots.physics.num_worlds].T.unsqueeze(-1)
    randomisation.rate_loop(robots, worlds, generator, (1.0, 1.0), (1.0, 1.0), loop.variation["trim"], 0.0)
    state = robots.rate_loops.state
    state["gain"][worlds] = gain.unsqueeze(-1).expand(-1, robots.num_robots, 3)
    state["lag"][worlds] = (lag_s / max(loop.lag_s)).unsqueeze(-1).expand(-1, robots.num_robots, 1)
    state["slow"][worlds] = own.bool().expand(-1, robots.num_robots)
    steps = (delay_s / robots.dt).round().long()
    robots.actuator_delay[worlds] = (steps // 2).expand(-1, robots.num_robots)
    robots.sensor_delay[worlds] = (steps - steps // 2).expand(-1, robots.num_robots)


def _act(runner: BundleRunner | None, group: Any, task: TaskCfg) -> tuple[Tensor, Tensor]:
    """Action and target (W, N, U)."""
    if runner is not None:
        return runner.act(group)
    baseline = task.group.baseline
    assert baseline is not None
    target = baseline.func(group.policy_input, **baseline.params)
    return torch.zeros_like(target), target
