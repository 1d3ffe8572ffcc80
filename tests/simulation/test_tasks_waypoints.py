"""The course of an X500: goals one after the other."""

import pytest
import torch
from one_group import make_env, start_of, starts_at

from sim.task import Draw, Start
from sim.tasks.waypoints_x500 import FEWEST, GOALS, NEAR, WAYPOINTS_X500


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)


def test_who_is_near_its_goal_and_slow_is_given_the_next_and_only_the_last_one_is_success():
    first, last = [1.0, -1.0, 1.5], [-1.0, 0.5, 2.0]
    near, fast, far, done = [1.2, -1.0, 1.5], [1.2, -1.0, 1.5], [1.4, -1.0, 1.5], [-1.08, 0.5, 2.0]

    def start(draw: Draw) -> Start:
        course = torch.tensor([first, last]).expand(4, 1, 2, 3)
        return Start(
            pos=torch.tensor([near, fast, far, done]).unsqueeze(1),
            quat=torch.tensor([1.0, 0.0, 0.0, 0.0]).expand(4, 1, 4),
            lin_vel=torch.tensor([0.9, 1.1, 0.0, 0.0]).view(4, 1, 1) * torch.tensor([0.0, 0.0, 1.0]),
            command={"goal_pos": torch.tensor([first, first, first, last]).unsqueeze(1)},
            plan={"course": course, "goal": torch.tensor([0.0, 0.0, 0.0, 1.0]).view(4, 1, 1)},
        )

    env = make_env(starts_at(WAYPOINTS_X500, start), 4, seed=0, randomise=False)
    env.step(torch.zeros(4, 1, 4))
    assert env.plan["goal"].flatten().tolist() == [1.0, 0.0, 0.0, 1.0]
    torch.testing.assert_close(env.command["goal_pos"].squeeze(1), torch.tensor([last, first, first, last]))
    assert env.held.flatten().tolist() == [0, 0, 0, 1]
    step = env.step(torch.zeros(4, 1, 4))[-1]
    assert step["reward_terms"]["passed"].count_nonzero() == 0, "paid for once, not as long as it is near"


def test_a_course_has_three_to_six_goals_in_the_room_each_some_way_off_the_one_before():
    start = start_of(WAYPOINTS_X500, Draw(torch.Generator().manual_seed(0), 400, 1, torch.ones(400)))
    course, left = start.plan["course"], GOALS - start.plan["goal"].flatten()
    assert sorted(set(left.tolist())) == list(range(FEWEST, GOALS + 1))
    low, high = (torch.tensor(corner) for corner in NEAR.goals)
    assert ((course >= low) & (course <= high)).all()
    legs = torch.linalg.vector_norm(course.diff(dim=2), dim=-1)
    assert legs.quantile(0.01) > 0.8 and legs.mean() > 2.0
    torch.testing.assert_close(start.command["goal_pos"][0, 0], course[0, 0, int(start.plan["goal"][0, 0])])
