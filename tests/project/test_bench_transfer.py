"""`python -m benchmarks transfer`: other drives reach the simulation and the shield."""

from pathlib import Path

import pytest

from benchmarks.transfer_drives import Drives, fly_drives, plants, with_plant
from hardware import load_robot
from sim.envs.team_env import TeamEnv


def test_the_gains_that_others_deploy_reach_simulation_and_shield(tmp_path: Path) -> None:
    """Those of a G1's legs, with 30 ms of delay in all."""
    g1 = load_robot("g1")
    late = next(plant for plant in plants(g1) if plant.name == "gains of AMO, stiffer ankles, 30 ms")
    env = TeamEnv(with_plant("stand", g1, late, tmp_path), 2, seed=0, shield=True, randomise=False)
    channel = [c.name for c in g1.channels].index("left_ankle_pitch_joint")
    gain = env.group.robots.physics.field("actuator_gainprm")[..., channel, 0]
    assert gain.flatten().tolist() == pytest.approx([200.0] * gain.numel())
    assert env.group.shield is not None
    joints = {joint.name: joint for joint in env.group.robot.joints}  # what the shield counts on
    assert (joints["left_ankle_pitch_joint"].stiffness, joints["left_knee_joint"].stiffness) == (200.0, 300.0)


@pytest.mark.slow
def test_an_arm_on_slow_drives_is_flown(monkeypatch: pytest.MonkeyPatch) -> None:
    """It reaches by its own drives, and not by drives without stiffness."""
    weak = {f"{joint.name}.stiffness": 0.01 for joint in load_robot("panda").joints if joint.stiffness}
    two = [Drives("own", {}, None), Drives("weak", weak, 0.04)]
    monkeypatch.setattr("benchmarks.transfer_drives.plants", lambda _: two)
    totals: list[int] = []
    rows = fly_drives(Path("zoo/reach.onnx"), "reach", 8, totals.append)
    assert rows["own"]["success behind the shield"] >= 0.8
    assert rows["weak"]["success without it"] == 0.0
    assert totals == [4] * 4
