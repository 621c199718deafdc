"""The pieces of a batch one below the other: what products and norms read, in graphs for processors.

Then no operation has to find out shapes, which a short text has hundreds of; only attention needs to know which pieces
are of one row.
"""

from collections.abc import Mapping, Sequence

import tensorflow as tf

from bert_tf.models.graph_forms import FLAT_ROWS, FUSED_INT8, is_wanted, notes

_BATCH = "batch"  # among the notes: B and S
_LEAST_STEP = 8  # pieces


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


def join(x: tf.Tensor) -> tf.Tensor:
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
