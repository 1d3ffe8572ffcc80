"""The replay: n-step rows beside a slow reference, and segments that are written once and bring everything back."""

from pathlib import Path

import pytest
import torch
from point_team import PointPair
from test_off_policy import groups_of
from test_resume import same

from policies.algorithms.algorithm import Experience
from policies.algorithms.replay import Replay
from policies.algorithms.td3 import TD3Cfg
from policies.checkpoint import CheckpointError

WORLDS = 3


def filled(steps: int, size: int, replay: Replay | None = None, episode: int = 7) -> Replay:
    """A replay that has seen `steps` steps more, of points pushed by chance."""
    env = PointPair(WORLDS, episode_steps=episode)
    replay = replay or Replay(groups_of(env, TD3Cfg()), size)
    generator = torch.Generator().manual_seed(replay.count)
    env.clock += torch.arange(WORLDS)  # so that episodes end in different steps
    for _ in range(steps):
        team, obs = {}, env.obs
        action = {
            "walker": torch.rand(WORLDS, 1, 2, generator=generator),
            "cart": torch.rand(WORLDS, 2, 1, generator=generator),
        }
        step = env.step(action)
        for name in action:
            acted = torch.rand(WORLDS, obs[name].policy.shape[1], generator=generator) > 0.1
            outcome = step.reward[name], step.terminated[name], step.truncated[name], acted, step.final_obs[name]
            team[name] = Experience(obs[name], {}, action[name], {}, *outcome)
        replay.add(team)
    return replay


@pytest.mark.parametrize("steps", [20, 61])  # before and after it has gone round
def test_n_step_rows_are_what_a_walk_along_the_episode_finds(steps: int):
    replay, gamma, n = filled(steps, 30 * WORLDS * 3), 0.9, 4
    kept = min(replay.count, replay.capacity)
    index = torch.arange(kept * WORLDS)
    rows, columns = replay.rows("cart", index, gamma, n), replay.columns["cart"]
    replay.chunks["cart"] = n
    chunks = replay.rows("cart", index, gamma)
    assert all(torch.equal(chunks[name], rows[name]) for name in ("reward", "discount"))
    lengths = []
    for row in index.tolist():
        slot, world = divmod(row, WORLDS)
        for robot in range(2):
            total, at, k, done = 0.0, row, 0, torch.zeros(n)
            while True:
                done[k] = columns["action"][at, robot, 0]
                total += gamma**k * float(columns["reward"][at, robot])
                newest = (
                    slot + k == (replay.count - 1) % replay.capacity
                    or (slot + k) % replay.capacity == (replay.count - 1) % replay.capacity
                )
                following = (slot + k + 1) % replay.capacity * WORLDS + world
                if columns["ended"][at, robot] or k + 1 == n or newest or not columns["acted"][following, robot]:
                    break
                at, k = following, k + 1
            lengths.append(k + 1)
            assert torch.equal(chunks["action"][row, robot], done), "a chunk is what was done, and 0 from where it ends"
            assert float(rows["reward"][row, robot]) == pytest.approx(total, abs=1e-6)
            discount = 0.0 if columns["terminated"][at, robot] else gamma ** (k + 1)
            assert float(rows["discount"][row, robot]) == pytest.approx(discount, abs=1e-6)
            assert torch.equal(rows["next"].policy[row, robot], columns["next"].policy[at, robot])
    assert set(lengths) == {1, 2, 3, 4}
    replay.chunks["cart"] = 1
    one = replay.rows("cart", index, gamma)
    assert torch.equal(one["reward"], columns["reward"][: len(index)]) and float(
        one["discount"].max()
    ) == pytest.approx(gamma)


# Control steps from one checkpoint to the next
@pytest.mark.parametrize("between", [pytest.param(3, marks=pytest.mark.slow), 17, 40, 200])
def test_segments_are_written_once_and_bring_everything_back(tmp_path: Path, between: int):
    replay, seen = Replay(groups_of(PointPair(WORLDS), TD3Cfg()), 64 * WORLDS * 3), {}
    assert replay.capacity == 64 and replay.segment == 4
    for _ in range(1 + 400 // between):
        filled(between, 0, replay)
        replay.write(tmp_path)
        state = replay.state_dict()
        replay.prune(tmp_path)
        rest = len(state["rest"]["cart"]["reward"]) // WORLDS
        assert rest < replay.segment, "a checkpoint holds less than a segment"
        files = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "replay").glob("*.pt")}
        assert len(files) <= 17 and all(seen.get(name, time) == time for name, time in files.items())
        seen.update(files)
        again = Replay(groups_of(PointPair(WORLDS), TD3Cfg()), 64 * WORLDS * 3)
        again.read(tmp_path, state)
        again.load_state_dict(state)
        assert same(again.columns, replay.columns) and (again.count, again.written) == (replay.count, replay.written)
    if between == 200:
        first, second, *_ = sorted((tmp_path / "replay").iterdir())
        second.write_bytes(first.read_bytes())
        with pytest.raises(CheckpointError, match=f"{second} is another segment than its name says, or of another run"):
            again.read(tmp_path, state)
        torch.save([torch.zeros(3), torch.tensor(int(second.stem))], second)
        with pytest.raises(CheckpointError, match="or of another run; --start-from"):
            again.read(tmp_path, state)


def test_a_state_alone_is_whole_where_nothing_was_written():
    replay = filled(75, 64 * WORLDS * 3)
    again = Replay(groups_of(PointPair(WORLDS), TD3Cfg()), 64 * WORLDS * 3)
    again.load_state_dict(replay.state_dict())
    assert same(again.columns, replay.columns)
