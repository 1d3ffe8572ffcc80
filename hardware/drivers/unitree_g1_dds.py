"""The topics of a Unitree G1 over Cyclone DDS, which this module imports: it is imported on connect.

`uint8` is declared as `byte`: Cyclone DDS 11 describes `uint8` in a way that releases 0.10, those of a G1, cannot read
and even crash by; as `byte` it is described as they do it, and both understand each other.
"""

import os
import uuid
from typing import Any

from cyclonedds.builtin import BuiltinDataReader, BuiltinTopicDcpsPublication
from cyclonedds.core import InstanceState, Policy, Qos, ReadCondition, SampleState, ViewState
from cyclonedds.domain import Domain, DomainParticipant
from cyclonedds.idl import make_idl_struct
from cyclonedds.idl.annotations import autoid, final
from cyclonedds.idl.types import array, byte, float32, int16, int32, uint16, uint32
from cyclonedds.pub import DataWriter
from cyclonedds.sub import DataReader
from cyclonedds.topic import Topic

PLAIN_CDR = b"\0\1\0\0"  # little endian
LOOPBACK = "lo"
DRIVER, GUARD = "driver", "guard"  # who publishes commands for us
LISTENER = "listener"  # who has no publisher of commands: by one, though silent, a driver would damp its robot
PROGRAM = "another program publishes rt/lowcmd"
NEWEST = Qos(Policy.Reliability.Reliable(0), Policy.History.KeepLast(1))
HEARD = Qos(Policy.Reliability.BestEffort, Policy.History.KeepLast(1))
_domains: dict[int, Domain] = {}  # of this process; there is one of each number at most


def _struct(name: str, **fields: Any) -> Any:
    """A class of messages, declared as release 0.10 declares it."""
    return final(autoid("sequential")(make_idl_struct(name, f"unitree_hg.msg.dds_.{name}", fields)))


def _message(name: str, **fields: Any) -> Any:
    """One that comes and goes as bytes, `data`: Cyclone's own conversion takes 0.8 ms for one command."""
    message = _struct(name, **fields)

    def deserialize(data: bytes, **_: Any) -> Any:
        made = message.__new__(message)
        made.data = data[len(PLAIN_CDR) :]
        return made

    message.deserialize, message.serialize = staticmethod(deserialize), lambda made, **_: PLAIN_CDR + made.data
    return message


_array: Any = array
WORDS, FLOATS = _array[uint32, 4], _array[float32, 3]
# Set-point of one motor, and what a G1 is commanded
MotorCmd_ = _struct(
    "MotorCmd_", mode=byte, q=float32, dq=float32, tau=float32, kp=float32, kd=float32, reserve=uint32
)  # fmt: skip
LowCmd_ = _message(
    "LowCmd_", mode_pr=byte, mode_machine=byte, motor_cmd=_array[MotorCmd_, 35], reserve=WORDS, crc=uint32
)  # fmt: skip
# Of the pelvis, of one motor, and what it says of itself 500 times a second
IMUState_ = _struct(
    "IMUState_", quaternion=_array[float32, 4], gyroscope=FLOATS, accelerometer=FLOATS, rpy=FLOATS, temperature=int16
)  # fmt: skip
MotorState_ = _struct(
    "MotorState_", mode=byte, q=float32, dq=float32, ddq=float32, tau_est=float32, temperature=_array[int16, 2],
    vol=float32, sensor=_array[uint32, 2], motorstate=uint32, reserve=WORDS,
)  # fmt: skip
LowState_ = _message(
    "LowState_", version=_array[uint32, 2], mode_pr=byte, mode_machine=byte, tick=uint32, imu_state=IMUState_,
    motor_state=_array[MotorState_, 35], wireless_remote=_array[byte, 40], reserve=WORDS, crc=uint32,
)  # fmt: skip
# Of its battery
BmsState_ = _message(
    "BmsState_", version_high=byte, version_low=byte, fn=byte, cell_vol=_array[uint16, 40],
    bmsvoltage=_array[uint32, 3], current=int32, soc=byte, soh=byte, temperature=_array[int16, 12], cycle=uint16,
    manufacturer_date=uint16, bmsstate=_array[uint32, 5], reserve=_array[uint32, 3],
)  # fmt: skip


