"""What there is: tasks, randomisation and shipped policies, described from the code that defines them."""

import inspect
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, NamedTuple

from sim import randomisation
from sim.envs.agents import AgentGroup
from sim.envs.state import RobotsState
from sim.envs.team_env import TeamEnv
from sim.task import GroupCfg, TaskCfg
from sim.tasks import load_task, task_names
from sim.terms import RewardTerm, Term

LONGEST = 6  # numbers of a list that are written out
Rows = list[tuple[str, ...]]


def first_sentence(thing: Callable[..., Any] | None) -> str:
    """The first sentence of what `thing` says of itself, on one line."""
    text = " ".join((getattr(thing, "__doc__", None) or "").split())
    return re.split(r"(?<=[^.]\.)\s", text, maxsplit=1)[0]


def name_of(function: Callable[..., Any]) -> str:
    """Module and name of a function, from the package on: sim/terms/rewards.py is `rewards`."""
    module = getattr(function, "__module__", "").rpartition(".")[2]
    return f"{module}.{getattr(function, '__name__', type(function).__name__)}"


def plain(value: Any) -> Any:
    """`value` as JSON has it: functions by name, dataclasses and arrays as what they hold, without zeros and Nones."""
    if is_dataclass(value) and not isinstance(value, type):
        found = {f.name: plain(getattr(value, f.name)) for f in fields(value)}
        return {name: item for name, item in found.items() if item not in (None, 0.0)}
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    value = value.tolist() if hasattr(value, "tolist") else name_of(value) if callable(value) else value
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    return value if isinstance(value, str | bool | int | float | None) else str(value)


def in_words(value: Any) -> str:
    """Parameters as a person writes them, `scale 0.95 to 1.05, distance_m 0.1`; two rising numbers are a range."""
    value = plain(value)
    if isinstance(value, dict):
        return ", ".join(f"{name} {in_words(item)}" for name, item in value.items())
    if isinstance(value, list):
        if len(value) == 2 and all(isinstance(v, int | float) for v in value) and value[0] <= value[1]:
            return f"{value[0]:g} to {value[1]:g}"
        shown = [in_words(item) for item in (value if len(value) <= LONGEST else value[:2])]
        return f"({', '.join([*shown, *([f'... {len(value)} in all'] if len(value) > LONGEST else [])])})"
    return str(value) if isinstance(value, bool) or not isinstance(value, int | float) else f"{value:g}"


def when(interval_range_s: tuple[float, float] | None) -> str:
    """How often something is drawn anew."""
    if interval_range_s is None:
        return "each episode"
    low, high = interval_range_s
    if high == 0:
        return "each step"
    return f"every {low:g} s" if low == high else f"every {low:g} to {high:g} s"


def describe_task(task: TaskCfg) -> dict[str, Any]:
    """All of `task`, with what belongs to a group under `groups`; a task for like robots has one, named after them."""
    env = TeamEnv(task, 1, seed=0)
    return {
        "name": task.name,
        "summary": task.summary,
        "episode_s": task.episode_s,
        "control_hz": 1.0 / env.control_dt,
        "start": first_sentence(task.starts),
        "objects": list(task.scene.objects),
        "success_hold_s": task.success_hold_s,
        "curriculum": plain(task.curriculum),
        "training": {"num_envs": task.num_envs, "steps": task.train_steps},
        "verify_teams": list(task.verify_teams),
        "groups": {name: describe_role(task.groups[name], group) for name, group in env.groups.items()},
    }


