"""Arming a team: what counts as a policy that flies its robot."""

import time

import pytest

pytest.importorskip("rclpy")
from ros_nodes.messages.diagnostics import ShieldMode
from ros_nodes.mission.arming import STEADY_S, arm


class Asked:
    """Two robots whose shields say that their policies fly them."""

    def __init__(self):
        self.team, self.refusals = ["cf1", "cf2"], {}
        self.shields = [ShieldMode("NOMINAL", state="POLICY")] * 2

    def update(self) -> None:
        """Nothing changes."""

    def spin_once(self, timeout_sec: float) -> None:
        time.sleep(timeout_sec)


def test_a_time_in_which_nobody_looked_is_no_steady_flight():
    """As when this process is stopped by SIGSTOP: the robots may have been anywhere."""
    asked, stopped_until_s = Asked(), []

    def watch() -> None:
        if not stopped_until_s:
            time.sleep(1.5 * STEADY_S)
            stopped_until_s.append(time.monotonic())

    arm(asked, asked, watch)
    assert time.monotonic() - stopped_until_s[0] > 0.95 * STEADY_S
