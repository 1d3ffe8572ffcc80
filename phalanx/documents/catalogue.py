"""A task as data and as tables, described from the code that defines it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from policies.task_data import describe, first_sentence
from sim.envs.agents import AgentGroup
from sim.envs.team_env import TeamEnv
from sim.task import GroupCfg, TaskCfg

LONGEST = 6  # numbers of a list that are written out
TERM = ("name", "size", "meaning", "params")
Rows = list[tuple[str, ...]]


def in_words(value: Any) -> str:
    """Parameters in a line, `scale 0.95 to 1.05, distance_m 0.1`; two rising numbers are a range."""
    value = describe(value)
    if isinstance(value, dict):
        return ", ".join(f"{name} {in_words(item)}" for name, item in value.items())
    if isinstance(value, list | tuple):
        if len(value) == 2 and all(isinstance(v, int | float) for v in value) and value[0] <= value[1]:
            return f"{value[0]:g} to {value[1]:g}"
        shown = [in_words(item) for item in (value if len(value) <= LONGEST else value[:2])]
        return f"({', '.join([*shown, *([f'... {len(value)} in all'] if len(value) > LONGEST else [])])})"
    return str(value) if isinstance(value, bool) or not isinstance(value, int | float) else f"{value:g}"


def when(interval_range_s: tuple[float, float] | None) -> str:
    """How often a randomisation is drawn again."""
    if interval_range_s is None:
        return "each episode"
    low, high = interval_range_s
    return "each step" if high == 0 else f"every {low:g} s" if low == high else f"every {low:g} to {high:g} s"


def describe_task(task: TaskCfg) -> dict[str, Any]:
    """`task` as JSON data, with what belongs to a group under `groups`."""
    env = TeamEnv(task, 1, seed=0)
    return {
        "name": task.name,
        "summary": task.summary,
        "episode_s": task.episode_s,
        "episode_robots": task.episode_robots,
        "control_hz": 1.0 / env.control_dt,
        "start": first_sentence(task.starts),
        "objects": list(task.scene.objects),
        "success_hold_s": task.success_hold_s,
        "curriculum": describe(task.curriculum),
        "training": {"num_envs": task.num_envs, "steps": task.train_steps},
        "verify_teams": list(task.verify_teams),
        "groups": {name: describe_group(task.groups[name], group) for name, group in env.groups.items()},
    }


def describe_group(cfg: GroupCfg, group: AgentGroup) -> dict[str, Any]:
    """`cfg` as JSON data; the sizes of its observations are measured on the robots of `group`."""
    seen = cfg.observation
    moves = cfg.update_commands is not None
    return {
        "robot": cfg.robot,
        "kind": group.robot.kind,
        "num_agents": cfg.num_agents,
        "commands": [{"name": name, **describe(c), "moves": moves} for name, c in cfg.commands.items()],
        "observation": {
            "own": _sized(seen.own, group.policy_input),
            "peer": _sized(seen.peer, group.policy_input),
            "privileged": _sized(seen.privileged, group.now),
            "memory": [{**_term(name, term), "size": len(term.initial)} for name, term in seen.memory.items()],
            "neighbours": {"max_peers": seen.max_peers, "range_m": seen.peer_range_m} if seen.peer else None,
        },
        "actions": _actions(cfg, group),
        "rewards": [{**_term(name, term), "weight": term.weight} for name, term in cfg.rewards.items()],
        "terminations": [_term(name, term) for name, term in cfg.terminations.items()],
        "success": _term("success", cfg.success),
        "noise": {name: value for name, value in describe(cfg.noise).items() if value},
        "randomisation": [
            {**_term(name, term), "when": when(term.interval_range_s)} for name, term in cfg.randomisation.items()
        ],
        "baseline": None if cfg.baseline is None else _term("baseline", cfg.baseline),
        "ppo": describe(cfg.training.get("ppo", {})),
        "shield": describe(cfg.shield),
    }


def _term(name: str, term: Any) -> dict[str, Any]:
    function = describe(term.func)
    return {"name": name, "function": function, "meaning": first_sentence(term.func), "params": describe(term.params)}


def _sized(terms: Mapping[str, Any], seen: Any) -> list[dict[str, Any]]:
    return [{**_term(n, t), "size": int(t.func(seen, **t.params).shape[-1])} for n, t in terms.items()]


def _actions(cfg: GroupCfg, group: AgentGroup) -> list[dict[str, Any]]:
    """One row a channel: what the actions -1 and 1 mean, and what the drive takes."""
    action = cfg.action
    relative = action.relative or (False,) * len(action.centre)
    transform = action.transform and describe(action.transform.func).rpartition(".")[2]
    return [
        {
            "channel": channel.name,
            "unit": channel.unit,
            "low": channel.low,
            "high": channel.high,
            "centre": None if steps else centre,
            "scale": scale,
            "relative": bool(steps),
            "moves": transform,
        }
        for channel, centre, scale, steps in zip(
            group.robot.channels, action.centre, action.scale, relative, strict=True
        )
    ]


class Section(NamedTuple):
    """A table with a title."""

    title: str
    columns: tuple[str, ...]
    rows: Rows


def sections_of(task: Mapping[str, Any]) -> list[Section]:
    """The tables of a described task that have rows, with the group in front of their titles where it has several."""
    found = []
    for name, group in task["groups"].items():
        front = f"{name}: " if len(task["groups"]) > 1 else ""
        found += [s._replace(title=front + s.title) for s in _of_group(group, task["success_hold_s"]) if s.rows]
    return [*found, Section("Episodes and training", ("what", "how"), _rest(task))]


def team_in_words(task: Mapping[str, Any]) -> str:
    """Who takes part: `4 robots (crazyflie)`, `2 lifter (x500), 1 carrier (panda)`."""
    groups = task["groups"]
    if len(groups) > 1:
        return ", ".join(f"{group['num_agents']} {name} ({group['robot']})" for name, group in groups.items())
    (group,) = groups.values()
    count = group["num_agents"]
    return f"{'one robot' if count == 1 else f'{count} robots'} ({group['robot']})"


def _of_group(group: Mapping[str, Any], hold_s: float) -> list[Section]:
    seen, success = group["observation"], group["success"]
    heard = seen["neighbours"] or {"max_peers": 0, "range_m": 0.0}
    peers = f"Observations of the nearest {heard['max_peers']} robots within {heard['range_m']:g} m"
    held = f"{success['meaning']} Held for the last {hold_s:g} s of the episode."

    def terms(title: str, found: Iterable[Mapping[str, Any]], *columns: str) -> Section:
        rows: Rows = [tuple(in_words(term[column]) for column in columns) for term in found]
        return Section(title, tuple({"params": "parameters"}.get(column, column) for column in columns), rows)

    return [
        Section("Commands", ("command", "range", "frame", "meaning"), [_command(c) for c in group["commands"]]),
        terms("Observations", seen["own"], *TERM),
        terms(peers, seen["peer"], *TERM),
        terms("Memory", seen["memory"], *TERM),
        terms("Privileged: seen by the critic only", seen["privileged"], *TERM),
        Section("Actions", ("channel", "action -1 to 1 means", "the drive takes"), actions_in_words(group["actions"])),
        terms("Rewards, in each control step", group["rewards"], "name", "weight", "meaning", "params"),
        terms("Terminations", group["terminations"], "name", "meaning", "params"),
        Section("Success", ("meaning", "parameters"), [(held, in_words(success["params"]))]),
        terms("Randomisation", group["randomisation"], "name", "meaning", "params", "when"),
        Section("Training, shield and baseline", ("what", "how"), _settings(group)),
    ]


def actions_in_words(actions: Sequence[Mapping[str, Any]]) -> Rows:
    """Rows of the table of actions; joints that are all driven alike share one."""
    rows: Rows = []
    alike: dict[tuple, list[Mapping[str, Any]]] = {}
    for action in actions:
        key = (action["relative"], action["moves"], action["scale"], action["unit"], action["centre"])
        alike.setdefault(key if action["relative"] else (*key, action["channel"]), []).append(action)
    for group in alike.values():
        first, unit = group[0], group[0]["unit"]
        if first["relative"]:
            where = f" by {first['moves']}" if first["moves"] else ""
            means = f"a step of up to {first['scale']:g} {unit} from where it is measured{where}"
        else:
            low, high = first["centre"] - first["scale"], first["centre"] + first["scale"]
            means = f"{low:.4g} to {high:.4g} {unit}" if high > low else f"nothing: held at {low:.4g} {unit}"
        takes = f"{first['low']:.4g} to {first['high']:.4g} {unit}" if len(group) == 1 else "each its own range"
        rows.append((", ".join(action["channel"] for action in group), means, takes))
    return rows


def _command(command: Mapping[str, Any]) -> tuple[str, ...]:
    ranges = ", ".join(f"{low:g} to {high:g}" for low, high in zip(command["low"], command["high"], strict=True))
    moves = "; it moves" if command["moves"] else ""
    return command["name"], f"{ranges} {command['unit']}", command["frame"], command["meaning"] + moves


def _settings(group: Mapping[str, Any]) -> Rows:
    rows = [
        ("measurement noise, standard deviation", in_words(group["noise"])),
        ("baseline", group["baseline"]["meaning"] if group["baseline"] else ""),
        ("PPO", in_words(group["ppo"])),
        ("shield", in_words(group["shield"])),
    ]
    return [row for row in rows if row[1]]


def _rest(task: Mapping[str, Any]) -> Rows:
    training, curriculum = task["training"], task["curriculum"]
    rows = [
        ("start", task["start"]),
        ("tracked objects", ", ".join(task["objects"])),
        ("curriculum", f"difficulty 0 to 1: {in_words(curriculum)}, after a success or failure" if curriculum else ""),
        ("training", f"{training['steps']:,} agent steps in {training['num_envs']} worlds"),
        ("teams that are verified too", ", ".join(map(str, task["verify_teams"]))),
        ("episode of more robots", f"longer in proportion, from {most} on" if (most := task["episode_robots"]) else ""),
    ]
    return [row for row in rows if row[1]]
