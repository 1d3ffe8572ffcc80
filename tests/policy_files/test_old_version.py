"""What the version before wrote still works: its checkpoint is exported, its policy file flies.

`old_version/` has both, of one short training of `hover` with checkpoint format 1 and policy format 1. The
checkpoint is without what only resuming needs.
"""

from dataclasses import replace

import pytest
from parity import measure_parity
from places import TESTS

from deploy.bundle import load_bundle, self_test
from deploy.runtime import PolicyRuntime
from hardware import load_robot
from policies.checkpoint import CheckpointError, load_checkpoint
from policies.evaluation.evaluate import evaluate
from policies.evaluation.policy_runner import BundleRunner
from policies.evaluation.trained import controllers_of
from policies.export.export import export_policy
from sim.task import ObservationCfg
from sim.tasks.hover import HOVER
from sim.tasks.parts import crazyflie
from sim.tasks.parts.multirotor import firmware
from sim.terms import Term, observations

OLD = TESTS / "old_version"


def test_an_old_file_is_read_and_flown():
    runtime = PolicyRuntime.load(OLD / "hover.onnx", load_robot("crazyflie"))
    assert runtime.contract.format == "phalanx-policy/2" and runtime.contract.group == ""
    result = evaluate(BundleRunner(runtime), runtime.contract.task, 4)
    assert result.success_rate < 1.0 and result.mean_return != 0.0  # hardly trained


@pytest.fixture
def old_task(monkeypatch):
    """What `hover` showed its policy then, and how it flew."""
    observation = ObservationCfg(
        own={
            **{name: term for name, term in HOVER.group.observation.own.items() if name != "frames"},
            "last_action": Term(observations.remembered, {"name": "last_action"}),
        },
        memory={"last_action": crazyflie.LAST_ACTION, "goal_offset_sum": crazyflie.GOAL_OFFSET_SUM},
    )
    newer = firmware(crazyflie.ROBOT)
    variation = {name: e for name, e in HOVER.group.randomisation.items() if name not in newer}
    action = crazyflie.ACTION
    task = HOVER.changed(observation=observation, action=action, randomisation=variation, rate_loop=False)
    monkeypatch.setattr("sim.tasks.hover.HOVER", task)


def test_an_old_checkpoint_of_a_task_that_shows_more_now_is_refused_in_one_line(tmp_path):
    with pytest.raises(ValueError, match="a policy of 19 features is shown 67: its task was another one then"):
        export_policy(OLD / "hover.pt", tmp_path / "hover.onnx")


def test_a_policy_with_other_weights_is_refused_in_one_line():
    content = load_checkpoint(OLD / "hover.pt")
    weights = content["policies"]["crazyflie"]["state"]
    weights["head.scale"] = weights.pop("head.weight")
    with pytest.raises(CheckpointError, match=r"'crazyflie' has other weights .*: head.scale, head.weight; use"):
        controllers_of(content, HOVER)


@pytest.mark.usefixtures("old_task")
def test_an_old_checkpoint_does_what_its_old_file_does():
    assert measure_parity(load_bundle(OLD / "hover.onnx"), OLD / "hover.pt", 1)["max_abs"] < 1e-5


@pytest.mark.slow
@pytest.mark.usefixtures("old_task", "quickly_exported")
def test_an_old_checkpoint_is_exported(tmp_path):
    new, old = load_bundle(export_policy(OLD / "hover.pt", tmp_path / "hover.onnx")), load_bundle(OLD / "hover.onnx")
    new_inputs, old_inputs = (
        [(tensor.name, tensor.shape, tensor.dtype) for tensor in bundle.contract.inputs] for bundle in (new, old)
    )
    assert new_inputs == old_inputs and new.contract.memory == old.contract.memory
    assert new.contract.provenance.env_steps == old.contract.provenance.env_steps
    assert self_test(replace(new, probes=old.probes), "new") < 1e-5
