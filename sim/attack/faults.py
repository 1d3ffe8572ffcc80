"""What goes wrong around a shielded team: sensing, messages, delays, actuators, within what is stated and beyond."""

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Conditions that a team works under. Errors and delays are in units of the stated bounds, lags in control periods.

    A fault is `inside` when every assumption of the robot's shield still holds: then nothing may happen.
    """

    about: str
    inside: bool
    noise: float = 1.0  # one sigma of the sensors, over the stated one
    bias: float = 0.0  # constant error of position and velocity in a random direction, over one stated sigma
    state_late: int = 0  # periods by which every state is older than a fresh one
    state_lost: float = 0.0  # share of the periods in which none arrives
    blind_s: float = 0.0  # from the fourth second on the first robot measures nothing for so long
    message_late: int = 0
    message_lost: float = 0.0
    most_lost: int = 1  # messages, or states, that are lost in a row at most
    partitioned: bool = False  # each half of the team hears nothing of the other
    delay: tuple[float, float] = (0.0, 1.0)  # of commands; drawn for each world
    strength: tuple[float, float] = (-1.0, 1.0)  # error of the actuators; drawn for each robot
    slow: float = 1.0  # times as slow as stated, drones' rotors and rate loops
    push: float = 0.0  # m/s, by which a robot on legs is thrown aside every 1.5 s or so
    load_kg: float = 0.0  # on the base of a robot on legs, at the tool of an arm as a share of its payload
    in_part: bool = False  # that share is drawn for each flight of an arm: it is the most
    friction: float = 1.0  # of the ground
    extremes: bool = False  # delay and strength are drawn from the ends of their ranges only


CORNER = Fault(about="all bounds at once", inside=True, state_late=1, message_late=1, delay=(1, 1), extremes=True)
HALF_LOST = Fault(
    about="half of the states and messages are lost, never two in a row; the latest commands",
    inside=True,
    state_lost=0.5,
    message_lost=0.5,
    delay=(1, 1),
    extremes=True,
)
FAULTS: dict[str, Fault] = {
    "usual": Fault(about="noise, delays and strengths drawn from within their bounds", inside=True),
    "corner": CORNER,
    "corner, weak": replace(CORNER, about="all bounds at once, actuators weak", strength=(-1, -1)),
    "corner, strong": replace(CORNER, about="all bounds at once, actuators strong", strength=(1, 1)),
    "corner, biased": replace(
        CORNER, about="all bounds at once, constant errors instead of noise", noise=0.0, bias=1.0
    ),
    "losses": HALF_LOST,
    "noise x 3": Fault(about="three times the stated noise", inside=False, noise=3.0),
    "bias x 10": Fault(about="a constant error of ten stated sigmas", inside=False, bias=10.0),
    "states late": Fault(about="states up to 68 ms old", inside=False, state_late=3),
    "states lost": Fault(
        about="half of the states are lost, up to four in a row", inside=False, state_lost=0.5, most_lost=4
    ),
    "blind": Fault(about="the first robot measures nothing for two seconds", inside=False, blind_s=2.0),
    "messages late": Fault(about="messages 188 ms old", inside=False, message_late=9),
    "messages lost": Fault(
        about="nine of ten messages are lost, up to 25 in a row", inside=False, message_lost=0.9, most_lost=25
    ),
    "partition": Fault(about="each half of the team hears nothing of the other", inside=False, partitioned=True),
    "delay x 2": Fault(about="commands take twice the stated time", inside=False, delay=(2, 2)),
    "rotors slow": replace(
        CORNER, about="all bounds at once, rotors and rate loop 1.2 times slower than stated", inside=False, slow=1.2
    ),
    "actuators x 2": Fault(
        about="actuators too weak or strong by twice the stated share", inside=False, strength=(-2, 2), extremes=True
    ),
}
LATE = Fault(about="the latest commands", inside=True, delay=(1, 1))
JOINT_FAULTS: dict[str, Fault] = {  # of arms, whose states come from their own drives
    "usual": FAULTS["usual"],
    "late": LATE,
    "late, loaded": replace(LATE, about="the latest commands, the whole payload at the tool", load_kg=1.0),
    "late, loaded in part": replace(
        LATE, about="the latest commands, any part of the payload at the tool", load_kg=1.0, in_part=True
    ),
    "late, biased": replace(LATE, about="the latest commands, constant errors instead of noise", noise=0.0, bias=1.0),
    "corner": replace(
        LATE, about="the latest commands, constant errors, the whole payload", noise=0.0, bias=1.0, load_kg=1.0
    ),
    **{name: FAULTS[name] for name in ("noise x 3", "bias x 10", "delay x 2")},
}
HUMANOID_FAULTS: dict[str, Fault] = {  # of robots on legs; pushes, loads and slippery ground fell them, as may be
    "usual": FAULTS["usual"],
    "corner": Fault(
        about="the latest commands, states lost and at their oldest, pushes, a load, little friction",
        inside=True,
        state_lost=0.5,
        most_lost=2,
        delay=(1, 1),
        push=0.5,
        load_kg=3.0,
        friction=0.5,
    ),
    "late, biased": JOINT_FAULTS["late, biased"],
    "pushed": Fault(about="pushes by 1.5 m/s", inside=True, push=1.5),
    "noise x 3": FAULTS["noise x 3"],
    "states lost": replace(FAULTS["states lost"], most_lost=8),
}
