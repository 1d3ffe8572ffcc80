"""From the arguments of the command line to a subcommand's call; what is wrong with them in one line."""

import inspect
import io
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from functools import partial, reduce, wraps
from importlib.metadata import version
from itertools import pairwise
from operator import or_
from typing import Annotated, Any

import tyro
from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

PROGRAM = "phalanx"
DESCRIPTION = "Train teams of robots in simulation, export each policy as one file, fly it in ROS 2 behind a shield."

SAYS_NOTHING = re.compile(r"\{None\}\||\(default: (None|False|True)?\)")  # in help
OVER_TWO_LINES = re.compile(r"\(default:(\s*│\n│\s*)(None|False|True)?\)")

Commands = Mapping[str, Callable[..., int]]  # by the name that is typed
FLAGS = (tyro.conf.FlagCreatePairsOff,)
VALUES = ConstructorRegistry()  # how values are read


def dispatch(commands: Commands, args: list[str], prog: str = PROGRAM, description: str = DESCRIPTION) -> int:
    """Run the one of the `commands` of a program that `args` begin with, or explain what there is."""
    if args and args[0] in commands:
        return parse_command(commands, args[0], args[1:], prog)()
    summaries = {name: (call.__doc__ or "").splitlines()[0] for name, call in commands.items()}
    return explain(summaries, args, prog, description)


