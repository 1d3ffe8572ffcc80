"""ONNX Runtime sessions as a control loop needs them: one thread, nothing that spins, nothing that prints."""

from collections.abc import Mapping
from hashlib import sha256
from weakref import WeakValueDictionary

import onnxruntime as ort
from numpy.typing import NDArray

from deploy.bundle.external import keeps_data_elsewhere

_FATAL = 4  # the caller reports errors; onnxruntime's own log lines would come on top
_OPEN: WeakValueDictionary[bytes, ort.InferenceSession] = WeakValueDictionary()  # by the SHA-256 of their files


def open_session(model: bytes) -> ort.InferenceSession:
    """A session on one CPU thread. Raises ValueError when `model` is not a sound ONNX file, or not all of one.

    The same bytes have one session in a process, which any thread may run: weights that another robot's step has just
    used are in the processor's caches. What a robot remembers is not in the session, see `contract.memory`.
    """
    key = sha256(model).digest()
    if (session := _OPEN.get(key)) is None:
        session = _OPEN[key] = _open(model)
    return session


def _open(model: bytes) -> ort.InferenceSession:
    if keeps_data_elsewhere(model):
        raise ValueError("keeps weights in another file, which its fingerprint does not cover: export it in one piece")
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
    options.log_severity_level = _FATAL
    # A thread that spins between periods takes the core away from the shield and the middleware.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry("session.inter_op.allow_spinning", "0")
    try:
        return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's exceptions have no common base but Exception
        raise ValueError(f"is not a sound ONNX file: {str(error).splitlines()[0]}") from error


def run_session(session: ort.InferenceSession, inputs: Mapping[str, NDArray]) -> dict[str, NDArray]:
    """Every graph input by name in, every graph output by name out. Raises ValueError when the graph cannot run."""
    names = [output.name for output in session.get_outputs()]
    try:
        return dict(zip(names, session.run(names, dict(inputs)), strict=True))
    except Exception as error:  # as above
        raise ValueError(f"cannot run: {str(error).splitlines()[0]}") from error
