"""PolicyRuntime: a policy file flown on one robot, with nothing but NumPy and ONNX Runtime."""

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deploy.bundle import Bundle, load_bundle, self_test
from deploy.bundle.session import run_session
from deploy.contract.tensor_specs import ACTION, CORRECTION, OBS, PEER_INPUTS, STATE_INPUTS, TARGET, object_field
from deploy.runtime.buffers import BoundGraph, all_finite
from deploy.runtime.compatibility import Warn, check_robot
from deploy.runtime.graph_inputs import InputError, batch_inputs, check_names, check_range, fill, float32_limits
from deploy.runtime.peers import nearest_peers
from hardware.spec import RobotSpec
from hardware.types import ActuatorCommand, ObjectState, Peers, RobotState

WARN = partial(warnings.warn, stacklevel=3)  # names the line that called `PolicyRuntime.load`
NO_OBJECTS: Mapping[str, ObjectState] = MappingProxyType({})


class PolicyOutputError(ValueError):
    """The policy answered finite inputs with numbers that are not finite."""


@dataclass(frozen=True, slots=True)
class ControlStep:
    """One control period of one robot."""

    obs: NDArray  # (D,) what the network saw
    action: NDArray  # (U,) what the network said
    requested: ActuatorCommand  # target (U,) in channel units, before the shield


