"""A task's description as titled tables, the same for a terminal and for a document."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from phalanx.catalogue.words import params_in_words

Rows = list[tuple[str, ...]]


class Section(NamedTuple):
    """A table with a title; without rows it is left out."""

    title: str
    columns: tuple[str, ...]
    rows: Rows


def sections_of(task: Mapping[str, Any]) -> list[Section]:
    """The tables of one task, in the order in which a reader asks; with the role in front where it has several."""
    found = []
    for name, role in task["roles"].items():
        own = [section for section in _of_role(role, task["success_hold_s"]) if section.rows]
        if len(task["roles"]) > 1:
            own = [section._replace(title=f"{name}: {section.title}") for section in own]
        found += own
    return [*found, Section("And beside that", ("what", "how"), _rest(task))]


def team_in_words(task: Mapping[str, Any]) -> str:
    """Who takes part: `4 robots (crazyflie)`, `2 lifter (x500), 1 carrier (panda)`."""
    roles = task["roles"]
    if len(roles) > 1:
        return ", ".join(f"{role['num_agents']} {name} ({role['robot']})" for name, role in roles.items())
    (role,) = roles.values()
    count = role["num_agents"]
    return f"{'one robot' if count == 1 else f'{count} robots'} ({role['robot']})"


def _of_role(role: Mapping[str, Any], hold_s: float) -> list[Section]:
    seen, success, terms = role["observation"], role["success"], ("term", "size", "meaning", "parameters")
    heard = seen["hears"]
    peers = f"It hears, of the nearest {heard['max_peers']} within {heard['range_m']:g} m" if heard else "It hears"
    held = f"{success['meaning']} Held for the last {hold_s:g} s of the episode."
    return [
        Section("Commands", ("command", "range", "frame", "meaning"), [_command(c) for c in role["commands"]]),
        Section("It sees", terms, [_sized(t) for t in seen["own"]]),
        Section(peers, terms, [_sized(t) for t in seen["peer"]]),
        Section("It remembers", ("memory", *terms[1:]), [_sized(t) for t in seen["memory"]]),
        Section("Only the critic sees", terms, [_sized(t) for t in seen["critic"]]),
        Section("Actions", ("channel", "action -1 to 1 means", "the drive takes"), actions_in_words(role["actions"])),
        Section(
            "Rewards, in each control step",
            ("term", "weight", "meaning", "parameters"),
            [(t["name"], f"{t['weight']:g}", t["meaning"], params_in_words(t["params"])) for t in role["rewards"]],
        ),
        Section(
            "Failures, which end an episode",
            ("failure", "meaning", "parameters"),
            [(t["name"], t["meaning"], params_in_words(t["params"])) for t in role["failures"]],
        ),
        Section("Success", ("meaning", "parameters"), [(held, params_in_words(success["params"]))]),
        Section(
            "Randomisation",
            ("what", "meaning", "range", "when"),
            [(t["name"], t["meaning"], params_in_words(t["params"]), t["when"]) for t in role["randomisation"]],
        ),
        Section("Its training, shield and baseline", ("what", "how"), _settings(role)),
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
    pairs = zip(command["low"], command["high"], strict=True)
    ranges = ", ".join(f"{low:g} to {high:g}" for low, high in pairs)
    moves = "; it moves" if command["moves"] else ""
    return command["name"], f"{ranges} {command['unit']}", command["frame"], command["meaning"] + moves


def _sized(term: Mapping[str, Any]) -> tuple[str, ...]:
    return term["name"], str(term["size"]), term["meaning"], params_in_words(term["params"])


def _settings(role: Mapping[str, Any]) -> Rows:
    baseline = role["baseline"]["meaning"] if role["baseline"] else ""
    rows = [
        ("measurement noise, standard deviation", params_in_words(role["noise"])),
        ("baseline", baseline),
        ("PPO", params_in_words(role["ppo"])),
        ("shield", params_in_words(role["shield"])),
    ]
    return [row for row in rows if row[1]]


def _rest(task: Mapping[str, Any]) -> Rows:
    training, curriculum = task["training"], task["curriculum"]
    rows: Rows = [("start", task["start"])]
    if task["objects"]:
        rows.append(("tracked objects", ", ".join(task["objects"])))
    if curriculum:
        rows.append(("curriculum", f"difficulty 0 to 1: {params_in_words(curriculum)}, after a success or a failure"))
    rows.append(("training", f"{training['steps']:,} agent steps in {training['num_envs']} worlds"))
    if task["verify_teams"]:
        rows.append(("teams that are verified too", ", ".join(map(str, task["verify_teams"]))))
    return rows
