"""What goes to and comes from a UR5e, as bytes and text, and how set-points move. Everything is SI, as the arm has it.

Packages: https://docs.universal-robots.com/tutorials/communication-protocol-tutorials/rtde-guide.html
Functions of the program: https://www.universal-robots.com/manuals/EN/HTML/SW5_19/Content/prod-scriptmanual/ (URScript).
"""

import struct
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from hardware.types import Array

JOINTS = (  # from the base to the tool: the order of every list of six
    "shoulder_pan_joint",
    "shoulder_lift_joint",
    "elbow_joint",
    "wrist_1_joint",
    "wrist_2_joint",
    "wrist_3_joint",
)
CYCLE_S = 0.002  # of an e-Series
WATCHDOG_HZ = 5.0  # the arm's own: its program is stopped when inputs come less often
LOOKAHEAD_S, GAIN = (
    0.03,
    300.0,
)  # of servoj: the least delay that it takes, for set-points of every cycle; its usual gain
BRAKE = 8.0  # rad/s^2, of a program that ends
# Registers from 24 on are those of external clients; a fieldbus has the others.
SESSION_IN, SESSION_OUT = "input_int_register_24", "output_int_register_24"
COUNT_IN, COUNT_OUT = "input_int_register_25", "output_int_register_25"  # of set-points; our program hands it back
INPUTS = {SESSION_IN: "INT32", COUNT_IN: "INT32"} | {f"input_double_register_{24 + i}": "DOUBLE" for i in range(6)}
OUTPUTS = {
    "timestamp": "DOUBLE",
    "actual_q": "VECTOR6D",
    "actual_qd": "VECTOR6D",
    "robot_mode": "INT32",
    "robot_status_bits": "UINT32",
    "safety_status_bits": "UINT32",
    "runtime_state": "UINT32",
    "target_speed_fraction": "DOUBLE",
    "payload": "DOUBLE",
    "payload_cog": "VECTOR3D",
    SESSION_IN: "INT32",  # as it has arrived there
    SESSION_OUT: "INT32",
    COUNT_OUT: "INT32",
}
FORMATS = {"DOUBLE": "d", "VECTOR6D": "6d", "VECTOR3D": "3d", "INT32": "i", "UINT32": "I"}
_OUT = struct.Struct(">B" + "".join(FORMATS[kind] for kind in OUTPUTS.values()))
_IN = struct.Struct(">B" + "".join(FORMATS[kind] for kind in INPUTS.values()))
HEADER = struct.Struct(">HB")  # size of the whole package, and its type
RUNNING, PLAYING = 7, 2
ROBOT_MODES = {
    -1: "no controller",
    0: "disconnected",
    1: "asks to confirm the safety configuration",
    2: "boots",
    3: "power is off",
    4: "power is on, brakes are not released",
    5: "brakes are not released",
    6: "freedrive",
    8: "updates its firmware",
}
SAFETY = {  # bits of safety_status_bits, the one that says most first
    7: "emergency stop",
    2: "protective stop: look at why, then unlock it on the teach pendant",
    4: "safeguard stop",
    8: "safety violation",
    9: "safety fault",
    3: "recovery mode",
    10: "stopped for safety",
}
TEACH_BUTTON = 1 << 2


class Said(NamedTuple):
    """One state of the arm."""

    timestamp: float  # s, of its own clock
    q: Array  # (6,) rad
    qd: Array  # (6,) rad/s
    robot_mode: int
    status_bits: int
    safety_bits: int
    runtime_state: int
    speed_fraction: float  # of the slider on the teach pendant, 0 to 1
    payload_kg: float
    payload_m: Array  # (3,) its centre of mass from the flange
    inputs: int  # the session of the set-points that it has
    session: int  # of the program that runs, or ran last
    taken: int  # number of the set-point that this program took last


def package(kind: str, payload: bytes = b"") -> bytes:
    """A package of the type `kind`, a letter."""
    return HEADER.pack(HEADER.size + len(payload), ord(kind)) + payload


def unpack_state(payload: bytes) -> Said:
    """The payload of a data package with OUTPUTS; struct.error for another length."""
    _, t, *rest = _OUT.unpack(payload)
    mode, status, safety, runtime, speed, mass = rest[12:18]
    q, qd, centre = (np.array(each) for each in (rest[:6], rest[6:12], rest[18:21]))
    return Said(t, q, qd, mode, status, safety, runtime, speed, mass, centre, *rest[21:])


def pack_inputs(recipe: int, session: int, count: int, q: Array) -> bytes:
    """A data package with INPUTS: the `count`-th set-points `q` (6,), rad, for the program of `session`; 0: none."""
    return package("U", _IN.pack(recipe, session, count, *q))


def program(session: int, payload_kg: float, payload_m: Sequence[float]) -> str:
    """A URScript program that follows the set-points of `session`, and brakes when these are for another one.

    Arms the arm's own watchdog before it says that it runs.
    """
    numbers = ", ".join(f"{float(each)!r}" for each in payload_m)
    q = ", ".join(f"read_input_float_register({24 + i})" for i in range(6))
    return f"""def phalanx():
  set_payload({float(payload_kg)!r}, [{numbers}])
  rtde_set_watchdog("{SESSION_IN}", {WATCHDOG_HZ!r}, "stop")
  write_output_integer_register(24, {session})
  while read_input_integer_register(24) == {session}:
    write_output_integer_register(25, read_input_integer_register(25))
    servoj([{q}], 0, 0, {CYCLE_S!r}, {LOOKAHEAD_S!r}, {GAIN!r})
  end
  stopj({BRAKE!r})
end
"""


def hindrance(said: Said) -> str:
    """Why the arm does not move or must not be made to; empty for nothing."""
    for bit, meaning in SAFETY.items():
        if said.safety_bits >> bit & 1:
            return meaning
    if said.robot_mode != RUNNING:
        return ROBOT_MODES.get(said.robot_mode, f"robot mode {said.robot_mode}")
    if said.status_bits & TEACH_BUTTON:
        return "freedrive button pressed"
    if said.speed_fraction < 0.995:
        return f"speed slider at {100 * said.speed_fraction:.0f} %"
    return ""
