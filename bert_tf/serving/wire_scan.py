"""Counts of the contents of a protocol buffer before it is parsed.

Two encoded bytes may become up to forty in memory.
"""

import functools

import numpy as np
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from bert_tf.serving.errors import invalid

_SMALL = 2**16  # bytes that cannot expand much
_DEEPEST = 50
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


def check_message(data: bytes, message: Descriptor, max_fields: int, max_numbers: int):
    """Raises ServingError if `data`, a message of this type, exceeds the limits of fields or numbers.

    Data that is not such a message passes, because the parser reports it.
    """
    if len(data) > _SMALL:
        try:
            _Scan(data, max_fields, max_numbers).walk(0, len(data), message, 0)
        except IndexError:
            return  # it ends in the middle of a field


class _Scan:
    def __init__(self, data, max_fields, max_numbers):
        self._data = data
        self._fields = self._max_fields = max_fields
        self._numbers = self._max_numbers = max_numbers

    def walk(self, position, end, message, depth):
        """Counts the fields of a message between `position` and `end`, including nested ones."""
        parts = _parts(message)
        while position < end:
            self._fields -= 1
            if self._fields < 0:
                raise invalid(f"A message may have {self._max_fields} fields and has more; send it in parts")
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
        """Counts packed numbers: those of variable width end with a byte below 128."""
        if width:
            self._numbers -= size // width
        else:
            self._numbers -= int((np.frombuffer(self._data, np.uint8, size, position) < 128).sum()) if size else 0
        if self._numbers < 0:
            raise invalid(f"A message may have {self._max_numbers} numbers and has more; send it in parts")

    def _varint(self, position):
        """Returns (value, position after it)."""
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
