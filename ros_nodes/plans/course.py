"""Goals that a robot passes one after the other: it is given the next when it is near one and slow."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from deploy.shield import Context, JointShieldParams, ShieldParams
from deploy.shield.obstacles import Body, check_clear
from deploy.shield.types import NO_PEERS
from ros_nodes.messages.scene import Scene

MOST_GOALS = 1000  # of one robot: each message about its course lists those that it has passed
WITHIN_M = 0.3  # of a goal a robot on a course passes it


@dataclass(frozen=True, slots=True)
class Course:
    """Goals in the order in which a robot passes them."""

    goals: np.ndarray  # (G, 3) m, world
    within_m: float = WITHIN_M  # of a goal, and
    below_m_s: float = 1.0  # slower than this: then it is passed


def check_goals(
    goals: Sequence[tuple[float, float, float]], params: ShieldParams | JointShieldParams, scene: Scene
) -> None:
    """ValueError for goals, m, world, at which the shield of a drone does not let it come; `scene` as it sees it."""
    if len(goals) > MOST_GOALS:
        raise ValueError(f"{len(goals)} of them, at most {MOST_GOALS}")
    if not isinstance(params, ShieldParams):
        return
    low, high = params.geofence_low, params.geofence_high
    around = Context(None, NO_PEERS, obstacles=scene.boxes(), obstacle_names=scene.names)
    for number, goal in enumerate(goals):
        if not all(a <= x <= b for a, x, b in zip(low, goal, high, strict=True)):
            raise ValueError(f"[{number}] = {list(goal)}: outside its geofence, {list(low)} to {list(high)} m")
        if near := check_clear(around, Body(np.array([goal]), np.zeros(1)), params.obstacle_m):
            raise ValueError(f"[{number}] = {list(goal)}: {near}")


class CourseProgress:
    """How far a robot has come on its course. Its first goal is not sent by this."""

    def __init__(self, course: Course):
        self.passed_ns = list[int]()  # when each goal was passed, robot time
        self._course = course
        self._flown = self._has_flown = False  # by its policy: now, and before

    def step(self, flown: bool, pos: np.ndarray, speed_m_s: float, now_ns: int) -> np.ndarray | None:
        """The goal (3,) m, world, to send now, where there is one.

        It is the next where one is passed, and the one that is due where the robot was stopped and is `flown` by its
        policy once more: stopped robots forget theirs. `pos` (3,) m, world.
        """
        again = flown and self._has_flown and not self._flown
        self._flown, self._has_flown = flown, self._has_flown or flown
        left = self._course.goals[len(self.passed_ns) :]
        if not flown or not len(left):
            return None
        if np.linalg.norm(pos - left[0]) < self._course.within_m and speed_m_s < self._course.below_m_s:
            self.passed_ns.append(now_ns)
            return left[1] if len(left) > 1 else None
        return left[0] if again else None
