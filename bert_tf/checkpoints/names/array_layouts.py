"""Array layouts of files, and exact conversions between them."""

import dataclasses
import math
from collections.abc import Callable


@dataclasses.dataclass(frozen=True)
class Transform:
    """A transformation between array layouts.

    Attributes:
        to_ours: their array -> ours.
        to_theirs: (our array, number of attention heads) -> theirs.
        shape: their shape -> ours.
        part, parts: the index of our weight in theirs, which contains this many of ours one after another.
    """

    to_ours: Callable
    to_theirs: Callable
    shape: Callable
    part: int = 0
    parts: int = 1


KEEP = Transform(lambda array: array, lambda array, heads: array, lambda shape: shape)
# Hugging Face keeps torch's [out, in] kernels; ours and TF1's are [in, out].
TRANSPOSE = Transform(lambda array: array.T, lambda array, heads: array.T, lambda shape: shape[::-1])


def transposed_part(part: int, parts: int) -> Transform:
    """Returns the transformation of one of the `parts` kernels, or biases, that are one array [parts * out, in]."""

    def is_whole(shape):  # otherwise their array, and its shape, stay as they are, so that it is no weight of ours
        return bool(shape) and not shape[0] % parts

    def cut(array):
        size = len(array) // parts if is_whole(array.shape) else 0
        return array[part * size : (part + 1) * size].T if size else array

    def shape(theirs):
        return (*theirs[:0:-1], theirs[0] // parts) if is_whole(theirs) else theirs

    return Transform(cut, TRANSPOSE.to_theirs, shape, part, parts)


def _turned_halves(array):
    import numpy as np  # here, as the names alone are read without it

    first, second = np.split(array, 2, -1)
    return np.concatenate([second, first], -1)


# Two gated maps in one kernel: in Hugging Face's, the activation may apply to the second half, in ours to the first.
TRANSPOSED_HALVES = Transform(
    lambda array: _turned_halves(array.T),
    lambda array, heads: _turned_halves(array).T,
    lambda shape: shape[::-1],
)

# KerasHub's kernels of attention know the heads: query, key and value [H, A, H / A], their biases [A, H / A] ...
HEADS_LAST = Transform(
    lambda array: array.reshape(*array.shape[:-2], -1),
    lambda array, heads: array.reshape(*array.shape[:-1], heads, -1),
    lambda shape: (*shape[:-2], math.prod(shape[-2:])),
)
# ... and that of attention's output [A, H / A, H].
HEADS_FIRST = Transform(
    lambda array: array.reshape(-1, array.shape[-1]),
    lambda array, heads: array.reshape(heads, -1, array.shape[-1]),
    lambda shape: (math.prod(shape[:-1]), shape[-1]),
)


def _behind_two_rows(array):
    import numpy as np  # here, as the names alone are read without it

    return np.concatenate([np.zeros((2, *array.shape[1:]), array.dtype), array])


# KerasHub's RoBERTa counts positions from 0; in ours two rows stand before them, which no token reads.
BEHIND_PADDING = Transform(_behind_two_rows, lambda array, heads: array[2:], lambda shape: (shape[0] + 2, *shape[1:]))
