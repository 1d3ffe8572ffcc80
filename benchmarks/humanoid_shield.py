"""What the shield makes of a walking humanoid: `python -m benchmarks.humanoid_shield [--event dies] [--robots 20]`.

G1s walk by `zoo/velocity.onnx` behind the whole supervisor, each with the noise, delays, pushes and randomisation of
the task. Then something happens (`EVENTS`), in the middle of a step that differs from robot to robot. Printed as JSON:
for each speed the share that is on its feet `--seconds` later, how far those went on in the direction in which they
walked, the modes they end in, and how often the shield corrected the policy before.

`--policy zoo/stand-h1.onnx`: H1s that only stand, and are pushed as in their task, also after the event.
"""

import argparse
import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from deploy.bundle import load_bundle
from deploy.runtime import PolicyRuntime
from deploy.shield import Context, Mode, Shield, ShieldReport, make_shield_params
from deploy.shield.obstacles import outward
from deploy.shield.types import NO_PEERS, Obstacles
from hardware import ActuatorCommand, RobotState
from hardware.rotation import multiply, rotate
from policies.evaluation.policy_runner import BundleRunner
from policies.threads import single_threaded_torch
from sim.envs.team_env import TeamEnv
from sim.task import Draw, Start, TaskCfg
from sim.tasks import load_task
from sim.tasks.velocity import VELOCITY, starts
from sim.terms import humanoids

SEED = 2_000_003  # no training and no evaluation begins from it
WALKS_S = 4.0  # before the event
WALL_M, WALL_AHEAD_M, NEAR_M = (0.1, 3.0, 1.5), 2.5, 0.7  # half of its size; from a robot's base, also at rest
SPREAD_S = 0.72  # over which the event comes, from robot to robot: one gait cycle


def walking(velocity: tuple[float, float, float], episode_s: float) -> TaskCfg:
    """The task `velocity` with one constant command: m/s ahead and to the left, rad/s, in the heading frame."""

    def constant(draw: Draw) -> dict[str, Start]:
        begin = starts(draw)[VELOCITY.group_name]
        asked = torch.tensor(velocity).expand_as(begin.command["velocity"]).clone()
        return {VELOCITY.group_name: replace(begin, command={"velocity": asked}, plan={})}

    return VELOCITY.changed(starts=constant, update_commands=None, episode_s=episode_s)


@dataclass
class Shielded:
    """`worlds` robots on legs in a task of one robot, each behind a shield of its own; none is started again."""

    task: TaskCfg
    worlds: int
    policy: Path
    seed: int = SEED
    has_fallback: bool = True  # policy; without one its robots are stood in their home pose

    def __post_init__(self) -> None:
        self.env = TeamEnv(self.task.changed(terminations={}, episode_s=1e4), self.worlds, self.seed)
        self.robots = self.env.group
        self.runner = BundleRunner(PolicyRuntime.load(self.policy))
        self.runner.start(self.robots)
        spec = self.robots.robot if self.has_fallback else replace(self.robots.robot, fallback_policy=None)
        self.params = make_shield_params(spec, **self.task.group.shield)
        self.shields = [Shield(self.params, spec) for _ in range(self.worlds)]
        self.now_s = 100.0
        self.requests: list[tuple[ActuatorCommand, float] | None] = [None] * self.worlds
        self.reports: list[ShieldReport] = []
        self.obstacles: list[Obstacles | None] = [None] * self.worlds
        self.fallen = np.zeros(self.worlds, bool)  # ever
        self.fell_s = np.full(self.worlds, np.inf)

    def states(self) -> list[RobotState]:
        """What the robots measure."""
        measured = self.robots.measured[0]
        rows = {f: getattr(measured, f)[:, 0].numpy().astype(np.float64) for f in RobotState.__slots__}
        return [RobotState(*(np.asarray(rows[f][w]) for f in RobotState.__slots__)) for w in range(self.worlds)]

    def step(
        self, silent: np.ndarray | None = None, spoilt: Mapping[int, Callable[[RobotState], RobotState]] | None = None
    ) -> None:
        """One control period; `silent` (W,) policies say nothing, `spoilt` changes what shields are given."""
        action, target = self.runner.act(self.robots)
        sent = target.clone()
        self.reports = []
        self.now_s += self.params.control_dt_s
        for w, state in enumerate(self.states()):
            if silent is None or not silent[w]:
                self.requests[w] = ActuatorCommand(target[w, 0].numpy().copy()), self.now_s - float(state.age)
            seen = spoilt[w](state) if spoilt and w in spoilt else state
            request = self.requests[w]
            asked, age_s = (request[0], self.now_s - request[1]) if request else (None, 0.0)
            command, report = self.shields[w].step(
                self.now_s, Context(seen, NO_PEERS, obstacles=self.obstacles[w]), asked, age_s
            )
            sent[w, 0] = torch.from_numpy(np.asarray(command.target))
            self.reports.append(report)
        name = self.task.group_name
        self.env.step({name: action}, {name: sent})
        down = humanoids.fallen(self.robots.now, **self.task.group.terminations["fallen"].params)[:, 0].numpy()
        self.fell_s[down & ~self.fallen] = self.now_s
        self.fallen |= down

    def build_wall(self, world: int, ahead_m: float) -> None:
        """A wall across the way of a robot, `ahead_m` in front of its base."""
        state = self.states()[world]
        ahead = rotate(state.base_quat, np.array([1.0, 0.0, 0.0]))[:2]
        walks = ahead / np.linalg.norm(ahead)
        yaw = np.arctan2(walks[1], walks[0])
        pos = np.append(state.base_pos[:2] + (ahead_m + WALL_M[0]) * walks, WALL_M[2])
        quat = np.array([np.cos(yaw / 2), 0.0, 0.0, np.sin(yaw / 2)])
        one = pos, quat, np.array(WALL_M), np.zeros(()), np.zeros(()), np.array(True)
        self.obstacles[world] = Obstacles(*(value[None] for value in one))

    def wall_gap_m(self) -> np.ndarray:
        """From the base of each robot to its wall (W,); infinite without one."""
        gaps = [
            np.inf if wall is None else float(outward(np, state.base_pos, wall)[1][0])
            for state, wall in zip(self.states(), self.obstacles, strict=True)
        ]
        return np.array(gaps)


