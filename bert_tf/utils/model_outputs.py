"""Checks what a model returns, before it is taken for an answer."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np


def check_finite_outputs(arrays: Iterable[np.ndarray], remedy: str, examples: Sequence[Any] | None = None):
    """Checks that outputs are finite: softmax or a maximum would turn NaN and infinity into predictions.

    Args:
        arrays: outputs [n, ...]; those of other types than floating-point numbers pass, and so does -inf, which marks
            choices that are excluded.
        remedy: advice that ends the message.
        examples: names or numbers of the n examples. If None, they are counted from 0.

    Raises:
        ValueError: an output is NaN or infinite.
    """
    for array in arrays:
        if not np.issubdtype(array.dtype, np.floating) or (array < np.inf).all():  # comparisons with NaN are False
            continue
        rows = np.flatnonzero(~(array < np.inf).reshape(len(array), -1).all(1))
        first = rows[0] if examples is None else examples[rows[0]]
        raise ValueError(
            f"The model outputs NaN or infinity for {len(rows):,} of {len(array):,} examples, the first of them "
            f"example {first} (counted from 0). Its weights are finite, but activations overflow. {remedy}"
        )