class Link:
    """Topics of one robot on one network interface."""

    def __init__(self, interface: str, domain: int, token: str = "", role: str = DRIVER):
        """`token` of another link whose commands are ours too. Cyclone's exceptions, for no such interface."""
        if domain not in _domains:
            _domains[domain] = Domain(domain, _config(interface))
        self.token = token or uuid.uuid4().hex
        self._participant = DomainParticipant(domain)
        self._writer = None
        if role != LISTENER:
            commands = Topic(self._participant, "rt/lowcmd", LowCmd_)
            mine = Qos(Policy.Userdata(f"{self.token} {role} {os.getpid()}".encode()), base=NEWEST)
            self._writer = DataWriter(self._participant, commands, mine)
        states = Topic(self._participant, "rt/lowstate", LowState_)
        self._states = DataReader(self._participant, states, HEARD)
        battery = Topic(self._participant, "rt/lf/bmsstate", BmsState_)
        self._battery = DataReader(self._participant, battery, HEARD)
        self._publications = BuiltinDataReader(self._participant, BuiltinTopicDcpsPublication)
        self._alive = ReadCondition(self._publications, ViewState.Any | SampleState.Any | InstanceState.Alive)

    def send(self, command: bytes) -> None:
        """Publish a LowCmd_; never waits."""
        message: Any = LowCmd_.__new__(LowCmd_)
        message.data = command
        assert self._writer is not None
        self._writer.write(message)

    def state(self) -> bytes | None:
        """A LowState_ that has not been taken yet: the newest."""
        return _newest(self._states)

    def battery(self) -> bytes | None:
        """A BmsState_ that has not been taken yet: the newest."""
        return _newest(self._battery)

    def is_heard(self) -> bool:
        """Whether somebody listens to the commands."""
        return self._writer is not None and bool(self._writer.get_matched_subscriptions())

    def others(self) -> list[str]:
        """Who publishes commands beside this link and those with its token, in words: first what is none of ours."""
        found = (_stranger(each, self.token) for each in self._publications.read(256, self._alive))
        return sorted({each for each in found if each}, key=lambda each: each != PROGRAM)

    def close(self) -> None:
        """Leave the domain."""
        for each in filter(None, (self._publications, self._battery, self._states, self._writer, self._participant)):
            each._delete(each._ref)


def _newest(reader: Any) -> bytes | None:
    taken = [sample.data for sample in reader.take(8) if sample.sample_info.valid_data]
    return taken[-1] if taken else None


def _stranger(endpoint: Any, token: str) -> str:
    if endpoint.topic_name != "rt/lowcmd":
        return ""
    said = endpoint.qos
    whose, *rest = (said[Policy.Userdata].data if Policy.Userdata in said else b"").decode(errors="replace").split(" ")
    if whose == token:
        return ""
    guard = len(rest) == 2 and rest[0] == GUARD
    return f"process {rest[1]}, the guard of a driver that ended, damps it for up to 30 s" if guard else PROGRAM


def _config(interface: str) -> str:
    """Of Cyclone DDS: this interface only; of this computer's own, peers without multicast."""
    local = interface == LOOPBACK
    alone = (
        "<AllowMulticast>false</AllowMulticast></General><Discovery><ParticipantIndex>auto</ParticipantIndex>"
        '<Peers><Peer address="127.0.0.1"/></Peers></Discovery>'
    )
    return (
        f'<CycloneDDS><Domain id="any"><General><Interfaces><NetworkInterface name="{interface}"/></Interfaces>'
        f"{alone if local else '</General>'}</Domain></CycloneDDS>"
    )
