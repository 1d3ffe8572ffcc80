"""`--network.activation`: what is between the layers, of policies and critics, in training and in the file."""

from pathlib import Path

import pytest
import torch
from command import assert_one_line_error, here
from parity import measure_parity
from small_run import train_cfg

from deploy.bundle import load_bundle
from policies.checkpoint import CheckpointError, load_checkpoint
from policies.export.export import export_policy
from policies.networks.critic import Critic
from policies.networks.normaliser import ObsDims
from policies.networks.policy import GaussianPolicy
from policies.networks.trunk import NetworkCfg
from policies.training.train import train
from policies.training.trainer import Trainer
from sim.envs.observation import Observation

WRITTEN_OUT = {
    "elu": lambda x: torch.where(x > 0, x, x.exp() - 1),
    "relu": lambda x: torch.where(x > 0, x, 0 * x),
    "tanh": lambda x: (x.exp() - (-x).exp()) / (x.exp() + (-x).exp()),
}


@pytest.mark.parametrize("activation", WRITTEN_OUT)
def test_all_layers_of_policies_and_critics_have_it(activation: str):
    torch.manual_seed(0)
    dims, act = ObsDims(3, 2), WRITTEN_OUT[activation]
    network = NetworkCfg(hidden=8, peer_embed=4, activation=activation)
    policy = GaussianPolicy(dims, 2, hidden=8, peer_embed=4, activation=activation)
    critic = Critic(dims, kind="team", network=network, num_agents=2, groups={"arms": 6})
    own, peers, arms = torch.randn(5, 2, 3), torch.randn(5, 2, 1, 2), torch.randn(5, 3, 6)
    seen = Observation(own, peers, torch.ones(5, 2, 1), own[..., :0])
    features = policy.normaliser(seen)

    def before_last(trunk) -> torch.Tensor:
        """Of one neighbour: attention is between it and the empty slot."""
        neighbour = act(trunk.peers.encode(features.peers))[0]
        score = (neighbour * trunk.peers.query(features.own)).sum(-1)
        pooled = torch.sigmoid(score - trunk.peers.null_score)[..., None] * neighbour
        return act(trunk.joint(torch.cat([act(trunk.own(features.own)), pooled], dim=-1)))

    body = policy.trunk
    torch.testing.assert_close(policy.mean(features), policy.head(act(body.last(before_last(body)))))
    body = critic.trunk
    joint, others = before_last(body), critic.pooled["arms"](act(critic.groups["arms"](arms)).mean(-2, keepdim=True))
    last = body.last(joint) + body.team(joint.flip(-2)) + others
    torch.testing.assert_close(critic(features, {"arms": arms}), critic.head(act(last))[..., 0])


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_the_file_does_what_training_did_and_both_are_begun_with_by_the_same_only(tmp_path: Path, activation: str):
    small = dict(
        task="swarm-swap", num_envs=2, num_steps=8, epochs=1, minibatch=64, hidden=16, peer_embed=8, threads=1, lag=0,
        total_steps=2 * 4 * 8 * 2, init_std=1.0,
    )  # fmt: skip
    run, file = tmp_path / "run", tmp_path / "policy.onnx"
    train(train_cfg(out=run, activation=activation, **small))
    bundle = load_bundle(export_policy(run, file))
    assert measure_parity(bundle, run, 2)["max_abs"] < 1e-5
    for begin in (run, file):
        Trainer(train_cfg(out=tmp_path / "same", activation=activation, start_from=begin, **small)).close()
    with pytest.raises(CheckpointError, match=rf"networks differ in network.activation \({activation} there, elu here"):
        Trainer(train_cfg(out=tmp_path / "other", start_from=run, **small))
    with pytest.raises(CheckpointError, match=r"does something else than the file .* another network\.activation"):
        Trainer(train_cfg(out=tmp_path / "other", start_from=file, **small))


def test_a_run_of_before_there_was_a_choice_goes_on_with_elu_only(tmp_path: Path):
    small = dict(task="hover", out=tmp_path, num_envs=2, num_steps=8, epochs=1, minibatch=16, hidden=8, threads=1)
    train(train_cfg(total_steps=32, **small))
    content = load_checkpoint(tmp_path)
    del content["run"]["network"]["crazyflie"]["activation"]
    Trainer(train_cfg(resume=True, **small)).load_state_dict(content)
    with pytest.raises(CheckpointError, match=r"other values than the checkpoint's: activation = 'tanh' \(there 'elu'"):
        Trainer(train_cfg(resume=True, activation="tanh", **small)).load_state_dict(content)


def test_one_that_there_is_not_is_refused_by_name(tmp_path: Path):
    asked = here("train", "hover", "--network.activation", "gelu", "--out", str(tmp_path / "run"))
    assert_one_line_error(asked, "--network.activation")
    with pytest.raises(ValueError, match=r"network\.activation = 'gelu': elu, relu, tanh"):
        NetworkCfg(activation="gelu")  # type: ignore[arg-type]
