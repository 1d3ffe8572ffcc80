"""Entry point of the `phalanx` command: dispatch, and errors as one line on stderr."""

import os
import signal
import sys
import threading
from collections.abc import Sequence
from difflib import get_close_matches
from functools import reduce
from operator import or_
from typing import Annotated, Any

import tyro

from phalanx.commands import COMMANDS

DESCRIPTION = "Train teams of robots in simulation, export each policy as one file, fly it in ROS 2 behind a shield."

BAD_INPUT = 2
INTERRUPTED = 130
EXTRAS = {"train": ("torch", "mujoco", "onnx", "onnxscript", "tensorboard", "scipy"), "ros": ("rclpy", "rosbags")}


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line; exits 0 when all is well, 1 when a gate fails, 2 on bad input, 130 on Ctrl-C."""
    args = list(sys.argv[1:] if argv is None else argv)
    _end_on_sigterm_as_on_ctrl_c()
    try:
        code = _dispatch(args)
        sys.stdout.flush()
    except KeyboardInterrupt as pressed:
        code = _complain(str(pressed) or "interrupted", INTERRUPTED)
    except ModuleNotFoundError as error:
        code = _complain(_missing(error), BAD_INPUT)
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except (ValueError, OSError) as error:
        code = _complain(str(error), BAD_INPUT)
    sys.exit(code)


def _end_on_sigterm_as_on_ctrl_c() -> None:
    """So that a service manager, too, leaves checkpoints to resume from and no process behind."""
    ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN  # as in the background of a shell
    if threading.current_thread() is threading.main_thread() and not ignored:
        signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))


def _dispatch(args: list[str]) -> int:
    """Run the subcommand that `args` begin with, or explain what there is."""
    if args and args[0] in COMMANDS:
        markers = (tyro.conf.FlagCreatePairsOff,)
        return tyro.cli(COMMANDS[args[0]], prog=f"phalanx {args[0]}", args=args[1:], config=markers)
    if args and not args[0].startswith("-"):
        near = get_close_matches(args[0], COMMANDS, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise ValueError(f"unknown command {args[0]!r}; {hint}known commands: {', '.join(COMMANDS)}")
    summaries: list[Any] = [
        Annotated[Any, tyro.conf.subcommand(name, constructor=call, description=(call.__doc__ or "").splitlines()[0])]
        for name, call in COMMANDS.items()
    ]
    tyro.cli(reduce(or_, summaries), prog="phalanx", description=DESCRIPTION, args=args or ["--help"])
    return 0


def _complain(message: str, code: int) -> int:
    """Say what is wrong in one line; the traceback stays one environment variable away."""
    if os.environ.get("PHALANX_TRACEBACK") and sys.exc_info()[0] is not None:
        raise
    print(f"phalanx: {' '.join(message.split())}", file=sys.stderr)
    return code


def _missing(error: ModuleNotFoundError) -> str:
    name = (error.name or "").split(".")[0]
    extra = next((extra for extra, names in EXTRAS.items() if name in names), None)
    if extra is None:
        return f"{error}; run `phalanx doctor`"
    return f"this command needs {name}, which is not installed: pip install 'phalanx[{extra}]'"
