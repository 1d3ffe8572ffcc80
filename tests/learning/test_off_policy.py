"""Algorithms with a replay learn on the seam that PPO stands on: alone, in a mixed team, through resume and export."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from parity import measure_parity
from places import ZOO
from point_team import PointPair, PointTeam
from small_run import train_cfg
from test_resume import same

from deploy.bundle import load_bundle
from policies.algorithms.algorithm import Group
from policies.algorithms.dsact import DSACTCfg
from policies.algorithms.sac import SAC, SACCfg
from policies.algorithms.td3 import TD3, TD3Cfg
from policies.algorithms.vdn import VDN, VDNCfg
from policies.checkpoint import BEST, CheckpointError, load_checkpoint, save_checkpoint
from policies.evaluation.evaluate import evaluate
from policies.evaluation.trained import load_controller
from policies.export.export import export_policy
from policies.networks.squashed import squashed_log_prob
from policies.networks.trunk import NetworkCfg
from policies.threads import Workers
from policies.training.train import train
from policies.training.trainer import Trainer
from sim.envs.observation import Observation

QUICK = dict(warm_up=640, batch=128, updates=8, gamma=0.95, tau=0.05, hidden=32, peer_embed=16)


@pytest.mark.slow
@pytest.mark.parametrize(("algo", "steps"), [("td3", 7_000), ("sac", 7_000), ("dsact", 11_000)])
def test_it_learns(tmp_path: Path, algo: str, steps: int):
    cfg = train_cfg(task="point", out=tmp_path, algo=algo, total_steps=steps, **QUICK)
    result = train(cfg, env=PointTeam(32, num_agents=1))
    rates = [point["success_rate"] for point in result.return_curve if "success_rate" in point]
    assert sum(rates[:10]) / 10 < 0.2 and sum(rates[-10:]) / 10 > 0.8


@pytest.mark.slow
@pytest.mark.parametrize(("algo", "options"), [("hasac", {}), ("dsact", {"n_step": 3}), ("vdn", {})])
def test_a_mixed_team_learns_and_resumes_to_the_last_bit(tmp_path: Path, algo: str, options: dict):
    def go(folder: str, iterations: int, resume: bool = False):
        steps = iterations * 4 * 3 * 8
        small = dict(num_steps=4, replay=900, checkpoint_every=5, **QUICK)  # 37 control steps, in segments of 2
        cfg = train_cfg(
            task="p", out=tmp_path / folder, algo=algo, total_steps=steps, resume=resume, **small, **options
        )
        return train(cfg, env=PointPair(8))

    whole, _ = go("whole", 16), go("halves", 11)
    halves = go("halves", 16, resume=True)
    one, two = (load_checkpoint(run.path) for run in (whole, halves))
    for name in ("policies", "algorithm", "env", "collector", "generators"):
        assert same(one[name], two[name]), name
    assert one["algorithm"]["replay"]["count"] == 16 * 4 and one["algorithm"]["steps"] > 0
    stored = [
        {path.name: path.read_bytes() for path in (run.path.parent / "replay").iterdir()} for run in (whole, halves)
    ]
    assert stored[0] == stored[1] and len(stored[0]) == 18  # of 32: what is remembered no more is gone
    assert "replay" not in load_checkpoint(whole.path.with_name(BEST))["algorithm"]
    (whole.path.parent / "replay" / "000000020.pt").write_bytes(b"nothing")
    said = r"whole cannot be resumed, its replay is not whole: \S+000000020.pt is .*; --start-from \S+whole begins"
    with pytest.raises(CheckpointError, match=said):
        go("whole", 20, resume=True)


def test_what_chance_came_to_is_no_score():
    cfg = train_cfg(task="point", algo="sac", total_steps=6400, **{**QUICK, "warm_up": 2560})
    trainer, acts = Trainer(cfg, PointTeam(32, num_agents=1, episode_steps=10)), True
    for _ in range(40):
        trainer.iterate(0.0)
        scored, acts = trainer.score() is not None, not trainer.policy.by_chance
        if acts:
            break
        assert not scored, "its actions were drawn by chance"
    assert acts and trainer.iteration == 20 and trainer.score() is None, "those episodes were flown by chance"
    for _ in range(10):
        trainer.iterate(0.0)
    assert trainer.score() is not None


@pytest.mark.slow
@pytest.mark.parametrize("algo", ["td3", "sac"])
def test_its_policy_leaves_as_a_file_that_does_what_it_does(tmp_path: Path, algo: str):
    cfg = train_cfg(task="hover", out=tmp_path / "hover", algo=algo, num_envs=16, total_steps=16 * 4 * 30, **QUICK)
    train(cfg)
    path = export_policy(tmp_path / "hover", tmp_path / "hover.onnx")
    inputs = {tensor.name for tensor in load_bundle(path).contract.inputs}
    assert not any(name.startswith(("peers", "load", "pillar")) for name in inputs), "no more than the robot has"
    controller = load_controller(tmp_path / "hover")
    assert float(controller.policy.best(_anything(controller), {})[0].detach().abs().max()) <= 1.0
    assert measure_parity(load_bundle(path), tmp_path / "hover", 2)["max_abs"] < 1e-5
    assert evaluate(path, "hover", num_worlds=4).episodes == 4


MADDPG = dict(critics=1, delay=1, target_noise=0.0, critic="team")
ON_POLICY = dict(num_steps=8, epochs=1, hidden=16)
FROM_REPLAY = dict(num_steps=4, warm_up=32, batch=16, updates=2, hidden=16)


@pytest.mark.slow
@pytest.mark.usefixtures("quickly_exported")
@pytest.mark.parametrize(
    ("algo", "how"),
    [
        ("dsact", FROM_REPLAY),
        ("hasac", FROM_REPLAY),
        ("vdn", FROM_REPLAY),
        ("happo", ON_POLICY | {"critic": "team"}),
        ("impala", ON_POLICY | {"critic": "team"}),
        pytest.param("td3", FROM_REPLAY | MADDPG, id="maddpg"),
    ],
)
def test_the_policy_of_each_leaves_as_a_file_of_its_own_robots_inputs(tmp_path: Path, algo: str, how: dict):
    """Two drones that hover side by side, of which critics may see both, and policies only their own."""
    run = tmp_path / "run"
    train(train_cfg(task="hover", out=run, algo=algo, num_envs=4, num_agents=2, total_steps=4 * 2 * 24, **how))
    content = load_checkpoint(run)
    content["policies"]["crazyflie"]["state"]["head.weight"] *= 20  # so that every weight matters
    save_checkpoint(run / "checkpoint.pt", content)
    bundle = load_bundle(export_policy(run, tmp_path / "hover.onnx"))
    own = {tensor.name for tensor in load_bundle(ZOO / "hover.onnx").contract.inputs}
    assert {tensor.name for tensor in bundle.contract.inputs} == own
    parity = measure_parity(bundle, run, 2)
    assert parity["between"] == "torch controller and policy file" and parity["max_abs"] < 1e-5


def test_bad_hyperparameters_are_said_in_one_line():
    with pytest.raises(ValueError, match=r"td3.gamma = 1.2: 0 to 1"):
        TD3Cfg(gamma=1.2)
    with pytest.raises(ValueError, match=r"td3.gamma = 1: below 1"):
        TD3Cfg(gamma=1)
    with pytest.raises(ValueError, match=r"vdn.critic = 'team': own, for"):
        VDNCfg(critic="team")
    with pytest.raises(ValueError, match="groups walker, cart differ in critics"):
        groups = groups_of(PointPair(8), VDNCfg())
        groups["cart"] = replace(groups["cart"], cfg=VDNCfg(critics=1))
        VDN(groups, torch.Generator(), Workers(1))
    with pytest.raises(ValueError, match=r"steps = 640: over before policies learn, td3.warm_up = 640"):
        Trainer(train_cfg(task="point", algo="td3", total_steps=640, **QUICK), PointTeam(32, num_agents=1))
    with pytest.raises(ValueError, match=r"sac.temperature = 0: 1e-09 to 1000000000"):
        SACCfg(temperature=0)


def test_a_density_through_tanh_integrates_to_one():
    action = torch.linspace(-1, 1, 200_001, dtype=torch.float64)[1:-1, None]
    for mean, log_std in ((0.3, -0.7), (-1.0, 0.2)):
        shape = torch.tensor([mean]).double(), torch.tensor([log_std]).double()
        density = squashed_log_prob(torch.atanh(action), *shape).exp()
        assert float(density.sum() * 1e-5) == pytest.approx(1, abs=1e-4)
    raw = torch.tensor([40.0, -300.0])  # where tanh is 1 to the last bit
    assert squashed_log_prob(raw, torch.zeros(2), torch.ones(2)).isfinite()


def test_the_temperature_rises_while_the_entropy_is_too_low_and_falls_while_it_is_too_high():
    for target, rises in ((5.0, True), (-50.0, False)):
        sac, rows = learner_and_rows(SAC, SACCfg(target_entropy=target))
        before = float(sac.learners["point"].temperature)
        sac.learn(rows)
        assert (float(sac.learners["point"].temperature) > before) == rises


def test_the_policy_moves_at_every_second_step_only():
    td3, rows = learner_and_rows(TD3, TD3Cfg(delay=2))
    moved = []
    for _ in range(4):
        before = td3.policies["point"].head.weight.detach().clone()
        td3.learn(rows)
        moved.append(not torch.equal(before, td3.policies["point"].head.weight))
    assert moved == [False, True, False, True]


def test_no_gradient_goes_from_one_groups_policy_to_anothers_nor_from_what_a_robot_cannot_see():
    """A critic of the team is shown every robot; what is exported is made of the robot's own observation."""
    env = PointPair(8)
    groups = groups_of(env, TD3Cfg(critics=1, delay=1, target_noise=0.0, critic="team"))  # MADDPG
    algorithm = TD3(groups, torch.Generator().manual_seed(0), Workers(1))
    rows = {name: anything(group) for name, group in groups.items()}
    batches = {name: algorithm.batch_of(name, part) for name, part in rows.items()}
    walker, cart = (algorithm.learners[name] for name in ("walker", "cart"))
    shown = {"cart": torch.cat([batches["cart"].features.own, batches["cart"].action], -1).requires_grad_()}
    before = [parameter.detach().clone() for parameter in cart.policy.parameters()]
    value = walker.critic(batches["walker"].features, walker.policy.act(batches["walker"].features), shown).sum()
    value.backward()
    assert float(shown["cart"].grad.abs().max()) > 0, "the critic does see what carts do"
    assert all(parameter.grad is None for parameter in cart.policy.parameters())
    algorithm.learners["walker"].improve_policy(batches["walker"], {"cart": shown["cart"].detach()})
    assert all(torch.equal(one, other) for one, other in zip(before, cart.policy.parameters(), strict=True))


