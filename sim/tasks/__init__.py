"""Tasks by name: one file each and one line here."""

from hardware.plugins import load_plugin, registered
from sim.task import TaskCfg
from sim.tasks.bimanual_lift import BIMANUAL_LIFT
from sim.tasks.co_carry import CO_CARRY
from sim.tasks.hover import HOVER
from sim.tasks.payload_lift import PAYLOAD_LIFT
from sim.tasks.perch import PERCH
from sim.tasks.pick_place import PICK_PLACE
from sim.tasks.push import PUSH
from sim.tasks.reach import REACH
from sim.tasks.stand import STAND
from sim.tasks.swarm_swap import SWARM_SWAP
from sim.tasks.swarm_track import SWARM_TRACK
from sim.tasks.velocity import VELOCITY
from sim.tasks.velocity_rough import VELOCITY_ROUGH

_ALL: tuple[TaskCfg, ...] = (
    BIMANUAL_LIFT,
    CO_CARRY,
    HOVER,
    PAYLOAD_LIFT,
    PERCH,
    PICK_PLACE,
    PUSH,
    REACH,
    STAND,
    SWARM_SWAP,
    SWARM_TRACK,
    VELOCITY,
    VELOCITY_ROUGH,
)
_TASKS = {task.name: task for task in _ALL}


def task_names() -> list[str]:
    """Names of all tasks, sorted."""
    return sorted({*_TASKS, *registered("task")})


def load_task(name: str) -> TaskCfg:
    """The task called `name`, or at module:NAME; ValueError names what exists and the nearest match."""
    task = _TASKS.get(name) or load_plugin("task", name, _TASKS)
    if not isinstance(task, TaskCfg):
        raise ValueError(f"task {name!r} is a {type(task).__name__}, wanted a TaskCfg")
    return task
