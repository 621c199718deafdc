"""The binary extension of KServe's V2 protocol: tensors as bytes after the JSON of a request or a response.

A header states the length of the JSON. Numbers are in row-major order and little-endian; a string is its length, in
four bytes, and its bytes.
"""

import math
import re
import struct
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from bert_tf.serving.errors import invalid
from bert_tf.serving.limits import Limits
from bert_tf.serving.server.json_values import quoted
from bert_tf.serving.server.protocols.adapter import BinaryResponse
from bert_tf.utils.counts import number_of

HEADER = "Inference-Header-Content-Length"
SIZE = "binary_data_size"  # parameter of a tensor
_LENGTH = struct.Struct("<I")


class TensorBytes:
    """The bytes after the JSON of a request, of which each tensor takes the next ones.

    Args:
        data: all of them.
    """

    def __init__(self, data: bytes | memoryview = b""):
        self._data, self._taken = memoryview(data), 0

    def take(self, size: int, alias: str) -> memoryview:
        """Returns the next `size` bytes, those of the input `alias`; raises ServingError if there are fewer."""
        left = len(self._data) - self._taken
        if not 0 <= size <= left:
            raise invalid(f"'{SIZE}' of the input {alias} must be from 0 to {left}, the bytes left; got {size}")
        self._taken += size
        return self._data[self._taken - size : self._taken]

    def check_end(self):
        """Raises ServingError if there are bytes that no tensor has taken."""
        if self._taken < len(self._data):
            left = len(self._data) - self._taken
            raise invalid(f"The body has {left} bytes after its tensors; state the '{SIZE}' of every tensor in bytes")


def split_body(body: bytes, headers: Mapping[str, str]) -> tuple[bytes, TensorBytes]:
    """Returns the JSON of a body and the bytes after it; raises ServingError if the header is invalid."""
    stated = headers.get(HEADER)
    if stated is None:
        return body, TensorBytes()
    if not re.fullmatch(r"[0-9]{1,15}", stated) or int(stated) > len(body):
        raise invalid(f"{HEADER} must be a number of bytes, at most {len(body)}; got {quoted(stated)}")
    return body[: int(stated)], TensorBytes(memoryview(body)[int(stated) :])


def read_tensor(
    data: memoryview, shape: Sequence[int], kind: type[np.generic], alias: str, limits: Limits
) -> np.ndarray:
    """Returns the array of a tensor.

    Args:
        data: its bytes.
        shape: sizes of its axes.
        kind: type of its elements; np.object_ for strings.
        alias: name of the input, for errors.
        limits: limits of the request.

    Raises:
        ServingError: the bytes do not match the shape, or a string is too long.
    """
    count = math.prod(shape)
    if kind is np.object_:
        array = np.empty(count, object)
        array[:] = _read_strings(data, count, alias, limits)
        return array.reshape(shape)
    dtype = np.dtype(np.uint8 if kind is np.bool_ else kind).newbyteorder("<")
    size = count * dtype.itemsize
    if len(data) != size:
        raise invalid(f"The input {alias} must have {size} bytes, according to its shape and type; got {len(data)}")
    array = np.frombuffer(data, dtype).reshape(shape)
    if kind is np.bool_ and array.size and array.max() > 1:
        raise invalid(f"The bytes of the input {alias} must be 0 or 1, because it is BOOL; got {array.max()}")
    return array.astype(kind)


def _read_strings(data, count, alias, limits):
    found, at = [], 0
    for _ in range(count):
        end = at + _LENGTH.size
        if end > len(data):
            break
        size, at = *_LENGTH.unpack_from(data, at), end
        limits.check_text(size)
        if at + size > len(data):
            break
        found.append(data[at : at + size])
        at += size
    if len(found) < count or at != len(data):
        raise invalid(
            f"The bytes of the input {alias} must be {number_of(count, 'string')}, each after its length in four "
            f"bytes; got {len(found)} in {at} of {len(data)} bytes"
        )
    limits.check_texts([*map(len, found)])
    return [*map(bytes, found)]


def write_tensor(array: np.ndarray) -> bytes:
    """Returns the bytes of an array; strings are objects of type bytes."""
    if array.dtype.hasobject:
        return b"".join(part for each in array.ravel() for part in (_LENGTH.pack(len(each)), each))
    return array.astype(array.dtype.newbyteorder("<")).tobytes()


def binary_response(document: str, tensors: Iterable[bytes]) -> BinaryResponse:
    """Returns the response with the tensors after the JSON `document`."""
    head = document.encode("utf-8", "replace")
    return BinaryResponse(b"".join([head, *tensors]), {HEADER: str(len(head))})