class Walkers(Shielded):
    """G1s on their way at `speed` (m/s)."""

    def __init__(
        self,
        speed: float,
        worlds: int,
        policy: Path,
        push: bool = True,
        seed: int = SEED,
        has_fallback: bool = True,
    ):
        task = walking((speed, 0.0, 0.0), episode_s=1e4)
        if not push:
            task = task.changed(randomisation={k: v for k, v in task.group.randomisation.items() if k != "push"})
        super().__init__(task, worlds, policy, seed, has_fallback)
        # A shield does not know in which phase of its gait a policy begins.
        self.runner.memory["gait_phase"][:] = np.random.default_rng(seed).random((worlds, 1))


def nothing(state: RobotState) -> RobotState:
    return state


def bad_imu(state: RobotState) -> RobotState:
    """An attitude that is 1.2 rad off."""
    return replace(state, base_quat=multiply(state.base_quat, np.array([np.cos(0.6), 0.0, np.sin(0.6), 0.0])))


def bad_gyro(state: RobotState) -> RobotState:
    return replace(state, base_ang_vel=np.array([6.0, -5.0, 1.0]))


def bad_joint(state: RobotState) -> RobotState:
    pos = state.joint_pos.copy()
    pos[3] += 1.5
    return replace(state, joint_pos=pos)


def bad_height(state: RobotState) -> RobotState:
    return replace(state, base_pos=state.base_pos - np.array([0.0, 0.0, 0.6]))


def way_m(places: np.ndarray, begin: np.ndarray, period_s: float) -> np.ndarray:
    """How far (W,) m robots at `places` (T, W, 2) went on at most after step `begin` (W,), as in the second before."""
    far = np.empty(len(begin))
    for w, first in enumerate(begin.tolist()):
        there = places[first - 1, w]
        walked = there - places[first - 1 - round(1.0 / period_s), w]
        far[w] = ((places[first:, w] - there) @ (walked / max(np.linalg.norm(walked), 1e-6))).max()
    return far


EVENTS: dict[str, tuple[int, Callable[[RobotState], RobotState]]] = {  # periods of silence, what the shield sees
    "nothing": (0, nothing),
    "dies": (10**9, nothing),
    "wall": (0, nothing),
    "sets out": (0, nothing),  # from rest, towards a wall
    "misses 3": (3, nothing),
    "misses 8": (8, nothing),
    "bad attitude": (0, bad_imu),
    "bad rates": (0, bad_gyro),
    "bad joint": (0, bad_joint),
    "bad height": (0, bad_height),
}


