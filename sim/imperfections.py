"""How imperfect robots are that several tasks share: what their sensors add, how their drives and masses vary."""

from collections.abc import Mapping

from sim import randomisation
from sim.noise import Noise
from sim.terms import EventTerm

CRAZYFLIE_NOISE = Noise(pos_m=0.003, angle_rad=0.01, lin_vel_m_s=0.02, ang_vel_rad_s=0.05)
G1_NOISE = Noise(angle_rad=0.01, ang_vel_rad_s=0.1, joint_pos_rad=0.005, joint_vel_rad_s=0.2)
G1_VARIATION: Mapping[str, EventTerm] = {
    "mass": EventTerm(randomisation.mass, {"scale": (0.9, 1.1)}),
    "centre_of_mass": EventTerm(randomisation.centre_of_mass, {"shift_m": (-0.03, 0.03)}),
    "friction": EventTerm(randomisation.friction, {"scale": (0.6, 1.3)}),
    "gains": EventTerm(randomisation.gains, {"stiffness": (0.9, 1.1), "damping": (0.9, 1.1)}),
    "motor_strength": EventTerm(randomisation.motor_strength, {"scale": (0.85, 1.0)}),
    "sensor_bias": EventTerm(
        randomisation.sensor_bias, {"bias": Noise(angle_rad=0.01, ang_vel_rad_s=0.02, joint_pos_rad=0.01)}
    ),
    "actuator_delay": EventTerm(randomisation.actuator_delay, {"range_s": (0.0, 0.015)}),
    "sensor_delay": EventTerm(randomisation.sensor_delay, {"range_s": (0.0, 0.01)}),
}
