"""Whether an ONNX file keeps data in another file, which its own fingerprint would not cover.

ONNX Runtime reads such a file as it opens the graph. So the file's bytes are read here first, as protobuf: every
tensor there can be, with the field numbers of onnx.proto (https://github.com/onnx/onnx, IR version 13).
"""

from collections.abc import Iterator

# What may hold a tensor: message, number of a field, message in that field.
_HOLDS = {
    "model": {7: "graph", 20: "training", 25: "function"},
    "training": {1: "graph", 2: "graph"},
    "function": {7: "node", 11: "attribute"},
    "graph": {1: "node", 5: "tensor", 15: "sparse tensor"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse tensor", 23: "sparse tensor"},
    "sparse tensor": {1: "tensor", 2: "tensor"},
    "tensor": {},
}
_EXTERNAL_DATA, _DATA_LOCATION = 13, 14  # of a tensor; a location of 0 is "in this file"
_VARINT, _FIXED, _BYTES = 0, {1: 8, 5: 4}, 2  # wire types; of the fixed ones, bytes
_LARGEST = 1 << 32  # protobuf's libraries cut the numbers and lengths of fields to 32 bits


def keeps_data_elsewhere(model: bytes) -> bool:
    """Whether any tensor of a serialised ONNX model has its data elsewhere. Raises ValueError if it is no protobuf."""
    todo = [("model", 0, len(model))]
    while todo:
        message, start, end = todo.pop()
        for number, value, stop in _fields(model, start, end):
            if message == "tensor" and (number == _EXTERNAL_DATA or (number == _DATA_LOCATION and value != 0)):
                return True
            if stop is not None and (inner := _HOLDS[message].get(number)):
                todo.append((inner, value, stop))
    return False


def _fields(data: bytes, at: int, end: int) -> Iterator[tuple[int, int, int | None]]:
    """Number and value of each field; of one that has a length: where it starts, and where it ends."""
    while at < end:
        tag, at = _varint(data, at, end)
        if tag >= _LARGEST:
            raise ValueError("is not a sound ONNX file: a field's number is too large")
        number, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            value, at = _varint(data, at, end)
            yield number, value, None
            continue
        if kind == _BYTES:
            size, at = _varint(data, at, end)
        elif (size := _FIXED.get(kind, -1)) < 0:
            raise ValueError(f"is not a sound ONNX file: a field of protobuf's wire type {kind}")
        if size > end - at:
            raise ValueError("is not a sound ONNX file: a field is longer than what holds it")
        yield number, at, at + size if kind == _BYTES else None
        at += size


def _varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """The number at `at`, seven bits per byte, and where the next one starts."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= end:
            break
        byte, at = data[at], at + 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise ValueError("is not a sound ONNX file: a number without an end")
