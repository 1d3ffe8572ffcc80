"""co-carry: where it begins, that hands hold the load, how it is judged, and that its policy can be exported."""

import dataclasses
from math import cos, pi, sin

import mujoco
import numpy as np
import pytest
import torch
from one_group import make_env
from parity import measure_parity
from places import ZOO
from small_run import train_cfg

from deploy.bundle import load_bundle
from deploy.runtime import PolicyRuntime
from hardware import load_robot
from hardware.rotation import multiply, rotate
from policies.evaluation.policy_runner import BundleRunner
from policies.export.export import export_policy
from policies.training.train import train
from sim.envs.team_env import TeamEnv
from sim.task import Draw
from sim.tasks.co_carry import AHEAD_M, CO_CARRY, ENDS, HANDLE_M, POSE, starts
from sim.terms import carry
from sim.transition import Transition

ROBOT = load_robot("g1")
ARMS = [any(part in name for part in ("shoulder", "elbow", "wrist")) for name in ROBOT.joint_names]
STRAPPED = mujoco.mjtEq.mjEQ_CONNECT
G_M_S2 = 9.81


def easy(task=CO_CARRY):
    """The task with nothing random but the start."""
    return task.changed(randomisation={})


def gaps(t: Transition) -> torch.Tensor:
    """From each palm to its handle, (W, robots, hands) m."""
    load = t.objects[carry.LOAD]
    handles = torch.tensor([[[end * HANDLE_M[0], side * HANDLE_M[1], 0.0] for side in (1.0, -1.0)] for end in ENDS])
    there = load.pos[:, :, None] + rotate(load.quat[:, :, None].expand(-1, 2, 2, -1), handles)
    palms = torch.stack([t.frame(hand)[0] for hand in ("left_hand", "right_hand")], dim=-2)
    return torch.linalg.vector_norm(palms - there, dim=-1)


def placed(env: TeamEnv, world: int) -> tuple[mujoco.MjModel, mujoco.MjData]:
    """MuJoCo with the coordinates of `world`."""
    model, data = env.world.scene.model, mujoco.MjData(env.world.scene.model)
    data.qpos[:] = env.world.physics.now(torch.arange(model.nq))[world].numpy()
    mujoco.mj_forward(model, data)
    return model, data


class Bearers:
    """Who only stands: legs and waist by the policy of the task `stand`, the arms in the pose of this one."""

    def __init__(self, env: TeamEnv):
        self.env, self.runner = env, BundleRunner(PolicyRuntime.load(ZOO / "stand.onnx"))
        self.runner.start(env)

    def step(self):
        _, self.target = self.runner.act(self.env)
        self.target[..., ARMS] = torch.tensor(POSE)[ARMS]
        nothing = torch.zeros_like(self.target)  # what the policy of this task would have done
        return TeamEnv.step(self.env, {"g1": nothing}, {"g1": self.target})


def settled(env: TeamEnv) -> tuple[mujoco.MjModel, mujoco.MjData]:
    """The first world after two seconds, whose robots stand."""
    bearers = Bearers(env)
    for _ in range(100):
        bearers.step()
    model, data = placed(env, world=0)
    velocity = torch.arange(model.nq, model.nq + model.nv)
    data.qvel[:] = env.world.physics.now(velocity)[0].numpy()
    data.ctrl[:] = bearers.target[0].flatten().numpy()
    mujoco.mj_forward(model, data)
    return model, data


def test_an_episode_begins_with_the_handles_in_the_hands_and_nothing_touches_but_the_soles_the_floor():
    env = make_env(CO_CARRY, 16, seed=3)
    t = env.now
    assert gaps(t).max() < 0.01
    for world in range(env.num_envs):
        model, data = placed(env, world)
        assert all(model.geom("floor").id in contact.geom and contact.dist > -0.02 for contact in data.contact)


def test_the_goal_is_at_first_where_the_load_is_and_later_up_to_so_far_ahead():
    def goal_ahead(difficulty: float) -> torch.Tensor:
        drawn = starts(Draw(torch.Generator().manual_seed(0), 256, 2, torch.full((256,), difficulty)))["g1"]
        (pos, quat) = drawn.objects[carry.LOAD]
        offset = drawn.command[carry.LOAD_GOAL] - pos[:, None]
        return rotate(quat * torch.tensor([1.0, -1.0, -1.0, -1.0]), offset[:, 0])[:, 0]

    assert goal_ahead(0.0).abs().max() < 1e-6
    ahead = goal_ahead(1.0)
    assert (ahead > AHEAD_M[0] - 1e-5).all() and (ahead < AHEAD_M[1] + 1e-5).all()
    assert ahead.min() < -0.4 and ahead.max() > 1.4


