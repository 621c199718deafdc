"""Weights of examples that the estimators accept, and the choice of examples by them."""

from collections.abc import Sequence
from typing import Any

import numpy as np


def as_weights(sample_weight, inputs: Sequence) -> np.ndarray:
    """Returns the weights of n examples, float64 [n], divided by the largest.

    Raises:
        ValueError: their number is another, one is negative, NaN or infinite, or all are 0.
    """
    weights = np.asarray(sample_weight)
    if weights.shape != (len(inputs),):
        raise ValueError(
            f"`sample_weight` must be {len(inputs)} numbers, one per example; got an array of shape "
            f"{weights.shape}."
        )
    try:
        weights = weights.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"`sample_weight` must be numbers: {error}.") from error
    wrong = np.flatnonzero(~((weights >= 0) & (weights < np.inf)))
    if len(wrong):
        raise ValueError(
            f"`sample_weight` must be finite, non-negative numbers; got {weights[wrong[0]]} for example {wrong[0]}; "
            "pass 0 to leave the example out."
        )
    if not weights.any():
        raise ValueError("`sample_weight` must be above 0 for some examples: all sample weights are zero.")
    return weights / weights.max()


def select(values: Any, chosen: np.ndarray) -> Any:
    """Returns the chosen ones of an array or a list."""
    return values[chosen] if isinstance(values, np.ndarray) else [values[i] for i in chosen]
