"""Humanoid tasks: where they begin, what they reward, how they end, and that their policies can be exported."""

import dataclasses
from math import cos, sin

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
from sim import randomisation
from sim.envs.action import decode
from sim.envs.team_env import TeamEnv
from sim.tasks.stand import G1, PUSH_EVERY_S, STAND
from sim.tasks.stand_h1 import STAND_H1
from sim.tasks.velocity import FASTEST, SLOWEST, SWING_SHARE, SWITCH_S, VELOCITY
from sim.terms import EventTerm, humanoids
from sim.transition import Transition

TASKS = pytest.mark.parametrize("task", [STAND, STAND_H1, VELOCITY], ids=lambda task: task.name)
STANDS = pytest.mark.parametrize("task", [STAND, STAND_H1], ids=lambda task: task.name)


@torch.inference_mode()
def run(env: TeamEnv, steps: int, action: torch.Tensor | None = None) -> dict:
    """Zero action, or `action`, for `steps`: how each world's first episode ended, nan while it goes on."""
    out = {name: torch.full((env.num_envs,), torch.nan) for name in ("success", "fallen", "length")}
    for _ in range(steps):
        told = torch.zeros(env.num_envs, 1, env.action_dim) if action is None else action
        _, _, _, _, info = env.step(told)
        new = info["ended"] & out["length"].isnan()
        out["success"][new] = info["success"][new].float()
        out["fallen"][new] = info["terminations"]["fallen"][new].any(-1).float()
        out["length"][new] = info["episode_length"][new].float()
    return out


def calm(task):
    """The task with nothing random but the start."""
    return task.changed(randomisation={})


def changed(t: Transition, **state) -> Transition:
    """A transition with other values in its state."""
    return dataclasses.replace(t, state=dataclasses.replace(t.state, **state))


@TASKS
def test_an_episode_begins_standing(task):
    soles = humanoids.foot_pos(make_env(task, 16, seed=3).now)[..., 2]
    assert (soles.abs() < 0.03).all()


@TASKS
def test_arms_keep_their_pose_and_legs_move_about_home(task):
    env, robot = make_env(task, 1, seed=0), load_robot(task.group.robot)
    target = decode(task.group.action, torch.ones(1, 1, env.action_dim), env.now.state, robot).target[0, 0]
    moved = ((target - torch.tensor(robot.home)).abs() > 1e-6).tolist()
    for name, moves in zip(robot.joint_names, moved, strict=True):
        if any(part in name for part in ("hip", "knee", "ankle")):
            assert moves, name
        if any(part in name for part in ("shoulder", "elbow", "wrist")):
            assert not moves, name


@pytest.mark.slow
@STANDS
def test_a_robot_that_only_holds_its_pose_falls_without_pushes_too_since_its_ankles_are_soft(task):
    pushed = run(make_env(task, 24, seed=1), round(task.episode_s * 50))
    assert pushed["success"].mean() < 0.1
    assert pushed["fallen"].mean() > 0.9
    still = run(make_env(calm(task), 8, seed=1), round(task.episode_s * 50))
    assert still["fallen"].mean() > 0.9


@pytest.mark.slow
def test_pushes_come_as_often_and_as_hard_as_the_task_says():
    term = {"push": EventTerm(randomisation.push, {"speed_m_s": G1.push_m_s}, interval_range_s=PUSH_EVERY_S)}
    env = make_env(STAND.changed(randomisation=term), 16, seed=0)
    stands = BundleRunner(PolicyRuntime.load(ZOO / "stand.onnx"))
    stands.start(env)
    first = torch.full((16,), torch.nan)
    for step in range(1, 160):
        before = env.now.lin_vel_w[:, 0, :2]
        env.step(stands.act(env)[0])
        knock = torch.linalg.vector_norm(
            env.group.robots.truth().base_lin_vel[:, 0] - env.now.state.base_lin_vel[:, 0], dim=-1
        )
        assert before.isfinite().all()
        struck = (knock > 1e-3) & first.isnan() & (env.steps == step)
        assert ((knock[struck] >= 0.3 - 1e-4) & (knock[struck] <= 1.0 + 1e-4)).all()
        first[struck] = step * 0.02
    hit = first[~first.isnan()]
    assert len(hit) >= 12
    assert (hit >= 2.0 - 0.03).all() and (hit <= 3.0 + 0.03).all()


@STANDS
def test_standing_far_from_where_it_began_or_low_is_no_success(task):
    t, success = make_env(task, 4, seed=0).now, task.group.success
    assert success.func(t, **success.params).all()
    away = changed(t, base_pos=t.state.base_pos + torch.tensor([1.2, 0.0, 0.0]))
    low = changed(t, base_pos=t.state.base_pos * torch.tensor([1.0, 1.0, 0.75]))
    assert not success.func(away, **success.params).any() and not success.func(low, **success.params).any()


