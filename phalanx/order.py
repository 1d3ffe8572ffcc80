"""One order of a person to robots. A stop must not wait for imports, such as that of the argument library."""

import re
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import hypot, isfinite
from pathlib import Path
from typing import Literal, NoReturn, get_args

from phalanx import interrupt

What = Literal["arm", "start", "land", "hold", "disarm", "estop", "reset", "goal", "swap", "reconnect"]
TO_ALL = ("land", "hold", "estop")  # of which none should miss a robot that was forgotten
ORDERS = get_args(What)
OF_A_GOAL = ("--at", "--quat")  # options that no other order has a use for
A_NUMBER = re.compile(r"[-+]?\.?\d")  # how one begins, and no name of a robot does
UNIT_WITHIN = 1e-2  # by which the length of a quaternion may be off, as for who receives it
SILENT_S = 1.0  # that an order takes without a word
HERE_S = 2.0  # a shield on this computer answers within one, also that it did not do it in time


def ignore_goal(args: list[str]) -> list[str]:
    """`args` without the options of a goal where they are operate land, hold or estop, which says so.

    Who types one of these wants a robot to stop: it is never refused for what it has no use for, however that is
    written. Other orders move something, and are refused before anything is sent.
    """
    if args[:1] != ["operate"] or args[1:2] == [] or args[1] not in TO_ALL:
        return args
    kept, ignored, of_goal = list[str](), list[str](), False
    for word in args:
        option = word.partition("=")[0]
        if option in OF_A_GOAL:
            ignored.append(option)
            of_goal = True
        elif not (of_goal and A_NUMBER.match(word)):
            of_goal = False
            kept.append(word)
    for option in dict.fromkeys(ignored):
        print(f"phalanx: {args[1]}: {option} is ignored: only a goal has one", file=sys.stderr, flush=True)
    return kept


def read_order(args: list[str]) -> Callable[[], int] | None:
    """The order of `args` where they are just operate WHAT [ROBOT...] [--domain N]; None for all others."""
    robots, domain = list(args[2:]), None
    if "--domain" in robots[-2:-1] and robots[-1].isdecimal():
        *robots, _, number = robots
        domain = int(number)
    is_order = args[:1] == ["operate"] and len(args) > 1 and args[1] in ORDERS
    is_plain = not any(name.startswith("-") for name in robots)
    return partial(give_order, args[1], robots, domain=domain) if is_order and is_plain else None


def give_order(
    what: str,
    robots: Sequence[str],
    at: tuple[float, float, float] | None = None,
    domain: int | None = None,
    quat: tuple[float, float, float, float] | None = None,
) -> int:
    """Ask `robots` and print what came of it; the exit code. See `phalanx operate`.

    `at`: a goal, m in the world; `quat`: its orientation wxyz there; without effect on what `ignore_goal` is for.
    """
    from ros_nodes.lifecycle.domain import chosen_domain
    from ros_nodes.messages.local_orders import ask_here, robots_here
    from ros_nodes.messages.names import check_name

    given = robots[:1] if what == "swap" else robots  # else a file follows
    for name in given:
        check_name(name)
    if what in TO_ALL:
        at = quat = None
    if (what == "goal") is not (at is not None):
        raise ValueError("a goal needs --at X Y Z, and nothing else takes it")
    if at is not None and not all(map(isfinite, at)):
        raise ValueError(f"--at {at}: every number must be finite")
    if quat is not None and at is None:
        raise ValueError("--quat is how a goal is turned: it needs --at X Y Z")
    if quat is not None and not abs(hypot(*quat) - 1.0) < UNIT_WITHIN:
        given = " ".join(f"{number:g}" for number in quat)
        raise ValueError(f"--quat {given}: must be of length 1, not {hypot(*quat):.3g}")
    where = chosen_domain(domain)
    if what == "swap":
        _swap(robots, domain)
    if what == "reconnect" and robots:
        _reconnect(robots, domain)
    asks = at is None and what != "reconnect" and bool(robots or what in TO_ALL)
    here = ask_here(what, robots or robots_here(where), where, HERE_S) if asks else {}
    done = _print(what, here)
    left = [robot for robot in robots if robot not in here]
    if here and robots and not left:
        return 0 if done else 1

    progress = _Progress(what, other_domain(left, where))
    from ros_nodes.lifecycle.context import end_process
    from ros_nodes.operation.ask import ask, find_robots

    answers, names = {}, ""
    with interrupt.leaving_all_open():
        if at is not None and robots:
            from ros_nodes.operation.operate import send_goal

            answers = send_goal(robots, at, quat, domain, progress.waits_for)
        elif asks:
            answers = ask(what, left, domain, list(here), progress.waits_for)
        if not (answers or here):
            names = ", ".join(find_robots(domain))
    progress.end()
    if not (answers or here):
        there = f"there are {names}" if names else f"no robot is heard in ROS domain {where}; --domain names another"
        print(f"phalanx: {what} to whom: {there}", file=sys.stderr)
        end_process(2)
    end_process(0 if _print(what, answers) and done else 1)


