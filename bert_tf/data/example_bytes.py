"""Bytes of features serialized as tf.train.Example messages, thousands of examples at once.

Creating messages one by one with the protobuf library takes more than ten times as long, because it converts each
number to a Python object. tf.io.encode_proto creates the same bytes, in five nested steps, but takes at least twice
as long.
"""

from typing import NamedTuple

import numpy as np

from bert_tf.data.ragged import NOTHING, Ragged, concatenate_features

_ROWS = 2048  # serialized at a time: about 4 MB, which stay in the processor's cache

# Tags of the protocol buffer fields, (number of the field << 3) + 2 for "a length and so many bytes follow". From
# tensorflow/core/example/example.proto and feature.proto; in a map<string, Feature> every entry is a small message.
_FIRST = b"\x0a"  # Example.features, Features.feature, the key of an entry, and Int64List.value or FloatList.value
_SECOND = b"\x12"  # the value of an entry, and Feature.float_list
_THIRD = b"\x1a"  # Feature.int64_list


class _Part(NamedTuple):
    """A part of every example's message, as columns, some of which each example uses.

        number   bytes      used
             5   05 00      1 0
           300   ac 02      1 1

    Attributes:
        columns: list of (bytes uint8 [n, w], used bool [n, w]); n is 1 if all examples are the same.
        lengths: int64 [n], number of bytes of each example.
    """

    columns: list
    lengths: np.ndarray


def serialize(features: dict) -> Ragged:
    """Serializes each example's features as a tf.train.Example.

        input_ids   [[101, 7592, 102],       0a 1a 0a 18 0a 09 "input_ids" 12 0b 1a 09 0a 07 65 a8 3b 66 ...
                     [101, 102, 0]]

    Features are sorted by name, so equal examples have equal bytes, the same as those of protobuf's deterministic
    serialization.

    Args:
        features: {name: [n, k]}, at least one feature; integers become an Int64List, floats a FloatList.

    Returns:
        Ragged uint8 of n examples.
    """
    names = sorted(features)
    values = {name: np.asarray(features[name]) for name in names}
    n = len(values[names[0]])
    assert all(v.ndim == 2 and len(v) == n for v in values.values()), {name: v.shape for name, v in values.items()}
    chunks = [_serialize({k: v[i : i + _ROWS] for k, v in values.items()}) for i in range(0, n, _ROWS)]
    return concatenate_features(chunks) if chunks else NOTHING


def _serialize(values):
    """Like `serialize`, for at least one example, and no more than fit into the cache together."""
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
    assert rows.dtype.kind in "iuf", f"{name}: {rows.dtype}"
    kind, numbers = (_SECOND, _floats(rows)) if rows.dtype.kind == "f" else (_THIRD, _varints(rows))
    feature = _field(kind, _field(_FIRST, numbers))
    key = name.encode()
    assert len(key) < 128, name  # otherwise its length would take two bytes
    return _field(_FIRST, _field(_FIRST + bytes([len(key)]) + key + _SECOND, feature))


def _field(head, body):
    size = _varints(body.lengths[:, None])
    head = np.frombuffer(head, np.uint8)[None]
    columns = [(head, np.ones(head.shape, bool)), *size.columns, *body.columns]
    return _Part(columns, head.size + size.lengths + body.lengths)


def _floats(rows):
    """Returns [n, k] floats as little-endian float32, four bytes each."""
    its_bytes = np.ascontiguousarray(rows, "<f4").view(np.uint8)
    return _Part([(its_bytes, np.ones((1, its_bytes.shape[1]), bool))], np.full(len(rows), its_bytes.shape[1]))


def _varints(rows):
    """Returns [n, k] integers as varints: seven bits per byte, lowest first; the top bit is set if more follow.

    A negative number is written as its 64-bit two's complement, as in protobuf: ten bytes.
    """
    n, k = rows.shape
    largest = int(rows.max(initial=0)) if rows.min(initial=0) >= 0 else 2**64 - 1
    bits = rows.astype(np.uint32) if largest < 2**32 else rows.astype(np.uint64)
    width = max(1, -(-largest.bit_length() // 7))
    its_bytes, used = np.empty((n, k, width), np.uint8), np.empty((n, k, width), bool)
    used[..., 0] = True
    for index in range(width):
        its_bytes[..., index] = bits & 0x7F
        bits >>= 7
        if index + 1 < width:
            more = bits > 0
            its_bytes[..., index] |= more.view(np.uint8) << 7
            used[..., index + 1] = more
    used = used.reshape(n, k * width)
    return _Part([(its_bytes.reshape(n, k * width), used)], np.count_nonzero(used, axis=1))
