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
    """The tables of one task, in the order in which a reader asks."""
    seen = task["observation"]
    heard = seen["hears"]
    peers = f"It hears, of the nearest {heard['max_peers']} within {heard['range_m']:g} m" if heard else "It hears"
    success = task["success"]
    held = f"{success['meaning']} Held for the last {success['hold_s']:g} s of the episode."
    found = [
        Section("Commands", ("command", "range", "frame", "meaning"), [_command(c) for c in task["commands"]]),
        Section("It sees", ("term", "size", "meaning", "parameters"), [_sized(t) for t in seen["own"]]),
        Section(peers, ("term", "size", "meaning", "parameters"), [_sized(t) for t in seen["peer"]]),
        Section("It remembers", ("memory", "size", "meaning", "parameters"), [_sized(t) for t in seen["memory"]]),
        Section("Only the critic sees", ("term", "size", "meaning", "parameters"), [_sized(t) for t in seen["critic"]]),
        Section("Actions", ("channel", "action -1 to 1 means", "the drive takes"), actions_in_words(task["actions"])),
        Section(
            "Rewards, in each control step",
            ("term", "weight", "meaning", "parameters"),
            [(t["name"], f"{t['weight']:g}", t["meaning"], params_in_words(t["params"])) for t in task["rewards"]],
        ),
        Section(
            "Failures, which end an episode",
            ("failure", "meaning", "parameters"),
            [(t["name"], t["meaning"], params_in_words(t["params"])) for t in task["failures"]],
        ),
        Section("Success", ("meaning", "parameters"), [(held, params_in_words(success["params"]))]),
        Section(
            "Randomisation",
            ("what", "meaning", "range", "when"),
            [(t["name"], t["meaning"], params_in_words(t["params"]), t["when"]) for t in task["randomisation"]],
        ),
        Section("And beside that", ("what", "how"), _rest(task)),
    ]
    return [section for section in found if section.rows]


def actions_in_words(actions: Sequence[Mapping[str, Any]]) -> Rows:
    """Rows of the table of actions; joints that are all driven alike share one."""
    rows: Rows = []
    alike: dict[tuple, list[Mapping[str, Any]]] = {}
    for action in actions:
        key = (action["relative"], action["basis"], action["scale"], action["unit"], action["centre"])
        alike.setdefault(key if action["relative"] else (*key, action["channel"]), []).append(action)
    for group in alike.values():
        first, unit = group[0], group[0]["unit"]
        if first["relative"]:
            where = f" along {first['basis']}" if first["basis"] else ""
            means = f"a step of up to {first['scale']:g} {unit} from where it is measured{where}"
        else:
            low, high = first["centre"] - first["scale"], first["centre"] + first["scale"]
            means = f"{low:.4g} to {high:.4g} {unit}"
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


def _rest(task: Mapping[str, Any]) -> Rows:
    training, curriculum, baseline = task["training"], task["curriculum"], task["baseline"]
    rows: Rows = [("start", task["start"])]
    if task["objects"]:
        rows.append(("tracked objects", ", ".join(task["objects"])))
    if task["noise"]:
        rows.append(("measurement noise, standard deviation", params_in_words(task["noise"])))
    if curriculum:
        rows.append(("curriculum", f"difficulty 0 to 1, {params_in_words(curriculum)} after success and failure"))
    if baseline:
        rows.append(("baseline", baseline["meaning"]))
    settings = f"; {params_in_words(training['ppo'])}" if training["ppo"] else ""
    rows.append(("training", f"{training['steps']:,} agent steps in {training['num_envs']} worlds{settings}"))
    if task["shield"]:
        rows.append(("shield", params_in_words(task["shield"])))
    if task["verify_teams"]:
        rows.append(("teams that are verified too", ", ".join(map(str, task["verify_teams"]))))
    return rows