@single_threaded_torch()
def try_event(
    event: str, speed: float, worlds: int, seconds: float, policy: Path, has_fallback: bool = True, push: bool = True
) -> dict[str, Any]:
    """Walk, or stand by a policy of another task, then let `event` happen; returns what `__main__` prints."""
    sets_out = event == "sets out"
    task = load_task(load_bundle(policy).contract.task)
    if task.name == VELOCITY.name:
        walkers: Shielded = Walkers(0.0 if sets_out else speed, worlds, policy, push, has_fallback=has_fallback)
    else:
        walkers = Shielded(task, worlds, policy, has_fallback=has_fallback)
    dt_s = walkers.params.control_dt_s
    spread = np.arange(worlds) * round(SPREAD_S / dt_s) // worlds
    begin = round(WALKS_S / dt_s) + spread
    periods, spoil = EVENTS[event]
    corrected: Counter[str] = Counter()
    steps = 0
    before = None
    tripped = np.zeros(worlds, bool)
    damped: dict[int, str] = {}
    gap_m = np.full(worlds, np.inf)
    places = []
    for step in range(int(begin.max()) + 1 + round(seconds / dt_s)):
        if before is None and step == begin.min():
            before = walkers.fallen.copy()
        if event == "wall" or sets_out:
            for w in np.flatnonzero(step == begin).tolist():
                walkers.build_wall(w, NEAR_M if sets_out else WALL_AHEAD_M)
                walkers.robots.command["velocity"][w, :, 0] = speed
            gap_m = np.minimum(gap_m, walkers.wall_gap_m())
        silent = (begin <= step) & (step < begin + periods)
        walkers.step(silent, {int(w): spoil for w in np.flatnonzero(step == begin)})
        places.append([state.base_pos[:2] for state in walkers.states()])
        if step < begin.min() and step > 50:
            steps += worlds
            for report in walkers.reports:
                kinds = {name.rsplit(" ", 1)[-1] if ":" in name else name for name in report.active}
                corrected.update(kinds | ({"any"} if report.intervention > 0 else set()))
        for w, report in enumerate(walkers.reports):
            if report.mode is Mode.DAMP and w not in damped:
                damped[w] = f"{(step - begin[w]) * dt_s:.2f} s: {report.reason}"
        tripped |= np.array([r.mode not in (Mode.NOMINAL, Mode.FILTERED) for r in walkers.reports]) & (step >= begin)
    assert before is not None
    up, way = ~walkers.fallen[~before], way_m(np.array(places), begin, dt_s)
    fell_s = walkers.fell_s - 100 - begin * dt_s
    speeds = walkers.robots.now.lin_vel_w[:, 0, :2].norm(dim=-1).numpy()
    return {
        "event": event,
        "speed_m_s": speed,
        "robots": int((~before).sum()),
        "upright": float(up.mean()),
        **(
            {"least_gap_m": round(float(gap_m[~walkers.fallen].min(initial=np.inf)), 2)}
            if np.isfinite(gap_m).any()
            else {}
        ),
        **({} if sets_out else {"goes_on_m": round(float(way[~walkers.fallen].max(initial=0.0)), 2)}),
        "tripped": float(tripped[~before].mean()),
        "fell_after_s": sorted(np.round(fell_s[~before & walkers.fallen], 2).tolist())[:8],
        "damped": list(damped.values())[:8],
        "modes": dict(Counter(r.mode.name for r in walkers.reports)),
        "reasons": dict(Counter(r.reason[:40] for r in walkers.reports).most_common(3)),
        "m_s_at_end": float(speeds[~walkers.fallen].mean()) if not walkers.fallen.all() else None,
        "corrected": {name: round(count / steps, 4) for name, count in corrected.most_common(7)},
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--event", choices=EVENTS, nargs="+", default=["dies"])
    parser.add_argument("--speed", type=float, nargs="+", default=[0.0, 0.3, 0.6, 1.0], help="forward, m/s")
    parser.add_argument("--robots", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--policy", type=Path, default=Path("zoo/velocity.onnx"))
    parser.add_argument("--no-push", action="store_true", help="walkers are not pushed")
    parser.add_argument("--no-fallback-policy", action="store_true", help="the shields stand their robots at home")
    args = parser.parse_args()
    for event in args.event:
        for speed in args.speed:
            how = args.policy, not args.no_fallback_policy, not args.no_push
            done = try_event(event, speed, args.robots, args.seconds, *how)
            print(json.dumps(done), flush=True)
