"""One row of the drill for real: its table tells what happened."""

from pathlib import Path

import pytest

pytest.importorskip("rclpy")
from ros_nodes.mission.drill import drill

ZOO = Path(__file__).parents[1] / "zoo"
pytestmark = [pytest.mark.ros, pytest.mark.alone]


def test_a_killed_policy_is_held_landed_and_a_fault_and_its_neighbour_flies_on(tmp_path):
    (outcome,) = drill(ZOO / "swarm-swap.onnx", tmp_path, rows=["policy killed"])
    assert (outcome.state, outcome.other_state, outcome.cut_in_air) == ("FAULT", "POLICY", 0), outcome
    assert 2.0 < outcome.reaction_periods < 12.0 and outcome.least_distance_m > 1.0
    assert "request" in outcome.reason


def test_an_unknown_row_is_named(tmp_path):
    with pytest.raises(ValueError, match="unknown row 'fire'; known: policy killed, "):
        drill(ZOO / "swarm-swap.onnx", tmp_path, rows=["fire"])
