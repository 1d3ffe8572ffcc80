"""Holybro X500 v2 with PX4 (10 inch rotors, 2 kg), flown by collective thrust and body rates.

Masses, inertias, rotor places, rotor curves, lag and drag are those of the model that PX4 publishes, PX4-gazebo-models:
`models/x500_base/model.sdf` (body and rotors as rigid bodies) and `models/x500/model.sdf` (rotor aerodynamics).
"""

from math import acos, hypot, radians
from pathlib import Path

from hardware.spec import GRAVITY, FlightModel, RateLoop, RobotSpec, thrust_and_rates

MASS_KG = 2.0 + 4 * 0.016076923  # body and rotors
ROTOR_ARM_M = 0.174  # rotor axis to body x and to body y: 492 mm motor to motor
PROPELLER_RADIUS_M = 0.27923077 / 2
MOTOR_CONSTANT = 8.54858e-6  # N s^2/rad^2: thrust = MOTOR_CONSTANT * speed^2
IDLE_SPEED_RAD_S, FULL_SPEED_RAD_S = 150.0, 1000.0
THRUST_MIN_N = 4 * MOTOR_CONSTANT * IDLE_SPEED_RAD_S**2
THRUST_MAX_N = 4 * MOTOR_CONSTANT * FULL_SPEED_RAD_S**2
ROTOR_TIME_CONSTANT_S = 0.025  # slowing down; speeding up takes half of it
MAX_RATE_RAD_S = 3.8  # roll and pitch: 220 deg/s, rounded down
MAX_YAW_RATE_RAD_S = 1.0  # 60 deg/s, rounded down
HOVER_THRUST_N = MASS_KG * GRAVITY

RATE_LOOP = RateLoop(
    rate_hz=400.0,
    proportional=(0.15, 0.15, 0.2),
    integral=(0.2, 0.2, 0.1),
    derivative=(0.003, 0.003, 0.0),
    integral_limit=(0.3 / 0.2, 0.3 / 0.2, 0.3 / 0.1),
    output_limit=1.0,
    gyro_cutoff_hz=40.0,
    derivative_cutoff_hz=20.0,
    shares=(0.5**0.5, 0.5**0.5, 1.0),
    yaw_yields=True,
    idle=0.0,
    curve=(IDLE_SPEED_RAD_S / FULL_SPEED_RAD_S, 2.0),
    torque_ratio_m=0.016,
    lag_s=(0.0125, 0.025),
    variation={
        "lag": (0.5, 3.0),
        "gain": (0.5, 1.5),
        "trim": (-0.05, 0.05),
        "thrust": (0.8, 1.05),
        "sag_per_s": (0.0, 0.005),
        "actuator_delay_s": (0.0, 0.02),
        "sensor_delay_s": (0.0, 0.02),
        "lost": (0.0, 0.02),
        "jitter_s": (0.0, 0.007),
        "states_lost": (0.0, 0.02),
        "hold_s": (0.0, 0.02),
        "angle_drift_rad": (0.0, 3.4e-4),
        "ang_vel_drift_rad_s": (0.0, 3.9e-5),
    },
)

_PX4_MODEL = "PX4-gazebo-models, x500_base/model.sdf"
_PX4_ROTOR = "PX4-gazebo-models, x500/model.sdf"

SPEC = RobotSpec(
    name="x500",
    kind="drone",
    mjcf=Path(__file__).with_name("x500.xml"),
    base_body="base",
    joints=(),
    channels=thrust_and_rates((THRUST_MIN_N, THRUST_MAX_N), MAX_RATE_RAD_S, MAX_YAW_RATE_RAD_S),
    mass_kg=MASS_KG,
    radius_m=hypot(hypot(ROTOR_ARM_M, ROTOR_ARM_M) + PROPELLER_RADIUS_M, 0.06),
    control_hz=50.0,
    sensor_hz=100.0,
    fallback="hover-land",
    home_height_m=0.2289,
    endurance_s=1080.0,
    flight=FlightModel(
        hover_thrust_n=HOVER_THRUST_N,
        rotor_time_constant_s=ROTOR_TIME_CONSTANT_S,
        rate_time_constant_s=2 * ROTOR_TIME_CONSTANT_S,
        turn_lag_s=0.043,
        rotors_xy_m=tuple((x, y) for x in (ROTOR_ARM_M, -ROTOR_ARM_M) for y in (ROTOR_ARM_M, -ROTOR_ARM_M)),
        propeller_radius_m=PROPELLER_RADIUS_M,
        rate_loop=RATE_LOOP,
        max_tilt_rad=min(acos(HOVER_THRUST_N / (0.8 * THRUST_MAX_N)), radians(45.0)),
    ),
    sources={
        "mass, inertia": f"{_PX4_MODEL}: a body of 2 kg and four rotors of 16 g, combined; see x500.xml",
        "rotor arm, propeller radius": f"{_PX4_MODEL}: rotors at (+-0.174, +-0.174, 0.06) m, blades 0.279 m long",
        "thrust range": f"{_PX4_ROTOR}: motorConstant; idle speed is SIM_GZ_EC_MIN of PX4's airframe 4001_gz_x500",
        "rotor time constant": f"{_PX4_ROTOR}: timeConstantDown, the slower of 12.5 ms and 25 ms",
        "torque limits": f"{_PX4_ROTOR}: thrust range, arm and momentConstant = 0.016 m; see x500.xml",
        "drag": f"{_PX4_ROTOR}: rotorDragCoefficient at the hover speed of four rotors, none along the rotor axes",
        "rate time constant": "critically damped rate loop through the rotor lag: both poles at 1 / (2 tau)",
        "turn lag": "of the published rate loop, linear at hover, whatever the rotors' lag",
        "rate limits": "PX4 parameters: MC_ROLLRATE_MAX, MC_PITCHRATE_MAX 220 deg/s, MPC_YAWRAUTO_MAX 60 deg/s",
        "endurance": "Holybro, https://holybro.com/products/x500-v2-kits: about 18 minutes of hover with no additional "
        "payload, tested with a battery of 5000 mAh",
        "rate loop": "PX4-Autopilot: MC_ROLLRATE_*, MC_PITCHRATE_*, MC_YAWRATE_* and their limits "
        "(mc_rate_control_params.c), IMU_GYRO_CUTOFF 40 Hz, IMU_DGYRO_CUTOFF 20 Hz, IMU_GYRO_RATEMAX 400 Hz, control "
        "allocation in which yaw yields first (MC_AIRMODE 0); not simulated: the low-pass of yaw's torque",
        "rate loop's rotors": f"{_PX4_ROTOR}: timeConstantUp 12.5 ms, timeConstantDown 25 ms",
        "rate loop's variation": "an own assumption: the Crazyflie's, with fewer commands lost: they come by wire",
        "jitter": "PX4-Autopilot, issue 22382: round trips of 14 to 28 ms by a serial line, half of what lies between",
        "states lost": "PX4-Autopilot, issue 22763: by Ethernet some messages come a period or more late; how often is "
        "an own assumption",
        "drift": "in each second, of RotorS' IMU (gazebo_imu_plugin.h, ADIS16448): its gyroscope's noise density "
        "summed up, and the random walk of its bias",
        "max tilt": "keeps height at 80 % of full thrust, at most PX4's MPC_TILTMAX_AIR of 45 deg",
        "sensor rate": "PX4 publishes vehicle_odometry at 100 Hz over uXRCE-DDS",
        "outline, landing gear": f"{_PX4_MODEL}: collision boxes of base_link",
    },
)
