"""Tasks of drones: where they begin, how they end, that they can be done, and that their policies can be exported."""

from dataclasses import replace
from functools import cache

import pytest
import torch
from one_group import flight_of, make_env, start_of, starts_at
from small_run import train_cfg

from deploy.bundle import load_bundle
from policies.evaluation.evaluate import EvalResult
from policies.export.export import export_policy
from policies.training.train import train
from sim.envs.action import encode
from sim.envs.team_env import TeamEnv
from sim.task import Draw, Start, TaskCfg
from sim.tasks import load_task
from sim.tasks.hover import HOVER
from sim.tasks.hover_x500 import HOVER_X500
from sim.tasks.payload_lift import CABLE_M, HEIGHT_M, LOAD_RADIUS_M, PAYLOAD_LIFT
from sim.tasks.swarm_track import CLEAR_M, FOLLOW_S, LARGEST_TEAM, PILLAR_M, PILLARS, SPACE, SWARM_TRACK, TOUCH_M
from sim.terms import EventTerm, flight

TASKS = pytest.mark.parametrize("task", [HOVER, PAYLOAD_LIFT, SWARM_TRACK], ids=lambda task: task.name)


class BaselinePilot:
    """The task's own controller."""

    def start(self, env: TeamEnv) -> None:
        """Its memory is the environment's."""

    def act(self, env: TeamEnv) -> tuple[torch.Tensor, torch.Tensor]:
        """Its target, and the action that gives it."""
        policy_input, role = env.policy_input, env.cfg  # of its group
        assert role.baseline is not None
        target = role.baseline.func(policy_input, **role.baseline.params)
        return encode(role.action, target, policy_input.state, env.robot), target


class IdlePilot(BaselinePilot):
    """No robot flies."""

    def act(self, env: TeamEnv) -> tuple[torch.Tensor, torch.Tensor]:
        """Zero."""
        none = torch.zeros(env.num_envs, env.num_agents, env.action_dim)
        return none, none


def deaths(probability: float) -> dict[str, EventTerm]:
    """The randomisation of payload-lift with motors that die, in each world or in none."""
    term = PAYLOAD_LIFT.group.randomisation["motor_failure"]
    return {**PAYLOAD_LIFT.group.randomisation, "motor_failure": replace(term, params={"probability": probability})}


@cache
def flown(name: str, **changes: float) -> EvalResult:
    """Sixteen episodes of a task under its baseline; `deaths` is the probability of one in an episode."""
    tasks = {task.name: task for task in (HOVER, PAYLOAD_LIFT, SWARM_TRACK)}
    task = tasks[name]
    if "deaths" in changes:
        task = task.changed(randomisation=deaths(changes["deaths"]))
    return flight_of(BaselinePilot(), task, 16, 7)


def failing(env: TeamEnv) -> list[str]:
    """Failures that hold now in some world."""
    terms = env.group.cfg.terminations
    return [name for name, term in terms.items() if bool(term.func(env.now, **term.params).any())]


@torch.inference_mode()
def after_a_death(worlds: int) -> TeamEnv:
    """Teams at the end of an episode in which one of each died, whatever became of them."""
    env = make_env(PAYLOAD_LIFT.changed(randomisation=deaths(1.0), terminations={}), worlds, 3)
    pilot = BaselinePilot()
    for _ in range(env.max_steps - 1):
        env.step(pilot.act(env)[0])
    return env


@pytest.mark.slow
@TASKS
def test_doing_nothing_is_no_success(task: TaskCfg):
    assert flight_of(IdlePilot(), task, 16, 2).success_rate < 0.1


@pytest.mark.slow
@pytest.mark.parametrize("task", [PAYLOAD_LIFT, SWARM_TRACK], ids=lambda task: task.name)  # hover's in test_td3.py
def test_its_policy_can_be_exported_and_needs_no_more_than_the_robot_has(task: TaskCfg, tmp_path):
    cfg = train_cfg(task=task.name, out=tmp_path / "run", num_envs=8, total_steps=1, num_steps=4, epochs=1)
    train(cfg)
    contract = load_bundle(export_policy(cfg.out, tmp_path / "policy.onnx")).contract
    inputs = {tensor.name for tensor in contract.inputs}
    assert any(name.startswith("peers") for name in inputs) == (task is SWARM_TRACK)
    assert any(name.startswith("load") for name in inputs) == (task is PAYLOAD_LIFT)
    assert any(name.startswith("pillar") for name in inputs) == (task is SWARM_TRACK)


@pytest.mark.parametrize(("off_m", "speed_m_s", "wanted"), [(0.09, 0.25, True), (0.11, 0.0, False), (0.0, 0.35, False)])
def test_an_x500_hovers_that_is_at_its_goal_and_hardly_moves(off_m, speed_m_s, wanted):
    now, success = make_env(HOVER_X500, 4, seed=0).now, HOVER_X500.group.success
    goal = now.state.base_pos + torch.tensor([0.0, off_m, 0.0])
    moving = replace(now.state, base_lin_vel=torch.tensor([speed_m_s, 0.0, 0.0]).expand_as(goal))
    there = success.func(replace(now, state=moving, command={"goal_pos": goal}), **success.params)
    assert (there == wanted).all()


