"""The tasks of arms: their starts, what their actions move, and what counts as success."""

from dataclasses import replace
from math import pi

import onnxruntime as ort
import pytest
import torch
from one_group import make_env, start_of

from hardware import load_robot
from hardware.rotation import multiply, rotate
from policies.evaluation.policy_runner import graph_inputs
from policies.export.export import make_contract
from policies.export.graph import GraphController, to_onnx
from policies.networks.controller import Controller
from policies.networks.normaliser import dims_of
from policies.networks.policy import GaussianPolicy
from sim.envs.action import decode, encode
from sim.envs.team_env import TeamEnv
from sim.task import Draw
from sim.tasks import load_task
from sim.terms import arms, bars, objects

TASKS = ("bimanual-lift", "pick-place", "push", "reach")
PANDA = load_robot("panda")


def still(env: TeamEnv) -> torch.Tensor:
    return torch.zeros(env.num_envs, env.num_agents, env.action_dim)


def random_action(env: TeamEnv, generator: torch.Generator) -> torch.Tensor:
    return torch.randn(still(env).shape, generator=generator)


@torch.inference_mode()
def episode(env: TeamEnv, act) -> dict[str, torch.Tensor]:
    """Outcome of the first episode of every world: success (W,) and whether it failed (W,)."""
    done = torch.zeros(env.num_envs, dtype=torch.bool)
    success, failed = done.clone(), done.clone()
    for _ in range(env.max_steps):
        _, _, terminated, _, info = env.step(act(env))
        first = info["ended"] & ~done
        success[first], failed[first] = info["success"][first], terminated[first].any(-1)
        done |= first
    assert done.all()
    return {"success": success, "failed": failed}


@pytest.mark.parametrize("name", TASKS)
def test_starts_are_at_rest_and_no_success(name):
    env = make_env(name, 64, seed=3)
    assert not env.task.group.success.func(env.now, **env.task.group.success.params).any()
    env.step(still(env))
    assert env.now.state.joint_vel.abs().max() < 1.0, "arms start at rest, touching nothing"
    for thing in env.now.objects.values():
        assert thing.lin_vel.abs().max() < 0.05, "things start at rest"


@pytest.mark.slow
@pytest.mark.parametrize("name", TASKS)
def test_doing_nothing_is_no_success(name):
    assert not episode(make_env(name, 16, seed=4), still)["success"].any()


def test_pick_place_sees_and_moves_by_no_term_that_push_has_not():
    """So that one graph, which takes many seconds to export, shows for both that their terms can be exported."""
    placed, pushed = (load_task(name).group for name in ("pick-place", "push"))
    assert terms_of(placed) <= terms_of(pushed)


def terms_of(group) -> set:
    """The functions of what a policy sees, remembers and moves by."""
    seen, action = group.observation, group.action
    return {term.func for term in (*seen.own.values(), *seen.memory.values(), action.transform, action.bias)}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bimanual-lift", "push", "reach"])
def test_an_untrained_policy_becomes_a_graph_that_agrees_with_it(name):
    env = make_env(name, 4, seed=6)
    torch.manual_seed(0)
    obs = env.group.obs
    actor = GaussianPolicy(dims_of(obs), env.action_dim)
    torch.nn.init.normal_(actor.head.weight)
    controller = Controller(env.task.group, actor).eval()
    run = {
        "num_agents": env.num_agents,
        "seed": 0,
        "task_data": None,
        "engines": ["mujoco"],
        "git": None,
        "versions": {},
    }
    content = {"run": run, "progress": {"agent_steps": 1}, "saved_at_utc": ""}
    graph = GraphController(controller, env.task.scene.objects)
    session = ort.InferenceSession(to_onnx(graph))
    given = graph_inputs(make_contract(graph, content, env.task), env)
    given |= {k: v.flatten(0, 1).numpy() for k, v in controller.initial_memory(4, env.num_agents).items()}
    with torch.no_grad():
        target = controller(replace(env.policy_input, memory=controller.initial_memory(4, env.num_agents)))[0].target
    answer = session.run(["target"], given)[0]
    assert torch.allclose(torch.from_numpy(answer), target.flatten(0, 1), atol=1e-5)


