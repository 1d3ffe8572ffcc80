"""How policies do on engines that they were not trained on: `python benchmarks/engine_transfer.py FILE-OR-RUN...`.

Each plays one episode in each of many held-out worlds on every engine, with the same randomisation. Printed as JSON:
the engine of its training, where that is known, and its success on each with the 95 % interval; or why one cannot.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from deploy.runtime import PolicyRuntime
from policies.checkpoint import load_checkpoint
from policies.evaluation.evaluate import evaluate
from policies.evaluation.policy_runner import BundleRunner, PolicyRunner, TorchRunner
from policies.evaluation.trained import load_controller
from sim.physics import EngineError


def load(path: Path) -> tuple[str, str | None, PolicyRunner]:
    """Task, engine of training and policy runner of a policy file or the folder of a run."""
    if path.suffix == ".onnx":
        runtime = PolicyRuntime.load(path)
        return runtime.contract.task, None, BundleRunner(runtime)
    saved = load_checkpoint(path)
    return saved["run"]["task"], saved["run"]["engines"][-1], TorchRunner(load_controller(path))


def transfer(path: Path, engines: list[str], episodes: int) -> dict[str, Any]:
    """One policy on every engine."""
    task, trained_on, runner = load(path)
    found: dict[str, Any] = {}
    for engine in engines:
        try:
            result = evaluate(runner, task, episodes, engine=engine)
        except EngineError as error:
            found[engine] = str(error)
            continue
        found[engine] = {"success": result.success_rate, "interval": result.success_interval}
    return {"policy": str(path), "task": task, "trained_on": trained_on, "episodes": episodes, "engines": found}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("policies", type=Path, nargs="+", help="policy files, or folders of training runs")
    parser.add_argument("--engines", nargs="+", default=["mujoco", "warp", "mjx"])
    parser.add_argument("--episodes", type=int, default=256)
    args = parser.parse_args()
    print(json.dumps([transfer(path, args.engines, args.episodes) for path in args.policies], indent=2))
