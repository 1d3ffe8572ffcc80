"""What may differ from world to world: every function of sim/randomisation.py, and which task uses it how."""

import inspect
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from phalanx.catalogue.words import first_sentence, name_of, params_in_words, plain, when
from sim import randomisation
from sim.group import RobotGroup
from sim.task import MixedTaskCfg, TaskCfg

FIELD = re.compile(r'"((?:body|dof|geom|actuator|opt|jnt|site|tendon)_\w+)"')


class Effect(NamedTuple):
    """One way in which worlds differ."""

    name: str
    meaning: str
    changes: str
    uses: tuple[tuple[str, str, str], ...]  # task, range, when


def effects(tasks: Sequence[TaskCfg | MixedTaskCfg]) -> list[Effect]:
    """Every public function of sim/randomisation.py in its order there."""
    own = [f for f in vars(randomisation).values() if inspect.isfunction(f) and f.__module__ == randomisation.__name__]
    return [
        Effect(f.__name__, first_sentence(f), changed_by(f), tuple(_uses(f, tasks)))
        for f in own
        if not f.__name__.startswith("_")
    ]


def changed_by(function: Any) -> str:
    """Which quantities a function sets, as its source names them, helpers that it calls included."""
    source = inspect.getsource(function)
    fields = [f"`{name}`" for name in dict.fromkeys(FIELD.findall(source))]
    drives = [f"`{name}`" for name in RobotGroup.KEPT if re.search(rf"robots\.{name}\b", source)]
    found = [f"the model's {', '.join(fields)}"] if fields else []
    found += [f"of the robots {', '.join(drives)}"] if drives else []
    found += ["the height of the ground"] if "robots.ground" in source else []
    found += ["the bases' velocity"] if "add_velocity" in source else []
    return "; ".join(found)


def _uses(function: Any, tasks: Sequence[TaskCfg | MixedTaskCfg]) -> list[tuple[str, str, str]]:
    return [
        (task.name, params_in_words(plain(term.params)), when(term.every_s))
        for task in tasks
        for role in task.roles.values()
        for term in role.randomisation.values()
        if name_of(term.func) == name_of(function)
    ]