def test_a_target_is_the_least_of_some_critics_that_are_drawn_and_the_policy_climbs_the_mean_of_all():
    """REDQ: beside what the critics' slow copies say of the very action and critics that were drawn."""
    cfg = SACCfg(critics=5, subset=2, temperature=1e-9)
    sac, rows = learner_and_rows(SAC, cfg)
    learner, batch = sac.learners["point"], sac.batch_of("point", rows["point"])
    action, none = batch.action, {}
    with torch.no_grad():
        values = learner.targets["critic"](batch.after, action, none)
        pairs = {
            (a, b): batch.reward + batch.discount * values[[a, b]].amin(0) for a in range(5) for b in range(a + 1, 5)
        }
        now = learner.critic(batch.features, action, none)
    met = set()
    for _ in range(40):
        loss, _ = learner.critic_loss(batch, none, action, 0.0, none)
        errors = {pair: float(0.5 * (now - wanted).square().sum(0).mean()) for pair, wanted in pairs.items()}
        met |= {pair for pair, error in errors.items() if error == pytest.approx(float(loss.detach()), rel=1e-6)}
    assert len(met) > 7, "of ten pairs"
    torch.testing.assert_close(
        learner.value_of(batch, action, none), learner.critic(batch.features, action, none).mean(0)
    )
    with pytest.raises(ValueError, match=r"sac.subset = 3: 1 to 2"):
        SACCfg(subset=3)
    with pytest.raises(ValueError, match=r"dsact.subset = 2: its target is of the critic whose mean is least"):
        DSACTCfg(subset=2)


