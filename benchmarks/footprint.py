"""Start-up time and memory of an environment, in a process of its own.

`python -m benchmarks.footprint hover 16384` is one such process.
"""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

STEPS = 3  # enough that every buffer is there


def footprint(task: str, num_envs: int) -> dict[str, Any]:
    """Seconds to import, to make the environment and for its first step; peak of resident memory, bytes.

    RuntimeError with the last line of what the process said where it fails.
    """
    command = [sys.executable, "-m", "benchmarks.footprint", task, str(num_envs)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[1])
    if done.returncode:
        raise RuntimeError(f"{num_envs} worlds of {task}: {done.stderr.strip().splitlines()[-1]}")
    return json.loads(done.stdout)


def per_world(rows: list[dict[str, Any]]) -> float | None:
    """Bytes that one more world takes: the slope between the smallest and the largest of `footprint`'s rows."""
    small, large = (pick(rows, key=lambda row: row["num_envs"]) for pick in (min, max))
    if small["num_envs"] == large["num_envs"]:
        return None
    return (large["peak_rss_bytes"] - small["peak_rss_bytes"]) / (large["num_envs"] - small["num_envs"])


def _measure(task: str, num_envs: int) -> dict[str, Any]:
    began = time.perf_counter()
    import torch

    from sim.envs.team_env import TeamEnv
    from sim.tasks import load_task

    cfg = load_task(task)
    imported = time.perf_counter()
    torch.set_num_threads(1)
    env = TeamEnv(cfg, num_envs, 0)
    made = time.perf_counter()
    action = {name: torch.zeros(num_envs, c.num_agents, c.action_dim) for name, c in env.groups.items()}
    env.step(action)
    stepped = time.perf_counter()
    for _ in range(STEPS):
        env.step(action)
    return {
        "num_envs": num_envs,
        "import_s": imported - began,
        "make_env_s": made - imported,
        "first_step_s": stepped - made,
        "peak_rss_bytes": _peak_rss(),
    }


def _peak_rss() -> int:
    """Most memory that this program had resident, bytes; unlike `getrusage` without what its parent had."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return 1024 * int(line.split()[1])
    raise RuntimeError("this system does not tell a process its peak memory")


if __name__ == "__main__":
    json.dump(_measure(sys.argv[1], int(sys.argv[2])), sys.stdout)
