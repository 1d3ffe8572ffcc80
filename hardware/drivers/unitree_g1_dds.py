"""The topics of a Unitree G1 over Cyclone DDS, which this module imports: it is imported on connect.

`uint8` is declared as `byte`: Cyclone DDS 11 describes `uint8` in a way that releases 0.10, those of a G1, cannot read
and even crash by; as `byte` it is described as they do it, and both understand each other.
"""

import os
import uuid
from typing import Any

from cyclonedds.builtin import BuiltinDataReader, BuiltinTopicDcpsParticipant, BuiltinTopicDcpsPublication
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
LISTENER = "listener"  # who has no publisher of commands, and so cannot send any
DEPTH = 8  # samples of several writers, which come between two looks
NEWEST = Qos(Policy.Reliability.Reliable(0), Policy.History.KeepLast(1))
HEARD = Qos(Policy.Reliability.BestEffort, Policy.History.KeepLast(DEPTH))
ALIVE = ViewState.Any | SampleState.Any | InstanceState.Alive
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
        marked = Policy.Userdata(f"{self.token} {role} {os.getpid()}".encode())
        commands = Topic(self._participant, "rt/lowcmd", LowCmd_)
        self._writer = self._commands = None
        if role != LISTENER:
            self._writer = DataWriter(self._participant, commands, Qos(marked, base=NEWEST))
        if role != GUARD:
            heard = Qos(marked, Policy.IgnoreLocal.Participant, base=HEARD)
            self._commands = DataReader(self._participant, commands, heard)
        states = Topic(self._participant, "rt/lowstate", LowState_)
        self._states = DataReader(self._participant, states, HEARD)
        battery = Topic(self._participant, "rt/lf/bmsstate", BmsState_)
        self._battery = DataReader(self._participant, battery, HEARD)
        self._publications = BuiltinDataReader(self._participant, BuiltinTopicDcpsPublication)
        self._participants = BuiltinDataReader(self._participant, BuiltinTopicDcpsParticipant)
        self._alive = [ReadCondition(reader, ALIVE) for reader in (self._publications, self._participants)]

    def send(self, command: bytes) -> None:
        """Publish a LowCmd_; never waits."""
        message: Any = LowCmd_.__new__(LowCmd_)
        message.data = command
        assert self._writer is not None
        self._writer.write(message)

    def states(self) -> list[tuple[int, bytes]]:
        """The LowState_ that have not been taken yet, at most the last `DEPTH`, each with its writer."""
        return _taken(self._states)

    def battery(self) -> bytes | None:
        """A BmsState_ that has not been taken yet: the newest."""
        taken = _taken(self._battery)
        return taken[-1][1] if taken else None

    def is_heard(self) -> bool:
        """Whether somebody listens to the commands who is none of these links: they listen for other programs."""
        if self._writer is None:
            return False
        heard = map(self._writer.get_matched_subscription_data, self._writer.get_matched_subscriptions())
        return any(endpoint is not None and not _mark(endpoint) for endpoint in heard)

    def commanders(self) -> list[int]:
        """The writers whose commands have come since this was last asked, but for those with this link's token."""
        if self._commands is None:
            return []
        return [writer for writer in {writer for writer, _ in _taken(self._commands)} if not self._is_ours(writer)]

    def drivers(self) -> list[str]:
        """Drivers as this one that there are beside it, in words, though they may send nothing yet."""
        found = [(each, _mark(each)) for each in self._publications.read(256, self._alive[0])]
        return sorted(
            f"another driver may command it{self._where(each)}"
            for each, mark in found
            if each.topic_name == "rt/lowcmd" and mark and mark[0] != self.token and mark[1] == DRIVER
        )

    def about_commander(self, writer: int) -> str:
        """Who sends commands by that writer, in words."""
        endpoint = self._commands and self._commands.get_matched_publication_data(writer)
        mark = _mark(endpoint) if endpoint else []
        if mark and mark[1] == GUARD:
            return f"process {mark[2]}, the guard of a driver that ended, damps it for up to 30 s"
        return f"another {'driver' if mark else 'program'} publishes rt/lowcmd{self._where(endpoint)}"

    def about_robot(self, writer: int) -> str:
        """Whose states come by that writer, in words."""
        return f"another robot publishes rt/lowstate{self._where(self._states.get_matched_publication_data(writer))}"

    def close(self) -> None:
        """Leave the domain."""
        readers = self._participants, self._publications, self._battery, self._states, self._commands
        for each in filter(None, (*readers, self._writer, self._participant)):
            each._delete(each._ref)

    def _is_ours(self, writer: int) -> bool:
        assert self._commands is not None
        endpoint = self._commands.get_matched_publication_data(writer)
        return endpoint is not None and _mark(endpoint)[:1] == [self.token]

    def _where(self, endpoint: Any) -> str:
        """Of an endpoint, its process and its computer, as far as its participant says so, which Unitree's need not."""
        found = self._participants.read(256, self._alive[1]) if endpoint else []
        said = [policy for each in found if each.key == endpoint.participant_key for policy in each.qos]
        values = {each.key: each.value for each in said if isinstance(each, Policy.Property)}
        named = {"process": "__ProcessName", "pid": "__Pid", "on": "__Hostname", "at": "__NetworkAddresses"}
        text = " ".join(f"{what} {values[key]}" for what, key in named.items() if key in values)
        return f" ({text})" if text else ""


def _taken(reader: Any) -> list[tuple[int, bytes]]:
    """What has not been taken yet, each with its writer."""
    return [
        (sample.sample_info.publication_handle, sample.data)
        for sample in reader.take(DEPTH)
        if sample.sample_info.valid_data
    ]


def _mark(endpoint: Any) -> list[str]:
    """Token, role and process of one of these links; empty for an endpoint of another program."""
    data = endpoint.qos[Policy.Userdata].data if Policy.Userdata in endpoint.qos else b""
    mark = data.decode(errors="replace").split(" ")
    return mark if len(mark) == 3 and mark[1] in (DRIVER, GUARD, LISTENER) else []


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
