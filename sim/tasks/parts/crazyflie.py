"""What tasks of the Crazyflie share: the room, the goal, the action, what is remembered, and how drones vary."""

from hardware import load_robot
from sim import randomisation
from sim.noise import Noise
from sim.task import ActionCfg, CommandCfg
from sim.tasks.parts import links
from sim.tasks.parts.multirotor import goal_offset_sum
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
GOAL_OFFSET_SUM = goal_offset_sum(ROBOT)
ACTION = ActionCfg(centre=(HOVER_N, 0.0, 0.0, 0.0), scale=(0.7 * HOVER_N, 4.0, 4.0, 2.0))

NOISE = Noise(pos_m=0.003, angle_rad=0.01, lin_vel_m_s=0.02, ang_vel_rad_s=0.05)
DELAYS = {
    "actuator_delay": EventTerm(randomisation.actuator_delay, {"range_s": (0.0, 0.016)}),
    "sensor_delay": EventTerm(randomisation.sensor_delay, {"range_s": (0.0, 0.012)}),
}
HEARD = links.heard(ROBOT)  # by robots that a Crazyflie speaks to
TEAM_VARIATION = {
    "mass": EventTerm(randomisation.mass, {"scale": (0.95, 1.05)}),
    "thrust": EventTerm(randomisation.thrust, {"scale": (0.92, 1.05)}),
    **DELAYS,
    "network_delay": EventTerm(randomisation.network_delay, {"range_s": (0.0, 0.02)}),
    **links.in_time(ROBOT),
    **HEARD,
}