@TASKS
def test_lying_down_and_tipping_over_end_the_episode(task):
    t = make_env(task, 2, seed=0).now
    failed = task.group.terminations["fallen"]
    low = changed(t, base_pos=t.state.base_pos * torch.tensor([1.0, 1.0, 0.5]))
    assert failed.func(low, **failed.params).all()
    tipped = changed(t, base_quat=torch.tensor([cos(0.5), 0.0, sin(0.5), 0.0]).expand(2, 1, 4))
    assert failed.func(tipped, **failed.params).all()


def test_heading_does_not_matter():
    """The same walk seen from another heading is rewarded alike, and its command is met alike."""
    env = make_env(calm(VELOCITY), 4, seed=0)
    for _ in range(15):
        env.step(0.3 * torch.ones(4, 1, 29))
    t = env.now
    turn = torch.tensor([cos(0.9), 0.0, 0.0, sin(0.9)])

    def turned(state):
        quat = multiply(turn.expand_as(state.base_quat), state.base_quat)
        return dataclasses.replace(state, base_quat=quat, base_pos=rotate(turn.expand_as(quat), state.base_pos))

    other = dataclasses.replace(t, state=turned(t.state), last_state=turned(t.last_state))
    for name, term in VELOCITY.group.rewards.items():
        expected, got = term.func(t, **term.params), term.func(other, **term.params)
        torch.testing.assert_close(got.float(), expected.float(), atol=1e-3, rtol=1e-3, msg=name)


def moving(t: Transition, forward: float, left: float, turn: float) -> Transition:
    """The robot upright at that velocity in its heading frame; state velocities are in the body."""
    quat = torch.tensor([cos(0.4), 0.0, 0.0, sin(0.4)]).expand_as(t.state.base_quat)
    lin = torch.tensor([forward, left, 0.0]).expand_as(t.state.base_lin_vel)
    ang = torch.tensor([0.0, 0.0, turn]).expand_as(t.state.base_ang_vel)
    return changed(t, base_quat=quat, base_lin_vel=lin, base_ang_vel=ang)


def test_walking_as_commanded_is_rewarded_and_counts_as_success_and_sideways_does_not():
    env = make_env(calm(VELOCITY), 2, seed=0)
    command = {"velocity": torch.tensor([0.6, 0.0, 0.2]).expand(2, 1, 3)}
    t = dataclasses.replace(env.now, command=command)
    right, wrong = moving(t, 0.6, 0.0, 0.2), moving(t, 0.0, 0.6, 0.2)
    torch.testing.assert_close(humanoids.velocity_tracking(right, scale_m_s=0.4), torch.ones(2, 1))
    torch.testing.assert_close(humanoids.turn_tracking(right, scale_rad_s=0.5), torch.ones(2, 1))
    assert (humanoids.velocity_tracking(wrong, scale_m_s=0.4) < 0.05).all()
    straight = moving(t, 0.6, 0.0, -0.2)
    for moment, good in ((right, True), (wrong, False), (straight, False)):
        assert (succeeds(moment) == good).all()


