"""Sequence packing: short texts share a row, each attending only to itself; and flat batches."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import tensorflow as tf

from bert_tf.models.graph_forms import FLAT_ROWS, FUSED_INT8, is_wanted, notes

# === Flat rows ===
# The tokens of a batch one below the other: what products and norms read, in graphs for processors.
#
# Then no operation has to find out shapes, which a short text has hundreds of; only attention needs to know which
# tokens are of one row.


_BATCH = "batch"  # among the notes: B and S
_LEAST_STEP = 8  # tokens


def flatten(input_mask: tf.Tensor, features: Sequence[tf.Tensor | None]) -> list[tf.Tensor | None]:
    """Returns int32 [P] of each [B, S] where that is wanted, else what is given.

    P is B S. With products of integers whose ranges are known, zeros follow: oneDNN makes a kernel for each product and
    each number of rows, which takes as long as a short text's product, and keeps the last thousand. So P is then the
    next of a few numbers: eight for each power of two, multiples of 8.

    Args:
        input_mask: int32 [B, S], from whose shape `unflatten` makes its own. Grappler must see that the mask of
            attention's product has the batch of the scores, or it keeps the two apart.
        features: of the same shape, or None.
    """
    found = notes(FLAT_ROWS)
    if found is None:
        return list(features)
    found[_BATCH] = B, S = _batch_of(input_mask)
    pieces = [None if each is None else tf.reshape(each, [-1]) for each in features]
    return pieces if not is_wanted(FUSED_INT8) else [each if each is None else _fill_up(each, B * S) for each in pieces]


def with_positions(features: Mapping[str, tf.Tensor]) -> Mapping[str, tf.Tensor]:
    """Returns features [B, S] with `position_ids`, 0 to S - 1, where rows will be flat, else as they are."""
    if not is_wanted(FLAT_ROWS) or "position_ids" in features:
        return features
    B, S = _batch_of(features["input_mask"])
    return dict(features) | {"position_ids": tf.tile(tf.range(S)[tf.newaxis], [B, 1])}


def _fill_up(pieces, number):
    powers = 2 ** tf.range(4, 31)
    step = tf.maximum(powers[tf.searchsorted(powers, [number])[0]] // 16, _LEAST_STEP)
    return with_zeros(pieces, -(-number // step) * step)


def unflatten(x: tf.Tensor, *last: int) -> tf.Tensor:
    """Returns float [B, S, *last] of what was made of flat rows, [P, H]; and of [B, S, H].

    Args:
        last: a shape of H numbers; none: H.
    """
    batch = (notes(FLAT_ROWS) or {}).get(_BATCH)
    if not batch and not last:
        return x
    B, S = batch or _batch_of(x)
    last = last or x.shape[-1:]
    return tf.reshape(as_rows(x)[: B * S] if is_wanted(FUSED_INT8) else x, [B, S, *last])


def merge_heads(x: tf.Tensor) -> tf.Tensor:
    """Returns the last two dimensions of [B, S, A, D] as one, [B, S, A D], or [B S, A D] where rows are flat."""
    first = [-1] if _BATCH in (notes(FLAT_ROWS) or {}) else _batch_of(x)
    return tf.reshape(x, [*first, x.shape[2] * x.shape[3]])


def _batch_of(x):
    return tf.shape(x)[0], tf.shape(x)[1]


def as_rows(x: tf.Tensor) -> tf.Tensor:
    """Returns [N, H] of [..., H]."""
    return x if x.shape.rank == 2 else tf.reshape(x, [-1, x.shape[-1]])


def with_zeros(rows: tf.Tensor, number: tf.Tensor) -> tf.Tensor:
    """Returns [number, ...]: zeros behind the rows that are there."""
    return tf.concat([rows, tf.zeros([number - tf.shape(rows)[0], *rows.shape[1:]], rows.dtype)], 0)


# === Row packing ===


ROW = 96  # tokens of a row that holds several texts, unless one alone is longer
_MOST_REAL, _ALL = 4, 5  # with four fifths or more of its tokens no padding, a batch stays as it is
_DOUBLINGS = 16  # so that a batch may come to 2^16 rows


class PackedBatch(NamedTuple):
    """A batch [B, S] in rows [R, L].

    Attributes:
        features: {name: int32 [R, L]} of what it has for its tokens, 0 for padding. Besides `sentence_ids` [R, L], the
            number of the token's text, from 1 on, or [R, 1] where rows are texts, and `position_ids` [R, L], its own
            there, from 0 on.
        places: int32 [B, S]: the number of each token in the rows; that of padding is the one of the text's first, if
            rows are packed.
    """

    features: dict[str, tf.Tensor]
    places: tf.Tensor

    def batch(self, values: tf.Tensor) -> tf.Tensor:
        """Returns [B, S, H] of what the rows have for their tokens, [R, L, H] or flat."""
        return tf.gather(as_rows(values), self.places)

    def first(self, values: tf.Tensor) -> tf.Tensor:
        """Returns [B, H], of each text's first token."""
        return tf.gather(as_rows(values), self.places[:, 0])


