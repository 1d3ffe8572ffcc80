"""The shield in simulation is that of the robot: it sees the whole team, and answers the same."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from places import ZOO

from deploy.runtime import PolicyRuntime
from deploy.shield import Context, Mode, Shield, filter_request
from deploy.shield.joints.arm import ArmFallback
from deploy.shield.joints.arm_obstacles import arm_obstacles
from deploy.shield.joints.pace import TARGET_SPEED, target_speed
from deploy.shield.params import clearance_m
from hardware import ActuatorCommand, RobotState, load_robot
from phalanx.agents import make_agent
from policies.evaluation.evaluate import evaluate
from policies.evaluation.policy_runner import BundleRunner
from sim.envs import agents
from sim.envs.action import decode
from sim.envs.bodies_near import bodies_near
from sim.envs.team_env import TeamEnv
from sim.task import ObservationCfg
from sim.tasks import load_task
from sim.terms import MemoryTerm, RewardTerm, Term, observations, rewards

SWAP = load_task("swarm-swap")


@pytest.mark.slow
def test_a_policy_without_peers_is_kept_from_touching_them():
    """Drones that hear no peers fly to the opposite side of a circle, straight through its middle."""
    deaf = SWAP.changed(observation=replace(SWAP.group.observation, peer={}, max_peers=0))
    bare, behind = (evaluate(make_agent("baseline", 0, deaf.group), deaf, 16, shield=s) for s in (False, True))
    assert bare.collision_rate == 1.0
    assert behind.collision_rate == 0.0 and behind.intervention_rate > 0.02 and behind.min_separation_m > 0.15


def test_the_shield_hears_the_whole_team_and_the_policy_those_that_its_task_says():
    env = TeamEnv(
        SWAP.changed(observation=replace(SWAP.group.observation, max_peers=1, peer_range_m=0.1)), 3, 0, 6, True
    )
    state, peers, _ = env.group.measured
    shield = env.group.shield_peers
    assert peers.pos.shape == (3, 6, 1, 3) and not peers.valid.any()
    assert shield.pos.shape == (3, 6, 5, 3) and shield.valid.all()
    gap = torch.linalg.vector_norm(shield.pos - state.base_pos[..., None, :], dim=-1)
    assert (gap.diff(dim=-1) >= 0).all() and (gap > 0.3).all()  # nearest first, and never itself
    load = TeamEnv("payload-lift", 2, 0, shield=True).group
    assert load.measured[1].pos.shape[2] == 0 and load.shield_peers.valid.shape == (2, 3, 2)


def test_the_shield_of_a_drone_is_given_the_links_of_an_arm_as_on_the_robot_and_that_of_the_arm_none():
    groups = TeamEnv("perch", 2, 0, shield=True).groups
    drone, arm = groups["drone"], groups["arm"]
    assert drone.shield_peers.valid.shape == (2, 1, 0) and arm.shield_peers.valid.shape[2] == 0  # of other drones none
    assert bodies_near(groups, "arm") is None
    found, (measured, *_) = bodies_near(groups, "drone"), arm.measured
    own = RobotState(*(getattr(measured, name)[1, 0].numpy() for name in RobotState.__slots__))
    expected = arm_obstacles(arm.robot, own, lands_on=True)  # what `Around` of ROS 2 calls
    for name in ("pos", "quat", "half", "valid"):
        np.testing.assert_allclose(getattr(found, name)[1, 0], getattr(expected, name), atol=1e-5)
    assert (found.radius[1, 0].numpy() >= expected.radius - 1e-9).all()
    assert 0 < int(found.valid[0, 0].sum()) < found.valid.shape[2]  # its hand may be near


def test_the_shield_of_an_arm_is_given_drones_that_do_not_land_on_it():
    perch = load_task("perch")
    beside = perch.changed(groups={**perch.groups, "drone": replace(perch.groups["drone"], lands_on="")})
    groups = TeamEnv(beside, 2, 0, shield=True).groups
    found, (measured, *_) = bodies_near(groups, "arm"), groups["drone"].measured
    np.testing.assert_allclose(found.pos[:, 0, 0], measured.base_pos[:, 0], atol=1e-6)
    speed = torch.linalg.vector_norm(measured.base_lin_vel[:, 0], dim=-1)
    np.testing.assert_allclose(found.speed[:, 0, 0], speed, atol=1e-5)
    assert found.valid.all() and (found.radius >= clearance_m(load_robot("crazyflie"))).all()


def test_what_a_shield_hears_starts_again_with_its_world_and_goes_on_from_a_saved_state():
    task = SWAP.changed(episode_s=0.1)
    env, twin = TeamEnv(task, 3, 1, shield=True), TeamEnv(task, 3, 7, shield=True)
    env.stagger()
    still = {"crazyflie": torch.zeros(3, 4, 4)}
    for _ in range(7):
        env.step(still)
    twin.set_state(env.get_state())
    assert torch.equal(twin.group.shield_peers.pos, env.group.shield_peers.pos)
    for _ in range(5):
        one, other = env.step(still), twin.step(still)
        assert torch.equal(one.reward["crazyflie"], other.reward["crazyflie"])
        own, peers = env.group.measured[0].base_pos, env.group.shield_peers.pos
        assert torch.linalg.vector_norm(peers - own[..., None, :], dim=-1).max() < 4.0  # none of an earlier start


def one_robot(value, robot):
    return type(value)(*(getattr(value, name)[0, robot].numpy().copy() for name in value.__slots__))


def still(step, channels):
    return torch.zeros(channels)


def sways(step, channels):
    return torch.sin(0.12 * step + torch.arange(channels))


def jerks(step, channels):
    """In one period of five, beyond what the action may be."""
    return 3.0 * (step % 5 == 0) * (-1.0) ** (step + torch.arange(channels))


@pytest.mark.parametrize(
    ("task", "sway"), [("swarm-swap", still), ("reach-ur5e", sways), ("reach-ur5e", jerks), ("stand-h1", jerks)]
)
def test_a_robots_shield_sends_what_the_simulation_sent_until_its_policy_is_late_and_once_it_is_back(
    task, sway, monkeypatch
):
    """Whole flights: each robot's shield, one state after another in NumPy, is given what the batch in torch was."""
    flight = []

    def recorded(params, spec, context, target):
        sent, info = filter_request(params, spec, context, target)
        flight.append((context, target, sent))
        return sent, info

    monkeypatch.setattr(agents, "filter_request", recorded)
    monkeypatch.setattr(ArmFallback, "load", lambda *_: None)  # in simulation nothing is known of one
    env = TeamEnv(task, 1, 3, shield=True)
    if task == "stand-h1":
        pilot: Any = BundleRunner(PolicyRuntime.load(ZOO / "stand-h1.onnx"))
    else:
        pilot = make_agent("baseline", 0, env.group.cfg)
    pilot.start(env.group)
    (group,) = env.groups
    for step in range(140):
        action = pilot.act(env.group)[0]
        env.step({group: action + sway(step, action.shape[-1])})
    late = [*range(60, 68), *range(95, 103)]  # of the requests, twice eight periods
    held = compared = held_back = 0
    for robot in range(env.group.num_agents):
        shield, same = Shield(env.group.shield, env.group.robot), False
        for step, (context, target, sent) in enumerate(flight):
            state, peers = one_robot(context.state, robot), one_robot(context.peers, robot)
            asked = None if step in late else ActuatorCommand(target[0, robot].numpy())
            command, report = shield.step(step * env.control_dt, Context(state, peers), asked, 0.005)
            known, same = same, np.allclose(command.target, sent[0, robot], rtol=0.0, atol=3e-7)
            held += report.mode is Mode.HOLD
            if step < 40 or asked is None or report.mode not in (Mode.NOMINAL, Mode.FILTERED):
                continue  # its ramp, and its own answers
            # After a target that was another one a joint may move as far from there, and is predicted to.
            if known or task == "swarm-swap":
                np.testing.assert_allclose(command.target, sent[0, robot], rtol=1e-5, atol=1e-6)
                compared += 1
                held_back += report.mode is Mode.FILTERED
        assert report.mode in (Mode.NOMINAL, Mode.FILTERED)
    assert held >= 8 * env.group.num_agents
    assert compared > 0.6 * env.group.num_agents * (len(flight) - 70) and held_back > 10


