"""URScript, as much of it as a program that servos needs, run a cycle at a time.

Control flow is Python's but for `end`; functions that take time are those of BLOCKING. A word that is not known stops
the program, as on the controller. Functions and their arguments are those of Universal Robots' script manual,
https://www.universal-robots.com/manuals/EN/HTML/SW5_19/Content/prod-scriptmanual/.
"""

import re

BLOCKING = ("servoj", "stopj", "sync")
_CALL = re.compile(rf"^({'|'.join(BLOCKING)})\(")


class ScriptError(Exception):
    """The controller refuses the program."""


class Program:
    """One program; `cycle` runs it until its next function that takes time, and is False when it has ended."""

    def __init__(self, text: str, controller):
        self._controller = controller
        words = {name: getattr(controller, f"do_{name}") for name in controller.FUNCTIONS}
        words |= {name: lambda *args, name=name: (name, args) for name in BLOCKING} | {"__builtins__": {}}
        try:
            exec(compile(*translated(text), "exec"), words)
            self._run = words[name_of(text)]()
        except (SyntaxError, KeyError, TypeError) as error:
            raise ScriptError(str(error)) from error

    def cycle(self) -> bool:
        try:
            name, args = next(self._run)
        except StopIteration:
            return False
        except (NameError, TypeError, ValueError) as error:
            raise ScriptError(str(error)) from error
        getattr(self._controller, f"do_{name}")(*args)
        return True


def name_of(text: str) -> str:
    found = re.match(r"\s*def (\w+)\(\):", text)
    if not found:
        raise ScriptError("no program: it begins with def NAME():")
    return found[1]


def translated(text: str) -> tuple[str, str]:
    lines, depth = [], 0
    for line in map(str.strip, text.splitlines()):
        if line == "end" or line.startswith(("elif ", "else:")):
            depth -= 1
        if line != "end":
            lines.append("  " * depth + ("yield " + line if _CALL.match(line) else line))
        if line.endswith(":"):
            depth += 1
    if depth:
        raise ScriptError("`end` is missing")
    return "\n".join(lines), name_of(text)
