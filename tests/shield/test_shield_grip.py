"""What an arm holds it goes on holding, whatever becomes of its policy."""

import numpy as np
import pytest
from shield_stand import Stand

from deploy.shield import Mode
from hardware import load_robot


def test_a_gripper_keeps_its_grasp_while_the_arm_brakes_and_moves_at_its_rated_speed_when_free():
    spec = load_robot("panda")
    finger = spec.channel_names.index("finger")
    stand = Stand(spec).after_ramp()
    closed = stand.home[stand.channel].copy()
    closed[finger] = 0.0
    fastest = 0.0
    for _ in range(100):
        stand.step(request=closed)
        fastest = max(fastest, abs(stand.vel[finger]))
    assert stand.pos[finger] < 0.002 and fastest < 1.3 * stand.params.max_velocity[finger]
    stand.run(0.1, request=None)
    assert stand.modes[-1] is Mode.HOLD and stand.run(1.0, request=None)[0][finger] == 0.0


def grasping() -> tuple[Stand, int]:
    """A Panda that presses its finger onto something 4 cm wide, and the finger's channel."""
    spec = load_robot("panda")
    finger = spec.channel_names.index("finger")
    stand = Stand(spec).after_ramp()
    stand.model.jnt_range[stand.model.joint("finger").id, 0] = 0.02
    closed = stand.home[stand.channel].copy()
    closed[finger] = 0.0
    stand.run(1.5, request=closed)
    assert stand.pos[finger] > 0.018 and stand.data.ctrl[stand.ctrl][finger] < 0.003
    return stand, finger


def test_a_gripper_keeps_its_grasp_however_noisy_its_velocity_is_when_the_shield_trips():
    stand, finger = grasping()
    noisy = stand.state()
    noisy.joint_vel[stand.channel[finger]] = 0.01
    stand.shield.estop()
    sent, report = stand.step(state=noisy)
    assert report.mode is Mode.ESTOP and sent[finger] < 0.003


def test_a_reset_keeps_the_grasp_and_what_carries_a_load_unless_it_was_not_driven_for_a_while():
    stand, finger = grasping()
    stand.shield.estop()
    stand.run(0.5)
    before = stand.data.ctrl[stand.ctrl].copy()
    stand.shield.reset()
    for _ in range(10):
        sent, report = stand.step(request=None)
        assert report.mode is Mode.HOLD and "waiting" in report.reason and sent[finger] < 0.003
        np.testing.assert_allclose(sent, before, atol=2e-3)
    stand.shield.reset()
    stand.now_s += 10.0
    assert stand.step(request=None)[0][finger] == pytest.approx(stand.pos[finger], abs=2e-3)
