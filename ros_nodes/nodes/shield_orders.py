"""What people ask of a robot: done by its shield, or refused in words. A stop is kept on disk, until a reset."""

from collections.abc import Callable
from functools import partial

from deploy.shield.authority import Authority, State
from ros_nodes.lifecycle.lifecycle_node import ManagedNode
from ros_nodes.lifecycle.stop_file import StopFile
from ros_nodes.messages.local_orders import ESTOP, Outcome
from ros_nodes.messages.operate_action import Standing
from ros_nodes.messages.operator_services import OperatorServices
from ros_nodes.messages.shield_inputs import ShieldInputs

TROUBLE = (State.LANDING, State.STOPPED, State.FAULT)
MOVES_ON = ("arm", "start", "hold", "reset")  # what would keep a robot up whose process ends


class ShieldOrders:
    """The orders of one robot; all but `serve` and `kept_stop` are for the executor's thread."""

    def __init__(self, node: ManagedNode, robot: str, stop_dir: str, standing: Callable[[], Standing | None]):
        """`stop_dir`: folder of the stop, empty for the user's own; `standing`: who has the robot and why."""
        self._logger, self._robot = node.get_logger(), robot
        self._asks = OperatorServices(
            node, lambda: node.is_active, self._keep_stop, lambda: not node.clock.is_simulated, standing
        )
        self._stop_file = StopFile(stop_dir, robot, node.context.get_domain_id())
        self._winds_down = False

    def close(self) -> None:
        """Take no more."""
        self._asks.close()

    def wind_down(self) -> None:
        """Land the robot, for its process ends; from now on nothing keeps it up."""
        if not self._winds_down:
            self._winds_down = True
            self._logger.warning(f"{self._robot}: asked to end, so it lands first; a second signal stops it")
            self._asks.ask("end")

    def stop(self) -> None:
        """As a person's emergency stop does."""
        self._asks.ask(ESTOP)
        self._keep_stop("emergency stop by a second signal")  # after it is on its way: a disk may be slow

    def kept_stop(self) -> str:
        """Why the robot was stopped, in this process or one before; an empty string where it was not."""
        return self._stop_file.read()

    def serve(self, authority: Authority, inputs: ShieldInputs, now_s: float) -> None:
        """Do what was asked since the last call."""
        self._asks.serve(partial(self._act, authority, inputs, now_s))

    def drop(self) -> None:
        """Refuse what has not been served: the shield's loop has ended."""
        self._asks.drop()

    def _act(self, authority: Authority, inputs: ShieldInputs, now_s: float, what: str) -> Outcome:
        """Do what a person asked for; also what is so already is answered as such."""
        before = authority.state
        refused = self._obey(authority, inputs, now_s, what)
        if refused or authority.state is not before:
            hints = {"start": inputs.policy_awaits, ESTOP: inputs.motors_go_on}
            return Outcome(not refused, refused or hints.get(what, str)())
        if what == "reset":
            return Outcome(True, f"nothing to reset: the robot is {before.name}")
        why = f" ({authority.reason})" if before in (State.STOPPED, State.FAULT) else ""
        goes_on = f"; {said}" if what == ESTOP and (said := inputs.motors_go_on()) else ""
        return Outcome(True, f"already {before.name}{why}{goes_on}")

    def _obey(self, authority: Authority, inputs: ShieldInputs, now_s: float, what: str) -> str:
        """Why not, or an empty string."""
        if what == ESTOP:
            authority.estop()
            return ""
        if self._winds_down and what in MOVES_ON:
            return f"{what}: its process is ending, and lands it first"
        if what == "arm":
            return authority.arm(inputs.missing())
        # Only then: in flight a policy does not say that it is there, which would cost others time.
        if what == "start" and authority.state is State.ARMED and (missing := inputs.policy_missing()):
            return f"start: {missing}"
        if what == "reset" and authority.state in TROUBLE:
            if trouble := inputs.keeps_from_reset():
                return f"reset: {trouble}"
            if authority.state is State.STOPPED and (kept := self._forget_stop()):
                return f"reset: {kept}"
        return authority.ask(what, now_s)

    def _forget_stop(self) -> str:
        """Why it is kept on, or an empty string."""
        try:
            self._stop_file.clear()
        except OSError as error:
            return str(error)
        if self._asks.stop_waits:  # it may have been the file of that one
            self._keep_stop("emergency stop during a reset")
            return "stopped"
        return ""

    def _keep_stop(self, reason: str) -> str:
        """Why it is not kept for a restart, or an empty string."""
        try:
            self._stop_file.write(reason)
        except OSError as error:
            self._logger.error(said := f"the stop holds, but it is not kept for a restart: {error}")
            return said
        return ""
