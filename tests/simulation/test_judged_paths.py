"""Success that is judged along the way: means over a window, in the environment as over a recorded flight."""

from dataclasses import replace

import torch
from one_group import make_env

from sim.tasks import load_task
from sim.terms import MeanTerm, flight
from sim.transition import windowed_mean


def test_a_mean_is_over_its_window_alone_and_restarts_with_the_world():
    window = MeanTerm(flight.goal_gap, window_s=0.06)  # three control steps
    env = make_env(load_task("swarm-swap").changed(means={"gap": window}, episode_s=0.2), 2, 1, randomise=False)
    gaps, means = [], []
    for _ in range(10):
        env.step(torch.zeros(2, 4, 4))
        if env.steps[0] > 0:  # at an end, `now` is of the next episode
            gaps.append(flight.goal_gap(env.now))
            means.append(env.now.means["gap"])
    expected = windowed_mean(torch.stack(gaps), 3)
    assert len(gaps) == 9 and torch.stack(means)[:2].isnan().all()
    torch.testing.assert_close(torch.stack(means)[2:], expected[2:], atol=1e-5, rtol=1e-5)
    env.step(torch.zeros(2, 4, 4))
    assert env.now.means["gap"].isnan().all()


def test_who_arrives_late_has_not_followed():
    for task, name, ahead in (("swarm-track", "goal_gap", "goal_pos"), ("payload-lift", "load_gap", flight.LOAD_GOAL)):
        env = make_env(task, 2, 0, randomise=False)
        success, now = env.task.group.success, env.now
        there = now.state.base_pos if task == "swarm-track" else now.objects[flight.LOAD].pos.expand(-1, 3, -1)
        at_goal = replace(now, command={ahead: there})
        for mean_m, good in ((0.1, True), (0.5, False), (torch.nan, False)):
            at_goal.means = {name: torch.full((*there.shape[:2], 1), mean_m)}
            assert (success.func(at_goal, **success.params) == good).all(), (task, mean_m)
