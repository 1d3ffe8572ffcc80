"""What tasks of multirotors share whatever their size: what is remembered, and how firmware and rotors vary."""

from hardware.spec import RobotSpec
from sim import randomisation
from sim.terms import EventTerm, MemoryTerm, observations

OWN_LOOP = 0.15  # share of the drones that fly by the model's own loop, which is slower than the firmware's
FRAMES = MemoryTerm(observations.motion_frames, initial=(0.0,) * 4 * observations.MOTION)  # 80 ms


def goal_offset_sum(robot: RobotSpec) -> MemoryTerm:
    """The leaky sum of what `robot` is short of its goal, m s."""
    return MemoryTerm(
        observations.goal_offset_sum,
        {"dt_s": 1.0 / robot.control_hz, "limit_m": 0.15, "decay_s": 2.0},
        initial=(0.0, 0.0, 0.0),
    )


def firmware(robot: RobotSpec) -> dict[str, EventTerm]:
    """Of groups with `rate_loop`: the firmware's loop, rotors, battery and link, as far as hardware differs."""
    assert robot.flight is not None and robot.flight.rate_loop is not None
    ranges = robot.flight.rate_loop.variation
    return {
        "rate_loop": EventTerm(
            randomisation.rate_loop, {n: ranges[n] for n in ("gain", "lag", "trim")} | {"own": OWN_LOOP}
        ),
        "thrust": EventTerm(randomisation.thrust, {"scale": ranges["thrust"]}),
        "battery_sag": EventTerm(
            randomisation.battery_sag, {"share": ranges["sag_per_s"]}, interval_range_s=(1.0, 1.0)
        ),
        "actuator_delay": EventTerm(randomisation.actuator_delay, {"range_s": ranges["actuator_delay_s"]}),
        "sensor_delay": EventTerm(randomisation.sensor_delay, {"range_s": ranges["sensor_delay_s"]}),
        "lost_commands": EventTerm(randomisation.lost_commands, {"share": ranges["lost"]}, interval_range_s=(0.0, 0.0)),
    }
