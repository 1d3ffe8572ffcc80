"""What a simulated robot does by itself when commands stop coming, as the firmware of its class does."""

from collections.abc import Callable

import numpy as np

from hardware.spec import RobotSpec

LEVEL_GAIN = 4.0  # 1/s, body rate per radian of tilt while levelling
LEVEL_AFTER_S = 0.5  # Crazyflie firmware: without a command for this long it levels ...
OFF_AFTER_S = 2.0  # ... and for this long its motors stop
RAMP_S = 0.3  # in which they stop
DAMP_AFTER_S = 0.5  # a humanoid's drives give up their target after this long, and only brake

# (target (U,), silence s, base_quat (4,) wxyz, joint_pos (J,)) -> set-points (U,) of the drives
CommandWatchdog = Callable[[np.ndarray, float, np.ndarray, np.ndarray], np.ndarray]


def make_command_watchdog(spec: RobotSpec) -> CommandWatchdog:
    """The watchdog of the robot's class: drones level and then stop, humanoids damp, all others hold their target."""
    return {"hover-land": _level_and_stop, "damp": _damp}.get(spec.fallback, _hold)(spec)


def _level_and_stop(spec: RobotSpec) -> CommandWatchdog:
    thrust, roll, pitch = map(spec.channel_names.index, ("thrust", "roll_rate", "pitch_rate"))

    def act(target: np.ndarray, silence_s: float, base_quat: np.ndarray, joint_pos: np.ndarray) -> np.ndarray:
        if silence_s < LEVEL_AFTER_S:
            return target
        level = np.zeros_like(target)
        level[thrust] = target[thrust] * np.clip(1.0 - (silence_s - OFF_AFTER_S) / RAMP_S, 0.0, 1.0)
        if silence_s < OFF_AFTER_S + RAMP_S:
            w, x, y, z = base_quat
            up_b = 2 * (x * z - w * y), 2 * (y * z + w * x)  # horizontal part of the world's up in the body
            level[roll], level[pitch] = -LEVEL_GAIN * up_b[1], LEVEL_GAIN * up_b[0]
        return level

    return act


def _hold(spec: RobotSpec) -> CommandWatchdog:
    return lambda target, silence_s, base_quat, joint_pos: target


def _damp(spec: RobotSpec) -> CommandWatchdog:
    joints = np.array(spec.joint_of_channel)

    def act(target: np.ndarray, silence_s: float, base_quat: np.ndarray, joint_pos: np.ndarray) -> np.ndarray:
        # A servo whose target is where it is has no stiffness: what is left is its damping.
        return target if silence_s < DAMP_AFTER_S else joint_pos[joints]

    return act
