"""Addresses in one spelling, so that no device is given to two robots. Nothing is asked of a network."""

import re
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from socket import inet_aton, inet_ntoa
from unicodedata import normalize

LOCAL = ("127.0.0.1", "::1", "0.0.0.0", "::")  # Linux connects all of them here; others in 127.0.0.0/8 may be apart


def host_of(address: str) -> str:
    """The host of "host", "host:port" or "[host]:port"; of this machine "localhost".

    Numbers are read as sockets read them: "192.168.266" is 192.168.1.10. ValueError for one that begins with a zero.
    """
    host = normalize("NFKC", address).strip().casefold()  # as names of hosts are before they are looked up
    if host.startswith("["):
        host = host[1:].partition("]")[0]
    elif host.count(":") == 1:
        host = host.partition(":")[0]
    host = host.rstrip(".")
    if re.fullmatch(r"[\d.]+", host) and (odd := re.search(r"\b0\d+", host)):
        raise ValueError(f"host {host}: {odd[0]} is octal to some programs; write it without the zero")
    with suppress(OSError):
        host = inet_ntoa(inet_aton(host))
    with suppress(ValueError):
        found = ip_address(host)
        host = str(getattr(found, "ipv4_mapped", None) or found)
    return "localhost" if host in LOCAL else host


def lone_host(address: str) -> str:
    """As `host_of`, of an address without a port; ValueError for one that has a port."""
    known, (host, _, port) = host_of(address), address.strip().rpartition(":")
    if host and (":" not in host or host.endswith("]")):
        raise ValueError(f"host {address}: expected an address alone, {host.strip('[]')}, without the port {port}")
    return known


def mavlink_of(link: str) -> str:
    """A connection string of pymavlink; a device that calls us is known by the port at which it does.

    ValueError for "host:port", which pymavlink takes as one at which we are called.
    """
    if "/" in link:
        return str(Path(link).resolve())  # of a serial port's names, such as those below /dev/serial/by-id
    kind, _, place = link.strip().casefold().partition(":")
    if not place:
        return link
    if place.isdecimal():
        ways = f"udpout:{kind}:{place} calls it there, udpin:0.0.0.0:{place} waits for it to send to this computer"
        raise ValueError(f"link {link}: say which way: {ways}")
    host, _, port = place.rpartition(":")
    if kind in ("udp", "udpin", "tcpin"):
        return f"{kind[:3]} port {_number(port)}"
    return f"{kind}:{host_of(host)}:{_number(port)}" if host else f"{kind}:{host_of(port)}"


def crazyflie_of(uri: str) -> str:
    """A URI of cflib, with what is left out; by which radio a Crazyflie is reached does not make it another one."""
    kind, _, place = uri.strip().casefold().partition("?")[0].partition("://")
    if kind != "radio":
        host, _, port = place.rpartition(":")
        return f"{kind}://{host_of(host)}:{_number(port)}" if host else f"{kind}://{_number(place)}"
    given = place.strip("/").split("/")[1:]
    channel, rate, address = [*given, *("2", "2m", "e7e7e7e7e7")[len(given) :]][:3]
    return f"radio://{_number(channel)}/{rate}/{address:0>10}"


def _number(text: str) -> str:
    """As programs read it ("014_540" is 14540), where it is one."""
    with suppress(ValueError):
        return str(int(text))
    return text
