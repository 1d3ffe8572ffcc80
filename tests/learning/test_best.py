"""What a run keeps beside its last checkpoint: the best policies, and logs elsewhere where that is asked for."""

import importlib.util
from pathlib import Path

import pytest
import torch
from point_team import PointTeam
from small_run import train_cfg

from deploy.bundle import load_bundle
from phalanx.cli import main
from policies.checkpoint import BEST, load_checkpoint, save_policies
from policies.training.train import TrainCfg, train
from policies.training.trainer import Trainer

POINT = dict(num_steps=20, minibatch=320, hidden=32, peer_embed=16)
HOVER = dict(num_steps=8, epochs=1, minibatch=64, hidden=16, peer_embed=8)


def phalanx(*args: object) -> object:
    with pytest.raises(SystemExit) as ended:
        main([str(arg) for arg in args])
    return ended.value.code


@pytest.mark.slow
def test_the_best_policies_are_kept_although_the_last_are_worse(tmp_path: Path):
    cfg = train_cfg(task="point", out=tmp_path, total_steps=20 * 32 * 2 * 30, checkpoint_every=1, **POINT)

    trainers: list[Trainer] = []
    begin = Trainer.__init__

    def remember(self: Trainer, *args) -> None:
        begin(self, *args)
        trainers.append(self)

    def spoil(numbers: dict[str, float]) -> None:
        if numbers["iteration"] == 27:  # from here on no robot stays at the origin
            with torch.no_grad():
                trainers[0].policy.head.bias.add_(5.0)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trainer, "__init__", remember)
        train(cfg, on_progress=spoil, env=PointTeam(32))
    best, last = load_checkpoint(tmp_path / BEST), load_checkpoint(tmp_path)
    curve = {point["agent_steps"]: point for point in last["progress"]["curve"] if "success_rate" in point}
    assert best["progress"]["iteration"] <= 27 < last["progress"]["iteration"]
    kept, end = (curve[content["progress"]["agent_steps"]]["success_rate"] for content in (best, last))
    assert kept == max(point["success_rate"] for point in curve.values()) > end
    assert last["progress"]["best"][0] == pytest.approx(kept)


@pytest.mark.slow
@pytest.mark.usefixtures("quickly_exported")
def test_export_takes_the_best_when_asked_and_says_when_there_is_none(tmp_path: Path, capsys):
    run = tmp_path / "run"
    train(train_cfg(task="hover", out=run, num_envs=8, total_steps=8 * 8 * 2, **HOVER))
    assert phalanx("export", run, "--best", "--out", tmp_path / "a.onnx") == 2
    said = capsys.readouterr().err
    assert "best.pt" in said and "ended an episode" in said and "Traceback" not in said
    content = load_checkpoint(run)
    save_policies(run / BEST, content)
    assert phalanx("sign", "--new-key", "--key", key := tmp_path / "my.pem") == 0
    public = capsys.readouterr().out.strip()
    assert phalanx("export", run, "--best", "--out", tmp_path / "a.onnx", "--sign-key", key) == 0
    assert load_bundle(tmp_path / "a.onnx").signer == public and "best.pt" in capsys.readouterr().out


@pytest.mark.skipif(importlib.util.find_spec("wandb") is not None, reason="it is installed here")
def test_a_log_that_cannot_be_kept_is_refused_in_one_line_before_anything_is_done(tmp_path: Path, capsys):
    with pytest.raises(ValueError, match=r"pip install 'phalanx\[wandb\]'"):
        TrainCfg(wandb=True)
    assert phalanx("train", "hover", "--wandb", "--out", tmp_path / "run") == 2
    assert "phalanx[wandb]" in capsys.readouterr().err and not (tmp_path / "run").exists()


def test_numbers_go_to_weights_and_biases_too(tmp_path: Path, monkeypatch):
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    train(train_cfg(task="point", out=tmp_path, total_steps=2000, wandb=True, **POINT), env=PointTeam(16))
    assert list((tmp_path / "wandb").glob("offline-run-*/*.wandb"))
