"""`phalanx eval`: how well a policy does on starts that training never saw."""

from dataclasses import asdict
from typing import Annotated

import tyro

from phalanx.console import err, out, print_json
from phalanx.options import Agent, Count, OptionalPolicyFile


def evaluate(
    file: OptionalPolicyFile = None,
    agent: Agent = "policy",
    task: str = "swarm-swap",
    robots: Annotated[tuple[int, ...], tyro.conf.arg(metavar="INT...")] = (),
    episodes: int = 256,
    seed: Count = None,
    shield: bool = False,
    json: bool = False,
) -> int:
    """Fly held-out starts in simulation and count successes and collisions.

    One episode in each of many worlds, with randomisation on; rates come with 95 % intervals.

    Args:
        file: Policy file; needed by the agent "policy".
        agent: Who flies: the policy, nobody (zero), chance (random), or straight at the goal (baseline).
        task: Task of the simple agents; a policy file names its own.
        robots: Team sizes, one after the other; that of the task when not given.
        episodes: Worlds, one episode in each.
        seed: Of the starts; held out from training when not given.
        shield: Put the safety shield between policy and robots.
        json: Print one JSON object on stdout.
    """
    from phalanx.play.pilots import pilot_and_task
    from policies.evaluate import HELD_OUT_SEED
    from policies.evaluate import evaluate as run
    from sim.tasks import load_task

    start = HELD_OUT_SEED if seed is None else seed
    pilot, task = pilot_and_task(agent, file, task, start)
    results = []
    for size in robots or (load_task(task).num_agents,):
        with err.status(f"{episodes} episodes of {task} with {size} robots ..."):
            result = run(pilot, task, episodes, start, size, shield)
        results.append(asdict(result))
        if not json:
            low, high = result.success_interval
            least = "" if result.min_separation_m is None else f", closest {result.min_separation_m:.2f} m"
            out.print(
                f"{size} robots: success {100 * result.success_rate:.1f} % ({100 * low:.1f} to {100 * high:.1f}), "
                f"collisions {100 * result.collision_rate:.1f} %{least}, return {result.mean_return:.1f}, "
                f"shield busy {100 * result.intervention_rate:.0f} %"
            )
    if json:
        print_json({"task": task, "agent": agent, "seed": start, "teams": results})
    return 0
