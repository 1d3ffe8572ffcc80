"""Addresses in one spelling, so that no device is given to two robots. Nothing is asked of a network."""

from pathlib import Path

LOCAL = ("127.0.0.1", "::1")


def host_of(address: str) -> str:
    """The host of "host", "host:port" or "[host]:port"; of this machine "localhost"."""
    host = address.strip().casefold()
    if host.startswith("["):
        host = host[1:].partition("]")[0]
    elif host.count(":") == 1:
        host = host.partition(":")[0]
    return "localhost" if host in LOCAL else host.rstrip(".")


def mavlink_of(link: str) -> str:
    """A connection string of pymavlink; a device that calls us is known by the port at which it does."""
    if link.startswith("/"):
        return str(Path(link).resolve())  # of a serial port's names, such as those below /dev/serial/by-id
    kind, _, place = link.strip().casefold().partition(":")
    if place.isdigit():  # host:port
        kind, place = "udp", f"{kind}:{place}"
    host, _, port = place.rpartition(":")
    if kind in ("udp", "udpin", "tcpin"):
        return f"{kind[:3]} port {port}"
    return f"{kind}:{host_of(host)}:{port}" if host else link


def crazyflie_of(uri: str) -> str:
    """A URI of cflib, with what is left out; by which radio a Crazyflie is reached does not make it another one."""
    kind, _, place = uri.strip().casefold().partition("?")[0].partition("://")
    if kind != "radio":
        host, _, port = place.rpartition(":")
        return f"{kind}://{host_of(host)}:{port}" if host else f"{kind}://{place}"
    given = place.strip("/").split("/")[1:]
    channel, rate, address = [*given, *("2", "2m", "e7e7e7e7e7")[len(given) :]][:3]
    return f"radio://{channel.lstrip('0') or '0'}/{rate}/{address:0>10}"
