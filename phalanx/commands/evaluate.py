"""`phalanx eval`: how well a policy does on starts that training never saw."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from hardware.ranges import check_range
from phalanx.console import err, out, print_json
from phalanx.options import Agent, Count, Counts, Device, Engine, Json, Subjects, TaskFlag, check_robots, check_seed
from phalanx.verification.verdict import team_in_words

MOST = 3  # kinds of what the shield corrected for that are named in a line


def evaluate(
    subjects: Subjects = (),
    agent: Agent = "policy",
    task: TaskFlag = None,
    robots: Counts = (),
    episodes: int = 256,
    seed: Count = None,
    seeds: int = 1,
    shield: bool = True,
    engine: Engine = "mujoco",
    device: Device = None,
    json: Json = False,
) -> int:
    """Play held-out starts in simulation and count successes and failures.

    One episode in each of many worlds, with randomisation on; rates come with 95 % intervals.

    Args:
        robots: Team sizes, one after the other; that of the task when not given.
        episodes: Worlds, one episode in each.
        seed: Of the starts; held out from training when not given.
        seeds: How many sets of starts, from the seed on: a line for each, and what they come to together.
        shield: Fly without the safety shield, which is there by default, as on a robot.
        engine: Physics, see docs/engines.md.
        device: An accelerator where there is one and the engine uses it, when not given.
    """
    check_seed(seed)
    check_robots(*robots)
    check_range("episodes", episodes, 1)
    check_range("seeds", seeds, 1)
    from phalanx.subjects import check_subjects, runners_and_task

    check_subjects(subjects, task)
    from phalanx.report.places import collision_distance
    from policies.evaluation.evaluate import HELD_OUT_SEED
    from policies.evaluation.evaluate import evaluate as run
    from policies.evaluation.policy_runner import BundleRunner

    start = HELD_OUT_SEED if seed is None else seed
    runners, cfg = runners_and_task(agent, subjects, task, start)
    if robots and len(cfg.groups) > 1:
        raise ValueError(f"{cfg.name} has groups ({', '.join(cfg.groups)}) with team sizes of their own")
    results: list[dict[str, Any]] = []
    for size in robots or (None,):
        for each in range(start, start + seeds):
            with err.status(f"{episodes} episodes of {cfg.name} ..."):
                result = run(runners, cfg, episodes, each, size, shield, engine=engine, device=device)
            results.append(asdict(result) | {"seed": each})
            if not json:
                which = f"seed {each}  " if seeds > 1 else ""
                out.print(which + sentence(results[-1], touching=collision_distance(cfg) > 0.0))
        if seeds > 1 and not json:
            out.print(together(results[-seeds:]))
    if json:
        files = [runner.runtime.fingerprint for runner in runners.values() if isinstance(runner, BundleRunner)]
        print_json(
            {"task": cfg.name, "agent": agent, "engine": engine, "fingerprints": files, "seed": start, "teams": results}
        )
    return 0


def together(results: Sequence[Mapping[str, Any]]) -> str:
    """Success of one team over sets of starts of equal size, in a line."""
    from policies.evaluation.evaluate import wilson

    rates = [result["success_rate"] for result in results]
    episodes = sum(result["episodes"] for result in results)
    share = sum(rates) / len(rates)
    low, high = wilson(round(share * episodes), episodes)
    return (
        f"{team_in_words(results[0]['num_agents'])}: {len(rates)} seeds together, success {100 * share:.1f} % "
        f"({100 * low:.1f} to {100 * high:.1f}), of one seed {100 * min(rates):.1f} to {100 * max(rates):.1f} %"
    )


def sentence(result: Mapping[str, Any], touching: bool) -> str:
    """One team's figures in a line; the closest pair only where robots could have touched."""
    size, (low, high) = result["num_agents"], result["success_interval"]
    parts = [f"success {100 * result['success_rate']:.1f} % ({100 * low:.1f} to {100 * high:.1f})"]
    failed = {name: rate for name, rate in result["failure_rates"].items() if rate > 0.0}
    parts += [f"{name} {100 * rate:.1f} %" for name, rate in failed.items()] or ["no failure"]
    if touching and result["min_separation_m"] is not None:
        parts.append(f"closest {result['min_separation_m']:.2f} m")
    parts.append(f"return {result['mean_return']:.1f} in {result['mean_episode_s']:.1f} s")
    if result["shield"]:
        kinds = [f"{kind} {100 * share:.1f} %" for kind, share in list(result["corrected_by"].items())[:MOST]]
        parts.append(f"shield intervened {100 * result['intervention_rate']:.1f} % of the time")
        parts[-1] += f" ({', '.join(kinds)})" * bool(kinds)
    return f"{team_in_words(size)}: {', '.join(parts)}"