@pytest.mark.parametrize("robots", [1, 2])
def test_goals_of_reach_are_ones_that_an_operator_may_ask_for(robots):
    task = load_task("reach")
    command, asked = (
        start_of(task, Draw(torch.Generator().manual_seed(3), 512, robots, torch.ones(512))).command,
        task.group.commands,
    )
    for name, value in command.items():
        assert (value >= torch.tensor(asked[name].low)).all() and (value <= torch.tensor(asked[name].high)).all(), name
    assert robots == 1 or (command["goal_pos"][:, 0, 1] <= command["goal_pos"][:, 1, 1]).all(), "each on its side"


def test_reach_says_for_how_many_arms_it_has_room():
    with pytest.raises(ValueError, match="reach has room for 2 robots, not 3"):
        make_env("reach", 2, seed=0, num_agents=3)


def test_an_action_moves_the_tool_as_fast_as_it_says():
    env = make_env("reach", 8, seed=7, randomise=False)
    action = still(env)
    action[..., 0], action[..., 5] = 0.4, 0.2  # 0.2 m/s along x, 0.3 rad/s about z
    for _ in range(10):
        env.step(action)
    pos, quat = env.now.frame("tool")
    for _ in range(25):
        env.step(action)
    after, turned = env.now.frame("tool")
    off = (after - pos) / 0.5 - torch.tensor([0.2, 0.0, 0.0])
    turn_off = arms.turn_between(quat, turned) / 0.5 - torch.tensor([0.0, 0.0, 0.3])
    assert off.abs().median() < 0.015 and off.abs().max() < 0.06, "slower where the arm is stretched out"
    assert turn_off.abs().median() < 0.02 and turn_off.abs().max() < 0.06


def test_targets_and_actions_are_each_others_inverse():
    env = make_env("reach", 8, seed=8)
    action = torch.rand(still(env).shape, generator=torch.Generator().manual_seed(0)) * 0.6 - 0.3  # inside its limit
    target = decode(env.task.group.action, action, env.policy_input.state, PANDA).target
    back = encode(env.task.group.action, target, env.policy_input.state, PANDA)
    assert torch.allclose(back[..., :7], action[..., :7], atol=1e-4)
    assert (back[..., 7] == 0.0).all(), "the gripper, which this task holds still"


def test_whatever_is_asked_of_a_tool_no_joint_is_asked_for_more_than_its_speed():
    env = make_env("reach", 64, seed=8)
    group, state = env.task.group, env.policy_input.state
    robot, last = load_robot(group.robot), len(arms.drive(group.robot)[1])
    rates = [0.8 * joint.max_velocity * joint.damping / joint.stiffness for joint in robot.joints[:last]]
    most = torch.tensor(rates)  # of a lead, rad
    action = torch.rand(still(env).shape, generator=torch.Generator().manual_seed(0)) * 2 - 1
    free = (
        decode(replace(group.action, limit=None), action, state, robot).target[..., :last] - state.joint_pos[..., :last]
    )
    held = decode(group.action, action, state, robot).target[..., :last] - state.joint_pos[..., :last]
    beyond = (free.abs() > most).any(-1)
    assert beyond.any() and not beyond.all()
    assert (held.abs() <= most + 1e-6).all() and torch.allclose(held[~beyond], free[~beyond], atol=1e-6)
    assert torch.nn.functional.cosine_similarity(held, free, dim=-1).min() > 0.9999, "the same way, but slower"


def test_the_held_tool_keeps_looking_down():
    env = make_env("push", 8, seed=9)
    action = still(env)
    action[..., 1], action[..., 3:] = 0.3, 1.0  # what the task does not drive is without effect
    for _ in range(50):
        env.step(action)
    down = rotate(env.now.frame("tool")[1], torch.tensor([0.0, 0.0, 1.0]))
    assert (down[..., 2] < -0.99).all()


def baseline(env: TeamEnv) -> torch.Tensor:
    term = env.task.group.baseline
    target = term.func(env.policy_input, **term.params)
    return encode(env.task.group.action, target, env.policy_input.state, PANDA)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "least"), [("reach", 0.98), ("push", 0.45), ("pick-place", 0.8), ("bimanual-lift", 0.75)]
)
def test_a_controller_without_training_can_do_it(name, least):
    assert episode(make_env(name, 64, seed=10), baseline)["success"].float().mean() >= least


