"""Everything that a task says of itself, as plain data: commands, observations, actions, rewards, randomisation."""

from collections.abc import Iterable, Mapping
from typing import Any

from phalanx.catalogue.words import first_sentence, name_of, plain, when
from sim.env import TeamEnv
from sim.task import RewardTerm, TaskCfg, Term


def describe_task(task: TaskCfg) -> dict[str, Any]:
    """All of `task`; shapes are measured on the terms themselves, in one world."""
    env = TeamEnv(task, 1, seed=0)
    cfg, percept = task.observation, env.percept
    hears = {"max_peers": cfg.max_peers, "range_m": cfg.peer_range_m} if cfg.peer else None
    return {
        "name": task.name,
        "summary": task.summary,
        "robot": task.robot,
        "kind": env.robot.kind,
        "num_agents": task.num_agents,
        "episode_s": task.episode_s,
        "control_hz": env.robot.control_hz,
        "start": first_sentence(task.start),
        "objects": list(task.scene.objects),
        "commands": [
            {"name": name, "low": list(c.low), "high": list(c.high), "unit": c.unit, "frame": c.frame}
            | {"meaning": c.meaning, "moves": task.motion is not None}
            for name, c in task.commands.items()
        ],
        "observation": {
            "own": [_shaped(name, t, percept) for name, t in cfg.own.items()],
            "peer": [_shaped(name, t, percept) for name, t in cfg.peer.items()],
            "critic": [_shaped(name, t, env.now) for name, t in cfg.critic.items()],
            "memory": [_term(name, t) | {"size": len(t.initial)} for name, t in cfg.memory.items()],
            "hears": hears,
        },
        "actions": list(_actions(task, env)),
        "rewards": [_term(name, t) for name, t in task.rewards.items()],
        "failures": [_term(name, t) for name, t in task.failures.items()],
        "success": _term("success", task.success) | {"hold_s": task.success_hold_s},
        "curriculum": plain(task.curriculum),
        "noise": {name: value for name, value in plain(task.noise).items() if value},
        "randomisation": [
            {"name": name, "function": name_of(t.func), "meaning": first_sentence(t.func), "params": plain(t.params)}
            | {"when": when(t.every_s)}
            for name, t in task.randomisation.items()
        ],
        "baseline": None if task.baseline is None else _term("baseline", task.baseline),
        "training": {"num_envs": task.num_envs, "steps": task.train_steps, "ppo": plain(task.ppo)},
        "shield": plain(task.shield),
        "verify_teams": list(task.verify_teams),
    }


def _term(name: str, term: Term) -> dict[str, Any]:
    found = {"name": name, "function": name_of(term.func), "meaning": first_sentence(term.func)}
    weight = {"weight": term.weight} if isinstance(term, RewardTerm) else {}
    return found | {"params": plain(term.params)} | weight


def _shaped(name: str, term: Term, seen: Any) -> dict[str, Any]:
    return _term(name, term) | {"size": int(term.func(seen, **term.params).shape[-1])}


def _actions(task: TaskCfg, env: TeamEnv) -> Iterable[Mapping[str, Any]]:
    """One row a channel: what the actions -1 and 1 mean, and what the drive takes."""
    cfg = task.action
    relative = cfg.relative or (False,) * len(cfg.centre)
    for channel, centre, scale, steps in zip(env.robot.channels, cfg.centre, cfg.scale, relative, strict=True):
        yield {
            "channel": channel.name,
            "unit": channel.unit,
            "low": channel.low,
            "high": channel.high,
            "centre": None if steps else centre,
            "scale": scale,
            "relative": bool(steps),
            "basis": None if cfg.basis is None else name_of(cfg.basis.func),
        }