def other_domain(robots: Sequence[str], domain: int) -> str:
    """In which ROS `domain` robots are looked for, and what to do where they are in another one."""
    from ros_nodes.messages.local_orders import domains_here

    elsewhere = {
        robot: min(domains)
        for robot, domains in domains_here().items()
        if domain not in domains and (not robots or robot in robots)
    }
    there = "; ".join(f"{robot} is in {each} on this computer: --domain {each}" for robot, each in elsewhere.items())
    return f"in ROS domain {domain}; {there or 'deploy says in which its robots are: --domain N'}"


class _Progress:
    """Says on stderr what an order waits for, from `SILENT_S` on and where that changes. Imports are part of it."""

    def __init__(self, order: str, where: str):
        """`where` it looks is said once a discovery has found nothing for `SILENT_S`."""
        self._order, self._what, self._said, self._where = order, "ROS 2 to be loaded", "", where
        self._since_s = time.monotonic()
        self._ended = threading.Event()
        threading.Thread(target=self._say, name="progress", daemon=True).start()

    def waits_for(self, what: str) -> None:
        if what != self._what:
            self._what, self._since_s = what, time.monotonic()

    def end(self) -> None:
        self._ended.set()

    def _say(self) -> None:
        while not self._ended.wait(SILENT_S):
            searches = (what := self._what).startswith("discovery")
            if what != self._said and not (searches and time.monotonic() < self._since_s + SILENT_S):
                self._said = what
                where, self._where = (f" {self._where}" * bool(self._where), "") if searches else ("", self._where)
                print(f"phalanx: {self._order}: waiting for {what}{where}", file=sys.stderr, flush=True)


def _swap(robot_and_file: Sequence[str], domain: int | None) -> NoReturn:
    """See `phalanx operate`; ends the process. A path is one at this computer, and at the robot's."""
    if len(robot_and_file) != 2:
        raise ValueError("swap needs one robot and a policy file: phalanx operate swap ROBOT FILE")
    from ros_nodes.lifecycle.context import end_process
    from ros_nodes.operation.swap import swap_policy

    robot, file = robot_and_file
    with interrupt.leaving_all_open():
        outcome = swap_policy(robot, str(Path(file).resolve()), domain, partial(_say, robot))
    end_process(0 if _print("swap", {robot: outcome}) else 1)


def _reconnect(robots: Sequence[str], domain: int | None) -> NoReturn:
    """See `phalanx operate`; ends the process."""
    from ros_nodes.lifecycle.context import end_process
    from ros_nodes.operation.reconnect import reconnect

    with interrupt.leaving_all_open():
        outcomes = reconnect(robots, domain, lambda robot, said: print(f"{robot}: reconnect: {said}", flush=True))
    end_process(0 if _print("reconnect", outcomes) else 1)


def _say(robot: str, said: str) -> None:
    print(f"{robot}: swap: {said}", flush=True)


def _print(what: str, answers: Mapping[str, tuple[bool, str]]) -> bool:
    """Whether all `answers`, (done, said) by robot, are that it is done."""
    for robot, (done, said) in sorted(answers.items()):
        text = f"{what}: {said}" if done and said else said or what
        print(f"{robot}: {text}", file=sys.stdout if done else sys.stderr, flush=True)
    return all(done for done, _ in answers.values())
