"""States of a robot: who has it. How one follows from another is in `deploy.shield.authority`."""

from dataclasses import dataclass
from enum import Enum


class State(Enum):
    """Who has the robot."""

    DISARMED = "no one: nothing is sent"
    ARMED = "the shield: motors idle on the ground, else it holds the robot where it is"
    STARTING = "the shield: take-off, home or stand-up"
    POLICY = "the policy behind the shield, which holds the robot through short troubles"
    LANDING = "the shield: down, braked or standing"
    STOPPED = "no one: a person's emergency stop"
    FAULT = "no one: a lasting trouble has ended in a landing"


ASKS_THE_POLICY = (State.STARTING, State.POLICY)
AT_REST = (State.DISARMED, State.STOPPED, State.FAULT)  # nothing is left to bring down
IN_FLIGHT = (*ASKS_THE_POLICY, State.LANDING)
FLOWN = (State.ARMED, *ASKS_THE_POLICY)  # from which a lasting trouble leads to a landing


@dataclass(frozen=True, slots=True)
class Change:
    """One change of state."""

    before: State
    after: State
    reason: str