def describe_role(role: GroupCfg, group: AgentGroup) -> dict[str, Any]:
    """All of `role`; sizes are measured on its terms themselves, for the robots of `group`."""
    cfg, policy_input = role.observation, group.policy_input
    peers = {"max_peers": cfg.max_peers, "range_m": cfg.peer_range_m} if cfg.peer else None
    return {
        "robot": role.robot,
        "kind": group.robot.kind,
        "num_agents": role.num_agents,
        "commands": [
            {"name": name, "low": list(c.low), "high": list(c.high), "unit": c.unit, "frame": c.frame}
            | {"meaning": c.meaning, "moves": role.update_commands is not None}
            for name, c in role.commands.items()
        ],
        "observation": {
            "own": [_sized(name, t, policy_input) for name, t in cfg.own.items()],
            "peer": [_sized(name, t, policy_input) for name, t in cfg.peer.items()],
            "privileged": [_sized(name, t, group.now) for name, t in cfg.privileged.items()],
            "memory": [_term(name, t) | {"size": len(t.initial)} for name, t in cfg.memory.items()],
            "neighbours": peers,
        },
        "actions": list(_actions(role, group)),
        "rewards": [_term(name, t) for name, t in role.rewards.items()],
        "terminations": [_term(name, t) for name, t in role.terminations.items()],
        "success": _term("success", role.success),
        "noise": plain(role.noise),
        "randomisation": [
            {"name": name, "function": name_of(t.func), "meaning": first_sentence(t.func), "params": plain(t.params)}
            | {"when": when(t.interval_range_s)}
            for name, t in role.randomisation.items()
        ],
        "baseline": None if role.baseline is None else _term("baseline", role.baseline),
        "ppo": plain(role.training.get("ppo", {})),
        "shield": plain(role.shield),
    }


def _term(name: str, term: Term) -> dict[str, Any]:
    found = {"name": name, "function": name_of(term.func), "meaning": first_sentence(term.func)}
    weight = {"weight": term.weight} if isinstance(term, RewardTerm) else {}
    return found | {"params": plain(term.params)} | weight


def _sized(name: str, term: Term, seen: Any) -> dict[str, Any]:
    return _term(name, term) | {"size": int(term.func(seen, **term.params).shape[-1])}


def _actions(role: GroupCfg, group: AgentGroup) -> Iterable[Mapping[str, Any]]:
    """One row a channel: what the actions -1 and 1 mean, and what the drive takes."""
    cfg = role.action
    relative = cfg.relative or (False,) * len(cfg.centre)
    for channel, centre, scale, steps in zip(group.robot.channels, cfg.centre, cfg.scale, relative, strict=True):
        yield {
            "channel": channel.name,
            "unit": channel.unit,
            "low": channel.low,
            "high": channel.high,
            "centre": None if steps else centre,
            "scale": scale,
            "relative": bool(steps),
            "moves": None if cfg.transform is None else name_of(cfg.transform.func),
        }


class Section(NamedTuple):
    """A table with a title."""

    title: str
    columns: tuple[str, ...]
    rows: Rows


def sections_of(task: Mapping[str, Any]) -> list[Section]:
    """The tables of one task that have rows, with the group in front of their titles where it has several."""
    found = []
    for name, role in task["groups"].items():
        front = f"{name}: " if len(task["groups"]) > 1 else ""
        found += [s._replace(title=front + s.title) for s in _of_role(role, task["success_hold_s"]) if s.rows]
    return [*found, Section("Episodes and training", ("what", "how"), _rest(task))]


def team_in_words(task: Mapping[str, Any]) -> str:
    """Who takes part: `4 robots (crazyflie)`, `2 lifter (x500), 1 carrier (panda)`."""
    groups = task["groups"]
    if len(groups) > 1:
        return ", ".join(f"{role['num_agents']} {name} ({role['robot']})" for name, role in groups.items())
    (role,) = groups.values()
    count = role["num_agents"]
    return f"{'one robot' if count == 1 else f'{count} robots'} ({role['robot']})"


