"""All that one robot's shield acts on but requests: where the robot is, and who and what is around it."""

from collections.abc import Sequence
from typing import NamedTuple

from deploy.shield import Context
from deploy.shield.drone.params import ShieldParams
from deploy.shield.joints.params import JointShieldParams
from hardware.spec import RobotSpec
from ros_nodes.lifecycle.lifecycle_node import ManagedNode
from ros_nodes.lifecycle.parameters import declare_base_pose, declare_team
from ros_nodes.lifecycle.peer_clocks import peer_clocks
from ros_nodes.lifecycle.polling import Mailbox
from ros_nodes.messages.battery import BatteryTopic, declare_charges
from ros_nodes.messages.device import DeviceTopic
from ros_nodes.messages.peers_say import PeersSay
from ros_nodes.messages.pre_arm import PreArm
from ros_nodes.messages.subscriptions import OwnState, PeerTable
from ros_nodes.messages.surroundings import Around, declare_surroundings

PEER_SILENT_S = 1.0  # before arming, where peers are nothing to the shield


class InputParameters(NamedTuple):
    """A shield's parameters that are about its inputs."""

    robot: str
    peers: Sequence[str]  # by name
    charges: tuple[float, float]  # of the battery, 0 to 1: least for arming, and least in flight
    base_pose: Sequence[float]
    surroundings: tuple[str, str, int]  # of `declare_surroundings`


def declare_inputs(node: ManagedNode) -> InputParameters:
    """Declare and read them."""
    return InputParameters(
        *declare_team(node), declare_charges(node), declare_base_pose(node), declare_surroundings(node)
    )


class ShieldInputs:
    """The newest of it, and what of it keeps the robot from being armed."""

    def __init__(
        self,
        node: ManagedNode,
        spec: RobotSpec,
        params: ShieldParams | JointShieldParams,
        given: InputParameters,
        fingerprint: str,
        requested: Mailbox,
    ):
        """`fingerprint`: of the policy file that the robot is armed for; `requested`: where its requests arrive.

        ValueError for surroundings that cannot be.
        """
        robot, self._names = given.robot, given.peers
        self._near = [robot, *self._names]  # computers that have to do with it
        silent_s = params.peer_silent_s if isinstance(params, ShieldParams) else PEER_SILENT_S
        self._state = OwnState(node, spec, given.base_pose)
        self._peers = PeerTable(node, self._names)
        self._say = PeersSay(node, robot, self._names, params.act_s)
        self._around = Around(node, spec, *given.surroundings)
        self._battery = BatteryTopic(node, *given.charges)
        self._device = DeviceTopic(node)
        self._clocks = peer_clocks(node.hub, node.clock, robot)
        alone = [requested, self._device.mailbox, *self._state.mailboxes]
        self._pre_arm = PreArm(node, spec, fingerprint, self._names, silent_s, self._state.topics, alone)

    @property
    def measured_ns(self) -> int:
        """The stamp of the robot's newest state; 0 before there is one."""
        return self._state.stamp_ns

    @property
    def age_s(self) -> float:
        """Of that state, when `context` was asked for last; infinite before there is one."""
        return float(self._state.state.age)

    def context(self, now_ns: int) -> Context:
        """All of it at `now_ns` (the node's clock)."""
        self._state.update(now_ns)
        state = self._state.state if self._state.stamp_ns else None
        self._around.update(now_ns, None if state is None else state.base_pos)
        return Context(
            state,
            self._say.settle(self._peers.update(now_ns)),
            sharing=self._say.sharing,
            people=self._around.people,
            peer_names=self._names,
            obstacles=self._around.obstacles,
            obstacle_names=self._around.names,
            lost=self._around.lost,
        )

    def heard(self) -> tuple[dict[str, float | None], list[str]]:
        """Ages, s, of what peers said of themselves, by name; and which of them share the duty to keep apart."""
        return self._peers.ages(), self._say.names

    def hear_slow(self, now_s: float) -> tuple[str, str]:
        """Take what is said now and then: why no request may be obeyed, and what the policy waits for; or empty."""
        self._pre_arm.hear()
        self._battery.hear(now_s)
        self._say.hear(now_s)
        return self._pre_arm.strangers(), self._pre_arm.policy_waits()

    def lasting_trouble(self) -> str:
        """Why the robot has to come down: its own controller does not obey, or its battery is empty; or nothing."""
        return self._device.hear() or self._battery.run_down

    def motors_go_on(self) -> str:
        """That an emergency stop does not reach the robot's motors, and what is left; or an empty string."""
        return self._device.motors_go_on()

    def keeps_from_reset(self) -> str:
        """What a reset would not end: also a battery that is not known yet to be empty for long; or nothing."""
        return self.lasting_trouble() or self._battery.empty

    def device_waits(self) -> str:
        """Why the robot's own controller does not act on commands yet, or an empty string."""
        return self._device.waits()

    def missing(self) -> list[str]:
        """What keeps the robot from being armed now."""
        clocks = self._clocks.differing(self._near)  # anybody may say something of a clock
        return [
            *self._pre_arm.missing(self._peers.peers),
            *self._around.missing(),
            *self._battery.missing(),
            *filter(None, [self._device.missing()]),
            *clocks,
        ]

    def policy_awaits(self) -> str:
        """For what an arm is held after its start, and how it is given; or an empty string."""
        return self._pre_arm.awaits()

    def policy_missing(self) -> str:
        """Why the robot must not be given to its policy now; or an empty string."""
        self._pre_arm.hear()
        return self._pre_arm.policy_missing()

    def health(self) -> tuple[list[str], dict[str, str]]:
        """What to warn of, and values for `/diagnostics`: of the battery, other computers' clocks, and commanders."""
        found = [self._battery.too_empty(), self._pre_arm.commanders, *self._clocks.differing()]
        warnings = [reason for reason in found if reason]
        return warnings, self._battery.values() | self._clocks.diagnostics()
