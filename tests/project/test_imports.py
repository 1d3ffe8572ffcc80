"""Imports point one way, and the robot carries no trainer."""

import pytest
from importlinter.cli import lint_imports
from loaded import loaded_after
from places import ROOT

TRAINERS = ("torch", "jax", "mujoco", "brax", "onnx", "tensorboard", "gymnasium")


def test_contracts_of_the_import_linter_hold(monkeypatch):
    monkeypatch.chdir(ROOT)
    assert lint_imports() == 0


@pytest.mark.parametrize(
    "code",
    [
        "import hardware",
        "import deploy.bundle, deploy.runtime, deploy.shield",
        "import ros_nodes.nodes.policy_node, ros_nodes.nodes.shield_node, ros_nodes.nodes.simulated_robots_node",
        "import phalanx.missions.plan, ros_nodes.mission.deploy",  # the swap needs no seconds of imports
    ],
)
def test_what_runs_on_the_robot_loads_no_trainer_and_no_simulator(code):
    assert loaded_after(code, TRAINERS) == []


def test_a_policy_flies_without_trainer_and_simulator(tmp_path):
    from bundle_fixture import save_policy

    save_policy(tmp_path / "policy.onnx")
    code = f"""
from hardware import load_robot
from deploy.runtime import PolicyRuntime
PolicyRuntime.load({str(tmp_path / "policy.onnx")!r}, load_robot("crazyflie"))
"""
    assert loaded_after(code, (*TRAINERS, "rclpy", "scipy")) == []


@pytest.mark.slow
def test_training_needs_no_ros_and_does_not_load_a_compiler_that_it_does_not_use():
    code = """
import policies.training.train, policies.export.export, policies.evaluation.verify
from torch import ones
from torch.nn import Linear
from policies.algorithms.ppo import PPOCfg
from policies.algorithms.ppo_update import make_optimiser
network = Linear(3, 1)
optimiser = make_optimiser(network, Linear(3, 1), PPOCfg())
optimiser.load_state_dict(optimiser.state_dict())
for _ in range(2):
    optimiser.zero_grad()
    network(ones(3)).backward()
    optimiser.step()
"""
    assert loaded_after(code, ("rclpy", "torch._dynamo")) == []


def test_no_package_is_a_junk_drawer():
    packages = ("hardware", "deploy", "sim", "policies", "ros_nodes", "phalanx")
    names = {path.stem for package in packages for path in (ROOT / package).rglob("*")}
    assert not names & {"utils", "util", "common", "helpers", "core", "base", "misc"}