class Whole(NamedTuple):
    """A batch whose rows are computed as they are."""

    features: Mapping[str, tf.Tensor]

    def batch(self, values: tf.Tensor) -> tf.Tensor:
        """Returns [B, S, H] as it is, or of flat rows."""
        return unflatten(values)

    def first(self, values: tf.Tensor) -> tf.Tensor:
        """Returns [B, H], of each row's first token."""
        return unflatten(values)[:, 0]


def pack_batch(features: Mapping[str, tf.Tensor]) -> PackedBatch:
    """Returns rows for a batch: packed ones where a fifth of it or more is padding, else those that it has.

    Which it is, is decided when the graph runs. Texts go into rows from the longest to the shortest, the next one into
    a new row where it does not fit.

    Args:
        features: {name: int32 [B, S]}, among them `input_mask`, 1 for a token and 0 for padding; S is 1 at least.
            Padding before a text's last token stays.
    """
    mask = features["input_mask"]
    few = _ALL * tf.reduce_sum(mask) < _MOST_REAL * tf.size(mask)
    rows = tf.cond(few, lambda: _packed(features), lambda: _as_it_is(features))
    # Grappler must see that both are of as many rows, or it keeps attention's product and its mask apart.
    found = rows.features
    number = tf.shape(found["input_mask"])[0]
    same = {name: tf.reshape(found[name], [number, -1]) for name in ("input_mask", "sentence_ids")}
    return rows._replace(features=found | same)


def _as_it_is(features):
    B, S = tf.unstack(tf.shape(features["input_mask"]))
    more = {"sentence_ids": tf.ones([B, 1], tf.int32), "position_ids": tf.tile(tf.range(S)[tf.newaxis], [B, 1])}
    return PackedBatch(dict(features) | more, tf.reshape(tf.range(B * S), [B, S]))


def _packed(features):
    mask = features["input_mask"]
    S = tf.shape(mask)[1]
    lengths = tf.reduce_max(tf.maximum(mask * tf.range(1, S + 1), 1), 1)  # one without tokens has a place, too
    places, sources = _layout(lengths, S)
    found = {name: tf.gather(tf.reshape(values, [-1]), tf.maximum(sources, 0)) for name, values in features.items()}
    rows = {name: tf.where(sources < 0, 0, values) for name, values in found.items()}
    return PackedBatch(rows | {"sentence_ids": sources // S + 1, "position_ids": sources % S}, places)


def _layout(lengths, S):
    """Returns the `places` of `PackedBatch` and, int32 [R, L], the number in the batch of each token of the rows.

    Numbers count row by row; -1: padding.
    """
    columns = tf.range(S)
    inside = tf.where(columns < lengths[:, tf.newaxis], columns, 0)
    order = tf.argsort(lengths, direction="DESCENDING", stable=True)
    lengths = tf.gather(lengths, order)
    ends = tf.cumsum(lengths)
    starts = ends - lengths
    row = _row_of_each(starts, ends, tf.maximum(lengths[0], ROW))
    offsets = starts - tf.gather(tf.math.segment_min(starts, row), row)
    width = tf.reduce_max(offsets + lengths)
    firsts = row * width + offsets  # where each text begins, ascending
    places = tf.gather(firsts, tf.math.invert_permutation(order))[:, tf.newaxis] + inside

    slots = tf.range((row[-1] + 1) * width)
    text = tf.searchsorted(firsts, slots, side="right") - 1
    column = slots - tf.gather(firsts, text)
    sources = tf.where(column < tf.gather(lengths, text), tf.gather(order, text) * S + column, -1)
    return places, tf.reshape(sources, [-1, width])


def _row_of_each(starts, ends, most):
    """Returns int32 [B], the number of the row of each text, for rows of `most` tokens that are filled one by one.

    A row that begins with text i ends before text `after[i]`, with which the next one begins. Which texts are reached
    so from the first is found in steps of 1, 2, 4, ... rows.
    """
    number = tf.size(starts)
    after = tf.concat([tf.searchsorted(ends, starts + most, side="right"), [number]], 0)
    begins = tf.one_hot(0, number + 1, dtype=tf.int32)
    for _ in range(_DOUBLINGS):
        begins = tf.maximum(begins, tf.math.unsorted_segment_max(begins, after, number + 1))
        after = tf.gather(after, after)
    return tf.cumsum(begins[:-1]) - 1
