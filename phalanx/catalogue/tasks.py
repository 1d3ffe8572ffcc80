"""Everything that a task says of itself, as plain data: commands, sensing, actions, rewards, randomisation."""

from collections.abc import Iterable, Mapping
from typing import Any

from phalanx.catalogue.words import first_sentence, name_of, plain, when
from sim.crew import Crew
from sim.env import MixedEnv
from sim.task import MixedTaskCfg, RewardTerm, RoleCfg, TaskCfg, Term


def describe_task(task: TaskCfg | MixedTaskCfg) -> dict[str, Any]:
    """All of `task`, with what belongs to a role under `roles`; a task for like robots has one, named after them."""
    env = MixedEnv(task, 1, seed=0)
    return {
        "name": task.name,
        "summary": task.summary,
        "episode_s": task.episode_s,
        "control_hz": 1.0 / env.control_dt,
        "start": first_sentence(task.start if isinstance(task, TaskCfg) else task.starts),
        "objects": list(task.scene.objects),
        "success_hold_s": task.success_hold_s,
        "curriculum": plain(task.curriculum),
        "training": {"num_envs": task.num_envs, "steps": task.train_steps},
        "verify_teams": list(task.verify_teams) if isinstance(task, TaskCfg) else [],
        "roles": {name: describe_role(task.roles[name], crew) for name, crew in env.crews.items()},
    }


def describe_role(role: RoleCfg, crew: Crew) -> dict[str, Any]:
    """All of `role`; sizes are measured on its terms themselves, for the robots of `crew`."""
    cfg, percept = role.observation, crew.percept
    hears = {"max_peers": cfg.max_peers, "range_m": cfg.peer_range_m} if cfg.peer else None
    return {
        "robot": role.robot,
        "kind": crew.robot.kind,
        "num_agents": role.num_agents,
        "commands": [
            {"name": name, "low": list(c.low), "high": list(c.high), "unit": c.unit, "frame": c.frame}
            | {"meaning": c.meaning, "moves": role.motion is not None}
            for name, c in role.commands.items()
        ],
        "observation": {
            "own": [_sized(name, t, percept) for name, t in cfg.own.items()],
            "peer": [_sized(name, t, percept) for name, t in cfg.peer.items()],
            "critic": [_sized(name, t, crew.now) for name, t in cfg.critic.items()],
            "memory": [_term(name, t) | {"size": len(t.initial)} for name, t in cfg.memory.items()],
            "hears": hears,
        },
        "actions": list(_actions(role, crew)),
        "rewards": [_term(name, t) for name, t in role.rewards.items()],
        "failures": [_term(name, t) for name, t in role.failures.items()],
        "success": _term("success", role.success),
        "noise": plain(role.noise),
        "randomisation": [
            {"name": name, "function": name_of(t.func), "meaning": first_sentence(t.func), "params": plain(t.params)}
            | {"when": when(t.every_s)}
            for name, t in role.randomisation.items()
        ],
        "baseline": None if role.baseline is None else _term("baseline", role.baseline),
        "ppo": plain(role.ppo),
        "shield": plain(role.shield),
    }


def _term(name: str, term: Term) -> dict[str, Any]:
    found = {"name": name, "function": name_of(term.func), "meaning": first_sentence(term.func)}
    weight = {"weight": term.weight} if isinstance(term, RewardTerm) else {}
    return found | {"params": plain(term.params)} | weight


def _sized(name: str, term: Term, seen: Any) -> dict[str, Any]:
    return _term(name, term) | {"size": int(term.func(seen, **term.params).shape[-1])}


def _actions(role: RoleCfg, crew: Crew) -> Iterable[Mapping[str, Any]]:
    """One row a channel: what the actions -1 and 1 mean, and what the drive takes."""
    cfg = role.action
    relative = cfg.relative or (False,) * len(cfg.centre)
    for channel, centre, scale, steps in zip(crew.robot.channels, cfg.centre, cfg.scale, relative, strict=True):
        yield {
            "channel": channel.name,
            "unit": channel.unit,
            "low": channel.low,
            "high": channel.high,
            "centre": None if steps else centre,
            "scale": scale,
            "relative": bool(steps),
            "moves": None if cfg.moves is None else name_of(cfg.moves.func),
        }