def test_turning_too_slowly_for_a_while_costs_at_once_and_swaying_does_not():
    env = make_env(calm(VELOCITY), 2, seed=0)
    t = dataclasses.replace(env.now, command={"velocity": torch.tensor([0.5, 0.0, 0.8]).expand(2, 1, 3)})
    behind, ahead = moving(t, 0.5, 0.0, 0.5), moving(t, 0.5, 0.0, 1.1)
    term = VELOCITY.group.rewards["steady"]

    def cost(now: Transition, mean_error: float) -> torch.Tensor:
        error = torch.tensor([0.0, 0.0, mean_error]).expand(2, 1, 3)
        return term.func(dataclasses.replace(now, means={"velocity_error": error}), **term.params)

    torch.testing.assert_close(cost(behind, -0.3), torch.ones(2, 1), atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(cost(ahead, -0.3), -torch.ones(2, 1), atol=1e-4, rtol=1e-4)
    for sway in (behind, ahead):
        assert (cost(sway, 0.0).abs() < 1e-6).all() and (cost(sway, torch.nan) == 0.0).all()
    assert term.weight < 0.0


def succeeds(t: Transition) -> torch.Tensor:
    """(W, N) bool, of a robot that has moved like this for a while."""
    success, means = VELOCITY.group.success, VELOCITY.group.means.items()
    return success.func(dataclasses.replace(t, means={name: mean.func(t) for name, mean in means}), **success.params)


def test_standing_does_what_few_commands_to_walk_ask_for():
    """Where nothing is commanded it is right; no other robot may succeed by doing nothing."""
    env = make_env(VELOCITY, 512, seed=0)
    command = env.group.plan["second"]
    stands = succeeds(moving(dataclasses.replace(env.now, command={"velocity": command}), 0.0, 0.0, 0.0))
    walks = (command != 0.0).any(-1)
    assert stands[~walks].all() and 0.0 < stands[walks].float().mean() < 0.06


def test_frames_are_kept_only_for_the_moment_that_they_belong_to():
    env = make_env(VELOCITY, 4, seed=0)
    env.steps[1] = env.max_steps - 2
    for step in range(4):
        before = env.now.state
        ended = env.step(torch.rand(4, 1, 29) * 2 - 1)[-1]["ended"]
        t = env.now
        if ended.any():  # nothing was before a start
            assert step == 1 and ended.tolist() == [False, True, False, False] and t.frames
        else:
            assert t.last_frames, "those of the moment before are not worked out again"
            assert t.last_state is before and not torch.equal(t.frame("left_foot")[0], t.last_frame("left_foot")[0])
        fresh = dataclasses.replace(t)  # knows no frames
        for role in ("left_foot", "right_foot"):
            kept, made = (*t.frame(role), *t.last_frame(role)), (*fresh.frame(role), *fresh.last_frame(role))
            for found, wanted in zip(kept, made, strict=True):
                assert torch.equal(found[[0, 2, 3]], wanted[[0, 2, 3]])
                torch.testing.assert_close(found[1], wanted[1], rtol=0.0, atol=1e-6)  # worked out in a batch of one
    assert t.with_command({}).frames is t.frames


def test_the_critic_sees_each_world_at_the_start_that_it_was_put_at():
    env = make_env(VELOCITY, 4, seed=0)
    env.steps[2] = env.max_steps - 1
    *_, info = env.step(torch.rand(4, 1, 29) * 2 - 1)
    assert info["ended"].tolist() == [False, False, True, False]
    truth = torch.cat(
        [term.func(env.now, **term.params) for term in VELOCITY.group.observation.privileged.values()], dim=-1
    )
    torch.testing.assert_close(env.group.obs.privileged, truth)


def test_commands_change_once_and_begin_easy():
    env = make_env(calm(VELOCITY), 64, seed=0)
    low, high = torch.tensor(SLOWEST), torch.tensor(FASTEST)
    for name in ("first", "second"):
        plan = env.group.plan[name]
        assert ((plan >= low) & (plan <= high)).all()
        assert 0 < (plan == 0).all(-1).sum() < 32
    torch.testing.assert_close(env.command["velocity"], env.group.plan["first"])
    assert VELOCITY.group.update_commands is not None
    late = VELOCITY.group.update_commands(env.group.plan, torch.full((64, 1, 1), SWITCH_S))
    torch.testing.assert_close(late["velocity"], env.group.plan["second"])
    easy = make_env(calm(VELOCITY), 64, seed=0, curriculum=True).command["velocity"]
    walks = easy[(easy != 0).any(-1)]
    assert (walks[:, 0] >= 0.3 - 1e-6).all() and (walks[:, 0] <= 0.6 + 1e-6).all()
    assert (walks[:, 1:] == 0).all()


def test_the_clock_runs_while_walking_and_rests_while_standing():
    env = make_env(calm(VELOCITY), 2, seed=0)
    env.command["velocity"] = torch.tensor([[[0.5, 0.0, 0.0]], [[0.0, 0.0, 0.0]]])
    env.group.plan["first"] = env.command["velocity"]
    for _ in range(9):
        env.step(torch.zeros(2, 1, 29))
    phase = env.memory["gait_phase"][:, 0, 0]
    torch.testing.assert_close(phase, torch.tensor([9 * 0.02 / 0.72, 0.0]))
    swings = humanoids.swing_progress(env.now, SWING_SHARE)[:, 0]
    assert 0.0 < swings[0, 0] < 1.0 and swings[0, 1] == -1.0  # the left foot first
    assert (swings[1] == -1.0).all()
    clock = humanoids.gait_clock(env.policy_input)[:, 0]
    torch.testing.assert_close(torch.linalg.vector_norm(clock, dim=-1), torch.tensor([1.0, 0.0]))


@pytest.mark.slow
def test_an_untrained_policy_becomes_a_file_that_does_the_same(tmp_path):
    ppo = dict(num_steps=4, epochs=1, minibatch=16, hidden=16)
    train(train_cfg(task="velocity", out=tmp_path / "run", num_envs=4, total_steps=4 * 4, **ppo))
    path = export_policy(tmp_path / "run", tmp_path / "policy.onnx")
    contract = load_bundle(path).contract
    assert [command.name for command in contract.commands] == ["velocity"]
    assert {memory.input for memory in contract.memory} == {"last_action", "gait_phase"}
    assert "base_pos" not in {tensor.name for tensor in contract.inputs}
    assert "base_lin_vel" not in {tensor.name for tensor in contract.inputs}
    parity = measure_parity(load_bundle(path), tmp_path / "run", 2)
    assert parity["steps"] > 20
    assert parity["max_abs"] < 1e-5
