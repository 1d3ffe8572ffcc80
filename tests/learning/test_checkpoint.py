"""A checkpoint that is damaged, of another format or of another task is refused in one line."""

import os
import resource
from pathlib import Path

import pytest
import torch
from places import ZOO
from point_team import PointTeam
from small_run import train_cfg
from test_resume import PPO, run

from policies.checkpoint import FILE, CheckpointError, load_checkpoint, save_checkpoint
from policies.evaluation.trained import check_same_task
from policies.task_data import digest, task_record
from policies.training.train import train
from sim.tasks import load_task


def test_bad_checkpoints_are_refused_in_one_line(tmp_path: Path):
    with pytest.raises(CheckpointError, match="no checkpoint at"):
        load_checkpoint(tmp_path)
    with pytest.raises(CheckpointError, match=r"hover.onnx is a policy file, .*: give the folder of its training run"):
        load_checkpoint(ZOO / "hover.onnx")
    path = tmp_path / FILE
    save_checkpoint(path, {"actor": torch.zeros(3)})
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(CheckpointError, match="is not a checkpoint of phalanx, or damaged") as error:
        load_checkpoint(path)
    assert "\n" not in str(error.value)
    torch.save({"format": "phalanx-checkpoint/0"}, path)
    with pytest.raises(CheckpointError, match="has format 'phalanx-checkpoint/0'"):
        load_checkpoint(path)


def test_a_checkpoint_that_the_disk_has_no_room_for_leaves_the_one_before(tmp_path: Path):
    content, path = (
        {"run": {}, "progress": {}, "policies": {"w": torch.zeros(400_000)}, "algorithm": {}},
        tmp_path / FILE,
    )
    save_checkpoint(path, content)
    unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (900_000, unlimited[1]))
    try:
        with pytest.raises(
            CheckpointError, match=f"cannot write {path}: File too large; the one before is still there"
        ):
            save_checkpoint(path, content | {"policies": {"w": torch.ones(400_000)}})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
    assert torch.equal(load_checkpoint(path)["policies"]["w"], torch.zeros(400_000))
    assert list(tmp_path.iterdir()) == [path]


def test_a_flipped_bit_in_a_checkpoint_is_noticed_or_changes_nothing(tmp_path: Path):
    path, content = tmp_path / FILE, {"run": {}, "progress": {}, "policies": {"w": torch.randn(4000)}, "algorithm": {}}
    save_checkpoint(path, content)
    data, noticed = path.read_bytes(), 0
    for place in range(7, len(data), len(data) // 60):
        path.write_bytes(data[:place] + bytes([data[place] ^ 4]) + data[place + 1 :])
        try:
            assert torch.equal(load_checkpoint(path)["policies"]["w"], content["policies"]["w"])
        except CheckpointError:
            noticed += 1
    assert noticed > 50  # the rest is padding


def test_a_checkpoint_cannot_run_code(tmp_path: Path):
    class Evil:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "evil"),)

    torch.save({"format": Evil()}, tmp_path / FILE)
    with pytest.raises(CheckpointError, match="is not a checkpoint of phalanx, or damaged"):
        load_checkpoint(tmp_path)
    assert not (tmp_path / "evil").exists()


def test_a_checkpoint_of_an_earlier_version_is_begun_with_but_not_resumed(tmp_path: Path):
    before, after = tmp_path / "before", tmp_path / "after"
    train(train_cfg(task="point", out=before, total_steps=400, **PPO), env=PointTeam(16))
    torch.save(load_checkpoint(before) | {"format": "phalanx-checkpoint/2"}, before / FILE)
    with pytest.raises(CheckpointError, match=f"is of an earlier version, .* --start-from {before} and another --out"):
        train(train_cfg(task="point", out=before, total_steps=800, resume=True, **PPO), env=PointTeam(16))
    begun = train(train_cfg(task="point", out=after, total_steps=400, start_from=before, **PPO), env=PointTeam(16))
    assert begun.finished


@pytest.mark.slow
def test_a_checkpoint_whose_task_was_edited_or_that_lacks_a_part_is_refused(tmp_path):
    run(tmp_path / "run")
    content = load_checkpoint(tmp_path / "run")
    task = load_task("hover")
    record = {"task": "hover", "task_data": task_record(task)}
    check_same_task(record, task, "")
    record["task_data"]["config"]["episode_s"] = 1.0
    with pytest.raises(CheckpointError, match="'hover' was changed after the training"):
        check_same_task(record, task, "")
    del content["policies"]
    save_checkpoint(tmp_path / FILE, content)
    with pytest.raises(CheckpointError, match="has no policies"):
        load_checkpoint(tmp_path)


def test_a_run_from_before_a_number_that_no_simulated_robot_acts_on_was_stated_is_of_the_same_task():
    task = load_task("stand")
    record = task_record(task)
    robot = record["robots"]["g1"]
    joints = [{name: each for name, each in joint.items() if name != "torque_speed"} for joint in robot["joints"]]

    def saved(**changes):
        parts = {**record, "robots": {"g1": {**robot, "joints": joints, "sources": {}, **changes}}}
        parts["hash"] = digest({name: part for name, part in parts.items() if name != "hash"})
        return {"task": "stand", "task_data": parts}

    check_same_task(saved(), task, "")
    with pytest.raises(CheckpointError, match=r"'stand' has changed since it was trained: g1.mass_kg \(30.0, now 33"):
        check_same_task(saved(mass_kg=30.0), task, "")
    with pytest.raises(CheckpointError, match=r"has changed since it was trained: g1\.joints;"):
        check_same_task(saved(joints=[{**joint, "max_effort": 1.0} for joint in joints]), task, "")