def test_the_hands_bear_the_weight_of_the_load_and_the_drives_of_the_arms_can():
    model, data = settled(make_env(easy(), 1, seed=0, curriculum=True))
    rows = data.efc_type == mujoco.mjtConstraint.mjCNSTR_EQUALITY
    upward = data.efc_force[rows].reshape(4, 3)[:, 2]
    weight = model.body(carry.LOAD).mass[0] * G_M_S2
    assert np.allclose(-upward.reshape(2, 2).sum(1), weight / 2, rtol=0.1)  # of each robot
    assert (-upward > 0.1 * weight).all()  # of each hand: who balances has a little more in one of them
    effort = np.abs(data.actuator_force.reshape(2, -1)) / [joint.max_effort for joint in ROBOT.joints]
    assert effort[:, ARMS].max() < 0.5


def test_without_the_robot_behind_the_load_drops():
    env = make_env(easy(), 1, seed=0, curriculum=True)
    model, data = settled(env)
    assert data.body(carry.LOAD).xpos[2] > 0.6
    behind = [i for i in range(model.neq) if model.eq_type[i] == STRAPPED][2:]
    data.eq_active[behind] = 0
    for _ in range(100):
        mujoco.mj_step(model, data)
    axis = data.body(carry.LOAD).xmat.reshape(3, 3)[:, 0]
    assert axis[2] > sin(0.3)  # its rear end hangs


@pytest.mark.slow
@torch.inference_mode()
def test_who_only_stands_holds_the_load_level_where_it_is_and_does_not_carry_it_away():
    env, far = make_env(easy(), 6, seed=1, curriculum=True), torch.arange(6) >= 4
    env.command[carry.LOAD_GOAL][far] += torch.tensor([1.0, 0.0, 0.0])
    bearers = Bearers(env)
    for _ in range(round(CO_CARRY.episode_s * 50)):
        before = env.now
        step = bearers.step()
    assert step.ended.all()  # none had ended before
    assert gaps(before).max() < 0.01
    assert carry.load_tilt(before).max() < 0.01
    assert torch.equal(step.success, ~far)


def turned(t: Transition, quat: list[float], up_m: float = 0.0) -> Transition:
    """A transition with the load turned by `quat` and raised."""
    load = t.objects[carry.LOAD]
    other = dataclasses.replace(
        load,
        quat=multiply(load.quat, torch.tensor(quat).expand_as(load.quat)),
        pos=load.pos + torch.tensor([0.0, 0.0, up_m]),
    )
    return dataclasses.replace(t, objects={carry.LOAD: other})


def test_a_fall_a_tilted_and_a_dropped_load_end_the_episode():
    t = make_env(easy(), 2, seed=0, curriculum=True).now
    fallen, dropped = CO_CARRY.group.terminations["fallen"], CO_CARRY.group.terminations["dropped"]
    low = dataclasses.replace(t, state=dataclasses.replace(t.state, base_pos=t.state.base_pos * 0.5))
    assert fallen.func(low, **fallen.params).all()
    for rolled in ([cos(0.25), sin(0.25), 0.0, 0.0], [cos(0.25), 0.0, sin(0.25), 0.0]):
        assert dropped.func(turned(t, rolled), **dropped.params).all()
    assert dropped.func(turned(t, [1.0, 0.0, 0.0, 0.0], up_m=-0.3), **dropped.params).all()
    assert not dropped.func(turned(t, [cos(1.0), 0.0, 0.0, sin(1.0)]), **dropped.params).any()