@pytest.mark.slow
def test_hover_can_be_done_by_a_controller_that_sums_up_its_error():
    assert flown("hover").success_rate > 0.7


@pytest.mark.slow
def test_a_load_is_carried_by_drones_that_each_know_their_place():
    result = flown("payload-lift", deaths=0.0)
    assert result.success_rate > 0.9
    assert result.collision_rate == 0.0


def test_a_load_begins_on_the_floor_or_in_the_air_with_no_cable_too_short():
    env = make_env(PAYLOAD_LIFT, 128, 5)
    load = env.now.objects["load"].pos
    on_floor = load[:, 0, 2] < LOAD_RADIUS_M + 1e-3
    assert 0.3 < float(on_floor.float().mean()) < 0.7
    cables = torch.linalg.vector_norm(env.now.state.base_pos - load, dim=-1)
    assert (cables <= CABLE_M).all()
    assert (cables > 0.8 * CABLE_M).all()
    height = env.command["load_goal"][..., 2]
    assert (height >= HEIGHT_M[0]).all()
    assert (height <= HEIGHT_M[1]).all()


def test_a_cable_holds_the_load_when_it_is_tight_and_not_when_it_is_slack():
    def fallen(raised_m: float) -> torch.Tensor:
        def start(draw: Draw) -> Start:
            """In the air, with the load nearer to the robots by `raised_m`."""
            drawn = start_of(PAYLOAD_LIFT, draw)
            pos, quat = drawn.objects["load"]
            assert drawn.pos is not None
            up = torch.tensor([0.0, 0.0, 1.0])
            return replace(
                drawn, pos=drawn.pos + up, objects={"load": (pos + torch.tensor([0.0, 0.0, 1.0 + raised_m]), quat)}
            )

        env = make_env(starts_at(PAYLOAD_LIFT, start).changed(terminations={}), 32, 5, randomise=False)
        before = env.now.objects["load"].pos.clone()
        for _ in range(15):
            env.step(torch.zeros(32, 3, 4))
        return (before - env.now.objects["load"].pos)[:, 0, 2]

    assert torch.allclose(fallen(0.45), torch.tensor(0.5 * 9.81 * 0.3**2), atol=0.03)
    assert fallen(0.0).max() < 0.25


@pytest.mark.slow
def test_who_dies_hangs_or_lies_below_the_load():
    env = after_a_death(16)
    dead = env.group.robots.dead
    assert (dead.sum(-1) == 1).all()
    assert not (flight.flying(env.now) & dead).any()
    length = torch.linalg.vector_norm(env.now.state.base_pos - env.now.objects["load"].pos, dim=-1)
    assert (length < 1.15 * CABLE_M).all()


def test_a_load_left_on_the_floor_is_a_failure_after_a_while_and_not_before():
    env = make_env(PAYLOAD_LIFT.changed(randomisation={}), 8, 5)
    dropped = PAYLOAD_LIFT.group.terminations["dropped"]
    low = replace(env.now, objects={"load": replace(env.now.objects["load"], pos=torch.full((8, 1, 3), 0.03))})
    early, late = torch.full((8,), 1.0), torch.full((8,), 3.0)
    assert not dropped.func(replace(low, time_s=early), **dropped.params).any()
    assert dropped.func(replace(low, time_s=late), **dropped.params).all()


def test_two_that_fly_too_close_collide_and_one_that_hangs_does_not():
    env = make_env(PAYLOAD_LIFT, 1, 5)
    pos = env.now.state.base_pos.clone()
    pos[0, 1] = pos[0, 0] + torch.tensor([0.1, 0.0, 0.0])
    collision = PAYLOAD_LIFT.group.terminations["collision"]
    near = replace(env.now, state=replace(env.now.state, base_pos=pos))
    assert collision.func(near, **collision.params).tolist() == [[True, True, False]]
    below = env.now.objects["load"].pos[0, 0, 2] - 0.2
    pos = pos.clone()
    pos[0, :2, 2] = below
    hanging = replace(env.now, state=replace(env.now.state, base_pos=pos))
    assert not collision.func(hanging, **collision.params).any()


def test_success_is_the_load_at_its_goal_wherever_the_robots_are():
    env = make_env(PAYLOAD_LIFT, 4, 5)
    goal = env.command["load_goal"][:, :1]
    success = PAYLOAD_LIFT.group.success
    for offset, expected in ((0.19, True), (0.21, False)):
        moved = replace(env.now.objects["load"], pos=goal + torch.tensor([0.0, offset, 0.0]))
        now = replace(env.now, objects={"load": moved}, means={"load_gap": torch.full((4, 3, 1), 0.1)})
        assert bool(success.func(now, **success.params).all()) == expected


def test_each_robot_remembers_the_bearing_at_which_it_began():
    env, pilot = make_env(PAYLOAD_LIFT.changed(randomisation={}), 4, 5), BaselinePilot()
    gap = (env.now.state.base_pos - env.now.objects["load"].pos)[..., :2]
    for _ in range(100):
        env.step(pilot.act(env)[0])
    began = gap / torch.linalg.vector_norm(gap, dim=-1, keepdim=True)
    assert torch.allclose(env.memory["bearing"][..., :2], began, atol=0.05)  # measured, with noise


