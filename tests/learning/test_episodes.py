"""The learning curve says how well the policy does now, not which episodes happen to end now."""

from types import SimpleNamespace

import torch

from policies.training.episodes import Episodes


def step(ended: list[bool], success: list[bool], length: int) -> SimpleNamespace:
    ended_, success_ = torch.tensor(ended), torch.tensor(success)
    return SimpleNamespace(
        reward={"robot": torch.ones(2, 1)},
        reward_terms={"robot": {"alive": torch.ones(2, 1)}},
        terminations={"robot": {"crash": (ended_ & ~success_)[:, None]}},
        ended=ended_,
        success=success_,
        episode_length=torch.full((2,), length),
    )


def test_a_world_that_fails_often_counts_as_much_as_one_whose_success_takes_long():
    episodes = Episodes({"robot": torch.zeros(2)})
    for t in range(100):  # the first world crashes every 5 steps, the second succeeds after each 50
        if t % 10 == 0:
            episodes.clear()  # a rollout is 10 steps
        episodes.add(step([t % 5 == 4, t % 50 == 49], [False, True], 5))
    for _ in range(10):  # in this rollout only failures end
        episodes.add(step([True, False], [False, False], 5))
    numbers = episodes.summary({"robot": 1}, steps=20)
    assert numbers["success_rate"] == 0.5 and numbers["failure/crash"] == 0.5
    assert numbers["mean_return"] == (1.0 + 50.0) / 2


def test_a_worlds_first_episode_which_is_cut_short_counts_for_nothing():
    episodes = Episodes({"robot": torch.full((2,), torch.nan)})
    episodes.add(step([True, False], [False, False], 50))
    assert "mean_return" not in episodes.summary({"robot": 1}, steps=2)
    for _ in range(3):
        episodes.add(step([False, True], [False, False], 50))
    episodes.add(step([True, False], [True, False], 4))
    numbers = episodes.summary({"robot": 1}, steps=10)
    assert numbers["mean_return"] == (4.0 + 1.0) / 2  # of the other world its third
    assert numbers["success_rate"] == 0.5


def test_before_any_episode_has_ended_nothing_is_said_of_success():
    episodes = Episodes({"robot": torch.zeros(2)})
    episodes.add(step([False, False], [False, False], 1))
    assert "success_rate" not in episodes.summary({"robot": 1}, steps=2)