def test_success_is_a_level_load_at_its_goal_and_at_height():
    t = make_env(easy(), 2, seed=0, curriculum=True).now
    judge = CO_CARRY.group.success
    flat = [1.0, 0.0, 0.0, 0.0]
    assert judge.func(t, **judge.params).all()
    assert not judge.func(turned(t, [cos(0.1), 0.0, sin(0.1), 0.0]), **judge.params).any()
    assert not judge.func(turned(t, flat, up_m=-0.12), **judge.params).any()
    goal = t.command[carry.LOAD_GOAL]
    away = dataclasses.replace(t, command={carry.LOAD_GOAL: goal + torch.tensor([0.15, 0.15, 0.0])})
    assert not judge.func(away, **judge.params).any()
    higher = dataclasses.replace(t, command={carry.LOAD_GOAL: goal + torch.tensor([0.0, 0.0, 0.3])})
    assert judge.func(higher, **judge.params).all()  # arms keep their height


def test_bearers_are_told_to_walk_where_the_goal_lies_from_the_load():
    t = make_env(easy(), 1, seed=0, curriculum=True).now
    yaw = t.objects[carry.LOAD].quat
    for offset, expected in (
        ([1.0, 0.0, 0.0], [0.4, 0.0]),  # far ahead: at full speed
        ([0.0, -0.2, 0.5], [0.0, -0.2]),  # near, to the right: slower; its height does not matter
        ([-0.05, 0.05, 0.0], [0.0, 0.0]),  # there
    ):
        goal = t.command[carry.LOAD_GOAL] + rotate(yaw, torch.tensor(offset).expand(1, 1, 3))
        told = dataclasses.replace(t, command={carry.LOAD_GOAL: goal})
        torch.testing.assert_close(carry.walk(told), torch.tensor(expected).expand(1, 2, 2), atol=1e-5, rtol=0.0)


def test_heading_does_not_matter_to_what_a_robot_sees():
    """The same team seen from another heading; where a robot itself is it does not know anyway."""
    env = make_env(easy(), 4, seed=0)
    for _ in range(10):
        env.step(0.2 * torch.ones(4, 2, 29))
    p = env.policy_input
    turn = torch.tensor([cos(pi / 5), 0.0, 0.0, sin(pi / 5)])

    def about(vec: torch.Tensor) -> torch.Tensor:
        return rotate(turn.expand(*vec.shape[:-1], 4), vec)

    load = p.objects[carry.LOAD]
    other = dataclasses.replace(
        p,
        state=dataclasses.replace(
            p.state,
            base_quat=multiply(turn.expand_as(p.state.base_quat), p.state.base_quat),
            base_pos=p.state.base_pos + 1.0,
        ),
        objects={
            carry.LOAD: dataclasses.replace(
                load, pos=about(load.pos), quat=multiply(turn.expand_as(load.quat), load.quat)
            )
        },
        command={carry.LOAD_GOAL: about(p.command[carry.LOAD_GOAL])},
    )
    for name, term in CO_CARRY.group.observation.own.items():
        expected, got = term.func(p, **term.params), term.func(other, **term.params)
        torch.testing.assert_close(got, expected, atol=1e-4, rtol=1e-3, msg=name)


@pytest.mark.parametrize("robots", [1, 3])
def test_other_teams_than_two_are_refused(robots):
    with pytest.raises(ValueError, match=f"two robots, not {robots}"):
        make_env(CO_CARRY, 1, seed=0, num_agents=robots)
    with pytest.raises(ValueError, match=f"two robots, not {robots}"):
        starts(Draw(torch.Generator(), 1, robots, torch.ones(1)))


@pytest.mark.slow
def test_an_untrained_policy_becomes_a_file_that_knows_the_load_and_not_its_own_place(tmp_path):
    ppo = dict(num_steps=4, epochs=1, minibatch=16, hidden=16)
    train(train_cfg(task="co-carry", out=tmp_path / "run", num_envs=4, total_steps=4 * 4 * 2, **ppo))
    path = export_policy(tmp_path / "run", tmp_path / "policy.onnx")
    contract = load_bundle(path).contract
    assert [command.name for command in contract.commands] == [carry.LOAD_GOAL]
    assert {memory.input for memory in contract.memory} == {"last_action", "gait_phase"}
    inputs = {tensor.name for tensor in contract.inputs}
    assert any(carry.LOAD in name for name in inputs)
    assert not inputs & {"base_pos", "base_lin_vel"} and not any("peer" in name for name in inputs)
    parity = measure_parity(load_bundle(path), tmp_path / "run", 2)
    assert parity["steps"] > 20
    assert parity["max_abs"] < 1e-5