class PolicyRuntime:
    """One robot's policy. Not thread safe: one control loop owns it."""

    def __init__(self, bundle: Bundle):
        contract = bundle.contract
        self.contract = contract
        self.fingerprint = bundle.fingerprint
        self.verification = bundle.verification
        self._session = bundle.session
        self._graph = BoundGraph(bundle.session, contract.inputs, contract.outputs, max(1, contract.team.max_peers))
        rows = {name: buffer[0] for name, buffer in self._graph.inputs.items()}
        self._state = [(name, rows[name]) for name in STATE_INPUTS if name in rows]
        self._peers = [(field, rows[name]) for name, field in PEER_INPUTS.items() if name in rows]
        self._objects = [
            (*object_field(n), n, row) for n, row in rows.items() if object_field(n)[0] in contract.objects
        ]
        self._correction = rows.get(CORRECTION)
        self._own_pos = None if "base_pos" in rows else np.zeros(3, np.float32)  # to find the nearest peers by
        self._shown = 0  # peer slots that hold a peer
        self._commands = {s.name: (s, rows[s.name], float32_limits(s)) for s in contract.commands}
        self._memory = [(rows[m.input], self._graph.outputs[m.output][0]) for m in contract.memory]
        self._results = [self._graph.outputs[name][0] for name in (OBS, ACTION, TARGET)]
        self.reset()

    @classmethod
    def load(
        cls,
        path: Path | str,
        robot: RobotSpec | None = None,
        trusted: Iterable[str] = (),
        warn: Warn = WARN,
        requires: str = "",
    ) -> "PolicyRuntime":
        """Check the file, who signed it, its verification, that it is for `robot`, and that it reproduces its probes.

        `warn` hears of what the file does not state, so that it cannot be compared with `robot`; `trusted` and
        `requires` as of `load_bundle`.
        Raises BundleError, or RobotMismatchError which is one, with one line that says what is wrong.
        """
        bundle = load_bundle(path, trusted, requires)
        if robot is not None:
            check_robot(bundle.contract, robot, str(path), warn)
        self_test(bundle, str(path))
        runtime = cls(bundle)
        runtime._graph.run()  # the first run allocates its memory, before the first control period
        return runtime

    def reset(self) -> None:
        """Memory to its initial value, as at the start of an episode."""
        for memory, (buffer, _) in zip(self.contract.memory, self._memory, strict=True):
            buffer[...] = memory.initial

    def initial_memory(self, batch: int) -> dict[str, NDArray]:
        """The memory inputs (batch, ...) at the start of an episode, for `step_batch`."""
        return {m.input: np.stack([np.array(m.initial, np.float32)] * batch) for m in self.contract.memory}

    def check_command(self, command: Mapping[str, Any]) -> None:
        """Raise InputError if `step` would refuse these commands; for where they arrive, before the control loop."""
        check_names(command, self._commands, "command")
        for name, (spec, buffer, limits) in self._commands.items():
            value = np.empty_like(buffer)
            fill(value, command[name], f"command {name}")
            check_range(spec, value, limits)

    def step(
        self,
        state: RobotState,
        peers: Peers,
        command: Mapping[str, Any],
        objects: Mapping[str, ObjectState] = NO_OBJECTS,
        correction: NDArray | None = None,
    ) -> ControlStep:
        """One control period, unbatched: state and object fields (n,), peers (P, ...) with any P, commands (n,).

        The policy is shown the nearest `max_peers` valid peers within `peer_range_m`, and of state and objects what its
        contract lists; the rest may be anything. With an input `correction` it is shown what the shield sent a period
        ago, less the target requested then, (U,); None where that is not known. NaN or infinity in what it is shown, a
        wrong shape, a missing object, and a missing, unknown or out-of-range command raise InputError; an output that
        is not finite raises PolicyOutputError. Both leave the memory as it was, and this period has no command. No
        `age` but a peer's is used: what is too old is for the shield to say.
        """
        for name, buffer in self._state:
            fill(buffer, getattr(state, name), name)
        if self._peers:
            self._fill_peers(state, peers)
        if self._objects:
            self._fill_objects(objects)
        if self._correction is not None:
            self._correction.fill(0.0)
            if correction is not None:
                fill(self._correction, correction, CORRECTION)
        check_names(command, self._commands, "command")
        for name, (spec, buffer, limits) in self._commands.items():
            fill(buffer, command[name], f"command {name}")
            check_range(spec, buffer, limits)
        if not all_finite(self._graph.flat_input):
            raise InputError(f"not finite: {_not_finite(self._graph.inputs)}")
        self._graph.run()
        if not all_finite(self._graph.flat_output):
            raise PolicyOutputError(f"the policy's output is not finite: {_not_finite(self._graph.outputs)}")
        for buffer, output in self._memory:
            buffer[...] = output
        obs, action, target = self._results
        return ControlStep(obs.copy(), action.copy(), ActuatorCommand(target.copy()))

    def step_batch(self, inputs: Mapping[str, Any]) -> dict[str, NDArray]:
        """The bare graph: every input by name (batch, ...), memory included, to every output; carries nothing over.

        Peers are shown as they are, in any number, without selection. Raises InputError for names, shapes and dtypes.
        """
        return run_session(self._session, batch_inputs(self.contract, inputs))

    def _fill_objects(self, objects: Mapping[str, ObjectState]) -> None:
        for name, field, label, buffer in self._objects:
            if name not in objects:
                raise InputError(f"objects: {name!r} is missing, the policy needs {list(self.contract.objects)}")
            fill(buffer, getattr(objects[name], field), label)

    def _fill_peers(self, state: RobotState, peers: Peers) -> None:
        slots = [np.asarray(getattr(peers, field)) for field, _ in self._peers]
        pos, *_, valid = slots
        for (field, buffer), value in zip(self._peers, slots, strict=True):
            if value.shape != (shape := pos.shape[:1] + buffer.shape[1:]):
                raise InputError(f"peers.{field}: has shape {value.shape}, not {shape}")
        team = self.contract.team
        if self._own_pos is not None:  # else it has been checked as an input
            fill(self._own_pos, state.base_pos, "base_pos")
            if not np.isfinite(self._own_pos).all():
                raise InputError("not finite: ['base_pos'], by which the nearest peers are found")
        shown = nearest_peers(np.asarray(state.base_pos), pos, valid, team.peer_range_m, team.max_peers)
        if shown.size < self._shown:
            for _, buffer in self._peers:
                buffer[shown.size : self._shown] = 0
        self._shown = shown.size
        for (_, buffer), value in zip(self._peers, slots, strict=True):
            buffer[: shown.size] = value.take(shown, axis=0)


def _not_finite(buffers: Mapping[str, NDArray]) -> list[str]:
    return [name for name, buffer in buffers.items() if not np.isfinite(buffer).all()]
