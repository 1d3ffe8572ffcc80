"""`--network.independent`: each robot of a group has parameters of its own, and a policy file of its own."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import torch
from point_team import Points, PointTeam
from small_run import train_cfg
from test_resume import same

from deploy.bundle import load_bundle
from phalanx.missions.plan import plan_mission
from policies.algorithms import ALGORITHMS
from policies.checkpoint import load_checkpoint
from policies.evaluation.evaluate import evaluate, load_team
from policies.evaluation.margins import MarginCfg, plan_margins
from policies.evaluation.trained import load_controllers
from policies.evaluation.verify import VerifyCfg, verify
from policies.export.export import export_team
from policies.training.train import train
from policies.training.trainer import Trainer
from ros_nodes.plans.prepare import check_policy
from sim.envs.observation import Observation
from sim.envs.team_env import TeamEnv
from sim.tasks import load_task

ROBOTS = ["crazyflie-robot-1", "crazyflie-robot-2"]
SMALL = {"num_steps": 8, "epochs": 1, "minibatch": 64, "hidden": 16, "peer_embed": 8}


class Places(Points):
    """Two points, each with a place of its own, of which they see nothing: what they see does not tell them apart."""

    def __init__(self, num_envs: int = 32, seed: int = 0) -> None:
        super().__init__(num_envs, seed, 20, {"point": (2, 1)})

    @property
    def obs(self) -> dict[str, Observation]:
        """Position and velocity."""
        return {"point": Observation.alone(torch.cat([self.pos["point"], self.vel["point"]], dim=-1))}

    def _judge(self, actions: Mapping[str, torch.Tensor]) -> tuple[dict, dict, torch.Tensor]:
        gap = (self.pos["point"][..., 0] - torch.tensor([0.6, -0.6])).abs()
        return {"point": {"gap": -gap}}, {"point": {"gone": gap > 9.0}}, (gap < 0.25).all(-1)


@pytest.mark.slow
@pytest.mark.parametrize("algo", ["ppo", "happo"])
def test_robots_that_see_the_same_learn_unlike_things_where_they_share_nothing(tmp_path: Path, algo: str):
    success = {}
    for independent in (False, True):
        learner = {"num_steps": 20, "minibatch": 320, "hidden": 32, "algo": algo, "independent": independent}
        cfg = train_cfg(task="places", out=tmp_path / str(independent), total_steps=60_000, **learner)
        success[independent] = train(cfg, env=Places()).return_curve[-1]["success_rate"]
    assert success[True] > 0.9 and success[False] < 0.1


@pytest.mark.slow
@pytest.mark.parametrize("algo", ALGORITHMS)
def test_every_algorithm_learns_for_each_robot_and_goes_on_to_the_last_bit(tmp_path: Path, algo: str):
    def go(folder: str, iterations: int, resume: bool = False) -> Path:
        learner = {"num_steps": 8, "minibatch": 64} if issubclass(ALGORITHMS[algo].Cfg, ALGORITHMS["ppo"].Cfg) else {}
        learner |= {} if learner else {"num_steps": 8, "batch": 32, "warm_up": 256, "replay": 4096}
        steps = iterations * 16 * 2 * 8
        options = {"hidden": 16, "peer_embed": 8, "independent": True, "resume": resume, "algo": algo}
        return train(
            train_cfg(task="point", out=tmp_path / folder, total_steps=steps, **learner, **options), env=PointTeam(16)
        ).path

    whole, _ = go("whole", 6), go("halves", 3)
    one, other = load_checkpoint(whole), load_checkpoint(go("halves", 6, resume=True))
    assert list(one["policies"]) == ["point-robot-1", "point-robot-2"]
    assert not same(*(policy["state"] for policy in one["policies"].values()))
    for part in ("policies", "algorithm", "env", "collector", "progress"):
        assert same(one[part], other[part]), part


def test_robots_that_shared_a_policy_begin_with_it_each(tmp_path: Path):
    shared = train(train_cfg(task="point", out=tmp_path / "shared", total_steps=448, **SMALL), env=PointTeam(16)).path
    cfg = train_cfg(task="point", out=tmp_path / "apart", independent=True, start_from=shared, **SMALL)
    trainer = Trainer(cfg, PointTeam(16))
    for policy in trainer.algorithm.policies.values():
        assert same(dict(policy.state_dict()), load_checkpoint(shared)["policies"]["point"]["state"])
    trainer.close()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short run of the swap with two drones that share nothing."""
    out = tmp_path_factory.mktemp("run")
    sizes = {"num_envs": 8, "num_agents": 2, "total_steps": 1024, "lag": 0, "independent": True}
    train(train_cfg(task="swarm-swap", task_changes={"episode_s": 1.0}, out=out, onnx=False, **SMALL, **sizes))
    return out


