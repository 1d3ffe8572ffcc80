"""Whether an ONNX file keeps data in another file, which its own fingerprint would not cover.

ONNX Runtime reads such a file as it opens the graph. So every tensor that the file can hold is looked at first, by the
field numbers of onnx.proto (https://github.com/onnx/onnx, IR version 13); the rest of it is of no interest here.
"""

from functools import cache
from typing import Any

from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.message import DecodeError

_EXTERNAL_DATA, _DATA_LOCATION = 13, 14  # of a tensor; a location of 0 is "in this file"
_FIELDS: dict[str, dict[int, Any]] = {  # message: number of a field, and its type or the message in it
    "Model": {7: "Graph", 20: "Training", 25: "Function"},
    "Training": {1: "Graph", 2: "Graph"},
    "Function": {7: "Node", 11: "Attribute"},
    "Graph": {1: "Node", 5: "Tensor", 15: "SparseTensor"},
    "Node": {5: "Attribute"},
    "Attribute": {5: "Tensor", 6: "Graph", 10: "Tensor", 11: "Graph", 22: "SparseTensor", 23: "SparseTensor"},
    "SparseTensor": {1: "Tensor", 2: "Tensor"},
    "Tensor": {_EXTERNAL_DATA: Field.TYPE_BYTES, _DATA_LOCATION: Field.TYPE_INT64},
}


def keeps_data_elsewhere(model: bytes) -> bool:
    """Whether any tensor of a serialised ONNX model has its data elsewhere. Raises ValueError if it is no protobuf."""
    try:
        todo = [_model_type().FromString(model)]
    except DecodeError as error:
        raise ValueError(f"is not a sound ONNX file: {error}") from error
    while todo:
        for field, values in todo.pop().ListFields():
            if field.message_type:
                todo += values
            elif field.number == _EXTERNAL_DATA or any(values):
                return True
    return False


@cache
def _model_type() -> Any:
    """The part of ModelProto above. All fields are lists: of one that stands twice, protobuf joins or drops values."""
    file = FileDescriptorProto(name="phalanx/tensors.proto", package="phalanx")
    for name, fields in _FIELDS.items():
        message = file.message_type.add(name=name)
        for number, kind in fields.items():
            inner = {"type": Field.TYPE_MESSAGE, "type_name": f".phalanx.{kind}"}
            what = inner if isinstance(kind, str) else {"type": kind}
            message.field.add(name=f"f{number}", number=number, label=Field.LABEL_REPEATED, **what)
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("phalanx.Model"))
