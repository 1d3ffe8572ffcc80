"""A graph bound once to buffers of one robot, so that a control period neither allocates nor looks up a name."""

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from deploy.contract.tensor_specs import TensorSpec

_ALIGN = 16  # float32 values: 64 bytes, one cache line, what onnxruntime's kernels like best


class BoundGraph:
    """Fill `inputs[name]` in place, call `run()`, read `outputs[name]` before the next run; all with one `batch`."""

    def __init__(
        self,
        session: ort.InferenceSession,
        inputs: tuple[TensorSpec, ...],
        outputs: tuple[TensorSpec, ...],
        peers: int,
        batch: int = 1,
    ):
        self._session = session
        self._binding = session.io_binding()
        sizes = {"batch": batch, "peers": peers}
        self.inputs, self.flat_input = _allocate(inputs, sizes)
        self.outputs, self.flat_output = _allocate(outputs, sizes)
        for bind, buffers in ((self._binding.bind_input, self.inputs), (self._binding.bind_output, self.outputs)):
            for name, buffer in buffers.items():
                bind(name, "cpu", 0, buffer.dtype.type, buffer.shape, buffer.ctypes.data)

    def run(self) -> None:
        """Compute every output from the present inputs."""
        self._session.run_with_iobinding(self._binding)


def all_finite(flat: NDArray) -> bool:
    """Whether every float of an array is finite; looking for a zero byte takes half the time of `ndarray.all`."""
    return 0 not in np.isfinite(flat).tobytes()


def _allocate(tensors: tuple[TensorSpec, ...], sizes: dict[str, int]) -> tuple[dict[str, NDArray], NDArray]:
    """A zeroed buffer per tensor; the float32 ones are views of one flat array, which can be checked in one go."""
    shapes = {t.name: tuple(sizes[d] if isinstance(d, str) else d for d in t.shape) for t in tensors}
    floats = [t.name for t in tensors if t.dtype == "float32"]
    starts = np.cumsum([0] + [-(-int(np.prod(shapes[name])) // _ALIGN) * _ALIGN for name in floats])
    memory = np.zeros(int(starts[-1]) + _ALIGN, np.float32)
    first = (-memory.ctypes.data // 4) % _ALIGN
    flat = memory[first : first + int(starts[-1])]
    buffers = {
        name: flat[start : start + int(np.prod(shapes[name]))].reshape(shapes[name])
        for name, start in zip(floats, starts, strict=False)
    }
    buffers |= {t.name: np.zeros(shapes[t.name], bool) for t in tensors if t.dtype == "bool"}
    return buffers, flat
