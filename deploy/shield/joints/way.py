"""Whether a robot that walks can still come to a stand before what is around it."""

from collections.abc import Callable, Sequence
from math import exp, hypot

import numpy as np

from deploy.shield.drone.attitude import rotated, rotation_matrix
from deploy.shield.joints.params import JointShieldParams
from deploy.shield.obstacles import Body, check_clear, outward
from deploy.shield.types import Context
from hardware.rotation import rotate
from hardware.types import RobotState

# A G1 that its fallback policy takes over at 0.3, 0.6 and 1.0 m/s, pushed on its way too, goes on by up to 0.42, 0.91
# and 1.67 m (251 to 255 each): `python -m benchmarks.humanoid_shield --robots 256 --seconds 4` says `goes_on_m`.
STOP_M, STOP_S = 0.25, 1.5
BODY_M = 0.45  # from the middle of the base to a hand or a foot ahead
WALKS_M_S = 0.12  # what is slower can be the sway of single steps
SMOOTH_S = 0.3  # time constant in which most of that is taken out of the velocity
CREEPS_M_S, CREEP_SMOOTH_S = 0.04, 1.0  # the same where it is near: slower, and a longer time constant
SETS_OUT_M = 0.2  # beyond where it stops from rest: who is nearer does not set out towards it
AHEAD, TOWARDS = np.array([1.0, 0.0, 0.0]), 0.5  # of the base; cosine of the angle within which a way leads towards
HEIGHTS = (0.1, 0.6, 1.1, 1.6)  # of the base at home, where the body is looked at: foot, hand, shoulder, head


class Way:
    """Of one robot; `check` is called once a step."""

    def __init__(self, params: JointShieldParams, home_height_m: float):
        self._params = params
        self._heights = params.ground_z_m + home_height_m * np.array(HEIGHTS)
        self.reset()

    def reset(self) -> None:
        """Forget how fast it walks."""
        self._velocity = [0.0, 0.0]  # m/s, world, smoothed
        self._creep = [0.0, 0.0]  # m/s, world, smoothed more
        self._goes = np.zeros(2)  # where it sets out to, world

    def body(self, state: RobotState) -> Body:
        """Points of the base's vertical; how far the limbs are from it is `BODY_M`."""
        points = np.broadcast_to(state.base_pos, (len(self._heights), 3)).astype(np.float64)
        points[:, 2] = self._heights
        return Body(points, np.zeros(len(points)))

    def check(self, state: RobotState, context: Context, elapsed_s: float, sets_out: int = 0) -> str:
        """Why it has to slow down now, or an empty string: it walks towards something, and has just room to stop.

        `sets_out`: whether it begins to walk, 1 for ahead and -1 for back.
        """
        now = rotated(rotation_matrix(state.base_quat.tolist()), state.base_lin_vel.tolist())[:2]
        self._velocity = _smoothed(self._velocity, now, 1.0 - exp(-elapsed_s / SMOOTH_S))
        self._creep = _smoothed(self._creep, now, 1.0 - exp(-elapsed_s / CREEP_SMOOTH_S))
        slow = hypot(*self._velocity) <= WALKS_M_S and hypot(*self._creep) <= CREEPS_M_S
        if slow and not sets_out:
            return ""
        self._goes = sets_out * rotate(state.base_quat, AHEAD)[:2]
        return self._obstacles(state, context) or self._people(state, context)

    def check_start(self, state: RobotState, context: Context) -> str:
        """Why a robot that stands may not be armed: it would be nearer to something than its limbs reach."""
        if near := check_clear(context, self.body(state), BODY_M):
            return near
        gap = self._from_people(state, context)[0]
        return f"{gap.min():.2f} m from a person, at least {BODY_M:.2f} needed" if (gap < BODY_M).any() else ""

    def _obstacles(self, state: RobotState, context: Context) -> str:
        things = context.obstacles
        if things is None or not things.valid.any():
            return ""
        away, gap = outward(np, self.body(state).points, things)  # (H, B, 3), (H, B)
        comes = things.speed * (STOP_S + STOP_M / WALKS_M_S)  # while the robot stops
        return self._late(context.name_of_obstacle, gap - comes, away[..., :2], things.valid)

    def _people(self, state: RobotState, context: Context) -> str:
        if not context.people.valid.any():
            return ""
        gap, away = self._from_people(state, context)
        return self._late(lambda _: "a person", gap[None], away[None], context.people.valid)

    def _from_people(self, state: RobotState, context: Context) -> tuple[np.ndarray, np.ndarray]:
        """Distances (P,) m of the base from people, infinite for none, and unit vectors (P, 2) that lead from them."""
        people, params = context.people, self._params
        to = state.base_pos[:2] - people.pos[:, :2]
        apart = np.maximum(np.linalg.norm(to, axis=-1), 1e-6)
        size = params.person_radius_m + params.person_error_m + params.person_speed * people.age
        return np.where(people.valid, apart - size, np.inf), to / apart[:, None]

    def _late(self, name_of: Callable[[int], str], gap: np.ndarray, away: np.ndarray, valid: np.ndarray) -> str:
        """The first of the columns whose `gap` (H, B) m is used up; unit vectors `away` (H, B, 2) lead from it."""
        speed, creep = -(away @ self._velocity), -(away @ self._creep)
        room = gap - BODY_M - STOP_M
        late = (room < STOP_S * speed) & (speed > WALKS_M_S) | (room < 0.0) & (creep > CREEPS_M_S)
        late |= (room < SETS_OUT_M) & (away @ self._goes < -TOWARDS)
        late &= valid
        if not late.any():
            return ""
        row, column = np.unravel_index(np.where(late, room, np.inf).argmin(), late.shape)
        how = "where it begins to walk" if self._goes.any() else f"at {speed[row, column]:.2f} m/s"
        return f"{name_of(int(column))} is {gap[row, column]:.2f} m ahead {how}"


def _smoothed(old: Sequence[float], new: Sequence[float], share: float) -> list[float]:
    return [before + share * (now - before) for before, now in zip(old, new, strict=True)]
