"""TensorFlow's data types, without TensorFlow: their names, numbers in messages and NumPy types.

The names of the attributes are those of `tf.DType`.
"""

import dataclasses
import functools
from typing import Any

import ml_dtypes
import numpy as np

from bert_tf.serving.server.tensorflow_messages import types_pb2

# DataType's name without DT_ -> NumPy's type; the others have none that a request or an answer could hold.
_NUMPY = {
    "FLOAT": np.float32, "DOUBLE": np.float64, "INT32": np.int32, "UINT8": np.uint8, "INT16": np.int16,
    "INT8": np.int8, "STRING": np.object_, "COMPLEX64": np.complex64, "INT64": np.int64, "BOOL": np.bool_,
    "BFLOAT16": ml_dtypes.bfloat16, "UINT16": np.uint16, "COMPLEX128": np.complex128, "HALF": np.float16,
    "UINT32": np.uint32, "UINT64": np.uint64,
}  # fmt: skip
_FIRST_REFERENCE = 100  # numbers above it are those of references to the same types


@dataclasses.dataclass(frozen=True)
class DType:
    """A data type.

    Attributes:
        name: as TensorFlow has it, such as "float32".
        as_datatype_enum: its number in DataType.
        as_numpy_dtype: NumPy's type; None for one that requests and answers cannot represent.
    """

    name: str
    as_datatype_enum: int
    as_numpy_dtype: Any = None

    @property
    def size(self) -> int:
        """Bytes of an element; 0 for strings and types without a NumPy type."""
        is_fixed = self.as_numpy_dtype not in (None, np.object_)
        return np.dtype(self.as_numpy_dtype).itemsize if is_fixed else 0

    @property
    def is_integer(self) -> bool:
        """Whether it is a type of whole numbers."""
        return self.as_numpy_dtype is not None and np.issubdtype(self.as_numpy_dtype, np.integer)

    @property
    def is_floating(self) -> bool:
        """Whether it is a type of floating-point numbers."""
        kind = self.as_numpy_dtype
        return kind is ml_dtypes.bfloat16 or (kind is not None and np.issubdtype(kind, np.floating))


@functools.cache
def as_dtype(kind: Any) -> DType:
    """Returns the data type of a number in DataType, or of a NumPy dtype; of strings, that of objects.

    Raises:
        ValueError: there is no such type.
    """
    if isinstance(kind, int):
        name = types_pb2.DataType.Name(kind % _FIRST_REFERENCE).removeprefix("DT_")
        numpy = _NUMPY.get(name)
        own = name.lower() if numpy in (None, np.object_) else np.dtype(numpy).name
        return DType(own + "_ref" * (kind > _FIRST_REFERENCE), kind, numpy)
    wanted = np.dtype(kind)
    wanted = np.dtype(object) if wanted.kind in "SU" else wanted
    for name, numpy in _NUMPY.items():
        if np.dtype(numpy) == wanted:
            return as_dtype(types_pb2.DataType.Value(f"DT_{name}"))
    raise ValueError(f"TensorFlow has no data type for NumPy's {wanted}.")


STRING, BOOL, FLOAT32, FLOAT64 = map(as_dtype, (object, np.bool_, np.float32, np.float64))
