"""Terms and rotations against slow references."""

import dataclasses

import numpy as np
import pytest
import torch
from scipy.spatial.transform import Rotation

from hardware import load_robot
from hardware.rotation import multiply, rotate, rotate_inverse
from hardware.types import Peers, RobotState
from sim.envs.action import decode
from sim.envs.observation import initial_memory, observe, update_memory
from sim.task import ActionCfg, PolicyInput
from sim.tasks import load_task
from sim.terms import observations, rewards
from sim.transition import Transition
from sim.vectors import dot, length, pairwise

CRAZYFLIE = load_robot("crazyflie")


def random_quat(count: int, seed: int = 0) -> np.ndarray:
    quat = np.random.default_rng(seed).standard_normal((count, 4))
    return quat / np.linalg.norm(quat, axis=1, keepdims=True)


@pytest.mark.parametrize("array", [np.asarray, torch.from_numpy])
def test_rotations_agree_with_scipy(array):
    left, right = random_quat(50), random_quat(50, seed=1)
    vec = np.random.default_rng(2).standard_normal((50, 3))
    reference, second = Rotation.from_quat(left, scalar_first=True), Rotation.from_quat(right, scalar_first=True)
    np.testing.assert_allclose(rotate(array(left), array(vec)), reference.apply(vec), atol=1e-12)
    np.testing.assert_allclose(rotate_inverse(array(left), array(vec)), reference.inv().apply(vec), atol=1e-12)
    product = np.asarray(multiply(array(left), array(right)))
    np.testing.assert_allclose(
        Rotation.from_quat(product, scalar_first=True).as_matrix(), (reference * second).as_matrix(), atol=1e-12
    )


def state_at(quat: torch.Tensor, **fields) -> RobotState:
    zeros = torch.zeros(*quat.shape[:-1], 3, dtype=quat.dtype)
    none = zeros[..., :0]
    return dataclasses.replace(RobotState(none, none, zeros, quat, zeros, zeros, zeros[..., 0]), **fields)


def policy_input(state: RobotState, peers: Peers | None = None, command=None, memory=None) -> PolicyInput:
    return PolicyInput(state, peers, {}, command or {}, memory or {}, torch.zeros(*state.base_quat.shape[:-1], 4))


def test_projected_gravity_is_down_in_the_body():
    quat = torch.from_numpy(random_quat(20))
    down = torch.tensor([0.0, 0.0, -1.0], dtype=quat.dtype).expand(20, 3)
    got = observations.projected_gravity(policy_input(state_at(quat)))
    torch.testing.assert_close(got, rotate_inverse(quat, down))


def test_peers_are_seen_from_the_body_of_who_sees_them():
    quat = torch.from_numpy(random_quat(6)).reshape(2, 3, 4)
    pos, vel, own_pos, own_vel = torch.randn(4, 2, 3, 5, 3, dtype=quat.dtype, generator=torch.manual_seed(0))
    own_pos, own_vel = own_pos[..., 0, :], own_vel[..., 0, :]
    state = state_at(quat, base_pos=own_pos, base_lin_vel=own_vel)
    peers = Peers(pos, vel, torch.zeros(2, 3, 5, dtype=quat.dtype), torch.ones(2, 3, 5).bool())
    for peer in range(5):
        expected = rotate_inverse(quat, pos[..., peer, :] - own_pos)
        torch.testing.assert_close(observations.peer_pos(policy_input(state, peers))[..., peer, :], expected)
        expected = rotate_inverse(quat, vel[..., peer, :]) - own_vel
        torch.testing.assert_close(observations.peer_vel(policy_input(state, peers))[..., peer, :], expected)


def test_an_old_message_is_carried_on_by_its_velocity():
    quat = torch.tensor([[1.0, 0, 0, 0]])
    peers = Peers(
        torch.tensor([[[1.0, 0, 1]]]), torch.tensor([[[2.0, 0, 0]]]), torch.tensor([[0.1]]), torch.ones(1, 1).bool()
    )
    assert observations.peer_pos(policy_input(state_at(quat), peers))[0, 0].tolist() == pytest.approx([1.2, 0, 1])