@pytest.fixture(scope="module")
def files(run: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return export_team(run, tmp_path_factory.mktemp("files"), accept_change=True)


@pytest.mark.slow
def test_files_of_single_robots_fly_as_the_run_does_in_whatever_order_they_are_named(run: Path, files: list[Path]):
    assert [load_bundle(file).contract.group for file in files] == ROBOTS
    task, team = load_team(reversed(files))
    found = evaluate(team, load_task(task), 8, shield=True)
    assert found.num_agents == 2, "as many as there are files"
    as_trained = evaluate(load_controllers(run), load_task(task), 8, shield=True)
    assert found.mean_return == pytest.approx(as_trained.mean_return, rel=1e-4)
    swapped = dict(zip(ROBOTS, load_controllers(run).values().__reversed__(), strict=True))
    assert evaluate(swapped, load_task(task), 8, shield=True).mean_return != pytest.approx(found.mean_return, rel=1e-4)
    for number in (1, 2):
        there_are = f"-robot-1, crazyflie-robot-2; there are those for crazyflie-robot-{number}; give a file of each"
        with pytest.raises(ValueError, match=there_are):
            evaluate(load_team([files[number - 1]])[1], task, 8)
    with pytest.raises(ValueError, match=r"-robot-4; there are those for crazyflie-robot-1, crazyflie-robot-2;"):
        evaluate(team, task, 8, num_agents=4)


@pytest.mark.slow
def test_files_of_single_robots_are_verified_together_each_against_its_own_controller(run: Path, files: list[Path]):
    found = verify(files, VerifyCfg(num_worlds=8), run)
    assert list(found["files"]) == ROBOTS and list(found["teams"]) == ["2"]
    gates = {gate["name"]: gate["passed"] for gate in found["gates"]}
    assert all(gates[f"{what}_{robot}"] for what in ("probes", "slots", "parity", "actions") for robot in ROBOTS)
    margins = plan_margins(files, MarginCfg(4, only=("mass",)))(None)
    assert [row["group"] for row in margins["rows"]] == ["crazyflie", "crazyflie"]  # both ways


@pytest.mark.slow
def test_on_robots_each_gets_its_own_file_and_another_ones_is_refused(files: list[Path]):
    contracts = {str(file): load_bundle(file).contract for file in reversed(files)}
    mission, _ = plan_mission(contracts, None, None, None, 0)
    assert [Path(member.bundle) for member in mission.team] == files
    first, second = mission.team
    check_policy(contracts[str(files[0])], mission, first)
    with pytest.raises(ValueError, match="is for group 'crazyflie-robot-1', cf2 is 'crazyflie-robot-2'"):
        check_policy(contracts[str(files[0])], mission, second)
    with pytest.raises(ValueError, match=r"takes policies for crazyflie-robot-1 and crazyflie-robot-2; given: .*-2$"):
        plan_mission({str(files[1]): contracts[str(files[1])]}, 2, None, None, 0)
    with pytest.raises(ValueError, match=r"takes policies for crazyflie-robot-1 and crazyflie-robot-2; given: .*-1$"):
        plan_mission({str(files[0]): contracts[str(files[0])]}, None, None, None, 0)


def test_a_robot_alone_and_an_engine_of_whole_rollouts_have_no_robots_to_set_apart(tmp_path: Path):
    trainer = Trainer(train_cfg(task="point", out=tmp_path, independent=True, **SMALL), PointTeam(16, num_agents=1))
    assert list(trainer.algorithm.policies) == ["point"]
    trainer.close()
    with pytest.raises(ValueError, match=r"network\.independent: its engine makes a rollout one program"):
        Trainer(train_cfg(task="swarm-swap", out=tmp_path, num_envs=2, engine="mjx", independent=True, **SMALL))


def test_a_group_that_is_named_as_a_robot_of_one_is_refused():
    task = load_task("swarm-swap")
    with pytest.raises(ValueError, match=r"group 'cf-robot-2' is named as one robot of a group$"):
        task.changed(groups={"cf-robot-2": task.group})


def test_robots_set_apart_see_and_earn_what_they_did_together():
    from sim.envs.one_robot import RobotsApart

    together, apart = (TeamEnv("swarm-swap", 4, 3, num_agents=3) for _ in range(2))
    env, actions = RobotsApart(apart, ["crazyflie"]), 2 * torch.rand(30, 4, 3, 4) - 1
    for action in actions:
        whole = together.step({"crazyflie": action})
        step = env.step({name: action[:, k : k + 1] for k, name in enumerate(env.groups)})
        for part in ("reward", "terminated", "acted"):
            joined = torch.cat(list(getattr(step, part).values()), dim=1)
            np.testing.assert_array_equal(joined, getattr(whole, part)["crazyflie"])
        assert torch.equal(torch.cat([o.policy for o in step.obs.values()], 1), whole.obs["crazyflie"].policy)
        assert torch.equal(step.ended, whole.ended)
