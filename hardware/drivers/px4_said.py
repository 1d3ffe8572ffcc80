"""What one PX4 says of itself: where it is, its mode, its battery, whether it is armed and flies, and in words."""

import time
from math import nan
from typing import Any

from hardware.drivers.device_clock import DeviceClock
from hardware.drivers.px4_messages import OFFBOARD, known_to_m, mode_name, state_of
from hardware.types import Battery, RobotState

IS_ARMED, IN_FAILSAFE = 128, (5, 6, 8)  # MAV_MODE_FLAG_SAFETY_ARMED; MAV_STATE critical, emergency, termination
SAYS_NOTHING, ON_GROUND = 0, 1  # MAV_LANDED_STATE; the others are in the air
ERROR = 3  # severity of a STATUSTEXT up to which it is one
LIES_S = 0.5  # for so long it says that it is on the ground, without a break, before that is believed
SILENT_S = 3.0  # without a HEARTBEAT, which may come once a second only
AHEAD_S = 0.1  # by which a measurement may be stamped later than it is heard: two clocks are compared
SAID_S = 3.0  # for so long a STATUSTEXT explains what follows it
LONGEST_TEXT = 254  # characters; a STATUSTEXT in pieces is no longer


class Said:
    """The newest of each. Messages come from the link's thread."""

    def __init__(self) -> None:
        self.clock: DeviceClock | None = None  # of the link, once there is one
        self.state: tuple[float, RobotState, float] | None = None  # device's clock s, what, and how well known, m
        self.battery = Battery(nan)
        self.mode, self.is_armed, self.in_failsafe = "", False, False
        self.armed_s = 0.0  # when it was armed, or was heard disarmed last (monotonic, s)
        self.beat_s = 0.0  # when the last HEARTBEAT came (monotonic, s)
        self.heard = 0.0, 0.0  # when ODOMETRY or HEARTBEAT came (monotonic, and of the day; s)
        self.bad_odometry = ""
        self.has_flown = False  # since it was armed
        self._landed = SAYS_NOTHING  # the last that it said, which "undefined" does not take back
        self._ground_s: float | None = None  # since when it has said ON_GROUND and nothing else (monotonic, s)
        self._landed_s = 0.0  # when it spoke of it last (monotonic, s)
        self._text: tuple[float, str] = 0.0, ""  # the last STATUSTEXT that is an error, and when it came

    def wait(self, within_s: float) -> str:
        """For its first estimate and HEARTBEAT; what is missing then, empty for nothing."""
        until_s = time.monotonic() + within_s
        while self.state is None or not self.beat_s:
            if self.bad_odometry or time.monotonic() > until_s:
                return self.bad_odometry or "no ODOMETRY: it has no estimate of its position"
            time.sleep(0.01)
        return ""

    @property
    def obeys(self) -> bool:
        """Whether it is armed and does what set-points say."""
        return self.is_armed and self.mode == OFFBOARD

    @property
    def flies(self) -> bool:
        """Whether it says so; not where it says nothing."""
        return self._landed not in (SAYS_NOTHING, ON_GROUND)

    @property
    def is_on_ground(self) -> bool:
        """Whether it says so; not where it says nothing."""
        return self._landed == ON_GROUND

    @property
    def flies_itself(self) -> bool:
        """Whether PX4's own failsafe flies it, not sticks: MAV_STATE critical may be a warning only.

        A person who chooses an AUTO mode while PX4 warns looks the same.
        """
        return self.in_failsafe and self.mode.startswith("AUTO.")

    def lies(self, now_s: float) -> bool:
        """Whether it is surely on the ground: a single word of it may be wrong."""
        return self._ground_s is not None and now_s > self._ground_s + LIES_S and now_s < self._landed_s + SILENT_S

    def may_lie(self, now_s: float) -> bool:
        """Whether it is surely on the ground, or has never said anything of that."""
        return self._landed == SAYS_NOTHING or self.lies(now_s)

    def is_silent(self, now_s: float) -> bool:
        return now_s > self.beat_s + SILENT_S

    def text(self, now_s: float) -> str:
        """What PX4 said of it, if anything."""
        at_s, text = self._text
        return f": {text}" if text and now_s < at_s + SAID_S else ""

    def hear_odometry(self, message: Any) -> None:
        measured_s, now_s = message.time_usec * 1e-6, time.monotonic()
        ahead_s = self.clock.here(measured_s) - now_s if self.clock is not None and self.clock.is_known else 0.0
        if ahead_s > AHEAD_S:
            self.bad_odometry = f"ODOMETRY is stamped {ahead_s:.1f} s later than PX4's clock says"
            return  # all that come after it would seem to be overtaken
        if self.state is not None and measured_s < self.state[0]:
            return  # overtaken on its way; a PX4 that restarts is a fault, found by its clock
        self.heard = now_s, time.time()
        try:
            self.state = measured_s, state_of(message, 0.0), known_to_m(message)
            self.bad_odometry = ""
        except ValueError as error:
            self.bad_odometry = str(error)

    def hear_beat(self, message: Any) -> None:
        was_armed = self.is_armed
        self.mode, self.is_armed = mode_name(message.custom_mode), bool(message.base_mode & IS_ARMED)
        self.has_flown = self.has_flown and (was_armed or not self.is_armed)
        self.armed_s = self.armed_s if was_armed else time.monotonic()
        self.beat_s, self.heard = time.monotonic(), (time.monotonic(), time.time())
        self.in_failsafe = message.system_status in IN_FAILSAFE

    def hear_battery(self, message: Any) -> None:
        percent, millivolt = message.battery_remaining, message.voltage_battery
        self.battery = Battery(
            percent / 100.0 if percent >= 0 else nan, millivolt * 1e-3 if millivolt < 0xFFFF else nan
        )

    def hear_landed(self, message: Any) -> None:
        said, self._landed_s = message.landed_state, time.monotonic()
        self._landed = self._landed if said == SAYS_NOTHING else said
        self.has_flown = self.has_flown or self.flies
        self._ground_s = (self._ground_s or self._landed_s) if said == ON_GROUND else None

    def hear_text(self, message: Any) -> None:
        if message.severity <= ERROR:
            begins = self._text[1] if message.chunk_seq else ""
            self._text = time.monotonic(), (begins + message.text)[:LONGEST_TEXT]
