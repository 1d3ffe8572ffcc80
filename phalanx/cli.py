"""Entry point of the `phalanx` command: signals, and errors as one line on stderr.

What takes time to import is imported in `main`, where Ctrl-C is looked after already.
"""

import os
import signal
import sys
import threading
import traceback
from collections.abc import Sequence
from types import FrameType
from typing import Any

from phalanx import interrupt
from phalanx.order import ignore_goal, read_order

BAD_INPUT = 2
EXTRAS = {
    "train": ("torch", "mujoco", "onnx", "onnxscript", "tensorboard", "scipy", "matplotlib"),
    "ros": ("rclpy", "rosbags"),
}
IMPORT_SYSTEM = "<frozen importlib._bootstrap"  # how the names of its files begin


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line; exits 0 when all is well, 1 when a gate fails, 2 on bad input, 130 on Ctrl-C."""
    args = list(sys.argv[1:] if argv is None else argv)
    _look_after_signals()
    if "TORCHELASTIC_RUN_ID" in os.environ and os.environ.get("RANK", "0") != "0":
        _say_nothing()
    try:
        from phalanx.names import put_own_packages_first

        put_own_packages_first()
        args = ignore_goal(args)
        if order := read_order(args):
            code = order()
        else:
            from phalanx.arguments import dispatch
            from phalanx.commands import COMMANDS

            code = dispatch(COMMANDS, args)
        sys.stdout.flush()
    except KeyboardInterrupt as pressed:
        _end_at_the_next_signal()
        code = _complain(str(pressed) or interrupt.says, interrupt.INTERRUPTED)
    except ModuleNotFoundError as error:
        code = _complain(_missing(error), BAD_INPUT)
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except ValueError as error:
        code = _complain(str(error), BAD_INPUT)
    except OSError as error:
        code = _complain(_refused(error), BAD_INPUT)
    sys.exit(code)


def _say_nothing() -> None:
    """Of the processes that torchrun started the first one speaks for all; of faults in the program each does."""
    loud = sys.stderr
    sys.excepthook = lambda kind, error, trace: traceback.print_exception(kind, error, trace, file=loud)
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115


def _look_after_signals() -> None:
    """Ctrl-C is one line even while a library is imported; SIGTERM and a closed terminal do as Ctrl-C does.

    So a service manager or a lost connection, too, leaves checkpoints to resume from, landed robots and no process.
    """
    ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN  # as in the background of a shell
    if threading.current_thread() is threading.main_thread() and not ignored:
        signal.signal(signal.SIGINT, _interrupt)
        signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as under nohup
            terminals = [stream for stream in (1, 2) if os.isatty(stream)]  # once hung up they are none to isatty
            signal.signal(signal.SIGHUP, lambda *_: _hang_up(terminals))


def _end_at_the_next_signal() -> None:
    """What is left to do is to say so; `timeout` sends its signal twice."""
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: os._exit(interrupt.INTERRUPTED))


def _interrupt(number: int, frame: FrameType | None) -> None:
    """KeyboardInterrupt; in the middle of an import the process ends, for libraries swallow it or fail otherwise."""
    while frame is not None:
        if frame.f_code.co_filename.startswith(IMPORT_SYSTEM):
            interrupt.end()
        frame = frame.f_back
    polling: Any = sys.modules.get("ros_nodes.lifecycle.polling")
    if polling is not None:
        polling.interrupts += 1
    raise KeyboardInterrupt


def _hang_up(terminals: Sequence[int]) -> None:
    """The terminal is gone: what is printed to these streams now would fail."""
    null = os.open(os.devnull, os.O_WRONLY)
    for stream in terminals:
        os.dup2(null, stream)
    signal.raise_signal(signal.SIGINT)


def _complain(message: str, code: int) -> int:
    """Say what is wrong in one line; the traceback stays one environment variable away.

    What a terminal would obey, such as an escape code in a key of a file, is shown as its number.
    """
    if os.environ.get("PHALANX_TRACEBACK") and sys.exc_info()[0] is not None:
        raise
    shown = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in " ".join(message.split()))
    print(f"phalanx: {shown}", file=sys.stderr)
    return code


def _refused(error: OSError) -> str:
    """What the system says of which file, without its number."""
    return ": ".join(filter(None, [str(error.filename or ""), error.strerror])) or str(error)


def _missing(error: ModuleNotFoundError) -> str:
    from phalanx.names import shadowed

    name = (error.name or "").split(".")[0]
    if other := shadowed().get(name):
        return f"{error}: {other} has the name of a package of phalanx; rename it, see `phalanx doctor`"
    extra = next((extra for extra, names in EXTRAS.items() if name in names), None)
    if extra is None:
        return f"{error}; run `phalanx doctor`"
    return f"this command needs {name}, which is not installed: pip install 'phalanx[{extra}]'"