def groups_of(env, cfg, hidden: int = 16) -> dict[str, Group]:
    net = NetworkCfg(hidden=hidden, peer_embed=8)
    return {name: Group(obs, [True] * env.groups[name].action_dim, net, cfg) for name, obs in env.obs.items()}


def anything(group: Group, count: int = 64) -> dict:
    """Rows as a replay gives them, of chance."""
    generator, robots = torch.Generator().manual_seed(count), group.shape[1]

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(count, robots, *shape, generator=generator)

    dims, peers = group.dims, group.obs.valid.shape[-1]

    def obs() -> Observation:
        return Observation(draw(dims.policy), draw(peers, dims.neighbours), torch.ones(count, robots, peers), draw(0))

    return {
        "obs": obs(),
        "next": obs(),
        "action": torch.tanh(draw(len(group.driven))),
        "reward": draw(),
        "discount": 0.9 * (draw() > -1).float(),
        "acted": torch.ones(count, robots, dtype=torch.bool),
    }


def learner_and_rows(kind, cfg):
    groups = groups_of(PointTeam(8, num_agents=1), cfg)
    return kind(groups, torch.Generator().manual_seed(0), Workers(1)), {"point": anything(groups["point"])}


def _anything(controller):
    dims = controller.policy.spec()["dims"]
    parts = (torch.randn(5, dims[0]), torch.randn(5, 2, dims[1]), torch.ones(5, 2), torch.randn(5, 0))
    return Observation(*parts)