def test_reach_needs_place_and_attitude():
    env = make_env("reach", 8, seed=11)
    success = env.task.group.success
    pos, quat = env.now.frame("tool")

    def there(by_m: float, by_rad: float) -> torch.Tensor:
        half = torch.tensor(by_rad / 2)
        turn = torch.stack([half.cos(), half.sin(), 0 * half, 0 * half])
        env.now.command = {"goal_pos": pos + torch.tensor([0.0, 0.0, by_m]), "goal_quat": multiply(quat, turn)}
        return success.func(env.now, **success.params)

    assert there(0.009, 0.0).all() and there(0.0, 4.5 * pi / 180).all()
    assert not there(0.011, 0.0).any() and not there(0.0, 5.5 * pi / 180).any()
    assert torch.allclose(arms.tool_angle(env.now), torch.tensor(5.5 * pi / 180), atol=1e-3)


def test_scraping_the_table_ends_reach():
    def down(env: TeamEnv) -> torch.Tensor:
        action = still(env)
        action[..., 2] = -1.0
        return action

    assert episode(make_env("reach", 16, seed=12), down)["failed"].all()


@pytest.mark.slow
def test_one_arm_alone_cannot_lift_the_bar():
    def alone(env: TeamEnv) -> torch.Tensor:
        action = baseline(env)
        action[:, 1] = torch.tensor([0.0, 0.0, 0.5, 0.0, 0.0, 0.0, 0.0, 1.0])  # the other goes away with open fingers
        return action

    env = make_env("bimanual-lift", 16, seed=13)
    lowest = torch.full((16,), torch.inf)

    def watched(env: TeamEnv) -> torch.Tensor:
        nonlocal lowest
        far = bars.ends(env.now.state.base_pos, env.now.objects["bar"], 0.5)[1][:, 0, 2]
        lowest = torch.minimum(lowest, env.command["height"][:, 0, 0] - far)
        return alone(env)

    assert not episode(env, watched)["success"].any()
    assert (lowest > 0.05).all(), "the end that no arm holds stays down"


def test_the_bar_needs_both_ends_at_height():
    env = make_env("bimanual-lift", 4, seed=14, randomise=False)
    term, bar = env.task.group.success, env.now.objects["bar"]

    def there(height_m: float, slope: float) -> torch.Tensor:
        bar.pos = torch.tensor([0.5, 0.0, 0.35 + height_m]).expand(4, 1, 3)
        half = torch.tensor(slope / 2)
        bar.quat = torch.stack([half.cos(), half.sin(), 0 * half, 0 * half]).expand(4, 1, 4)
        env.now.command = {"height": torch.full((4, 2, 1), 0.35)}
        return term.func(env.now, **term.params)

    assert there(0.0, 0.0).all() and there(0.025, 0.0).all() and there(0.0, 0.05).all()
    assert not there(0.04, 0.0).any() and not there(0.0, 0.08).any()


def test_both_arms_see_their_own_end_of_the_bar():
    env = make_env("bimanual-lift", 8, seed=15, randomise=False)
    seen = bars.grip_from_tool(env.policy_input, "panda", "bar", 0.5)
    assert (seen.norm(dim=-1) < 0.2).all(), "from above its grip"
    assert not torch.allclose(seen[:, 0], seen[:, 1])


def test_a_policy_for_two_arms_refuses_three():
    with pytest.raises(ValueError, match="two arms, not 3"):
        make_env("bimanual-lift", 2, seed=0, num_agents=3)


def test_the_puck_off_the_table_is_a_failure():
    env = make_env("push", 4, seed=16)
    term = env.task.group.terminations["outside"]
    assert not term.func(env.now, **term.params).any()
    env.now.objects["puck"].pos = torch.tensor([0.5, 0.5, 0.02]).expand(4, 1, 3)
    assert term.func(env.now, **term.params).all()


def test_the_push_point_is_behind_the_puck():
    point = objects.push_point(torch.tensor([0.5, 0.0, 0.02]), torch.tensor([0.5, 0.2, 0.02]), 0.06, 0.03)
    assert torch.allclose(point, torch.tensor([0.5, -0.06, 0.03]))
