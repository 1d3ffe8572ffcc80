"""A policy that is shown what its shield changed: what is trained is what is exported, and what flies."""

from dataclasses import replace

import pytest
from parity import measure_parity
from places import ROOT
from small_run import train_cfg

from deploy.bundle import load_bundle
from deploy.bundle.probes import Probes, replay
from deploy.contract.tensor_specs import CORRECTION, sees_correction
from deploy.runtime import PolicyRuntime
from policies.checkpoint import load_checkpoint, save_checkpoint
from policies.evaluation import parity
from policies.export.export import export_policy
from policies.training.train import train
from sim.envs.team_env import TeamEnv


@pytest.mark.slow
def test_the_file_of_a_policy_that_is_shown_what_its_shield_changed_does_what_its_training_did(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "examples")
    train(
        train_cfg(task="shown_correction:SHOWN_SWAP", out=tmp_path / "run", num_envs=4, total_steps=256, num_steps=16)
    )
    content = load_checkpoint(tmp_path / "run")
    content["policies"]["crazyflie"]["state"]["head.weight"] *= 20  # so that its shield has something to do
    save_checkpoint(tmp_path / "run" / "checkpoint.pt", content)
    bundle = load_bundle(export_policy(tmp_path / "run", tmp_path / "policy.onnx"))
    assert sees_correction(bundle.contract)
    step = PolicyRuntime(bundle).step_batch
    assert replay(step, bundle.probes) < 1e-5
    unseen = [replace(s, inputs={**s.inputs, CORRECTION: 0.0 * s.inputs[CORRECTION]}) for s in bundle.probes.sequences]
    assert replay(step, Probes(tuple(unseen))) > 1e-3, "a file that did not look at it would be found"
    flown: list[TeamEnv] = []

    def noted(*args, **kwargs):
        flown.append(TeamEnv(*args, **kwargs))
        return flown[-1]

    monkeypatch.setattr(parity, "TeamEnv", noted)
    for found in (measure_parity(bundle, tmp_path / "run", 4), measure_parity(bundle, None)):
        assert found["max_abs"] < 1e-5 and found["steps"] > 20
        assert flown[-1].group.correction is not None, "it flew behind its shield"
