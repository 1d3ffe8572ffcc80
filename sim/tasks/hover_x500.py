"""hover-x500: as hover, by a Holybro X500 with PX4, in a larger room."""

from hardware import load_robot
from sim.noise import Noise
from sim.task import ActionCfg, CommandCfg
from sim.tasks.hover import Hover, hover_task
from sim.tasks.parts.links import in_time

ROBOT = load_robot("x500")
assert ROBOT.flight is not None
HOVER_N = ROBOT.flight.hover_thrust_n
# No more thrust and rates than its shield lets through: a request that is changed loses most of its rates, and one
# that is changed again and again never settles.
ACTION = ActionCfg(centre=(HOVER_N, 0.0, 0.0, 0.0), scale=(0.3 * HOVER_N, 2.0, 2.0, 0.8))

HOVER = Hover(
    robot=ROBOT,
    goals=((-1.5, -1.5, 1.5), (1.5, 1.5, 3.0)),
    starts=((-3.0, -3.0, 1.0), (3.0, 3.0, 4.0)),
    offset_m=0.7,
    space={"low_m": (-5.0, -5.0, 0.3), "high_m": (5.0, 5.0, 5.0)},
    geofence={"geofence_low": (-4.8, -4.8, 0.6), "geofence_high": (4.8, 4.8, 4.8)},
    goal_pos=CommandCfg((-4.8, -4.8, 0.8), (4.8, 4.8, 4.8), "m", "world", "where to fly and hover"),
    action=ACTION,
    noise=Noise(pos_m=0.005, angle_rad=0.01, lin_vel_m_s=0.02, ang_vel_rad_s=0.02),
    centre_of_mass_m=0.005,
    wind_n=1.5,
    success_m=0.1,
    success_m_s=0.3,
    in_time=in_time(ROBOT),
)

HOVER_X500 = hover_task(
    "hover-x500", "an X500 flies to a point and stays there, whatever its start", HOVER, min_success=0.9
)
