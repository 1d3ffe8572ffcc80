"""Every example runs as its first lines say."""

import importlib.util
from pathlib import Path

import numpy as np
import torch
from bundle_fixture import save_policy

EXAMPLES = Path(__file__).parent.parent / "examples"


def load(name: str):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_onnxruntime_alone_flies_a_policy_file(tmp_path, capsys):
    save_policy(tmp_path / "policy.onnx")
    target = load("onnxruntime_only").main(str(tmp_path / "policy.onnx"))
    assert target.shape == (1, 4) and np.isfinite(target).all()
    assert "thrust" in capsys.readouterr().out


def test_a_task_of_ones_own_trains_with_its_own_term(tmp_path):
    torch.set_num_threads(1)
    result = load("own_task").main(tmp_path, steps=2048, num_envs=8)
    assert result.finished and result.path.exists()


def test_no_example_is_left_out():
    tested = Path(__file__).read_text()
    assert all(f'load("{path.stem}")' in tested for path in EXAMPLES.glob("*.py"))
