"""Do messages really travel between two nodes on this machine, and how fast?"""

import time

import rclpy
from nav_msgs.msg import Odometry

from ros_nodes.lifecycle.context import quiet_context
from ros_nodes.lifecycle.polling import Mailbox, Waiter
from ros_nodes.lifecycle.processes import free_domain_id, ros_environment
from ros_nodes.messages import qos


def round_trips_ms(count: int = 100, timeout_s: float = 5.0) -> list[float]:
    """Times, ms, of `count` messages to another DDS participant and back. TimeoutError when one does not return."""
    domain_id = free_domain_id()
    environment = ros_environment(domain_id)
    with quiet_context(domain_id, environment) as near, quiet_context(domain_id, environment) as far:
        here, there = rclpy.create_node("here", context=near), rclpy.create_node("there", context=far)
        go = here.create_publisher(Odometry, "go", qos.SENSOR)
        come = there.create_publisher(Odometry, "come", qos.SENSOR)
        arrived, returned = Mailbox(there, Odometry, "go", qos.SENSOR), Mailbox(here, Odometry, "come", qos.SENSOR)
        at_there, at_here = Waiter(far), Waiter(near)
        until = time.monotonic() + timeout_s
        counts = [end.get_subscription_count for end in (go, come)]
        counts += [end.subscription.get_publisher_count for end in (arrived, returned)]
        while not all(count_ends() for count_ends in counts):
            if time.monotonic() > until:
                raise TimeoutError(f"two nodes did not discover each other within {timeout_s:g} s")
            time.sleep(0.01)
        message, times = Odometry(), []
        for _ in range(count):
            begin = time.perf_counter()
            go.publish(message)
            if not at_there.wait([arrived], timeout_s):
                raise TimeoutError(f"a message did not arrive within {timeout_s:g} s")
            arrived.take()
            come.publish(message)
            if not at_here.wait([returned], timeout_s):
                raise TimeoutError(f"a message did not return within {timeout_s:g} s")
            returned.take()
            times.append((time.perf_counter() - begin) * 1e3)
        return times
