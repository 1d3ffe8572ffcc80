"""What tasks of the Crazyflie share: the room, the goal, the action, what is remembered, and how drones vary."""

from hardware import load_robot
from sim import randomisation
from sim.noise import Noise
from sim.task import ActionCfg, CommandCfg
from sim.terms import EventTerm, MemoryTerm, Term, observations

ROBOT = load_robot("crazyflie")
assert ROBOT.flight is not None
HOVER_N = ROBOT.flight.hover_thrust_n
COLLISION_M = 2 * ROBOT.radius_m  # between the centres of two drones
SPACE = {"low_m": (-2.5, -2.5, 0.1), "high_m": (2.5, 2.5, 2.5)}  # leaving it is a failure; its floor is 10 cm up
GEOFENCE = {"geofence_low": (-2.4, -2.4, 0.2), "geofence_high": (2.4, 2.4, 2.4)}
ELLIPSOID = {"separation_m": 0.40, "downwash_ratio": 2.0}  # of a pair's centres; wider than what the shield keeps

GOAL_POS = CommandCfg((-2.5, -2.5, 0.2), (2.5, 2.5, 2.4), "m", "world", "where to fly and hover")
PEER = {
    "peer_pos": Term(observations.peer_pos),
    "peer_vel": Term(observations.peer_vel),
    "peer_distance": Term(observations.peer_distance),
}
LAST_ACTION = MemoryTerm(observations.last_action, initial=(0.0, 0.0, 0.0, 0.0))
GOAL_OFFSET_SUM = MemoryTerm(
    observations.goal_offset_sum,
    {"dt_s": 1.0 / ROBOT.control_hz, "limit_m": 0.15, "decay_s": 2.0},
    initial=(0.0, 0.0, 0.0),
)
ACTION = ActionCfg(centre=(HOVER_N, 0.0, 0.0, 0.0), scale=(0.7 * HOVER_N, 4.0, 4.0, 2.0))

NOISE = Noise(pos_m=0.003, angle_rad=0.01, lin_vel_m_s=0.02, ang_vel_rad_s=0.05)
DELAYS = {
    "actuator_delay": EventTerm(randomisation.actuator_delay, {"range_s": (0.0, 0.016)}),
    "sensor_delay": EventTerm(randomisation.sensor_delay, {"range_s": (0.0, 0.012)}),
}
_FLIGHT = ROBOT.flight.rate_loop
assert _FLIGHT is not None
_RANGE = _FLIGHT.variation
OWN_LOOP = 0.15  # share of the drones that fly by the model's own loop, which is slower than the firmware's
FIRMWARE = {  # of groups with `rate_loop`: the firmware's loop, rotors, battery and radio, as far as hardware differs
    "rate_loop": EventTerm(
        randomisation.rate_loop, {n: _RANGE[n] for n in ("gain", "lag", "trim")} | {"own": OWN_LOOP}
    ),
    "thrust": EventTerm(randomisation.thrust, {"scale": _RANGE["thrust"]}),
    "battery_sag": EventTerm(randomisation.battery_sag, {"share": _RANGE["sag_per_s"]}, interval_range_s=(1.0, 1.0)),
    "actuator_delay": EventTerm(randomisation.actuator_delay, {"range_s": _RANGE["actuator_delay_s"]}),
    "sensor_delay": EventTerm(randomisation.sensor_delay, {"range_s": _RANGE["sensor_delay_s"]}),
    "lost_commands": EventTerm(randomisation.lost_commands, {"share": _RANGE["lost"]}, interval_range_s=(0.0, 0.0)),
}
FRAMES = MemoryTerm(observations.motion_frames, initial=(0.0,) * 4 * observations.MOTION)  # 80 ms
TEAM_VARIATION = {
    "mass": EventTerm(randomisation.mass, {"scale": (0.95, 1.05)}),
    "thrust": EventTerm(randomisation.thrust, {"scale": (0.92, 1.05)}),
    **DELAYS,
    "network_delay": EventTerm(randomisation.network_delay, {"range_s": (0.0, 0.02)}),
}
