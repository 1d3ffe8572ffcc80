"""What the version before wrote still works: its checkpoint is exported, its policy file flies.

`old_version/` has both, of one short training of `hover` with checkpoint format 1 and policy format 1. The
checkpoint is without what only resuming needs.
"""

from pathlib import Path

import pytest
from parity import measure_parity

from deploy.bundle import load_bundle
from deploy.contract import FORMAT
from deploy.runtime import PolicyRuntime
from hardware import load_robot
from policies.evaluation.evaluate import evaluate
from policies.evaluation.policy_runner import BundleRunner
from policies.evaluation.verify import VerifyCfg
from policies.export.export import export_policy

OLD = Path(__file__).parent / "old_version"


def test_an_old_file_is_read_and_flown():
    runtime = PolicyRuntime.load(OLD / "hover.onnx", load_robot("crazyflie"))
    assert runtime.contract.format == FORMAT and runtime.contract.group == ""
    result = evaluate(BundleRunner(runtime), runtime.contract.task, 4)
    assert result.success_rate < 1.0 and result.mean_return != 0.0  # hardly trained


def test_an_old_checkpoint_does_what_its_old_file_does():
    cfg = VerifyCfg(parity_worlds=1)
    assert measure_parity(load_bundle(OLD / "hover.onnx"), OLD / "hover.pt", cfg)["max_abs"] < 1e-5


@pytest.mark.slow
def test_an_old_checkpoint_is_exported(tmp_path):
    new, old = load_bundle(export_policy(OLD / "hover.pt", tmp_path / "hover.onnx")), load_bundle(OLD / "hover.onnx")
    assert new.contract.inputs == old.contract.inputs and new.contract.memory == old.contract.memory
    assert new.contract.provenance.env_steps == old.contract.provenance.env_steps
    for mine, its in zip(new.probes.sequences, old.probes.sequences, strict=True):
        for name in its.outputs:
            assert abs(mine.outputs[name] - its.outputs[name]).max() < 1e-5
