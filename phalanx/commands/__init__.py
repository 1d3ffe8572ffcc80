"""One small file per subcommand; each imports what it calls only when it is called, so that `--help` stays quick."""

from phalanx.commands.doctor import doctor
from phalanx.commands.robots import robots
from phalanx.commands.tasks import tasks

COMMANDS = {
    "tasks": tasks,
    "robots": robots,
    "doctor": doctor,
}
