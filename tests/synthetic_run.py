"""A made-up but plausible run: four drones swap places on a circle, one loses its policy and lands."""

import numpy as np

from phalanx.report import Event, Flight

MODES = ("NOMINAL", "FILTERED", "HOLD", "LAND", "OFF")
NAMES = ("cf1", "cf2", "cf3", "cf4")


def make_flight(seconds: float = 18.0, hz: float = 50.0, kill_s: float = 11.0) -> Flight:
    """Four drones that bow around the middle; cf3 is killed at `kill_s` and lands three seconds later."""
    rng = np.random.default_rng(0)
    t = np.arange(0.0, seconds, 1.0 / hz)
    angle = np.arange(4) * np.pi / 2 + 0.3
    start = np.stack([1.2 * np.cos(angle), 1.2 * np.sin(angle), 1.0 + 0.15 * np.arange(4)], axis=-1)
    share = 0.5 - 0.5 * np.cos(np.pi * np.clip(t / 6.0, 0.0, 1.0))
    along = start[None] * (1.0 - 2.0 * share[:, None, None]) * np.array([1, 1, 0]) + start[None] * np.array([0, 0, 1])
    side = np.stack([-np.sin(angle), np.cos(angle), np.zeros(4)], axis=-1)
    pos = along + 0.45 * np.sin(np.pi * share)[:, None, None] * side[None] + 0.004 * rng.standard_normal((len(t), 4, 3))
    mode = np.zeros((len(t), 4), int)
    mode[(t > 1.8) & (t < 3.6)] = 1
    mode[t > kill_s, 2] = 2
    mode[t > kill_s + 1.0, 2] = 3
    mode[t > kill_s + 4.0, 2] = 4
    pos[:, 2, 2] *= np.interp(t, [kill_s + 1.0, kill_s + 4.0], [1.0, 0.02])
    push = np.where(mode == 1, np.abs(rng.standard_normal(mode.shape)) * np.sin(np.pi * share)[:, None], 0.0)
    goal = start * np.array([-1, -1, 1])
    events = (
        Event(kill_s, "cf3", "kill", "policy of cf3 killed"),
        Event(kill_s + 0.07, "cf3", "fallback", "shield took over"),
        Event(kill_s + 4.0, "cf3", "landed", "cf3 landed"),
    )
    latency = rng.gamma(8.0, 0.35, 3600)
    period = 60.0 * rng.standard_normal(3600)
    return Flight(NAMES, t, pos, goal, 0.16, 0.077, mode, MODES, push, events, latency, period)
