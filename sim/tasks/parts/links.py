"""What links, estimators and IMUs do to robots in time, as far as hardware shows it: see `sim.field_spans`."""

from hardware.spec import RobotSpec
from sim import field_spans, randomisation
from sim.noise import Noise
from sim.terms import EventTerm

EVERY_STEP = (0.0, 0.0)
EVERY_S = (1.0, 1.0)


def in_time(robot: RobotSpec) -> dict[str, EventTerm]:
    """Delays that change, states that are lost, and sensors that drift, in the course of an episode."""
    jitter, lost, drift = field_spans.jitter(robot), field_spans.lost_states(robot), field_spans.drift(robot)
    terms = {}
    if jitter is not None:
        terms["actuator_jitter"] = EventTerm(randomisation.actuator_jitter, {"range_s": jitter}, EVERY_STEP)
        terms["sensor_jitter"] = EventTerm(randomisation.sensor_jitter, {"range_s": jitter}, EVERY_STEP)
    if lost is not None:
        share = {"share": lost, "hold_s": field_spans.hold(robot)}
        terms["lost_states"] = EventTerm(randomisation.lost_states, share, EVERY_STEP)
    if drift is not None:
        (_, angle), (_, rate) = drift
        step = Noise(angle_rad=angle, ang_vel_rad_s=rate)
        terms["sensor_drift"] = EventTerm(randomisation.sensor_drift, {"step": step}, EVERY_S)
    return terms


def heard(robot: RobotSpec) -> dict[str, EventTerm]:
    """What becomes of the messages of this robot: some are lost, the others come by a link with the same jitter."""
    terms = {"dropped_messages": EventTerm(randomisation.dropped_messages, {"share": field_spans.lost_messages(robot)})}
    if (jitter := field_spans.jitter(robot)) is not None:
        terms["network_jitter"] = EventTerm(randomisation.network_jitter, {"range_s": jitter}, EVERY_STEP)
    return terms