def test_goals_leave_and_arrive_gently():
    env = make_env(SWARM_TRACK, 64, 6)
    assert SWARM_TRACK.group.update_commands is not None
    times = torch.linspace(0.0, SWARM_TRACK.episode_s, 501)
    path = torch.stack([SWARM_TRACK.group.update_commands(env.group.plan, t.view(1, 1, 1))["goal_pos"] for t in times])
    assert torch.allclose(path[0], env.group.plan["from"])
    assert torch.allclose(path[-1], env.group.plan["to"])
    speed = torch.linalg.vector_norm(path.diff(dim=0), dim=-1) / (SWARM_TRACK.episode_s / 500)
    assert speed[0].max() < 0.05
    assert speed[round(FOLLOW_S * 50) :].max() < 0.05
    assert speed.max() < 1.6


@pytest.mark.parametrize("robots", [1, 2, 8, LARGEST_TEAM])
def test_a_team_of_any_size_begins_and_ends_clear_of_pillars_walls_and_one_another(robots: int):
    env = make_env(SWARM_TRACK, 64, 6, num_agents=robots)
    assert failing(env) == []
    assert flight.pillar_distance(env.now, PILLARS).min() >= CLEAR_M
    last = replace(env.now, state=replace(env.now.state, base_pos=env.group.plan["to"]))
    assert flight.pillar_distance(last, PILLARS).min() >= CLEAR_M
    assert last.distance.min() > 0.45
    low, high = torch.tensor(SPACE["low_m"]), torch.tensor(SPACE["high_m"])
    assert ((env.group.plan["to"] > low + 0.3) & (env.group.plan["to"] < high - 0.3)).all()


def test_a_team_that_the_room_cannot_hold_is_refused():
    with pytest.raises(ValueError, match="room for 12 robots, not 13"):
        make_env(SWARM_TRACK, 1, 0, num_agents=13)


@pytest.mark.slow
def test_who_only_looks_at_the_goal_flies_into_a_pillar():
    result = flown("swarm-track")
    assert result.failure_rates["pillar"] > 0.6
    assert result.success_rate < 0.4


@pytest.mark.slow
@torch.inference_mode()
def test_pillars_are_solid_and_stay_where_they_are():
    env = make_env(SWARM_TRACK.changed(terminations={}, randomisation={}), 16, 6)
    before = {name: env.now.objects[name].pos.clone() for name in PILLARS}
    pilot, nearest = BaselinePilot(), torch.full((), 9.0)
    for _ in range(400):
        env.step(pilot.act(env)[0])
        nearest = torch.minimum(nearest, flight.pillar_distance(env.now, PILLARS).min())
    assert nearest < TOUCH_M  # some flew into one ...
    assert nearest > PILLAR_M  # ... and none through it
    for name in PILLARS:
        assert torch.allclose(env.now.objects[name].pos, before[name], atol=0.01)


def test_a_robot_sees_its_nearest_pillars_first_the_nearer_the_larger():
    env = make_env(SWARM_TRACK, 64, 6)
    seen = flight.pillar_nearness(env.policy_input, PILLARS, 1.0, 2).unflatten(-1, (2, 3))
    nearness = torch.linalg.vector_norm(seen, dim=-1)
    true = (1.0 - flight.pillar_distance(env.now, PILLARS)).clamp(min=0.0)
    assert torch.allclose(nearness[..., 0], true, atol=0.05)
    assert (nearness[..., 0] >= nearness[..., 1] - 1e-5).all()
    assert (true > 0.2).any() and (nearness[true == 0.0] < 0.05).all()  # far ones are no news


@pytest.mark.parametrize("robots", [1, 2, 4, 8, 16])
def test_who_swaps_begins_along_its_way_while_it_learns_and_opposite_its_goal_in_the_end(robots: int):
    def offsets(difficulty: float) -> tuple[torch.Tensor, torch.Tensor]:
        draw = Draw(torch.Generator().manual_seed(1), 512, robots, torch.full((512,), difficulty))
        start = start_of(load_task("swarm-swap"), draw)
        return start.pos[..., :2], start.command["goal_pos"][..., :2]

    pos, goal = offsets(1.0)
    assert torch.allclose(pos, -goal, atol=1e-6)
    pos, goal = offsets(0.0)
    radius = torch.linalg.vector_norm(goal, dim=-1)
    assert torch.allclose(torch.linalg.vector_norm(pos, dim=-1), radius, atol=1e-6)
    share = torch.linalg.vector_norm(pos - goal, dim=-1) / (2 * radius)
    assert torch.allclose(share.amin(1), share.amax(1), atol=1e-4)  # all of a world by the same angle
    assert share.amin() < 0.05 and share.amax() > 0.95  # from their goals to the opposite point
    apart = torch.linalg.vector_norm(pos[:, :, None] - pos[:, None], dim=-1) + 9.0 * torch.eye(robots)
    assert apart.amin() > 0.44
