"""Crazyflie 2.1 Brushless (Bitcraze), flown by collective thrust and body rates.

Mass, inertia, rotor arm, propeller radius, thrust range, torque ratio, thrust lag and drag are the identified values of
configuration `cf21B_500` in the PyPI package drone-models 0.1.0 (MIT, `data/params.toml`, `so_rpy_rotor/params.toml`).
"""

from math import acos, degrees, hypot, radians
from pathlib import Path

from hardware.spec import GRAVITY, FlightModel, RateLoop, RobotSpec, thrust_and_rates

MASS_KG = 0.04338
ROTOR_ARM_M = 0.035355  # rotor axis to body x and to body y
PROPELLER_RADIUS_M = 0.0275
THRUST_MIN_N = 4 * 0.02136263065537499  # all four rotors idling
THRUST_MAX_N = 4 * 0.2
ROTOR_TIME_CONSTANT_S = 0.02055366
MAX_RATE_RAD_S = 6.0  # roll and pitch set-point; half of the firmware's default limit of 720 deg/s, rounded down
MAX_YAW_RATE_RAD_S = 3.0
HOVER_THRUST_N = MASS_KG * GRAVITY

FULL_PWM = 65535.0  # the firmware counts rates in deg/s and a rotor's signal in 16 bits
RATE_LOOP = RateLoop(
    rate_hz=500.0,
    proportional=(degrees(200.0) / FULL_PWM, degrees(200.0) / FULL_PWM, degrees(120.0) / FULL_PWM),
    integral=(degrees(400.0) / FULL_PWM, degrees(400.0) / FULL_PWM, degrees(16.7) / FULL_PWM),
    derivative=(degrees(2.5) / FULL_PWM, degrees(2.5) / FULL_PWM, 0.0),
    integral_limit=(radians(33.3), radians(33.3), radians(166.7)),
    output_limit=32767.0 / FULL_PWM,
    gyro_cutoff_hz=80.0,
    derivative_cutoff_hz=0.0,
    shares=(0.5, 0.5, 1.0),
    yaw_yields=False,
    idle=7000.0 / FULL_PWM,
    curve=(0.0, 1.0),
    torque_ratio_m=0.00593893,
    lag_s=(0.06, 0.06),
    variation={
        "lag": (1 / 3, 4 / 3),  # 20 to 80 ms
        "gain": (0.5, 1.5),
        "trim": (-0.05, 0.05),
        "thrust": (0.8, 1.05),
        "sag_per_s": (0.0, 0.01),
        "actuator_delay_s": (0.0, 0.016),
        "sensor_delay_s": (0.0, 0.014),
        "lost": (0.0, 0.05),
        "messages_lost": (0.0, 0.1),
        "jitter_s": (0.0, 0.004),
        "states_lost": (0.0, 0.04),
        "hold_s": (0.0, 0.05),
        "angle_drift_rad": (0.0, 2.4e-4),
        "ang_vel_drift_rad_s": (0.0, 3.9e-5),
    },
)

_DRONE_MODELS = "drone-models 0.1.0, cf21B_500"

SPEC = RobotSpec(
    name="crazyflie",
    kind="drone",
    mjcf=Path(__file__).with_name("crazyflie.xml"),
    base_body="base",
    joints=(),
    channels=thrust_and_rates((THRUST_MIN_N, THRUST_MAX_N), MAX_RATE_RAD_S, MAX_YAW_RATE_RAD_S),
    mass_kg=MASS_KG,
    radius_m=hypot(ROTOR_ARM_M, ROTOR_ARM_M) + PROPELLER_RADIUS_M,  # across; tips are 2 cm above the base: 3 mm more
    control_hz=50.0,
    sensor_hz=100.0,
    fallback="hover-land",
    endurance_s=600.0,
    flight=FlightModel(
        hover_thrust_n=HOVER_THRUST_N,
        rotor_time_constant_s=ROTOR_TIME_CONSTANT_S,
        rate_time_constant_s=2 * ROTOR_TIME_CONSTANT_S,
        turn_lag_s=0.021,
        rotors_xy_m=tuple((x, y) for x in (ROTOR_ARM_M, -ROTOR_ARM_M) for y in (ROTOR_ARM_M, -ROTOR_ARM_M)),
        propeller_radius_m=PROPELLER_RADIUS_M,
        rate_loop=RATE_LOOP,
        max_tilt_rad=acos(HOVER_THRUST_N / (0.8 * THRUST_MAX_N)),
    ),
    sources={
        "mass, inertia": f"{_DRONE_MODELS} (identified; with battery and marker deck)",
        "rotor arm, propeller radius": f"{_DRONE_MODELS}",
        "thrust range": f"{_DRONE_MODELS}: 0.0214 N to 0.2 N a rotor",
        "rotor time constant": f"{_DRONE_MODELS}, so_rpy_rotor: thrust_time_coef",
        "torque limits": f"{_DRONE_MODELS}: thrust range, arm and thrust2torque = 0.00593893 m; see crazyflie.xml",
        "drag": f"{_DRONE_MODELS}: drag_matrix",
        "rate time constant": "critically damped rate loop through the rotor lag: both poles at 1 / (2 tau)",
        "turn lag": "of the published rate loop, linear at hover, whatever the rotors' lag",
        "rate limits": "crazyflie-firmware default rate limit 720 deg/s, halved for a policy",
        "endurance": "Bitcraze, data sheet of the Crazyflie 2.1 Brushless (114993410), version 3: 10 minutes of flight "
        "with its stock battery, 350 mAh",
        "rate loop": "crazyflie-firmware: platform_defaults_cf21bl.h (gains, integral limits, idle thrust), pid.c, "
        "attitude_pid_controller.c (500 Hz, 16 bits), power_distribution_quadrotor.c (mixer and its cap), "
        "sensors_bmi088_bmp3xx.c (gyroscope's low-pass)",
        "rate loop's rotors": "drone-models 0.1.0: thrust settles with 52, 66 and 80 ms in three of its identified "
        "models, with 20.6 ms in so_rpy_rotor; 60 ms is about their middle, and all of them are in the range",
        "rate loop's variation": "gains: half to one and a half of what is published; trim: rotors that differ by 5 %; "
        "thrust, sag: 10 to 20 % less towards the end of a battery; delays: up to 30 ms of radio and estimator, beside "
        "the 20 ms that a command is held; lost: up to one command in twenty, an own assumption",
        "messages lost": "crazyflie_ros, issue 73: 1 to 4 % of 370 packets a second of a Crazyflie by its maker's "
        "library, 22 to 30 % by another one; what a robot says passes two links and what carries it between them",
        "jitter": "crazyradio2-firmware, issue 16: frames of motion capture that come at 81 to 126 Hz, on average 101, "
        "so that a state is up to 4 ms older than the one before; commands take the same radio",
        "states lost": "crazyflie_ros, issue 73, as of messages; libmotioncapture, pull request 3: an OptiTrack that "
        "misses one frame in eight; crazyswarm, issue 360: no updated pose for 0.05 s",
        "drift": "in each second; attitude: BMI088 data sheet, 0.014 deg/s/sqrt(Hz) of its gyroscope, summed up; "
        "rates: random walk of RotorS' IMU (gazebo_imu_plugin.h, ADIS16448)",
        "max tilt": "keeps height at 80 % of full thrust",
        "sensor rate": "motion-capture positioning as commonly run with Crazyswarm2, 100 Hz",
    },
)
