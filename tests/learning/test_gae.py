"""Advantages against numbers worked out by hand."""

import torch

from policies.algorithms.gae import gae, next_values

GAMMA, LAM = 0.9, 0.5


def column(*values):
    return torch.tensor(values, dtype=torch.float64)[:, None]


def flags(*values):
    return torch.tensor(values)[:, None]


def test_two_steps_by_hand():
    # delta_1 = 2 + 0.9 * 5 - 4 = 2.5; delta_0 = 1 + 0.9 * 4 - 3 = 1.6; A_1 = 2.5; A_0 = 1.6 + 0.9 * 0.5 * 2.5 = 2.725
    no = flags(False, False)
    advantages, returns = gae(column(1, 2), column(3, 4), column(4, 5), no, no, GAMMA, LAM)
    assert torch.allclose(advantages, column(2.725, 2.5))
    assert torch.allclose(returns, column(5.725, 6.5))


def test_termination_has_no_future_and_truncation_has_the_terminal_state():
    values, last = column(3, 4, 7), torch.tensor([8.0], dtype=torch.float64)
    ended = flags(False, True, False)
    terminal = torch.tensor([10.0], dtype=torch.float64)
    following = next_values(values, last, ended, terminal)
    assert torch.equal(following, column(4, 10, 8))  # never 7, the value of the next episode's first state

    # A_2 = 1 + 0.9 * 8 - 7 = 1.2, the same both times
    # truncated: A_1 = 2 + 0.9 * 10 - 4 = 7; A_0 = (1 + 0.9 * 4 - 3) + 0.45 * 7 = 4.75
    advantages, _ = gae(column(1, 2, 1), values, following, flags(False, False, False), ended, GAMMA, LAM)
    assert torch.allclose(advantages, column(4.75, 7, 1.2))
    # terminated: A_1 = 2 - 4 = -2; A_0 = 1.6 + 0.45 * (-2) = 0.7
    advantages, _ = gae(column(1, 2, 1), values, following, ended, ended, GAMMA, LAM)
    assert torch.allclose(advantages, column(0.7, -2, 1.2))


def test_robots_of_a_team_do_not_mix():
    torch.manual_seed(0)
    reward, value, following = torch.randn(3, 6, 4, 2, dtype=torch.float64)
    ended = torch.rand(6, 4, 2) < 0.3
    together, _ = gae(reward, value, following, ended, ended, GAMMA, LAM)
    alone, _ = gae(*(x[:, 2, 1:] for x in (reward, value, following, ended, ended)), GAMMA, LAM)
    assert torch.equal(together[:, 2, 1:], alone)
