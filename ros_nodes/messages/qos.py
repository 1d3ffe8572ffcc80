"""Quality of service of every topic."""

from rclpy.duration import Duration
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy

ACKED_S = 0.3  # for which a node that ends waits until its last word is heard

# Only the newest measurement counts: a lost one is replaced by the next.
SENSOR = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)

# Sensors are published reliable (REP-2003), so that every subscriber can hear them; ours ask for no more than SENSOR.
MEASURED = QoSProfile(depth=5, reliability=ReliabilityPolicy.RELIABLE)

# What robots act on: the newest, but what a stranger says in between must not push their own out. Without `odom` drones
# sink blindly: at 50 Hz of control there is room for a stranger of 2 kHz. Joints are measured at up to 1 kHz, and each
# message costs a microsecond or two; those of a robot that does not hear of them for a few periods are held.
MEASURED_IN = QoSProfile(depth=50, reliability=ReliabilityPolicy.BEST_EFFORT)
JOINTS_IN = QoSProfile(depth=10, reliability=ReliabilityPolicy.BEST_EFFORT)

# As tf2 has it.
TF = QoSProfile(depth=100, reliability=ReliabilityPolicy.RELIABLE)

# Late joiners, such as a restarted node, receive the last message.
LATCHED = QoSProfile(depth=1, reliability=ReliabilityPolicy.RELIABLE, durability=DurabilityPolicy.TRANSIENT_LOCAL)

# To receive every mode that a shield goes through.
HISTORY = QoSProfile(depth=100, reliability=ReliabilityPolicy.RELIABLE, durability=DurabilityPolicy.TRANSIENT_LOCAL)

# Subscribers to commands request no deadline, so that any publisher is received, and refused by content instead.
COMMAND_IN = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)

# What robots obey: the newest, but what a stranger says in between must not push the shield's out.
COMMANDS_IN = QoSProfile(depth=10, reliability=ReliabilityPolicy.BEST_EFFORT)

# Receivers check the age of a command by its stamp. The lifespan is only for what has waited in a process that stood
# still: some middlewares compare the clocks of two computers for it (Fast DDS does not). No deadline is promised: Fast
# DDS sets a new timer for it with each message, which wakes one more thread.
COMMAND_OUT = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT, lifespan=Duration(seconds=1.0))


def recording(depth: int, latched: bool) -> QoSProfile:
    """For the recorder: compatible with every publisher; keeps `depth` messages until they are written."""
    return QoSProfile(
        depth=depth,
        reliability=ReliabilityPolicy.RELIABLE if latched else ReliabilityPolicy.BEST_EFFORT,
        durability=DurabilityPolicy.TRANSIENT_LOCAL if latched else DurabilityPolicy.VOLATILE,
    )
