"""Counts what a protocol buffer holds before it is parsed: two bytes on the wire become up to forty in memory."""

import functools

import numpy as np
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from bert_tf.serving.errors import invalid
from bert_tf.serving.limits import Limits

_SMALL = 2**16  # bytes that cannot become much
_DEEPEST = 50
_TENSORS = 4  # of the largest size, in one message: what BERT takes at most
_VARINT, _EIGHT, _SIZED, _FOUR = 0, 1, 2, 5  # wire types
_WIDTHS = {
    FieldDescriptor.CPPTYPE_DOUBLE: 8,
    FieldDescriptor.CPPTYPE_FLOAT: 4,
    FieldDescriptor.CPPTYPE_INT32: 0,
    FieldDescriptor.CPPTYPE_INT64: 0,
    FieldDescriptor.CPPTYPE_UINT32: 0,
    FieldDescriptor.CPPTYPE_UINT64: 0,
    FieldDescriptor.CPPTYPE_BOOL: 0,
    FieldDescriptor.CPPTYPE_ENUM: 0,
}  # bytes of a packed number, 0 where that differs from number to number


def check(data: bytes, message: Descriptor, limits: Limits):
    """Raises ServingError where `data`, a message of that type, has too many fields or numbers.

    What is no such message passes: the parser has words for that.
    """
    if len(data) > _SMALL:
        try:
            _Scan(data, limits).walk(0, len(data), message, 0)
        except IndexError:
            return  # it ends in the middle of something


class _Scan:
    def __init__(self, data, limits):
        self._data = data
        self._limits = limits
        self._fields = limits.max_message_fields
        self._numbers = _TENSORS * limits.max_tensor_elements

    def walk(self, position, end, message, depth):
        """Counts the fields of a message that lies between `position` and `end`, and of all in it."""
        parts = _parts(message)
        while position < end:
            self._fields -= 1
            if self._fields < 0:
                raise invalid(f"A message may have {self._limits.max_message_fields} fields and has more")
            tag, position = self._varint(position)
            kind = tag & 7
            if kind == _SIZED:
                size, position = self._varint(position)
                inner, width = parts.get(tag >> 3, (None, None))
                if size > end - position:
                    raise IndexError
                if inner is not None and depth < _DEEPEST:
                    self.walk(position, position + size, inner, depth + 1)
                elif width is not None:
                    self._count(position, size, width)
                position += size
            elif kind == _VARINT:
                position = self._varint(position)[1]
            elif kind in (_EIGHT, _FOUR):
                position += 8 if kind == _EIGHT else 4
            else:
                raise IndexError

    def _count(self, position, size, width):
        """Counts packed numbers: those of no fixed width end with a byte below 128."""
        if width:
            self._numbers -= size // width
        else:
            self._numbers -= int((np.frombuffer(self._data, np.uint8, size, position) < 128).sum()) if size else 0
        if self._numbers < 0:
            most = _TENSORS * self._limits.max_tensor_elements
            raise invalid(f"A message may have {most} numbers and has more")

    def _varint(self, position):
        """Returns (value, position behind it)."""
        value = self._data[position]
        position += 1
        if value < 128:
            return value, position
        value, shift = value & 127, 7
        while True:
            byte = self._data[position]
            position += 1
            value |= (byte & 127) << shift
            if byte < 128:
                return value, position
            shift += 7
            if shift > 63:
                raise IndexError


@functools.cache
def _parts(message):
    """Returns {field number: (type of the message in it, None) or (None, width of its packed numbers)}."""
    parts = {}
    for field in message.fields:
        if field.message_type is not None:
            parts[field.number] = (field.message_type, None)
        elif field.cpp_type in _WIDTHS:
            parts[field.number] = (None, _WIDTHS[field.cpp_type])
    return parts
