"""The tasks of arms: their starts, what their actions move, and what counts as success."""

from dataclasses import replace
from math import pi

import pytest
import torch

from hardware import load_robot
from hardware.rotation import rotate
from policies.controller import Controller
from policies.graph import GraphController, to_onnx
from policies.networks import Actor
from sim.env import TeamEnv, make_env
from sim.observe import decode, encode
from sim.tasks import load_task
from sim.terms import arms

TASKS = ("push", "reach")
PANDA = load_robot("panda")


@pytest.fixture(autouse=True)
def _one_thread():
    torch.set_num_threads(1)


def still(env: TeamEnv) -> torch.Tensor:
    return torch.zeros(env.num_worlds, env.num_agents, env.action_dim)


def random_action(env: TeamEnv, generator: torch.Generator) -> torch.Tensor:
    return torch.randn(still(env).shape, generator=generator)


def episode(env: TeamEnv, act) -> dict[str, torch.Tensor]:
    """Outcome of the first episode of every world: success (W,) and whether it failed (W,)."""
    done = torch.zeros(env.num_worlds, dtype=torch.bool)
    success, failed = done.clone(), done.clone()
    for _ in range(env.max_steps):
        _, _, terminated, _, info = env.step(act(env))
        first = info["ended"] & ~done
        success[first], failed[first] = info["success"][first], terminated[first].any(-1)
        done |= first
    assert done.all()
    return {"success": success, "failed": failed}


@pytest.mark.parametrize("name", TASKS)
def test_starts_are_within_limits_and_free_of_failure(name):
    env = make_env(name, 64, seed=3)
    low, high = (torch.tensor([getattr(j, side) for j in PANDA.joints]) for side in ("low", "high"))
    assert ((env.now.state.joint_pos >= low) & (env.now.state.joint_pos <= high)).all()
    failures = [t.func(env.now, **t.params) for t in env.task.failures.values()]
    assert not torch.stack(failures).any()
    assert not env.task.success.func(env.now, **env.task.success.params).any()
    env.step(still(env))
    assert env.now.state.joint_vel.abs().max() < 0.5, "arms start at rest, touching nothing"


@pytest.mark.parametrize("name", TASKS)
def test_doing_nothing_is_no_success(name):
    assert not episode(make_env(name, 16, seed=4), still)["success"].any()


@pytest.mark.parametrize("name", TASKS)
def test_random_actions_stay_finite_and_repeatable(name):
    seen = []
    for _ in range(2):
        env, generator = make_env(name, 8, seed=5), torch.Generator().manual_seed(0)
        rewards = []
        for _ in range(env.max_steps):
            obs, reward, *_, info = env.step(random_action(env, generator))
            assert torch.isfinite(obs).all() and torch.isfinite(reward).all()
            assert not info["failures"]["unstable"].any()
            rewards.append(reward)
        seen.append(torch.stack(rewards))
    assert torch.equal(*seen)


@pytest.mark.parametrize("name", TASKS)
def test_an_untrained_policy_becomes_a_graph_that_agrees_with_it(name):
    import onnxruntime as ort

    from policies.export import make_contract

    env = make_env(name, 4, seed=6)
    torch.manual_seed(0)
    actor = Actor(env.obs_layout, env.action_dim)
    torch.nn.init.normal_(actor.head.weight)
    controller = Controller(env.task, actor).eval()
    content = {"num_agents": env.num_agents, "agent_steps": 1, "config": {"seed": 0}, "saved_at_utc": ""}
    contract = make_contract(controller, content)
    data, used = to_onnx(GraphController(controller, contract.inputs, contract.outputs))
    session = ort.InferenceSession(data)
    from policies.pilot import graph_inputs

    given = graph_inputs(replace(contract, inputs=tuple(t for t in contract.inputs if t.name in used)), env)
    given |= {k: v.flatten(0, 1).numpy() for k, v in controller.initial_memory(4, env.num_agents).items()}
    with torch.no_grad():
        target = controller(replace(env.percept, memory=controller.initial_memory(4, env.num_agents)))[0].target
    answer = session.run(["target"], given)[0]
    assert torch.allclose(torch.from_numpy(answer), target.flatten(0, 1), atol=1e-5)


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
    speed = (after - pos) / 0.5
    assert torch.allclose(speed, torch.tensor([0.2, 0.0, 0.0]).expand_as(speed), atol=0.03)
    turn = arms.turn_between(quat, turned) / 0.5
    assert torch.allclose(turn, torch.tensor([0.0, 0.0, 0.3]).expand_as(turn), atol=0.05)


def test_targets_and_actions_are_each_others_inverse():
    env = make_env("reach", 8, seed=8)
    action = torch.rand(still(env).shape, generator=torch.Generator().manual_seed(0)) * 1.6 - 0.8
    joints = PANDA.joint_of_channel
    target = decode(env.task.action, action, env.percept.state, joints).target
    assert torch.allclose(encode(env.task.action, target, env.percept.state, joints), action, atol=2e-3)


def test_the_held_tool_keeps_looking_down():
    env = make_env("push", 8, seed=9)
    action = still(env)
    action[..., 1], action[..., 3:] = 0.3, 1.0  # what the task does not drive is without effect
    for _ in range(50):
        env.step(action)
    down = rotate(env.now.frame("tool")[1], torch.tensor([0.0, 0.0, 1.0]))
    assert (down[..., 2] < -0.99).all()


def test_least_squares_reach_every_goal():
    def act(env: TeamEnv) -> torch.Tensor:
        term = env.task.baseline
        target = term.func(env.percept, **term.params)
        return encode(env.task.action, target, env.percept.state, PANDA.joint_of_channel)

    assert episode(make_env("reach", 64, seed=10), act)["success"].all()


def test_reach_needs_place_and_attitude():
    env = make_env("reach", 8, seed=11)
    success = env.task.success
    pos, quat = env.now.frame("tool")

    def there(by_m: float, by_rad: float) -> torch.Tensor:
        half = torch.tensor(by_rad / 2)
        turn = torch.stack([half.cos(), half.sin(), 0 * half, 0 * half])
        from hardware.rotation import multiply

        env.now.command = {"goal_pos": pos + torch.tensor([0.0, 0.0, by_m]), "goal_quat": multiply(quat, turn)}
        return success.func(env.now, **success.params)

    assert there(0.015, 0.0).all() and there(0.0, 0.15).all()
    assert not there(0.025, 0.0).any() and not there(0.0, 12 * pi / 180).any()
    assert torch.allclose(arms.tool_angle(env.now), torch.tensor(12 * pi / 180), atol=1e-3)


def test_scraping_the_table_ends_reach():
    def down(env: TeamEnv) -> torch.Tensor:
        action = still(env)
        action[..., 2] = -1.0
        return action

    assert episode(make_env("reach", 16, seed=12), down)["failed"].all()
