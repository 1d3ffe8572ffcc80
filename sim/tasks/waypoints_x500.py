"""waypoints-x500: an X500 passes three to six points one after the other, slowly, and stays at the last.

Its policy sees one goal at a time, as in ROS: who sends goals sends the next when it has passed one.
"""

from dataclasses import replace

import torch

from deploy.shield.drone.params import make_flight_params
from sim.task import CourseCfg, Draw, Start
from sim.tasks.hover_x500 import HOVER, HOVER_X500, ROBOT
from sim.terms import RewardTerm, Term, courses, terminations

GOALS, FEWEST = 6, 3
TRIED = 3  # points for each goal, of which the farthest from the one before is taken
FENCE = make_flight_params(ROBOT)  # a policy file may not widen it
SPACE = {"low_m": FENCE.geofence_low, "high_m": FENCE.geofence_high}
PASS = CourseCfg(within_m=0.3, below_m_s=1.0)
NEAR = replace(
    HOVER,
    goals=((-2.0, -2.0, 1.2), (2.0, 2.0, 2.4)),
    starts=((-2.2, -2.2, 1.0), (2.2, 2.2, 2.6)),
    goal_pos=replace(HOVER.goal_pos, low=(-2.5, -2.5, 0.8), high=(2.5, 2.5, 2.6), meaning="the point to pass next"),
)


def starts(draw: Draw) -> dict[str, Start]:
    """As of hover, anywhere in the room; each goal is some way off the one before."""
    start = NEAR.draw(draw)[ROBOT.name]
    goal, course = start.command["goal_pos"], []
    low, high = (torch.tensor(corner).unsqueeze(-1) for corner in NEAR.goals)
    for _ in range(GOALS):
        tried = low + (high - low) * draw.uniform(0.0, 1.0, draw.robots, 3, TRIED)
        farthest = torch.linalg.vector_norm(tried - goal.unsqueeze(-1), dim=-2).argmax(-1)
        goal = tried.gather(-1, farthest[..., None, None].expand(-1, -1, 3, 1)).squeeze(-1)
        course.append(goal)
    # Who has fewer goals begins in the middle of a course.
    first = draw.uniform(0.0, GOALS - FEWEST + 1.0, draw.robots, 1).floor().clamp(max=GOALS - FEWEST)
    start.plan = {"course": torch.stack(course, dim=-2), "goal": first}
    start.command = {"goal_pos": courses.goal_of(start.plan)}
    return {ROBOT.name: start}


GROUP = HOVER_X500.group
# As much in a course as in the five seconds of hover. An X500 hovers for 18 minutes with its battery: 0.5 % in every
# second would take 8 % in a course, and rotors of 80 % of their thrust below what the action can ask for.
SAG = replace(GROUP.randomisation["battery_sag"], params={"share": (0.0, 0.0015)})
# Its shield lets 1.3 times hover thrust through: of rotors that give 80 % of theirs that is just the weight, and who
# leans for a goal sinks to the floor.
THRUST = replace(GROUP.randomisation["thrust"], params={"scale": (0.85, 1.05)})
WAYPOINTS_X500 = HOVER_X500.changed(
    name="waypoints-x500",
    summary="an X500 passes three to six points in order, slowly, and stays at the last",
    starts=starts,
    episode_s=16.0,
    commands={"goal_pos": NEAR.goal_pos},
    course=PASS,
    rewards={
        **GROUP.rewards,
        # What it gives up by leaving a goal: the reward for being there, until it is at the next one.
        "passed": RewardTerm(courses.passed, {"within_m": PASS.within_m, "below_m_s": PASS.below_m_s}, weight=30.0),
        "outside": RewardTerm(terminations.outside, SPACE, weight=-10.0),
    },
    terminations={"outside": Term(terminations.outside, SPACE)},
    randomisation={**GROUP.randomisation, "battery_sag": SAG, "thrust": THRUST},
    success=Term(courses.finished, {"distance_m": HOVER.success_m}),
    shield={},
)
