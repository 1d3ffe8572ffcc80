"""Joint zeros and IMU of a G1 at rest: by numbers, and of an emulated one whose sensors are wrong."""

import re
import subprocess
import sys

import numpy as np
import pytest
from patience import patience
from places import ZOO

from hardware import load_robot
from hardware.rotation import multiply
from hardware.types import RobotState
from phalanx.calibration.posture import check_posture
from phalanx.cli import main

G1 = load_robot("g1")
HOME = np.array(G1.home)
STAND = ZOO / "stand.onnx"
LEVEL = np.zeros(2)


def at_rest(off: dict[str, float] | None = None, turn=(1.0, 0.0, 0.0, 0.0), gyro=(0.0, 0.0, 0.0), hz=500.0, vel=0.0):
    """A second of a G1 in its home pose, whose joints read too much by `off` rad, and whose IMU says `turn` (wxyz)."""
    error = np.array([(off or {}).get(name.removesuffix("_joint"), 0.0) for name in G1.joint_names])
    still = RobotState(
        joint_pos=np.float32(HOME + error),
        joint_vel=np.full(len(HOME), vel, np.float32),
        base_pos=np.zeros(3, np.float32),
        base_quat=np.float32(turn),
        base_lin_vel=np.zeros(3, np.float32),
        base_ang_vel=np.float32(gyro),
        age=np.float32(0.0),
    )
    return [(index / hz, still) for index in range(round(hz))]


def about(axis: int, angle_rad: float) -> np.ndarray:
    return np.array([np.cos(angle_rad / 2), *(np.sin(angle_rad / 2) * np.eye(3)[axis])])


def wrong(pose, measured, imu=LEVEL) -> dict[str, str]:
    return {c.name: c.found for c in check_posture(G1, pose, measured, np.array(imu)) if c.status != "ok"}


@pytest.mark.parametrize("pose", ["hanging", "standing"])
def test_a_sound_one_is_sound_and_what_is_not_at_rest_is_told(pose):
    assert wrong(pose, at_rest()) == {}
    assert list(wrong(pose, at_rest(vel=0.1))) == ["at rest"]
    assert wrong(pose, at_rest(gyro=(0.0, 0.05, 0.0)))["gyro bias"].startswith("+0.0000, +0.0500, +0.0000 rad/s")
    assert wrong(pose, at_rest(hz=300.0))["rate"].startswith("300 Hz of 500")
    assert wrong(pose, at_rest({"waist_pitch": 0.6}))["range"] == "waist_pitch_joint at +0.600 of -0.52 to 0.52 rad"


def test_one_that_falls_silent_is_told():
    found = {check.name: check.found for check in check_posture(G1, "hanging", at_rest(), LEVEL, 2.0)}
    assert found["rate"] == "250 Hz of 500, 1002 ms without one at most"


class Hears:
    """A driver of a G1 that sends for one second, however long it is listened to."""

    def __init__(self, spec) -> None:
        pass

    def listen(self, seconds, on_time=lambda now_s: None):
        return at_rest()


def test_calibrate_counts_the_silence_at_the_end(tmp_path, capsys):
    pytest.importorskip("rclpy")
    file = tmp_path / "team.yaml"
    file.write_text(f"robots: [{{name: g1, bundle: {STAND}, driver: 'test_posture:Hears'}}]\n")
    with pytest.raises(SystemExit):
        main(["calibrate", str(file), "g1", "--seconds", "2"])
    shown = capsys.readouterr()
    assert "250 Hz of 500, 1002 ms without one at most" in shown.out, shown


@pytest.mark.parametrize("degrees", [("nan", "0"), ("0", "inf")])
def test_a_tilt_that_is_no_number_is_refused_in_one_line(degrees, tmp_path, capsys):
    file = tmp_path / "team.yaml"
    file.write_text(f"robots: [{{name: g1, bundle: {STAND}, driver: unitree_g1, options: {{interface: lo}}}}]\n")
    with pytest.raises(SystemExit) as ended:
        main(["calibrate", str(file), "g1", "--pose", "standing", "--imu", *degrees])
    assert ended.value.code == 2
    assert capsys.readouterr().err == f"phalanx: --imu {' '.join(degrees)}: every number must be finite\n"


