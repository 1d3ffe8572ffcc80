"""What links and sensors do to a robot in time: lost messages, delays that change, states that stay or drift."""

import pytest
import torch
from one_group import make_env

from hardware import load_robot
from sim import randomisation
from sim.envs.team_env import TeamEnv
from sim.noise import Noise
from sim.tasks import load_task, task_names
from sim.terms import EventTerm

LOST = load_robot("crazyflie").flight.rate_loop.variation["messages_lost"]

# The policy that ships for the firmware's loop is not shown to succeed under lost messages.
TEAMS = [n for n in task_names() if any(g.observation.peer for g in load_task(n).groups.values())]
TEAMS.remove("swarm-swap-firmware")


def still(env: TeamEnv) -> dict[str, torch.Tensor]:
    return {n: torch.zeros(env.num_envs, g.num_agents, g.action_dim) for n, g in env.groups.items()}


@pytest.mark.parametrize("name", TEAMS)
def test_a_robot_that_looks_at_its_peers_misses_some_of_what_they_say(name):
    """As many as hardware loses: 5 % on average, and in each world a share of its own."""
    env = TeamEnv(name, 64, seed=0)
    (group,) = [group for group in env.groups.values() if group.num_peers]
    for other in env.groups.values():
        other.robots.network_delay[:] = 0  # what is heard is new, or was heard before
        other.due.pop("network_jitter", None)
    missed = []
    for _ in range(10):
        env.step(still(env))
        missed.append((group.measured[1].age > 0.0).float().mean())
    assert 0.02 < torch.stack(missed).mean() < 0.1
    assert group.robots.dropout.unique().numel() == 64 and group.robots.dropout.max() <= LOST[1]


def bare(name: str, **terms: EventTerm) -> TeamEnv:
    """Worlds of a task whose robots vary by these terms alone, without noise."""
    return make_env(load_task(name).changed(randomisation=terms, noise=Noise()), 32, seed=0)


def jitter(name: str, delay: str, range_s: tuple[float, float], constant_s: float, **more: EventTerm) -> TeamEnv:
    """Of one delay a part is constant, and in every control step something is added to it."""
    constant, added = (getattr(randomisation, f"{delay}_{kind}") for kind in ("delay", "jitter"))
    return bare(
        name,
        constant=EventTerm(constant, {"range_s": (constant_s, constant_s)}),
        added=EventTerm(added, {"range_s": range_s}, interval_range_s=(0.0, 0.0)),
        **more,
    )


@pytest.mark.parametrize("name", ["hover", "reach", "stand"])
def test_a_delay_that_changes_never_shows_an_older_state_after_a_newer_one(name):
    """Its range is wider than a control period, so that what is drawn alone would go back."""
    env = jitter(name, "sensor", (0.0, 0.024), 0.008)
    step_s, ages, times = env.group.robots.dt, [], []
    for step in range(40):
        env.step(torch.zeros(32, 1, env.action_dim))
        ages.append(env.measured[0].age.flatten())
        times.append((step + 1) * env.control_dt - ages[-1])
    whole = torch.stack(ages)
    assert whole.min() == pytest.approx(0.008, abs=step_s) and 0.024 < whole.max() <= 0.032 + step_s
    assert (whole.diff(dim=0).abs() > step_s / 2).float().mean() > 0.5
    assert torch.stack(times).diff(dim=0).min() > -1e-6


def test_a_delay_that_is_drawn_again_in_an_episode_never_goes_back_either():
    again = EventTerm(randomisation.sensor_delay, {"range_s": (0.0, 0.036)}, interval_range_s=(0.04, 0.1))
    env, times = bare("reach", again=again), []
    for step in range(40):
        env.step(torch.zeros(32, 1, env.action_dim))
        times.append((step + 1) * env.control_dt - env.measured[0].age)
    assert torch.stack(times).diff(dim=0).min() > -1e-6 and env.measured[0].age.max() > 0.03


def test_the_constant_part_of_a_delay_outlives_an_episode_and_what_was_added_does_not():
    task = load_task("hover")
    added = EventTerm(randomisation.sensor_jitter, {"range_s": (0.01, 0.01)}, interval_range_s=(0.0, 0.0))
    env = make_env(task.changed(randomisation={"added": added}, noise=Noise(), episode_s=0.1), 2, seed=0)
    env.group.robots.sensor_delay[1] = 4
    ages = []
    for _ in range(12):
        env.step(torch.zeros(2, 1, 4))
        ages.append(env.measured[0].age.flatten())
    assert ages[3].tolist() == ages[8].tolist() == pytest.approx([0.01, 0.018])  # in the course of an episode
    assert ages[4].tolist() == ages[9].tolist() == pytest.approx([0.0, 0.008])  # the first of the next one


