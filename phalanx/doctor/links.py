"""What to look at where a robot's link fails: of the link that its options name, with its address."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from ros_nodes.lifecycle.domain import given_domain


def link_hint(driver: str, options: Mapping[str, Any]) -> str:
    """What to do where a robot cannot be reached, in one line."""
    given = {name: str(value) for name, value in options.items()}
    if driver == "crazyflie":
        return _crazyflie(given.get("uri", ""))
    if driver == "px4":
        return _mavlink(given.get("link", ""), given.get("system", "1"), given.get("baud", "921600"))
    if driver == "ur":
        host = given.get("host", "")
        ports = "tcp ports 29999, 30004 and 30002"
        return f"ping {host}; {ports} of it: its services enabled, remote control, no other client"
    if driver == "franka":
        host = given.get("host", "")
        return f"ping {host}; in Desk at https://{host}: joints unlocked, FCI activated, no other program that has it"
    if driver == "unitree_g1":
        where, domain = given.get("interface", ""), given.get("domain", "0")
        return f"dds domain {domain} on {where}: cable, its address (ip addr show {where}), ping 192.168.123.161"
    if driver == "ros2_control":
        return _ros2_control(given)
    return "what its driver says of the link; is it deployed already?"


def rate_hint(driver: str, options: Mapping[str, Any]) -> str:
    """Why fewer measurements come than are needed, where this computer is not busy."""
    given = {name: str(value) for name, value in options.items()}
    if driver == "crazyflie" and given.get("uri", "").startswith("radio"):
        return f"radio {given['uri']}: distance, Wi-Fi on its channel, more robots on the radio than it has packets for"
    if driver == "px4":
        link = given.get("link", "")
        serial = f", and at {given.get('baud', '921600')} baud too slow for ODOMETRY" if "/" in link else ""
        return f"{link}: MAV_*_RATE of this port limits what PX4 sends{serial}; mavlink status in its shell"
    if driver == "ur":
        return (
            f"{given.get('host')}: a cable in place of Wi-Fi; one state every 2 ms is answered, and servoj needs each"
        )
    if driver == "ros2_control":
        topic = given.get("joint_states", "/joint_states")
        return f"ros2 topic hz {topic}; update_rate of the controller manager and of its joint_state_broadcaster"
    if driver == "unitree_g1":
        return f"interface {given.get('interface')}: a cable; other programs that fill it"
    return f"the link to {given.get('host', 'it')}: a cable, other programs on it"


def shared_domain(driver: str, options: Mapping[str, Any]) -> tuple[str, str] | None:
    """That our nodes are in the DDS domain of the robot's own programs, and what to do; None where they are not."""
    if driver != "unitree_g1" or str(options.get("domain", 0)) != str(domain := given_domain()):
        return None
    found = f"ROS domain {domain} is the DDS domain of the robot itself: both hear each other's traffic"
    return found, f"export ROS_DOMAIN_ID={domain + 1} in every terminal, for phalanx operate too"


def _crazyflie(uri: str) -> str:
    place = urlsplit(uri)
    if place.scheme == "radio":
        return (
            f"radio {uri}: switched on and near; its channel, data rate and address are those; no other program has it"
        )
    if place.scheme == "usb":
        return f"usb {uri}: plugged in by a cable with data lines, and no other program has it"
    return f"udp {place.netloc or uri}: does a device listen there; firewall"


def _mavlink(link: str, system: str, baud: str) -> str:
    who = f"MAV_SYS_ID {system}"
    if "/" in link:
        return f"serial {link} at {baud} baud: SER_*_BAUD and MAV_*_CONFIG of its port, wires crossed, {who}"
    kind, _, place = link.partition(":")
    if kind.startswith("tcp"):
        return f"tcp {place}: does PX4 or its router listen there; firewall; {who}"
    if kind == "udpout":
        host = place.rpartition(":")[0] or place
        return f"udp to {place}: ping {host}; does PX4 listen at this port; {who}"
    return (
        f"udp port {place.rpartition(':')[2]} of this computer: does PX4 send here (mavlink start -t); firewall; {who}"
    )


def _ros2_control(given: Mapping[str, str]) -> str:
    topic, prefix = given.get("joint_states", "/joint_states"), given.get("prefix", "")
    joints = f'joints with the prefix "{prefix}"' if prefix else "joints without a prefix"
    return (
        f"ROS domain {given_domain()}, controller {given.get('controller')}, {joints}: "
        f"ros2 topic echo --once {topic}; ros2 control list_controllers"
    )