@VALUES.primitive_rule
def _of_whole_numbers(kind: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[int] | None:
    """Whole numbers may be written as 1e6 too."""
    if kind.type is not int:
        return None
    return PrimitiveConstructorSpec(
        nargs=1,
        metavar="INT",
        instance_from_str=lambda words: _whole(words[0]),
        is_instance=lambda value: type(value) is int,
        str_from_instance=lambda value: [str(value)],
    )


def _whole(word: str) -> int:
    """A whole number, such as 1_000_000 or 1e6; ValueError for another."""
    try:
        return int(word)
    except ValueError:
        with suppress(ValueError):
            if (value := float(word)).is_integer():
                return int(value)
        raise ValueError(f"invalid: {word!r}") from None


def explain(summaries: Mapping[str, str], args: list[str], prog: str, description: str) -> int:
    """Print a program's commands, each with its summary; ValueError where `args` ask for something else."""
    if args in (["--version"], ["-V"]):
        print(f"phalanx {version('phalanx')}")
        return 0
    if args and args[0] not in ("-h", "--help"):
        from hardware.names import nearest

        options = args[0].startswith("-")
        near = "" if options else nearest(args[0], summaries)
        kind = "option" if options else "command"
        raise ValueError(f"unknown {kind} {args[0]!r}; known commands: {', '.join(summaries)}{near}")
    listed: list[Any] = [
        Annotated[Any, tyro.conf.subcommand(name, constructor=lambda: None, description=summary)]
        for name, summary in summaries.items()
    ]
    tyro.cli(reduce(or_, listed), prog=prog, description=description, args=["--help"])
    return 0


def parse_command(commands: Commands, name: str, args: list[str], prog: str = PROGRAM) -> Callable[[], int]:
    """The command with its arguments, to be called; ValueError in one line where they cannot be understood."""

    command = _command(commands[name], args)
    args = getattr(command, "arguments", args)  # its own; it has taken the others

    @wraps(command)
    def prepared(*values: Any, **named: Any) -> Callable[[], int]:
        return partial(command, *values, **named)

    # tyro keeps the line breaks of a docstring; here every argument becomes one line.
    prepared.__doc__ = re.sub(r"\n {8,}(?=\S)", " ", inspect.cleandoc(command.__doc__ or ""))
    prepared.__signature__ = inspect.signature(command)  # type: ignore[attr-defined]
    del prepared.__wrapped__
    shown, said = _Text(), _Text()
    try:
        with redirect_stdout(shown), redirect_stderr(said):
            call: Any = tyro.cli(prepared, prog=f"{prog} {name}", args=args, config=FLAGS, registry=VALUES)
        return call
    except SystemExit as end:
        if not end.code:  # help
            print(_readable(shown.getvalue()))
            if runs := getattr(command, "runs", None):
                print("What it runs; each of these options may have several values:\n")
                parse_command(commands, runs[0], [*runs[1:], "--help"])
            raise
    raise ValueError(_explained(said.getvalue(), f"{prog} {name}", args, partial(options_of, commands, name, args)))


def _readable(text: str) -> str:
    """Help without defaults that say nothing and lines that are empty because of it; long sentences wrapped."""
    lines = []
    for line in OVER_TWO_LINES.sub(r"\1", text).splitlines():
        if line.endswith("│"):  # it begins with another box's end where that is shorter
            kept = SAYS_NOTHING.sub("", line[:-1]).rstrip()
            if kept != "│":
                lines.append(kept.ljust(len(line) - 1) + "│")
        else:
            lines += textwrap.wrap(line, shutil.get_terminal_size().columns) or [""]
    return "\n".join(lines)


def _command(command: Callable[..., int], args: list[str]) -> Callable[..., int]:
    """The command; where its options depend on the arguments, with those that there are for these."""
    for_arguments = getattr(sys.modules[command.__module__], "for_arguments", None)
    return for_arguments(args) if for_arguments is not None else command


class _Text(io.StringIO):
    """What is printed, with boxes as in a terminal."""

    encoding = "utf-8"


def _explained(said: str, command: str, args: Sequence[str], options: Callable[[], dict[str, str]]) -> str:
    """What tyro says of wrong arguments in a box, in one line, with the nearest of the `options` for an unknown one."""
    text = " ".join(re.sub(r"[╭╮╰╯│]", " ", re.split(r"\n│? *─{8,}", said.split("\n", 1)[-1])[0]).split())
    usage = f"; see {command} --help"
    if match := re.match(r"Unrecognized options: (.*)", text):
        unknown = next((word for word in match[1].split(", ") if word.startswith("-")), match[1].split(", ")[0])
        if not unknown.startswith("-"):
            if flag := _flag_before(unknown, args, options()):
                return f"{flag} {unknown}: takes no value; give {flag} alone, or leave it out{usage}"
            return f"too many arguments: {unknown!r}{usage}"
        from hardware.names import nearest

        known = options()
        if algorithm := _algorithm_of(unknown, command, known):
            return f"unknown option {unknown}: it is one of --algo {algorithm}, which is not given{usage}"
        if unknown.startswith("--task.") and not args[0].startswith("-"):  # only the help of that task has such
            usage = f"; see {command} {args[0]} --help"
        return f"unknown option {unknown}{usage}{nearest(unknown, known)}"
    if match := re.match(r"[Ii]nvalid choice '(.*?)' for argument '(.*?)'\. Expected one of \((.*?),?\)", text):
        from hardware.names import nearest

        choices = re.findall("'(.*?)'", match[3])
        return f"{match[2]} {match[1]!r}: choose from {', '.join(choices)}{usage}{nearest(match[1], choices)}"
    several = re.search(r"Argument helptext:[ │\n]+(--\S+) ([A-Z]+(?: [A-Z]+)+) ", said)
    if several and (match := re.search(r" from \[(.*?)\]", text)):
        given, wanted = re.findall("'(.*?)'", match[1]), several[2].split()
        values = f"{len(given)} value{'s' * (len(given) != 1)}"
        return f"{' '.join([several[1], *given])}: {values} given, wanted {len(wanted)} numbers: {several[2]}{usage}"
    if match := re.match(r"Error parsing (--\S+|[A-Z]\S*): .*?('.*?')", text):
        return f"{match[1]}: cannot read {match[2]}, wanted {options().get(match[1], 'another value')}{usage}"
    if match := re.match(r"Error parsing [a-z_]+: (.*)", text):  # what a class of hyperparameters or sizes refuses
        return f"--{match[1]}{usage}"
    if match := re.match(rf"Missing from {re.escape(command)}: (\S+) (.*)", text):
        return f"{match[1]} is missing: {match[2].replace(' (required)', '').rstrip('. ')}{usage}"
    return text.replace(" (required)", "") + usage


def _algorithm_of(option: str, command: str, known: Iterable[str]) -> str:
    """The algorithm to give for an option such as --td3.gamma; empty where that would not help."""
    prefix, dot, _ = option.removeprefix("--").partition(".")
    if command != "phalanx train" or not dot or any(each.startswith(f"--{prefix}.") for each in known):
        return ""
    from policies.algorithms import ALGORITHMS

    return prefix if prefix in ALGORITHMS else ""


def _flag_before(word: str, args: Sequence[str], options: Mapping[str, str]) -> str:
    """The one of the `options` without a value that `word` was given to; empty for none."""
    words = [part for arg in args for part in (arg.split("=", 1) if arg.startswith("--") else [arg])]
    before = {option.replace("_", "-") for option, value in pairwise(words) if value == word}
    return next((option for option, takes in options.items() if option in before and not takes), "")


def options_of(commands: Commands, name: str, args: Sequence[str]) -> dict[str, str]:
    """Options of a command, with what each takes."""
    shown = _Text()
    try:
        with redirect_stdout(shown):
            command = _command(commands[name], list(args))
            tyro.cli(command, prog=name, args=["--help"], config=FLAGS, registry=VALUES)
    except SystemExit:
        pass
    return dict(re.findall(r"│ (--[\w.-]+)(?: (?:\{None\}\|)?([^\s│]+))?", shown.getvalue()))
