"""Who flies, from what the command line says."""

from pathlib import Path

from phalanx.play.agents import make_agent
from policies.evaluate import make_pilot
from policies.pilot import BundlePilot, Pilot
from sim.tasks import load_task


def pilot_and_task(agent: str, file: Path | None, task: str, seed: int) -> tuple[Pilot, str]:
    """The pilot and the task's name: a policy file brings its own task, a simple agent flies `task`.

    ValueError without a file for "policy" and for an unknown task, BundleError for a bad file.
    """
    if agent != "policy":
        return make_agent(agent, seed, load_task(task)), task
    if file is None:
        raise ValueError("which policy? give a file, such as zoo/swarm-swap.onnx, or --agent zero|random|baseline")
    pilot = make_pilot(file)
    assert isinstance(pilot, BundlePilot)
    return pilot, load_task(pilot.runtime.contract.task).name