def test_a_tilted_imu_is_told_by_how_much_in_each_pose():
    tilted = at_rest(turn=multiply(about(0, 0.03), about(1, -0.04)))
    for pose in ("hanging", "standing"):
        roll, pitch = map(float, re.findall(r"[+-][\d.]+", wrong(pose, tilted)["IMU"])[:2])
        assert (roll, pitch) == pytest.approx(np.degrees([0.03, -0.04]), abs=0.02)
    assert wrong("hanging", tilted, (0.03, -0.04)) == {}
    leaning = multiply(about(1, 0.1), np.array([1.0, 0.0, 0.0, 0.0]))  # as the legs say too
    assert wrong("standing", at_rest({"left_hip_pitch": -0.1, "right_hip_pitch": -0.1}, leaning)) == {}


@pytest.mark.parametrize(
    ("joint", "error"),
    [
        ("left_knee", 0.05),
        ("right_knee", 0.05),
        ("right_ankle_roll", -0.06),
        ("left_hip_roll", 0.05),
        ("left_hip_pitch", -0.05),
    ],
)
def test_a_joint_whose_zero_is_off_is_named_with_its_side(joint, error):
    found = wrong("standing", at_rest({joint: error}))
    assert found[f"zero of {joint}_joint"] == f"reads {error:+.3f} rad too much"
    assert len(found) == 2 and any("of soles" in name for name in found)
    side, _, name = joint.partition("_")
    gap = error if side == "left" or "roll" in name else -error
    assert wrong("hanging", at_rest({joint: error})) == {
        f"zero of {name}_joint": f"left reads {gap:+.3f} rad beyond right"
    }


def test_feet_that_stand_apart_are_no_wrong_zero():
    staggered = at_rest({"left_hip_pitch": 0.1, "left_ankle_pitch": -0.1})
    assert set(wrong("standing", staggered)) == {"pose of hip_pitch_joint", "pose of ankle_pitch_joint"}


@pytest.mark.real_time
@pytest.mark.slow
def test_an_emulated_g1_with_a_wrong_zero_and_a_tilted_imu_is_found_out_and_hears_no_command(tmp_path):
    pytest.importorskip("cyclonedds")
    from dds_domains import DOMAINS
    from emulated import Emulated

    domain, file = next(DOMAINS), tmp_path / "team.yaml"
    options = f"{{interface: lo, domain: {domain}}}"
    file.write_text(f"robots: [{{name: g1, bundle: {STAND}, driver: unitree_g1, options: {options}}}]\n")

    def calibrate(*more: str) -> tuple[int, str]:
        command = [sys.executable, "-m", "phalanx", "calibrate", str(file), "g1", "--seconds", "2", *more]
        done = subprocess.run(command, capture_output=True, text=True, timeout=patience(30.0))
        return done.returncode, done.stdout + done.stderr

    with Emulated("unitree_g1", "--domain", str(domain)) as device:
        device.order(noise=0.002)
        code, said = calibrate()
        assert code == 0, said
        device.order(zeros={"3": 0.05}, imu_tilt=[0.03, -0.04], gyro_bias=[0.0, 0.06, 0.0])
        code, said = calibrate()
        assert code == 1 and "zero of knee_joint" in said, said
        roll, pitch = map(float, re.search(r"roll ([+-][\d.]+), pitch ([+-][\d.]+) degrees", said).groups())
        assert (roll, pitch) == pytest.approx(np.degrees([0.03, -0.04]), abs=0.1)
        assert float(re.search(r"gyro bias +\S+ ([+-][\d.]+)", said)[1]) == pytest.approx(0.06, abs=0.002)
        code, said = calibrate("--pose", "standing", "--imu", str(roll), str(pitch))
        found = re.search(r"zero of left_knee_joint +reads ([+-][\d.]+) rad too much", said)
        assert code == 1 and float(found[1]) == pytest.approx(0.05, abs=0.002), said
        assert calibrate("--pose", "standing")[0] == calibrate("--write")[0] == 2
        assert device.order()["accepted"] == device.order()["dropped"] == 0
