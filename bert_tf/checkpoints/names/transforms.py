"""What leads from an array as a file has it to ours, and back: never a computation, so that no number changes."""

import dataclasses
import math
from collections.abc import Callable


@dataclasses.dataclass(frozen=True)
class Transform:
    """One way of laying an array out.

    Attributes:
        to_ours: their array -> ours.
        to_theirs: (our array, number of attention heads) -> theirs.
        shape: their shape -> ours.
    """

    to_ours: Callable
    to_theirs: Callable
    shape: Callable


KEEP = Transform(lambda array: array, lambda array, heads: array, lambda shape: shape)
# Hugging Face keeps torch's [out, in] kernels; ours and TF1's are [in, out].
TRANSPOSE = Transform(lambda array: array.T, lambda array, heads: array.T, lambda shape: shape[::-1])
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
