"""One small file per subcommand; each imports what it calls only when it is called, so that `--help` stays quick."""

from collections.abc import Callable

from phalanx.commands.attack import attack
from phalanx.commands.calibrate import calibrate
from phalanx.commands.compare import compare
from phalanx.commands.demo import demo
from phalanx.commands.deploy import deploy
from phalanx.commands.doctor import doctor
from phalanx.commands.drill import drill
from phalanx.commands.evaluate import evaluate
from phalanx.commands.export import export
from phalanx.commands.identify import identify
from phalanx.commands.inspect import inspect
from phalanx.commands.monitor import monitor
from phalanx.commands.operate import operate
from phalanx.commands.play import play
from phalanx.commands.report import report
from phalanx.commands.robots import robots
from phalanx.commands.sign import sign
from phalanx.commands.sweep import sweep
from phalanx.commands.tasks import tasks
from phalanx.commands.train import train
from phalanx.commands.verify import verify

COMMANDS: dict[str, Callable[..., int]] = {
    "demo": demo,
    "tasks": tasks,
    "robots": robots,
    "train": train,
    "sweep": sweep,
    "compare": compare,
    "eval": evaluate,
    "play": play,
    "export": export,
    "inspect": inspect,
    "verify": verify,
    "identify": identify,
    "attack": attack,
    "sign": sign,
    "deploy": deploy,
    "drill": drill,
    "report": report,
    "monitor": monitor,
    "operate": operate,
    "doctor": doctor,
    "calibrate": calibrate,
}