@pytest.mark.parametrize("task", ["reach-ur5e", "stand-h1"])
def test_a_target_that_moves_too_fast_is_slowed_and_counts_as_corrected_for_that(task):
    env = TeamEnv(task, 2, 3, shield=True)
    group = env.group
    step = torch.from_numpy(target_speed(group.shield, group.robot)) * group.control_dt
    for sign in (1.0, -1.0, 1.0):
        before, asked = group.robots.sent.clone(), group.robots.sent.clone()
        asked[0, 0, 2] += sign * 1.5 * step[2].item()  # of one joint in one world
        env.step({env.task.group_name: torch.zeros(2, 1, group.action_dim)}, {env.task.group_name: asked})
        assert group.held_back()[TARGET_SPEED].tolist() == [[True], [False]]
        assert group.correction[0, 0] >= 0.49 * step[2]
        assert ((group.robots.sent - before).abs() <= step + 1e-6).all()


def test_a_policy_is_shown_what_its_shield_changed_a_period_ago_and_nothing_at_a_start():
    """Of a task whose policy looks at it and remembers it: both see the same, and nothing where there is no shield."""
    scale = SWAP.group.action.scale
    seen = ObservationCfg(
        own={"correction": Term(observations.correction, {"scale": scale})},
        memory={"seen": MemoryTerm(lambda old, p, action: observations.correction(p, scale), initial=(0.0,) * 4)},
    )
    for shield in (True, False):
        env = TeamEnv(SWAP.changed(observation=seen, episode_s=0.5), 3, 0, 2, shield)
        group, shown = env.group, []
        for _ in range(60):
            shown.append(env.obs[SWAP.group_name].policy.clone())
            climb = torch.tensor([1.0, 0.0, 0.0, 0.0]).expand(3, 2, 4)
            asked = decode(group.cfg.action, climb, group.measured[0], group.robot).target
            step = env.step({SWAP.group_name: climb})
            known = (group.robots.sent - asked) / torch.tensor(scale)
            known[step.ended] = 0.0
            torch.testing.assert_close(env.obs[SWAP.group_name].policy, known)
            torch.testing.assert_close(group.memory["seen"][~step.ended], shown[-1][~step.ended])
        assert bool(torch.stack(shown).any()) is shield


def test_a_reward_term_sees_how_far_the_shield_moved_a_command():
    """Where a drone asks to climb through its ceiling it is held back, and only where there is a shield."""
    costly = SWAP.changed(rewards={"correction": RewardTerm(rewards.correction, {"scale": 20.0}, weight=-2.0)})
    for shield in (True, False):
        env = TeamEnv(costly, 3, 0, 2, shield)
        name = costly.group_name
        for _ in range(40):
            before = env.group.shielded.clone()
            step = env.step({name: torch.tensor([1.0, 0.0, 0.0, 0.0]).expand(3, 2, 4)})
            cost = -step.reward_terms[name]["correction"]
            going = ~step.ended
            assert torch.equal(cost[going] > 0, (env.group.shielded > before)[going])
            assert (cost <= 2.0).all()
        assert bool(env.group.shielded.any()) is shield
