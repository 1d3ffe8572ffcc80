"""What hands on a joystick ask for: a velocity while the enabling button is held, and services of the shield."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

SILENCE_S = 0.5  # without a message of the joystick its enabling button counts as released
ALWAYS = ("estop", "land")  # asked for by one press; all others only while the enabling button is held


@dataclass(frozen=True, slots=True)
class Hands:
    """What is asked for now."""

    velocity: np.ndarray | None  # (4,) forward, left, up m/s and turn rad/s; None while the enabling button is released
    asks: tuple[str, ...]  # services whose button was pressed since the last message


class Joystick:
    """Reads `sensor_msgs/Joy`: axes and buttons by number."""

    def __init__(self, axes: Sequence[int], scale: Sequence[float], buttons: Mapping[str, int]):
        """`axes` (4,) of forward, left, up, turn and their `scale`; -1 for none. `buttons`: enable and services."""
        self._axes, self._scale = list(axes), np.array(scale)
        self._buttons = {name: number for name, number in buttons.items() if number >= 0}
        self._held: set[str] | None = None  # None before the first message: a button held then was not pressed

    def read(self, axes: Sequence[float], buttons: Sequence[int]) -> Hands:
        """What a message asks for; an axis or a button that the joystick lacks, and what is no number, counts as 0."""
        held = {name for name, number in self._buttons.items() if number < len(buttons) and buttons[number]}
        pressed = held - (held if self._held is None else self._held)
        self._held = held
        free = "enable" in held
        asks = tuple(
            name for name in self._buttons if name in pressed and (name in ALWAYS or free) and name != "enable"
        )
        if not free:
            return Hands(None, asks)
        raw = [axes[number] if 0 <= number < len(axes) else 0.0 for number in self._axes]
        return Hands(np.clip(np.nan_to_num(raw, posinf=0.0, neginf=0.0), -1.0, 1.0) * self._scale, asks)
