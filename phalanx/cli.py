"""Entry point of the `phalanx` command: dispatch, and errors as one line on stderr."""

import os
import sys
from collections.abc import Sequence
from difflib import get_close_matches

import tyro

from phalanx.commands import COMMANDS

DESCRIPTION = "Train teams of robots in simulation, export each policy as one file, fly it in ROS 2 behind a shield."

BAD_INPUT = 2
INTERRUPTED = 130
EXTRA_OF = {
    "torch": "train",
    "mujoco": "train",
    "onnx": "train",
    "onnxscript": "train",
    "rclpy": "ros",
    "rosbags": "ros",
}


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line; exits 0 when all is well, 1 when a gate fails, 2 on bad input, 130 on Ctrl-C."""
    args = list(sys.argv[1:] if argv is None else argv)
    try:
        _check_command(args)
        code: int = tyro.extras.subcommand_cli_from_dict(
            COMMANDS, prog="phalanx", description=DESCRIPTION, args=args, config=(tyro.conf.FlagCreatePairsOff,)
        )
    except KeyboardInterrupt:
        code = _complain("interrupted", INTERRUPTED)
    except ModuleNotFoundError as error:
        code = _complain(_missing(error), BAD_INPUT)
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except (ValueError, OSError) as error:
        code = _complain(str(error), BAD_INPUT)
    sys.exit(code)


def _check_command(args: Sequence[str]) -> None:
    """Raise ValueError with the nearest command's name when there is no such command."""
    if args and not args[0].startswith("-") and args[0] not in COMMANDS:
        near = get_close_matches(args[0], COMMANDS, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"unknown command {args[0]!r}{hint} Commands: {', '.join(COMMANDS)}")


def _complain(message: str, code: int) -> int:
    """Say what is wrong in one line; the traceback stays one environment variable away."""
    if os.environ.get("PHALANX_TRACEBACK") and sys.exc_info()[0] is not None:
        raise
    print(f"phalanx: {' '.join(message.split())}", file=sys.stderr)
    return code


def _missing(error: ModuleNotFoundError) -> str:
    name = (error.name or "").split(".")[0]
    if name not in EXTRA_OF:
        return f"{error}; run `phalanx doctor`"
    return f"this command needs {name}, which is not installed: pip install 'phalanx[{EXTRA_OF[name]}]'"
