"""Golden runs: what three short trainings come to, so that a change of shape shows that it changed nothing else.

`python tests/golden.py` prints the values as JSON, `python tests/golden.py --write` keeps them in tests/golden.json.
Hashes hold bit for bit on one kind of processor with one version of torch; the rounded figures hold on any.
"""

import hashlib
import json
import os
import platform
import sys
import tempfile
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # as in conftest.py: threads change the last bits of first weights

import numpy as np
import onnxruntime
import torch

from deploy.bundle import load_bundle
from deploy.runtime import PolicyRuntime
from policies.checkpoint import load_checkpoint
from policies.evaluation.evaluate import evaluate
from policies.evaluation.trained import load_controllers
from policies.export.export import export_team
from policies.training.train import CollectionCfg, TrainCfg, train
from sim.tasks import load_task

FILE = Path(__file__).with_suffix(".json")
TASKS = ("hover", "swarm-swap", "perch")
WORLDS, ITERATIONS = 64, 3
CURVE = ("agent_steps", "mean_return", "success_rate", "episode_steps")


def machine() -> dict[str, str]:
    """What bitwise equality depends on: a processor's name alone does not say which instructions it has."""
    lines = [line.partition(":") for line in Path("/proc/cpuinfo").read_text().splitlines()]
    about = {name.strip(): value.strip() for name, _, value in lines}
    kind = [about.get(name, "") for name in ("model name", "cpu family", "model")]
    vectors = sorted({"avx2", "avx512f", "avx512_vnni", "amx_tile"} & set(about.get("flags", "").split()))
    cpu = " ".join([*kind, *vectors]).strip() or platform.processor()
    return {"cpu": cpu, "torch": torch.__version__, "onnxruntime": onnxruntime.__version__}


def golden(task: str, folder: Path) -> dict[str, Any]:
    """Curve and weights after a few iterations, the file's outputs on its probes, and the shielded evaluation."""
    cfg = load_task(task)
    robots = sum(role.num_agents for role in cfg.groups.values())
    steps = ITERATIONS * 24 * WORLDS * robots  # three iterations or more, whatever the length of a rollout
    result = train(TrainCfg(task=task, out=folder / "run", collection=CollectionCfg(WORLDS), total_steps=steps, seed=3))
    saved = load_checkpoint(folder / "run")
    weights = [policy["state"] for policy in saved["policies"].values()]
    weights += list(saved["algorithm"]["critics"].values())
    files = export_team(folder / "run", folder)
    team = load_controllers(folder / "run")
    flown = evaluate(team if len(team) > 1 else next(iter(team.values())), cfg, num_worlds=32, seed=11, shield=True)
    curve = [[entry.get(name, float("nan")) for name in CURVE] for entry in result.return_curve]
    outcome = [flown.success_rate, flown.mean_return, flown.mean_episode_s, flown.intervention_rate]
    probes = _probe_outputs(sorted(files))
    return {
        "curve": _hash(np.array(curve)),
        "weights": _hash(*sorted((value.numpy() for net in weights for value in _parameters(net)), key=_hash)),
        "probes": _hash(*probes),
        "shielded": _hash(np.array(outcome)),
        "rounded": {
            "mean_return": [_rounded(entry["mean_return"]) for entry in result.return_curve if "mean_return" in entry],
            "probes": _rounded(float(np.mean([np.abs(value).mean() for value in probes]))),
            "shielded": [_rounded(value) for value in outcome],
        },
    }


def _parameters(network: dict[str, torch.Tensor]) -> list[torch.Tensor]:
    """What is learned by gradients, without the moments of normalisers."""
    return [value for name, value in network.items() if "normaliser" not in name and "returns" not in name]


def _probe_outputs(files: list[Path]) -> list[np.ndarray]:
    """Every output on every probe, computed by the file."""
    found = []
    for file in files:
        bundle = load_bundle(file)
        runtime = PolicyRuntime(bundle)
        for sequence in bundle.probes.sequences:
            memory = dict(sequence.memory)
            for t in range(len(next(iter(sequence.inputs.values())))):
                out = runtime.step_batch({name: value[t] for name, value in sequence.inputs.items()} | memory)
                memory = {m.input: out[m.output] for m in bundle.contract.memory}
                found += [out[name] for name in sorted(out)]
    return found


def _hash(*arrays: np.ndarray) -> str:
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(str(array.shape).encode() + np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:16]


def _rounded(value: float) -> float:
    return float(f"{value:.3g}")


def main() -> None:
    """Print, or write, the values of all golden tasks."""
    values: dict[str, Any] = {"machine": machine()}
    for task in TASKS:
        with tempfile.TemporaryDirectory() as folder:
            values[task] = golden(task, Path(folder))
    text = json.dumps(values, indent=2) + "\n"
    if "--write" in sys.argv:
        FILE.write_text(text)
    print(text, end="")


if __name__ == "__main__":
    main()