def _of_role(role: Mapping[str, Any], hold_s: float) -> list[Section]:
    seen, success, terms = role["observation"], role["success"], ("term", "size", "meaning", "parameters")
    heard = seen["neighbours"] or {"max_peers": 0, "range_m": 0.0}
    peers = f"Observations of the nearest {heard['max_peers']} robots within {heard['range_m']:g} m"
    held = f"{success['meaning']} Held for the last {hold_s:g} s of the episode."

    def rows(found: Iterable[Mapping[str, Any]], *columns: str) -> Rows:
        return [tuple(in_words(term[column]) for column in columns) for term in found]

    def sized(found: Iterable[Mapping[str, Any]]) -> Rows:
        return rows(found, "name", "size", "meaning", "params")

    return [
        Section("Commands", ("command", "range", "frame", "meaning"), [_command(c) for c in role["commands"]]),
        Section("Observations", terms, sized(seen["own"])),
        Section(peers, terms, sized(seen["peer"])),
        Section("Memory", ("memory", *terms[1:]), sized(seen["memory"])),
        Section("Privileged: seen by the critic only", terms, sized(seen["privileged"])),
        Section("Actions", ("channel", "action -1 to 1 means", "the drive takes"), actions_in_words(role["actions"])),
        Section(
            "Rewards, in each control step",
            ("term", "weight", "meaning", "parameters"),
            rows(role["rewards"], "name", "weight", "meaning", "params"),
        ),
        Section(
            "Terminations",
            ("termination", "meaning", "parameters"),
            rows(role["terminations"], "name", "meaning", "params"),
        ),
        Section("Success", ("meaning", "parameters"), [(held, in_words(success["params"]))]),
        Section(
            "Randomisation",
            ("what", "meaning", "range", "when"),
            rows(role["randomisation"], "name", "meaning", "params", "when"),
        ),
        Section("Training, shield and baseline", ("what", "how"), _settings(role)),
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


def _settings(role: Mapping[str, Any]) -> Rows:
    rows = [
        ("measurement noise, standard deviation", in_words(role["noise"])),
        ("baseline", role["baseline"]["meaning"] if role["baseline"] else ""),
        ("PPO", in_words(role["ppo"])),
        ("shield", in_words(role["shield"])),
    ]
    return [row for row in rows if row[1]]


def _rest(task: Mapping[str, Any]) -> Rows:
    training, curriculum = task["training"], task["curriculum"]
    curriculum = curriculum and f"difficulty 0 to 1: {in_words(curriculum)}, after a success or a failure"
    rows = [
        ("start", task["start"]),
        ("tracked objects", ", ".join(task["objects"])),
        ("curriculum", curriculum or ""),
        ("training", f"{training['steps']:,} agent steps in {training['num_envs']} worlds"),
        ("teams that are verified too", ", ".join(map(str, task["verify_teams"]))),
    ]
    return [row for row in rows if row[1]]


FIELD = re.compile(r'"((?:body|dof|geom|actuator|opt|jnt|site|tendon)_\w+)"')


class Effect(NamedTuple):
    """One way in which worlds differ."""

    name: str
    meaning: str
    changes: str
    uses: tuple[tuple[str, str, str], ...]  # task, range, when


def effects(tasks: Sequence[TaskCfg]) -> list[Effect]:
    """Every public function of sim/randomisation.py in its order there."""
    own = [f for f in vars(randomisation).values() if inspect.isfunction(f) and f.__module__ == randomisation.__name__]
    uses: dict[str, list[tuple[str, str, str]]] = {name_of(f): [] for f in own}
    for task in tasks:
        for term in (term for role in task.groups.values() for term in role.randomisation.values()):
            use = (task.name, in_words(term.params), when(term.interval_range_s))
            uses.setdefault(name_of(term.func), []).append(use)
    return [
        Effect(f.__name__, first_sentence(f), changed_by(f), tuple(uses[name_of(f)]))
        for f in own
        if not f.__name__.startswith("_")
    ]


def changed_by(function: Any) -> str:
    """Which quantities a function sets, as its source names them, helpers that it calls included."""
    source = inspect.getsource(function)
    fields = [f"`{name}`" for name in dict.fromkeys(FIELD.findall(source))]
    drives = [f"`{name}`" for name in RobotsState.__slots__[:-2] if re.search(rf"robots\.{name}\b", source)]
    found = [f"the model's {', '.join(fields)}"] if fields else []
    found += [f"of the robots {', '.join(drives)}"] if drives else []
    found += ["the height of the ground"] if "robots.ground" in source else []
    found += ["the bases' velocity"] if "add_velocity" in source else []
    return "; ".join(found)


def write_documents(folder: Path) -> list[Path]:
    """Write tasks.md and randomisation.md into `folder`; returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    tasks = [load_task(name) for name in task_names()]
    texts = {"tasks.md": tasks_document(tasks), "randomisation.md": randomisation_document(tasks)}
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    return [folder / name for name in texts]


def tasks_document(tasks: Sequence[TaskCfg]) -> str:
    """All tasks in one table, then each in its own tables."""
    described = [describe_task(task) for task in tasks]
    rows = [
        (f"[{t['name']}](#{t['name']})", team_in_words(t), f"{t['episode_s']:g} s", t["summary"]) for t in described
    ]
    parts = [
        "# Tasks",
        "Written by `make docs` from the code; `phalanx tasks NAME` shows one, `phalanx play NAME` plays it.\n"
        "Sizes are numbers of one robot, weights are per control step, ranges that a world draws from are those of "
        "training and evaluation alike. The policies that ship, and how well they do: zoo/README.md.",
        _table(("task", "team", "episode", "what is learned"), rows),
    ]
    for task in described:
        summary, team = (text[:1].upper() + text[1:] for text in (task["summary"], team_in_words(task)))
        parts.append(f"## {task['name']}")
        parts.append(f"{summary}. {team}, episodes of {task['episode_s']:g} s at {task['control_hz']:g} Hz.")
        parts += [f"**{section.title}**\n\n{_table(section.columns, section.rows)}" for section in sections_of(task)]
    return "\n\n".join(parts) + "\n"


def randomisation_document(tasks: Sequence[TaskCfg]) -> str:
    """Each function, what it changes, and which task uses it with which range."""
    found = effects(tasks)
    parts = [
        "# Randomisation",
        "Written by `make docs` from `sim/randomisation.py` and the tasks. Every function changes something for the "
        "worlds that it is given; a task names it with a range, and it is drawn anew in each episode or, where a time "
        "is given, in its course.",
        _table(
            ("function", "what differs", "it changes", "tasks"),
            [(f"`{e.name}`", e.meaning, e.changes, ", ".join(dict.fromkeys(use[0] for use in e.uses))) for e in found],
        ),
        "## Ranges",
        _table(("function", "task", "range", "when"), [(f"`{e.name}`", *use) for e in found for use in e.uses]),
    ]
    return "\n\n".join(parts) + "\n"


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines)


ZOO = Path(__file__).resolve().parents[1] / "zoo"  # of this source tree; an installed package brings none


def shipped_files(task: str) -> list[Path]:
    """Where the policy files of `task` belong, one for each group, whether or not they are there."""
    cfg = load_task(task)
    names = [cfg.name] if len(cfg.groups) == 1 else [f"{cfg.name}-{role}" for role in cfg.groups]
    return [ZOO / f"{name}.onnx" for name in names]


def shipped_figure(task: str) -> dict[str, Any] | None:
    """What is known of the policies of `task`: their paths, and with a fitting record their success, bare and shielded.

    The record zoo/TASK.json is what `phalanx verify FILE... --json` printed; one of other files counts for nothing.
    """
    files, record = shipped_files(task), ZOO / f"{task}.json"
    if not all(file.exists() for file in files):
        return None
    figure: dict[str, Any] = {"files": [f"zoo/{file.name}" for file in files]}
    if record.exists():
        from deploy.bundle import load_bundle

        measured, bundles = json.loads(record.read_text(encoding="utf-8")), [load_bundle(file) for file in files]
        of_files = measured["files"].values() if "files" in measured else [measured]
        if {part["fingerprint"] for part in of_files} == {bundle.fingerprint for bundle in bundles}:
            trained = str(bundles[0].contract.team.trained_with)
            team = measured["teams"].get(trained) or next(iter(measured["teams"].values()))
            names = ("success_rate", "success_interval", "shielded_success_rate", "shielded_success_interval")
            figure |= {"episodes": measured["episodes"], **{name: team[name] for name in names}}
    return figure


def figure_in_words(figure: dict[str, Any] | None) -> str:
    """A figure as a cell of a table."""
    if figure is None:
        return ""
    if "success_rate" not in figure:
        return ", ".join(figure["files"])
    return f"{100 * figure['success_rate']:.1f} %, shielded {100 * figure['shielded_success_rate']:.1f} %"