@pytest.mark.parametrize("name", ["swarm-swap", "reach", "stand"])
def test_commands_act_in_the_order_in_which_they_were_sent_however_their_delay_changes(name):
    env = jitter(name, "actuator", (0.0, 0.016), 0.004)
    robots, acted, late = env.group.robots, [], []
    part = (0.001 * (robots._high - robots._low)).expand_as(robots.sent)
    for step in range(1, 21):  # each command is more than all before
        TeamEnv.step(env, still(env), {robots.robot.name: robots.rest + step * part})
        acted.append(env.world._ctrl[..., robots._ctrl_index].clone())
        late.append((acted[-1] == acted[-1][:, :1]).all(-1).sum(1))
    assert torch.cat(acted[1:], dim=1).diff(dim=1).min() >= 0.0
    assert torch.stack(late).unique().numel() > 2


def test_a_message_that_a_newer_one_overtook_is_left():
    loss = EventTerm(randomisation.dropped_messages, {"share": (0.3, 0.3)})
    env, times = jitter("swarm-swap", "network", (0.0, 0.03), 0.0, loss=loss), []
    for step in range(30):
        env.step(torch.zeros(32, 4, 4))
        ages = env.group.robots.received[..., 6]
        times.append((step + 1) * env.control_dt - ages)
    assert torch.stack(times).diff(dim=0).min() > -1e-5 and ages.unique().numel() > 10


def test_a_state_that_is_lost_stays_as_it_was_and_ages_and_then_the_present_one_is_there():
    env, action = bare("push"), torch.full((32, 1, 8), 0.5)
    env.step(action)
    state, seen = env.measured[0].joint_pos.clone(), env.measured[2]["puck"].pos.clone()
    robots, half = env.group.robots, torch.arange(16)
    randomisation.lost_states(robots, half, env.generator, share=(1.0, 1.0), hold_s=(0.06, 0.06))
    for step in range(4):
        env.step(action)
        now, objects = env.measured[0], env.measured[2]["puck"]
        assert torch.equal(now.joint_pos[16:], env.now.state.joint_pos[16:]) and now.age[16:].max() == 0.0
        if step < 3:
            assert torch.equal(now.joint_pos[:16], state[:16]) and torch.equal(objects.pos[:16], seen[:16])
            assert now.age[:16].flatten().tolist() == pytest.approx([(step + 1) * env.control_dt] * 16)
            assert torch.equal(objects.age, now.age)
        randomisation.lost_states(robots, half, env.generator, share=(0.0, 0.0), hold_s=(0.0, 0.0))
    assert torch.equal(now.joint_pos, env.now.state.joint_pos) and now.age.max() == 0.0


def test_as_many_states_are_lost_as_asked_and_none_as_an_episode_begins():
    share = EventTerm(randomisation.lost_states, {"share": (0.2, 0.2), "hold_s": (0.0, 0.0)}, (0.0, 0.0))
    env, held = bare("hover", lost=share), []
    for _ in range(50):
        env.step(torch.zeros(32, 1, 4))
        held.append((env.measured[0].age > 0.0).float().mean())
    assert torch.stack(held).mean() == pytest.approx(0.2, abs=0.03)
    every = torch.arange(32)
    randomisation.lost_states(env.group.robots, every, env.generator, share=(1.0, 1.0), hold_s=(1.0, 1.0))
    env.reset()
    assert env.measured[0].age.max() == 0.0
    assert torch.equal(env.measured[0].base_pos, env.now.state.base_pos)


def test_a_bias_that_drifts_walks_away_and_begins_again_with_the_episode():
    """Of steps of 1 mm in each of 100 control periods: 10 mm, as far as chance takes it."""
    walk = EventTerm(randomisation.sensor_drift, {"step": Noise(pos_m=0.001)}, interval_range_s=(0.0, 0.0))
    env, spread = bare("hover", walk=walk), []
    for _ in range(100):
        env.step(torch.zeros(32, 1, 4))
        spread.append((env.measured[0].base_pos - env.now.state.base_pos).std().item())
    assert spread[0] == pytest.approx(0.001, rel=0.3) and spread[-1] == pytest.approx(0.01, rel=0.35)
    env.reset()
    assert torch.equal(env.measured[0].base_pos, env.now.state.base_pos)


def test_what_changes_in_time_continues_bitwise_from_a_state_that_was_saved():
    every = (0.0, 0.0)
    terms = {
        "sensor": EventTerm(randomisation.sensor_jitter, {"range_s": (0.0, 0.03)}, every),
        "network": EventTerm(randomisation.network_jitter, {"range_s": (0.0, 0.03)}, every),
        "lost": EventTerm(randomisation.lost_states, {"share": (0.3, 0.3), "hold_s": (0.0, 0.1)}, every),
        "drift": EventTerm(randomisation.sensor_drift, {"step": Noise(pos_m=0.01)}, every),
    }
    env, action = bare("swarm-swap", **terms), torch.full((32, 4, 4), 0.1)
    for _ in range(5):
        env.step(action)
    saved = env.get_state()
    expected = [env.step(action)[0] for _ in range(10)]
    twin = bare("swarm-swap", **terms)
    twin.set_state(saved)
    assert all(torch.equal(twin.step(action)[0], obs) for obs in expected)
