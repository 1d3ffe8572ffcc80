"""Probes: recorded input sequences of a policy with the outputs that they must give, on every machine."""

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from deploy.contract import Contract
from deploy.contract.tensor_specs import MEMORY_OUTPUT_SUFFIX, PEER_INPUTS

Tensors = Mapping[str, NDArray]
StepFn = Callable[[dict[str, NDArray]], Tensors]  # every graph input by name -> every graph output by name


class ProbeError(ValueError):
    """The probes are unreadable, not finite, or do not fit the contract."""


@dataclass(frozen=True, slots=True)
class ProbeSequence:
    """T control periods of a batch of robots; the number of robots and of peers is the sequence's own."""

    memory: Tensors  # memory input -> value before the first period (batch, ...)
    inputs: Tensors  # every other input -> (T, batch, ...)
    outputs: Tensors  # every output, memory included -> (T, batch, ...)


@dataclass(frozen=True, slots=True)
class Probes:
    """What a policy file is tested with before it may move a robot."""

    sequences: tuple[ProbeSequence, ...]


def record_sequence(step_fn: StepFn, inputs: Tensors, memory: Tensors) -> ProbeSequence:
    """Run `step_fn` over `inputs` (T, batch, ...) from `memory` (batch, ...) and keep all that it answers."""
    carried = dict(memory)
    answers = []
    for t in range(len(next(iter(inputs.values())))):
        answers.append(step_fn({name: value[t] for name, value in inputs.items()} | carried))
        carried = {name: answers[-1][name + MEMORY_OUTPUT_SUFFIX] for name in memory}
    outputs = {name: np.stack([np.asarray(answer[name]) for answer in answers]) for name in answers[0]}
    return ProbeSequence(dict(memory), dict(inputs), outputs)


def replay(step_fn: StepFn, probes: Probes) -> float:
    """Largest absolute difference of any output at any step, in the outputs' units; `inf` for NaN or another shape."""
    worst = 0.0
    for expected in probes.sequences:
        found = record_sequence(step_fn, expected.inputs, expected.memory).outputs
        for name, values in expected.outputs.items():
            if name not in found or found[name].shape != values.shape:
                return float("inf")
            error = float(np.abs(found[name].astype(np.float64) - values).max())
            worst = max(worst, error) if np.isfinite(error) else float("inf")
    return worst


def replay_empty_slots(step_fn: StepFn, probes: Probes) -> float:
    """As `replay`, with NaN in every slot that holds no peer: a contract says that a policy does not look there."""
    return replay(step_fn, Probes(tuple(_emptied(sequence) for sequence in probes.sequences)))


def _emptied(sequence: ProbeSequence) -> ProbeSequence:
    inputs = dict(sequence.inputs)
    for name in PEER_INPUTS.keys() & inputs.keys() - {"peers_valid"}:
        valid, value = inputs["peers_valid"], inputs[name]
        holds = valid.reshape(*valid.shape, *[1] * (value.ndim - valid.ndim))
        inputs[name] = np.where(holds, value, np.float32(np.nan))
    return replace(sequence, inputs=inputs)


def probes_to_bytes(probes: Probes) -> bytes:
    """The probes as a compressed npz file with keys `<sequence>/<memory|inputs|outputs>/<name>`."""
    file = io.BytesIO()
    arrays = {
        f"{i}/{part}/{name}": np.asarray(value)
        for i, sequence in enumerate(probes.sequences)
        for part in ("memory", "inputs", "outputs")
        for name, value in sorted(getattr(sequence, part).items())  # the same policy is the same file
    }
    np.savez_compressed(file, allow_pickle=False, **arrays)
    return file.getvalue()


def probes_from_bytes(data: bytes) -> Probes:
    """Read what `probes_to_bytes` wrote; raises ProbeError on anything else."""
    sequences: dict[int, dict[str, dict[str, NDArray]]] = {}
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
            for key in arrays.files:
                number, part, name = key.split("/")
                parts = sequences.setdefault(int(number), {"memory": {}, "inputs": {}, "outputs": {}})
                parts[part][name] = arrays[key]
    except Exception as error:  # whatever NumPy, zip and zlib raise on bytes that are none of their own
        raise ProbeError(f"probes cannot be read: {error}") from error
    return Probes(tuple(ProbeSequence(**sequences[number]) for number in sorted(sequences)))


def check_probes(probes: Probes, contract: Contract) -> None:
    """Raise ProbeError unless the probes are finite, complete, and cover one peer and more peers than in training."""
    carried = {memory.input for memory in contract.memory}
    parts = {
        "memory": {t.name: t for t in contract.inputs if t.name in carried},
        "inputs": {t.name: t for t in contract.inputs if t.name not in carried},
        "outputs": {t.name: t for t in contract.outputs},
    }
    if not probes.sequences:
        raise ProbeError("there are no probes")
    peer_counts = set()
    for i, sequence in enumerate(probes.sequences):
        sizes: dict[str, int] = {}
        for part, tensors in parts.items():
            arrays = getattr(sequence, part)
            if arrays.keys() != tensors.keys():
                raise ProbeError(f"probe {i} {part}: has {sorted(arrays)}, the contract {sorted(tensors)}")
            for name, tensor in tensors.items():
                shape = tensor.shape if part == "memory" else ("steps", *tensor.shape)
                _check_array(f"probe {i} {part} {name}", arrays[name], tensor.dtype, shape, sizes)
        if "peers" in sizes:
            peer_counts.add(sizes["peers"])
    _check_coverage(peer_counts, contract.team.trained_with - 1)


def _check_array(label: str, array: NDArray, dtype: str, shape: tuple[int | str, ...], sizes: dict[str, int]) -> None:
    """Fits `shape`, where each named dimension has one size throughout a sequence, collected in `sizes`."""
    if array.dtype != dtype or array.ndim != len(shape):
        raise ProbeError(f"{label}: is {array.dtype} {array.shape}, not {dtype} {shape}")
    for size, dimension in zip(array.shape, shape, strict=True):
        wanted = sizes.setdefault(dimension, size) if isinstance(dimension, str) else dimension
        if size != wanted or size == 0:
            raise ProbeError(f"{label}: has shape {array.shape}, not {shape} with {sizes}")
    if not np.isfinite(array).all():
        raise ProbeError(f"{label}: holds numbers that are not finite")


def _check_coverage(peer_counts: set[int], trained_peers: int) -> None:
    if peer_counts and not (1 in peer_counts and max(peer_counts) > trained_peers):
        raise ProbeError(f"probes cover {sorted(peer_counts)} peers; they need 1 and more than {trained_peers}")
