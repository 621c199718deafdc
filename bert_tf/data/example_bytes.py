"""Rows of numbers to the bytes of tf.train.Example messages, for thousands of rows at once.

Building one message after the other with the protobuf library takes more than ten times as long as this, for it turns
each number into a Python object. tf.io.encode_proto makes the same bytes, in five nested steps, and takes twice as long
or longer.
"""

from typing import NamedTuple

import numpy as np

from bert_tf.data import ragged
from bert_tf.data.ragged import Ragged

_ROWS = 2048  # laid out at a time: about 4 MB, which stay in the processor's cache

# Tags of the protocol buffer fields, (number of the field << 3) + 2 for "a length and so many bytes follow". From
# tensorflow/core/example/example.proto and feature.proto; in a map<string, Feature> every entry is a small message.
_FIRST = b"\x0a"  # Example.features, Features.feature, the key of an entry, and Int64List.value or FloatList.value
_SECOND = b"\x12"  # the value of an entry, and Feature.float_list
_THIRD = b"\x1a"  # Feature.int64_list


class _Part(NamedTuple):
    """A part of every row's message, laid out in columns of which a row uses some.

        number   bytes      used
             5   05 00      1 0
           300   ac 02      1 1

    Attributes:
        columns: list of (bytes uint8 [n, w], used bool [n, w]); n is 1 where all rows are alike.
        lengths: int64 [n], how many bytes each row uses.
    """

    columns: list
    lengths: np.ndarray


def serialize(features: dict) -> Ragged:
    """Returns each row of the features as the bytes of a tf.train.Example.

        input_ids   [[101, 7592, 102],       0a 1a 0a 18 0a 09 "input_ids" 12 0b 1a 09 0a 07 65 a8 3b 66 ...
                     [101, 102, 0]]

    The features are in the order of their names, so equal rows have equal bytes; they are those which protobuf's
    deterministic serialization writes.

    Args:
        features: {name: [n, k]}, one feature at least; integers become an Int64List, floats a FloatList.

    Returns:
        Ragged uint8 of n rows.
    """
    names = sorted(features)
    values = {name: np.asarray(features[name]) for name in names}
    n = len(values[names[0]])
    assert all(v.ndim == 2 and len(v) == n for v in values.values()), {name: v.shape for name, v in values.items()}
    chunks = [_serialize({k: v[i : i + _ROWS] for k, v in values.items()}) for i in range(0, n, _ROWS)]
    return ragged.concatenate(chunks) if chunks else ragged.NOTHING


def _serialize(values):
    """`serialize` for rows that fit into the cache together; one at least."""
    entries = [_entry(name, rows) for name, rows in values.items()]
    columns = [column for entry in entries for column in entry.columns]
    example = _field(_FIRST, _Part(columns, sum(entry.lengths for entry in entries)))
    shape = len(example.lengths), sum(used.shape[1] for _, used in example.columns)
    layout, used = np.empty(shape, np.uint8), np.empty(shape, bool)
    at = 0
    for its_bytes, its_used in example.columns:
        to = at + its_used.shape[1]
        layout[:, at:to], used[:, at:to] = its_bytes, its_used
        at = to
    return Ragged.of_lengths(np.compress(used.ravel(), layout.ravel()), example.lengths)


def _entry(name, rows):
    """Returns the entry of the map for one feature, [n, k]."""
    assert rows.dtype.kind in "iuf", f"{name}: {rows.dtype}"
    kind, numbers = (_SECOND, _floats(rows)) if rows.dtype.kind == "f" else (_THIRD, _varints(rows))
    feature = _field(kind, _field(_FIRST, numbers))
    key = name.encode()
    assert len(key) < 128, name  # else its length would take two bytes
    return _field(_FIRST, _field(_FIRST + bytes([len(key)]) + key + _SECOND, feature))


def _field(head, body):
    """Returns `head`, the length of `body`, and `body`."""
    size = _varints(body.lengths[:, None])
    head = np.frombuffer(head, np.uint8)[None]
    columns = [(head, np.ones(head.shape, bool)), *size.columns, *body.columns]
    return _Part(columns, head.size + size.lengths + body.lengths)


def _floats(rows):
    """Returns [n, k] floats as little-endian float32, four bytes each."""
    its_bytes = np.ascontiguousarray(rows, "<f4").view(np.uint8)
    return _Part([(its_bytes, np.ones((1, its_bytes.shape[1]), bool))], np.full(len(rows), its_bytes.shape[1]))


def _varints(rows):
    """Returns [n, k] integers as varints: seven bits a byte, the lowest first; the top bit says that more follow.

    A negative number is written as the 64 bits of its two's complement, as protobuf does: ten bytes.
    """
    n, k = rows.shape
    largest = int(rows.max(initial=0)) if rows.min(initial=0) >= 0 else 2**64 - 1
    bits = rows.astype(np.uint32) if largest < 2**32 else rows.astype(np.uint64)
    width = max(1, -(-largest.bit_length() // 7))
    its_bytes, used = np.empty((n, k, width), np.uint8), np.empty((n, k, width), bool)
    used[..., 0] = True
    for place in range(width):
        its_bytes[..., place] = bits & 0x7F
        bits >>= 7
        if place + 1 < width:
            more = bits > 0
            its_bytes[..., place] |= more.view(np.uint8) << 7
            used[..., place + 1] = more
    used = used.reshape(n, k * width)
    return _Part([(its_bytes.reshape(n, k * width), used)], np.count_nonzero(used, axis=1))