def test_a_peer_that_is_not_heard_leaves_no_trace_in_the_observation():
    task = load_task("swarm-swap")
    quat = torch.from_numpy(random_quat(1)).float()
    memory = initial_memory(task.group.observation, (1,))
    command = {"goal_pos": torch.ones(1, 3)}

    def seen(junk: float) -> torch.Tensor:
        peers = Peers(
            torch.full((1, 2, 3), junk), torch.full((1, 2, 3), junk), torch.zeros(1, 2), torch.zeros(1, 2).bool()
        )
        return observe(task.group.observation, policy_input(state_at(quat), peers, command, memory)).flat()

    assert torch.equal(seen(0.0), seen(7.0))


def test_actions_outside_the_box_act_and_are_remembered_as_its_border():
    task = load_task("swarm-swap")
    cfg = ActionCfg(centre=(0.25, 0.0, 0.0, 0.0), scale=(0.125, 2.0, 2.0, 1e3))
    still = state_at(torch.tensor([[1.0, 0, 0, 0]]))
    target = decode(cfg, torch.tensor([9.0, -9.0, 0.5, 9.0]), still, CRAZYFLIE).target
    assert target.tolist() == [0.375, -2.0, 1.0, CRAZYFLIE.command_high[3]]  # no channel is asked for more than it can
    memory = update_memory(
        task.group.observation,
        policy_input(still, None, {"goal_pos": torch.zeros(1, 3)}, initial_memory(task.group.observation, (1,))),
        torch.full((1, 4), 5.0),
    )
    assert memory["last_action"].tolist() == [[1.0] * 4]


def transition(offset_x: float, closing: float) -> Transition:
    """Two robots on the x axis, `offset_x` apart, the second flying at the first with `closing` m/s."""
    quat = torch.tensor([[[1.0, 0, 0, 0]] * 2])
    pos = torch.tensor([[[0.0, 0, 1], [offset_x, 0, 1]]])
    vel = torch.tensor([[[0.0, 0, 0], [-closing, 0, 0]]])
    state, still = state_at(quat, base_pos=pos, base_lin_vel=vel), torch.zeros(1, 2, 4)
    return Transition(
        "crazyflie", state, state, {}, {"goal_pos": pos}, still, still, still, {}, torch.zeros(1), dt_s=0.02
    )


def test_crowding_and_closing_in_by_hand():
    ellipsoid = {"separation_m": 0.4, "downwash_ratio": 2.0}
    assert rewards.crowding(transition(0.3, 0.0), **ellipsoid)[0].tolist() == pytest.approx([0.25, 0.25])
    assert rewards.crowding(transition(0.5, 0.0), **ellipsoid)[0].tolist() == [0.0, 0.0]
    # sqrt(2 * 2 * (0.9 - 0.4)) = 1.414 m/s could still be braked away
    excess = rewards.closing_in(transition(0.9, 2.0), **ellipsoid, brake_m_s2=2.0)[0].tolist()
    assert excess == pytest.approx([2.0 - np.sqrt(2.0)] * 2, abs=1e-5)
    assert rewards.closing_in(transition(0.9, 1.4), **ellipsoid, brake_m_s2=2.0)[0].tolist() == [0.0, 0.0]


def test_vectors_between_pairs_lead_from_the_first_to_the_second():
    pos = torch.tensor([[[0.0, 0.0, 1.0], [3.0, 0.0, 5.0]]])
    between = pairwise(pos)
    assert between[0, 0, 1].tolist() == [3.0, 0.0, 4.0] and between[0, 1, 0].tolist() == [-3.0, 0.0, -4.0]
    assert length(between)[0].tolist() == [[0.0, 5.0], [5.0, 0.0]]
    assert dot(between, between[:, :1, 1:])[0].tolist() == [[0.0, 25.0], [-25.0, 0.0]]
