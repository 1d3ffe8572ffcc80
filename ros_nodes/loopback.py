"""A round trip over real DDS between two nodes of this process: does messaging work on this machine, and how fast?"""

import time

import rclpy
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from rclpy.qos import qos_profile_sensor_data
from std_msgs.msg import UInt32

DISCOVERY_PAUSE_S = 0.02


def round_trips_ms(count: int, timeout_s: float) -> list[float]:
    """Send `count` messages there and back, one after the other; milliseconds each.

    Raises TimeoutError when the nodes do not hear each other within `timeout_s`.
    """
    context = Context()
    rclpy.init(context=context)
    near, far = (rclpy.create_node(f"phalanx_loopback_{side}", context=context) for side in ("near", "far"))
    executor = SingleThreadedExecutor(context=context)
    executor.add_node(near)
    executor.add_node(far)
    heard: list[int] = []
    back = far.create_publisher(UInt32, "phalanx/loopback/back", qos_profile_sensor_data)
    far.create_subscription(UInt32, "phalanx/loopback/there", back.publish, qos_profile_sensor_data)
    near.create_subscription(
        UInt32, "phalanx/loopback/back", lambda msg: heard.append(msg.data), qos_profile_sensor_data
    )
    there = near.create_publisher(UInt32, "phalanx/loopback/there", qos_profile_sensor_data)
    deadline = time.monotonic() + timeout_s
    times = []
    try:
        while not (there.get_subscription_count() and back.get_subscription_count()):
            _spin(executor, deadline, DISCOVERY_PAUSE_S)
        for number in range(count):
            start = time.perf_counter()
            there.publish(UInt32(data=number))
            while number not in heard:
                _spin(executor, deadline, DISCOVERY_PAUSE_S)
            times.append(1e3 * (time.perf_counter() - start))
    finally:
        executor.shutdown()
        near.destroy_node()
        far.destroy_node()
        rclpy.shutdown(context=context)
    return times


def _spin(executor: SingleThreadedExecutor, deadline: float, pause_s: float) -> None:
    if time.monotonic() > deadline:
        raise TimeoutError("two nodes on this machine do not hear each other")
    executor.spin_once(timeout_sec=pause_s)
